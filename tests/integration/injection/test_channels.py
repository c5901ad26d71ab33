"""A memory that a channel has is told in that channel, not in a private conversation."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.scripted_model import Say, ScriptedModel, offered
from tests.support.service import NOW, Service, as_memory, fact, ids, open_service
from worker.domain.deadline import Deadline
from worker.domain.errors import MemoryRejected
from worker.domain.model_calls import ChatRequest
from worker.domain.visibility import as_everybodys
from worker.operations.injection import InjectionOperations
from worker.operations.listing import ListingOperations
from worker.operations.requests import ExportRequest, RecallRequest

QUESTION = "Who brings the projector to the offsite in Kiel?"
ROOM = fact("room", "Yuki brings the projector to the offsite in Kiel", channel="#offsite")
OWN = fact("own", "The projector for the offsite in Kiel is in my car", channel="#offsite", scope={"user": "bob"})


def scope(channel: str | None = None, user: str | None = "bob") -> dict[str, Any]:
    return {"tenant": "t1", "user": user, "channel": channel}


async def asked(service: Service, **where: Any) -> set[str]:
    session = json.dumps(where)
    return set(ids(await service.ask(QUESTION, session_id=session, scope=scope(**where), deadline_ms=20_000)))


async def recalled(service: Service, here: str | None = None, named: str | None = None, **fields: Any) -> set[str]:
    operations = InjectionOperations(service.injection, service.recall, lambda _: service.config, lambda: NOW, str)
    given = {"query": QUESTION, "scope": scope(here), "channel": named, **fields}
    request = RecallRequest.model_validate(given)
    return {one.id for one in (await operations.recall(request, Deadline.after(20.0))).memories}


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ({"channel": "#offsite"}, {"room", "own"}),
        ({"channel": "#offsite", "user": "ann"}, {"room"}),
        ({"channel": None}, {"own"}),
        ({"channel": None, "user": None}, set()),
        ({"channel": "dm:bob"}, {"own"}),
        ({"channel": "#random", "user": "ann"}, set()),
    ],
)
async def test_injection_and_recall_keep_to_the_channel(tmp_path: Path, where: dict[str, Any], told: set[str]) -> None:
    async with open_service(tmp_path, strategy="deterministic") as service:
        await service.put([ROOM, OWN])
        assert await asked(service, **where) == told
        if where.get("user", "bob") == "bob":
            assert await recalled(service, where["channel"]) == told


async def test_a_search_may_name_the_channel(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await service.put([ROOM, OWN])
        assert await recalled(service) == {"own"}
        assert await recalled(service, named="#offsite") == {"room", "own"}
        assert await recalled(service, channels=["#offsite"]) == {"room", "own"}
        assert await recalled(service, channels=["#random"]) == set()


async def test_the_settings_may_tell_it_everywhere(tmp_path: Path) -> None:
    async with open_service(tmp_path, strategy="deterministic", channel_memories="everywhere") as service:
        await service.put([ROOM, OWN])
        assert await asked(service, channel=None) == {"room", "own"}
        assert await recalled(service) == {"room", "own"}


async def test_a_model_cannot_search_another_channel(tmp_path: Path) -> None:
    def everything(request: ChatRequest) -> str:
        return json.dumps({"relevant": list(offered(request)), "sufficient": True})

    search = Say(tool_calls=(("recall", json.dumps({"query": "projector", "channel": "#offsite"})),))
    model = ScriptedModel([search, everything])
    async with open_service(tmp_path, model=model, strategy="llm") as service:
        await service.put([ROOM, fact("other", "The offsite in Kiel starts on Monday")])
        told = await asked(service, channel=None)
    assert "room" not in told
    assert "Yuki" not in str(model.requests)


async def test_links_successors_pinned_memories_and_lists_keep_to_it_too(tmp_path: Path) -> None:
    pinned = fact("pinned", "We speak of the offsite as Kiel", type="preference", channel="#offsite")
    linked = fact("linked", "The offsite in Kiel needs a projector", relations=[{"kind": "about", "target": "room"}])
    async with open_service(tmp_path, strategy="deterministic", pinned_types=("preference",)) as service:
        await service.put([ROOM, pinned, linked])
        private = await service.ask(QUESTION, scope=scope(), deadline_ms=20_000)
        receipt = await service.receipt(private)
        listing = ListingOperations(service.memory_service, lambda _: service.config, lambda: NOW)
        page = await listing.export(
            ExportRequest.model_validate({"tenant": "t1", "scope": scope(), "limit": 10}), Deadline.after(10.0)
        )
    assert {one.id for one in receipt.considered} == {"linked"}
    assert [one.id for one in page.memories] == ["linked"]


async def test_a_repeated_turn_in_another_channel_is_not_repeated(tmp_path: Path) -> None:
    async with open_service(tmp_path, strategy="deterministic") as service:
        await service.put([ROOM])
        first = await service.ask(QUESTION, scope=scope("#offsite"), deadline_ms=20_000)
        again = await service.ask(QUESTION, scope=scope("dm:bob"), deadline_ms=20_000)
    assert (ids(first), ids(again)) == (["room"], [])


async def test_a_channel_cannot_replace_what_others_see(tmp_path: Path) -> None:
    newer = {**ROOM, "id": "newer", "relations": [{"kind": "supersedes", "target": "shared"}]}
    async with open_service(tmp_path, strategy="deterministic") as service:
        await service.put([fact("shared", "Deniz brings the projector to the offsite in Kiel")])
        with pytest.raises(MemoryRejected, match="cannot supersede"):
            await service.memory_service.remember("t1", as_memory(newer), now=NOW, keep_same=False)
        assert await asked(service, channel=None) == {"shared"}


async def test_a_shared_users_memory_is_told_everywhere_also_where_it_becomes_everybodys(tmp_path: Path) -> None:
    shared = as_memory({**OWN, "scope": {"user": "team"}})
    assert as_everybodys(shared).scope.user is None
    async with open_service(tmp_path, strategy="deterministic", shared_users=("team",)) as service:
        await service.put([{**OWN, "scope": {"user": "team"}}])
        await service.memory_service.put("t2", [as_everybodys(shared)])
        asked = [
            await service.ask(QUESTION, scope={**scope(), "tenant": tenant}, session_id=tenant, deadline_ms=20_000)
            for tenant in ("t1", "t2")
        ]
    assert [ids(result) for result in asked] == [["own"], ["own"]]
