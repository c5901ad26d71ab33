"""Every error the service raises on purpose."""

from hooks.contract import Reason

from .model_calls import ModelAttempt, ModelExchange


class MeeseeksError(Exception):
    """Base class of the service's errors."""


class SettingsError(MeeseeksError):
    """A setting, environment variable or settings file is wrong; the message names it and a valid value."""


class SettingsConflict(SettingsError):
    """Others changed the saved settings since the version that a change is based on."""


class PromptError(MeeseeksError):
    """A prompt file is wrong; the message names the file and the fault."""


class StoreError(MeeseeksError):
    """The memory store failed."""


class StoreLocked(StoreError):
    """Another process has the embedded store open."""


class StoreDamaged(StoreError):
    """The embedded store cannot be opened."""


class StoreFull(StoreError):
    """The disk has no room for the embedded store to be opened or changed."""


class StoreLate(StoreError):
    """The store did not answer within the deadline."""


class BadCursor(StoreError):
    """The cursor does not come from a page of a listing."""


class EmbedderError(MeeseeksError):
    """A text could not be embedded."""


class RelevanceError(MeeseeksError):
    """The relevance model is unavailable; the message says why and what to do."""


class _ReasonedError(MeeseeksError):
    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ModelError(_ReasonedError):
    """A model failed or its answer was malformed; `attempts` lists every model that was asked.

    `exchanges` are for the receipt, if they are to be kept.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        attempts: tuple[ModelAttempt, ...] = (),
        exchanges: tuple[ModelExchange, ...] = (),
    ) -> None:
        super().__init__(reason, message)
        self.attempts = attempts
        self.exchanges = exchanges


class QueueError(_ReasonedError):
    """Redis or the job queue failed."""


class OperationError(_ReasonedError):
    """An operation failed: a bad request, no time left, or an unexpected error."""


class MemoryRejected(MeeseeksError):
    """A memory cannot be stored; the message says why."""


class NotFound(MeeseeksError):
    """Nothing has this id."""
