"""Choices that a model has made already: the same task, candidates, prompt and model need not be asked again."""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Recalled, Selection, SelectionTask
from worker.domain.model_calls import ModelUsage
from worker.settings.injection import InjectionConfig

from .prompt_files import Prompt

SETTINGS = ("max_items", "triage_candidates", "max_recalls", "first_recall", "candidate_order", "mask_secrets")
"""Settings that change what a model is asked, or what counts of its answer."""


def verdict_key(model: str, prompt: Prompt, task: SelectionTask, recalled: Recalled, config: InjectionConfig) -> str:
    """The same for requests that a model is asked the same about: SHA-256, hexadecimal."""
    told = {
        "model": model,
        "prompt": hashlib.sha256(repr(prompt).encode()).hexdigest(),
        "task": [task.message, task.task_description, task.query, task.now.date().isoformat()],
        "turns": [[turn.role, turn.content] for turn in task.recent_messages],
        "candidates": [_identity(candidate) for candidate in recalled.candidates[: config.triage_candidates]],
        "settings": config.model_dump(mode="json", include=set(SETTINGS)),
    }
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _identity(candidate: Candidate) -> list[str | int]:
    """Which memory, and what it says: ids are only unique inside a tenant."""
    memory = candidate.memory
    day = memory.occurred_at or memory.created_at
    return [memory.id, memory.version, memory.content_hash, day.isoformat() if day else ""]


@dataclass(frozen=True, slots=True)
class Known:
    """A choice without its memories, which every request brings again."""

    choice: Selection
    chosen: tuple[str, ...]
    dropped: Mapping[str, CandidateVerdict]

    @classmethod
    def of(cls, selection: Selection) -> "Known":
        dropped = {entry.candidate.memory.id: entry.verdict for entry in selection.dropped}
        chosen = tuple(candidate.memory.id for candidate in selection.chosen)
        return cls(replace(selection, chosen=(), dropped=()), chosen, dropped)

    def applied(self, candidates: Sequence[Candidate]) -> Selection | None:
        """The choice among these candidates; `None` where one that was chosen is not among them."""
        by_id = {candidate.memory.id: candidate for candidate in candidates}
        if not set(self.chosen) <= set(by_id):
            return None
        rest = (candidate for candidate in candidates if candidate.memory.id not in self.chosen)
        dropped = (Dropped(one, self.dropped.get(one.memory.id, CandidateVerdict.BELOW_CUT)) for one in rest)
        usage = self.choice.usage
        return replace(
            self.choice,
            chosen=tuple(by_id[key] for key in self.chosen),
            dropped=tuple(dropped),
            usage=ModelUsage(usage.model) if usage else None,
        )


class VerdictCache:
    """At most `size` choices, the longest unused of which go first; times are monotonic seconds given by the caller."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._known: OrderedDict[str, tuple[float, Known]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def get(self, key: str, candidates: Sequence[Candidate], now: float) -> Selection | None:
        """What was chosen, where that still counts."""
        kept = self._known.get(key)
        if kept is None or kept[0] <= now:
            self._known.pop(key, None)
            return None
        self._known.move_to_end(key)
        return kept[1].applied(candidates)

    def put(self, key: str, selection: Selection, now: float, seconds: float) -> None:
        """Keep a whole choice; one for which more was searched, or that was cut off, is not kept."""
        if selection.recalls or selection.partial or seconds <= 0:
            return
        self._known[key] = (now + seconds, Known.of(selection))
        self._known.move_to_end(key)
        while len(self._known) > self._size:
            self._known.popitem(last=False)
