"""The interface of the package ``directml`` on PyPI, PyDirectML's successor: a script runs with one line changed.

    import opendml.compatibility.directml as dml  # was: import directml as dml

    graph = dml.Graph(dml.Device())
    x = graph.input([1, 1, 2, 2], name="x")
    w = graph.constant(weights)
    operator = graph.compile([dml.activation_relu(x * w)])
    (result,) = operator({"x": array})

A script that stays as it is finds this behind ``sys.modules["directml"] = opendml.compatibility.directml``.
Memory of a device is the host's: a ``Buffer`` is an array that is bound where it is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

import opendml
from opendml.compatibility import expression_functions as functions
from opendml.compatibility.expression_functions import (
    activation_identity,
    activation_relu,
    activation_sigmoid,
    activation_tanh,
    divide,
    multiply,
    subtract,
)
from opendml.compatibility.expressions import (
    Described,
    GRUOutputOptions,
    TensorPolicy,
    as_buffer,
    data_type_of,
)
from opendml.compatibility.expressions import Expression as _Expression
from opendml.compatibility.expressions import FusedActivation as _FusedActivation
from opendml.description.enums import (
    ConvolutionDirection,
    ConvolutionMode,
    ExecutionFlags,
    InterpolationMode,
    MatrixTransform,
    OperatorType,
    PaddingMode,
    RecurrentNetworkDirection,
    TensorDataType,
    TensorFlags,
)
from opendml.description.errors import BindingError, DescriptorArgumentError
from opendml.description.quoting import quoted

__all__ = [
    "Buffer",
    "CompiledOperator",
    "ConvolutionDirection",
    "ConvolutionMode",
    "Device",
    "ExecutionFlags",
    "Expression",
    "FusedActivation",
    "GRUOutputOptions",
    "GRUOutputs",
    "Graph",
    "InterpolationMode",
    "MatrixTransform",
    "MaxPoolingOutputs",
    "OperatorType",
    "PaddingMode",
    "RecurrentNetworkDirection",
    "TensorDataType",
    "TensorDesc",
    "TensorFlags",
    "TensorPolicy",
    "activation_gelu",
    "activation_identity",
    "activation_linear",
    "activation_relu",
    "activation_sigmoid",
    "activation_softmax",
    "activation_tanh",
    "add",
    "average_pooling",
    "batch_normalization",
    "broadcast",
    "convolution",
    "divide",
    "gather",
    "gemm",
    "gru",
    "join",
    "local_response_normalization",
    "max_pooling",
    "mean_variance_normalization",
    "multihead_attention",
    "multiply",
    "padding",
    "reinterpret",
    "slice",
    "subtract",
    "upsample_2d",
    "value_scale_2d",
]

__version__: Final = "0.1.0"
"""The version of the package whose interface this is."""

Array = npt.NDArray[Any]
Numbers = Sequence[int]


# ---- tensors


class TensorDesc(Described):
    """A tensor: type (also NumPy's), sizes, and where its elements lie."""

    def __init__(
        self,
        data_type: Any,
        sizes: Numbers,
        *,
        flags: TensorFlags = TensorFlags.NONE,
        strides: Numbers | None = None,
        total_tensor_size_in_bytes: int | None = None,
        guaranteed_base_offset_alignment: int = 0,
        tensor_policy: TensorPolicy | None = None,
    ) -> None:
        if strides is not None and tensor_policy is not None:
            raise DescriptorArgumentError("strides and tensor_policy exclude one another: the policy gives strides")
        found = strides if tensor_policy is None else tensor_policy.strides(list(sizes))
        self.inner = opendml.TensorDesc(
            data_type_of(data_type),
            list(sizes),
            None if found is None else list(found),
            flags=flags,
            total_size_in_bytes=total_tensor_size_in_bytes,
            guaranteed_base_offset_alignment=guaranteed_base_offset_alignment,
        )

    def __repr__(self) -> str:
        return f"<dml.TensorDesc {self.data_type.name.lower()} {self.sizes}>"


class _Shaped:
    """What expressions and buffers say of their tensor."""

    __slots__ = ()

    @property
    def _inner(self) -> opendml.TensorDesc:
        raise NotImplementedError

    @property
    def desc(self) -> TensorDesc:
        """The tensor's description."""
        return TensorDesc.of(self._inner)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes."""
        return self._inner.sizes

    @property
    def strides(self) -> tuple[int, ...] | None:
        """The strides in elements, None where it is packed."""
        return self._inner.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements."""
        return self._inner.data_type.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._inner.sizes)


