"""A chat model chooses among the candidates; it answers with numbers and never with text of its own."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from time import monotonic

import structlog

from hooks.contract import Engine, Reason

from .breaker import CircuitBreaker
from .deadline import Deadline
from .errors import MeeseeksError, ModelError
from .models import (
    Candidate,
    ChatReply,
    ChatRequest,
    Dropped,
    ModelUsage,
    Recalled,
    RecallQuery,
    RecallTool,
    Selection,
    SelectionTask,
    Verdict,
)
from .parsing import Choice, Fault, ToolRequest, parse_arguments, parse_choice, recall_query
from .prompts import Prompt
from .protocols import ChatModel
from .settings import InjectionConfig
from .triage_prompt import Conversation, check_prompt

_log = structlog.get_logger()

MAX_TURNS = 3
MIN_CALL_S = 0.15
"""Less time than this is not worth a call."""

MIN_SEARCH_S = 1.2
"""A further search is offered with no less time than this: it costs two more calls."""

_BREAKING = frozenset({Reason.MODEL_TIMEOUT, Reason.MODEL_UNREACHABLE, Reason.MODEL_RATE_LIMITED, Reason.MODEL_ERROR})
"""Failures that say something about the server; an answer out of shape does not."""

_FAULT_REASONS = {Fault.REFUSAL: Reason.MODEL_REFUSED, Fault.TRUNCATED: Reason.MODEL_TRUNCATED}


class LlmSelector:
    """Selects with a chat model: one call as a rule, up to three turns when it asks to search again.

    `present` makes any text fit to be shown (masked, flattened); how much of it is shown is decided here. `window` is
    the model's context in tokens, `clock` gives monotonic seconds. Raises `PromptError` for a prompt that triage
    cannot use. `select` raises `ModelError`; a failure after a first usable choice is not raised, that choice stands.
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
        self._breaker = breaker
        self._clock = clock
        self._present = present
        self._window = window

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection:
        shown = recalled.candidates[: config.triage_candidates]
        conversation = Conversation(
            self._prompt, task, shown, self._present, window=self._window, most=config.max_items
        )
        searches = _Searches(recall, recalled, config)
        run = _Run(self._complete, conversation, searches, config.max_items, deadline)
        choice = await run.choose()
        dropped = _dropped(choice, run, recalled, config.max_items)
        return Selection(
            chosen=tuple(conversation.offered[number - 1] for number in choice.ids[: config.max_items]),
            engine=Engine.LLM,
            dropped=dropped,
            recalls=tuple(searches.queries),
            prompt_id=self._prompt.name,
            usage=run.usage,
        )

    async def _complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply:
        if deadline.remaining() < MIN_CALL_S:
            raise ModelError(Reason.MODEL_NO_TIME, f"{self._model.name}: too little time for a call")
        if not self._breaker.allow(self._clock()):
            raise ModelError(Reason.MODEL_PAUSED, f"{self._model.name}: paused after repeated failures")
        try:
            reply = await self._model.complete(request, deadline)
        except ModelError as error:
            if error.reason in _BREAKING:
                self._breaker.record_failure(self._clock())
            raise
        self._breaker.record_success()
        return reply


def _dropped(choice: Choice, run: "_Run", recalled: Recalled, most: int) -> tuple[Dropped, ...]:
    """Every candidate that was not chosen, and why; searches after the first one included."""
    offered = run.conversation.offered
    shown = {candidate.memory.id for candidate in offered}
    everything = (*recalled.candidates, *run.searches.found)
    return (
        *(Dropped(offered[number - 1], Verdict.OVER_ITEMS) for number in choice.ids[most:]),
        *(Dropped(c, Verdict.NOT_SELECTED) for number, c in enumerate(offered, 1) if number not in choice.ids),
        *(Dropped(c, Verdict.BELOW_CUT) for c in everything if c.memory.id not in shown),
        *run.searches.dropped,
    )


class _Searches:
    """The searches that the model asks for: counted, and never the same one twice."""

    def __init__(self, recall: RecallTool, first: Recalled, config: InjectionConfig) -> None:
        self._recall = recall
        self._most_found = config.triage_candidates
        self._tried = {first.query.casefold().strip()}
        self._known = {candidate.memory.id for candidate in first.candidates}
        self._known_dropped = {dropped.candidate.memory.id for dropped in first.dropped}
        self.left = config.max_recalls - 1
        self.queries: list[str] = []
        self.found: list[Candidate] = []
        self.dropped: list[Dropped] = []

    def accepted(self, calls: Iterable[ToolRequest]) -> list[RecallQuery]:
        """The calls that are searches, new ones, as many as may still be made."""
        fresh: dict[str, RecallQuery] = {}
        for call in calls:
            query = recall_query(call)
            if query is not None and query.query.casefold() not in self._tried:
                fresh.setdefault(query.query.casefold(), query)
        return list(fresh.values())[: self.left]

    async def run(self, queries: list[RecallQuery], deadline: Deadline) -> list[Candidate]:
        """Candidates that were not known yet, best first."""
        self.left -= len(queries)
        self.queries += [query.query for query in queries]
        self._tried |= {query.query.casefold() for query in queries}
        new: list[Candidate] = []
        for query in queries:
            new += self._new(await self._search(query, deadline))
        self.found += new
        return new[: self._most_found]

    async def _search(self, query: RecallQuery, deadline: Deadline) -> Recalled:
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await self._recall(query)
        except (MeeseeksError, TimeoutError) as error:
            _log.warning("triage_search_failed", error=type(error).__name__)
            return Recalled(query.query)

    def _new(self, recalled: Recalled) -> list[Candidate]:
        new = [candidate for candidate in recalled.candidates if candidate.memory.id not in self._known]
        self._known |= {candidate.memory.id for candidate in new}
        for dropped in recalled.dropped:
            if dropped.candidate.memory.id not in self._known | self._known_dropped:
                self._known_dropped.add(dropped.candidate.memory.id)
                self.dropped.append(dropped)
        return new


