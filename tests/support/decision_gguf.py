"""Makes a decision model out of a chat model's GGUF file, for tests of the way to it: its answers mean nothing.

llama.cpp's server answers /v1/systemone for a model whose metadata say `<architecture>.decision.type` and that has a
chat template called "systemone"; the type "openjev" reads the answer off the logits of the options' letters. Only
metadata are added. The format is described in ggml's docs/gguf.md: a header, key-value pairs, tensor descriptions, and
data that begin at a multiple of the alignment (32 where the metadata do not say).
"""

import struct
from pathlib import Path
from typing import BinaryIO

ALIGNMENT = 32
TEMPLATE = """<|im_start|>system
You decide whether a note is relevant to a task. Answer with one letter.<|im_end|>
<|im_start|>user
{{ state if state is string else state|tojson }}

{{ instructions if instructions is string else instructions|tojson }}
{% for o in options %}{{ 'ABCDEFGHIJKLMNOPQRSTUVWXYZ'[loop.index0] }}) {{ o.key }}\
{% if o.description %}: {{ o.description }}{% endif %}
{% endfor %}<|im_end|>
<|im_start|>assistant
Answer: """

STRING, ARRAY = 8, 9
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value by its type's number; strings and arrays have none that is fixed."""


def make_decision_model(source: Path, target: Path) -> None:
    """Copy `source` to `target` with the metadata of a decision model."""
    with source.open("rb") as file:
        magic, version, tensors, pairs = struct.unpack("<4sIQQ", file.read(24))
        assert (magic, version) == (b"GGUF", 3)
        begin = file.tell()
        architecture = _skip_pairs(file, pairs)
        end_of_pairs = file.tell()
        for _ in range(tensors):
            _skip_tensor(file)
        end_of_head = file.tell()
        file.seek(begin)
        metadata, descriptions = file.read(end_of_pairs - begin), file.read(end_of_head - end_of_pairs)
        added = _text_pair(f"{architecture}.decision.type", "openjev")
        added += _texts_pair("tokenizer.chat_templates", ["systemone"])
        added += _text_pair("tokenizer.chat_template.systemone", TEMPLATE)
        head = struct.pack("<4sIQQ", magic, version, tensors, pairs + 3) + metadata + added + descriptions
        file.seek(_aligned(end_of_head))
        with target.open("wb") as out:
            out.write(head.ljust(_aligned(len(head)), b"\0"))
            while block := file.read(1 << 22):
                out.write(block)


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _skip_pairs(file: BinaryIO, pairs: int) -> str:
    """Go past the key-value pairs; the architecture that they name."""
    architecture = ""
    for _ in range(pairs):
        key = _text(file)
        kind = _number(file, "<I")
        if key == "general.architecture":
            architecture = _text(file)
        else:
            _skip_value(file, kind)
    assert architecture
    return architecture


def _skip_value(file: BinaryIO, kind: int) -> None:
    if kind == STRING:
        _text(file)
    elif kind == ARRAY:
        inner, length = _number(file, "<I"), _number(file, "<Q")
        for _ in range(length):
            _skip_value(file, inner)
    else:
        file.seek(SIZES[kind], 1)


def _skip_tensor(file: BinaryIO) -> None:
    _text(file)
    file.seek(8 * _number(file, "<I") + 4 + 8, 1)


def _number(file: BinaryIO, form: str) -> int:
    (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return int(value)


def _text(file: BinaryIO) -> str:
    return file.read(_number(file, "<Q")).decode("utf-8", "replace")


def _packed(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _text_pair(key: str, value: str) -> bytes:
    return _packed(key) + struct.pack("<I", STRING) + _packed(value)


def _texts_pair(key: str, values: list[str]) -> bytes:
    return _packed(key) + struct.pack("<IIQ", ARRAY, STRING, len(values)) + b"".join(map(_packed, values))
