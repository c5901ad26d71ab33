"""Errors of this package: one tree. None of them reaches a caller who has not asked for errors with `strict`.

Fault                        a question was not answered; carries the reason that a result would give
├── QueueFault               asked through Redis, in `queue`
└── ClientError              asked over HTTP
    ├── BadRequest           what was sent is refused as it is
    ├── AccessDenied         the token is missing, wrong, or not for this
    ├── ServiceUnavailable   the service cannot be reached, is overloaded, or is left alone for a while
    ├── DeadlinePassed       no answer came in time
    └── BadReply             something answered, and not as agreed
"""

from .contract import Reason


class HookError(Exception):
    """A question was not answered; `reason` says why, the message more of it."""

    def __init__(self, reason: Reason, message: str = "") -> None:
        super().__init__(message or reason.value)
        self.reason = reason


class ClientError(HookError):
    """A question that was asked over HTTP was not answered."""


class BadRequest(ClientError):
    """What was sent is refused as it is; the message says what would be right."""


class AccessDenied(ClientError):
    """The token is missing, wrong, or not for this."""


class ServiceUnavailable(ClientError):
    """The service cannot be reached, is overloaded, or has failed so often that it is left alone for a while."""


class DeadlinePassed(ClientError):
    """No answer came in time."""


class BadReply(ClientError):
    """Something answered, and not as agreed."""
