"""Errors as problem documents (RFC 9457, `application/problem+json`), and which status an error has."""

import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, Field, ValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from hooks.contract import Reason, clean_text
from worker.domain.errors import MeeseeksError
from worker.operations.job import reason_of

MEDIA_TYPE = "application/problem+json"

MOST_FAULTS = 20
"""Faults of one request that are told."""

LONGEST_PLACE = 20
"""Steps of a place in a body that are told."""

GONE = 499
"""Status that the log and the metrics have for a caller who left before the answer; nobody receives it."""

_STATUS = {
    Reason.BAD_REQUEST: HTTPStatus.UNPROCESSABLE_ENTITY,
    Reason.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Reason.DEADLINE: HTTPStatus.GATEWAY_TIMEOUT,
    Reason.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
    Reason.BAD_REPLY: HTTPStatus.BAD_GATEWAY,
}


class InvalidPart(BaseModel):
    """What is wrong with one part of a request; the part itself is not repeated."""

    at: list[str | int] = Field(description="Where: body, query, path or header, and the names on the way there.")
    message: str


class ProblemDocument(BaseModel):
    """Why a request was not served."""

    type: str = Field(default="about:blank", description="Always about:blank: the status says what kind it is.")
    title: str
    status: int
    detail: str | None = Field(default=None, description="What is wrong, and what to do about it.")
    reason: str | None = Field(default=None, description="The named reason, as results have it, where there is one.")
    errors: list[InvalidPart] | None = Field(
        default=None, description="Each fault of a request that cannot be understood."
    )


class Problem(HTTPException):
    """A request that is not served; `detail` is for people and never repeats what was sent."""

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
    """The standard phrase of a status."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Error"


def problem_of(error: MeeseeksError) -> Problem:
    """The problem that an error of the service is to a caller."""
    reason = reason_of(error)
    status = _STATUS.get(reason, HTTPStatus.SERVICE_UNAVAILABLE)
    headers = {"Retry-After": "1"} if status is HTTPStatus.SERVICE_UNAVAILABLE else None
    return Problem(status, str(error), reason=reason, headers=headers)


def invalid(error: ValidationError | Sequence[Mapping[str, Any]], where: str = "") -> Problem:
    """The problem of a request that does not follow its model; `where` goes before every place."""
    given = error.errors(include_url=False, include_input=False) if isinstance(error, ValidationError) else error
    faults = [
        InvalidPart(at=[*([where] if where else []), *map(_step, fault["loc"][:LONGEST_PLACE])], message=_words(fault))
        for fault in given[:MOST_FAULTS]
    ]
    detail = "; ".join(f"{'.'.join(map(str, fault.at))}: {fault.message}" for fault in faults[:3])
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, reason=Reason.BAD_REQUEST, faults=faults)


def _step(step: object) -> str | int:
    return step if isinstance(step, int) else str(clean_text(str(step)))[:80]


def _words(fault: Mapping[str, Any]) -> str:
    return str(clean_text(str(fault["msg"]).removeprefix("Value error, ")))
