"""`MEESEEKS_DEBUG=1`: every outcome of a host's hook is explained in one line, without any text of a memory."""

import pytest

from hooks.contract import InjectedItem, InjectionRequest, InjectionResult, Outcome, Reason
from worker.hosts import HOSTS, HostProfile
from worker.operations.host_explanations import explain_event, explain_injection

REQUEST = InjectionRequest(session_id="s", message="secret question", scope={"user": "oscar", "project": "boat"})
ITEM = InjectedItem(id="m1", type="fact", text="secret memory")


def explained(result: InjectionResult) -> str:
    line = explain_injection(REQUEST, result.model_copy(update={"receipt_id": "r1"}))
    assert "secret" not in line
    assert "\n" not in line
    assert line.endswith(", receipt r1")
    assert " for user oscar, project boat, " in line
    return line


@pytest.mark.parametrize("reason", [None, *Reason])
@pytest.mark.parametrize("outcome", sorted(set(Outcome) - {Outcome.INJECTED}))
def test_every_outcome_without_memory_says_so_and_why(outcome: Outcome, reason: Reason | None) -> None:
    line = explained(InjectionResult.nothing(outcome, reason))
    assert line.startswith(f"no memory: {outcome.value}{f' ({reason.value})' if reason else ''} for ")


@pytest.mark.parametrize(("items", "said"), [((ITEM,), "1 memory: "), ((ITEM, ITEM), "2 memories: ")])
def test_what_was_injected_is_counted(items: tuple[InjectedItem, ...], said: str) -> None:
    result = InjectionResult.nothing(Outcome.INJECTED, None).model_copy(update={"items": items})
    assert explained(result).startswith(f"{said}injected for ")


@pytest.mark.parametrize("host", HOSTS.values(), ids=lambda host: host.name)
def test_an_event_that_asks_for_nothing_says_why(host: HostProfile) -> None:
    known = host.events[0].name
    for event in ({}, {"session_id": "s", "hook_event_name": "Nope"}, {"hook_event_name": known, "action": known}):
        line = explain_event(host, event)
        assert line.startswith("no memory: ")
        assert "\n" not in line
