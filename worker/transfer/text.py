"""Files as text, piece by piece: their encoding, their lines, and how far the reading has come."""

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

MAX_LINE_CHARS = 1_000_000
"""Longest line that is read: longer than any memory may be, with room for escapes and vectors beside it."""

_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line by its number (from 1), without its end, or what is wrong with it."""

    number: int
    text: str
    fault: str | None = None
    end: str = "\n"


class CountedFile(io.RawIOBase):
    """A file that is read, and knows how many bytes of it have been."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self.done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self.done += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def opened(path: Path) -> Iterator[tuple[TextIO, CountedFile]]:
    """The text of a file, and what counts its bytes. Raises `OSError`.

    UTF-8 with or without a byte order mark, or UTF-16 with one. Line ends stay as they are; bytes that are not UTF-8
    become lone surrogates, see `decoding_fault`.
    """
    with path.open("rb") as file:
        start = file.read(4)
    encoding = next((name for mark, name in _BOMS if start.startswith(mark)), "utf-8-sig")
    raw = CountedFile(path)
    with io.TextIOWrapper(io.BufferedReader(raw, 1 << 16), encoding, errors=_errors(encoding), newline="") as text:
        yield text, raw


def _errors(encoding: str) -> str:
    return "replace" if encoding == "utf-16" else "surrogateescape"


def decoding_fault(text: str) -> str | None:
    """Why `text`, read as `opened` does, cannot be taken."""
    return "not valid UTF-8" if not text.isascii() and _NOT_UTF8.search(text) else None


def lines_of(stream: TextIO) -> Iterator[TextLine]:
    """Every line of a stream; of one that is too long nothing is kept."""
    number = 0
    while text := stream.readline(MAX_LINE_CHARS):
        number += 1
        fault = None
        if len(text) == MAX_LINE_CHARS and not text.endswith("\n"):
            fault, text = f"longer than {MAX_LINE_CHARS} characters", ""
            _skip_line(stream)
        bare = text.rstrip("\r\n")
        yield TextLine(number, bare, fault or decoding_fault(text), text[len(bare) :])


def _skip_line(stream: TextIO) -> None:
    while (rest := stream.readline(MAX_LINE_CHARS)) and not rest.endswith("\n"):
        pass
