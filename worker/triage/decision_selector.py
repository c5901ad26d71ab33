"""Select memories with a decision model: one yes/no question and one probability per candidate."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from time import monotonic

from hooks.contract import Engine
from worker.domain.deadline import Deadline
from worker.domain.errors import PromptError
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Recalled, RecallTool, Selection, SelectionTask
from worker.domain.model_calls import DecisionReply, DecisionRequest, ModelExchange
from worker.ports.models import DecisionModel
from worker.settings.injection import InjectionConfig

from .breaker import CircuitBreaker, ModelGuard
from .chat_prompt import candidate_text, present_day, task_lines
from .chat_turns import add_usage
from .decision_scale import DecisionScale
from .prompt_files import Prompt

STATE = "state"
VARIABLES = frozenset({"now", "task", "candidate"})
MOST_CHARACTERS = 40_000
"""Maximum characters of one request's questions; servers reject bodies of 64 KiB and more."""


def check_decision_prompt(prompt: Prompt) -> None:
    """Raise `PromptError` if the prompt lacks the section '# State' or uses an unknown variable."""
    prompt.section(STATE)
    unknown = sorted(prompt.variables - VARIABLES)
    if unknown:
        raise PromptError(f"prompt {prompt.name}: unknown variable {unknown[0]!r}; use {', '.join(sorted(VARIABLES))}")


@dataclass(frozen=True, slots=True)
class DecisionLimits:
    """A model's scale, maximum questions per request, and whether it keeps the search's order."""

    scale: DecisionScale = field(default_factory=DecisionScale)
    questions: int = 64
    keeps_order: bool = False


class DecisionSelector:
    """Select the candidates above the threshold, the most probable first. `select` raises `ModelError`.

    `present` masks and flattens texts before they are shown. Every question contains a single candidate, so a planted
    instruction can affect only its own probability.
    """

    def __init__(
        self,
        model: DecisionModel,
        prompt: Prompt,
        breaker: CircuitBreaker,
        clock: Callable[[], float] = monotonic,
        *,
        present: Callable[[str], str],
        limits: DecisionLimits,
    ) -> None:
        check_decision_prompt(prompt)
        self._model = model
        self._prompt = prompt
        self._guard = ModelGuard(model.name, breaker, clock)
        self._present = present
        self._limits = limits

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        shown = recalled.candidates[: config.triage_candidates]
        request = questions_about(task, shown, self._prompt, self._present)
        replies = await self._guard(
            lambda: all_answers(self._model, request, deadline, self._limits.questions), deadline
        )
        raw = [probability for reply in replies for probability in reply.probabilities]
        scale = self._limits.scale
        probable = {one.memory.id: scale.calibrated(value) for one, value in zip(shown, raw, strict=True)}
        kept = [candidate for candidate in shown if probable[candidate.memory.id] >= scale.threshold]
        if not self._limits.keeps_order:
            kept.sort(key=lambda candidate: -probable[candidate.memory.id])
        return Selection(
            chosen=tuple(kept[: config.max_items]),
            engine=Engine.DECISION,
            dropped=_dropped(kept, shown, recalled, config.max_items),
            prompt_id=self._prompt.name,
            usage=reduce(add_usage, (reply.usage for reply in replies), None),
            exchanges=_exchanges(request, raw) if config.receipt_model_texts else (),
            probabilities={key: round(value, 4) for key, value in probable.items()},
        )


def _exchanges(request: DecisionRequest, probabilities: Sequence[float]) -> tuple[ModelExchange, ...]:
    """Return the state and all questions, and the uncalibrated probabilities, as one exchange."""
    answers = "\n".join(f"{number}. {value:.4f}" for number, value in enumerate(probabilities, 1))
    return (ModelExchange("\n\n".join((request.state, *request.questions)), answers),)


async def all_answers(
    model: DecisionModel, request: DecisionRequest, deadline: Deadline, most: int
) -> list[DecisionReply]:
    """Send the batches of a request concurrently; return the replies in order. A `ModelError` cancels the rest."""
    batches = [DecisionRequest(request.state, batch) for batch in batches_of(request.questions, most)]
    calls = [asyncio.create_task(model.decide(batch, deadline)) for batch in batches]
    try:
        return list(await asyncio.gather(*calls))
    finally:
        for call in calls:
            call.cancel()


def questions_about(
    task: SelectionTask, candidates: Sequence[Candidate], prompt: Prompt, present: Callable[[str], str]
) -> DecisionRequest:
    """Return the task as the shared state, and one question per candidate."""
    values = {"now": present_day(task.now), "task": task_lines(task, present)}
    state = f"{prompt.system}\n\n{prompt.fill(prompt.section(STATE), values)}"
    texts = (candidate_text(one, present, task, task.query) for one in candidates)
    return DecisionRequest(state, tuple(prompt.fill(prompt.user, {**values, "candidate": text}) for text in texts))


def batches_of(questions: Sequence[str], most: int, characters: int = MOST_CHARACTERS) -> Iterator[tuple[str, ...]]:
    """Split questions into as few requests as the limits allow, in order."""
    batch: list[str] = []
    size = 0
    for question in questions:
        if batch and (len(batch) >= most or size + len(question) > characters):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(question)
        size += len(question)
    if batch:
        yield tuple(batch)


def _dropped(
    kept: Sequence[Candidate], shown: Sequence[Candidate], recalled: Recalled, most: int
) -> tuple[Dropped, ...]:
    wanted = {candidate.memory.id for candidate in kept}
    return (
        *(Dropped(candidate, CandidateVerdict.OVER_ITEMS) for candidate in kept[most:]),
        *(
            Dropped(candidate, CandidateVerdict.NOT_SELECTED)
            for candidate in shown
            if candidate.memory.id not in wanted
        ),
        *(Dropped(candidate, CandidateVerdict.BELOW_CUT) for candidate in recalled.candidates[len(shown) :]),
    )