class Expression(_Shaped, _Expression):
    """A tensor of a graph. Arithmetic with expressions of the same sizes and type, and with numbers, gives others."""

    __slots__ = ()

    @property
    def _inner(self) -> opendml.TensorDesc:
        return self.tensor.desc

    def __mod__(self, other: object) -> Any:
        return self._with("%", other, lambda a, b: a % b)


class Device:
    """Where graphs are compiled and run. ``name`` is that of a ``dml.Device`` of opendml."""

    def __init__(self, *, use_gpu: bool = True, use_debug_layer: bool = False, name: str = "cpu") -> None:
        self.use_gpu = use_gpu
        self.inner = opendml.Device(name)

    def __repr__(self) -> str:
        return f"<dml.Device on {self.inner.name}>"


class Buffer(_Shaped):
    """A tensor in a device's memory: a copy of an array, bound to inputs where it is.

    Raises BindingError, a ValueError, for an array whose type converts unsafely, and DescriptorArgumentError, a
    TypeError, for a type that there is not.
    """

    __slots__ = ("_described", "array", "device")

    def __init__(self, device: Device, array: Any, dtype: Any = None) -> None:
        given = np.asarray(array)
        data_type = data_type_of(given.dtype if dtype is None else dtype)
        _check_conversion(given, data_type.dtype, "the buffer")
        self.device = device
        self.array: Array = np.array(given, data_type.dtype, order="C", ndmin=1)
        self._described = opendml.TensorDesc(data_type, self.array.shape)

    @classmethod
    def _over(cls, device: Device, array: Array) -> Buffer:
        made = cls.__new__(cls)
        made.device, made.array = device, array
        made._described = opendml.TensorDesc(array.dtype, array.shape)
        return made

    @property
    def _inner(self) -> opendml.TensorDesc:
        return self._described

    def __repr__(self) -> str:
        return f"<Buffer {self.dtype.name} {list(self.shape)}>"

    @property
    def nbytes(self) -> int:
        """The bytes of its memory, a multiple of four."""
        return self._described.total_size_in_bytes

    def numpy(self) -> Array:
        """A copy of the values."""
        return self.array.copy()


def _check_conversion(array: Any, target: np.dtype[Any], what: str) -> None:
    """Types of one kind convert into one another, others only where NumPy calls it safe. Raises BindingError."""
    if array.dtype.kind != target.kind and not np.can_cast(array.dtype, target, "safe"):
        raise BindingError(f"{what}: {array.dtype} does not convert to {target.name} by itself; astype() does")


# ---- graphs


class _Slot(NamedTuple):
    """An input of a compiled graph."""

    number: int
    key: object
    name: str | None
    desc: opendml.TensorDesc

    @property
    def owned(self) -> bool:
        return self.desc.is_owned_by_dml

    @property
    def parameter(self) -> str:
        """Its name in the graph's program."""
        return f"input{self.number}"

    def __str__(self) -> str:
        name = f" {self.name!r}" if self.name is not None else ""
        return f"input {self.number}{name} ({self.desc.data_type.dtype.name} {list(self.desc.sizes)})"

    def laid_out(self, value: Any, device: Device) -> Array:
        """An array or a buffer as the program takes it. Raises BindingError."""
        is_buffer = isinstance(value, Buffer)
        array = value.array if is_buffer else np.asarray(value)
        target = self.desc.data_type.dtype
        if is_buffer and value.device is not device:
            raise BindingError(f"the Buffer for {self} is of a different device")
        if is_buffer and array.dtype != target:
            raise BindingError(f"a Buffer of {array.dtype} for {self}: Buffers are not converted")
        _check_conversion(array, target, str(self))
        wanted = self.desc.element_count if self.desc.is_packed else self.desc.element_span
        if array.size < wanted or (self.desc.is_packed and array.size != wanted):
            kind = "a Buffer" if is_buffer else "an array"
            raise BindingError(f"{kind} of {array.size} elements does not fill {self}, which has {wanted}")
        return as_buffer(array, self.desc)


