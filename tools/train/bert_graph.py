"""Builds the graphs of the encoders that run on onnxruntime, without weights: 12 to 28 kB each in the wheel.

    python -m tools.train.bert_graph --out python/toolroll/embedders/data    (needs onnx)

The weights are declared as external initialisers, by name and shape; the embedder hands them to onnxruntime
in memory. Against the usual export these graphs have fewer, fused nodes (mostly the CPU provider's own
operators), the token-type row folded into the positions, and pooling with normalisation at their end:
`embedding` float32[batch, 384], unit length. Batched rows are padded on the right and masked. 8-bit matrix
products have one scale per output column, and activations quantised on the fly.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx  # type: ignore[import-not-found, unused-ignore]
from onnx import TensorProto, helper, numpy_helper  # type: ignore[import-not-found, unused-ignore]

POSITIONS, WIDTH, INNER, HEADS = 512, 384, 1_536, 12
EPSILON = 1e-12  # of every layer normalisation, from the model's configuration
FUSED = "com.microsoft"  # onnxruntime's own operators

I8, F32 = TensorProto.INT8, TensorProto.FLOAT


@dataclass(frozen=True, slots=True)
class Form:
    """One graph.

    Attributes:
        name: of the model.
        layers: how many.
        precision: of the matrix products.
        vocabulary: rows of the token table. 0: the table stays outside, and the graph takes the rows of a
            text (`rows` float32[batch, length, 384]) in place of their numbers (`input_ids`).
    """

    name: str
    layers: int
    precision: Literal["int8", "float32"]
    vocabulary: int = 0


FORMS = {
    "minilm.onnx": Form("all-MiniLM-L6-v2", 6, "int8", 30_522),
    "minilm_f32.onnx": Form("all-MiniLM-L6-v2", 6, "float32", 30_522),
    "multilingual_e5.onnx": Form("multilingual-e5-small", 12, "int8"),
}


def weights(form: Form) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Yields name, type and shape of each external initialiser: what the embedder must supply.

    `*.q` are int8 matrices [in, out] (the table: [row, column]) and `*.s` their float32 scales; `*.w` are
    float32 matrices.
    """
    if form.vocabulary and form.precision == "int8":
        yield from (("token.q", I8, (form.vocabulary, WIDTH)), ("token.s", F32, (form.vocabulary,)))
    elif form.vocabulary:
        yield "token", F32, (form.vocabulary, WIDTH)
    yield "position", F32, (POSITIONS, WIDTH)
    yield from (("norm.w", F32, (WIDTH,)), ("norm.b", F32, (WIDTH,)))
    for layer in range(form.layers):
        for name, rows, columns in (
            ("qkv", WIDTH, 3 * WIDTH), ("out", WIDTH, WIDTH), ("up", WIDTH, INNER), ("down", INNER, WIDTH),
        ):  # fmt: skip
            if form.precision == "int8":
                yield f"{layer}.{name}.q", I8, (rows, columns)
                yield f"{layer}.{name}.s", F32, (columns,)
            else:
                yield f"{layer}.{name}.w", F32, (rows, columns)
            yield f"{layer}.{name}.b", F32, (columns,)
        for name in ("norm1", "norm2"):
            yield from ((f"{layer}.{name}.w", F32, (WIDTH,)), (f"{layer}.{name}.b", F32, (WIDTH,)))


def external(name: str, kind: int, shape: tuple[int, ...]) -> TensorProto:
    """An initialiser whose bytes come from outside."""
    tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
    length = int(np.prod(shape)) * (1 if kind == I8 else 4)
    for key, value in (("location", "given-in-memory"), ("offset", "0"), ("length", str(length))):
        tensor.external_data.add(key=key, value=value)
    return tensor


