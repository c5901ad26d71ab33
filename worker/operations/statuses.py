"""HTTP statuses of failed operations, for every interface that speaks HTTP."""

from http import HTTPStatus

from hooks.contract import Reason
from worker.domain.errors import MeeseeksError

from .job import reason_of

_STATUSES = {
    Reason.BAD_REQUEST: HTTPStatus.UNPROCESSABLE_ENTITY,
    Reason.NOT_FOUND: HTTPStatus.NOT_FOUND,
    Reason.CONFLICT: HTTPStatus.PRECONDITION_FAILED,
    Reason.DEADLINE: HTTPStatus.GATEWAY_TIMEOUT,
    Reason.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
    Reason.BAD_REPLY: HTTPStatus.BAD_GATEWAY,
}


def status_of(error: MeeseeksError) -> HTTPStatus:
    """Return the status that reports an error of the service."""
    return _STATUSES.get(reason_of(error), HTTPStatus.SERVICE_UNAVAILABLE)
