"""Every example of the documentation, operator by operator."""

from __future__ import annotations

import numpy as np
import pytest
from execution import run_operator
from specification import IMPLEMENTED, examples, needs_specification

from opendml.description.enums import OperatorType
from opendml.description.tensor import TensorDesc


def _array(desc: TensorDesc, data: list[float]) -> np.ndarray:
    return np.array(data).astype(desc.data_type.dtype).reshape(desc.sizes)


@needs_specification
@pytest.mark.parametrize("operator_type", IMPLEMENTED, ids=lambda operator_type: operator_type.name)
def test_examples_of_the_documentation(operator_type: OperatorType) -> None:
    for example in examples(operator_type):
        arrays = [
            None if tensor is None else _array(tensor, example.inputs[name]) for name, tensor in example.desc.inputs()
        ]
        results = run_operator(example.desc, arrays)
        for (name, tensor), result in zip(example.desc.outputs(), results, strict=True):
            if tensor is not None:
                expected = _array(tensor, example.outputs[name])
                np.testing.assert_allclose(
                    result.astype(np.float64),
                    expected.astype(np.float64),
                    rtol=1e-4 if tensor.data_type.is_float else 0,
                    err_msg=f"{example.title}: {name}",
                )
