"""When a request gets no memory without a search: the skip ladder, first rule first. Pure.

1. `disabled`, `mode_off`: injection is off.
2. A `force_patterns` match: served, whatever comes below.
3. `source_skipped`: one of `skip_sources`.
4. `empty_message`: neither message nor task says anything.
5. A force phrase of the languages ("remember", "last time"): served.
6. `slash_command`: a command of the host, not a message.
7. `skip_pattern`: the whole message matches one of `skip_patterns`.
8. `emoji_only`, `greeting`, `acknowledgement`: small talk, unless it tells the agent to go on with what earlier turns
   are about, or the request has a task that says more.
"""

import re
from functools import lru_cache

from hooks.contract import InjectionRequest, Mode, Reason
from worker.settings.injection import InjectionConfig
from worker.text.lexicon import Lexicon, PhraseKind, lexicon, tokens

from .noise import separated, without_blocks
from .small_talk import is_go_ahead, small_talk

PATTERN_CHARS = 2000
"""Characters at the start and at the end of a message in which patterns and phrases are looked for."""

LONG = 10_000
"""Characters from which a message is no small talk, whatever it is made of."""

_SLASH_COMMAND = re.compile(
    r"/(?!(?:bin|boot|dev|etc|home|lib|media|mnt|opt|proc|root|run|srv|sys|tmp|usr|var)\b)[A-Za-z][\w:-]{0,60}(?=\s|$)"
)


def effective_mode(request: InjectionRequest, config: InjectionConfig) -> Mode:
    """The request's mode where it names one, else the configured one."""
    return request.mode or config.mode


def skip_reason(request: InjectionRequest, config: InjectionConfig) -> Reason | None:
    """Why this request gets no memory without a search, or `None`."""
    if not config.enabled:
        return Reason.DISABLED
    if effective_mode(request, config) is Mode.OFF:
        return Reason.MODE_OFF
    ends = _ends(request.message)
    forced = any(_compiled(pattern).search(ends) for pattern in config.force_patterns)
    if not forced and request.source in config.skip_sources:
        return Reason.SOURCE_SKIPPED
    if len(request.message) > LONG and (bare := without_blocks(request.message).lstrip()) and len(bare) > LONG:
        return Reason.SLASH_COMMAND if not forced and _SLASH_COMMAND.match(bare) else None
    message = separated(request.message, config.strip_patterns)
    task = (request.task_description or "").strip()
    if not message.prose and not message.pasted and not task:
        return Reason.EMPTY_MESSAGE
    if forced or message.pasted:
        return None
    return _content_rule(message.prose, task, request, config)


def _content_rule(message: str, task: str, request: InjectionRequest, config: InjectionConfig) -> Reason | None:
    known = lexicon(config.languages)
    ends = _ends(message)
    if known.force.in_any(tokens(ends)):
        return None
    if _SLASH_COMMAND.match(message):
        return Reason.SLASH_COMMAND
    if len(message) <= PATTERN_CHARS and any(_compiled(rule).fullmatch(message) for rule in config.skip_patterns):
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
    """The last turn where it is the agent's, else nothing."""
    last = request.recent_messages[-1] if request.recent_messages else None
    return last.content if last is not None and last.role != "user" else ""


def _says_more(task: str, message: str, known: Lexicon) -> bool:
    """Whether the task is more than the message once again."""
    words = tokens(_ends(task))
    return bool(words) and words != tokens(_ends(message)) and not small_talk(task, known)


def _ends(text: str) -> str:
    return text if len(text) <= 2 * PATTERN_CHARS else f"{text[:PATTERN_CHARS]}\n{text[-PATTERN_CHARS:]}"


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
