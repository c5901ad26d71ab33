"""The real thing as real processes, for tests of the whole: the service, the command, the shim and a model server."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import Result

from hooks import InjectionResult, PreExecutionHook, Reason
from hooks.queue import QueueClient
from tests.support.command_line import command_line
from tests.support.forked import Forked, run_forked
from tests.support.load import Stopwatch
from tests.support.paths import ROOT
from tests.support.ports import free_port
from worker.operations.registry import EXPORT, PUT

MODEL = "openai/scripted"

CONTRACT_S = 0.010
"""Seconds that the hook may outlast a deadline."""

NOISE_S = 0.150
"""Seconds that are added to every bound on time, for other processes that use the same cores."""

READY_WITHIN_S = 90.0
STOPPED_WITHIN_S = 30.0


@dataclass(frozen=True)
class Answered:
    """A result, and the seconds that its caller waited."""

    result: InjectionResult
    seconds: float

    @property
    def ids(self) -> list[str]:
        return [item.id for item in self.result.items]

    @property
    def told(self) -> tuple[str, str | None, str, bool]:
        """Outcome, reason, engine and degraded."""
        result = self.result
        return result.outcome, result.reason, result.engine, result.degraded


async def ask(
    hook: PreExecutionHook, message: str, *, deadline_ms: int = 1500, attempts: int = 3, **fields: Any
) -> Answered:
    """One call of the hook, in a new session unless one is named; that it keeps its deadline is always checked.

    It is repeated when the worker did not take it up in time, which on busy cores a worker in good health may miss;
    tests of just that allow one of the `attempts`.
    """
    request = {"session_id": uuid.uuid4().hex, "message": message, "scope": {"tenant": "acme"}, **fields}
    while True:
        attempts -= 1
        watch = Stopwatch()
        result = await hook({**request, "deadline_ms": deadline_ms})
        seconds = watch.seconds
        assert seconds <= deadline_ms / 1000 + CONTRACT_S + NOISE_S, f"{seconds:.3f} s of {deadline_ms} ms: {result}"
        if result.reason is not Reason.NO_ACK or attempts == 0:
            return Answered(result, seconds)


async def ask_until(hook: PreExecutionHook, message: str, *, within: float, **fields: Any) -> float:
    """Ask until a block comes; the seconds that took. Fails after `within` seconds."""
    started = time.monotonic()
    while True:
        answered = await ask(hook, message, **fields)
        waited = time.monotonic() - started
        if answered.result.memory_context is not None:
            return waited
        assert waited < within, f"no block within {within} s: {answered.told}"
        await asyncio.sleep(0.05)


def fact(memory_id: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"id": memory_id, "content": content, "created_at": "2026-01-10T09:00:00Z", **fields}


async def put(url: str, memories: Sequence[dict[str, Any]], tenant: str = "acme") -> dict[str, Any]:
    """Store memories through the queue; what the service says of them."""
    client = QueueClient(url)
    try:
        reply = await client.ask(PUT.name, {"tenant": tenant, "memories": list(memories)}, budget=30.0, ack_timeout=5.0)
    finally:
        await client.aclose()
    return reply.body


async def exported(url: str, tenant: str = "acme") -> dict[str, str]:
    """Content by id of every memory of a tenant. No id may come twice."""
    client, cursor, found = QueueClient(url), None, list[tuple[str, str]]()
    try:
        while True:
            payload = {"tenant": tenant, "cursor": cursor, "limit": 200}
            page = (await client.ask(EXPORT.name, payload, budget=30.0, ack_timeout=5.0)).body
            found += [(memory["id"], memory["content"]) for memory in page["memories"]]
            cursor = page["cursor"]
            if cursor is None:
                break
    finally:
        await client.aclose()
    assert len(dict(found)) == len(found)
    return dict(found)


HTTP = {"MEESEEKS_HTTP_ENABLED": "true", "MEESEEKS_HTTP_PORT": "0"}
"""Variables of a service that also serves HTTP, at a port that is free."""


def environment(**variables: str) -> dict[str, str]:
    """This process' variables without any that concern the service, and `variables`; HTTP is off unless they say so."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEESEEKS_", "XDG_", "DBUS_"))}
    usual = {"MEESEEKS_LOG_FORMAT": "json", "MEESEEKS_LOG_LEVEL": "info", "MEESEEKS_HTTP_ENABLED": "false"}
    return {**kept, "PYTHONPATH": str(ROOT), **usual, **variables}


