"""OpenVINO on the CPU: models of quantized layers, which it compiles to integer operators, and of matrix products."""

from __future__ import annotations

import importlib.metadata
import io

import openvino

from benchmarks.cases import Work
from benchmarks.matrix_layers import MatrixProduct
from benchmarks.networks import OPENVINO
from benchmarks.peers import Array, Buffers, Prepared, Unsupported
from benchmarks.quantized_layers import QuantizedLayer


class OpenVino:
    """A compiled model for each case, run with bound inputs and outputs."""

    name = OPENVINO

    def __init__(self, threads: int) -> None:
        self.version = importlib.metadata.version("openvino")
        self._core = openvino.Core()
        self._settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"}

    def prepare(self, operator: Work, buffers: Buffers) -> list[Prepared]:
        """One request, as whose input and output the arrays of the case are given."""
        if not isinstance(operator, QuantizedLayer | MatrixProduct):
            raise Unsupported(type(operator).__name__)
        model = self._core.read_model(io.BytesIO(operator.onnx_model()))
        # Whatever is no integer stays float32, also where the processor has narrower types.
        compiled = self._core.compile_model(model, "CPU", self._settings | {"INFERENCE_PRECISION_HINT": "f32"})
        request = compiled.create_infer_request()
        for number, x in enumerate(buffers.inputs):
            request.set_input_tensor(number, openvino.Tensor(x, shared_memory=True))

        def results() -> list[Array]:
            return [request.get_output_tensor().data]

        return [Prepared(request.infer, results)]


def peer(threads: int) -> OpenVino:
    """The contestant."""
    return OpenVino(threads)