class _Graph:
    """Nodes in order, each named after its (first) output."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}

    def const(self, name: str, value: Any) -> str:
        self.constants[name] = numpy_helper.from_array(np.asarray(value), name)
        return name

    def node(self, op: str, inputs: list[str], name: str, *, domain: str = "", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, domain=domain, **attributes))
        return name

    def product(self, x: str, matrix: str, bias: bool = True) -> str:
        if self.form.precision == "float32":
            if not bias:
                return self.node("MatMul", [x, f"{matrix}.w"], matrix)
            bare = self.node("MatMul", [x, f"{matrix}.w"], f"{matrix}.bare")
            return self.node("Add", [bare, f"{matrix}.b"], matrix)
        inputs = [x, f"{matrix}.q", f"{matrix}.s", "", *([f"{matrix}.b"] if bias else [])]
        return self.node("DynamicQuantizeMatMul", inputs, matrix, domain=FUSED)

    def add_norm(self, x: str, residual: str, norm: str) -> str:
        inputs = [x, residual, f"{norm}.w", f"{norm}.b"]
        return self.node("SkipLayerNormalization", inputs, norm, domain=FUSED, epsilon=EPSILON)


def build(form: Form) -> Any:
    """The ModelProto: `input_ids` or `rows`, and `attention_mask` int64[batch, length] -> `embedding`."""
    g = _Graph(form)
    zero, one, two, last = (
        g.const(n, np.array([v], np.int64)) for n, v in (("zero", 0), ("one", 1), ("two", 2), ("last", -1))
    )

    if not form.vocabulary:
        tokens = "rows"
    elif form.precision == "float32":
        tokens = g.node("Gather", ["token", "input_ids"], "tokens")
    else:
        rows = g.node("Cast", [g.node("Gather", ["token.q", "input_ids"], "rows")], "rows.f", to=F32)
        scales = g.node("Unsqueeze", [g.node("Gather", ["token.s", "input_ids"], "scales"), two], "scales.3d")
        tokens = g.node("Mul", [rows, scales], "tokens")
    shape = g.node("Shape", ["attention_mask" if not form.vocabulary else "input_ids"], "shape")
    length = g.node("Slice", [shape, one, two], "length")
    positions = g.node("Slice", ["position", zero, length, zero], "positions")
    full = g.node("Concat", [shape, g.const("width", np.array([WIDTH], np.int64))], "full", axis=0)
    x = g.add_norm(tokens, g.node("Expand", [positions, full], "positions.3d"), "norm")

    mask = g.node("Cast", ["attention_mask"], "mask.i", to=TensorProto.INT32)
    for layer in range(form.layers):
        qkv = g.product(x, f"{layer}.qkv")
        parts = [f"{layer}.{p}" for p in "qkv"]
        g.nodes.append(helper.make_node("Split", [qkv], parts, name=f"{layer}.split", axis=-1, num_outputs=3))
        heads = g.node(
            "MultiHeadAttention", [*parts, "", mask], f"{layer}.heads", domain=FUSED, num_heads=HEADS
        )
        x = g.add_norm(g.product(heads, f"{layer}.out"), x, f"{layer}.norm1")
        wide = g.product(x, f"{layer}.up", bias=False)
        wide = g.node("BiasGelu", [wide, f"{layer}.up.b"], f"{layer}.gelu", domain=FUSED)
        x = g.add_norm(g.product(wide, f"{layer}.down"), x, f"{layer}.norm2")

    counted = g.node("Unsqueeze", [g.node("Cast", ["attention_mask"], "mask.f", to=F32), one], "mask.row")
    total = g.node("Squeeze", [g.node("MatMul", [counted, x], "total.3d"), one], "total")
    norm = g.node("ReduceL2", [total, last], "norm.total", keepdims=1)
    tiny = g.const("tiny", np.float32(1e-12))
    g.node("Div", [total, g.node("Clip", [norm, tiny], "norm.safe")], "embedding")

    numbers = ("input_ids", "attention_mask") if form.vocabulary else ("attention_mask",)
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["batch", "length"]) for n in numbers]
    if not form.vocabulary:
        inputs.append(helper.make_tensor_value_info("rows", F32, ["batch", "length", WIDTH]))
    result = helper.make_tensor_value_info("embedding", F32, ["batch", WIDTH])
    initialisers = [external(*w) for w in weights(form)] + list(g.constants.values())
    graph = helper.make_graph(g.nodes, form.name, inputs, [result], initialisers)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid(FUSED, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="toolroll")


def main() -> None:
    """Writes the graphs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder")
    args = parser.parse_args()
    for name, form in FORMS.items():
        model, path = build(form), args.out / name
        path.write_bytes(model.SerializeToString(deterministic=True))
        print(
            f"{len(model.graph.node)} nodes, {path.stat().st_size} bytes in {path}; onnx {onnx.__version__}"
        )


if __name__ == "__main__":
    main()