class Graph:
    """A graph under construction. ``tensor_policy`` is accepted: layouts inside of a graph are the compiler's."""

    def __init__(self, device: Device, *, tensor_policy: TensorPolicy | None = None) -> None:
        self.device = device
        self._graph = opendml.Graph(device.inner)
        self._slots: list[_Slot] = []
        self._constants: dict[object, Any] = {}

    def input(
        self,
        sizes: Numbers | None = None,
        dtype: Any = None,
        *,
        owned: bool = False,
        strides: Numbers | None = None,
        desc: TensorDesc | None = None,
        name: str | None = None,
    ) -> Expression:
        """A new input, float32 unless ``dtype`` is given; ``owned`` ones are given to ``initialize``.

        ``desc`` describes it in place of the other parameters. Raises DescriptorArgumentError, a TypeError, and
        BindingError, a ValueError, for a name that is taken.
        """
        if desc is not None and not (sizes is None and dtype is None and not owned and strides is None):
            raise DescriptorArgumentError("input: desc already describes the tensor")
        if desc is None:
            if sizes is None:
                raise DescriptorArgumentError("input: sizes are needed, or a desc")
            flags = TensorFlags.OWNED_BY_DML if owned else TensorFlags.NONE
            desc = TensorDesc(np.float32 if dtype is None else dtype, sizes, flags=flags, strides=strides)
        return self._new(desc.inner, name)

    def constant(
        self, array: Any, dtype: Any = None, *, sizes: Numbers | None = None, name: str | None = None
    ) -> Expression:
        """An owned input whose data is known: an array, kept until ``compile``, or a Buffer.

        ``sizes``: others with as many elements. Raises BindingError, a ValueError, for data that does not fit.
        """
        given = array if isinstance(array, Buffer) else np.asarray(array)
        data_type = data_type_of(given.dtype if dtype is None else dtype)
        found = list(given.shape if sizes is None else sizes)
        what = f"the constant {name!r}" if name is not None else f"a constant of sizes {found}"
        if isinstance(given, Buffer) and given.dtype != data_type.dtype:
            raise BindingError(f"a Buffer of {given.dtype} for {what}: Buffers are not converted")
        _check_conversion(given, data_type.dtype, what)
        if given.size != math.prod(found):
            raise BindingError(f"an array of {given.size} elements does not fill {what}")
        desc = opendml.TensorDesc(data_type, found, flags=TensorFlags.OWNED_BY_DML)
        expression = self._new(desc, name)
        self._constants[expression.key] = given
        return expression

    def compile(
        self, outputs: Sequence[Expression], *, flags: ExecutionFlags = ExecutionFlags.NONE
    ) -> CompiledOperator:
        """Compiles what the outputs need; initialises it if all owned inputs are constants.

        The graph forgets the constants' data. Raises InvalidDescriptorError, a ValueError, with all that is wrong.
        """
        tensors = [one.tensor if one.tensor.desc.is_packed else one.tensor.packed() for one in outputs]
        program = self._graph.compile(tensors, execution_flags=flags)
        constants, self._constants = self._constants, {}
        return CompiledOperator(program, self.device, tuple(self._slots), constants)

    def _new(self, desc: opendml.TensorDesc, name: str | None) -> Expression:
        if name is not None and not isinstance(name, str):
            raise DescriptorArgumentError(f"the name of an input is text, got {quoted(name)}")
        if name is not None and any(slot.name == name for slot in self._slots):
            raise BindingError(f"this graph already has an input named {name!r}")
        number = len(self._slots)
        tensor = self._graph.input(desc.data_type, desc.sizes, f"input{number}", desc.strides, desc.is_owned_by_dml)
        expression = Expression(tensor)
        self._slots.append(_Slot(number, expression.key, name, desc))
        return expression


