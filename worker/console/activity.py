"""The latest requests in numbers: what happened when, how long it took, for which agent, and what failed. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import ceil

from pydantic import BaseModel

from hooks.contract import Outcome, Reason
from worker.domain.receipt_summary import ReceiptSummary

from .request_words import MARKS, fault_words, mark_of
from .words import iso

HOURS = 24
BARS = HOURS
WIDTH, HEIGHT = 1000.0, 120.0
"""Size of the picture, in the units of its view."""

PITCH, GAP = WIDTH / BARS, 4.0

KINDS = {"good": "with memories", "none": "without", "warn": "with a fallback", "bad": "failed or too late"}
"""What the marks of requests mean, from the bottom of a bar to its top."""

NOTHING = {
    Outcome.NONE_RELEVANT: "nothing fit",
    Outcome.ALL_DUPLICATE: "already in the conversation",
    Outcome.SKIPPED: "not searched",
}
"""Why nothing was injected although nothing went wrong."""

TROUBLED = ("warn", "bad")
SHARES = (0.5, 0.95, 0.99)


class Piece(BaseModel):
    """A part of a bar, at its place in the picture."""

    kind: str
    x: float
    y: float
    width: float
    height: float


class Span(BaseModel):
    """What happened from one time to the next, by mark."""

    at: datetime
    counts: dict[str, int]


class Kind(BaseModel):
    """How many requests have a mark."""

    kind: str
    shape: str
    words: str
    count: int


class Nothing(BaseModel):
    """How many turns got nothing for the same reason; `filters` show them in the list."""

    words: str
    count: int
    filters: dict[str, str]


class Trouble(BaseModel):
    """Requests that failed or got a fallback for the same reason; `filters` show them in the list."""

    kind: str
    shape: str
    words: str
    count: int
    since: datetime
    filters: dict[str, str]


class AgentActivity(BaseModel):
    """The requests of one agent; `p95_ms` is the time in which 95 of 100 were answered."""

    agent: str
    requests: int
    given: int
    troubled: int
    p95_ms: float | None


class Activity(BaseModel):
    """Requests since a time. Times are those of requests that searched; `items` is the mean of those given memories.

    `nothing` says why turns that went well got nothing, the most frequent reason first.

    `complete` is false if more than are counted came in the last `HOURS` hours.
    """

    since: datetime
    complete: bool
    requests: int
    kinds: list[Kind]
    nothing: list[Nothing]
    spans: list[Span]
    pieces: list[Piece]
    percentiles_ms: dict[str, float]
    deadline_ms: int | None
    items: float | None
    cost: float | None
    agents: list[AgentActivity]
    troubles: list[Trouble]


@dataclass(frozen=True, slots=True)
class _Marked:
    """A request and the kind of its mark."""

    request: ReceiptSummary
    kind: str


def activity_of(summaries: Sequence[ReceiptSummary], now: datetime, *, complete: bool) -> Activity:
    """Return the activity of the last `HOURS` hours from the latest requests, newest first."""
    begin = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=HOURS - 1)
    recent = [_Marked(one, _kind(one)) for one in summaries if one.at >= begin and not one.dry_run]
    requests = [one.request for one in recent]
    since = begin if complete or not requests else requests[-1].at
    step = timedelta(hours=1) if complete else max((now - since) / BARS, timedelta(seconds=1))
    spans, every = _spans(recent, since, step), Counter(one.kind for one in recent)
    deadlines = Counter(one.deadline_ms for one in requests if one.deadline_ms is not None)
    given = [one.chosen for one in requests if one.outcome is Outcome.INJECTED]
    costs = [one.cost for one in requests if one.cost is not None]
    return Activity(
        since=since,
        complete=complete,
        requests=len(requests),
        kinds=[Kind(kind=kind, shape=MARKS[kind], words=words, count=every[kind]) for kind, words in KINDS.items()],
        nothing=_nothing(recent, since),
        spans=spans,
        pieces=_pieces(spans),
        percentiles_ms=_percentiles(requests),
        deadline_ms=deadlines.most_common(1)[0][0] if deadlines else None,
        items=sum(given) / len(given) if given else None,
        cost=sum(costs) if costs else None,
        agents=_agents(recent),
        troubles=_troubles(recent),
    )


def _kind(summary: ReceiptSummary) -> str:
    return mark_of(summary.outcome, summary.reason, summary.chosen, degraded=summary.degraded).kind


def _spans(recent: Sequence[_Marked], begin: datetime, step: timedelta) -> list[Span]:
    spans = [Span(at=begin + number * step, counts=dict.fromkeys(KINDS, 0)) for number in range(BARS)]
    for one in recent:
        number = int((one.request.at - begin) / step)
        spans[min(BARS - 1, max(0, number))].counts[one.kind] += 1
    return spans


def _pieces(spans: Sequence[Span]) -> list[Piece]:
    """Stack the counts of each span upon each other, as high as the busiest one allows."""
    most = max(sum(span.counts.values()) for span in spans) or 1
    pieces = []
    for number, span in enumerate(spans):
        floor, x = HEIGHT, round(number * PITCH + GAP / 2, 1)
        for kind, count in span.counts.items():
            height = HEIGHT * count / most
            floor -= height
            if count:
                pieces.append(
                    Piece(kind=kind, x=x, y=round(floor, 1), width=round(PITCH - GAP, 1), height=round(height, 1))
                )
    return pieces


def _percentiles(requests: Sequence[ReceiptSummary]) -> dict[str, float]:
    """Return how long requests took that were not skipped, by the share that took at most so long."""
    times = sorted(one.elapsed_ms for one in requests if one.outcome is not Outcome.SKIPPED)
    return {f"p{share * 100:.0f}": times[ceil(share * len(times)) - 1] for share in SHARES} if times else {}


def _nothing(recent: Sequence[_Marked], since: datetime) -> list[Nothing]:
    outcomes = Counter(one.request.outcome for one in recent if one.kind == "none")
    return [
        Nothing(words=NOTHING[outcome], count=count, filters={"outcome": outcome, "since": iso(since)})
        for outcome, count in outcomes.most_common()
    ]


def _agents(recent: Sequence[_Marked]) -> list[AgentActivity]:
    """Return the activity of each agent, the busiest first."""
    groups: dict[str, list[_Marked]] = {}
    for one in recent:
        groups.setdefault(one.request.agent_id, []).append(one)
    rows = [
        AgentActivity(
            agent=agent,
            requests=len(own),
            given=sum(one.request.outcome is Outcome.INJECTED for one in own),
            troubled=sum(one.kind in TROUBLED for one in own),
            p95_ms=_percentiles([one.request for one in own]).get("p95"),
        )
        for agent, own in groups.items()
    ]
    return sorted(rows, key=lambda row: (-row.requests, row.agent))


def _troubles(recent: Sequence[_Marked]) -> list[Trouble]:
    """Return what went wrong, failures first, then the most frequent."""
    groups: dict[tuple[str, Outcome | None, Reason | None], list[ReceiptSummary]] = {}
    for one in recent:
        if one.kind in TROUBLED:
            outcome = one.request.outcome if one.kind == "bad" else None
            groups.setdefault((one.kind, outcome, one.request.reason), []).append(one.request)
    rows = [_trouble(*what, len(own), min(one.at for one in own)) for what, own in groups.items()]
    return sorted(rows, key=lambda row: (row.kind != "bad", -row.count))


def _trouble(kind: str, outcome: Outcome | None, reason: Reason | None, count: int, since: datetime) -> Trouble:
    filters = {"outcome": outcome, "degraded": None if outcome else "yes", "reason": reason, "since": iso(since)}
    said = "got a fallback" if outcome is None else "came too late" if outcome is Outcome.TIMEOUT else "failed"
    why = fault_words(reason)
    return Trouble(
        kind=kind,
        shape=MARKS[kind],
        words=f"{said}: {why}" if why else said,
        count=count,
        since=since,
        filters={name: str(value) for name, value in filters.items() if value},
    )
