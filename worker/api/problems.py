"""Errors as problem documents (RFC 9457, `application/problem+json`)."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from hooks.contract import Reason, clean_text
from worker.domain.errors import MeeseeksError
from worker.domain.validation import plain_message
from worker.operations.job import reason_of
from worker.operations.statuses import status_of

MEDIA_TYPE = "application/problem+json"

MOST_FAULTS = 20
"""Most faults to report of one request."""

LONGEST_PLACE = 20
"""Most steps to report of a place in a body."""

GONE = 499
"""Status in logs and metrics of a caller who left before the response."""


class InvalidPart(BaseModel):
    """What is wrong with one part of a request."""

    at: list[str | int] = Field(description="Path to the part, starting with body, query, path or header.")
    message: str


class ProblemDocument(BaseModel):
    """Why a request failed."""

    type: str = Field(default="about:blank", description="Always about:blank; see the status.")
    title: str
    status: int
    detail: str | None = Field(default=None, description="What is wrong and what to do.")
    reason: str | None = Field(default=None, description="Reason, as in injection results.")
    errors: list[InvalidPart] | None = Field(
        default=None, description="What is wrong with each part of an invalid request."
    )


class Problem(HTTPException):
    """A failed request. `detail` is for people and does not repeat request data."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        reason: Reason | None = None,
        faults: Sequence[InvalidPart] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.reason = reason
        self.faults = tuple(faults)

    @property
    def response(self) -> Response:
        document = ProblemDocument(
            title=title_of(self.status_code),
            status=self.status_code,
            detail=str(clean_text(self.detail)) or None,
            reason=self.reason,
            errors=list(self.faults) or None,
        )
        content = json.dumps(document.model_dump(exclude_none=True)).encode("ascii")
        return Response(content, self.status_code, self.headers, MEDIA_TYPE)


def title_of(status: int) -> str:
    """Return the standard phrase of a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def problem_of(error: MeeseeksError) -> Problem:
    """Return the problem that reports an error of the service."""
    status = status_of(error)
    headers = {"Retry-After": "1"} if status is HTTPStatus.SERVICE_UNAVAILABLE else None
    return Problem(status, str(error), reason=reason_of(error), headers=headers)


def invalid(error: ValidationError | Sequence[Mapping[str, Any]], where: str = "") -> Problem:
    """Return the problem of an invalid request; `where` is prepended to every place."""
    given = error.errors(include_url=False, include_input=False) if isinstance(error, ValidationError) else error
    return invalid_parts([((*([where] if where else []), *fault["loc"]), plain_message(fault)) for fault in given])


def invalid_parts(parts: Sequence[tuple[Sequence[object], str]]) -> Problem:
    """Return the problem of a request whose `parts`, places and messages, are invalid."""
    faults = [
        InvalidPart(at=[_step(step) for step in place[: LONGEST_PLACE + 1]], message=str(clean_text(message)))
        for place, message in parts[:MOST_FAULTS]
    ]
    detail = "; ".join(f"{'.'.join(map(str, fault.at))}: {fault.message}" for fault in faults[:3])
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, reason=Reason.BAD_REQUEST, faults=faults)


def _step(step: object) -> str | int:
    return step if isinstance(step, int) else str(clean_text(str(step)))[:80]