class CompiledOperator:
    """A compiled graph: ``operator({x: array})``, where keys are inputs' expressions or names."""

    def __init__(
        self,
        program: opendml.GraphProgram,
        device: Device,
        slots: tuple[_Slot, ...],
        constants: dict[object, Any],
    ) -> None:
        self._program, self._device, self._slots, self._constants = program, device, slots, constants
        self._lock = threading.Lock()
        self.initialized = False
        if all(slot.key in constants for slot in slots if slot.owned):
            self.initialize()

    @property
    def temporary_size(self) -> int:
        """Bytes that a dispatch needs beside inputs and outputs."""
        return self._program.binding_properties.temporary_resource_size

    @property
    def persistent_size(self) -> int:
        """Bytes of what is laid out at initialisation."""
        return self._program.binding_properties.persistent_resource_size

    @property
    def descriptor_count(self) -> int:
        """Descriptors that a binding table of DirectML would need."""
        return self._program.binding_properties.required_descriptor_count

    def initialize(self, weights: Mapping[Any, Any] | None = None) -> None:
        """Lays out the owned inputs: arrays or Buffers by expression or name. Constants may be left out at first.

        Raises BindingError, a ValueError, for what is missing or does not fit, before anything changes.
        """
        arrays = self._arrays(weights or {}, owned=True, verb="initialize", defaults=self._constants)
        with self._lock:
            if arrays:
                self._program.initialize(**arrays)
            self._constants, self.initialized = {}, True

    def dispatch(self, inputs: Mapping[Any, Any] | None = None, *, readback: bool = True) -> list[Any]:
        """The outputs in the order of ``compile``: arrays, or Buffers without ``readback``.

        Raises BindingError, a ValueError, for inputs that are missing or do not fit.
        """
        if not self.initialized:
            owned = ", ".join(str(slot) for slot in self._slots if slot.owned)
            raise BindingError(f"initialize() comes before dispatch(): this operator owns {owned}")
        results = self._program(**self._arrays(inputs or {}, owned=False, verb="dispatch", defaults={}))
        return list(results) if readback else [Buffer._over(self._device, one) for one in results]

    __call__ = dispatch

    def _arrays(
        self, given: Mapping[Any, Any], *, owned: bool, verb: str, defaults: Mapping[object, Any]
    ) -> dict[str, Array]:
        """The arrays of one kind of inputs by their names in the program."""
        bound: dict[str, Array] = {}
        for key, value in given.items():
            slot = self._slot(key, verb)
            if slot.owned != owned:
                instead = "not owned by DirectML; bind it at dispatch" if owned else "owned; bind it in initialize()"
                raise BindingError(f"{slot} is {instead} instead")
            if slot.parameter in bound:
                raise BindingError(f"{slot} is bound twice")
            bound[slot.parameter] = slot.laid_out(value, self._device)
        wanted = [slot for slot in self._slots if slot.owned == owned and slot.parameter not in bound]
        missing = [slot for slot in wanted if slot.key not in defaults]
        if missing:
            raise BindingError(f"{verb}() is missing {', '.join(map(str, missing))}")
        for slot in wanted:
            bound[slot.parameter] = slot.laid_out(defaults[slot.key], self._device)
        return bound

    def _slot(self, key: Any, verb: str) -> _Slot:
        if isinstance(key, Expression):
            found = [slot for slot in self._slots if slot.key is key.key]
            problem = f"{key!r} is not an input of this graph"
        elif isinstance(key, str):
            found = [slot for slot in self._slots if slot.name == key]
            problem = f"this graph has no input named {key!r}"
        else:
            raise DescriptorArgumentError(f"{verb}: keys are expressions or names of inputs, not {type(key).__name__}")
        if not found:
            raise BindingError(problem)
        return found[0]


# ---- operators


class MaxPoolingOutputs(NamedTuple):
    """The maxima, and where they were, if that was asked for."""

    values: Any
    indices: Any


class GRUOutputs(NamedTuple):
    """All hidden states, and the last one; None for what was not asked for."""

    sequence: Any
    single: Any


