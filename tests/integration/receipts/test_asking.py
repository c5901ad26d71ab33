"""Why a memory did not come for a request that never considered it."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.embedders import HashingEmbedder
from tests.support.service import Service, fact, open_service
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.domain.deadline import Deadline
from worker.domain.memory import CandidateVerdict
from worker.recall.standing import Standings
from worker.receipts.absence import Absence, MemoryExplanation
from worker.receipts.asking import MemoryQuestions

MESSAGE = "How long are cabin holds kept in the checkout?"


async def asked(service: Service, memory_id: str, embedder: Any = None, **fields: Any) -> MemoryExplanation:
    """Ask about a memory after a request with these fields."""
    receipt = await service.receipt(await service.ask(fields.pop("message", MESSAGE), **fields))
    return await explained(service, receipt.id, memory_id, embedder)


async def explained(service: Service, receipt_id: str, memory_id: str, embedder: Any = None) -> MemoryExplanation:
    standings = Standings(service.engine, Bm25Encoder("english"), embedder, embedder.profile if embedder else None)
    questions = MemoryQuestions(service.receipts, service.engine, lambda _: service.config, standings)
    return await questions.explain("t1", receipt_id, memory_id, Deadline.after(5))


@pytest.mark.parametrize(
    ("fields", "reason", "words"),
    [
        (
            {"scope": {"user": "maria"}},
            Absence.OTHER_OWNER,
            "belongs to the user maria; this request was of",
        ),
        ({"scope": {"project": "quay"}}, Absence.OTHER_OWNER, "the project quay; this request named no project"),
        ({"created_at": "2026-03-21T00:00:00Z"}, Absence.NEWER, "younger than the request"),
        ({"valid_until": "2026-03-01T00:00:00Z"}, Absence.EXPIRED, "valid until 2026-03-01"),
        ({"superseded_by": "other", "superseded_at": "2026-02-01T00:00:00Z"}, Absence.REPLACED, "replaced"),
        ({"importance": 0.1}, Absence.TOO_UNIMPORTANT, "importance of 0.4 at least, and it has 0.1"),
    ],
)
async def test_what_the_request_could_not_see(
    tmp_path: Path, fields: dict[str, Any], reason: Absence, words: str
) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        scope = {"tenant": "t1", "user": "oscar"}
        receipt = await service.receipt(await service.ask(MESSAGE, scope=scope, min_importance=0.4))
        await service.put([fact("m", "The greenhouse is watered at dawn", **fields)])
        found = await explained(service, receipt.id, "m")
    assert found.reason is reason
    assert words in found.why
    assert found.remedy


async def test_a_memory_of_another_tenant_is_unknown(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await service.put([fact("m", "Cabin holds are kept for 12 minutes in the checkout")], tenant="t2")
        found = await asked(service, "m")
    assert found.reason is Absence.UNKNOWN
    assert "12 minutes" not in found.model_dump_json()


async def test_a_considered_memory_has_its_verdict(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await service.put([fact("m", "Cabin holds are kept for 12 minutes in the checkout")])
        found = await asked(service, "m")
    assert (found.reason, found.verdict) == (Absence.CONSIDERED, CandidateVerdict.CHOSEN)
    assert found.remedy is None


async def test_a_skipped_request_searched_for_nothing(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await service.put([fact("m", "Cabin holds are kept for 12 minutes in the checkout")])
        found = await asked(service, "m", message="hello")
    assert found.reason is Absence.NOT_SEARCHED
    assert "greeting" in found.why


async def test_places_and_scores_say_how_far_it_was(tmp_path: Path) -> None:
    """Without vectors, thirty memories with the words of the message leave no place for one that has only one."""
    async with open_service(tmp_path, embedder=HashingEmbedder(), search_limit=5, pool_limit=5) as service:
        near = [fact(f"n{number}", f"Cabin holds are kept in the checkout, note {number}") for number in range(30)]
        await service.put([*near, fact("m", "The checkout has a progress bar for the passengers of the ferry")])
        await service.put([fact("far", "Tulips bloom in April")])
        outside, far = await asked(service, "m"), await asked(service, "far", turn="2")
    assert outside.reason is Absence.OUTSIDE_SEARCHES
    assert outside.words_place == 31
    assert "30 memories are closer, and each search brings 5" in outside.why
    assert far.reason is Absence.OUTSIDE_SEARCHES
    assert "shares no word" in far.why


async def test_the_similarity_that_is_missing_is_named(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_service(tmp_path, embedder=embedder, search_limit=1, contextual_min_score=0.9) as service:
        await service.put([fact(f"n{number}", f"Cabin holds in the checkout {number}") for number in range(20)])
        await service.put([fact("far", "Tulips bloom in April")])
        found = await asked(service, "far", embedder)
    assert found.reason is Absence.TOO_FAR
    assert "0.90 is needed" in found.why


async def test_a_pinned_memory_is_told_that_others_are_pinned_before_it(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder(), max_total=2) as service:
        first = [fact(f"p{number}", f"Rule {number}", pinned=True) for number in range(3)]
        await service.put([*first, fact("m", "Tulips bloom in April", created_at="2020-01-01T00:00:00Z", pinned=True)])
        receipt = await service.receipt(await service.ask(MESSAGE))
        crowded = await explained(service, receipt.id, "m")
        await service.memory_service.forget("t1", ["p0", "p1"])
        room = await explained(service, receipt.id, "m")
    assert crowded.reason is Absence.TOO_MANY_PINNED
    assert "4 pinned memories, and a block holds 2 at most" in crowded.why
    assert room.reason is Absence.TOO_MANY_PINNED
    assert "2 at most: there is room for it today" in room.why
