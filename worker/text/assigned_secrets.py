"""Secrets that are recognized by what is said of them: `DB_PASSWORD=...`, "the password is ...", "Passwort: ...".

A word for a secret is looked for first, by RE2 in linear time; then a bounded piece of text behind it is read.
"""

import re
from collections.abc import Iterator
from enum import IntEnum

import re2

from .token_rules import Span, is_placeholder, looks_random
from .word_lists import FUNCTION_WORDS, NO_SECRETS

BEHIND = 300
"""Characters read behind a word for a secret; a longer value is masked to its end."""

_PASSWORDS = (
    *("password", "passwd", "passphrase", "passcode", "pass[ -]phrase", "pwd", "pword", "psk"),
    *("passwort", "kennwort", "kennung", "(?:wlan|wifi|netzwerk|zugangs)[ -]?schlüssel", "zugangscode"),
    *("mots? de passe", "mdp", "contraseña", "contrasena", "clave", "senha", "parola d['’]ordine", "wachtwoord"),
    *(
        "hasło",
        "haslo",
        "пароль",
        "şifre",
        "sifre",
        "parola",
        "lösenord(?:et)?",
        "adgangskoden?",
        "passord(?:et)?",
        "salasana",
    ),
    *("heslo", "jelszó", "κωδικός"),
    *("パスワード", "暗証番号", "密码", "密碼", "口令", "비밀번호", "암호"),
)
_KEYS = (
    *("secret", "token", "credentials?", "pass", r"\bpw\b", "pat", "sharedaccesskey", "api[ _.-]?key"),
    "(?:recovery|backup)[ _-]codes?",
    r"(?:access|private|secret|signing|encryption|account|auth|master|shared|service|admin|session)[ _.-]?key",
    *("[A-Z0-9]_KEY", "clé (?:api|secrète)", "api-schlüssel", "chave", "ключ", "トークン", "apiキー", "密钥", "秘钥"),
)
_NAMED = re2.compile(rf"(?i)[\w.$-]*(?:{'|'.join((*_PASSWORDS, *_KEYS))})[\w-]*")
_PASSWORD = re.compile(rf"(?i)(?:{'|'.join(_PASSWORDS)})(?![^\W\d_])")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]$")

_ABOUT_WORDS = """
name names count type types policy policies url uri path file files field fields length len limit limits ttl expiry
expires expiration header headers store manager provider source endpoint prefix format version reset rotation algorithm
ring hint help label title prompt rules min max budget usage bucket arn ref class form page less word words izer ized
"""
_ABOUT = frozenset(_ABOUT_WORDS.split())
"""Words behind a word for a secret that make it something about secrets: `secret_name`, `password policy`."""

_SEPARATOR = re.compile(
    r"""(?x) \\?["'`*\])]{0,3} [\ \t]{0,8}
    (?: (?::[\ \t]{0,4}[\w.\[\]|&<>]{1,30}[\ \t]{0,4})? (?: :=|={1,3}>?|\?= )   # =, :=, =>, also behind a type
      | : | -> | [—–|>] | \s{1,4}value= | \{[^{}"'=]{0,80}=(?=[\ \t]{0,4}["']) | ,(?=[\ \t]{0,4}["'])
    ) \*{0,2}[\ \t]{0,8}(?:\n[\ \t]{1,20})?"""
)
_VERB = re.compile(
    r"""(?ix)
    (?:  (?:[\ \t]+[^\s:=.!?"'`]{1,24}){0,5}?
         (?: [\ \t]*[:=—–] | [\ \t]+-
           | [\ \t]+(?:is\ now|is|are|was|to|now|lautet|ist|heißt|war|est|sont|es|son|é|è|jest|это) )
      |  [\ \t]+(?:är|er|on|je)
    ) [\ \t]+"""
)
_JOINED = re.compile(r"\s{0,3}(?:は|が|是|为|為|는|은|이|가|就是|改为|改成|:|=)?\s{0,3}")
_QUOTED = re.compile(
    r"""(?sx) \\? (?: "(?P<a>[^"]+)" | '(?P<b>[^'\n]+)' | `(?P<c>[^`]+)` | „(?P<d>[^“”]+)[“”] | “(?P<e>[^”]+)”
    | «\s?(?P<f>[^»]+?)\s?» | 「(?P<g>[^」]+)」 )"""
)
_BARE = re.compile(r"[^\s\"'`,;<>「」“”„«»。、，；]+")
_ASCII = re.compile(r"[!#-&(-~]{4,}")
_CODE = re.compile(
    r"[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+\(?.*|[\w.$]+[(\[].*|(?:await|new|self|this)\b.*"
)
_PLACE = re.compile(r"(?:~|\.{1,2})?/[\w.~-]+|[A-Za-z]:\\|[a-z]+://|\d{4}-\d{2}-\d{2}")
_LETTER = re.compile(r"[^\W\d_]")
_SIGN = re.compile(r"[!@#$%^&*+=?~|\\]")
_ENDS = re.compile(r"[ \t]*(?:$|[\n.,;!)\]}<\"'/&|#])")
_LOGIN = re2.compile(
    r"(?i)(?:credentials|creds|login|logon|zugangsdaten|identifiants|credenciales|credenziali)[^\n:=]{0,30}[:=]"
    r"\s{0,4}[^\s/:]{1,60}\s{0,3}[/:]\s{0,3}([^\s\"'`,;]{5,})"
)


