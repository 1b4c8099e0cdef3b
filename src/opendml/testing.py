"""Comparing results with what an operator may differ by: ``opendml.testing.assert_close``.

    expected = dml.Device("reference").compile(desc)(x)
    dml.testing.assert_close(results_of_another_back_end, expected, operator=desc)

Operators fall into three kinds. Most are *exact*: what they compute has one right result. *Functions* (``FUNCTIONS``)
are off by no more than their polynomials are; the figures are those of ``docs/semantics.md``. *Sums* (``SUMS``) depend
on the order in which their terms are added, which is fixed here and another one elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from opendml.description.descriptors import Operator
from opendml.description.enums import OperatorType
from opendml.description.errors import BindingError, ConfigurationError, OpendmlError

__all__ = ["FUNCTIONS", "SUMS", "Accuracy", "ToleranceError", "assert_close", "tolerance_in_ulp"]

Array = npt.NDArray[Any]


class ToleranceError(OpendmlError, AssertionError):
    """Two arrays differ by more than an operator may."""


class Accuracy(NamedTuple):
    """How far a function is from the exact result at most, in units in the last place (ULP) of each type; of float16
    the results that are not the nearest number. None: there is no such function."""

    float16: float
    float32: float
    float64: float | None


FUNCTIONS: Final[Mapping[str, Accuracy]] = {
    "exp": Accuracy(0, 0.90, 1.21),
    "expm1": Accuracy(0, 1.44, 1.82),
    "log": Accuracy(0, 0.88, 0.82),
    "log1p": Accuracy(0, 1.47, 1.37),
    "sigmoid": Accuracy(0, 1.74, 1.87),
    "softplus": Accuracy(0, 1.88, 1.74),
    "tanh": Accuracy(0, 1.97, 1.90),
    "sinh": Accuracy(0, 1.62, 1.63),
    "cosh": Accuracy(0, 1.35, 1.60),
    "asinh": Accuracy(0, 1.86, 1.71),
    "acosh": Accuracy(0, 2.06, 1.93),
    "atanh": Accuracy(0, 2.17, 1.93),
    "erf": Accuracy(0, 1.59, 1.39),
    "gelu": Accuracy(0, 1.79, None),
    "sin": Accuracy(0, 1.17, 1.14),
    "cos": Accuracy(0, 1.16, 1.14),
    "tan": Accuracy(0, 1.78, 1.58),
    "asin": Accuracy(0, 1.19, 1.09),
    "acos": Accuracy(0, 1.14, 1.12),
    "atan": Accuracy(0, 1.29, 1.17),
    "atan2": Accuracy(0, 1.46, 1.47),
    "pow": Accuracy(0, 0.53, 1.32),
}
"""The table of ``docs/semantics.md``."""

# The operators that are a function, or a function and operations that round once each; how many of those.
_FUNCTION_OF: Final[Mapping[str, tuple[str, int]]] = {
    **{
        f"ELEMENT_WISE_{name.upper()}": (name, 0)
        for name in (
            "exp",
            "log",
            "tanh",
            "sinh",
            "cosh",
            "asinh",
            "acosh",
            "atanh",
            "erf",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "pow",
        )
    },
    "ELEMENT_WISE_CONSTANT_POW": ("pow", 0),
    "ELEMENT_WISE_ATAN_YX": ("atan2", 0),
    "ACTIVATION_SIGMOID": ("sigmoid", 0),
    "ACTIVATION_TANH": ("tanh", 0),
    "ACTIVATION_GELU": ("gelu", 0),
    "ACTIVATION_SOFTPLUS": ("softplus", 1),
    "ACTIVATION_PARAMETRIC_SOFTPLUS": ("softplus", 1),
    "ACTIVATION_SCALED_TANH": ("tanh", 1),
    "ACTIVATION_ELU": ("expm1", 1),
    "ACTIVATION_CELU": ("expm1", 1),
    "ACTIVATION_SCALED_ELU": ("expm1", 2),
    "ACTIVATION_SWISH": ("sigmoid", 1),
}


def _window(desc: Any) -> int:
    return math.prod(desc.window_size)


def _blocks_of_element(desc: Any) -> int:
    return math.prod(desc.window_sizes)


def _axes(desc: Any) -> int:
    return math.prod(desc.input_tensor.sizes[axis] for axis in desc.axes)


def _along_axis(desc: Any) -> int:
    return int(desc.input_tensor.sizes[desc.axis])


def _behind_batch(desc: Any) -> int:
    return math.prod(desc.input_tensor.sizes[1:])


def _shared(desc: Any) -> int:
    return int(math.prod(desc.input_tensor.sizes) // math.prod(desc.output_tensor.sizes))


def _neighbours(desc: Any) -> int:
    return int(desc.local_size if desc.cross_channel else desc.local_size ** (desc.input_tensor.rank - 2))


def _largest_group(desc: Any) -> int:
    statistics = desc.scale_tensor.sizes
    return int(math.prod(n for n, m in zip(desc.input_tensor.sizes, statistics, strict=True) if m == 1)) + 4


def _inner(desc: Any) -> int:
    return int(desc.a_tensor.sizes[-2 if desc.trans_a.name == "TRANSPOSE" else -1])


def _neighbours_and_reach(desc: Any) -> int:
    return math.prod(2 * math.ceil(max(1.0, 1 / scale)) if scale > 0 else 2 for scale in desc.scales)


def _outputs_of_element(desc: Any) -> int:
    return math.prod(2 * math.ceil(max(1.0, min(abs(scale), 2.0**32))) for scale in desc.scales)


def _keys_and_head(desc: Any) -> int:
    found = (desc.query_tensor, desc.stacked_query_key_tensor, desc.stacked_query_key_value_tensor)
    size = next(tensor.sizes[-1] for tensor in found if tensor is not None)
    rows = (desc.past_key_tensor, desc.key_tensor, desc.value_tensor)
    stacks = (desc.stacked_key_value_tensor, desc.stacked_query_key_value_tensor)
    keys = [tensor.sizes[-2] for tensor in rows if tensor is not None]
    keys += [tensor.sizes[-4] for tensor in stacks if tensor is not None]
    return int(size + sum(keys))


def _samples(desc: Any) -> int:
    most = (2 * size for size in desc.input_tensor.sizes[2:])
    least = max(desc.minimum_samples_per_output, 1)
    return math.prod(4 * max(min(desc.maximum_samples_per_output, size), least) for size in most)


def _shares(desc: Any) -> int:
    image = desc.input_tensor or desc.output_gradient_tensor
    most = (min(desc.maximum_samples_per_output, 2 * size) for size in image.sizes[2:])
    samples = math.prod(max(count, desc.minimum_samples_per_output, 1) for count in most)
    return int(4 * samples * math.prod(desc.input_gradient_tensor.sizes))


def _hidden(desc: Any) -> int:
    return int(desc.input_tensor.sizes[1] * (desc.input_tensor.sizes[3] + desc.recurrence_tensor.sizes[3]))


SUMS: Final[Mapping[str, Callable[[Any], int]]] = {
    "ACTIVATION_LINEAR": lambda _: 2,
    "ACTIVATION_HARD_SIGMOID": lambda _: 2,
    "ACTIVATION_HARD_SWISH": lambda _: 2,
    "VALUE_SCALE_2D": lambda _: 2,
    "BATCH_NORMALIZATION": lambda _: 4,
    "BATCH_NORMALIZATION_GRAD": _largest_group,
    "BATCH_NORMALIZATION_TRAINING": _largest_group,
    "BATCH_NORMALIZATION_TRAINING_GRAD": _largest_group,
    "ADAM_OPTIMIZER": lambda _: 8,
    "ACTIVATION_SOFTMAX": lambda desc: int(desc.output_tensor.sizes[-1]),
    "ACTIVATION_SOFTMAX1": _axes,
    "ACTIVATION_LOG_SOFTMAX": lambda desc: int(desc.output_tensor.sizes[-1]),
    "ACTIVATION_LOG_SOFTMAX1": _axes,
    "AVERAGE_POOLING": _window,
    "AVERAGE_POOLING1": _window,
    "AVERAGE_POOLING_GRAD": _window,
    "CONVOLUTION": lambda desc: math.prod(desc.filter_tensor.sizes) // min(desc.filter_tensor.sizes[:2]),
    "CUMULATIVE_PRODUCT": _along_axis,
    "CUMULATIVE_SUMMATION": _along_axis,
    "FOLD": _blocks_of_element,
    "GEMM": _inner,
    "LOCAL_RESPONSE_NORMALIZATION": _neighbours,
    "LOCAL_RESPONSE_NORMALIZATION_GRAD": _neighbours,
    "LP_NORMALIZATION": _along_axis,
    "LP_POOLING": _window,
    "LP_POOLING1": _window,
    "MATRIX_MULTIPLY_INTEGER_TO_FLOAT": lambda _: 2,
    "MAX_POOLING_GRAD": _window,
    "MEAN_VARIANCE_NORMALIZATION": _behind_batch,
    "MEAN_VARIANCE_NORMALIZATION1": _axes,
    "MEAN_VARIANCE_NORMALIZATION2": _axes,
    **dict.fromkeys(("MULTIHEAD_ATTENTION", "MULTIHEAD_ATTENTION1"), _keys_and_head),
    "REDUCE": _shared,
    **dict.fromkeys(("RESAMPLE", "RESAMPLE1", "RESAMPLE2", "RESAMPLE3"), _neighbours_and_reach),
    **dict.fromkeys(("RESAMPLE_GRAD", "RESAMPLE_GRAD1"), _outputs_of_element),
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _hidden),
    **dict.fromkeys(("ROI_ALIGN", "ROI_ALIGN1"), _samples),
    "ROI_ALIGN_GRAD": _shares,
}
"""The operators that add up terms, and the number of terms that a descriptor has."""

_EXACT_REDUCTIONS: Final = {"MAX", "MIN", "ARGMAX", "ARGMIN"}


def tolerance_in_ulp(
    operator: Operator | OperatorType | str, dtype: npt.DTypeLike, *, terms: int | None = None
) -> float:
    """What a result may differ by, in ULP: of each element or, for the operators in ``SUMS``, of the largest one.

    Exact operators, and all integers: 0. Functions: their error and the half ULP by which the nearest number may be on
    the other side, and one more for every further operation. Sums of ``terms`` (known where ``operator`` is a
    descriptor): ``2 + 2 sqrt(terms)``, since roundings add up like the steps of a random walk; this is what is seen in
    practice, not a bound.

    Raises ConfigurationError where the number of terms is not known, UnknownMemberError for no operator.
    """
    kind = np.dtype(dtype)
    name = operator.type.name if isinstance(operator, Operator) else OperatorType.parse(operator).name
    if kind.kind != "f" or _is_exact(name, operator):
        return 0
    if name in _FUNCTION_OF:
        function, operations = _FUNCTION_OF[name]
        error = getattr(FUNCTIONS[function], kind.name)
        if error is None:
            raise ConfigurationError(f"{name} has no {kind.name}")
        return float(math.floor(error + 0.5) + operations)
    if terms is None:
        if not isinstance(operator, Operator):
            raise ConfigurationError(f"{name} adds up terms: give its descriptor as operator, or terms=")
        terms = SUMS[name](operator)
    return 2 + 2 * math.sqrt(terms)


def _is_exact(name: str, operator: object) -> bool:
    function = getattr(operator, "function", None)
    return (name not in SUMS and name not in _FUNCTION_OF) or getattr(function, "name", "") in _EXACT_REDUCTIONS


def assert_close(
    actual: npt.ArrayLike,
    expected: npt.ArrayLike,
    *,
    operator: Operator | OperatorType | str,
    terms: int | None = None,
    ulp: float | None = None,
) -> None:
    """Passes if two results of an operator are as close as they have to be.

    ``actual`` and ``expected``: arrays of one type and shape. ``operator``: a descriptor, an ``OperatorType`` or a
    name; what it allows is ``tolerance_in_ulp``, unless ``ulp`` is given. NaN equals NaN, whatever its bits; infinities
    equal themselves only; -0 equals 0.

    Raises ToleranceError, an AssertionError, that says how many elements differ, the worst one and where; BindingError
    for types that no operator has; and what ``tolerance_in_ulp`` raises.
    """
    result, wanted = np.asarray(actual), np.asarray(expected)
    name = operator.type.name if isinstance(operator, Operator) else OperatorType.parse(operator).name
    for array in (result, wanted):
        if array.dtype.kind not in "fiub":
            raise BindingError(f"{name}: no operator has elements of {array.dtype}")
    if (result.dtype, result.shape) != (wanted.dtype, wanted.shape):
        got, must = (f"{a.dtype} {list(a.shape)}" for a in (result, wanted))
        raise ToleranceError(f"{name}: expected {must}, got {got}")
    allowed = tolerance_in_ulp(operator, wanted.dtype, terms=terms) if ulp is None else ulp
    whole = name in SUMS and wanted.dtype.kind == "f"
    distances = _distances_at_largest(result, wanted) if whole else _distances(result, wanted)
    # Distances are whole numbers or, of a sum, measured: NaN where one of the two is no number.
    wrong = ~(distances <= allowed)
    if wrong.any():
        raise ToleranceError(_message(name, result, wanted, distances, wrong, allowed, whole))


def _message(
    name: str, result: Array, wanted: Array, distances: Array, wrong: Array, allowed: float, whole: bool
) -> str:
    ranked = np.where(np.isnan(distances), np.inf, distances)
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(ranked)), ranked.shape))
    worst = ranked[place]
    unit = "ULP of the largest" if whole else "ULP" if wanted.dtype.kind == "f" else "units"
    by = f"by {worst:.4g} {unit}" if np.isfinite(worst) else "beyond measure"
    return (
        f"{name}, {wanted.dtype}: {int(wrong.sum())} of {wrong.size} elements differ by more than {allowed:.4g} {unit};"
        f" the worst {by}, at {list(place)}: expected {wanted[place]!s}, got {result[place]!s}"
    )


def _distances(result: Array, wanted: Array) -> Array:
    """How many numbers of the type lie between two, plus one; infinite where only one is finite or a number."""
    a, b = (_ordered(array) for array in (result, wanted))
    distances = np.where(a > b, a - b, b - a).astype(np.float64)
    if wanted.dtype.kind == "f":
        distances[_unlike(result, wanted)] = np.inf
        distances[np.isnan(result) & np.isnan(wanted)] = 0
    return distances


def _distances_at_largest(result: Array, wanted: Array) -> Array:
    """Differences in units in the last place of the largest finite number that is expected."""
    finite = np.abs(wanted[np.isfinite(wanted)])
    largest = finite.max() if finite.size else wanted.dtype.type(1)
    with np.errstate(invalid="ignore"):
        distances = np.abs(result.astype(np.longdouble) - wanted.astype(np.longdouble)) / np.spacing(largest)
    distances = np.array(distances, np.float64)
    distances[_unlike(result, wanted)] = np.inf
    distances[(result == wanted) | (np.isnan(result) & np.isnan(wanted))] = 0
    return distances


def _unlike(result: Array, wanted: Array) -> Array:
    """Where one is NaN or infinite and the other is not the same."""
    special = ~(np.isfinite(result) & np.isfinite(wanted))
    unlike: Array = special & (result != wanted)
    return unlike


def _ordered(array: Array) -> Array:
    """Unsigned integers in the order of the elements, neighbours one apart; both zeros are the same."""
    if array.dtype.kind == "b":
        return array.astype(np.uint64)
    bits = array.dtype.itemsize * 8
    middle = np.uint64(1 << 63)
    if array.dtype.kind == "u":
        return array.astype(np.uint64)
    if array.dtype.kind == "i":
        return array.astype(np.int64).view(np.uint64) ^ middle
    pattern = array.view(f"u{array.dtype.itemsize}").astype(np.uint64)
    sign, magnitude = pattern >> np.uint64(bits - 1), pattern & np.uint64((1 << bits - 1) - 1)
    ordered: Array = np.where(sign == 1, middle - magnitude, middle + magnitude)
    return ordered
