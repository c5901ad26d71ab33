"""Run a hook as its host does: as a shell command with the event on standard input, or as an HTTP POST."""

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
    """The result of a hook; `code` is its exit code or HTTP status.

    If it timed out or could not be reached, `code` is `None` and `errors` says why.
    """

    output: bytes
    errors: str
    code: int | None
    seconds: float


async def run_command(
    command: str, event: bytes, *, shell: tuple[str, ...], limit_s: float, variables: Mapping[str, str]
) -> CommandRun:
    """Run the command in its own process group and kill that after `limit_s` seconds."""
    started = time.monotonic()
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
        text = errors[:MOST_OUTPUT_BYTES].decode("utf-8", "replace")
        return CommandRun(output[:MOST_OUTPUT_BYTES], text, process.returncode, time.monotonic() - started)
    except TimeoutError:
        return CommandRun(b"", "the command timed out", None, time.monotonic() - started)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def post(url: str, event: bytes, *, headers: Mapping[str, str], limit_s: float) -> CommandRun:
    """Send the event on a new connection."""
    started = time.monotonic()
    try:
        async with asyncio.timeout(limit_s), httpx.AsyncClient(timeout=limit_s) as client:
            answer = await client.post(url, content=event, headers={**headers, "Content-Type": "application/json"})
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
        return CommandRun(b"", f"the URL is unreachable: {type(error).__name__}", None, time.monotonic() - started)
    return CommandRun(answer.content[:MOST_OUTPUT_BYTES], "", answer.status_code, time.monotonic() - started)


def filled(value: str, allowed: tuple[str, ...], environ: Mapping[str, str]) -> str:
    """Replace `$NAME` and `${NAME}` in a header's value, with nothing for variables that are not allowed."""

    def replaced(match: re.Match[str]) -> str:
        name = match[1] or match[2]
        return environ.get(name, "") if name in allowed else ""

    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", replaced, value).strip()
