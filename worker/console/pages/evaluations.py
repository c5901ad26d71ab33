"""Evaluate labelled cases from the page: start it, follow it, stop it, and see what came out."""

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from worker.console.app import Console, Handler
from worker.console.errors import PageError
from worker.console.evaluation_comparison import comparison_of
from worker.console.evaluation_words import (
    SETS,
    STRATEGIES,
    EvaluationPicture,
    EvaluationRow,
    picture_of,
    row_of,
)
from worker.console.rendering import Shown
from worker.console.visits import Visit, checked
from worker.console.words import counted
from worker.domain.errors import MeeseeksError
from worker.operations.registry import EVALUATION_START, EVALUATION_STOP, EVALUATIONS
from worker.operations.results import EvaluationList
from worker.operations.statuses import status_of
from worker.ports.evaluations import EvaluationOrder, EvaluationState
from worker.settings.selection import Strategy

from .playground import PATH as PLAYGROUND
from .playground import PromptForm
from .request import id_of

PATH = f"{PLAYGROUND}/evaluations"
COMPARED = 2


class Option(BaseModel):
    """A choice of the form."""

    value: str
    name: str


class EvaluationsPage(BaseModel):
    """The form, the evaluation that runs, and those that ended."""

    sets: list[Option]
    strategies: list[Option]
    fields: dict[str, str]
    running: list[EvaluationRow]
    ended: list[EvaluationRow]
    error: str | None = None


class EvaluationPage(BaseModel):
    """One evaluation and what came out of it."""

    evaluation: EvaluationRow
    prompt: str | None
    error: str | None
    picture: EvaluationPicture | None


class ComparedQuery(BaseModel):
    """The evaluations that were ticked in the list."""

    id: tuple[str, ...] = ()


def routes(console: Console) -> list[Route]:
    return [
        Route(f"{PATH}/live", console.serving(_streaming(console)), methods=["GET"]),
        *console.page(PATH, show),
        *console.action(PATH, show),
        *console.action(f"{PATH}/start", start),
        *console.action(f"{PATH}/stop", stop),
        *console.page(f"{PATH}/compare", compare),
        *console.page(PATH + "/{id}", show_one),
    ]


async def _latest(visit: Visit) -> EvaluationList:
    """Return the evaluations of the chosen tenant: they use the whole machine and its models, so they concern all."""
    visit.only_for_all()
    return await visit.ask(EVALUATIONS, {})


async def show(visit: Visit) -> Shown:
    """Show the form; the playground sends a prompt that was edited there."""
    latest, edited = await _latest(visit), visit.posted(PromptForm)
    asked = {"prompt": edited.text, "strategy": Strategy.LLM.value} if edited.edited else {}
    return _shown(latest, asked)


def _shown(latest: EvaluationList, fields: dict[str, str], error: str | None = None, status: int = 200) -> Shown:
    rows = [row_of(one) for one in latest.evaluations]
    usual = EvaluationOrder(cases=latest.sets[0].name).model_dump(mode="json", exclude_none=True)
    page = EvaluationsPage(
        sets=[
            Option(value=one.name, name=f"{SETS.get(one.name, one.name)} ({counted(one.tasks, 'task', 'tasks')})")
            for one in latest.sets
        ],
        strategies=[Option(value=one, name=name) for one, name in STRATEGIES.items()],
        fields={"prompt": "", **{name: str(value) for name, value in usual.items()}, **fields},
        running=[row for row in rows if row.running],
        ended=[row for row in rows if not row.running],
        error=error,
    )
    return Shown("evaluations.html", "Evaluations", page, status)


async def start(visit: Visit) -> Shown | Response:
    visit.only_for_all()
    fields = {name: text for name in EvaluationOrder.model_fields if (text := visit.text(name))}
    try:
        order = checked(EvaluationOrder, fields)
        await visit.ask(EVALUATION_START, {"order": order.model_dump(mode="json")})
    except PageError as error:
        return _shown(await _latest(visit), fields, error.detail, error.status)
    except MeeseeksError as error:
        return _shown(await _latest(visit), fields, str(error), status_of(error))
    return visit.lead_on(PATH)


async def stop(visit: Visit) -> Response:
    visit.only_for_all()
    await visit.ask(EVALUATION_STOP, {"id": visit.text("id")})
    return visit.lead_on(PATH)


async def show_one(visit: Visit) -> Shown:
    state = _found((await _latest(visit)).evaluations, id_of(visit))
    row = row_of(state)
    page = EvaluationPage(
        evaluation=row,
        prompt=state.order.prompt,
        error=state.error,
        picture=picture_of(state.result) if state.result else None,
    )
    return Shown("evaluation.html", f"Evaluation of {row.cases}", page)


async def compare(visit: Visit) -> Shown:
    ids = visit.query(ComparedQuery).id
    if len(set(ids)) != COMPARED:
        raise PageError(422, "Tick two evaluations of the list to compare them.")
    latest = (await _latest(visit)).evaluations
    states = [_found(latest, one) for one in ids]
    if any(one.result is None for one in states):
        raise PageError(422, "Only evaluations with a result can be compared.")
    return Shown("evaluation_comparison.html", "Two evaluations compared", comparison_of(states))


def _found(states: list[EvaluationState], wanted: str) -> EvaluationState:
    for state in states:
        if state.id == wanted:
            return state
    raise PageError(404, "There is no such evaluation; only the latest 20 are kept.")


def _streaming(console: Console) -> Handler:
    async def stream(visit: Visit) -> Response:
        visit.only_for_all()
        return console.evaluations.response(visit.tenant)

    return stream
