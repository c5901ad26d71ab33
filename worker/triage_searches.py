"""The searches that a model asks for: counted, never the same one twice, never an empty one."""

import asyncio
from collections.abc import Iterable, Sequence

import structlog

from .deadline import Deadline
from .errors import MeeseeksError
from .models import Candidate, Dropped, Recalled, RecallQuery, RecallTool
from .parsing import ToolRequest, recall_query

_log = structlog.get_logger()


class Searches:
    """At most `most` searches; `tried` are queries that were made already, `known` what they brought.

    `found` is what the searches brought that was not known, `dropped` what they left out, each memory once.
    """

    def __init__(
        self, recall: RecallTool, *, most: int, shown: int, tried: Iterable[str] = (), known: Recalled | None = None
    ) -> None:
        first = known or Recalled("")
        self._recall = recall
        self._shown = shown
        self._tried = {query.casefold().strip() for query in tried}
        self._known = {candidate.memory.id for candidate in first.candidates}
        self._known_dropped = {dropped.candidate.memory.id for dropped in first.dropped}
        self.left = most
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

    async def run(self, queries: Sequence[RecallQuery], deadline: Deadline) -> list[Candidate]:
        """Candidates that were not known yet, best first; searches of one turn are made at the same time."""
        self.left -= len(queries)
        self.queries += [query.query for query in queries]
        self._tried |= {query.query.casefold() for query in queries}
        new: list[Candidate] = []
        for recalled in await asyncio.gather(*(self._search(query, deadline) for query in queries)):
            new += self._new(recalled)
        self.found += new
        return new[: self._shown]

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
