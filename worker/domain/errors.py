"""Every error that the service raises on purpose.

MeeseeksError
├── SettingsError        a setting, an environment variable or the settings file is wrong
├── PromptError          a prompt file is wrong
├── StoreError           the memory store failed
│   ├── StoreLocked      another process owns the embedded store
│   ├── StoreDamaged     the embedded store cannot be opened as it is
│   ├── StoreLate        the store did not answer within the deadline
│   └── BadCursor        no page of a listing gave this cursor
├── EmbedderError        a text could not be embedded
├── JudgeError           the relevance model's file is missing or wrong, or it failed
├── ModelError           the model failed or answered out of shape; carries the reason
├── QueueError           Redis or the job queue failed; carries the reason
├── OperationError       an operation was not done; carries the reason
├── MemoryRejected       a memory may not be stored as it is
└── NotFound             there is nothing by that id
"""

from hooks.contract import Reason

from .model_calls import ModelAttempt


class MeeseeksError(Exception):
    """Base of every error that the service raises on purpose."""


class SettingsError(MeeseeksError):
    """A setting is wrong; the message names the key and what would be right."""


class PromptError(MeeseeksError):
    """A prompt file is wrong; the message names the file and the fault."""


class StoreError(MeeseeksError):
    """The memory store could not do what was asked."""


class StoreLocked(StoreError):
    """Another process owns the embedded store."""


class StoreDamaged(StoreError):
    """The embedded store cannot be opened as it is."""


class StoreLate(StoreError):
    """The store did not answer within the deadline."""


class BadCursor(StoreError):
    """No page of a listing gave this cursor."""


class EmbedderError(MeeseeksError):
    """A text could not be embedded."""


class RelevanceError(MeeseeksError):
    """The relevance model cannot be used; the message says why and what to do."""


class ModelError(MeeseeksError):
    """The model failed or answered out of shape; `attempts` tells of every model that was asked."""

    def __init__(self, reason: Reason, message: str, attempts: tuple[ModelAttempt, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.attempts = attempts


class QueueError(MeeseeksError):
    """Redis or the job queue failed."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class OperationError(MeeseeksError):
    """An operation was not done: its request is wrong, its time is up, or something broke that nobody foresaw."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class MemoryRejected(MeeseeksError):
    """A memory may not be stored as it is; the message says why."""


class NotFound(MeeseeksError):
    """There is nothing by that id."""
