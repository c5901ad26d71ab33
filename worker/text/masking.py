"""Masking of secrets in text.

Only text with a recognizable form is masked: credentials in URLs, private keys, tokens with a vendor's prefix, JSON
web tokens, and assignments such as `password: ...`.
"""

import re
from functools import lru_cache

MASK = "[masked]"

_WHOLE = re.compile(
    r"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | (?<![\w-])(?:
        sk-(?:ant-|proj-|live-|test-)?[A-Za-z0-9_-]{16,}
      | [sr]k_(?:live|test)_[A-Za-z0-9]{16,}
      | gh[pousr]_[A-Za-z0-9]{20,}
      | github_pat_[A-Za-z0-9_]{20,}
      | glpat-[A-Za-z0-9_-]{16,}
      | xox[abeoprs]-[A-Za-z0-9-]{10,}
      | (?:AKIA|ASIA)[A-Z0-9]{16}
      | AIza[A-Za-z0-9_-]{30,}
      | hf_[A-Za-z0-9]{20,}
      | npm_[A-Za-z0-9]{30,}
      | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}
    )(?![\w])
    """,
    re.VERBOSE | re.DOTALL,
)
_USERINFO = re.compile(r"(?P<before>[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s/:@]{0,200}:)[^\s/@]{1,2000}(?=@)")
_BEARER = re.compile(r"(?P<before>\bBearer\s+)[A-Za-z0-9._~+/-]{12,}=*")
_ASSIGNED = re.compile(
    r"""(?P<before>\b(?:pass(?:word|wd|phrase)?|pwd|secret(?:[_ -]?key)?|api[_ -]?key|(?:access|auth|api)[_ -]?token)
        \b["']?\s*[:=]\s*["']?)(?!\[masked\])[^\s"',;]{4,}""",
    re.VERBOSE | re.IGNORECASE,
)


@lru_cache(maxsize=4096)
def mask_secrets(text: str) -> str:
    """Replace every secret in `text` by `[masked]`."""
    text = _WHOLE.sub(MASK, text)
    for pattern in (_USERINFO, _BEARER, _ASSIGNED):
        text = pattern.sub(rf"\g<before>{MASK}", text)
    return text
