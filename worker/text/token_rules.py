"""Secrets that are recognized by their form: rules as data, run by RE2 in linear time.

`secret_rules/gitleaks.toml` is the rule set of gitleaks as published (MIT licence, see beside it); replace the file to
update it. `secret_rules/more.toml` adds what it lacks.
"""

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import re2

Span = tuple[int, int]
"""Start and end of a secret."""

_END_IN_CODE = r"""(?:[\x60'"\s;]|\\[nr]|$)"""
_END_IN_PROSE = r"(?:[^\w-]|$)"
"""What follows a token: gitleaks reads code, but in prose a full stop, a comma or a bracket may follow as well."""

_ASSIGNED = r"(?:=|>|:{1,3}=|"
"""Part of the rules of gitleaks that go by a provider's name before any text of some length."""

_PUBLIC = ("-client-id", "-pub-key", "-public-key", "-access-id", "-user-api-id")
"""Ends of ids of rules for what is no secret."""

_LEFT_OUT = frozenset({"generic-api-key", "hashicorp-tf-password", "curl-auth-user", "nuget-config-password"})
"""Rules that `assignments` and `more.toml` replace: in notes, these miss most and find words that are no secrets."""

LEAST_SECRET = 6
"""Characters of a group that is a secret; shorter groups are parts of one."""

LEAST_RUN = 10
"""Letters and digits in a row that make a token look random."""

_RUN = re.compile("[A-Za-z0-9]+")
_DIGIT = re.compile("[0-9]")
_PLACEHOLDER = re.compile(
    r"""(?x) \$\{?\w+\}?[)"']*$ | \$\(.* | \$\{\{.* | \{\{?.*\}?\}$ | %\(?\w+\)?[%s]$ | <[^<>]*>?$ | \[[^\[\]]*\]?$
    | \(.* | @\w+@$ | [*xX.•…_#?-]{3,}$ | (?:your|my|our|the|some|example|insert|change)[-_ ].*$ | \.\.\.""",
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of secret; `entropy` (bits per character) and `random` say how random it must look, `digit` that it has
    a digit, and `given` that it is no placeholder."""

    pattern: Any
    group: int
    entropy: float
    random: bool
    digit: bool
    given: bool

    def spans(self, text: str) -> Iterator[Span]:
        """Return each secret that it finds."""
        for match in self.pattern.finditer(text):
            parts = enumerate(match.groups(), 1)
            group = self.group or next((index for index, part in parts if part and len(part) >= LEAST_SECRET), 0)
            if self._fits(match.group(group)):
                yield match.span(group)

    def _fits(self, secret: str) -> bool:
        if self.random and not looks_random(secret):
            return False
        if self.digit and not _DIGIT.search(secret):
            return False
        if self.given and is_placeholder(secret):
            return False
        return not self.entropy or _entropy(secret) >= self.entropy


def token_spans(text: str) -> Iterator[Span]:
    """Return the secrets in `text` that a rule recognizes; it must have no surrogates."""
    rules, keywords, of_keyword = load_rules()
    wanted = {rule for index in keywords.Match(text) or () for rule in of_keyword[index]}
    for index in sorted(wanted):
        yield from rules[index].spans(text)


def looks_random(token: str, least: int = LEAST_RUN) -> bool:
    """Return whether `token` has a run of at least `least` letters and digits with some of both."""
    return any(len(run) >= least and not run.isalpha() and not run.isdigit() for run in _RUN.findall(token))


def is_placeholder(value: str) -> bool:
    """Return whether `value` stands for a secret that is kept elsewhere: `${NAME}`, `<password>`, `****`."""
    return _PLACEHOLDER.match(value) is not None


@cache
def load_rules() -> tuple[Sequence[Rule], Any, Sequence[Sequence[int]]]:
    """Return the rules, the set of their keywords, and for each keyword the rules that it belongs to."""
    tables = [table for name in ("gitleaks", "more") for table in _read(name)]
    places: dict[str, list[int]] = {}
    for index, table in enumerate(tables):
        for keyword in table["keywords"]:
            places.setdefault(keyword.lower(), []).append(index)
    options = re2.Options()
    options.case_sensitive, options.literal = False, True
    keywords = re2.Set.SearchSet(options)
    for keyword in places:
        keywords.Add(keyword)
    keywords.Compile()
    return tuple(map(_rule, tables)), keywords, tuple(places.values())


def _read(name: str) -> list[Mapping[str, Any]]:
    path = resources.files(__package__).joinpath("secret_rules", f"{name}.toml")
    tables = tomllib.loads(path.read_text(encoding="utf-8"))["rules"]
    return [
        table
        for table in tables
        if "regex" in table and table["id"] not in _LEFT_OUT and not table["id"].endswith(_PUBLIC)
    ]


def _rule(table: Mapping[str, Any]) -> Rule:
    options = re2.Options()
    options.log_errors = False
    regex = table["regex"]
    return Rule(
        pattern=re2.compile(regex.replace(_END_IN_CODE, _END_IN_PROSE), options),
        group=table.get("secretGroup", int("given" in table)),
        entropy=table.get("entropy", 0.0),
        random=table.get("random", False),
        digit=_ASSIGNED in regex,
        given=table.get("given", False),
    )


def _entropy(secret: str) -> float:
    size = len(secret)
    return -sum(count / size * math.log2(count / size) for count in Counter(secret).values())