class _Kind(IntEnum):
    """How sure a word is: of a token or key, of "pass", or of a password."""

    KEY = 1
    PASS = 2
    PASSWORD = 3


def assigned_spans(text: str) -> Iterator[Span]:
    """Return the values in `text` that are said to be secrets; it must have no surrogates."""
    done = 0
    for match in _NAMED.finditer(text):
        start, end = match.span()
        kind = _kind(match.group()) if start >= done else None
        span = kind and _value(text, start, end, match.group(), kind)
        if span:
            done = _whole_end(text, *span)
            yield span[0], done
    for match in _LOGIN.finditer(text):
        start, end = _trimmed(text, *match.span(1))
        if _mixed(text[start:end]):
            yield start, end


def _kind(name: str) -> _Kind | None:
    """Return what a name such as `DB_PASSWORD` or `authToken` holds, `None` if it is no secret."""
    words = [word.lower() for word in _WORDS.findall(name)]
    if _ABOUT.intersection(words[1:]):
        return None
    if _PASSWORD.search(name) or any(word.endswith(("password", "passwd", "passwort")) for word in words):
        return _Kind.PASSWORD
    if words[-1:] in (["pass"], ["pw"], ["code"], ["codes"]):
        return _Kind.PASS
    if not name.isascii():
        return _Kind.KEY
    singles = {"secret", "token", "credential", "credentials", "apikey", "pat"}
    if any(word in singles or word.endswith(("secret", "token", "apikey")) for word in words):
        return _Kind.KEY if "pat" not in words or name.isupper() else None
    return _Kind.KEY if "key" in words or any(word.endswith("accesskey") for word in words) else None


def _value(text: str, start: int, end: int, name: str, kind: _Kind) -> Span | None:
    """Return where the value of a name between `start` and `end` is."""
    tail = text[end : end + BEHIND]
    if _UNSPACED.search(name):
        return _unspaced(text, end, tail)
    if found := _SEPARATOR.match(tail):
        sign = found.group().strip()
        if sign == ">" and text[max(0, start - 1) : start] != "<":
            return None
        return _assigned(text, end + found.end(), name, kind, sign, query=text[max(0, start - 1) : start] in ("?", "&"))
    found = _VERB.match(tail)
    if found:
        return _said(text, end + found.end(), kind, numbers=found.group().strip()[-1:].isalpha())
    beside = re.match(r"[ \t]+", tail)
    return _beside(text, end + beside.end(), kind) if beside else None


def _assigned(text: str, at: int, name: str, kind: _Kind, sign: str, *, query: bool) -> Span | None:
    quoted = _QUOTED.match(text, at, at + BEHIND)
    if quoted:
        span = quoted.span(quoted.lastgroup or 0)
        return span if _is_quoted_secret(text[slice(*span)], kind, name) else None
    bare = _BARE.match(text, at, at + BEHIND)
    if bare is None:
        return None
    start, end = _trimmed(text, *bare.span())
    if query and "&" in text[start:end]:
        end = text.index("&", start)
    value = text[start:end]
    if _harmless(value):
        return None
    if _mixed(value, 4):
        return (start, end) if kind is not _Kind.KEY or looks_random(value, 6 if "=" in sign else 8) else None
    plain = _ENDS.match(text, end) is not None and value.lower() not in NO_SECRETS
    if kind is _Kind.PASSWORD:
        return (start, end) if plain and _is_lone_password(value) else None
    return (start, end) if plain and "=" in sign and name.isupper() and value.isalpha() and len(value) >= 8 else None


