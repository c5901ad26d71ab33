"""Log lines of answers: what was injected and from where, and no texts."""

from pathlib import Path

from structlog.testing import capture_logs

from tests.support.embedders import HashingEmbedder
from tests.support.service import fact, open_service

KEY = "The spare boat-shed key hangs behind the kayak rack at Lindholm"
QUESTION = "Where does the spare boat-shed key hang?"


async def test_an_answer_is_logged_by_memory_and_in_total(tmp_path: Path) -> None:
    pinned = {"ambient_enabled": True, "pinned_types": ["goal"]}
    async with open_service(tmp_path, embedder=HashingEmbedder(), **pinned) as service:
        await service.put([fact("key", KEY), fact("win", "Win the regatta in June", type="goal")])
        with capture_logs() as logs:
            await service.ask(QUESTION, turn="1")
            await service.ask(QUESTION, turn="2")
    memories = {entry["id"]: entry for entry in logs if entry["event"] == "memory_injected"}
    told = {key: (entry["log_level"], entry["type"], entry["source"]) for key, entry in memories.items()}
    assert told == {"key": ("debug", "fact", "contextual"), "win": ("debug", "goal", "pinned")}
    assert all(isinstance(entry["score"], float) for entry in memories.values())
    first, second = (entry for entry in logs if entry["event"] == "answered")
    counts = ("log_level", "pinned", "contextual", "deduped", "total")
    assert [first[key] for key in counts] == ["info", 1, 1, 0, 2]
    assert [second[key] for key in counts] == ["info", 0, 0, 2, 0]
    assert first["elapsed_ms"] > 0
    assert not [entry for entry in logs if "boat-shed" in str(entry) or "regatta" in str(entry)]
