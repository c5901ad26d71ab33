"""A double of a Qdrant server: the REST endpoints used by the memory store, on the client's in-memory engine.

The client's models parse the JSON requests, which validates what the store sends. As on a server, an index takes time,
changes are made in the order of their requests, and nothing can be sorted by a key without an index.
"""

import asyncio
import json
import re
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel, TypeAdapter
from qdrant_client import AsyncQdrantClient, models

VERSION = "1.20.0"
POINTS = TypeAdapter(list[models.PointStruct])
OPERATIONS = TypeAdapter(list[models.UpdateOperation])
Route = Callable[["QdrantDouble", str, dict[str, Any]], Awaitable[Any]]


class QdrantDouble:
    """A double server. `faults` apply to one request each: a status, "hang", "drop", "garbage", "absent" or seconds.

    `seen` lists the method and path of each request, `bodies` the JSON of answered ones. An index takes `index_s`.
    """

    def __init__(self) -> None:
        self.engine = AsyncQdrantClient(":memory:")
        self.faults: deque[int | str | float] = deque()
        self.seen: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.version = VERSION
        self.url = ""
        self.index_s = 0.0
        self.indexes: defaultdict[str, dict[str, models.PayloadIndexInfo]] = defaultdict(dict)
        self.built_at = 0.0

    async def built(self) -> None:
        """Wait until all indexes that were ordered are built."""
        await asyncio.sleep(max(0.0, self.built_at - time.monotonic()))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while (request := await read_request(reader)) is not None:
                await self.answer(writer, *request)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answer(self, writer: asyncio.StreamWriter, method: str, target: str, body: bytes) -> None:
        path, _, options = target.partition("?")
        self.seen.append(f"{method} {path}")
        fault = self.faults.popleft() if self.faults else None
        if fault == "hang":
            await asyncio.sleep(30)
        if isinstance(fault, float):
            await asyncio.sleep(fault)
        if fault == "drop":
            raise ConnectionError
        if fault == "garbage":
            await respond(writer, 200, b"<html>not the server you meant</html>")
            return
        if isinstance(fault, int):
            await respond(writer, fault, json.dumps({"status": {"error": "injected"}}).encode())
            return
        if fault == "absent":
            await respond(writer, 200, b'{"result": {"exists": false}, "status": "ok", "time": 0.0}')
            return
        arguments = json.loads(body) if body else {}
        self.bodies.append(arguments)
        if "wait=true" in options and not path.endswith("/index"):
            await self.built()
        answer = await self.handle(method, path, arguments)
        if "wait=true" in options:
            await self.built()
        await respond(writer, *answer)

    async def handle(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if path == "/":
            return 200, json.dumps({"title": "qdrant", "version": self.version}).encode()
        for pattern, route in ROUTES.items():
            found = re.fullmatch(pattern, f"{method} {path}")
            if found is not None:
                result = to_json(await route(self, found[1], body))
                if isinstance(result, str) and result in REFUSALS:
                    return REFUSALS[result]
                return 200, json.dumps({"result": result, "status": "ok", "time": 0.0}).encode()
        return 404, b'{"status": {"error": "no such path"}}'


def to_json(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    return [to_json(item) for item in value] if isinstance(value, list) else value


async def exists(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    return {"exists": await double.engine.collection_exists(name)}


async def create(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    made = models.CreateCollection.model_validate(body)
    if await double.engine.collection_exists(name):
        return CONFLICT
    return await double.engine.create_collection(
        name, made.vectors, made.sparse_vectors, hnsw_config=made.hnsw_config, metadata=made.metadata
    )


async def describe(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    info = await double.engine.get_collection(name)
    return info.model_copy(update={"payload_schema": double.indexes[name]})


async def index(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    made = models.CreateFieldIndex.model_validate(body)
    assert isinstance(made.field_schema, BaseModel)
    kind = models.PayloadSchemaType(made.field_schema.type)
    double.indexes[name][made.field_name] = models.PayloadIndexInfo(data_type=kind, points=0)
    double.built_at = max(double.built_at, time.monotonic()) + double.index_s
    return COMPLETED


async def upsert(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    points = POINTS.validate_python(body["points"])
    await double.engine.upsert(name, points)
    return COMPLETED


async def query(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    batch = models.QueryRequestBatch.model_validate(body)
    orders = [one.query.order_by for one in batch.searches if isinstance(one.query, models.OrderByQuery)]
    if [one.key for one in orders if isinstance(one, models.OrderBy) and one.key not in double.indexes[name]]:
        return NO_INDEX
    return await double.engine.query_batch_points(name, batch.searches)


async def count(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    asked = models.CountRequest.model_validate(body)
    return await double.engine.count(name, asked.filter, exact=True)


async def retrieve(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    asked = models.PointRequest.model_validate(body)
    return await double.engine.retrieve(
        name, asked.ids, with_payload=asked.with_payload or False, with_vectors=asked.with_vector or False
    )


async def scroll(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    asked = models.ScrollRequest.model_validate(body)
    records, following = await double.engine.scroll(
        name,
        asked.filter,
        limit=asked.limit or 10,
        offset=asked.offset,
        with_payload=asked.with_payload or False,
        with_vectors=asked.with_vector or False,
    )
    return {"points": to_json(records), "next_page_offset": following}


async def delete(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    await double.engine.delete(name, models.PointIdsList.model_validate(body))
    return COMPLETED


async def update_batch(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    operations = OPERATIONS.validate_python(body["operations"])
    await double.engine.batch_update_points(name, operations)
    return [COMPLETED for _ in operations]


async def drop(double: QdrantDouble, name: str, body: dict[str, Any]) -> Any:
    double.indexes.pop(name, None)
    return await double.engine.delete_collection(name)


async def aliases(double: QdrantDouble, _: str, body: dict[str, Any]) -> Any:
    return await double.engine.get_aliases()


async def change_aliases(double: QdrantDouble, _: str, body: dict[str, Any]) -> Any:
    changes = models.ChangeAliasesOperation.model_validate(body)
    await double.engine.update_collection_aliases(changes.actions)
    return True


async def collections(double: QdrantDouble, _: str, body: dict[str, Any]) -> Any:
    return await double.engine.get_collections()


CONFLICT, NO_INDEX = "conflict", "no index"
REFUSALS = {
    CONFLICT: (409, b'{"status": {"error": "exists already"}}'),
    NO_INDEX: (400, b'{"status": {"error": "No range index for `order_by` key"}}'),
}
COMPLETED = {"operation_id": 0, "status": "completed"}
ROUTES: dict[str, Route] = {
    r"GET /(aliases)": aliases,
    r"GET /(collections)": collections,
    r"POST /collections/(aliases)": change_aliases,
    r"GET /collections/([^/]+)/exists": exists,
    r"PUT /collections/([^/]+)": create,
    r"GET /collections/([^/]+)": describe,
    r"DELETE /collections/([^/]+)": drop,
    r"PUT /collections/([^/]+)/index": index,
    r"PUT /collections/([^/]+)/points": upsert,
    r"POST /collections/([^/]+)/points/query/batch": query,
    r"POST /collections/([^/]+)/points/batch": update_batch,
    r"POST /collections/([^/]+)/points/count": count,
    r"POST /collections/([^/]+)/points": retrieve,
    r"POST /collections/([^/]+)/points/scroll": scroll,
    r"POST /collections/([^/]+)/points/delete": delete,
}


async def read_request(reader: asyncio.StreamReader) -> tuple[str, str, bytes] | None:
    """Return method, path with query, and body, `None` at the end of the connection."""
    line = await reader.readline()
    if not line:
        return None
    method, target, _ = line.decode().split(" ", 2)
    length = 0
    while (header := await reader.readline()) not in (b"\r\n", b""):
        name, _, value = header.decode().partition(":")
        if name.lower() == "content-length":
            length = int(value)
    return method, target, await reader.readexactly(length)


async def respond(writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()


@asynccontextmanager
async def qdrant_double() -> AsyncIterator[QdrantDouble]:
    """Run a double on a free port."""
    double = QdrantDouble()
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(double.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    double.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield double
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await double.engine.close()
