"""Texts with and without secrets, filled with random characters as they are read."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "masking"
LOWER = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
ALPHABETS = {
    "alnum": LOWER + LOWER.upper() + DIGITS,
    "lower": LOWER + DIGITS,
    "upper": LOWER.upper() + DIGITS,
    "hex": DIGITS + "abcdef",
    "digits": DIGITS,
    "base32": LOWER.upper() + "234567",
    "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
    "url": LOWER + LOWER.upper() + DIGITS + "_-",
    "b64": LOWER + LOWER.upper() + DIGITS + "+/",
}
WORDS = ("Trout", "Kiln", "maple", "Harbor", "velvet", "Osprey", "lantern", "Gravel")
WINDOW = 8
"""Characters of a secret that must not be left in a row."""

_FIELD = re.compile(r"\{(\w+)(?::(\d+))?\}")


@dataclass(frozen=True)
class Sample:
    """A text with its secret, `kind` being what the secret is; harmless texts have none."""

    kind: str
    text: str
    secret: str = ""

    def leaks(self, masked: str) -> bool:
        """Return whether `masked` still has a part of the secret."""
        bare = "".join(character for character in self.secret if character.isprintable())
        size = min(WINDOW, len(bare))
        plain = "".join(character for character in masked if character.isprintable())
        return any(bare[start : start + size] in plain for start in range(len(bare) - size + 1))


def secret_texts(seed: int) -> list[Sample]:
    return [_secret(*line.split(" | ", 1), seed) for line in _lines("secrets.txt")]


def harmless_texts(seed: int) -> list[Sample]:
    return [Sample("harmless", _filled(line, random.Random(f"{seed} {line}"))) for line in _lines("harmless.txt")]


def _secret(kind: str, template: str, seed: int) -> Sample:
    before, rest = _filled(template, random.Random(f"{seed} {kind}")).split("«", 1)
    secret, after = rest.split("»", 1)
    return Sample(kind, before + secret + after, secret)


def _lines(name: str) -> Iterator[str]:
    text = (FOLDER / name).read_text(encoding="utf-8")
    return (line for line in text.splitlines() if line and not line.startswith("#"))


def _filled(template: str, chance: random.Random) -> str:
    text = _FIELD.sub(lambda field: _random(field[1], int(field[2] or 0), chance) or field[0], template)
    for written, meant in (("\\\\n", "\0"), ("\\n", "\n"), ("\0", "\\n")):
        text = text.replace(written, meant)
    return re.sub(r"\\u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), text)


def _random(name: str, size: int, chance: random.Random) -> str | None:
    if name in ALPHABETS:
        return "".join(chance.choices(ALPHABETS[name], k=size))
    word, number = chance.choice(WORDS), chance.randrange(1000, 9999)
    fixed = {
        "pw": chance.choice(
            (f"{word}-{number}!", f"{word}{number}", f"{number}{word}#", f"{word[:3]}0{word[3:]}_{number}")
        ),
        "simple": f"{word.lower()}{number % 100}",
        "uuid": "-".join("".join(chance.choices(ALPHABETS["hex"], k=k)) for k in (8, 4, 4, 4, 12)),
        "begin": "BEGIN",
    }
    return fixed.get(name)
