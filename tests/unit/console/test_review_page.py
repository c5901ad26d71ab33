"""The page of proposals: what was said, what would be written, and both decisions."""

from typing import Any

from tests.support.console import PROPOSAL, browsing, post
from tests.support.http import Recorder

ANSWERS: dict[str, Any] = {
    "proposals": {"proposals": [PROPOSAL]},
    "proposal_accept": {"id": "m", "stored": "created"},
    "proposal_reject": {"rejected": "p1"},
}


async def test_a_proposal_stands_beside_its_words() -> None:
    async with browsing(Recorder(ANSWERS)) as client:
        page = (await client.get("/review")).text
    assert "&lt;b&gt;so&lt;/b&gt;" in page
    assert 'replaces <a href="/memory?id=m">' in page
    assert '<a href="/memory?id=m2">' in page
    assert "of hana" in page


async def test_it_is_kept_in_other_words_or_rejected() -> None:
    recorder = Recorder(ANSWERS)
    async with browsing(recorder) as client:
        kept = await post(client, "/review/accept", "/review", id="p1", text="in other words")
        rejected = await post(client, "/review/reject", "/review", id="p1")
    assert (kept.status_code, kept.headers["location"], rejected.status_code) == (303, "/review", 303)
    asked = [(name, payload) for name, payload in recorder.asked if name != "proposals"]
    assert asked == [
        ("proposal_accept", {"id": "p1", "text": "in other words", "tenant": "default"}),
        ("proposal_reject", {"id": "p1", "tenant": "default"}),
    ]


async def test_without_proposals_it_says_how_to_get_some() -> None:
    async with browsing(Recorder({"proposals": {"proposals": []}})) as client:
        page = (await client.get("/review")).text
    assert "meeseeks settings set capture review" in page
