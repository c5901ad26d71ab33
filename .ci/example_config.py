"""Writes meeseeks.toml: every setting with its default and its description, commented out."""

import json
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from pydantic import BaseModel

from worker.settings.injection import InjectionConfig
from worker.settings.service import ENV_PREFIX, ServiceSettings

HEAD = f"""\
# Settings of Meeseeks. Every line that begins with "#" and a name shows a default; take the "# " away to change it.
# Another place for the file: --config or {ENV_PREFIX}CONFIG. Service settings can be given as variables as well,
# which win: {ENV_PREFIX}REDIS_URL for redis_url, and so on. Keep keys out of this file: use the variables.
"""
MODELS = """\
# What a model can do and where it is: one table for each, every key of it in docs/settings.md.
# [[service.models]]
#   name = "openai/qwen3-4b"
#   api_base = "http://127.0.0.1:8080/v1"
#   output = "pattern"
"""
AGENTS = """\
# Every setting of [memory_injection] can be given for one agent alone.
# [[agents]]
# id = "researcher"
# max_items = 8
"""


def example() -> str:
    """The text of the file."""
    service = "\n".join(_lines(ServiceSettings))
    injection = "\n".join(_lines(InjectionConfig))
    return f"{HEAD}\n[service]\n{service}\n\n[memory_injection]\n{injection}\n\n{AGENTS}\n{MODELS}"


def _lines(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield f"# {field.description}"
        yield f"# {name} = {_toml(field.default)}" if field.default is not None else f"# {name} = ...  (unset)"


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return json.dumps(list(value))
    if isinstance(value, Enum | Path):
        return json.dumps(value.value if isinstance(value, Enum) else str(value))
    return json.dumps(value)


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "meeseeks.toml").write_text(example(), encoding="utf-8")
