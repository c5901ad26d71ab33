"""`meeseeks label`: makes a labelled case of a receipt, so that the case file grows from real use."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from worker.cli.backend import open_client
from worker.cli.options import AsJson, Tenant, run, settings_of
from worker.cli.output import fail, print_json, say
from worker.domain.errors import MeeseeksError
from worker.domain.receipt import Receipt
from worker.operations.client import OperationClient
from worker.operations.receipts import LABEL
from worker.receipts.cases import LabelledCase, add_to_file, candidates

from .receipts import shown

LETTERS = {"e": "essential", "u": "useful", "f": "forbidden", "n": ""}
FILE = Path("cases.jsonl")

Ids = list[str] | None


def label(
    context: typer.Context,
    receipt_id: Annotated[str, typer.Argument(metavar="ID", help="Whose request becomes a case.")],
    cases: Annotated[Path, typer.Option(help="The case file, which is made if it is not there.")] = FILE,
    essential: Annotated[Ids, typer.Option(help="Ids that must come, separated by commas; may be repeated.")] = None,
    useful: Annotated[Ids, typer.Option(help="Ids that may come.")] = None,
    forbidden: Annotated[Ids, typer.Option(help="Ids that must never come.")] = None,
    accept: Annotated[bool, typer.Option("--accept", help="What was chosen is essential, the rest is not.")] = False,
    nothing: Annotated[bool, typer.Option("--nothing", help="Nothing at all was worth injecting.")] = False,
    category: Annotated[str, typer.Option(help="Name by which eval reports such cases together.")] = "receipt",
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Label what a request ought to have been told, and add it to a case file, once per receipt.

    Without labels it asks for each memory: essential, useful, forbidden or no.
    """
    settings = settings_of(context, as_json=as_json)
    said = {"essential": _ids(essential), "useful": _ids(useful), "forbidden": _ids(forbidden), "accept": accept}
    asks = not any(said.values()) and not nothing
    if asks and (as_json or not sys.stdin.isatty()):
        fail("say --essential, --useful, --forbidden, --accept or --nothing", as_json=as_json)

    async def work() -> LabelledCase:
        async with open_client(settings) as backend:
            labels = await _asked(backend, tenant, receipt_id) if asks else said
            payload = {"tenant": tenant, "id": receipt_id, "labels": {**labels, "category": category}}
            return LabelledCase.model_validate(await backend.call(LABEL, payload))

    case = run(work(), as_json=as_json)
    try:
        add_to_file(cases, case)
    except MeeseeksError as error:
        fail(str(error), as_json=as_json)
    if as_json:
        print_json({"file": str(cases), **case.model_dump(mode="json")})
    else:
        counts = ", ".join(f"{len(case.task[kind])} {kind}" for kind in LETTERS.values() if kind)
        say(f"{case.task['id']} in {cases}: {counts} of {len(case.memories)}")


def _ids(given: Ids) -> list[str]:
    return [key.strip() for part in given or () for key in part.split(",") if key.strip()]


async def _asked(backend: OperationClient, tenant: str, receipt_id: str) -> dict[str, Any]:
    receipt = Receipt.model_validate_json(json.dumps(await shown(backend, tenant, receipt_id)))
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
