"""Evaluations in processes of their own, one at a time on a data folder, so that they take no time from requests.

Each has a file with its state below the folder of its tenant; the lock tells other processes that one runs.
"""

import asyncio
import fcntl
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import structlog
from pydantic import ValidationError

from hooks.contract import Reason
from hooks.private_files import make_private_folder, private_file
from worker.domain.errors import NotFound, OperationError, SettingsError
from worker.domain.tasks import ended
from worker.ports.evaluations import (
    EvaluationJob,
    EvaluationNews,
    EvaluationOrder,
    EvaluationPhase,
    EvaluationState,
)
from worker.settings.atomic_file import write_atomically
from worker.text.file_names import file_name_of

log = structlog.get_logger()

KEPT = 20
"""Evaluations of a tenant that are kept."""

MOST_S = 3600.0
"""Seconds after which an evaluation is ended."""

LOOK_S = 0.5
"""Seconds between two looks whether another process wants it to stop."""

ENDING_S = 10.0
"""Seconds in which a process must end that was asked to."""

MOST_LINE = 1 << 20
ENDED = "The service ended before the evaluation did. Start it again: it goes on where it was."
TOO_LONG = f"It took longer than {MOST_S / 60:.0f} minutes. Start it again: it goes on where it was."


class EvaluationProcesses:
    """A `worker.ports.evaluations.Evaluations`. `module` reads an `EvaluationJob` and prints `EvaluationNews`.

    `saved` returns the settings that are saved for all agents now.
    """

    def __init__(
        self,
        folder: Path,
        module: str,
        config: Path | None,
        overrides: Mapping[str, Any],
        saved: Callable[[], Mapping[str, Any]],
        clock: Callable[[], datetime],
    ) -> None:
        self._folder = folder
        self._command = (sys.executable, "-m", module)
        self._config = config
        self._overrides = overrides
        self._saved = saved
        self._clock = clock
        self._running: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    async def start(self, tenant: str, order: EvaluationOrder, labelled: Path | None) -> EvaluationState:
        saved, began = dict(self._saved()), self._clock()
        keys = tuple(sorted(saved))
        state = EvaluationState(id=uuid4().hex[:12], tenant=tenant, order=order, saved=keys, began=began)
        job = EvaluationJob(
            order=order, labelled=labelled, config=self._config, overrides=dict(self._overrides), saved=saved
        )
        try:
            process, lock = await self._begun(state)
        except OSError as error:
            raise SettingsError(f"cannot evaluate in {self._folder}: {error.strerror or error}") from error
        self._running = asyncio.create_task(self._watch(process, job, state, lock), name="evaluation")
        return state

    async def _begun(self, state: EvaluationState) -> tuple[asyncio.subprocess.Process, BinaryIO]:
        """Return a new process and the lock that is held for it."""
        with ExitStack() as held:
            lock = held.enter_context(await asyncio.to_thread(self._lock))
            await asyncio.to_thread(self._end_abandoned)
            await self._keep(state)
            process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=MOST_LINE,
            )
            held.pop_all()
        return process, lock

    async def latest(self, tenant: str) -> list[EvaluationState]:
        return await asyncio.to_thread(self._read_all, tenant)

    async def stop(self, tenant: str, evaluation_id: str) -> EvaluationState:
        found = next((one for one in await self.latest(tenant) if one.id == evaluation_id), None)
        if found is None:
            raise NotFound(f"there is no evaluation {evaluation_id}")
        if _runs(found):
            await asyncio.to_thread(write_atomically, self._stop_file(found), b"")
        return found

    async def aclose(self) -> None:
        """End the evaluation that runs."""
        self._closing.set()
        if self._running is not None:
            await asyncio.wait((self._running,))

    async def _watch(
        self, process: asyncio.subprocess.Process, job: EvaluationJob, state: EvaluationState, lock: BinaryIO
    ) -> None:
        """Follow a process to its end, and keep what it tells."""
        stopping = asyncio.create_task(self._reason_to_stop(state))
        reading = asyncio.create_task(self._follow(process, job, state))
        try:
            await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
            wanted = not reading.done()
            await _terminated(process)
            state = await reading
            if wanted and state.result is None:
                state = _ended(state, EvaluationPhase.STOPPED, stopping.result())
            await ended(stopping)
            await asyncio.to_thread(self._end, state.model_copy(update={"ended": self._clock()}), lock)
        except OSError as error:
            log.warning("evaluation_not_kept", id=state.id, error=str(error))
        finally:
            await ended(stopping)
            lock.close()
            log.info("evaluation_ended", id=state.id, phase=state.phase, done=state.done, total=state.total)

    async def _follow(
        self, process: asyncio.subprocess.Process, job: EvaluationJob, state: EvaluationState
    ) -> EvaluationState:
        """Hand over the job, keep each news, and return the last state."""
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(ConnectionError):  # a process that ends at once is told by its exit code
            process.stdin.write(job.model_dump_json().encode() + b"\n")
            await process.stdin.drain()
        async for line in process.stdout:
            if (news := _news(line)) is None:
                continue  # not from the process itself but from a library in it
            state = state.model_copy(update={"done": news.done, "total": news.total})
            if news.error is not None:
                return _ended(state, EvaluationPhase.FAILED, news.error)
            if news.result is not None:
                done = _ended(state, EvaluationPhase.DONE)
                return done.model_copy(update={"result": news.result})
            await self._keep(state)
        return _ended(state, EvaluationPhase.FAILED, f"Its process ended with the exit code {await process.wait()}.")

    async def _reason_to_stop(self, state: EvaluationState) -> str | None:
        """Wait until the evaluation is to stop; return why, `None` if somebody wants it."""
        file = self._stop_file(state)
        try:
            async with asyncio.timeout(MOST_S):
                while not await asyncio.to_thread(file.exists):
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._closing.wait(), LOOK_S)
                        return ENDED
        except TimeoutError:
            return TOO_LONG
        return None

    def _end(self, state: EvaluationState, lock: BinaryIO) -> None:
        """Keep the last state, and let the next one begin as soon as this is shown as ended."""
        self._stop_file(state).unlink(missing_ok=True)
        write_atomically(self._file(state), state.model_dump_json())
        lock.close()

    async def _keep(self, state: EvaluationState) -> None:
        await asyncio.to_thread(write_atomically, self._file(state), state.model_dump_json())

    def _lock(self) -> BinaryIO:
        """Return the lock of the data folder. Raise `OperationError` if an evaluation holds it."""
        make_private_folder(self._folder)
        lock = os.fdopen(private_file(self._folder / "lock"), "wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise OperationError(
                Reason.CONFLICT, "an evaluation is running; wait until it has ended, or stop it"
            ) from error
        return lock

    def _is_locked(self) -> bool:
        try:
            self._lock().close()
        except OperationError:
            return True
        return False

    def _end_abandoned(self) -> None:
        """Keep that evaluations of a killed service have failed: the lock would say that they run as the next one does.

        Only whoever holds the lock may do this.
        """
        for path in self._folder.glob("*/*.json"):
            if (one := _read(path)) and _runs(one):
                write_atomically(path, _ended(one, EvaluationPhase.FAILED, ENDED).model_dump_json())

    def _read_all(self, tenant: str) -> list[EvaluationState]:
        """Read the tenant's evaluations and delete the oldest; one without a process has failed."""
        found = [(path, _read(path)) for path in self._tenant(tenant).glob("*.json")]
        states = sorted(((one, path) for path, one in found if one), key=lambda pair: pair[0].began, reverse=True)
        for _, path in states[KEPT:]:
            path.unlink(missing_ok=True)
        kept = [one for one, _ in states[:KEPT]]
        if any(map(_runs, kept)) and not self._is_locked():
            return [_ended(one, EvaluationPhase.FAILED, ENDED) if _runs(one) else one for one in kept]
        return kept

    def _tenant(self, tenant: str) -> Path:
        return self._folder / file_name_of(tenant)

    def _file(self, state: EvaluationState) -> Path:
        return self._tenant(state.tenant) / f"{state.id}.json"

    def _stop_file(self, state: EvaluationState) -> Path:
        return self._tenant(state.tenant) / f"{state.id}.stop"


def _runs(state: EvaluationState) -> bool:
    return state.phase is EvaluationPhase.RUNNING


def _ended(state: EvaluationState, phase: EvaluationPhase, error: str | None = None) -> EvaluationState:
    return state.model_copy(update={"phase": phase, "error": error})


def _news(line: bytes) -> EvaluationNews | None:
    try:
        return EvaluationNews.model_validate_json(line)
    except ValidationError:
        return None


def _read(path: Path) -> EvaluationState | None:
    try:
        return EvaluationState.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


async def _terminated(process: asyncio.subprocess.Process) -> None:
    """End a process, at first politely: it keeps what it has measured."""
    with suppress(ProcessLookupError):
        process.terminate()
        try:
            async with asyncio.timeout(ENDING_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