class _Run:
    """The turns of one request."""

    def __init__(
        self,
        complete: Callable[[ChatRequest, Deadline], Awaitable[ChatReply]],
        conversation: Conversation,
        searches: _Searches,
        most: int,
        deadline: Deadline,
    ) -> None:
        self._complete = complete
        self._most = most
        self._deadline = deadline
        self._best: Choice | None = None
        self._repaired = False
        self._refused = False
        self.conversation = conversation
        self.searches = searches
        self.usage: ModelUsage | None = None

    async def choose(self) -> Choice:
        """The last usable choice. Raises `ModelError` where there was none."""
        try:
            return await self._turns()
        except ModelError as error:
            if self._best is None:
                raise
            _log.info("triage_kept_first_choice", reason=error.reason.value)
            return self._best

    async def _turns(self) -> Choice:
        request = self.conversation.choice_request()
        for turns_left in range(MAX_TURNS - 1, -1, -1):
            reply = await self._complete(request, self._deadline)
            self.usage = add_usage(self.usage, reply.usage)
            step = await self._next(reply, turns_left)
            if isinstance(step, Choice):
                return step
            request = step
        raise ModelError(Reason.MODEL_UNPARSEABLE, "no choice after the last turn")

    async def _next(self, reply: ChatReply, turns_left: int) -> Choice | ChatRequest:
        if reply.tool_calls:
            calls = [ToolRequest(call.name, parse_arguments(call.arguments)) for call in reply.tool_calls]
            return await self._after_calls(calls, turns_left)
        answer = parse_choice(reply.text, len(self.conversation.offered))
        if isinstance(answer, ToolRequest):
            return await self._after_calls([answer], turns_left)
        if isinstance(answer, Choice):
            return self._after_choice(answer, reply.text, turns_left)
        fault = Fault.TRUNCATED if reply.finish_reason == "length" else answer.fault
        return self._after_fault(fault, reply.text, turns_left)

    def _after_choice(self, choice: Choice, text: str, turns_left: int) -> Choice | ChatRequest:
        if len(choice.ids) == len(self.conversation.offered) > self._most:
            raise ModelError(Reason.MODEL_UNPARSEABLE, "every candidate was chosen")
        self._best = choice
        may_search = self.searches.left > 0 and turns_left >= 2 and self._deadline.remaining() > MIN_SEARCH_S
        return choice if choice.sufficient or not may_search else self.conversation.search_request(text)

    async def _after_calls(self, calls: list[ToolRequest], turns_left: int) -> Choice | ChatRequest:
        queries = self.searches.accepted(calls)
        repeated, self._refused = self._refused and not queries, self._refused or not queries
        if turns_left == 0 or repeated:
            return self._best_or(Reason.MODEL_UNPARSEABLE, "searches instead of a choice")
        if self._deadline.remaining() < MIN_SEARCH_S / 2:
            return self._best_or(Reason.MODEL_NO_TIME, "no time for a further search")
        found = await self.searches.run(queries, self._deadline)
        if not found and self._best is not None:
            return self._best
        return self.conversation.results_request([query.query for query in queries], found)

    def _after_fault(self, fault: Fault, text: str, turns_left: int) -> Choice | ChatRequest:
        reason = _FAULT_REASONS.get(fault, Reason.MODEL_UNPARSEABLE)
        if reason is not Reason.MODEL_UNPARSEABLE or self._repaired or turns_left == 0:
            return self._best_or(reason, f"unusable answer: {fault.value}")
        if self._best is not None:
            return self._best
        self._repaired = True
        return self.conversation.repair_request(text)

    def _best_or(self, reason: Reason, message: str) -> Choice:
        if self._best is None:
            raise ModelError(reason, message)
        return self._best


def add_usage(total: ModelUsage | None, more: ModelUsage | None) -> ModelUsage | None:
    """Both together; the cost is unknown where one of them is."""
    if total is None or more is None:
        return total or more
    known = total.cost is not None and more.cost is not None
    return replace(
        total,
        calls=total.calls + more.calls,
        input_tokens=total.input_tokens + more.input_tokens,
        output_tokens=total.output_tokens + more.output_tokens,
        cached_tokens=total.cached_tokens + more.cached_tokens,
        cost=(total.cost or 0.0) + (more.cost or 0.0) if known else None,
        elapsed_ms=total.elapsed_ms + more.elapsed_ms,
    )
