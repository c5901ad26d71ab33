"""`meeseeks why`: explains in words what a request got and what would change it."""

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from hooks.contract import InjectionRequest, new_turn_id
from worker.cli.backend import open_client
from worker.cli.options import Agent, Project, Tenant, User, settings_of
from worker.cli.output import answer, printed_as_json, say
from worker.cli.running import run_async
from worker.domain.errors import NotFound
from worker.domain.receipt import Receipt
from worker.operations.client import OperationClient
from worker.operations.registry import EXPLAIN_MEMORY, INJECT, RECEIPT, RECEIPTS
from worker.receipts.explaining import Explanation, explain
from worker.receipts.search import LEAST_PREFIX
from worker.text.rendering import flatten

SEARCHED = 200
"""Latest requests that are searched for a message."""

ID_CHARS = 32
DEADLINE_MS = 3000
MESSAGE_CHARS = 200


def why(
    context: typer.Context,
    asked: Annotated[
        str | None, typer.Argument(metavar="[ID | MESSAGE]", help="Beginning of a receipt's id, or words of a message.")
    ] = None,
    user: User = None,
    project: Project = None,
    agent: Agent = "main",
    memory: Annotated[
        str | None, typer.Option("--memory", metavar="ID", help="Say why this memory did not come.")
    ] = None,
    tenant: Tenant = "default",
) -> None:
    """Explain the latest request, or another one: what was near, what decided, and what would change it.

    A message that no request had is tried out, without a trace in its session.
    """
    settings = settings_of(context)

    async def work() -> tuple[dict[str, Any], bool, dict[str, Any] | None]:
        async with open_client(settings, with_model=True) as backend:
            past = await _past(backend, tenant, asked)
            scope = {"tenant": tenant, "user": user, "project": project}
            found = past if past is not None else await _tried(backend, asked or "", scope, agent)
            question = {"tenant": tenant, "id": found["id"], "memory_id": memory}
            why_not = await backend.call(EXPLAIN_MEMORY, question) if memory is not None else None
            return found, past is None, why_not

    found, tried, why_not = run_async(work())
    if why_not is not None:
        answer(why_not, _one_memory(why_not))
        return
    receipt = Receipt.model_validate_json(json.dumps(found))
    explanation = explain(receipt)
    if not printed_as_json({"receipt": receipt.id, "tried": tried, **asdict(explanation)}):
        _say(receipt, explanation, tried=tried)


async def _past(backend: OperationClient, tenant: str, asked: str | None) -> dict[str, Any] | None:
    """Return the request that is meant, `None` if no request had this message."""
    if asked is not None and _may_be_id(asked):
        return await backend.call(RECEIPT, {"tenant": tenant, "id": asked})
    limit = 1 if asked is None else SEARCHED
    payload = {"tenant": tenant, "limit": limit, "where": {}, "brief": False}
    receipts: list[dict[str, Any]] = (await backend.call(RECEIPTS, payload))["receipts"]
    if asked is None:
        if not receipts:
            raise NotFound('there are no requests yet; try one: meeseeks why "your message"')
        return receipts[0]
    words = " ".join(asked.casefold().split())
    return next((one for one in receipts if words in " ".join(one["request"]["message"].casefold().split())), None)


def _may_be_id(text: str) -> bool:
    return LEAST_PREFIX <= len(text) <= ID_CHARS and not set(text) - set("0123456789abcdef")


async def _tried(backend: OperationClient, message: str, scope: dict[str, Any], agent: str) -> dict[str, Any]:
    request = InjectionRequest.model_validate(
        {"session_id": f"why-{new_turn_id()}", "agent_id": agent, "message": message, "scope": scope, "dry_run": True}
    )
    result = await backend.call(INJECT, request.model_dump(mode="json"), budget=DEADLINE_MS / 1000)
    async with asyncio.timeout(DEADLINE_MS / 1000):
        while True:  # the receipt is written after the answer
            try:
                return await backend.call(RECEIPT, {"tenant": scope["tenant"], "id": result["receipt_id"]})
            except NotFound:
                await asyncio.sleep(0.02)


def _one_memory(found: dict[str, Any]) -> str:
    remedy = f"\nWhat would change it: {found['remedy']}" if found["remedy"] else ""
    return f"{found['memory_id']}: {found['why']}{remedy}"


def _say(receipt: Receipt, explanation: Explanation, *, tried: bool) -> None:
    message = flatten(receipt.request.message, MESSAGE_CHARS) or "(the message is not kept)"
    say(f"{'Tried now' if tried else f'{receipt.at:%Y-%m-%d %H:%M} UTC'}: {message}")
    say(f"{explanation.result} {explanation.decided}")
    for title, lines in (("What was near:", explanation.near), ("What would change it:", explanation.change)):
        if lines:
            say("")
            say(title)
            for line in lines:
                say(f"  {line}")
    if explanation.correct:
        say("")
        for line in explanation.correct:
            say(line)
