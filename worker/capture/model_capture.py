"""Let a model read a window, and check what it read."""

from collections.abc import Awaitable, Callable

from worker.domain.capture import CaptureReading, CaptureWork, Change, Drop, DropReason
from worker.domain.deadline import Deadline
from worker.domain.ledger import LedgerKey
from worker.domain.memory import Memory
from worker.ports.state import Ledger

from .checks import Reading, check_reading
from .finding import Found, Frame, drop
from .nearby import says_same
from .reading import CaptureReader
from .service import CaptureParts, checked_against_store
from .window import Window

MOST_CANDIDATES = 10
"""Stored memories that the model sees."""

OpenReader = Callable[[], Awaitable[CaptureReader]]


class ModelCapture:
    """Reads windows; `open_reader` returns the model with its prompt and raises `SettingsError` or `PromptError`."""

    def __init__(self, parts: CaptureParts, open_reader: OpenReader, ledger: Ledger) -> None:
        self._parts = parts
        self._open_reader = open_reader
        self._ledger = ledger

    async def read(self, work: CaptureWork, deadline: Deadline) -> CaptureReading:
        """Return what the turns say that is new. Raise `ModelError`, `StoreError` or `QueueError`."""
        reader, window = await self._open_reader(), Window(work.window)
        languages = self._parts.config_for(work.source.agent_id).languages
        frame = Frame(work.id, work.source, self._parts.clock(), languages)
        candidates = await self._candidates(window, frame)
        answer = await reader.read(window, candidates, deadline)
        reading = Reading(window, tuple(candidates), answer.operations, reader.markers, reader.model, reader.prompt_id)
        found = await self._unshown(check_reading(reading, frame), work)
        found = await checked_against_store(self._parts, found, work.source, frame.now)
        usage = answer.usage
        return CaptureReading(
            changes=found.changes,
            drops=found.drops,
            model=reader.model,
            prompt=reader.prompt_id,
            input_tokens=usage.input_tokens if usage else 0,
            output_tokens=usage.output_tokens if usage else 0,
            cost=usage.cost if usage else None,
            candidates=tuple(memory.id for memory in candidates),
        )

    async def _candidates(self, window: Window, frame: Frame) -> list[Memory]:
        """Return the memories nearest to any turn of the user, as each turn may be about something else."""
        texts = [turn.text for turn in window.evidence if turn.text]
        found = await self._parts.nearby.near(frame.source, texts, frame.now)
        best: dict[str, tuple[float, Memory]] = {}
        for near in found:
            for place, one in enumerate(near):
                score = one.cosine if one.cosine is not None else 1.0 / (place + 1)
                if score > best.get(one.memory.id, (-1.0, one.memory))[0]:
                    best[one.memory.id] = score, one.memory
        ranked = sorted(best.values(), key=lambda pair: (-pair[0], pair[1].id))
        return [memory for _, memory in ranked[:MOST_CANDIDATES]]

    async def _unshown(self, found: Found, work: CaptureWork) -> Found:
        """Drop what the session was shown before, also in other words: it is no news of the user."""
        source = work.source
        view = await self._ledger.peek(LedgerKey(source.tenant, source.session_id, source.agent_id))
        kept: list[Change] = []
        drops: list[Drop] = list(found.drops)
        for change in found.changes:
            texts = [(key, entry.text) for key, entry in view.shown.items() if key != change.target and entry.text]
            shown = next((key for key, text in texts if says_same(change.memory.content, text, None)), None)
            if shown is None:
                kept.append(change)
            else:
                drops.append(drop(DropReason.SHOWN_BEFORE, change.memory.content, shown))
        return Found(tuple(kept), tuple(drops))
