"""What a browser keeps: the session, the theme and the tenant."""

from math import ceil

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from worker.console.app import Console, Handler
from worker.console.errors import PageError
from worker.console.rendering import TENANT_COOKIE, THEME_COOKIE, THEMES, YEAR_S, Shown, keep, redirect
from worker.console.security import SESSION_COOKIE
from worker.console.visits import Visit, checked_tenant

SIGN_IN = "sign-in"
HARMLESS = frozenset({"/sign-in", "/sign-out", "/theme", "/tenant"})
"""Forms that change only what the browser keeps."""


class SignInPage(BaseModel):
    """`next` is where the browser wanted to go; `error` says why the last attempt failed."""

    next: str
    needs_token: bool
    error: str | None = None


def routes(console: Console) -> list[Route]:
    return [
        *console.page(f"/{SIGN_IN}", _shown(console)),
        *console.action(f"/{SIGN_IN}", _signing_in(console)),
        *console.action("/sign-out", sign_out),
        *console.action("/theme", theme),
        *console.action("/tenant", tenant),
    ]


def _shown(console: Console) -> Handler:
    async def show(visit: Visit) -> Shown:
        wanted = own_path(visit.request.query_params.get("next", "/"))
        return _page(SignInPage(next=wanted, needs_token=console.access.needs_token))

    return show


def _signing_in(console: Console) -> Handler:
    async def sign_in(visit: Visit) -> Shown | Response:
        wanted, client = own_path(visit.text("next")), visit.request.client
        page, sessions = SignInPage(next=wanted, needs_token=console.access.needs_token), console.access.sessions
        if not page.needs_token:
            return redirect(wanted)
        cookie, wait = sessions.begin(visit.text("token"), client.host if client else "local")
        if wait > 0:
            error = f"Too many attempts. Try again in {ceil(wait)} seconds."
            return _page(page.model_copy(update={"error": error}), 429)
        if cookie is None:
            return _page(page.model_copy(update={"error": "The service does not know this token."}), 403)
        response = redirect(wanted)
        keep(visit.request, response, SESSION_COOKIE, cookie, sessions.lasts_s)
        return response

    return sign_in


async def sign_out(visit: Visit) -> Response:
    response = redirect(f"/{SIGN_IN}")
    response.delete_cookie(SESSION_COOKIE, httponly=True, samesite="strict")
    return response


async def theme(visit: Visit) -> Response:
    chosen = visit.text("theme")
    if chosen not in THEMES:
        raise PageError(422, f"theme: choose {', '.join(THEMES)}")
    response = redirect(own_path(visit.text("next")))
    keep(visit.request, response, THEME_COOKIE, chosen, YEAR_S)
    return response


async def tenant(visit: Visit) -> Response:
    response = redirect(own_path(visit.text("next")))
    keep(visit.request, response, TENANT_COOKIE, checked_tenant(visit.text("tenant") or "default"), YEAR_S)
    return response


def _page(page: SignInPage, status: int = 200) -> Shown:
    return Shown("sign_in.html", "Sign in", page, status)


def own_path(target: str) -> str:
    """Return the target if it is a path of this service, else `/`: `//other.example` is another site."""
    own = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if own else "/"