def command(
    folder: Path, *arguments: str, variables: Mapping[str, str] | None = None, seconds: float = 60.0
) -> "subprocess.CompletedProcess[str]":
    """Run `meeseeks` on the data folder `folder/data` to its end."""
    line = _arguments(folder, arguments)
    return run_forked(line, folder, environment(**(variables or {})), seconds=seconds)


@contextmanager
def background_service(folder: Path) -> Iterator[None]:
    """A service without a chat model that runs when the block begins; at its end, whatever runs instead is stopped."""
    alone = {"MEESEEKS_EMBEDDER": "minilm", "MEESEEKS_MODEL": "none"}
    assert command(folder, "start", variables=alone).returncode == 0
    try:
        yield
    finally:
        assert command(folder, "stop", variables=alone).returncode == 0


def _arguments(folder: Path, arguments: Sequence[str]) -> list[str]:
    return ["--data-dir", str(folder / "data"), *arguments]


def shim(
    url: str, request: Mapping[str, Any], host: str | None = None, **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run `meeseeks-hook` as a host does, with a request, or an event of `host`, on standard input."""
    return subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "hooks" / "shim.py"), *([host] if host else [])],
        env=environment(MEESEEKS_REDIS_URL=url, **variables),
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


@dataclass
class Stack:
    """A service that runs as `meeseeks ARGUMENTS --json` on the data folder `folder/data`, restarted at will."""

    folder: Path
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    process: Forked | None = None
    about: dict[str, Any] = field(default_factory=dict)
    _logged: int = 0

    @property
    def url(self) -> str:
        url: str = self.about["redis"]
        return url

    @property
    def http(self) -> str:
        """The address of its HTTP, where the variables turn that on."""
        url: str = self.about["http"]
        return url

    @property
    def pid(self) -> int:
        pid: int = self.about["pid"]
        return pid

    @property
    def log(self) -> str:
        """Everything that the service has written to standard error so far, over all its starts."""
        return (self.folder / "service.log").read_text(encoding="utf-8")

    def launch(self) -> None:
        """Start the process, and do not wait for it."""
        assert self.process is None
        out, log = self.folder / "service.out", self.folder / "service.log"
        self._logged = log.stat().st_size if log.exists() else 0
        out.write_bytes(b"")
        line = _arguments(self.folder, [*self.arguments, "--json"])
        self.process = Forked(line, self.folder, environment(**self.variables), out=out, log=log)

    def wait_until_ready(self) -> None:
        assert self.process is not None
        end = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < end:
            said = (self.folder / "service.out").read_text(encoding="utf-8")
            if said.endswith("\n}\n"):
                self.about = json.loads(said)
                assert self.about.get("ready"), said
                assert self.about["pid"] == self.process.pid
                if self.about.get("model"):
                    self.wait_for_model(self.about["model"])
                return
            assert self.process.poll() is None, self.log
            time.sleep(0.02)
        raise AssertionError(f"not ready within {READY_WITHIN_S} s: {self.log}")

    def wait_for_model(self, name: str) -> None:
        """Wait until requests reach a model, which is opened after the service is ready."""
        end = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < end:
            written = (self.folder / "service.log").read_bytes()[self._logged :].decode().splitlines()
            events = [json.loads(line) for line in written if line.startswith("{")]
            if any((event["event"], event.get("model")) == ("model_opened", name) for event in events):
                return
            time.sleep(0.02)
        raise AssertionError(f"{name} was not opened within {READY_WITHIN_S} s: {self.log}")

    def start(self) -> None:
        """Start the service and wait until it says that it is ready."""
        self.launch()
        self.wait_until_ready()

    def stop(self) -> int:
        """Ask it to end; its exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.wait()

    def wait(self) -> int:
        """Wait until it has ended; its exit status."""
        assert self.process is not None
        status = self.process.wait(STOPPED_WITHIN_S)
        self.process = None
        return status

    def kill(self) -> None:
        """End it at once, without any chance to tidy up."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Within the block the process does not run at all."""
        with frozen(self.pid):
            yield

    def command(self, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        """Run another `meeseeks` command on the same data folder, with the same variables."""
        return command(self.folder, *arguments, variables=self.variables, **options)

    def said(self, *arguments: str) -> Any:
        """Return the JSON that a command prints."""
        done = self.command(*arguments, "--json")
        assert done.returncode == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    async def command_here(self, *arguments: str) -> Result:
        """Do the same in this process, which spares loading the command; one at a time."""
        shell = command_line(self.folder, **{"MEESEEKS_EMBEDDER": "minilm", **self.variables})
        return await asyncio.to_thread(shell.run, *arguments)

    async def said_here(self, *arguments: str) -> Any:
        """Return the JSON that a command prints in this process."""
        done = await self.command_here(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@contextmanager
def running_stack(folder: Path, *arguments: str, **variables: str) -> Iterator[Stack]:
    """A service that is ready; it is killed at the end if it still runs."""
    folder.mkdir(parents=True, exist_ok=True)
    stack = Stack(folder, arguments, variables)
    try:
        stack.start()
        yield stack
    finally:
        stack.kill()


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Within the block the process does not run at all."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@dataclass
class ModelServer:
    """`tests.support.upstream` in a process of its own, always on the same port."""

    port: int
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def options(self) -> tuple[str, ...]:
        """What makes a service ask this server."""
        return ("--model", MODEL, "--model-api-base", f"{self.url}/v1")

    def start(self) -> None:
        line = [sys.executable, "-m", "tests.support.upstream", "--port", str(self.port)]
        self.process = subprocess.Popen(line, cwd=ROOT, env=environment(), stdout=subprocess.PIPE)
        assert self.process.stdout is not None
        assert json.loads(self.process.stdout.readline()) == {"url": self.url}

    def stop(self) -> None:
        """Refuse connections from now on."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def behave(self, **changes: Any) -> None:
        """Change what it does: `mode`, `delay` and `show_delay` in seconds, `keep` (needles) or `answer` (the text that
        it says)."""
        self._call("/_control", changes)

    def chats(self) -> list[dict[str, Any]]:
        """Bodies of the chat requests since it was started, without those that only warm the model up."""
        bodies = [seen["body"] for seen in self._call("/_requests", {}) if "chat" in seen["path"]]
        return [body for body in bodies if body.get("max_tokens", body.get("options", {}).get("num_predict")) != 1]

    def _call(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(request, timeout=10) as response:
            return json.loads(response.read())


@contextmanager
def running_model_server() -> Iterator[ModelServer]:
    server = ModelServer(free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()


FACTS = (
    fact("alembic", "Database migrations are written with Alembic and never by hand"),
    fact("tuesday", "Deployments to production happen on Tuesdays after the stand-up"),
    fact("invoices", "Invoices are numbered per year and country, as in 2026-DE-0042"),
)
MIGRATION = "Write the database migration for the new column, with Alembic or by hand?"
DEPLOYMENT = "When may the deployment to production happen?"
INVOICES = "How are invoices numbered per country?"
MOUNTAIN = "What is the tallest mountain of Mongolia?"

KEEP_ALL = ("Alembic", "Tuesdays", "Invoices")
"""Needles with which the scripted model chooses every one of `FACTS` that it is shown."""

MODEL_KEY = "sk-e2e-0123456789abcdef"
NEVER_LOGGED = (
    *("Alembic", "Tuesdays", "stand-up", "2026-DE-0042", "never by hand", "numbered per", "new column", "Mongolia"),
    *("secret-body", MODEL_KEY),
)
"""Words of every text above, of the model server's error pages, and the model's key."""


def assert_discreet(log: str) -> None:
    """No text of anybody, no secret and no traceback is in a log."""
    words = [word for word in (*NEVER_LOGGED, "Traceback") if word.lower() in log.lower()]
    first = log.lower().find(words[0].lower()) if words else 0
    assert not words, f"{words}: {log[first : first + 4_000]}"


@contextmanager
def discreet_worker(folder: Path, redis_url: str, **variables: str) -> Iterator[Stack]:
    """A worker without a model that knows `FACTS`; at the end it stops, and its log has told nothing of them."""
    with running_stack(folder, "--redis-url", redis_url, "worker", "--model", "none", **variables) as stack:
        asyncio.run(put(redis_url, FACTS))
        yield stack
        assert stack.stop() == 0
        assert_discreet(stack.log)
