"""Files of memories: what an export says before it begins, and what an import says of what it left out."""

import json

from tests.support.console import browsing, fields_in
from tests.support.http import Recorder
from worker.domain.errors import StoreError

BOOTH = {"id": "m", "content": "The booth is booked"}


async def test_an_export_that_cannot_begin_is_an_error_page() -> None:
    async with browsing(Recorder({"export": StoreError("down")})) as client:
        answer = await client.get("/memories/export?format=csv")
        assert answer.status_code == 503
        assert 'role="alert"' in answer.text
        assert "content-disposition" not in answer.headers


async def test_an_export_is_a_file() -> None:
    async with browsing(Recorder({"export": {"memories": [BOOTH], "cursor": None}})) as client:
        answer = await client.get("/memories/export")
        assert answer.headers["content-disposition"] == 'attachment; filename="memories.jsonl"'
        assert json.loads(answer.text)["content"] == "The booth is booked"


async def test_an_import_says_what_was_rejected_before() -> None:
    stored = {"created": 0, "updated": 0, "unchanged": 0, "without_vector": 0, "rejected_before": 1}
    async with browsing(Recorder({"put": stored})) as client:
        form = fields_in((await client.get("/memories/import")).text)
        file = {"file": ("m.jsonl", json.dumps(BOOTH).encode())}
        answer = await client.post("/memories/import", data={**form, "preview": "no"}, files=file)
        assert "1 not stored again, as they were rejected or deleted before" in answer.text