class FusedActivation(_FusedActivation):
    """An activation behind an operator, by type and parameters, or by a function of its name: ``relu()``."""

    @staticmethod
    def none() -> FusedActivation:
        """No activation."""
        return FusedActivation(OperatorType.INVALID)

    @staticmethod
    def celu(alpha: float = 1.0) -> FusedActivation:
        """CELU."""
        return FusedActivation(OperatorType.ACTIVATION_CELU, alpha)

    @staticmethod
    def elu(alpha: float = 1.0) -> FusedActivation:
        """ELU."""
        return FusedActivation(OperatorType.ACTIVATION_ELU, alpha)

    @staticmethod
    def gelu() -> FusedActivation:
        """GELU."""
        return FusedActivation(OperatorType.ACTIVATION_GELU)

    @staticmethod
    def hard_sigmoid(alpha: float = 0.2, beta: float = 0.5) -> FusedActivation:
        """HARD_SIGMOID."""
        return FusedActivation(OperatorType.ACTIVATION_HARD_SIGMOID, alpha, beta)

    @staticmethod
    def identity() -> FusedActivation:
        """IDENTITY."""
        return FusedActivation(OperatorType.ACTIVATION_IDENTITY)

    @staticmethod
    def leaky_relu(alpha: float = 0.01) -> FusedActivation:
        """LEAKY_RELU."""
        return FusedActivation(OperatorType.ACTIVATION_LEAKY_RELU, alpha)

    @staticmethod
    def linear(alpha: float, beta: float) -> FusedActivation:
        """LINEAR."""
        return FusedActivation(OperatorType.ACTIVATION_LINEAR, alpha, beta)

    @staticmethod
    def parametric_softplus(alpha: float, beta: float) -> FusedActivation:
        """PARAMETRIC_SOFTPLUS."""
        return FusedActivation(OperatorType.ACTIVATION_PARAMETRIC_SOFTPLUS, alpha, beta)

    @staticmethod
    def relu() -> FusedActivation:
        """RELU."""
        return FusedActivation(OperatorType.ACTIVATION_RELU)

    @staticmethod
    def scaled_elu(alpha: float | None = None, gamma: float | None = None) -> FusedActivation:
        """SCALED_ELU, by default with the constants of self-normalising networks."""
        usual = opendml.fused_activation.SCALED_ELU_ALPHA, opendml.fused_activation.SCALED_ELU_GAMMA
        given = tuple(have if want is None else want for have, want in zip(usual, (alpha, gamma), strict=True))
        return FusedActivation(OperatorType.ACTIVATION_SCALED_ELU, *given)

    @staticmethod
    def scaled_tanh(alpha: float = 1.0, beta: float = 0.5) -> FusedActivation:
        """SCALED_TANH."""
        return FusedActivation(OperatorType.ACTIVATION_SCALED_TANH, alpha, beta)

    @staticmethod
    def shrink(bias: float = 0.0, threshold: float = 0.5) -> FusedActivation:
        """SHRINK."""
        return FusedActivation(OperatorType.ACTIVATION_SHRINK, bias, threshold)

    @staticmethod
    def sigmoid() -> FusedActivation:
        """SIGMOID."""
        return FusedActivation(OperatorType.ACTIVATION_SIGMOID)

    @staticmethod
    def softplus(steepness: float = 1.0) -> FusedActivation:
        """SOFTPLUS."""
        return FusedActivation(OperatorType.ACTIVATION_SOFTPLUS, steepness)

    @staticmethod
    def softsign() -> FusedActivation:
        """SOFTSIGN."""
        return FusedActivation(OperatorType.ACTIVATION_SOFTSIGN)

    @staticmethod
    def tanh() -> FusedActivation:
        """TANH."""
        return FusedActivation(OperatorType.ACTIVATION_TANH)

    @staticmethod
    def thresholded_relu(alpha: float = 1.0) -> FusedActivation:
        """THRESHOLDED_RELU."""
        return FusedActivation(OperatorType.ACTIVATION_THRESHOLDED_RELU, alpha)


Fused = FusedActivation | None


def activation_gelu(input: Expression) -> Expression:
    """``0.5 * x * (1 + erf(x / sqrt(2)))``."""
    return functions.activation("gelu", input)


def activation_linear(input: Expression, *, alpha: float, beta: float) -> Expression:
    """``alpha * x + beta``."""
    return functions.activation("linear", input, alpha=alpha, beta=beta)


