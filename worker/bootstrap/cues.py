"""Open what makes cues while a service runs: what learns from messages, and the model that writes in the background."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial

from hooks.contract import InjectionResult
from worker.domain.operation import Handlers
from worker.operations.background_cues import PACE, Activity, BackgroundCueParts, BackgroundCues
from worker.operations.learning import CueLearning
from worker.operations.local_client import LocalOperationClient
from worker.ports.state import CueLog
from worker.ports.store import WholeStore
from worker.ports.tracing import Tracer
from worker.settings.service import ServiceSettings
from worker.store.copying import ChangeLog

from .opening import open_cue_writer, utc_now


@dataclass(frozen=True, slots=True)
class CueMaking:
    """`log` is `None` if no model writes cues."""

    learning: CueLearning
    activity: Activity
    log: CueLog | None
    tracer: Tracer

    def noting(self, answered: Callable[[InjectionResult], None] | None) -> Callable[[InjectionResult], None]:
        """Return what is called with every answer: it puts off calls of the model."""

        def note(result: InjectionResult) -> None:
            self.activity.answered()
            if answered is not None:
                answered(result)

        return note

    def start(
        self,
        service: ServiceSettings,
        handlers: Handlers,
        store: Callable[[], WholeStore],
        journal: ChangeLog,
        stack: AsyncExitStack,
    ) -> None:
        """Start to learn and to write, until `stack` closes."""
        client = LocalOperationClient(handlers)
        self.learning.start(client)
        stack.push_async_callback(self.learning.aclose)
        if self.log is not None:
            writer = partial(open_cue_writer, service, None, stack, self.tracer)
            known = self.log, self.activity, lambda: journal.writes, utc_now
            stack.push_async_callback(BackgroundCues(BackgroundCueParts(client, store, writer, *known, PACE)).aclose)
