"""`meeseeks doctor`: what is reachable, and whether an injection works; with a host, whether its hooks do."""

import uuid
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from hooks.contract import InjectionRequest, InjectionResult, Outcome
from hooks.wire import INJECT
from worker.cli.hosts.host_doctor import CANARY, QUESTION, examine_host
from worker.domain.errors import MeeseeksError
from worker.operations.hosts import CANARY_TENANT, profile_of
from worker.operations.memories import FORGET, REMEMBER
from worker.operations.requests import HEALTH
from worker.settings.injection import Settings

from .backend import OperationClient, open_client
from .checks import Check, report
from .options import AsJson, run, settings_or_fault
from .output import fail, milliseconds


def doctor(
    context: typer.Context,
    host: Annotated[
        str | None, typer.Argument(help="A host, such as claude-code: whether its hooks are there and work.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only ask whether a worker answers; of a host only look at its settings.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the service: what is reachable, which model and embedder, and a canary injection with its timings."""
    settings, fault = settings_or_fault(context, as_json=as_json)
    if host is None:
        checks = run(_examine(settings, quick=quick), as_json=as_json)
    else:
        try:
            profile = profile_of(host)
        except MeeseeksError as error:
            fail(str(error), as_json=as_json)
        checks = run(examine_host(profile, settings, quick=quick), as_json=as_json)
    if fault is not None:
        checks.append(Check("settings file", False, fault))
    report(checks, as_json=as_json)


async def _examine(settings: Settings, *, quick: bool) -> list[Check]:
    try:
        async with open_client(settings, with_model=not quick) as backend:
            health = await backend.call(HEALTH, {}, budget=5.0)
            checks = [Check("service", True, backend.where), *_findings(health), *_paused(health, wrong=not quick)]
            return checks if quick else [*checks, _settings(health["settings"]), await _canary(backend)]
    except MeeseeksError as error:
        return [Check("service", False, str(error))]


def _findings(health: dict[str, Any]) -> list[Check]:
    store = health["store"]
    points = f"{store['points']} memories in {store['engine']} at {health['store_at']}"
    checks = [Check("store", True, "; ".join([points, *store["notes"]]))]
    if store["fault"]:
        checks.append(Check("vectors", False, store["fault"]))
    return [
        *checks,
        Check("embedder", True, health["embedder"] or "none: keyword search alone"),
        Check("relevance model", not health["relevance_model"].startswith("broken"), health["relevance_model"]),
        Check("model", True, health["model"] or _without_model(health["relevance_model"])),
    ]


def _paused(health: dict[str, Any], *, wrong: bool) -> Iterator[Check]:
    """The models that the worker which answered leaves alone after failures in a row.

    Requests get the answer that needs none meanwhile: nothing for which whoever watches the service should restart it.
    """
    for state in health["models"]:
        if state["paused_s"] is None:
            continue
        again = f"in {state['paused_s']:.0f} s" if state["paused_s"] > 0 else "by the next request"
        often = f"{state['failures']} times in a row, last with {state['last']}"
        detail = f"{state['name']} failed {often}, and is tried again {again}"
        yield Check("paused model", not wrong, f"{detail}; see `meeseeks receipt --degraded`")


def _without_model(relevance_model: str) -> str:
    who = "the relevance model decides" if relevance_model.startswith("version") else "the search's scores decide"
    return f"none: {who} (set MEESEEKS_MODEL)"


def _settings(status: dict[str, Any]) -> Check:
    """Whether every change of a source of settings is in force."""
    told = [f"{source} not in force: {fault}" for source, fault in status["faults"].items()]
    told += status["warnings"]
    told += [f"{key} needs a restart" for key in status["needs_restart"]]
    return Check("settings", not status["faults"], "; ".join([f"version {status['version']}", *told]))


async def _canary(backend: OperationClient) -> Check:
    """Remember something, ask for it, forget it, in a tenant of its own."""
    code = uuid.uuid4().hex[:8]
    memory = {"id": f"canary-{code}", "content": CANARY.format(code=code)}
    request = InjectionRequest.model_validate(
        {
            "session_id": f"doctor-{code}",
            "message": QUESTION.format(code=code),
            "scope": {"tenant": CANARY_TENANT},
            "mode": "deterministic",
        }
    )
    await backend.call(REMEMBER, {"tenant": CANARY_TENANT, "memory": memory})
    try:
        body = await backend.call(INJECT, request.model_dump(mode="json"), budget=3.0)
    finally:
        await backend.call(FORGET, {"tenant": CANARY_TENANT, "ids": [memory["id"]]})
    result = InjectionResult.model_validate(body)
    found = result.outcome is Outcome.INJECTED and [item.id for item in result.items] == [memory["id"]]
    spent = f"{result.elapsed_ms:.0f} ms: {milliseconds(result.stages)}"
    return Check("canary", found, spent if found else f"{result.outcome} ({result.reason}), {spent}")
