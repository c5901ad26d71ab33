"""Who may read and change what, as `docs/access.md` says it: every interface, and every relation of asker and owner.

The asker is the user oscar with the agent "main" in the project "pier" of the tenant "acme".
"""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from hooks import PreExecutionHook
from hooks.queue import QueueClient, QueueFault
from tests.support.command_line import command_line
from tests.support.stack import HTTP, Stack, ask, put, running_stack
from worker.operations.registry import FORGET, RECALL, SHOW, UPDATE

ASKER = {"user": "oscar", "project": "pier"}
OWNERS: dict[str, dict[str, str]] = {
    "own": {"user": "oscar"},
    "shared": {},
    "own agent": {"agent": "main"},
    "own project": {"project": "pier"},
    "all own": {"user": "oscar", "agent": "main", "project": "pier"},
    "other user": {"user": "hana"},
    "other agent": {"agent": "scribe"},
    "other project": {"project": "quay"},
    "own user, other project": {"user": "oscar", "project": "quay"},
    "other tenant": {},
}
SEEN = {"own", "shared", "own agent", "own project", "all own"}
IN_TENANT = set(OWNERS) - {"other tenant"}
FACTS: dict[str, tuple[str, str]] = {
    "own": ("Oscar parks his bicycle behind the walnut shed", "Where does Oscar park his bicycle?"),
    "shared": ("The granite quarry opens at half past six", "When does the granite quarry open?"),
    "own agent": ("Saffron is ordered from the Kashmiri wholesaler", "From whom is saffron ordered?"),
    "own project": ("Database migrations are written with Alembic", "With what are database migrations written?"),
    "all own": ("The trombone lessons take place on Thursdays", "When do the trombone lessons take place?"),
    "other user": ("Hana waters the cactus once every five weeks", "How often does Hana water the cactus?"),
    "other agent": ("The velvet curtains were cleaned in Antwerp", "Where were the velvet curtains cleaned?"),
    "other project": ("The crane on the quay lifts forty tonnes", "How many tonnes does the crane on the quay lift?"),
    "own user, other project": ("Invoices are numbered per year and country", "How are invoices numbered?"),
    "other tenant": ("The zeppelin museum is closed on Mondays", "On which day is the zeppelin museum closed?"),
}


def memory(relation: str, key: str) -> dict[str, Any]:
    content = FACTS[relation][0]
    return {"id": key, "content": content, "created_at": "2026-01-10T09:00:00Z", "scope": OWNERS[relation]}


def key_of(relation: str) -> str:
    return relation.replace(", ", "-").replace(" ", "-")


async def store(stack: Stack, prefix: str = "") -> None:
    for tenant in ("acme", "globex"):
        chosen = [name for name in OWNERS if (name == "other tenant") == (tenant == "globex")]
        await put(stack.url, [memory(name, prefix + key_of(name)) for name in chosen], tenant)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("access"), "up", "--model", "none", **HTTP) as running:
        asyncio.run(store(running))
        yield running


@asynccontextmanager
async def mcp_client(stack: Stack, **headers: str) -> AsyncIterator["Client[Any]"]:
    named = {f"Meeseeks-{name.title()}": value for name, value in headers.items()}
    async with Client(StreamableHttpTransport(f"{stack.http}/mcp", headers=named), init_timeout=50) as client:
        yield client


async def ran(stack: Stack, *words: str) -> bool:
    """Run a command on the service, and return whether it went well."""
    return (await asyncio.to_thread(command_line(stack.folder).run, *words)).exit_code == 0


