"""Rules for skipping a request without a search. The first rule that applies decides.

1. `disabled`, `mode_off`: injection is off.
2. A match of `force_patterns`: never skipped by the rules below.
3. `source_skipped`: the source is one of `skip_sources`.
4. `host_notice`, `attachment_only`, `empty_message`: nobody wrote anything, and there is no task.
5. A phrase such as "remember" or "last time": not skipped.
6. `slash_command`: a command for the host.
7. `skip_pattern`: one of `skip_patterns` matches the whole message.
8. `emoji_only`, `greeting`, `acknowledgement`: small talk, unless it tells the agent to go ahead with something from
   earlier turns, or the task says more than the message.
"""

import re

from hooks.contract import InjectionRequest, Mode, Reason
from worker.domain.patterns import bounded_pattern
from worker.settings.injection import InjectionConfig
from worker.text.lexicon import Lexicon, PhraseKind, lexicon, tokens

from .host_text import without_notices
from .noise import separated, without_blocks, written
from .small_talk import is_go_ahead, small_talk

PATTERN_CHARS = 2000
"""Characters searched for patterns and phrases at the beginning and the end of a message."""

LONG = 10_000
"""Characters above which a message is never small talk."""

_SLASH_COMMAND = re.compile(
    r"/(?!(?:bin|boot|dev|etc|home|lib|media|mnt|opt|proc|root|run|srv|sys|tmp|usr|var)\b)[A-Za-z][\w:-]{0,60}(?=\s|$)"
)


def effective_mode(request: InjectionRequest, config: InjectionConfig) -> Mode:
    """Return the request's mode, else the configured one."""
    return request.mode or config.mode


def skip_reason(request: InjectionRequest, config: InjectionConfig) -> Reason | None:
    """Return why this request is skipped, or `None`."""
    if not config.enabled:
        return Reason.DISABLED
    if effective_mode(request, config) is Mode.OFF:
        return Reason.MODE_OFF
    ends = _ends(request.message)
    forced = any(bounded_pattern(pattern).is_in(ends) for pattern in config.force_patterns)
    if not forced and request.source in config.skip_sources:
        return Reason.SOURCE_SKIPPED
    if len(request.message) > LONG and (bare := written(request.message).lstrip()) and len(bare) > LONG:
        return Reason.SLASH_COMMAND if not forced and _SLASH_COMMAND.match(bare) else None
    message = separated(request.message, config.strip_patterns)
    task = (request.task_description or "").strip()
    if not message.prose and not message.pasted and not task:
        return _empty_reason(request.message)
    if forced or message.pasted:
        return None
    return _content_rule(message.prose, task, request, config)


def _empty_reason(message: str) -> Reason:
    """Return why a message has no text of a person: it is blank, a notice of the host, or only an attachment."""
    sent = without_blocks(message).strip()
    if len(without_notices(sent).strip()) < len(sent):
        return Reason.HOST_NOTICE
    return Reason.ATTACHMENT_ONLY if any(map(str.isalnum, sent)) else Reason.EMPTY_MESSAGE


def _content_rule(message: str, task: str, request: InjectionRequest, config: InjectionConfig) -> Reason | None:
    known = lexicon(config.languages)
    ends = _ends(message)
    if known.force.in_any(tokens(ends)):
        return None
    if _SLASH_COMMAND.match(message):
        return Reason.SLASH_COMMAND
    if len(message) <= PATTERN_CHARS and any(bounded_pattern(rule).covers(message) for rule in config.skip_patterns):
        return Reason.SKIP_PATTERN
    if not config.skip_small_talk or _says_more(task, message, known):
        return None
    return _small_talk_rule(message, request, known)


def _small_talk_rule(message: str, request: InjectionRequest, known: Lexicon) -> Reason | None:
    kinds = small_talk(message, known)
    if any(turn.content.strip() for turn in request.recent_messages) and is_go_ahead(kinds, last_reply(request)):
        return None
    if not any(character.isalnum() for character in message):
        return Reason.EMOJI_ONLY
    if not kinds:
        return None
    quiet = kinds & {PhraseKind.ACKNOWLEDGEMENT, PhraseKind.ASSENT, PhraseKind.GO_AHEAD, PhraseKind.THANKS}
    return Reason.ACKNOWLEDGEMENT if quiet else Reason.GREETING


def last_reply(request: InjectionRequest) -> str:
    """Return the last turn if it is the agent's, else an empty text."""
    last = request.recent_messages[-1] if request.recent_messages else None
    return last.content if last is not None and last.role != "user" else ""


def _says_more(task: str, message: str, known: Lexicon) -> bool:
    """Return whether the task adds something to the message."""
    words = tokens(_ends(task))
    return bool(words) and words != tokens(_ends(message)) and not small_talk(task, known)


def _ends(text: str) -> str:
    return text if len(text) <= 2 * PATTERN_CHARS else f"{text[:PATTERN_CHARS]}\n{text[-PATTERN_CHARS:]}"