def activation_softmax(input: Expression, *, axes: Numbers = ()) -> Expression:
    """Softmax along axes together; without any along the last one."""
    return functions.softmax(input, axes)


def add(a: Expression, b: Expression, *, fused_activation: Fused = None) -> Expression:
    """``a + b``."""
    return functions.add(a, b, fused_activation)


def reinterpret(input: Expression, sizes: Numbers, strides: Numbers | None = None, dtype: Any = None) -> Expression:
    """The same bytes with other sizes, strides or another type."""
    data_type = None if dtype is None else data_type_of(dtype)
    return functions.reinterpret(input, data_type, sizes, strides)


def broadcast(input: Expression, shape: Numbers) -> Expression:
    """Repeated along axes of size 1, and along new ones in front, as NumPy's; costs nothing.

    Raises BindingError, a ValueError, for sizes that are not to be had so.
    """
    source, wanted = list(input.shape), list(shape)
    if source == wanted:
        return input
    new = len(wanted) - len(source)
    if new < 0:
        raise BindingError(f"cannot broadcast {source} to {wanted}: the target has fewer axes")
    if any(have not in (1, want) for have, want in zip(source, wanted[new:], strict=True)):
        raise BindingError(f"cannot broadcast {source} to {wanted}: only axes of size 1 repeat")
    strides = input.tensor.desc.effective_strides
    repeated = [stride if have == want else 0 for have, want, stride in zip(source, wanted[new:], strides, strict=True)]
    return Expression(input.tensor.reinterpret(wanted, [*[0] * new, *repeated]))


def convolution(
    input: Expression,
    filter: Expression,
    bias: Expression | None = None,
    *,
    mode: ConvolutionMode = ConvolutionMode.CROSS_CORRELATION,
    direction: ConvolutionDirection = ConvolutionDirection.FORWARD,
    strides: Numbers = (),
    dilations: Numbers = (),
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    output_padding: Numbers = (),
    group_count: int = 1,
    fused_activation: Fused = None,
    output_sizes: Numbers = (),
) -> Expression:
    """CONVOLUTION; empty lists stand for the defaults."""
    return functions.convolution(
        input,
        filter,
        bias,
        mode=mode,
        direction=direction,
        strides=strides,
        dilations=dilations,
        start_padding=start_padding,
        end_padding=end_padding,
        output_padding=output_padding,
        group_count=group_count,
        fused_activation=fused_activation,
        output_sizes=output_sizes,
    )


def upsample_2d(input: Expression, *, scale_size: tuple[int, int], interpolation_mode: InterpolationMode) -> Expression:
    """UPSAMPLE_2D; ``scale_size`` is width and height."""
    return functions.upsample_2d(input, scale_size, interpolation_mode)


def padding(
    input: Expression,
    *,
    padding_mode: PaddingMode = PaddingMode.CONSTANT,
    padding_value: float = 0.0,
    start_padding: Numbers,
    end_padding: Numbers,
) -> Expression:
    """PADDING."""
    return functions.padding(input, padding_mode, padding_value, start_padding, end_padding)


def mean_variance_normalization(
    input: Expression,
    scale: Expression | None = None,
    bias: Expression | None = None,
    *,
    axes: Numbers,
    normalize_variance: bool = True,
    normalize_mean: bool = True,
    epsilon: float = 1e-5,
    fused_activation: Fused = None,
) -> Expression:
    """MEAN_VARIANCE_NORMALIZATION2."""
    return functions.mean_variance_normalization(
        input,
        scale,
        bias,
        axes=axes,
        normalize_variance=normalize_variance,
        normalize_mean=normalize_mean,
        epsilon=epsilon,
        fused_activation=fused_activation,
    )


def slice(
    input: Expression, *, input_window_offsets: Numbers, input_window_sizes: Numbers, input_window_strides: Numbers
) -> Expression:
    """SLICE1."""
    return functions.slice(input, input_window_offsets, input_window_sizes, input_window_strides)


def value_scale_2d(input: Expression, *, scale: float, bias: Sequence[float]) -> Expression:
    """VALUE_SCALE_2D."""
    return functions.value_scale_2d(input, scale, bias)


