"""A request's own limits: fewer memories, and only important ones."""

import pytest

from hooks.contract import InjectionRequest
from worker.adapters.qdrant.filters import InRange, conditions
from worker.domain.memory import MemoryFilter, Visibility
from worker.injection.turn import limited
from worker.settings.injection import InjectionConfig


@pytest.mark.parametrize(("given", "items", "total"), [(None, 5, 25), (2, 2, 2), (9, 5, 9)])
def test_the_smaller_limit_of_memories_applies(given: int | None, items: int, total: int) -> None:
    fields = {"session_id": "s", "message": "m", "render": {"max_items": given}}
    request = InjectionRequest.model_validate(fields)
    config = limited(InjectionConfig(max_items=5, max_total=25), request)
    assert (config.max_items, config.max_total) == (items, total)


def test_importance_limits_every_search_of_a_request() -> None:
    assert InRange("importance", gte=0.3) in conditions("t", MemoryFilter(Visibility(importance=0.3)))
    assert not [one for one in conditions("t", MemoryFilter(Visibility())) if one.key == "importance"]  # type: ignore[union-attr]
