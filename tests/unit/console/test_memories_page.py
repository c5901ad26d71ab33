"""The list of memories: its filters, and what was given and never used."""

from tests.support.console import browsing
from tests.support.http import Recorder


async def test_filters_of_the_list_are_asked_for() -> None:
    recorder = Recorder({"export": {"memories": [], "cursor": None}})
    async with browsing(recorder) as client:
        await client.get("/memories?type=goal&user=hana&agent=scout&project=hall&since=2026-01-01&until=2026-02-01")
    asked = recorder.asked[-1][1]
    assert (asked["types"], asked["user"], asked["agent"], asked["project"]) == (["goal"], "hana", "scout", "hall")
    assert (asked["since"], asked["until"], asked["newest"]) == ("2026-01-01", "2026-02-01", True)


async def test_what_was_never_used_has_no_filters_that_would_not_apply() -> None:
    usage = {
        "memories": [{"id": "m", "text": "Booth", "injected": 3, "used": 0, "last_injected": None, "last_used": None}],
        "counted": 1,
    }
    async with browsing(Recorder({"usage": usage})) as client:
        page = (await client.get("/memories?never_used=true&user=hana")).text
        assert "50 at most, of all memories" in page
        assert 'role="search"' not in page
        assert "3×" in page
        assert "never_used=true" in (await client.get("/memories")).text


async def test_the_list_marks_pinned_memories() -> None:
    memories = [{"id": "p", "content": "Ring twice", "pinned": True}, {"id": "m", "content": "Ring once"}]
    async with browsing(Recorder({"export": {"memories": memories, "cursor": None}})) as client:
        page = (await client.get("/memories")).text
    assert page.count(">pinned</span>") == 1
    assert page.index("Ring twice") < page.index(">pinned</span>") < page.index("Ring once")