def batch_normalization(
    input: Expression,
    mean: Expression,
    variance: Expression,
    scale: Expression,
    bias: Expression,
    *,
    spatial: bool = True,
    epsilon: float = 1e-5,
    fused_activation: Fused = None,
) -> Expression:
    """BATCH_NORMALIZATION."""
    return functions.batch_normalization(
        input, mean, variance, scale, bias, spatial=spatial, epsilon=epsilon, fused_activation=fused_activation
    )


def local_response_normalization(
    input: Expression, *, cross_channel: bool, local_size: int, alpha: float, beta: float, bias: float
) -> Expression:
    """LOCAL_RESPONSE_NORMALIZATION."""
    return functions.local_response_normalization(
        input, cross_channel=cross_channel, local_size=local_size, alpha=alpha, beta=beta, bias=bias
    )


def gemm(
    a: Expression,
    b: Expression,
    c: Expression | None = None,
    *,
    trans_a: MatrixTransform = MatrixTransform.NONE,
    trans_b: MatrixTransform = MatrixTransform.NONE,
    alpha: float = 1.0,
    beta: float = 1.0,
    fused_activation: Fused = None,
) -> Expression:
    """GEMM."""
    return functions.gemm(
        a, b, c, trans_a=trans_a, trans_b=trans_b, alpha=alpha, beta=beta, fused_activation=fused_activation
    )


def average_pooling(
    input: Expression,
    *,
    strides: Numbers,
    window_sizes: Numbers,
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    dilations: Numbers = (),
    include_padding: bool = False,
    output_sizes: Numbers = (),
) -> Expression:
    """AVERAGE_POOLING."""
    return functions.average_pooling(
        input,
        strides=strides,
        window_sizes=window_sizes,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
        include_padding=include_padding,
        output_sizes=output_sizes,
    )


def max_pooling(
    input: Expression,
    *,
    window_sizes: Numbers,
    strides: Numbers = (),
    start_padding: Numbers = (),
    end_padding: Numbers = (),
    dilations: Numbers = (),
    output_indices: bool = False,
) -> MaxPoolingOutputs:
    """MAX_POOLING; ``indices`` are None where they are not asked for."""
    pooled = functions.max_pooling(
        input,
        window_sizes=window_sizes,
        strides=strides,
        start_padding=start_padding,
        end_padding=end_padding,
        dilations=dilations,
        output_indices=output_indices,
    )
    return MaxPoolingOutputs(*pooled)


def multihead_attention(
    query: Expression, key: Expression, value: Expression, *, head_count: int, scale: float
) -> Expression:
    """MULTIHEAD_ATTENTION without masks; tensors are ``[batch, 1, sequence, channels]``, as is the result."""
    tensors = [one.tensor.reinterpret([1, one.shape[0], *one.shape[2:]]) for one in (query, key, value)]
    result: Any = opendml.multihead_attention(*tensors, head_count=head_count, scale=scale)
    batch, length, channels = result.output.sizes[-3:]
    return Expression(result.output.reinterpret([batch, 1, length, channels]))


def join(inputs: Sequence[Expression], *, axis: int) -> Expression:
    """JOIN."""
    return functions.join(inputs, axis)  # type: ignore[no-any-return]


def gru(
    input: Expression,
    weight: Expression,
    recurrence: Expression,
    bias: Expression | None = None,
    hidden_init: Expression | None = None,
    sequence_lengths: Expression | None = None,
    *,
    activation_descs: Sequence[FusedActivation],
    direction: RecurrentNetworkDirection = RecurrentNetworkDirection.FORWARD,
    linear_before_reset: bool = True,
    output_options: GRUOutputOptions = GRUOutputOptions.Both,
) -> GRUOutputs:
    """GRU."""
    outputs = functions.gru(
        (input, weight, recurrence, bias, hidden_init, sequence_lengths),
        activation_descs=activation_descs,
        direction=direction,
        linear_before_reset=linear_before_reset,
        output_options=output_options,
    )
    return GRUOutputs(*outputs)


def gather(input: Expression, indices: Expression, *, axis: int, index_dimensions: int) -> Expression:
    """GATHER."""
    return functions.gather(input, indices, axis, index_dimensions)
