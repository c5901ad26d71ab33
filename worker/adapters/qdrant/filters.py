"""Search filters as conditions on a point, and their compilation for either engine."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any, Generic, TypeAlias, TypeVar, assert_never

from hooks.contract import clean_text
from worker.domain.memory import MemoryFilter, Visibility
from worker.domain.zones import widened

from .payload import EVERYBODY, FAR_FUTURE, LONG_AGO, PINNED, TENANT, point_id, tenant_name, timestamp

CREATED = "created_ts"

CONDITIONS_CACHED = 1_024

FilterT = TypeVar("FilterT")


@dataclass(frozen=True, slots=True)
class Equals:
    """The value of `key` is `value`, or with `negated` is not."""

    key: str
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The value of `key`, or one of its values, is in `values`."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InRange:
    """The number under `key`, or one of them, is within the given bounds."""

    key: str
    gt: float | None = None
    gte: float | None = None
    lte: float | None = None


@dataclass(frozen=True, slots=True)
class HasId:
    """The point's id is in `points`, or with `negated` is not."""

    points: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of the conditions is met."""

    options: "tuple[Condition, ...]"


Condition: TypeAlias = Equals | AnyOf | InRange | HasId | Either


@dataclass(frozen=True, slots=True)
class FilterCompiler(Generic[FilterT]):
    """Compile conditions with the constructors of an engine's filter types."""

    all_of: Callable[..., FilterT]
    field: Callable[..., Any]
    match_value: Callable[[str], Any]
    match_any: Callable[[list[str]], Any]
    within: Callable[..., Any]
    has_id: Callable[[tuple[str, ...]], Any]
    _compiled: Callable[[Condition], Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compiled", lru_cache(maxsize=CONDITIONS_CACHED)(self._compile))

    def __call__(self, wanted: Iterable[Condition]) -> FilterT:
        """Return a filter for points that meet all conditions."""
        return self.all_of(must=[self._of(condition) for condition in wanted])

    def _of(self, condition: Condition) -> Any:
        """Compile a condition. Those on times and ids hardly ever come again, the others do."""
        once = isinstance(condition, InRange | HasId)
        return self._compile(condition) if once else self._compiled(condition)

    def _compile(self, condition: Condition) -> Any:
        match condition:
            case Equals(key, value, negated):
                return self._unless(self.field(key=key, match=self.match_value(value)), negated)
            case AnyOf(key, values):
                return self.field(key=key, match=self.match_any(list(values)))
            case InRange(key, gt, gte, lte):
                return self.field(key=key, range=self.within(gt=gt, gte=gte, lte=lte))
            case Either(options):
                return self.all_of(should=[self._compile(option) for option in options])
            case HasId(points, negated):
                return self._unless(self.has_id(points), negated)
            case _:
                assert_never(condition)

    def _unless(self, met: Any, negated: bool) -> Any:
        return self.all_of(must_not=[met]) if negated else met


def conditions(tenant: str, where: MemoryFilter | None) -> tuple[Condition, ...]:
    """Return the conditions a point must meet, the tenant's first."""
    found: list[Condition] = [Equals(TENANT, tenant_name(tenant))]
    if where is None:
        return tuple(found)
    if where.visibility is not None:
        found += _visible(where.visibility)
    owners = {"user": where.user, "agent": where.agent, "project": where.project}
    found += [Equals(key, str(clean_text(owner))) for key, owner in owners.items() if owner is not None]
    if where.importance is not None:
        found.append(InRange("importance", gte=where.importance))
    if where.pinned:
        found.append(Equals("pinned", PINNED))
    for ids, negated in ((where.ids, False), (where.other_than, True)):
        if ids:
            found.append(HasId(tuple(point_id(tenant_name(tenant), key) for key in ids), negated))
    told = _dated("times", *widened(where.since, where.until, where.zone))
    return (*found, *_narrowed(where), *told, *_dated(CREATED, where.created_from, where.created_until))


def _narrowed(where: MemoryFilter) -> Iterator[Condition]:
    wanted = {
        "type": [kind.value for kind in where.types],
        "entities": [str(clean_text(entity)).casefold() for entity in where.entities],
        "names": where.names,
        "channel": map(clean_text, where.channels),
        "points_at": map(clean_text, where.pointing_at),
    }
    for key, values in wanted.items():
        allowed = tuple(map(str, values))
        if allowed:
            yield AnyOf(key, allowed)


Names: TypeAlias = tuple[str, ...]


@lru_cache(maxsize=CONDITIONS_CACHED)
def _shown_to(users: Names, agents: Names, projects: Names, channels: Names | None) -> tuple[Condition, ...]:
    found: list[Condition] = [
        AnyOf(key, (EVERYBODY, *(str(clean_text(name)) for name in names)))
        for key, names in (("user", users), ("agent", agents), ("project", projects))
    ]
    if channels is not None:
        told = ("", *(str(clean_text(name)) for name in channels))
        found.append(Either((AnyOf("channel", told), Equals("user", EVERYBODY, negated=True))))
    return tuple(found)


def _visible(visibility: Visibility) -> Iterator[Condition]:
    yield from _shown_to(visibility.users, visibility.agents, visibility.projects, visibility.channels)
    if visibility.valid_at is not None:
        now = timestamp(visibility.valid_at)
        yield InRange("valid_until_ts", gt=now)
        if not visibility.superseded:
            yield InRange("superseded_ts", gt=now)
    if visibility.created_until is not None:
        yield InRange(CREATED, lte=timestamp(visibility.created_until))
    if visibility.importance is not None:
        yield InRange("importance", gte=visibility.importance)


def _dated(key: str, since: datetime | None, until: datetime | None) -> Iterator[Condition]:
    if since is not None or until is not None:
        first = LONG_AGO if since is None else timestamp(since)
        yield InRange(key, gte=first, lte=FAR_FUTURE if until is None else timestamp(until))
