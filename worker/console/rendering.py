"""Templates become responses: a page, a part of one for htmx, or its JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from . import words
from .access import Visitor
from .navigation import ENTRIES, section_of
from .security import BROWSER_COOKIE, FIELD, HEADERS, SESSION_COOKIE, form_token, new_browser
from .static_files import StaticFiles

TEMPLATES = Path(__file__).parent / "templates"
TENANT, TENANT_COOKIE = "tenant", "meeseeks_tenant"
FOR_TENANT = "for_tenant"
"""Field of every form that changes something: the tenant of its page."""

THEME_COOKIE = "meeseeks_theme"
THEMES = ("system", "light", "dark")
YEAR_S = 365 * 86_400


@dataclass(frozen=True, slots=True)
class Shown:
    """What a page shows. `data` fills the template and is the page's JSON; a `part` is a template for htmx alone."""

    template: str
    title: str
    data: BaseModel
    status: int = HTTPStatus.OK
    part: str | None = None


class Renderer:
    """Fills the templates. Every value in them is escaped."""

    def __init__(self, static: StaticFiles) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(static=static.url, entries=ENTRIES, query_with=query_with)
        self._environment.filters.update(words.FILTERS)

    def fill(self, template: str, **values: Any) -> str:
        return self._environment.get_template(template).render(**values)

    def page(self, shown: Shown, request: Request, visitor: Visitor, tenant: str, *, part: bool) -> Response:
        """Return a page, or the part that htmx asked for."""
        browser = request.cookies.get(BROWSER_COOKIE) or new_browser()
        theme = request.cookies.get(THEME_COOKIE, "system")
        chosen = {} if visitor.tenant else {TENANT: tenant}
        fields = {FIELD: form_token(browser, request.cookies.get(SESSION_COOKIE, "")), FOR_TENANT: tenant}
        values = {
            "title": shown.title,
            "data": shown.data,
            "path": request.url.path,
            "here": _here(request),
            "section": section_of(request.url.path),
            "query": QueryParams(query_with(request.query_params, **chosen)[1:]),
            "hidden": partial(hidden_fields, fields),
            "in_tenant": hidden_fields(chosen),
            "signed_in": SESSION_COOKIE in request.cookies,
            "may_write": visitor.may_write,
            "bound": visitor.tenant is not None,
            "tenant": tenant,
            "theme": theme if theme in THEMES else "system",
        }
        template = shown.part if part and shown.part else shown.template
        content = self.fill(template, **values)
        response = Response(content, shown.status, HEADERS, "text/html")
        if BROWSER_COOKIE not in request.cookies:
            keep(request, response, BROWSER_COOKIE, browser, YEAR_S)
        works = shown.status < HTTPStatus.BAD_REQUEST
        if TENANT in request.query_params and visitor.tenant is None and works:  # or its links would lead elsewhere
            keep(request, response, TENANT_COOKIE, tenant, YEAR_S)
        return response


def _here(request: Request) -> str:
    """Return the address of the page, `/` for what a form shows: looking at it again would send nothing."""
    if request.method != "GET":
        return "/"
    query = request.url.query
    return request.url.path + (f"?{query}" if query else "")


def hidden_fields(needed: Mapping[str, str], **values: str) -> Markup:
    """Return the hidden fields that a form needs, and further ones."""
    field = Markup('<input type="hidden" name="{}" value="{}">')
    return Markup("").join(field.format(name, value) for name, value in {**needed, **values}.items())


def as_json(shown: Shown) -> Response:
    return JSONResponse(shown.data.model_dump(mode="json"), shown.status, HEADERS)


def redirect(target: str) -> Response:
    """Lead the browser to another page after something was done."""
    return RedirectResponse(target, HTTPStatus.SEE_OTHER, HEADERS)


def keep(request: Request, response: Response, name: str, value: str, seconds: int) -> None:
    """Set a cookie that no script reads and no other site sends, over TLS only if the page came over TLS."""
    secure = request.headers.get("origin", "").startswith("https:") or request.url.scheme == "https"
    response.set_cookie(name, value, max_age=seconds, httponly=True, samesite="strict", secure=secure)


def query_with(query: Mapping[str, str], **changes: str | None) -> str:
    """Return the query of an address with some values changed, or left out if they are `None`."""
    pairs = list(query.multi_items()) if hasattr(query, "multi_items") else list(query.items())
    kept = [(name, value) for name, value in pairs if name not in changes and value]
    return "?" + urlencode([*kept, *((name, value) for name, value in changes.items() if value)])
