"""`meeseeks doctor` and `store info` on a store with damaged memories."""

import asyncio
import json
from pathlib import Path

import qdrant_edge as edge

from tests.support.command_line import command_line
from tests.support.store import ENCODER, memory, stored
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.adapters.qdrant.payload import MEMORY, payload_of, point_id


def damage(folder: Path) -> None:
    """Store three memories, one of which has a damaged type and one no readable text."""

    async def write() -> None:
        store = await EdgeStore.open(folder, profile=None, bm25_hash=ENCODER.config_hash)
        items = [memory(key, f"The {key} bell hangs on the larch beam") for key in ("whole", "damaged", "lost")]
        await store.tenant("default").put([stored(item) for item in items])
        for item, text in ((items[1], json.dumps(item_fields(items[1]))), (items[2], "{torn")):
            payload = payload_of("default", item) | {MEMORY: text}
            point = point_id("default", item.id)
            store._shard._points.update(edge.UpdateOperation.overwrite_payload([point], payload))
        await store.aclose()

    asyncio.run(write())


def item_fields(item: object) -> dict[str, object]:
    return {**json.loads(item.model_dump_json()), "type": "grudge"}  # type: ignore[attr-defined]


def test_damaged_memories_are_counted_and_the_rest_of_them_kept(tmp_path: Path) -> None:
    commands = command_line(tmp_path)
    damage(tmp_path / "data" / "memories")
    assert commands.json("store", "info")["rows"] == {"read": 2, "damaged": 1, "unreadable": 1}
    shown = commands.json("show", "damaged")["memory"]
    assert (shown["content"], shown.get("type", "fact")) == ("The damaged bell hangs on the larch beam", "fact")
    said = commands.run("doctor", "--json")
    assert said.exit_code == 1
    damaged = "memories with a field that cannot be read, whose default is used: 1"
    assert f"{damaged}; memories that cannot be read and are left out: 1; examined: 3" in said.stdout
