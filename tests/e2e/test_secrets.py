"""Secrets that come in by any interface are nowhere afterwards: not in the store, receipts, logs, Redis or answers."""

import asyncio
import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from tests.support.command_line import command_line
from tests.support.mcp import call
from tests.support.stack import HTTP, Stack, running_stack
from tests.support.valkey import sync_redis

VARIABLES = {**HTTP, "MEESEEKS_EMBEDDER": "none", "MEESEEKS_MODEL": "none", "MEESEEKS_LOG_LEVEL": "debug"}
ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


KINDS = {
    "jsonl": "application/jsonl",
    "json": "application/json",
    "csv": "text/csv",
    "md": "text/markdown",
    "txt": "text/plain",
}


class Secrets:
    """Makes tokens, each with the place where it was used."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        digest = hashlib.sha256(place.encode()).digest() + hashlib.sha256(place[::-1].encode()).digest()
        token = "ghp_" + "".join(ALPHABET[byte % len(ALPHABET)] for byte in digest[:36])
        self.places[token] = place
        return token

    def fields(self, place: str) -> dict[str, Any]:
        """A memory with a secret in each of its texts."""
        return {
            "content": f"The deploy key of {place} is {self(f'{place}: content')}",
            "context": f"Access {self(f'{place}: context')}",
            "source": f"https://{self(f'{place}: source')}@git.example.org/notes.md",
            "entities": [f"key {self(f'{place}: entities')}"],
            "cues": [f"does {self(f'{place}: cues')} still work"],
        }

    def found_in(self, data: bytes | str) -> list[str]:
        text = data.decode("latin-1") if isinstance(data, bytes) else data
        return [place for token, place in self.places.items() if token in text]


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with running_stack(tmp_path, "up", **VARIABLES) as stack:
        yield stack


def files(secrets: Secrets) -> dict[str, str]:
    """Files to import, by format."""
    fields = secrets.fields("csv")
    cells = [fields["content"], fields["source"], fields["entities"][0], fields["cues"][0]]
    graph = {"type": "entity", "name": "vault", "entityType": "x", "observations": [f"key {secrets('graph')}"]}
    return {
        "notes.jsonl": json.dumps({**secrets.fields("jsonl"), "api_key": secrets("jsonl: unknown key")}),
        "notes.json": json.dumps([secrets.fields("json")]),
        "notes.csv": "content,source,entities,cues\n" + ",".join(f'"{cell}"' for cell in cells),
        "notes.md": f"---\ntitle: Keys {secrets('front matter')}\npassword: {secrets('front matter: unknown')}\n---\n"
        f"# Access {secrets('heading')}\n\n- The key is {secrets('item')}\n\n```\nexport T={secrets('code')}\n```\n",
        "notes.txt": f"The key of the text file is {secrets('text')}\n",
        "CLAUDE.md": f"# Rules\n\n- Log in with {secrets('agent file')}\n",
        "graph.jsonl": json.dumps(graph),
        "mem0.json": json.dumps({"results": [{"id": "x1", "memory": f"Key {secrets('mem0')}", "user_id": "robin"}]}),
        "bad.jsonl": json.dumps({"content": "x", "importance": f"password: {secrets('rejected')}"}),
    }


async def by_http(client: httpx.AsyncClient, secrets: Secrets) -> list[str]:
    """Use every route that takes texts; return the answers."""
    said = [await client.post("/v1/memories", json={"memory": {**secrets.fields("http"), "id": "http"}})]
    said.append(await client.patch("/v1/memories/http", json=secrets.fields("http update")))
    said.append(await client.post("/v1/memories", json={"memory": {"content": "x", "importance": secrets("invalid")}}))
    for name, text in files(secrets).items():
        given = {"format": "claude"} if name == "CLAUDE.md" else {}
        kind = {"content-type": KINDS[name.rpartition(".")[2]]}
        said.append(await client.post("/v1/memories/import", content=text.encode(), headers=kind, params=given))
    asked = {"session_id": "s1", "message": f"Is {secrets('message')} the deploy key of http?", "turn_id": "1"}
    recent = [{"role": "user", "content": f"I use {secrets('recent message')}"}]
    asked |= {"recent_messages": recent, "task_description": f"check {secrets('description')}"}
    answer = await client.post("/v1/inject", json=asked)
    said.append(answer)
    said.append(await client.post("/v1/recall", json={"query": f"key {secrets('query')}"}))
    report = {"session_id": "s1", "turn_id": "1", "answer": f"Yes, {secrets('answer')}"}
    said.append(await client.post("/v1/answers", json=report))
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "h1", "cwd": "/srv/app"}
    prompts = (f"My key is {secrets('prompt')}, where is the deploy key of http?", "why?")
    said += [await client.post("/v1/hooks/claude-code", json={**event, "prompt": prompt}) for prompt in prompts]
    await asyncio.sleep(0.5)
    receipt = f"/v1/receipts/{answer.json()['receipt_id']}"
    said += [await client.get(receipt), await client.post(f"{receipt}/replay", json={})]
    said.append(await client.post(f"{receipt}/label", json={"nothing": True}))
    said += await learned(client, secrets)
    said.append(await client.delete("/v1/memories/http"))
    said.append(await client.post("/v1/memories/undo", json={}))
    assert said[-1].json()["restored"], said[-1].text
    paths = ("/v1/memories", "/v1/receipts", "/v1/memories/http", "/v1/memories/export", "/metrics")
    said += [await client.get(path) for path in paths]
    return [reply.text for reply in said]


async def learned(client: httpx.AsyncClient, secrets: Secrets) -> list[httpx.Response]:
    """Have a message learned as a cue; return the answers."""
    kept = {"id": "rota", "content": "The harbour rota is kept by Marguerite Delacroix in the Lisbon office"}
    await client.post("/v1/memories", json={"memory": kept})
    message = f"Who keeps the harbour rota? I logged in there with {secrets('learned message')} in March"
    asked = {"session_id": "s2", "turn_id": "1", "message": message}
    injected = await client.post("/v1/inject", json=asked)
    told = " ".join(item["text"] for item in injected.json()["items"])
    answer = f"{told} {secrets('learned answer')}"
    reported = await client.post("/v1/answers", json={"session_id": "s2", "turn_id": "1", "answer": answer})
    for _ in range(100):
        memory = await client.get("/v1/memories/rota")
        if '"learned"' in memory.text:
            return [injected, reported, memory]
        await asyncio.sleep(0.05)
    raise AssertionError(f"nothing was learned: {reported.text} {memory.text}")


async def by_mcp(url: str, secrets: Secrets) -> list[str]:
    async with Client(StreamableHttpTransport(f"{url}/mcp")) as client:
        fields = {key: value for key, value in secrets.fields("mcp").items() if key not in ("context", "source")}
        noted = await call(client, "remember", **fields)
        changed = {key: value for key, value in secrets.fields("mcp update").items() if key in fields}
        said: list[Any] = [noted, await call(client, "update", id=noted["id"], **changed)]
        cues = [{"id": noted["id"], "cues": [f"is {secrets('mcp cues')} the right one"]}]
        said.append(await call(client, "add_cues", memories=cues))
        said.append(await call(client, "remember", content=f"New key {secrets('supersede')}", supersedes=[noted["id"]]))
        said += [await call(client, "recall", query="deploy key"), await call(client, "list")]
        wrong = await client.call_tool(
            "remember", {"content": "x", "type": secrets("wrong type")}, raise_on_error=False
        )
        return [json.dumps(said), str(wrong.content)]


def by_command(stack: Stack, secrets: Secrets, folder: Path) -> list[str]:
    fields = secrets.fields("cli")
    given = ("--id", "cli", "--entity", fields["entities"][0], "--cue", fields["cues"][0])
    said = [stack.command("remember", fields["content"], *given)]
    said.append(stack.command("update", "cli", f"The key is now {secrets('cli update')}"))
    for name, text in files(secrets).items():
        (folder / name).write_text(text, encoding="utf-8")
    said.append(stack.command("import", str(folder)))
    shell = command_line(stack.folder, **VARIABLES)  # the others in this process: that spares loading them
    lines = [["import", str(folder), "--dry-run"], ["list"], ["show", "cli"], ["export"], ["receipt"]]
    lines += [["recall", "deploy key"], ["why", "deploy key of cli"]]
    printed = [shell.run(*line).output for line in lines]
    shell.ok("store", "backup", str(stack.folder / "backup.tar.gz"))
    return [*(done.stdout + done.stderr for done in said), *printed]


def in_redis(url: str, secrets: Secrets) -> list[str]:
    with sync_redis(url) as client:
        assert any(b"turns" in key for key in client.scan_iter(count=1000))
        values = [str(client.get(key)) for key in client.scan_iter(count=1000) if client.type(key) == b"string"]
        values += [str(client.hgetall(key)) for key in client.scan_iter(count=1000) if client.type(key) == b"hash"]
        values += [
            str(client.lrange(key, 0, -1)) for key in client.scan_iter(count=1000) if client.type(key) == b"list"
        ]
    return [place for value in values for place in secrets.found_in(value)]


async def test_no_secret_stays_anywhere(stack: Stack, tmp_path: Path) -> None:
    secrets = Secrets()
    (tmp_path / "files").mkdir()
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        answers = await by_http(client, secrets)
    answers += await by_mcp(stack.http, secrets)
    answers += await asyncio.to_thread(by_command, stack, secrets, tmp_path / "files")
    leaks = {"answers": [place for text in answers for place in secrets.found_in(text)]}
    leaks["redis"] = in_redis(stack.url, secrets)
    stack.stop()
    leaks["log"] = secrets.found_in(stack.log)
    for path in (tmp_path / "data").rglob("*"):
        if path.is_file():
            leaks[str(path.relative_to(tmp_path))] = secrets.found_in(path.read_bytes())
    with tarfile.open(tmp_path / "backup.tar.gz") as backup:
        for member in backup.getmembers():
            if (opened := backup.extractfile(member)) is not None:
                leaks[f"backup {member.name}"] = secrets.found_in(opened.read())
    left = {place: sorted(set(found)) for place, found in leaks.items() if found}
    assert left == {}, json.dumps(left, indent=1)
