"""Prompt files: Markdown with YAML front matter, checked when they are loaded; and how data is put into them.

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
    # User                 (a template; `{{name}}` stands for a variable)
    # <Anything else>      (further texts that the code asks for by name)

A file with `extends: triage` in its front matter takes from that prompt what it does not say itself: sections,
examples, parameters and variables. What it extends lies in the same folder, else it is the shipped one; a file that
extends its own id means the shipped one.
"""

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worker import PACKAGE_ROOT
from worker.domain.errors import PromptError
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
    """One checked prompt. `sections` holds the further texts by lower-case heading."""

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
        """Id and version, as receipts show it: `triage@1`."""
        return f"{self.id}@{self.version}"

    def prefix(self) -> tuple[Message, ...]:
        """Rules and examples: the same for every request, so that providers and servers can cache them."""
        shots = [message for user, answer in self.examples for message in (_user(user), _assistant(answer))]
        return ({"role": "system", "content": self.system}, *shots)

    def fill(self, template: str, values: Mapping[str, str]) -> str:
        """The template with its variables replaced in one pass: a value is never expanded again."""
        return _VARIABLE.sub(lambda match: values[match.group(1)], template)

    def section(self, name: str) -> str:
        """A further text of the file. Raises `PromptError` if the file has none by that heading."""
        if name not in self.sections:
            raise PromptError(f"prompt {self.name}: the section '# {name.capitalize()}' is missing")
        return self.sections[name]


def _user(text: str) -> Message:
    return {"role": "user", "content": text}


def _assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def default_prompts_dir() -> Path:
    """The prompts inside the installed package, else those of the checkout."""
    packaged = PACKAGE_ROOT / "_prompts"
    return packaged if packaged.is_dir() else PACKAGE_ROOT.parent / "prompts"


def load_prompts(directory: Path) -> dict[str, Prompt]:
    """Every prompt of a folder (`*.md` directly in it, save README.md) by its id. Raises `PromptError`."""
    if not directory.is_dir():
        raise PromptError(f"there is no folder of prompts at {directory}")
    prompts: dict[str, Prompt] = {}
    for path in sorted(directory.glob("*.md")):
        if path.name.lower() == "readme.md":
            continue
        prompt = load_prompt(path)
        if prompt.id in prompts:
            raise PromptError(f"{path}: the id {prompt.id!r} is taken by another file")
        prompts[prompt.id] = prompt
    return prompts


def load_prompt(path: Path) -> Prompt:
    """One prompt file, checked. Raises `PromptError` naming the file and the fault."""
    return parse_prompt(_read(path), str(path), path.parent)


def whole_prompt(path: Path, *folders: Path) -> tuple[Prompt, str]:
    """The prompt of a file that may be in no folder of prompts yet, and its text with what it takes from another one
    written out.

    What it extends is looked for beside it by the id as the file's name, where other drafts may lie as well, then by
    the id alone in `folders`, among the shipped ones, and beside it. Raises `PromptError` naming the file and the
    fault.
    """
    text = _read(path)
    front, _ = _parts(text, str(path))
    if front.extends is None:
        return parse_prompt(text, str(path)), text
    named = [path.parent] if (path.parent / f"{front.extends}.md").is_file() else []
    prompt = parse_prompt(text, str(path), *named, *folders, default_prompts_dir(), path.parent)
    return prompt, _written(prompt, front.description)


