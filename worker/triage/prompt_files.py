"""Load prompt files (Markdown with YAML front matter), check them, and fill in data.

A file has front matter between two lines `---` and sections under level-one headings:

    ---
    id: triage
    version: 1
    max_tokens: 96
    variables: [now, task, candidates]
    ---
    # System
    # Example: user        (any number of pairs)
    # Example: assistant
    # User                 (a template; `{{name}}` is a variable)
    # <Anything else>      (further sections that the code uses by name)

A file with `extends: triage` in its front matter inherits sections, examples, parameters and variables that it does not
define. The base prompt is in the same folder, or else the shipped one; a file that extends its own id extends the
shipped one.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worker import PACKAGE_ROOT
from worker.domain.errors import PromptError
from worker.domain.validation import describe_faults
from worker.text.defusing import plain_character
from worker.text.excerpts import head, tail
from worker.text.invisible import without_invisible
from worker.text.tokens import estimate_tokens

_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_HEADING = re.compile(r"^# +(.+?)\s*$", re.MULTILINE)
_FRONT = re.compile(r"\A---\n(.*?)\n---\n(.*)\Z", re.DOTALL)
_EXAMPLE_USER, _EXAMPLE_ASSISTANT = "example: user", "example: assistant"

Message = dict[str, Any]


class _FrontMatter(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    id: str = Field(pattern=r"^[a-z][a-z0-9_-]*$")
    version: int = Field(ge=1)
    description: str = ""
    extends: str | None = None
    max_tokens: int = Field(default=96, ge=1, le=4096)
    temperature: float = Field(default=0.0, ge=0.0, le=2.0)
    variables: list[str] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A checked prompt. `sections` maps lower-case headings to the further sections."""

    id: str
    version: int
    system: str
    user: str
    examples: tuple[tuple[str, str], ...] = ()
    sections: Mapping[str, str] = field(default_factory=dict)
    variables: frozenset[str] = frozenset()
    max_tokens: int = 96
    temperature: float = 0.0

    @property
    def name(self) -> str:
        """Return id and version, such as `triage@1`."""
        return f"{self.id}@{self.version}"

    def prefix(self) -> tuple[Message, ...]:
        """Return rules and examples, which are the same for every request and therefore cacheable."""
        shots = [
            message for user, answer in self.examples for message in (user_message(user), assistant_message(answer))
        ]
        return ({"role": "system", "content": self.system}, *shots)

    def fill(self, template: str, values: Mapping[str, str]) -> str:
        """Replace the variables of a template in one pass, so that values are never expanded."""
        return _VARIABLE.sub(lambda match: values[match.group(1)], template)

    def section(self, name: str) -> str:
        """Return a further section. Raise `PromptError` if it is missing."""
        if name not in self.sections:
            raise PromptError(f"prompt {self.name}: the section '# {name.capitalize()}' is missing")
        return self.sections[name]