def _said(text: str, at: int, kind: _Kind, *, numbers: bool) -> Span | None:
    """Return the value in a sentence such as "the password is ..."."""
    quoted = _QUOTED.match(text, at, at + BEHIND)
    if quoted:
        span = quoted.span(quoted.lastgroup or 0)
        value = text[slice(*span)]
        return span if " " not in value and _is_quoted_secret(value, kind, "") else None
    bare = _BARE.match(text, at, at + BEHIND)
    if bare is None:
        return None
    start, end = _trimmed(text, *bare.span())
    value = text[start:end]
    sure = looks_random(value, 12) if kind is _Kind.KEY else _mixed(value) or (numbers and _is_number(value))
    return (start, end) if sure and not _harmless(value) else None


def _beside(text: str, at: int, kind: _Kind) -> Span | None:
    """Return the value directly behind a word: `login inv password ...`."""
    bare = _BARE.match(text, at, at + BEHIND)
    if bare is None:
        return None
    start, end = _trimmed(text, *bare.span())
    value = text[start:end]
    if kind is _Kind.KEY:
        return (start, end) if looks_random(value, 20) else None
    sure = _mixed(value, 7) and (sum(map(str.isdigit, value)) >= 3 or value.lower() != value != value.upper())
    return (start, end) if sure and not _harmless(value) else None


def _unspaced(text: str, end: int, tail: str) -> Span | None:
    joined = _JOINED.match(tail)
    at = end + (joined.end() if joined else 0)
    if text[at : at + 1] in "\"'「“":
        at += 1
    value = _ASCII.match(text, at, at + BEHIND)
    return value.span() if value and _mixed(value.group()) and not _harmless(value.group()) else None


def _whole_end(text: str, start: int, end: int) -> int:
    """Return the end of a value that was read up to `end`, further behind if it is longer than what was read."""
    rest = _BARE.match(text, end) if end - start >= BEHIND - 1 else None
    return rest.end() if rest else end


def _trimmed(text: str, start: int, end: int) -> Span:
    """Leave out the punctuation of the sentence around a value."""
    while end > start and text[end - 1] in ".,:;)]}>…|":
        end -= 1
    return start, end


def _mixed(value: str, least: int = 5) -> bool:
    """Return whether `value` has digits, and letters or signs."""
    return len(value) >= least and any(map(str.isdigit, value)) and bool(_LETTER.search(value) or _SIGN.search(value))


def _is_number(value: str) -> bool:
    """Return whether `value` is a number that can be a password, and no year."""
    return value.isdigit() and len(value) >= 4 and not (len(value) == 4 and value[:2] in ("19", "20"))


def _harmless(value: str) -> bool:
    return bool(is_placeholder(value) or _CODE.fullmatch(value) or _PLACE.match(value))


def _is_lone_password(value: str) -> bool:
    """Return whether a value of one kind of characters can be a password: `swordfish`, `4411`, `open!sesame`."""
    if value.isdigit():
        return _is_number(value)
    return (value.isalpha() and value.isascii() and len(value) >= 6) or (len(value) >= 5 and bool(_SIGN.search(value)))


def _is_quoted_secret(value: str, kind: _Kind, name: str) -> bool:
    words = value.lower().split()
    if not words or is_placeholder(value) or _PLACE.match(value) or NO_SECRETS.issuperset(words):
        return False
    if len(words) > 1:
        return kind is _Kind.PASSWORD and len(words) >= 3 and FUNCTION_WORDS.isdisjoint(words)
    if kind is _Kind.PASSWORD:
        return len(value) >= 4
    if kind is _Kind.PASS and _mixed(value):
        return True
    return looks_random(value, 6) or (value.isalpha() and len(value) >= 8 and "secret" in name.lower())