async def asked(stack: Stack, operation: str, payload: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer over the queue, or nothing if it was refused."""
    client = QueueClient(stack.url)
    try:
        return (await client.ask(operation, payload, budget=10.0, ack_timeout=5.0)).body
    except QueueFault:
        return None
    finally:
        await client.aclose()


async def by_hook(stack: Stack, relation: str) -> list[str]:
    async with PreExecutionHook(stack.url) as hook:
        scope = {"tenant": "acme", **ASKER}
        return (await ask(hook, FACTS[relation][1], scope=scope, deadline_ms=5000)).ids


async def by_http_injection(stack: Stack, relation: str) -> list[str]:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        message = {"session_id": uuid.uuid4().hex, "message": FACTS[relation][1]}
        body = {**message, "scope": {"tenant": "acme", **ASKER}, "deadline_ms": 5000}
        return [item["id"] for item in (await client.post("/v1/inject", json=body)).json()["items"]]


async def by_queue(stack: Stack, relation: str) -> list[str]:
    payload = {"query": FACTS[relation][1], "scope": {"tenant": "acme", **ASKER}, "limit": 30}
    found = await asked(stack, RECALL.name, payload)
    assert found is not None
    return [one["id"] for one in found["memories"]]


async def by_http_search(stack: Stack, relation: str) -> list[str]:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        body = {"query": FACTS[relation][1], "scope": {"tenant": "acme", **ASKER}, "limit": 30}
        return [one["id"] for one in (await client.post("/v1/recall", json=body)).json()["memories"]]


async def by_mcp(stack: Stack, relation: str) -> list[str]:
    async with mcp_client(stack, tenant="acme", **ASKER) as client:
        result = await client.call_tool("recall", {"query": FACTS[relation][1], "limit": 30})
        return [one["id"] for one in result.structured_content["memories"]]


async def by_command(stack: Stack, relation: str) -> list[str]:
    words = ("recall", FACTS[relation][1], "--tenant", "acme", "--user", "oscar", "--project", "pier")
    found = await asyncio.to_thread(command_line(stack.folder).json, *words)
    return [one["id"] for one in found["memories"]]


READERS = (by_hook, by_http_injection, by_queue, by_http_search, by_mcp, by_command)


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
async def test_a_search_finds_what_its_scope_sees_and_nothing_else(
    stack: Stack, reader: Callable[[Stack, str], Awaitable[list[str]]]
) -> None:
    found = {relation: await reader(stack, relation) for relation in OWNERS}
    assert {relation for relation, ids in found.items() if key_of(relation) in ids} == SEEN
    assert set().union(*found.values()) <= {key_of(relation) for relation in SEEN}


async def show_by_queue(stack: Stack, key: str) -> bool:
    return await asked(stack, SHOW.name, {"tenant": "acme", "id": key}) is not None


async def show_by_http(stack: Stack, key: str) -> bool:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        return (await client.get(f"/v1/memories/{key}", params={"tenant": "acme"})).status_code == 200


async def show_by_command(stack: Stack, key: str) -> bool:
    return await ran(stack, "show", key, "--tenant", "acme")


@pytest.mark.parametrize("shows", [show_by_queue, show_by_http, show_by_command], ids=lambda one: one.__name__)
async def test_an_id_reaches_everything_in_its_tenant_and_nothing_beyond(
    stack: Stack, shows: Callable[[Stack, str], Awaitable[bool]]
) -> None:
    assert {relation for relation in OWNERS if await shows(stack, key_of(relation))} == IN_TENANT


async def change_by_queue(stack: Stack, key: str) -> bool:
    payload = {"tenant": "acme", "id": key, "changes": {"importance": 0.9}}
    return await asked(stack, UPDATE.name, payload) is not None


async def forget_by_queue(stack: Stack, key: str) -> bool:
    done = await asked(stack, FORGET.name, {"tenant": "acme", "ids": [key]})
    return done is not None and done["forgotten"] == 1


async def forget_by_http(stack: Stack, key: str) -> bool:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        return (await client.delete(f"/v1/memories/{key}", params={"tenant": "acme"})).status_code == 200


async def forget_by_command(stack: Stack, key: str) -> bool:
    return await ran(stack, "forget", key, "--tenant", "acme")


async def relate_by_http(stack: Stack, key: str) -> bool:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        body = {"tenant": "acme", "changes": {"relations": [{"kind": "refines", "target": "shared"}]}}
        return (await client.patch(f"/v1/memories/{key}", json=body)).status_code == 200


async def change_by_http(stack: Stack, key: str) -> bool:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        body = {"tenant": "acme", "changes": {"importance": 0.9}}
        return (await client.patch(f"/v1/memories/{key}", json=body)).status_code == 200


async def change_by_command(stack: Stack, key: str) -> bool:
    words = ("update", key, "--importance", "0.9", "--tenant", "acme")
    return await ran(stack, *words)


async def forget_by_mcp(stack: Stack, key: str) -> bool:
    async with mcp_client(stack, tenant="acme", **ASKER) as client:
        return not (await client.call_tool("forget", {"ids": [key]}, raise_on_error=False)).is_error


async def update_by_mcp(stack: Stack, key: str) -> bool:
    async with mcp_client(stack, tenant="acme", **ASKER) as client:
        arguments = {"id": key, "importance": 0.9}
        return not (await client.call_tool("update", arguments, raise_on_error=False)).is_error


async def stored(stack: Stack, tenant: str, key: str) -> dict[str, Any] | None:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        answer = await client.get(f"/v1/memories/{key}", params={"tenant": tenant})
        return answer.json()["memory"] if answer.status_code == 200 else None


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        (change_by_queue, IN_TENANT),
        (change_by_http, IN_TENANT),
        (change_by_command, IN_TENANT),
        (update_by_mcp, SEEN),
        (relate_by_http, IN_TENANT),
        (forget_by_queue, IN_TENANT),
        (forget_by_http, IN_TENANT),
        (forget_by_command, IN_TENANT),
        (forget_by_mcp, SEEN),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
async def test_a_change_reaches_what_its_interface_may_change(
    stack: Stack, changes: Callable[[Stack, str], Awaitable[bool]], allowed: set[str]
) -> None:
    prefix = f"{changes.__name__}-"
    await store(stack, prefix)
    before = {name: await stored(stack, tenant_of(name), prefix + key_of(name)) for name in OWNERS}
    assert {name for name in OWNERS if await changes(stack, prefix + key_of(name))} == allowed
    after = {name: await stored(stack, tenant_of(name), prefix + key_of(name)) for name in OWNERS}
    assert {name for name in OWNERS if after[name] != before[name]} == allowed


async def test_an_import_changes_memories_of_its_file_in_its_tenant_only(stack: Stack) -> None:
    prefix = "imported-"
    await store(stack, prefix)
    file = stack.folder / "imported.jsonl"
    rows = [{**memory(name, prefix + key_of(name)), "importance": 0.9} for name in OWNERS]
    file.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert await ran(stack, "import", str(file), "--tenant", "acme")
    after = {name: await stored(stack, tenant_of(name), prefix + key_of(name)) for name in OWNERS}
    assert {name for name, one in after.items() if one and one.get("importance") == 0.9} == IN_TENANT
    for name, one in after.items():
        assert one is not None
        assert {key: value for key, value in one.get("scope", {}).items() if value} == OWNERS[name]


async def test_another_user_of_a_session_gets_no_repeated_turn(stack: Stack) -> None:
    """The same session, turn and message of somebody else is answered anew."""
    wifi = {"id": "wifi", "content": "The wifi password is swordfish42", "scope": {"user": "oscar"}}
    await put(stack.url, [wifi, *(memory(name, key_of(name)) for name in OWNERS)], "repeated")
    turn = {"session_id": uuid.uuid4().hex, "turn_id": "1", "message": "What is the wifi password?"}
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        for user, seen in (("oscar", True), ("oscar", True), ("hana", False), (None, False)):
            body = {**turn, "deadline_ms": 5000, "scope": {"tenant": "repeated", **({"user": user} if user else {})}}
            items = (await client.post("/v1/inject", json=body)).json()["items"]
            assert ("wifi" in [item["id"] for item in items]) is seen, user


def tenant_of(relation: str) -> str:
    return "globex" if relation == "other tenant" else "acme"


async def replace_by_http(stack: Stack, key: str, scope: dict[str, str]) -> bool:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        relations = [{"kind": "supersedes", "target": key}]
        fields = {"id": f"new-{key}", "content": f"What replaces {key}", "scope": scope, "relations": relations}
        return (await client.post("/v1/memories", json={"tenant": "acme", "memory": fields})).status_code == 201


async def replace_by_command(stack: Stack, key: str, scope: dict[str, str]) -> bool:
    words = ("remember", f"What replaces {key}", "--supersedes", key, "--tenant", "acme", "--id", f"new-{key}")
    return await ran(stack, *words, "--user", scope["user"])


async def replace_by_mcp(stack: Stack, key: str, scope: dict[str, str]) -> bool:
    async with mcp_client(stack, tenant="acme", **scope) as client:
        arguments = {"content": f"What replaces {key}", "supersedes": [key]}
        return not (await client.call_tool("remember", arguments, raise_on_error=False)).is_error


async def replace_by_import(stack: Stack, key: str, scope: dict[str, str]) -> bool:
    relations = [{"kind": "supersedes", "target": key}]
    fields = {"id": f"new-{key}", "content": f"What replaces {key}", "scope": scope, "relations": relations}
    file = stack.folder / f"{key}.jsonl"
    file.write_text(json.dumps(fields), encoding="utf-8")
    return await ran(stack, "import", str(file), "--tenant", "acme")


@pytest.mark.parametrize(
    "replaces", [replace_by_http, replace_by_command, replace_by_mcp, replace_by_import], ids=lambda one: one.__name__
)
async def test_a_memory_of_one_user_replaces_only_what_nobody_else_sees(
    stack: Stack, replaces: Callable[[Stack, str, dict[str, str]], Awaitable[bool]]
) -> None:
    """What it may not replace stays as it is; an import keeps the new memory without that effect."""
    prefix = f"{replaces.__name__}-"
    await store(stack, prefix)
    outdated = set()
    for relation in OWNERS:
        key = prefix + key_of(relation)
        done = await replaces(stack, key, {"user": "oscar"})
        found = await stored(stack, tenant_of(relation), key)
        assert found is not None
        if found.get("superseded_at") or found.get("superseded_by"):
            outdated.add(relation)
            assert done
    assert outdated == {"own", "all own", "own user, other project"} - (
        {"all own", "own user, other project"} if replaces is replace_by_mcp else set()
    )


async def name_by_http(stack: Stack, user: str) -> bool:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        fields = {"content": "A name with spaces, over HTTP", "scope": {"user": user}}
        return (await client.post("/v1/memories", json={"tenant": "names", "memory": fields})).status_code < 300


async def name_by_command(stack: Stack, user: str) -> bool:
    words = ("remember", "A name with spaces, by command", "--user", user, "--tenant", "names")
    return await ran(stack, *words)


async def name_by_mcp(stack: Stack, user: str) -> bool:
    async with mcp_client(stack, tenant="names", user=user.replace(" ", "%20")) as client:
        arguments = {"content": "A name with spaces, over MCP"}
        return not (await client.call_tool("remember", arguments, raise_on_error=False)).is_error


async def name_by_import(stack: Stack, user: str) -> bool:
    file = stack.folder / "names.jsonl"
    file.write_text(json.dumps({"content": "A name with spaces, by import", "scope": {"user": user}}), encoding="utf-8")
    return await ran(stack, "import", str(file), "--tenant", "names")


@pytest.mark.parametrize(
    "stores", [name_by_http, name_by_command, name_by_mcp, name_by_import], ids=lambda f: f.__name__
)
async def test_names_are_trimmed_and_blank_ones_are_refused(
    stack: Stack, stores: Callable[[Stack, str], Awaitable[bool]]
) -> None:
    assert [await stores(stack, user) for user in ("", "  ", " oscar ")] == [False, False, True]
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        listed = (await client.get("/v1/memories", params={"tenant": "names", "limit": 200})).json()["memories"]
        mine = (await client.get("/v1/memories", params={"tenant": " names ", "user": " oscar"})).json()["memories"]
    assert {one["scope"]["user"] for one in listed} == {"oscar"}
    assert sorted(one["id"] for one in mine) == sorted(one["id"] for one in listed)


async def test_the_hook_trims_names_too(stack: Stack) -> None:
    wifi = {"id": "wifi", "content": "The wifi password is swordfish42", "scope": ASKER}
    await put(stack.url, [wifi, *(memory(name, key_of(name)) for name in OWNERS)], "trimmed")
    async with PreExecutionHook(stack.url) as hook:
        scope = {"tenant": " trimmed", "user": "oscar ", "project": "\tpier"}
        found = await ask(hook, "What is the wifi password?", scope=scope, deadline_ms=5000)
        refused = await hook({"session_id": "s", "message": "Where?", "scope": {"tenant": "trimmed", "user": " "}})
    assert found.ids == ["wifi"], found
    assert refused.reason == "bad_request"
