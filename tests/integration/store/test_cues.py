"""Cues: memories are found through them, and they are copied, backed up, changed and deleted with their memory."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.embedders import HashingEmbedder
from tests.support.served_store import ServedStore, large, open_served_store, small
from tests.support.service import fact, ids, open_service
from worker.operations.registry import EXPORT, FORGET, PUT, REMEMBER, SHOW, UPDATE
from worker.recall.cue_matches import NEAR

LUME = "Dana likes Osteria Lume best"
CUES = ["book the usual restaurant for her birthday", "where should we celebrate on Friday?"]
OTHERS = [
    fact("m2", "Birthday presents are in the hall cupboard"),
    fact("m3", "The restaurant on Main Street closed on Friday"),
    fact("m4", "Invoices are due within 30 days"),
]
MESSAGE = "Please book the usual restaurant for her birthday party"


async def cues_of(kept: ServedStore, key: str = "m1") -> list[str]:
    shown = await kept.call(SHOW, {"tenant": "t1", "id": key})
    return [cue["text"] for cue in shown["memory"].get("cues", [])]


async def remember(kept: ServedStore, **fields: Any) -> str:
    done = await kept.call(REMEMBER, {"tenant": "t1", "memory": {"content": LUME, **fields}})
    return str(done["stored"])


async def test_a_memory_is_found_through_a_cue_that_only_receipts_show(tmp_path: Path) -> None:
    async with open_service(tmp_path, strategy="deterministic") as service:
        await service.put([fact("m1", LUME), *OTHERS])
        before = await service.receipt(await service.ask(MESSAGE, turn="1", commit=False))
        assert "m1" not in before.chosen
        await service.put([fact("m1", LUME, cues=CUES)])
        result = await service.ask(MESSAGE, turn="2")
        assert ids(result)[:1] == ["m1"]
        assert result.memory_context is not None
        assert LUME in result.memory_context
        assert not any(cue in result.memory_context for cue in CUES)
        receipt = await service.receipt(result)
        entry = next(one for one in receipt.considered if one.id == "m1")
        assert entry.cue == CUES[0]
        assert entry.cue_cosine is not None
        assert entry.own_cosine is not None
        assert entry.cue_cosine > NEAR > entry.own_cosine
        assert entry.cues_near >= 1
        assert not any(one.cue for one in receipt.considered if one.id != "m1")


async def test_receipts_without_texts_have_no_cue(tmp_path: Path) -> None:
    async with open_service(tmp_path, strategy="deterministic", receipt_keep="no_texts") as service:
        await service.put([fact("m1", LUME, cues=CUES), *OTHERS])
        receipt = await service.receipt(await service.ask(MESSAGE))
        entry = next(one for one in receipt.considered if one.id == "m1")
        assert entry.cue is None
        assert entry.cue_cosine is not None


async def test_cues_do_not_make_memories_of_different_texts_duplicates(tmp_path: Path) -> None:
    async with open_service(tmp_path, strategy="deterministic", recall_min_score=0.0) as service:
        await service.put([fact("m1", LUME, cues=CUES), fact("m2", "Ben never eats fish", cues=CUES), *OTHERS[1:]])
        receipt = await service.receipt(await service.ask(MESSAGE))
        assert {one.id: one.verdict.value for one in receipt.considered}.get("m2") != "duplicate"


async def test_the_same_text_with_other_cues_adds_them(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, small()) as kept:
        assert await remember(kept, id="m1", cues=CUES[:1]) == "created"
        assert await remember(kept, id="m1", cues=CUES[:1]) == "unchanged"
        derived = await kept.call(REMEMBER, {"tenant": "t1", "memory": {"content": "Kim rows"}})
        again = {"content": "Kim rows", "cues": ["who rows?"]}
        assert (await kept.call(REMEMBER, {"tenant": "t1", "memory": again}))["stored"] == "updated"
        assert (await kept.call(REMEMBER, {"tenant": "t1", "memory": again}))["stored"] == "unchanged"
        plain = {"content": "Kim rows"}
        assert (await kept.call(REMEMBER, {"tenant": "t1", "memory": plain}))["stored"] == "unchanged"
        assert await cues_of(kept, derived["id"]) == ["who rows?"]


async def test_cues_follow_the_text(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, small()) as kept:
        await kept.put(fact("m1", LUME, cues=CUES))
        await kept.put(fact("m1", LUME, importance=0.9))
        assert await cues_of(kept) == CUES
        await kept.call(UPDATE, {"tenant": "t1", "id": "m1", "changes": {"cues": CUES[1:]}})
        assert await cues_of(kept) == CUES[1:]
        await kept.call(UPDATE, {"tenant": "t1", "id": "m1", "changes": {"content": "Dana likes Da Gino best"}})
        assert await cues_of(kept) == []
        await kept.put(fact("m1", "Dana moved to Bern", cues=["where does she live?"]))
        assert await cues_of(kept) == ["where does she live?"]


async def test_secrets_in_cues_are_masked_with_those_of_the_text(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, small()) as kept:
        memory = fact("m1", LUME, cues=["log in with password: hunter2-hunter2"])
        await kept.call(PUT, {"tenant": "t1", "memories": [memory], "mask": True})
        assert await cues_of(kept) == ["log in with password: [masked]"]


@pytest.mark.parametrize("again", [small, large])
async def test_a_backup_and_a_reindex_keep_cues_with_their_vectors(tmp_path: Path, again: Any) -> None:
    async with open_served_store(tmp_path / "a", small()) as kept:
        await kept.put(fact("m1", LUME, cues=CUES), *OTHERS)
        before = await kept.search(CUES[0])
        await kept.maintenance.backup(kept.progress, tmp_path / "copy")
        await kept.maintenance.reindex(kept.progress, force=True)
        assert await kept.search(CUES[0]) == before
    fresh: HashingEmbedder = again()
    async with open_served_store(tmp_path / "b", fresh) as kept:
        await kept.maintenance.restore(kept.progress, tmp_path / "copy")
        assert (fresh.passages == []) is (again is small), "vectors of the same embedder are taken over"
        assert await cues_of(kept) == CUES
        found = await kept.search(CUES[0])
        assert found[0]["id"] == "m1"
        if again is small:
            assert found[0]["cosine"] == pytest.approx(before[0]["cosine"], abs=1e-4)


ORIGINS = [
    {"text": CUES[0], "origin": "given"},
    {"text": CUES[1], "origin": "model", "prompt": "cues@1"},
    {"text": "Reserve a table for her leaving party", "origin": "learned", "user": "mia"},
]
MIAS = fact("m1", LUME, cues=ORIGINS, scope={"user": "mia"})


async def stored_cues(kept: ServedStore) -> list[dict[str, Any]]:
    shown = await kept.call(SHOW, {"tenant": "t1", "id": "m1"})
    found: list[dict[str, Any]] = shown["memory"].get("cues", [])
    return found


async def test_who_wrote_a_cue_outlives_export_import_reindex_and_restore(tmp_path: Path) -> None:
    async with open_served_store(tmp_path / "a", small()) as kept:
        await kept.put(MIAS)
        before = await stored_cues(kept)
        assert [cue.get("origin", "given") for cue in before] == ["given", "model", "learned"]
        assert (before[1]["prompt"], before[2]["user"]) == ("cues@1", "mia")
        await kept.maintenance.reindex(kept.progress, force=True)
        assert await stored_cues(kept) == before
        await kept.maintenance.backup(kept.progress, tmp_path / "copy")
        exported = (await kept.call(EXPORT, {"tenant": "t1"}))["memories"]
    async with open_served_store(tmp_path / "b", small()) as kept:
        await kept.maintenance.restore(kept.progress, tmp_path / "copy")
        assert await stored_cues(kept) == before
    async with open_served_store(tmp_path / "c", small()) as kept:
        await kept.put(*exported)
        assert await stored_cues(kept) == before
        await kept.call(FORGET, {"tenant": "t1", "ids": ["m1"]})
        await kept.put(fact("m1", LUME, scope={"user": "mia"}))
        assert await stored_cues(kept) == []


async def test_a_successor_starts_without_the_cues_of_what_it_replaces(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, small()) as kept:
        await kept.put(MIAS)
        replaced = [{"kind": "supersedes", "target": "m1"}]
        await kept.put(fact("m2", "Dana likes Da Gino best now", relations=replaced, scope={"user": "mia"}))
        shown = await kept.call(SHOW, {"tenant": "t1", "id": "m2"})
        assert shown["memory"].get("cues", []) == []
        assert len(await stored_cues(kept)) == 3


async def test_an_import_drops_what_was_learned_from_another_user(tmp_path: Path) -> None:
    async with open_served_store(tmp_path, small()) as kept:
        await kept.put({**MIAS, "scope": {"user": "noah"}})
        assert [cue.get("origin", "given") for cue in await stored_cues(kept)] == ["given", "model"]


async def test_a_store_without_cues_embeds_nothing_more_than_its_texts(tmp_path: Path) -> None:
    embedder = small()
    async with open_served_store(tmp_path, embedder) as kept:
        await kept.put(*OTHERS)
        assert embedder.passages == [memory["content"] for memory in OTHERS]
