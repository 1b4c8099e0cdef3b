"""Products of float32 matrices as operators and layers have them: either side transposed, in batches, of weights that
are known before they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

import opendml as dml
from benchmarks.chains import Chain, Tensor
from opendml.description.tensor import TensorDesc

Array = Any

OPSET = 17
IR_VERSION = 8

LETTERS = {"N": "NONE", "T": "TRANSPOSE"}


@dataclass(frozen=True)
class MatrixProduct(Chain):
    """``inner`` products for each of {``batch``, ``rows``, ``columns``}: ``sizes``, of the result.

    ``order`` has the letters of BLAS, N or T for each side: a side that is T lies in memory with its columns one behind
    the other. The right side is no input but fixed weights if ``is_fixed``.
    """

    inner: int
    order: str = "NN"
    is_fixed: bool = False

    @property
    def left_sizes(self) -> tuple[int, ...]:
        """As it lies in memory."""
        *batch, rows, _ = self.sizes
        return (*batch, *_turned((rows, self.inner), self.order[0]))

    @property
    def right_sizes(self) -> tuple[int, ...]:
        """As ``left_sizes``."""
        *batch, _, columns = self.sizes
        return (*batch, *_turned((self.inner, columns), self.order[1]))

    @property
    def operations(self) -> int:
        """Multiplications and additions."""
        return 2 * int(np.prod(self.sizes)) * self.inner

    def inputs(self) -> Sequence[tuple[str, TensorDesc]]:
        given = [("left", TensorDesc("FLOAT32", self.left_sizes))]
        return given if self.is_fixed else [*given, ("right", TensorDesc("FLOAT32", self.right_sizes))]

    @cached_property
    def weights(self) -> Array:
        """Random ones, where they are fixed."""
        return np.random.default_rng(1).random(self.right_sizes, np.float32)

    def both(self, *inputs: Array) -> Sequence[Array]:
        """The left side and the right one, an input or not."""
        return (*inputs, self.weights) if self.is_fixed else inputs

    def build(self, *inputs: Tensor) -> Tensor:
        left, right = self.both(*inputs)
        first, second = (LETTERS[letter] for letter in self.order)
        return dml.gemm(left, right, trans_a=first, trans_b=second)

    def sides(self, *inputs: Array) -> tuple[Array, Array]:
        """Both matrices as NumPy's or PyTorch's product wants them, views of what lies in memory."""
        left, right = inputs
        return _view(left, self.order[0]), _view(right, self.order[1])

    def onnx_model(self) -> bytes:
        """From ``x0`` and ``x1``, or ``x0`` alone, to ``y0``: Gemm has transpositions, MatMul has batches."""
        from onnx import TensorProto, checker, helper, numpy_helper

        names = ["x0", "weights" if self.is_fixed else "x1"]
        nodes = []
        if len(self.sizes) == 2 and self.order != "NN":
            transposed = {key: int(letter == "T") for key, letter in zip(("transA", "transB"), self.order, strict=True)}
            nodes.append(helper.make_node("Gemm", names, ["y0"], **transposed))
        else:
            for number, letter in enumerate(self.order):
                if letter == "T":
                    order = [*range(len(self.sizes) - 2), len(self.sizes) - 1, len(self.sizes) - 2]
                    nodes.append(helper.make_node("Transpose", [names[number]], [f"t{number}"], perm=order))
                    names[number] = f"t{number}"
            nodes.append(helper.make_node("MatMul", names, ["y0"]))
        kind = TensorProto.FLOAT
        inputs = [
            helper.make_tensor_value_info(f"x{number}", kind, desc.sizes)
            for number, (_, desc) in enumerate(self.inputs())
        ]
        outputs = [helper.make_tensor_value_info("y0", kind, self.sizes)]
        known = [numpy_helper.from_array(self.weights, "weights")] if self.is_fixed else []
        graph = helper.make_graph(nodes, "product", inputs, outputs, known)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString())


def _turned(sizes: tuple[int, int], letter: str) -> tuple[int, int]:
    return sizes if letter == "N" else (sizes[1], sizes[0])


def _view(matrix: Array, letter: str) -> Array:
    return matrix if letter == "N" else matrix.swapaxes(-1, -2)
