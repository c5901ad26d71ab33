"""`meeseeks eval label`: turns a receipt into a labelled case for evaluation."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.cli.backend import open_client
from worker.cli.options import Tenant, settings_of
from worker.cli.output import answer, fail, say, wants_json
from worker.cli.running import run_async
from worker.domain.receipt import Receipt
from worker.operations.client import OperationClient
from worker.operations.registry import LABEL
from worker.receipts.case_models import LabelledCase
from worker.receipts.cases import add_to_file, candidates

from .receipts import fetch

LETTERS = {"e": "essential", "u": "useful", "f": "forbidden", "n": ""}
FILE = Path("cases.jsonl")

Ids = list[str] | None


def label(
    context: typer.Context,
    receipt_id: Annotated[str, typer.Argument(metavar="ID", help="Receipt whose request becomes a case.")],
    cases: Annotated[Path, typer.Option(help="Case file; created if missing.")] = FILE,
    essential: Annotated[Ids, typer.Option(help="Ids that must be injected, separated by commas.")] = None,
    useful: Annotated[Ids, typer.Option(help="Ids that may be injected.")] = None,
    forbidden: Annotated[Ids, typer.Option(help="Ids that must never be injected.")] = None,
    missing: Annotated[Ids, typer.Option(help="Ids that must be injected although they were not considered.")] = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Label injected memories essential, others irrelevant.")
    ] = False,
    nothing: Annotated[bool, typer.Option("--nothing", help="Label all memories irrelevant.")] = False,
    category: Annotated[str, typer.Option(help="Category under which `eval` groups the case.")] = "receipt",
    tenant: Tenant = "default",
) -> None:
    """Label which memories a request should have received, and add it to a case file.

    Without options, ask about each memory: essential, useful, forbidden or no.
    """
    settings = settings_of(context)
    given = {"essential": _ids(essential), "useful": _ids(useful), "forbidden": _ids(forbidden), "accept": accept}
    given |= {"missing": _ids(missing)} if missing else {}
    asks = not any(given.values()) and not nothing
    if asks and (wants_json() or not sys.stdin.isatty()):
        fail("use --essential, --useful, --forbidden, --missing, --accept or --nothing")

    async def work() -> LabelledCase:
        async with open_client(settings) as backend:
            labels = await _ask(backend, tenant, receipt_id) if asks else given
            payload = {"tenant": tenant, "id": receipt_id, "labels": {**labels, "category": category}}
            return LabelledCase.model_validate(await backend.call(LABEL, payload))

    case = run_async(work())
    add_to_file(cases, case)
    counts = ", ".join(f"{len(case.task[kind])} {kind}" for kind in LETTERS.values() if kind)
    added = f"added {case.task['id']} to {cases}: {counts} of {len(case.memories)} memories"
    answer({"file": str(cases), **case.model_dump(mode="json")}, added)


def _ids(values: Ids) -> list[str]:
    return [key.strip() for part in values or () for key in part.split(",") if key.strip()]


async def _ask(backend: OperationClient, tenant: str, receipt_id: str) -> dict[str, Any]:
    receipt = Receipt.model_validate_json(json.dumps(await fetch(backend, tenant, receipt_id)))
    say(receipt.request.message)
    labels: dict[str, list[str]] = {kind: [] for kind in LETTERS.values() if kind}
    for one in sorted(candidates(receipt), key=lambda one: one.id not in receipt.chosen):
        chosen = one.id in receipt.chosen
        say(f"\n{'chosen' if chosen else one.verdict}: {one.text}")
        kind = LETTERS[_letter("e" if chosen else "n")]
        if kind:
            labels[kind].append(one.id)
    return labels


def _letter(default: str) -> str:
    while True:
        answer = str(typer.prompt("essential, useful, forbidden or no (e/u/f/n)", default=default)).strip().lower()[:1]
        if answer in LETTERS:
            return answer
