"""Strict requests, with JSON bodies and known query parameters only; responses in ASCII JSON."""

import json
import math
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import Request
from fastapi._compat import field_annotation_is_sequence
from fastapi.dependencies.utils import get_flat_params
from fastapi.params import Cookie, Header, Path
from fastapi.routing import APIRoute
from starlette.responses import Response

from hooks.contract import Reason

from .problems import Problem, invalid_parts

DEEPEST = 64
"""Most levels of nesting in a body."""


class JsonAnswer(Response):
    """A JSON response in ASCII; characters that UTF-8 cannot encode stay escaped."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")


def read_json(body: bytes) -> Any:
    """Parse a body. Raise `Problem`, without request data, if it is not strict JSON."""
    try:
        value = json.loads(body, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise _unreadable(f"not JSON: {error.msg}, line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError:
        raise _unreadable("not valid UTF-8") from None
    except RecursionError:
        raise _unreadable(f"nested more than {DEEPEST} levels deep") from None
    except ValueError as error:
        raise _unreadable(str(error) if isinstance(error, _NotFinite) else "a number has too many digits") from None
    if body.count(b"[") + body.count(b"{") > DEEPEST and _depth(value) > DEEPEST:
        raise _unreadable(f"nested more than {DEEPEST} levels deep")
    return value


class _NotFinite(ValueError):
    """A number that JSON does not have."""


def _refuse_constant(name: str) -> float:
    raise _NotFinite(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _NotFinite("a number is too large")
    return value


def _depth(value: Any) -> int:
    """Return the levels of nesting, counted without recursion and at most `DEEPEST` + 1."""
    depth, level = 0, [value]
    while level and depth <= DEEPEST:
        level = [
            part
            for parent in level
            if isinstance(parent, dict | list)
            for part in (parent.values() if isinstance(parent, dict) else parent)
        ]
        depth += bool(level)
    return depth


def _unreadable(detail: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, detail, reason=Reason.BAD_REQUEST)


def is_json(content_type: str | None) -> bool:
    """Return whether a Content-Type is JSON."""
    kind = (content_type or "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


class JsonRequest(Request):
    """A request whose body must be strict JSON."""

    async def json(self) -> Any:
        return read_json(await self.body())


class JsonRoute(APIRoute):
    """An endpoint that refuses unknown query parameters, which would be ignored in silence.

    Its body must have a JSON Content-Type, which web pages cannot send across origins.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle, takes_body = super().get_route_handler(), self.body_field is not None
        known = {
            field.alias: field_annotation_is_sequence(field.field_info.annotation)
            for field in get_flat_params(self.dependant)
            if not isinstance(field.field_info, Path | Header | Cookie)
        }

        async def strict(request: Request) -> Response:
            if faults := _query_faults(request.query_params.multi_items(), known, takes_body=takes_body):
                raise invalid_parts(faults)
            if takes_body and not is_json(request.headers.get("content-type")):
                raise unsupported("application/json")
            return await handle(JsonRequest(request.scope, request.receive))

        return strict


def _query_faults(
    given: Sequence[tuple[str, str]], known: Mapping[str, bool], *, takes_body: bool
) -> list[tuple[tuple[str, str], str]]:
    """Return what is wrong with the names of query parameters; `known` says which of them may be repeated."""
    names = f"known: {', '.join(known)}" if known else "this endpoint has none"
    known_names = f"{names}; other fields go into the body" if takes_body else names
    faults = []
    for name, count in Counter(name for name, _ in given).items():
        if name not in known:
            faults.append((("query", name), f"unknown query parameter; {known_names}"))
        elif count > 1 and not known[name]:
            faults.append((("query", name), "given more than once"))
    return faults


def unsupported(*media_types: str) -> Problem:
    """Return the problem of a body whose type is none of these."""
    return Problem(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        f"set the Content-Type header to {' or '.join(media_types)}",
        reason=Reason.BAD_REQUEST,
    )
