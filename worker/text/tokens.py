"""Length of a text: estimated tokens, and characters as hosts count them."""

import math
import re

_DENSE = re.compile(r"[\u0e00-\u0eff\u1100-\u11ff\u2e80-\ud7ff\uf900-\ufaff\uff00-\uffef\U0001f000-\U0003ffff]")
_LETTERS = re.compile(r"[A-Za-z ]")


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens in `text`, erring high.

    Per token 3.5 English letters or spaces; one token per digit, sign or other letter; 1.5 per East Asian character or
    emoji. This is 4 to 21 % above the measured count for English notes with a vocabulary of 49,000 tokens.
    """
    dense = len(_DENSE.findall(text))
    letters = len(_LETTERS.findall(text))
    return math.ceil(letters / 3.5 + (len(text) - letters - dense) + dense * 1.5)


def utf16_length(text: str) -> int:
    """Return the length in UTF-16 code units, as JavaScript and most hosts count it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
