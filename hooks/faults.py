"""Exceptions of this package. Callers see them only with `strict`.

HookError
├── QueueFault               a call through Redis failed; defined in `queue`
└── ClientError              a call over HTTP failed
    ├── BadRequest
    ├── AccessDenied
    ├── ServiceUnavailable
    ├── DeadlinePassed
    └── BadReply
"""

from .contract import Reason


class HookError(Exception):
    """A call failed for `reason`; the message gives details."""

    def __init__(self, reason: Reason, message: str = "") -> None:
        super().__init__(message or reason.value)
        self.reason = reason


class ClientError(HookError):
    """A call over HTTP failed."""


class BadRequest(ClientError):
    """The request is invalid; the message says why."""


class AccessDenied(ClientError):
    """The token is missing, invalid or lacks permission."""


class ServiceUnavailable(ClientError):
    """The service is unreachable or overloaded, or calls are paused after repeated failures."""


class DeadlinePassed(ClientError):
    """The service did not answer in time."""


class BadReply(ClientError):
    """The response does not follow the contract."""
