"""Run the searches that a model asks for, skipping repeated and empty ones."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import zip_longest

import structlog

from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError
from worker.domain.memory import Candidate, Dropped, Recalled, RecallQuery, RecallTool

from .answer_parsing import ToolRequest, ignored_filters, recall_query

_log = structlog.get_logger()


class Searches:
    """Up to `most` searches. `tried` are earlier queries, `offered` the candidates the model has seen, and `first` the
    service's own result.

    `found` are results that the model had not seen, `dropped` those that searches left out, each memory once. A
    candidate of `first` that was not shown counts as unseen. `ignored` are filters that cannot be.
    """

    def __init__(
        self,
        recall: RecallTool,
        *,
        most: int,
        shown: int,
        tried: Iterable[str] = (),
        offered: Iterable[Candidate] = (),
        first: Recalled | None = None,
    ) -> None:
        known = first or Recalled("")
        self._recall = recall
        self._shown = shown
        self._tried = {query.casefold().strip() for query in tried}
        self._offered = {candidate.memory.id for candidate in offered}
        self._recorded = {candidate.memory.id for candidate in known.candidates}
        self._recorded |= {dropped.candidate.memory.id for dropped in known.dropped}
        self._found: dict[str, Candidate] = {}
        self.left = most
        self.queries: list[str] = []
        self.dropped: list[Dropped] = []
        self.ignored: list[str] = []

    @property
    def found(self) -> tuple[Candidate, ...]:
        return tuple(self._found.values())

    def accepted(self, calls: Iterable[ToolRequest]) -> list[RecallQuery]:
        """Return the new searches among the calls, as many as are left."""
        fresh: dict[str, RecallQuery] = {}
        for call in calls:
            query = recall_query(call)
            if query is not None and query.query.casefold() not in self._tried:
                fresh.setdefault(query.query.casefold(), query)
                self._ignore(ignored_filters(call))
        return list(fresh.values())[: self.left]

    async def run(self, queries: Sequence[RecallQuery], deadline: Deadline) -> list[Candidate]:
        """Run searches concurrently; return candidates that the model has not seen, the best of each search first."""
        self.left -= len(queries)
        self.queries += [query.query for query in queries]
        self._tried |= {query.query.casefold() for query in queries}
        answers = await asyncio.gather(*(self._search(query, deadline) for query in queries))
        new = self._new(answers)
        self._found |= {key: one for key, one in new.items() if key not in self._found}
        self._record_dropped(answers)
        self._ignore(name for recalled in answers for name in recalled.ignored)
        shown = list(new.values())[: self._shown]
        self._offered |= {candidate.memory.id for candidate in shown}
        return shown

    async def _search(self, query: RecallQuery, deadline: Deadline) -> Recalled:
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await self._recall(query)
        except (MeeseeksError, TimeoutError) as error:
            _log.warning("triage_search_failed", error=type(error).__name__)
            return Recalled(query.query)

    def _ignore(self, names: Iterable[str]) -> None:
        self.ignored += [name for name in dict.fromkeys(names) if name not in self.ignored]

    def _new(self, answers: Iterable[Recalled]) -> dict[str, Candidate]:
        """Interleave the unseen candidates of all answers."""
        ranks = zip_longest(*(recalled.candidates for recalled in answers))
        found = (candidate for rank in ranks for candidate in rank if candidate is not None)
        new: dict[str, Candidate] = {}
        for candidate in found:
            if candidate.memory.id not in self._offered:
                new.setdefault(candidate.memory.id, candidate)
        return new

    def _record_dropped(self, answers: Iterable[Recalled]) -> None:
        self._recorded |= set(self._found)
        for dropped in (one for recalled in answers for one in recalled.dropped):
            if dropped.candidate.memory.id not in self._recorded:
                self._recorded.add(dropped.candidate.memory.id)
                self.dropped.append(dropped)
