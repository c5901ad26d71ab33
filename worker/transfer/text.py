"""Streaming of text files: encoding, lines and progress."""

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

MAX_LINE_CHARS = 1_000_000
"""Maximum line length: longer than any memory, with room for escapes and vectors."""

NOT_UTF8 = "not valid UTF-8"
_NOT_UTF8 = re.compile("[\udc80-\udcff]")
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line without its end, numbered from 1; `fault` says why it cannot be read."""

    number: int
    text: str
    fault: str | None = None
    end: str = "\n"


class CountedFile(io.RawIOBase):
    """A binary file that counts the bytes read."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = path.open("rb", buffering=0)
        self.done = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self.done = self._file.seek(offset, whence)
        return self.done

    def readinto(self, buffer: Any) -> int:
        count = self._file.readinto(buffer)
        self.done += count
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


@contextmanager
def opened(path: Path) -> Iterator[tuple[TextIO, CountedFile]]:
    """Open a file as text, and return it with its byte counter; raise `OSError`.

    The encoding is UTF-8, or UTF-16 with a byte order mark. Line ends are kept. Invalid UTF-8 becomes lone surrogates,
    which `decoding_fault` detects.
    """
    with path.open("rb") as file:
        start = file.read(4)
    encoding = next((name for mark, name in _BOMS if start.startswith(mark)), "utf-8-sig")
    errors = "replace" if encoding == "utf-16" else "surrogateescape"
    raw = CountedFile(path)
    with io.TextIOWrapper(io.BufferedReader(raw, 1 << 16), encoding, errors=errors, newline="") as text:
        yield text, raw


def decoding_fault(text: str) -> str | None:
    """Return an error message if `text` was not valid UTF-8."""
    return NOT_UTF8 if not text.isascii() and _NOT_UTF8.search(text) else None


def lines_of(stream: TextIO) -> Iterator[TextLine]:
    """Read the lines of a stream; the text of lines that are too long is dropped."""
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
