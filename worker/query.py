"""What is searched with, and when nothing is searched at all. Pure."""

import re

from hooks.blocks import strip_blocks
from hooks.contract import InjectionRequest, Mode, Reason

from .settings import InjectionConfig

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")


def skip_reason(request: InjectionRequest, config: InjectionConfig) -> Reason | None:
    """Why this request gets no memory without a search, or `None`."""
    if not config.enabled:
        return Reason.DISABLED
    if effective_mode(request, config) is Mode.OFF:
        return Reason.MODE_OFF
    if request.source in config.skip_sources:
        return Reason.SOURCE_SKIPPED
    if not focused_query(request, config):
        return Reason.EMPTY_MESSAGE
    return None


def effective_mode(request: InjectionRequest, config: InjectionConfig) -> Mode:
    """The request's mode where it names one, else the configured one."""
    return request.mode or config.mode


def focused_query(request: InjectionRequest, config: InjectionConfig) -> str:
    """The text to search with: the message without our own blocks, on one line, its tail where it is too long.

    A blank message falls back to the task description.
    """
    for text in (request.message, request.task_description or ""):
        query = " ".join(_CONTROL.sub(" ", strip_blocks(text)).split())
        if query:
            return query[-config.query_max_chars :]
    return ""
