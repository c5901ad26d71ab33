"""Select memories with a chat model, which answers with candidate numbers only."""

from collections.abc import Callable, Sequence
from time import monotonic

from hooks.contract import Engine
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Recalled, RecallTool, Selection, SelectionTask
from worker.domain.model_calls import ChatReply, ChatRequest, ModelExchange
from worker.ports.models import ChatModel
from worker.settings.injection import InjectionConfig

from .answer_parsing import Choice
from .breaker import CircuitBreaker, ModelGuard
from .chat_prompt import AnswerShape, Conversation, check_prompt
from .chat_searches import Searches
from .chat_turns import Turns, exchanges_of
from .prompt_files import Prompt

CUT_OFF = "the deadline passed while the model was answering; the partial answer was used"


class LlmSelector:
    """Select with a chat model: usually one call, up to three turns if it asks to search again.

    `present` masks and flattens texts before they are shown. `window` is the model's context in tokens, `clock` returns
    monotonic seconds. Raise `PromptError` if triage cannot use the prompt. `select` raises `ModelError`, unless an
    earlier turn gave a usable choice.
    """

    def __init__(
        self,
        model: ChatModel,
        prompt: Prompt,
        breaker: CircuitBreaker,
        clock: Callable[[], float] = monotonic,
        *,
        present: Callable[[str], str],
        window: int = 8192,
    ) -> None:
        check_prompt(prompt)
        self._model = model
        self._prompt = prompt
        self._guard = ModelGuard(model.name, breaker, clock)
        self._present = present
        self._window = window

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        turns = self._begin(task, recalled, recall, config, deadline)
        try:
            choice = await turns.choose()
        except ModelError as error:
            error.exchanges = _exchanges(turns, config)
            raise
        offered = turns.conversation.offered
        chosen = [offered[number - 1] for number in choice.ids]
        if self._model.abilities.may_only_veto:
            chosen = _as_found(chosen, (*recalled.candidates, *turns.searches.found))
        return Selection(
            chosen=tuple(chosen[: config.max_items]),
            engine=Engine.LLM,
            dropped=_dropped(chosen, turns, recalled, config.max_items),
            recalls=tuple(turns.searches.queries),
            prompt_id=self._prompt.name,
            usage=turns.usage,
            partial=turns.partial,
            notes=_notes(choice, turns, config.max_items),
            exchanges=_exchanges(turns, config),
        )

    def _begin(
        self,
        task: SelectionTask,
        recalled: Recalled,
        recall: RecallTool,
        config: InjectionConfig,
        deadline: Deadline,
    ) -> Turns:
        abilities, most = self._model.abilities, config.max_items
        found = recalled.candidates[: config.triage_candidates]
        shape = AnswerShape(self._window, most, abilities.output)
        conversation = Conversation(self._prompt, task, found, self._present, shape)
        searches = Searches(
            recall,
            most=config.max_recalls - 1,
            shown=config.triage_candidates,
            tried=(recalled.query,),
            offered=tuple(conversation.offered),
            first=recalled,
        )
        return Turns(self._complete, conversation, searches, deadline, may_search=abilities.tools)

    async def _complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply:
        return await self._guard(lambda: self._model.complete(request, deadline), deadline)


def _exchanges(turns: Turns, config: InjectionConfig) -> tuple[ModelExchange, ...]:
    return exchanges_of(turns.calls) if config.receipt_model_texts else ()


def _notes(choice: Choice, turns: Turns, most: int) -> tuple[str, ...]:
    """Return what the receipt says about the model's answer."""
    chosen, unknown, ignored = len(choice.ids), choice.unknown, turns.searches.ignored
    notes = {
        CUT_OFF: turns.partial,
        f"over_selected: the model chose {chosen} memories; the first {most} were kept": chosen > most,
        f"unknown_numbers: the model chose what was not offered: {', '.join(map(str, unknown[:10]))}": unknown,
        f"ignored_filters: unknown or impossible filters of the model's searches: {', '.join(ignored)}": ignored,
    }
    return tuple(note for note, applies in notes.items() if applies)


def _as_found(chosen: Sequence[Candidate], order: Sequence[Candidate]) -> list[Candidate]:
    """Sort the chosen candidates in the order of the search."""
    places = {candidate.memory.id: place for place, candidate in reversed(list(enumerate(order)))}
    return sorted(chosen, key=lambda candidate: places[candidate.memory.id])


def _dropped(chosen: Sequence[Candidate], turns: Turns, recalled: Recalled, most: int) -> tuple[Dropped, ...]:
    """Return every candidate that was not chosen, with the reason, including those of the model's searches."""
    offered = turns.conversation.offered
    shown = {candidate.memory.id for candidate in offered}
    wanted = {candidate.memory.id for candidate in chosen}
    everything = {c.memory.id: c for c in (*turns.searches.found, *recalled.candidates)}
    return (
        *(Dropped(candidate, CandidateVerdict.OVER_ITEMS) for candidate in chosen[most:]),
        *(
            Dropped(candidate, CandidateVerdict.NOT_SELECTED)
            for candidate in offered
            if candidate.memory.id not in wanted
        ),
        *(Dropped(candidate, CandidateVerdict.BELOW_CUT) for key, candidate in everything.items() if key not in shown),
        *turns.searches.dropped,
    )
