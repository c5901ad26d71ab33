"""What keeps other sites and stored texts from acting through a page: headers, and tokens in forms."""

import hashlib
import hmac
import secrets

from starlette.requests import Request

from .errors import PageError

BROWSER_COOKIE, SESSION_COOKIE = "meeseeks_browser", "meeseeks_session"

FIELD = "csrf"
"""Field of every form."""

OWN_SITES = frozenset({"same-origin", "none"})

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every page."""


def new_browser() -> str:
    """Return a random value by which a browser is known again."""
    return secrets.token_urlsafe(24)


def form_token(browser: str, session: str) -> str:
    """Return the token of the forms that this browser gets."""
    return hashlib.sha256(f"{browser} {session}".encode()).hexdigest()


def check_form(request: Request, given: str) -> None:
    """Raise `PageError` unless the form comes from a page that this browser was given."""
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in OWN_SITES:
        raise PageError(403, "This form came from another site. Nothing was changed.")
    browser, session = request.cookies.get(BROWSER_COOKIE, ""), request.cookies.get(SESSION_COOKIE, "")
    if not browser or not hmac.compare_digest(form_token(browser, session).encode(), given.encode()):
        raise PageError(403, "This page is too old to be sent. Go back, reload it, and try again.")