def user_message(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant_message(text: str) -> Message:
    return {"role": "assistant", "content": text}


def default_prompts_dir() -> Path:
    """Return the prompts of the installed package, or those of the checkout."""
    packaged = PACKAGE_ROOT / "_prompts"
    return packaged if packaged.is_dir() else PACKAGE_ROOT.parent / "prompts"


def load_prompts(directory: Path) -> dict[str, Prompt]:
    """Load the prompts of a folder (`*.md` except README.md) by id. Raise `PromptError` if one is invalid."""
    if not directory.is_dir():
        raise PromptError(f"there is no folder of prompts at {directory}")
    prompts: dict[str, Prompt] = {}
    for path in sorted(directory.glob("*.md")):
        if path.name.lower() == "readme.md":
            continue
        prompt = load_prompt(path)
        if prompt.id in prompts:
            raise PromptError(f"{path}: another file has the id {prompt.id!r}; rename one of them")
        prompts[prompt.id] = prompt
    return prompts


def load_prompt(path: Path) -> Prompt:
    """Load and check a prompt file. Raise `PromptError` if it is invalid."""
    return parse_prompt(_read(path), str(path), path.parent)


def whole_prompt(path: Path, *folders: Path) -> tuple[Prompt, str]:
    """Load a prompt outside the prompts folder; return it and its text with inherited parts included.

    The base prompt is searched for beside the file by file name (because other drafts may be there too), then by id in
    `folders`, among the shipped prompts, and beside the file. Raise `PromptError` if the file is invalid.
    """
    text = _read(path)
    front, _ = _parts(text, str(path))
    if front.extends is None:
        return parse_prompt(text, str(path)), text
    named = [path.parent] if (path.parent / f"{front.extends}.md").is_file() else []
    prompt = parse_prompt(text, str(path), *named, *folders, default_prompts_dir(), path.parent)
    return prompt, prompt_text(prompt, front.description)


def prompt_text(prompt: Prompt, description: str = "") -> str:
    """Return the text of an equal prompt that extends nothing."""
    texts = {"system": prompt.system, "user": prompt.user, **prompt.sections}
    front = {
        "id": prompt.id,
        "version": prompt.version,
        **({"description": description} if description else {}),
        "max_tokens": prompt.max_tokens,
        "temperature": prompt.temperature,
        "variables": sorted(_used(texts.values())),
    }
    shots = [part for user, answer in prompt.examples for part in ((_EXAMPLE_USER, user), (_EXAMPLE_ASSISTANT, answer))]
    sections = "".join(f"# {name.capitalize()}\n{text}\n" for name, text in (*texts.items(), *shots))
    return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n{sections}"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PromptError(f"cannot read {path}: {error}") from error


def parse_prompt(text: str, source: str, *folders: Path) -> Prompt:
    """Parse a prompt; look for the base prompt in `folders` first. Raise `PromptError` starting with `source`."""
    front, sections = _parts(text, source)
    named = {name: body for name, body in sections if not name.startswith("example:")}
    examples = _examples(sections, source)
    if front.extends is not None:
        places = () if front.extends == front.id else folders
        return _extended(_base(front.extends, source, places), front, named, examples, source)
    _check_variables(front.variables, named, source)
    return Prompt(
        id=front.id,
        version=front.version,
        system=_required(named, "system", source),
        user=_required(named, "user", source),
        examples=examples,
        sections=named,
        variables=frozenset(front.variables),
        max_tokens=front.max_tokens,
        temperature=front.temperature,
    )


def _parts(text: str, source: str) -> tuple[_FrontMatter, list[tuple[str, str]]]:
    match = _FRONT.match(text.replace("\r\n", "\n"))
    if match is None:
        raise PromptError(f"{source}: must start with front matter between two lines '---'")
    return _front_matter(match.group(1), source), _sections(match.group(2), source)


def _required(named: dict[str, str], name: str, source: str) -> str:
    found = named.pop(name, "")
    if not found:
        raise PromptError(f"{source}: needs the sections '# System' and '# User'")
    return found


def _base(wanted: str, source: str, folders: Iterable[Path]) -> Prompt:
    for place in (*folders, default_prompts_dir()):
        for path in sorted(place.glob("*.md"), key=lambda path: (path.stem != wanted, path.name)):
            text = _read(path)
            if path.name.lower() == "readme.md" or str(path) == source:
                continue
            front, _ = _parts(text, str(path))
            if front.id == wanted and front.extends is None:
                return parse_prompt(text, str(path))
    raise PromptError(f"{source}: extends {wanted!r}, but no prompt with that id exists (or it extends another one)")


def _extended(
    base: Prompt, front: _FrontMatter, named: dict[str, str], examples: tuple[tuple[str, str], ...], source: str
) -> Prompt:
    """Override the parts of the base prompt that a file defines itself."""
    empty = next((name for name, text in named.items() if not text), None)
    if empty is not None:
        raise PromptError(f"{source}: the section '# {empty.capitalize()}' is empty; remove it to inherit it")
    system, user = named.pop("system", base.system), named.pop("user", base.user)
    sections, said = {**base.sections, **named}, front.model_fields_set
    declared = base.variables | frozenset(front.variables)
    _check_system(system, source)
    for name in sorted(_used([user, *sections.values()]) - declared):
        raise PromptError(f"{source}: the variable {name!r} is used but not declared")
    return Prompt(
        id=front.id,
        version=front.version,
        system=system,
        user=user,
        examples=examples or base.examples,
        sections=sections,
        variables=declared,
        max_tokens=front.max_tokens if "max_tokens" in said else base.max_tokens,
        temperature=front.temperature if "temperature" in said else base.temperature,
    )


_YAML_SLIPS = (ValueError, KeyError, AttributeError, RecursionError)
"""What PyYAML raises besides its own errors: for invalid dates, bad tags, deep nesting."""


def _front_matter(text: str, source: str) -> _FrontMatter:
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, *_YAML_SLIPS) as error:
        raise PromptError(f"{source}: the front matter is not YAML{_yaml_place(error)}") from error
    try:
        return _FrontMatter.model_validate(read)
    except ValidationError as error:
        raise PromptError(f"{source}: {describe_faults(error, 'front matter')}") from error


