"""Skip rules that need no search, and what is searched with."""

from typing import Any

import pytest

from hooks.contract import InjectionRequest, Reason
from worker.query import focused_query, skip_reason
from worker.settings import InjectionConfig

CONFIG = InjectionConfig()


def request(**fields: Any) -> InjectionRequest:
    return InjectionRequest.model_validate({"session_id": "s", "message": "where is the key", **fields})


@pytest.mark.parametrize(
    ("fields", "settings", "reason"),
    [
        ({}, {}, None),
        ({}, {"enabled": False}, Reason.DISABLED),
        ({}, {"mode": "off"}, Reason.MODE_OFF),
        ({"mode": "off"}, {}, Reason.MODE_OFF),
        ({"mode": "deterministic"}, {"mode": "off"}, None),
        ({"source": "retrigger"}, {}, Reason.SOURCE_SKIPPED),
        ({"source": "heartbeat"}, {}, Reason.SOURCE_SKIPPED),
        ({"source": "cron"}, {}, None),
        ({"source": "cron"}, {"skip_sources": ["cron"]}, Reason.SOURCE_SKIPPED),
        ({"message": " \n\x00 "}, {}, Reason.EMPTY_MESSAGE),
        ({"message": "", "task_description": "clean the kiln"}, {}, None),
    ],
)
def test_skip_rules(fields: dict[str, Any], settings: dict[str, Any], reason: Reason | None) -> None:
    assert skip_reason(request(**fields), InjectionConfig.model_validate(settings)) is reason


def test_query_is_the_message_on_one_line() -> None:
    assert focused_query(request(message=" where\n\tis\x00 the  key "), CONFIG) == "where is the key"


def test_blank_message_falls_back_to_the_task() -> None:
    assert focused_query(request(message=" ", task_description="clean the kiln"), CONFIG) == "clean the kiln"


def test_long_message_keeps_its_tail() -> None:
    query = focused_query(request(message="log line\n" * 10_000 + "which valve?"), CONFIG)
    assert len(query) == CONFIG.query_max_chars
    assert query.endswith("which valve?")
