"""A real tiny model is asked for cues: whatever it answers, the report says what was stored."""

import json
from pathlib import Path

import pytest

from tests.support.command_line import command_line
from tests.support.local_llm import MISSING, SKIP_REASON, local_llm

pytestmark = [pytest.mark.local_llm, pytest.mark.skipif(bool(MISSING), reason=SKIP_REASON), pytest.mark.timeout(300)]


def test_a_tiny_model_is_asked_and_what_it_says_is_told(tmp_path: Path) -> None:
    with local_llm() as server:
        shell = command_line(tmp_path, MEESEEKS_MODEL_API_BASE=server.url)
        shell.ok("remember", "Staging listens on port 9443 since the new proxy", "--id", "m1")
        shell.ok("remember", "Dana likes Osteria Lume best", "--id", "m2")
        done = shell.json("enrich", "--yes", "--model", "openai/local")
        assert done["planned"]["memories"] == 2
        assert done["enriched"] + done["left"] == 2
        assert done["stopped"] is None
        memories = {one["id"]: one for one in map(json.loads, shell.ok("export").splitlines())}
    cues = [cue for memory in memories.values() for cue in memory.get("cues", [])]
    assert len(cues) == done["cues"]
    assert all((cue["origin"], cue["prompt"]) == ("model", "cues@1") for cue in cues)
    assert done["enriched"] == sum(bool(memory.get("cues")) for memory in memories.values())
