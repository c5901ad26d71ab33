"""Try a message: what it would get, and what another prompt would choose. Nothing is kept."""

import re
from hashlib import sha256
from typing import Any

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import KeyName, Name, Text
from worker.console.app import Console
from worker.console.rendering import Shown
from worker.console.security import HEADERS
from worker.console.trial_words import Tried, tried_of
from worker.console.visits import Visit
from worker.domain.errors import MeeseeksError
from worker.operations.registry import PROMPT, TRY
from worker.operations.statuses import status_of
from worker.receipts.trial_models import TRIAL_S, PromptText

PATH = "/playground"
MODEL = f"{PATH}/model"
SAVE = f"{PATH}/prompt"

HARMLESS = frozenset({PATH, SAVE})
"""Forms that change nothing and cost nothing."""


class TryForm(BaseModel):
    """What to try, and for whom."""

    message: Text = ""
    agent: KeyName = "main"
    user: Name | None = None
    project: Name | None = None
    channel: Name | None = None


class PromptForm(BaseModel):
    """The prompt as it was edited, and the mark of the one that the editing began with."""

    prompt: Text = ""
    begun: str = ""

    @property
    def text(self) -> str:
        return _normal(self.prompt)

    @property
    def edited(self) -> bool:
        return bool(self.text) and _mark(self.text) != self.begun


class PromptArea(BaseModel):
    """The prompt to edit: where it came from, the mark of that, and whether it replaces the one on the page."""

    name: str
    text: str
    begun: str
    edited: bool
    moved: bool = False


class PlaygroundPage(BaseModel):
    """The form, the prompt, and what was tried."""

    form: TryForm
    model: str | None
    prompt: PromptArea
    tried: Tried | None = None
    error: str | None = None


def routes(console: Console) -> list[Route]:
    return [
        *console.page(PATH, show),
        *console.action(PATH, show),
        *console.action(MODEL, ask_model),
        *console.action(SAVE, save_prompt),
    ]


async def show(visit: Visit) -> Shown:
    """Show what is chosen without a model; also as a form, since a message may be too long for an address."""
    form = visit.posted(TryForm) if visit.form else visit.query(TryForm)
    known = await _prompt_of(visit, form)
    tried = tried_of((await visit.ask(TRY, _payload(form))).trials) if form.message else None
    return await _shown(visit, form, known, tried=tried)


async def ask_model(visit: Visit) -> Shown:
    """Ask the agent's model, and once more with the prompt if it was edited."""
    form, prompt = visit.posted(TryForm), visit.posted(PromptForm)
    known = await _prompt_of(visit, form)
    if not form.message:
        return await _shown(visit, form, known, error="Write a message first.", status=422)
    asked = {"model": True, "prompt": prompt.text if prompt.edited else None}
    try:
        trials = (await visit.ask(TRY, {**_payload(form), **asked}, budget=TRIAL_S)).trials
    except MeeseeksError as error:
        return await _shown(visit, form, known, error=str(error), status=status_of(error))
    return await _shown(visit, form, known, tried=tried_of(trials))


async def save_prompt(visit: Visit) -> Response:
    """Return the prompt as a file. The service keeps nothing of it."""
    text = visit.posted(PromptForm).text
    found = re.search(r"^id: *([a-z][a-z0-9_-]{0,60}) *$", text, re.MULTILINE)
    name = f'attachment; filename="{found[1] if found else "prompt"}-draft.md"'
    return Response(text + "\n", headers={**HEADERS, "Content-Disposition": name}, media_type="text/markdown")


def _payload(form: TryForm) -> dict[str, Any]:
    return {**form.model_dump(exclude={"agent"}), "agent_id": form.agent}


async def _prompt_of(visit: Visit, form: TryForm) -> PromptText:
    """Return the prompt to begin with: a visitor who is bound to a tenant is not shown those of the operator."""
    return await visit.ask(PROMPT, {"agent_id": form.agent, "shipped": visit.visitor.tenant is not None})


async def _shown(
    visit: Visit,
    form: TryForm,
    known: PromptText,
    *,
    tried: Tried | None = None,
    error: str | None = None,
    status: int = 200,
) -> Shown:
    page = PlaygroundPage(form=form, model=known.model, prompt=_area(visit, known), tried=tried, error=error)
    return Shown("playground.html", "Playground", page, status, part="tried.html")


def _area(visit: Visit, known: PromptText) -> PromptArea:
    """Return what was edited, or the agent's prompt, which changes with the agent as long as nobody edits it."""
    posted, text = visit.posted(PromptForm), _normal(known.text)
    if posted.edited:
        return PromptArea(name=known.name, text=posted.text, begun=posted.begun, edited=True)
    moved = bool(posted.begun) and posted.begun != _mark(text)
    return PromptArea(name=known.name, text=text, begun=_mark(text), edited=False, moved=moved)


def _normal(text: str) -> str:
    """Return a text without what browsers do to the ends of its lines."""
    return text.replace("\r\n", "\n").strip()


def _mark(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]
