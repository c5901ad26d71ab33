"""The order in which waiting requests are served."""

import pytest

from worker.domain.fair_line import Caller, FairLine

FLOOD, QUIET = Caller("acme", "flood"), Caller("acme", "quiet")
OTHER = Caller("globex", "main")


def line_of(*entries: tuple[Caller, str]) -> FairLine[str]:
    line: FairLine[str] = FairLine()
    for caller, entry in entries:
        line.push(caller, entry)
    return line


def served(line: FairLine[str]) -> list[str]:
    return [line.pop() for _ in range(len(line))]


def test_requests_of_one_agent_are_served_in_order() -> None:
    assert served(line_of(*((FLOOD, str(number)) for number in range(4)))) == ["0", "1", "2", "3"]


def test_agents_of_a_tenant_take_turns() -> None:
    line = line_of(*((FLOOD, f"flood {number}") for number in range(3)), (QUIET, "quiet"))
    assert served(line) == ["flood 0", "quiet", "flood 1", "flood 2"]


def test_a_tenant_with_many_agents_has_one_turn_per_round() -> None:
    many = ((Caller("acme", str(number)), f"acme {number}") for number in range(3))
    line = line_of(*many, (OTHER, "globex 0"), (OTHER, "globex 1"))
    assert served(line) == ["acme 0", "globex 0", "acme 1", "globex 1", "acme 2"]


@pytest.mark.parametrize("caller", [FLOOD, QUIET, OTHER, Caller("globex", "new"), Caller("initech")])
def test_a_new_request_is_served_when_expected_or_one_round_earlier(caller: Caller) -> None:
    line = line_of(*((FLOOD, f"flood {number}") for number in range(5)), (OTHER, "globex 0"), (OTHER, "globex 1"))
    ahead = line.ahead(caller)
    line.push(caller, "new")
    assert ahead - 2 <= served(line).index("new") <= ahead


def test_what_waits_no_longer_is_skipped() -> None:
    line = line_of((FLOOD, "gone"), (FLOOD, "left"), (OTHER, "gone too"))
    line.remove(FLOOD, "gone")
    line.remove(OTHER, "gone too")
    line.remove(QUIET, "never there")
    assert served(line) == ["left"]
    with pytest.raises(KeyError):
        line.pop()
