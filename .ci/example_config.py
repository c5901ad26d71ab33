"""Write meeseeks.toml with every setting, its description and its default, commented out."""

import json
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path

from pydantic import BaseModel

from worker.settings.injection import InjectionConfig
from worker.settings.service import ENV_PREFIX, ServiceSettings

HEAD = f"""\
# Settings of Meeseeks. Lines such as "# name = value" show defaults; remove the "# " to change a value.
# Use --config or {ENV_PREFIX}CONFIG for another file. Environment variables override [service]:
# {ENV_PREFIX}REDIS_URL for redis_url, and so on. Use the variables for API keys; do not write keys to this file.
"""
MODELS = """\
# Address and capabilities of a model, one table for each; see docs/settings.md for all keys.
# [[service.models]]
#   name = "openai/qwen3-4b"
#   api_base = "http://127.0.0.1:8080/v1"
#   output = "pattern"
"""
AGENTS = """\
# Every setting of [memory_injection] can be set for a single agent.
# [[agents]]
# id = "researcher"
# max_items = 8
"""


def example() -> str:
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