def _yaml_place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"; see line {mark.line + 2}, column {mark.column + 1}" if mark else ""  # line 1 is '---'


def _sections(body: str, source: str) -> list[tuple[str, str]]:
    parts = _HEADING.split(body)
    if parts[0].strip():
        raise PromptError(f"{source}: text before the first heading")
    sections = [(name.lower(), text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)]
    names = [name for name, _ in sections if not name.startswith("example:")]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise PromptError(f"{source}: the section '# {twice.capitalize()}' appears twice")
    return sections


def _check_variables(declared: list[str], sections: Mapping[str, str], source: str) -> None:
    _check_system(sections.get("system", ""), source)
    used = _used(sections.values())
    for name in sorted(used.symmetric_difference(declared)):
        fault = "is used but not declared" if name in used else "is declared but not used"
        raise PromptError(f"{source}: the variable {name!r} {fault}")


def _check_system(text: str, source: str) -> None:
    if "{{" in text:
        raise PromptError(f"{source}: '# System' must not use variables, so that it can be cached")


def _used(texts: Iterable[str]) -> set[str]:
    return {name for text in texts for name in _VARIABLE.findall(text)}


def _examples(sections: list[tuple[str, str]], source: str) -> tuple[tuple[str, str], ...]:
    shots = [(name, text) for name, text in sections if name.startswith("example:")]
    users, answers = shots[::2], shots[1::2]
    paired = len(users) == len(answers)
    if not paired or any(u != _EXAMPLE_USER or a != _EXAMPLE_ASSISTANT for (u, _), (a, _) in zip(users, answers)):  # noqa: B905
        raise PromptError(f"{source}: examples must come in pairs '# Example: user', '# Example: assistant'")
    return tuple((user, answer) for (_, user), (_, answer) in zip(users, answers, strict=True))


_SPACES = re.compile(r"\s+")
_SWAP = {"<": "‹", ">": "›", "[": "(", "]": ")", "`": "'"}


def neutralise(text: str) -> str:
    """Return the text as one line without anything that looks like markup, a control token or a label.

    Angle and square brackets (`<|im_end|>`, `</s>`, `[INST]`, `[3]`) and what looks like them get other forms, control
    characters and line separators become spaces, invisible characters are removed, and unpaired surrogates become
    U+FFFD.
    """
    cleaned = "".join(map(_clean_character, text))
    return _SPACES.sub(" ", cleaned).strip()


@lru_cache(maxsize=4096)
def _clean_character(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Cs":
        return "\N{REPLACEMENT CHARACTER}"
    if category == "Cf" or not without_invisible(character):
        return ""
    if harmless := _SWAP.get(plain_character(character)):
        return harmless
    return " " if category in ("Cc", "Zl", "Zp") else character


def quote(text: str) -> str:
    """Return the neutralised text as a JSON string, so that it cannot end early."""
    return json.dumps(neutralise(text), ensure_ascii=False)


def clip_middle(text: str, limit: int) -> str:
    """Shorten a text to `limit` characters, cutting the middle: tasks usually start or end with what they ask."""
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{head(text, half)} … {tail(text, limit - 3 - half)}"


def estimate_messages(messages: tuple[Message, ...]) -> int:
    """Estimate the tokens of a conversation, with 8 of overhead per message."""
    return sum(estimate_tokens(str(message.get("content") or "")) + 8 for message in messages)
