"""Runs a hook as its host does: a command through a shell with the event on standard input, or a POST of the event."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

import httpx

MOST_OUTPUT_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class CommandRun:
    """What a hook did: its output, what it wrote to standard error, exit code or HTTP status, and seconds taken.

    `code` is `None` where it did not end within its limit, or could not be asked at all; `errors` then says why.
    """

    output: bytes
    errors: str
    code: int | None
    seconds: float


async def run_command(
    command: str, event: bytes, *, shell: tuple[str, ...], limit_s: float, variables: Mapping[str, str]
) -> CommandRun:
    """The command in a process group of its own, which is ended at the limit."""
    begun = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *shell,
        command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **variables},
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(limit_s):
            output, errors = await process.communicate(event)
        told = errors[:MOST_OUTPUT_BYTES].decode("utf-8", "replace")
        return CommandRun(output[:MOST_OUTPUT_BYTES], told, process.returncode, time.monotonic() - begun)
    except TimeoutError:
        return CommandRun(b"", "it did not end in time", None, time.monotonic() - begun)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def post(url: str, event: bytes, *, headers: Mapping[str, str], limit_s: float) -> CommandRun:
    """The event as the body of a request, with a connection of its own."""
    begun = time.monotonic()
    try:
        async with asyncio.timeout(limit_s), httpx.AsyncClient(timeout=limit_s) as client:
            answer = await client.post(url, content=event, headers={**headers, "Content-Type": "application/json"})
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        return CommandRun(b"", f"the address does not answer: {type(error).__name__}", None, time.monotonic() - begun)
    return CommandRun(answer.content[:MOST_OUTPUT_BYTES], "", answer.status_code, time.monotonic() - begun)


def filled(value: str, allowed: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """A header's value with `$NAME` and `${NAME}` replaced, by nothing where the host may not pass that variable on.

    Blanks around it are dropped, as every client does.
    """

    def replaced(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return environ.get(name, "") if name in allowed else ""

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", replaced, value).strip()
