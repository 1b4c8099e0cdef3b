"""UPSAMPLE_2D against repetition and the bilinear formula."""

from __future__ import annotations

import numpy as np
import pytest
from execution import assert_identical, inputs, outputs, random_array, run_single, seeds, sizes
from hypothesis import given
from hypothesis import strategies as st
from properties import examples
from reference import bilinear

from opendml import operators
from opendml.description.enums import InterpolationMode
from opendml.description.structs import Size2D
from opendml.description.tensor import TensorDesc

bounded = examples(40)
types = st.sampled_from(["FLOAT32", "FLOAT16"])


@bounded
@given(
    data=st.data(),
    shape=sizes(4, 5, limit=24),
    scale=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    mode=st.sampled_from(InterpolationMode),
    data_type=types,
    seed=seeds,
)
def test_upsample(
    data: st.DataObject,
    shape: list[int],
    scale: tuple[int, int],
    mode: InterpolationMode,
    data_type: str,
    seed: int,
) -> None:
    height, width = scale
    source = data.draw(inputs(data_type, shape))
    target = data.draw(outputs(data_type, [*shape[:-2], shape[-2] * height, shape[-1] * width]))
    desc = operators.Upsample2D(
        input_tensor=source,
        output_tensor=target,
        scale_size=Size2D(width=width, height=height),
        interpolation_mode=mode,
    )
    nearest = mode == InterpolationMode.NEAREST_NEIGHBOR
    x = random_array(source, seed, special=nearest)
    result = run_single(desc, x)
    if nearest:
        assert_identical(result, x.repeat(height, -2).repeat(width, -1))
    else:
        magnitude = np.abs(x).max()
        expected = bilinear(x, height, width)
        bound = 2.0**-11 * np.abs(expected) if data_type == "FLOAT16" else 0.0
        assert np.all(np.abs(result - expected) <= 1.001 * bound + 6 * 2.0**-24 * magnitude)


@pytest.mark.parametrize("scale", [1, 3])
def test_pixel_centres_keep_their_exact_value(scale: int) -> None:
    """Where an output lies on an input, nothing else mixes in, not even an infinity beside it."""
    source = TensorDesc("FLOAT32", [1, 1, 2, 3])
    desc = operators.Upsample2D(
        input_tensor=source,
        output_tensor=TensorDesc("FLOAT32", [1, 1, 2 * scale, 3 * scale]),
        scale_size=(scale, scale),
        interpolation_mode=InterpolationMode.LINEAR,
    )
    x = np.array([[[[1.1, np.inf, 0.3], [-7, 1e-30, -0.0]]]], np.float32)
    middle = scale // 2
    assert_identical(run_single(desc, x)[..., middle::scale, middle::scale].copy(), x)


def test_bilinear_by_two() -> None:
    desc = operators.Upsample2D(
        input_tensor=TensorDesc("FLOAT32", [1, 1, 2, 2]),
        output_tensor=TensorDesc("FLOAT32", [1, 1, 4, 4]),
        scale_size=(2, 2),
        interpolation_mode=InterpolationMode.LINEAR,
    )
    result = run_single(desc, np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 2, 2))
    assert result[0, 0].tolist() == [
        [1.0, 1.25, 1.75, 2.0],
        [1.5, 1.75, 2.25, 2.5],
        [2.5, 2.75, 3.25, 3.5],
        [3.0, 3.25, 3.75, 4.0],
    ]


@pytest.mark.parametrize("data_type", ["FLOAT32", "FLOAT16"])
def test_bilinear_agrees_with_pytorch(data_type: str) -> None:
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(7)
    x = generator.normal(size=(2, 3, 4, 5)).astype(np.float16 if data_type == "FLOAT16" else np.float32)
    desc = operators.Upsample2D(
        input_tensor=TensorDesc(data_type, [2, 3, 4, 5]),
        output_tensor=TensorDesc(data_type, [2, 3, 8, 15]),
        scale_size=(3, 2),
        interpolation_mode=InterpolationMode.LINEAR,
    )
    tensor = torch.from_numpy(x.astype(np.float32))
    expected = torch.nn.functional.interpolate(tensor, scale_factor=(2, 3), mode="bilinear", align_corners=False)
    tolerance = 2e-3 if data_type == "FLOAT16" else 1e-6
    np.testing.assert_allclose(run_single(desc, x).astype(np.float32), expected.numpy(), rtol=0, atol=tolerance)
