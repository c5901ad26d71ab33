"""`meeseeks doctor`: checks the service and a test injection, or the hooks of a host."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from hooks.contract import InjectionRequest, InjectionResult, Outcome
from worker.cli.hosts.host_doctor import QUESTION, examine_host, stored_test_memory
from worker.domain.errors import MeeseeksError
from worker.hosts import profile_of
from worker.operations.background_cues import MOST_FAILURES
from worker.operations.client import OperationClient
from worker.operations.hosts import DOCTOR_TENANT
from worker.operations.registry import HEALTH, INJECT, STORE_INFO
from worker.settings.injection import Settings
from worker.settings.selection import Strategy

from .backend import is_served, open_client
from .checks import Check, captures_in_words, cues_in_words, model_in_words, report, what_decides
from .options import settings_or_fault
from .output import timing
from .running import run_async
from .store import damage_text


def doctor(
    context: typer.Context,
    host: Annotated[str | None, typer.Argument(help="Check the hooks of this host, such as claude-code.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Check only the connection or the host settings.")] = False,
) -> None:
    """Check the service, store, embedder and models, and run a test injection."""
    settings, fault = settings_or_fault(context)
    if host is None:
        checks = run_async(_examine(settings, quick=quick))
    else:
        checks = run_async(examine_host(profile_of(host), settings, quick=quick))
    if fault is not None:
        checks.append(Check("settings file", False, fault))
    report(checks)


async def _examine(settings: Settings, *, quick: bool) -> list[Check]:
    try:
        async with open_client(settings, with_model=not quick) as backend:
            health = await backend.call(HEALTH, {}, budget=5.0)
            strategy = settings.memory_injection.strategy
            checks = [_service(settings, backend), *_findings(health, strategy), *_paused(health, wrong=not quick)]
            if quick:
                return checks
            rows = (await backend.call(STORE_INFO, {}, budget=30.0))["rows"]
            checks.append(Check("memories", not rows["unreadable"], damage_text(rows) or f"{rows['read']} read"))
            return [*checks, _settings(health["settings"]), await _test_injection(backend)]
    except MeeseeksError as error:
        return [Check("service", False, str(error))]


def _service(settings: Settings, backend: OperationClient) -> Check:
    """Check that a service runs; without one, the other checks open the store in this process."""
    if is_served(settings):
        return Check("service", True, backend.where)
    return Check("service", False, "not running, so hooks bring no memory; start it with `meeseeks start`")


def _findings(health: dict[str, Any], strategy: Strategy) -> list[Check]:
    store = health["store"]
    size = f"{store['points']} memories in {store['engine']} at {health['store_at']}"
    checks = [Check("store", True, "; ".join([size, *store["notes"]]))]
    if store["fault"]:
        checks.append(Check("vectors", False, store["fault"]))
    return [
        *checks,
        Check("embedder", True, health["embedder"] or "none: keyword search only"),
        Check("relevance model", not health["relevance_model"].startswith("broken"), health["relevance_model"]),
        Check("model", True, model_in_words(health["model"], what_decides(health), strategy)),
        *([_cues(health["cues"])] if health["cues"] else []),
        *([_captures(health["captures"])] if health.get("captures") else []),
    ]


def _cues(progress: dict[str, Any]) -> Check:
    """Check the model that writes cues in the background; a single failure is repeated soon."""
    details = [cues_in_words(progress)]
    if progress["fault"]:
        details.append(f"the last run failed: {progress['fault']}")
    return Check("cues", progress["failures"] < MOST_FAILURES, "; ".join(details))


def _captures(progress: dict[str, Any]) -> Check:
    """Check the model that reads conversations; a failed reading is repeated."""
    fault = f"; the last reading failed: {progress['fault']}" if progress["fault"] else ""
    return Check("capture", progress["failures"] < MOST_FAILURES, captures_in_words(progress) + fault)


def _paused(health: dict[str, Any], *, wrong: bool) -> Iterator[Check]:
    """Yield the models that are still loading, and those that the worker has paused after repeated failures.

    Requests use the fallback meanwhile, so a health check must not restart the service for it: `wrong` is false there.
    """
    for state in health["models"]:
        if state.get("loading"):
            yield Check("model", True, f"{state['name']} is still loading; requests are answered without it")
        if state["paused_s"] is None:
            continue
        retry = f"in {state['paused_s']:.0f} s" if state["paused_s"] > 0 else "with the next request"
        failures = f"failed {state['failures']} times in a row, last with {state['last']}"
        detail = f"{state['name']} {failures}; next attempt {retry}; see `meeseeks admin receipts --degraded`"
        yield Check("paused model", not wrong, detail)


def _settings(status: dict[str, Any]) -> Check:
    details = [f"version {status['version']}"]
    details += [f"{source} not in force: {fault}" for source, fault in status["faults"].items()]
    details += [*status["warnings"], *(f"{key} needs a restart" for key in status["needs_restart"])]
    return Check("settings", not status["faults"], "; ".join(details))


async def _test_injection(backend: OperationClient) -> Check:
    """Check that a test memory is injected."""
    async with stored_test_memory(backend) as code:
        request = InjectionRequest.model_validate(
            {
                "session_id": f"doctor-{code}",
                "message": QUESTION.format(code=code),
                "scope": {"tenant": DOCTOR_TENANT},
                "mode": "deterministic",
            }
        )
        result = InjectionResult.model_validate(await backend.call(INJECT, request.model_dump(mode="json"), budget=3.0))
    found = result.outcome is Outcome.INJECTED and [item.id for item in result.items] == [code]
    spent = timing(result.elapsed_ms, result.stages)
    return Check("test injection", found, spent if found else f"{result.outcome} ({result.reason}), {spent}")
