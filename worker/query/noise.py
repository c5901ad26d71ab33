"""Separation of prose from pasted text, in linear time.

Injected blocks, text added by hosts, markers of attachments and blobs such as base64 are removed. Fenced code, runs of
log or code lines, and repeated lines are kept separately, because an error line may be what the message is about.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from hooks.contract.blocks import FRAMES, strip_alike
from worker.domain.patterns import bounded_pattern

from .host_text import without_markers, without_notices

SCANNED_HEAD = 8_000
SCANNED_TAIL = 24_000
"""Characters examined at the beginning and the end of a longer text."""

LOG_RUN = 3
"""Minimum number of consecutive log or code lines that count as pasted."""

REPEATS = 5
"""Minimum number of occurrences, ignoring digits, for a line to count as pasted."""

MOST_TOLD = 4
"""Maximum number of pasted lines in a query."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]+")
_BLOB = re.compile(r"[!-~]{120,}")
_STRETCH = re.compile(r"(\S)\1{15,}")
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")
_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_LOG_LINE = re.compile(
    r"""\s{0,40}(?:
      [\[(<]?\d{4}[-/.]\d\d[-/.]\d\d[T ,_]\s?\d\d:?\d\d      # 2026-02-03T08:12, 2026/02/03 08:12
    | [\[(]?\d\d:\d\d:\d\d\b                                 # [08:12:44]
    | \[\s{0,8}\d{1,9}\.\d{1,9}\]                            # [  812.440]
    | [A-Z][a-z]{2}\s{1,2}\d{1,2}\s\d\d:\d\d:\d\d            # Feb  3 08:12:44
    | [\[(<]?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL)\b[\])>:\s]
    | at\s[\w$.<>/]{3,200}[(:]                               # at package.Class.method(
    | File\s"[^"\n]{1,300}",\sline\s\d
    | \d{1,4}:?\s{1,8}(?:0x[0-9a-f]{4}|\w{1,60}::|\S{1,60}\s\S{1,80}\s\+\s\d)
    | [\w./\\-]{1,200}\.\w{1,5}:\d{1,6}(?::\d{1,6})?[:\s]    # src/map.rs:418:22:
    )""",
    re.VERBOSE,
)
_CODE_LINE = re.compile(
    r"\s{0,80}(?:(?:def|class|func|fn|import|from|return|public|private|static|const|let|var|void|int|package|using|"
    r"namespace|struct|impl|#include|SELECT|INSERT|UPDATE|FROM|WHERE|JOIN)\b.{0,200}[({;:=,*]|[{}\])]+[;,]?\s{0,8}$|"
    r"[^\n]{1,200}(?:[{};]|=>|\)\s?:)\s{0,8}$|[+-](?![ \d-]).{0,200}[;({)]\s{0,8}$)"
)
_TELLING = (
    *("error", "exception", "fail", "fatal", "panic", "denied", "refused", "timed out", "timeout", "abort", "crash"),
    *("cannot", "unable", "not found", "missing", "killed", "invalid", "warn", "exit code", "nack", "busy"),
)


@dataclass(frozen=True, slots=True)
class CleanedMessage:
    """Prose and pasted lines of a message."""

    prose: str
    pasted: tuple[str, ...] = ()


def separated(text: str, patterns: Sequence[str] = ()) -> CleanedMessage:
    """Separate prose from pasted lines, removing matches of the regular expressions `patterns`."""
    if not text:
        return CleanedMessage("")
    plain = _CONTROL.sub(" ", without_markers(_clipped(written(text))).replace("\r\n", "\n"))
    bare = _without_blobs(_without_envelope(plain, patterns))
    lines = [line for line in bare.split("\n") if line and not line.isspace()]
    noisy = _noisy(lines)
    prose = [line for line, is_noise in zip(lines, noisy, strict=True) if not is_noise]
    pasted = [line for line, is_noise in zip(lines, noisy, strict=True) if is_noise and _has_words(line)]
    return CleanedMessage("\n".join(prose).strip(), tuple(pasted))


def written(text: str) -> str:
    """Return `text` without injected blocks and without notices of the host."""
    return without_notices(without_blocks(text))


def without_blocks(text: str) -> str:
    """Return `text` without anything that looks like an injected block: a pasted one is no question either."""
    return strip_alike(text) if any(opening in text for opening, _ in FRAMES) else text


def telling_lines(pasted: Sequence[str], limit: int) -> str:
    """Return distinct pasted lines that report errors, in at most `limit` characters."""
    shapes = {_shape(line): line for line in reversed(pasted)}
    told = [line for line in reversed(shapes.values()) if any(word in line[:400].lower() for word in _TELLING)]
    lines = [" ".join(line[:400].split()) for line in told[:MOST_TOLD]]
    return " ".join(line[: max(40, limit // len(lines))] for line in lines)[:limit]


def _clipped(text: str) -> str:
    if len(text) <= SCANNED_HEAD + SCANNED_TAIL:
        return text
    return f"{text[:SCANNED_HEAD]}\n{text[-SCANNED_TAIL:]}"


def _without_envelope(text: str, patterns: Sequence[str]) -> str:
    """Remove matches of `patterns`. A line that is all there is stays: somebody may have written it."""
    bare = text
    for pattern in patterns:
        bare = bounded_pattern(pattern).replaced(bare, by=" ")
    return bare if _has_words(bare) or "```" in text else text


def _without_blobs(text: str) -> str:
    return _STRETCH.sub(r"\1\1\1", _BLOB.sub(lambda blob: blob[0][:60] if "://" in blob[0][:60] else " ", text))


def _has_words(text: str) -> bool:
    return any(character.isalnum() for character in text)


def _shape(line: str) -> str:
    return line[:200].strip().translate(_WITHOUT_DIGITS)


def _noisy(lines: Sequence[str]) -> list[bool]:
    shapes = [_shape(line) for line in lines]
    counts = Counter(shapes)
    repeated = [len(shape) > 3 and counts[shape] >= REPEATS for shape in shapes]
    pasted = [fenced or often for fenced, often in zip(_fenced(lines), repeated, strict=True)]
    for looks in (_LOG_LINE, _CODE_LINE):
        _mark_runs(lines, looks, pasted)
    return pasted


def _fenced(lines: Sequence[str]) -> list[bool]:
    """Return which lines belong to a closed code fence."""
    marks = [index for index, line in enumerate(lines) if _FENCE.match(line)]
    inside = [False] * len(lines)
    for opening, closing in zip(marks[::2], marks[1::2], strict=False):
        inside[opening : closing + 1] = [True] * (closing - opening + 1)
    return inside


def _mark_runs(lines: Sequence[str], looks: re.Pattern[str], pasted: list[bool]) -> None:
    """Mark runs of at least `LOG_RUN` lines that match."""
    alike = [looks.match(line[:400]) is not None for line in lines]
    start = 0
    for is_alike, run in groupby(alike):
        size = sum(1 for _ in run)
        if is_alike and size >= LOG_RUN:
            pasted[start : start + size] = [True] * size
        start += size