def _written(prompt: Prompt, description: str) -> str:
    """A text that says everything of a prompt itself."""
    texts = {"system": prompt.system, "user": prompt.user, **prompt.sections}
    front = {
        "id": prompt.id,
        "version": prompt.version,
        "description": description,
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
        raise PromptError(f"{path}: cannot be read: {error}") from error


def parse_prompt(text: str, source: str, *folders: Path) -> Prompt:
    """The prompt that a file's text describes; a prompt that it extends is looked for in `folders` first.

    Raises `PromptError` that begins with `source`.
    """
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
        raise PromptError(f"{source}: must begin with front matter between two lines '---'")
    return _front_matter(match.group(1), source), _sections(match.group(2), source)


def _required(named: dict[str, str], name: str, source: str) -> str:
    found = named.pop(name, "")
    if not found:
        raise PromptError(f"{source}: needs the sections '# System' and '# User'")
    return found


def _base(wanted: str, source: str, folders: Iterable[Path]) -> Prompt:
    """The prompt by that id, which extends nothing itself."""
    for place in (*folders, default_prompts_dir()):
        for path in sorted(place.glob("*.md"), key=lambda path: (path.stem != wanted, path.name)):
            text = _read(path)
            if path.name.lower() == "readme.md" or str(path) == source:
                continue
            front, _ = _parts(text, str(path))
            if front.id == wanted and front.extends is None:
                return parse_prompt(text, str(path))
    raise PromptError(f"{source}: extends {wanted!r}, and there is no prompt by that id that extends nothing itself")


def _extended(
    base: Prompt, front: _FrontMatter, named: dict[str, str], examples: tuple[tuple[str, str], ...], source: str
) -> Prompt:
    """The base with what a file says itself in the place of what the base says."""
    empty = next((name for name, text in named.items() if not text), None)
    if empty is not None:
        raise PromptError(
            f"{source}: the section '# {empty.capitalize()}' is empty; leave it out to keep the other one"
        )
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
"""What PyYAML raises besides its own errors: for dates that there are not, unfit tags, brackets in their thousands."""


def _front_matter(text: str, source: str) -> _FrontMatter:
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, *_YAML_SLIPS) as error:
        raise PromptError(f"{source}: the front matter is not YAML: {error}") from error
    try:
        return _FrontMatter.model_validate(read)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(str(part) for part in fault["loc"]) or "front matter"
        raise PromptError(f"{source}: {key}: {fault['msg']}") from error


def _sections(body: str, source: str) -> list[tuple[str, str]]:
    parts = _HEADING.split(body)
    if parts[0].strip():
        raise PromptError(f"{source}: text before the first heading")
    sections = [(name.lower(), text.strip()) for name, text in zip(parts[1::2], parts[2::2], strict=True)]
    names = [name for name, _ in sections if not name.startswith("example:")]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise PromptError(f"{source}: the section '# {twice.capitalize()}' is there twice")
    return sections


def _check_variables(declared: list[str], sections: Mapping[str, str], source: str) -> None:
    _check_system(sections.get("system", ""), source)
    used = _used(sections.values())
    for name in sorted(used.symmetric_difference(declared)):
        fault = "is used but not declared" if name in used else "is declared but not used"
        raise PromptError(f"{source}: the variable {name!r} {fault}")


def _check_system(text: str, source: str) -> None:
    if "{{" in text:
        raise PromptError(f"{source}: '# System' must not hold variables, it is the cacheable part")


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
_SWAP = str.maketrans({"<": "‹", ">": "›", "[": "(", "]": ")", "`": "'"})


def neutralise(text: str) -> str:
    """The text as one line in which nothing can pass for markup, a control token or one of our labels.

    Angle and square brackets are swapped for look-alikes (`<|im_end|>`, `</s>`, `[INST]`, `[3]`), control characters
    and line separators become spaces, invisible format characters go, unpaired surrogates become U+FFFD.
    """
    cleaned = "".join(_clean_character(character) for character in text.translate(_SWAP))
    return _SPACES.sub(" ", cleaned).strip()


def _clean_character(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    if category == "Cs":
        return "\N{REPLACEMENT CHARACTER}"
    return " " if category in ("Cc", "Zl", "Zp") else character


def quote(text: str) -> str:
    """The neutralised text as a JSON string, so that it ends where we say it ends."""
    return json.dumps(neutralise(text), ensure_ascii=False)


def clip_middle(text: str, limit: int) -> str:
    """At most `limit` characters, the middle left out: tasks say what they want at the start or at the end."""
    if len(text) <= limit:
        return text
    head = (limit - 3) // 2
    return f"{text[:head]} … {text[len(text) - (limit - 3 - head) :]}"


def estimate_messages(messages: tuple[Message, ...]) -> int:
    """About how many tokens a conversation has, with 8 for the frame of each message."""
    return sum(estimate_tokens(str(message.get("content") or "")) + 8 for message in messages)
