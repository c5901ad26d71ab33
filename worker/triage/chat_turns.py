"""Run the turns of one selection by a chat model, at most `MAX_TURNS`.

The first turn chooses among what the service found; only an answer that something is missing leads to a search. A turn
either offers tools or demands a choice, never both.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

import structlog

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatReply, ChatRequest, ModelExchange, ModelUsage

from .answer_parsing import Choice, ToolRequest, UnusableAnswer, parse_arguments, parse_choice, parse_partial
from .chat_prompt import Conversation
from .chat_searches import Searches

_log = structlog.get_logger()

MAX_TURNS = 3
MIN_SEARCH_S = 1.2
"""Minimum remaining time to offer a search, which costs two more calls."""

_FAULT_REASONS = {UnusableAnswer.REFUSAL: Reason.MODEL_REFUSED, UnusableAnswer.TRUNCATED: Reason.MODEL_TRUNCATED}

Complete = Callable[[ChatRequest, Deadline], Awaitable[ChatReply]]


class Turns:
    """The turns of one request, with searches if the model `may_search`.

    `usage` is their total, `partial` is true if the last answer was cut off. `calls` are the requests with a reply.
    """

    def __init__(
        self,
        complete: Complete,
        conversation: Conversation,
        searches: Searches,
        deadline: Deadline,
        *,
        may_search: bool,
    ) -> None:
        self._complete = complete
        self._may_search = may_search
        self._deadline = deadline
        self._best: Choice | None = None
        self._repaired = False
        self._refused = False
        self.conversation = conversation
        self.searches = searches
        self.usage: ModelUsage | None = None
        self.partial = False
        self.calls: list[tuple[ChatRequest, ChatReply]] = []

    async def choose(self) -> Choice:
        """Return the last usable choice. Raise `ModelError` if there is none."""
        try:
            return await self._turns(self.conversation.choice_request())
        except ModelError as error:
            if self._best is None:
                raise
            _log.info("triage_kept_first_choice", reason=error.reason.value)
            return self._best

    async def _turns(self, request: ChatRequest) -> Choice:
        for turns_left in range(MAX_TURNS - 1, -1, -1):
            reply = await self._complete(request, self._deadline)
            self.calls.append((request, reply))
            self.usage = add_usage(self.usage, reply.usage)
            step = self._partial_choice(reply) if reply.cut else await self._next(reply, turns_left)
            if isinstance(step, Choice):
                return step
            request = step
        raise ModelError(Reason.MODEL_UNPARSEABLE, "no choice after the last turn")

    def _partial_choice(self, reply: ChatReply) -> Choice:
        choice = parse_partial(reply.text, len(self.conversation.offered))
        if choice is None:
            return self._best_or(Reason.MODEL_TIMEOUT, "the model had not chosen anything by the deadline")
        self.partial = True
        return choice

    async def _next(self, reply: ChatReply, turns_left: int) -> Choice | ChatRequest:
        if reply.tool_calls:
            calls = [ToolRequest(call.name, parse_arguments(call.arguments)) for call in reply.tool_calls]
            return await self._after_calls(calls, turns_left)
        answer = parse_choice(reply.text, len(self.conversation.offered))
        if isinstance(answer, ToolRequest):
            return await self._after_calls([answer], turns_left)
        if isinstance(answer, Choice):
            return self._after_choice(answer, reply.text, turns_left)
        fault = UnusableAnswer.TRUNCATED if reply.finish_reason == "length" else answer.fault
        return self._after_fault(fault, reply.text, turns_left)

    def _after_choice(self, choice: Choice, text: str, turns_left: int) -> Choice | ChatRequest:
        self._best = choice
        enough = choice.sufficient or not self._may_search_again(turns_left)
        return choice if enough else self.conversation.search_request(text)

    def _may_search_again(self, turns_left: int) -> bool:
        """Return whether searches, turns (one to search, one to choose) and time are left."""
        may = self._may_search and self.searches.left > 0 and turns_left >= 2
        return may and self._deadline.remaining() > MIN_SEARCH_S

    async def _after_calls(self, calls: list[ToolRequest], turns_left: int) -> Choice | ChatRequest:
        queries = self.searches.accepted(calls)
        repeated, self._refused = self._refused and not queries, self._refused or not queries
        if turns_left == 0 or repeated:
            return self._best_or(Reason.MODEL_UNPARSEABLE, "the model searched instead of choosing")
        if self._deadline.remaining() < MIN_SEARCH_S / 2:
            return self._best_or(Reason.MODEL_NO_TIME, "no time for another search")
        found = await self.searches.run(queries, self._deadline)
        if not found and self._best is not None:
            return self._best
        return self.conversation.results_request([query.query for query in queries], found, self.searches.ignored)

    def _after_fault(self, fault: UnusableAnswer, text: str, turns_left: int) -> Choice | ChatRequest:
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


def exchanges_of(calls: Sequence[tuple[ChatRequest, ChatReply]]) -> tuple[ModelExchange, ...]:
    """Return what was asked and answered; each request repeats the messages of the one before, which are left out."""
    told, exchanges = 0, list[ModelExchange]()
    for request, reply in calls:
        asked = "\n\n".join(f"[{one['role']}]\n{one['content']}" for one in request.messages[told:])
        searches = [f"{call.name}({call.arguments})" for call in reply.tool_calls]
        exchanges.append(ModelExchange(asked, "\n".join([*([reply.text] if reply.text else []), *searches])))
        told = len(request.messages)
    return tuple(exchanges)


def add_usage(total: ModelUsage | None, more: ModelUsage | None) -> ModelUsage | None:
    """Add two usages; the cost is unknown if either is."""
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
