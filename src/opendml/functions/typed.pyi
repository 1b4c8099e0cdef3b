"""The functions' signatures for type checkers; tools/write_signatures.py writes this file."""

from collections.abc import Sequence
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from opendml.building.graph_building import Graph
from opendml.building.graph_tensor import GraphTensor
from opendml.description.descriptors import Operator
from opendml.description.enums import (
    AxisDirection,
    ConvolutionDirection,
    ConvolutionMode,
    DepthSpaceOrder,
    InterpolationMode,
    IsInfinityMode,
    MatrixTransform,
    MultiheadAttentionMaskType,
    PaddingMode,
    RandomGeneratorType,
    RecurrentNetworkDirection,
    ReduceFunction,
    RoundingMode,
    TensorDataType,
)
from opendml.description.structs import ScalarUnion, ScaleBias, Size2D
from opendml.functions.attention import MultiheadAttentionOutputs
from opendml.functions.nonzero import NonzeroCoordinatesOutputs
from opendml.functions.normalization_training import BatchNormalizationGradOutputs, BatchNormalizationTrainingOutputs
from opendml.functions.optimizers import AdamOptimizerOutputs
from opendml.functions.pooling import MaxPoolingOutputs
from opendml.functions.quantization import DynamicQuantizeLinearOutputs
from opendml.functions.random_numbers import RandomGeneratorOutputs
from opendml.functions.recurrent import GruOutputs, LstmOutputs, RnnOutputs
from opendml.functions.region_gradients import RoiAlignGradOutputs
from opendml.functions.selection import TopKOutputs
from opendml.programs.device import Device

class SupportsDLPack(Protocol):
    def __dlpack__(self) -> Any: ...

Array = npt.NDArray[Any]
ArrayOperand = Array | np.generic | float | Sequence[Any] | Buffer | SupportsDLPack
Operand = GraphTensor | ArrayOperand
Factors = ScaleBias | tuple[float, float] | None

@overload
def abs(
    input: GraphTensor,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def abs(
    input: ArrayOperand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def acos(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def acos(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def acosh(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def acosh(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def activation_celu(
    input: GraphTensor, *, alpha: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_celu(
    input: ArrayOperand, *, alpha: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_elu(
    input: GraphTensor, *, alpha: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_elu(
    input: ArrayOperand, *, alpha: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_gelu(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def activation_gelu(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def activation_hard_sigmoid(
    input: GraphTensor, *, alpha: float = ..., beta: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_hard_sigmoid(
    input: ArrayOperand, *, alpha: float = ..., beta: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_hard_swish(
    input: GraphTensor, *, alpha: float = ..., beta: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_hard_swish(
    input: ArrayOperand, *, alpha: float = ..., beta: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_hardmax(
    input: GraphTensor, *, axes: Sequence[int] | None = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_hardmax(
    input: ArrayOperand, *, axes: Sequence[int] | None = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_identity(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def activation_identity(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def activation_leaky_relu(
    input: GraphTensor, *, alpha: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_leaky_relu(
    input: ArrayOperand, *, alpha: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_linear(
    input: GraphTensor, *, alpha: float, beta: float, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_linear(
    input: ArrayOperand, *, alpha: float, beta: float, device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_log_softmax(
    input: GraphTensor, *, axes: Sequence[int] | None = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_log_softmax(
    input: ArrayOperand, *, axes: Sequence[int] | None = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_parameterized_relu(
    input: GraphTensor, slope: Operand, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_parameterized_relu(
    input: ArrayOperand, slope: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_parameterized_relu(
    input: ArrayOperand, slope: ArrayOperand, *, device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_parametric_softplus(
    input: GraphTensor, *, alpha: float, beta: float, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_parametric_softplus(
    input: ArrayOperand, *, alpha: float, beta: float, device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_relu(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def activation_relu(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def activation_relu_grad(
    input: GraphTensor, input_gradient: Operand, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_relu_grad(
    input: ArrayOperand, input_gradient: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_relu_grad(
    input: ArrayOperand, input_gradient: ArrayOperand, *, device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_scaled_elu(
    input: GraphTensor, *, alpha: float = ..., gamma: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_scaled_elu(
    input: ArrayOperand, *, alpha: float = ..., gamma: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_scaled_tanh(
    input: GraphTensor, *, alpha: float = ..., beta: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_scaled_tanh(
    input: ArrayOperand, *, alpha: float = ..., beta: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_shrink(
    input: GraphTensor,
    *,
    bias: float = ...,
    threshold: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def activation_shrink(
    input: ArrayOperand, *, bias: float = ..., threshold: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_sigmoid(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def activation_sigmoid(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def activation_softmax(
    input: GraphTensor, *, axes: Sequence[int] | None = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_softmax(
    input: ArrayOperand, *, axes: Sequence[int] | None = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_softplus(
    input: GraphTensor, *, steepness: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_softplus(
    input: ArrayOperand, *, steepness: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_softsign(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def activation_softsign(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def activation_swish(
    input: GraphTensor, *, sigmoid_input_scale: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_swish(
    input: ArrayOperand, *, sigmoid_input_scale: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def activation_tanh(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def activation_tanh(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def activation_thresholded_relu(
    input: GraphTensor, *, alpha: float = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def activation_thresholded_relu(
    input: ArrayOperand, *, alpha: float = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def adam_optimizer(
    input_parameters: GraphTensor,
    input_first_moment: Operand,
    input_second_moment: Operand,
    gradient: Operand,
    training_step: Operand,
    *,
    learning_rate: float = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> AdamOptimizerOutputs[GraphTensor]: ...
@overload
def adam_optimizer(
    input_parameters: ArrayOperand,
    input_first_moment: GraphTensor,
    input_second_moment: Operand,
    gradient: Operand,
    training_step: Operand,
    *,
    learning_rate: float = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> AdamOptimizerOutputs[GraphTensor]: ...
@overload
def adam_optimizer(
    input_parameters: ArrayOperand,
    input_first_moment: ArrayOperand,
    input_second_moment: GraphTensor,
    gradient: Operand,
    training_step: Operand,
    *,
    learning_rate: float = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> AdamOptimizerOutputs[GraphTensor]: ...
@overload
def adam_optimizer(
    input_parameters: ArrayOperand,
    input_first_moment: ArrayOperand,
    input_second_moment: ArrayOperand,
    gradient: GraphTensor,
    training_step: Operand,
    *,
    learning_rate: float = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> AdamOptimizerOutputs[GraphTensor]: ...
@overload
def adam_optimizer(
    input_parameters: ArrayOperand,
    input_first_moment: ArrayOperand,
    input_second_moment: ArrayOperand,
    gradient: ArrayOperand,
    training_step: GraphTensor,
    *,
    learning_rate: float = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> AdamOptimizerOutputs[GraphTensor]: ...
@overload
def adam_optimizer(
    input_parameters: ArrayOperand,
    input_first_moment: ArrayOperand,
    input_second_moment: ArrayOperand,
    gradient: ArrayOperand,
    training_step: ArrayOperand,
    *,
    learning_rate: float = ...,
    beta1: float = ...,
    beta2: float = ...,
    epsilon: float = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> AdamOptimizerOutputs[Array]: ...
@overload
def add(
    a: GraphTensor,
    b: Operand,
    *,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def add(
    a: ArrayOperand,
    b: GraphTensor,
    *,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def add(
    a: ArrayOperand,
    b: ArrayOperand,
    *,
    fused_activation: Operator | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def argmax(
    input: GraphTensor,
    *,
    axes: Sequence[int] | None = ...,
    axis_direction: AxisDirection | str = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def argmax(
    input: ArrayOperand,
    *,
    axes: Sequence[int] | None = ...,
    axis_direction: AxisDirection | str = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def argmin(
    input: GraphTensor,
    *,
    axes: Sequence[int] | None = ...,
    axis_direction: AxisDirection | str = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def argmin(
    input: ArrayOperand,
    *,
    axes: Sequence[int] | None = ...,
    axis_direction: AxisDirection | str = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def asin(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def asin(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def asinh(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def asinh(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def atan(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def atan(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def atan_yx(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def atan_yx(a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def atan_yx(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def atanh(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def atanh(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def average_pooling(
    input: GraphTensor,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def average_pooling(
    input: ArrayOperand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def average_pooling_grad(
    input_gradient: GraphTensor,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int],
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def average_pooling_grad(
    input_gradient: ArrayOperand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int],
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def batch_normalization(
    input: GraphTensor,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    bias: Operand,
    *,
    spatial: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def batch_normalization(
    input: ArrayOperand,
    mean: GraphTensor,
    variance: Operand,
    scale: Operand,
    bias: Operand,
    *,
    spatial: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def batch_normalization(
    input: ArrayOperand,
    mean: ArrayOperand,
    variance: GraphTensor,
    scale: Operand,
    bias: Operand,
    *,
    spatial: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def batch_normalization(
    input: ArrayOperand,
    mean: ArrayOperand,
    variance: ArrayOperand,
    scale: GraphTensor,
    bias: Operand,
    *,
    spatial: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def batch_normalization(
    input: ArrayOperand,
    mean: ArrayOperand,
    variance: ArrayOperand,
    scale: ArrayOperand,
    bias: GraphTensor,
    *,
    spatial: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def batch_normalization(
    input: ArrayOperand,
    mean: ArrayOperand,
    variance: ArrayOperand,
    scale: ArrayOperand,
    bias: ArrayOperand,
    *,
    spatial: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def batch_normalization_grad(
    input: GraphTensor,
    input_gradient: Operand,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_grad(
    input: ArrayOperand,
    input_gradient: GraphTensor,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    mean: GraphTensor,
    variance: Operand,
    scale: Operand,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    mean: ArrayOperand,
    variance: GraphTensor,
    scale: Operand,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    mean: ArrayOperand,
    variance: ArrayOperand,
    scale: GraphTensor,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    mean: ArrayOperand,
    variance: ArrayOperand,
    scale: ArrayOperand,
    *,
    epsilon: float = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[Array]: ...
@overload
def batch_normalization_training(
    input: GraphTensor,
    scale: Operand,
    bias: Operand,
    fused_add: Operand | None = ...,
    *,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationTrainingOutputs[GraphTensor]: ...
@overload
def batch_normalization_training(
    input: ArrayOperand,
    scale: GraphTensor,
    bias: Operand,
    fused_add: Operand | None = ...,
    *,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationTrainingOutputs[GraphTensor]: ...
@overload
def batch_normalization_training(
    input: ArrayOperand,
    scale: ArrayOperand,
    bias: GraphTensor,
    fused_add: Operand | None = ...,
    *,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationTrainingOutputs[GraphTensor]: ...
@overload
def batch_normalization_training(
    input: ArrayOperand,
    scale: ArrayOperand,
    bias: ArrayOperand,
    fused_add: GraphTensor,
    *,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationTrainingOutputs[GraphTensor]: ...
@overload
def batch_normalization_training(
    input: ArrayOperand,
    scale: ArrayOperand,
    bias: ArrayOperand,
    fused_add: ArrayOperand | None = ...,
    *,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> BatchNormalizationTrainingOutputs[Array]: ...
@overload
def batch_normalization_training_grad(
    input: GraphTensor,
    input_gradient: Operand,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_training_grad(
    input: ArrayOperand,
    input_gradient: GraphTensor,
    mean: Operand,
    variance: Operand,
    scale: Operand,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_training_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    mean: GraphTensor,
    variance: Operand,
    scale: Operand,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_training_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    mean: ArrayOperand,
    variance: GraphTensor,
    scale: Operand,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_training_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    mean: ArrayOperand,
    variance: ArrayOperand,
    scale: GraphTensor,
    *,
    epsilon: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[GraphTensor]: ...
@overload
def batch_normalization_training_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    mean: ArrayOperand,
    variance: ArrayOperand,
    scale: ArrayOperand,
    *,
    epsilon: float = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> BatchNormalizationGradOutputs[Array]: ...
@overload
def bit_and(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def bit_and(a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def bit_and(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def bit_count(
    input: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def bit_count(
    input: ArrayOperand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def bit_not(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def bit_not(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def bit_or(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def bit_or(a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def bit_or(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def bit_shift_left(
    a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def bit_shift_left(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def bit_shift_left(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def bit_shift_right(
    a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def bit_shift_right(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def bit_shift_right(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def bit_xor(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def bit_xor(a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def bit_xor(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def cast(
    input: GraphTensor,
    output_data_type: TensorDataType | str | Any,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def cast(
    input: ArrayOperand, output_data_type: TensorDataType | str | Any, *, device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def ceil(
    input: GraphTensor,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def ceil(
    input: ArrayOperand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def clip(
    input: GraphTensor,
    min: float | ScalarUnion,
    max: float | ScalarUnion,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def clip(
    input: ArrayOperand,
    min: float | ScalarUnion,
    max: float | ScalarUnion,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def clip_grad(
    input: GraphTensor,
    input_gradient: Operand,
    *,
    min: float | ScalarUnion,
    max: float | ScalarUnion,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def clip_grad(
    input: ArrayOperand,
    input_gradient: GraphTensor,
    *,
    min: float | ScalarUnion,
    max: float | ScalarUnion,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def clip_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    *,
    min: float | ScalarUnion,
    max: float | ScalarUnion,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def convolution(
    input: GraphTensor,
    filter: Operand,
    bias: Operand | None = ...,
    *,
    mode: ConvolutionMode | str = ...,
    direction: ConvolutionDirection | str = ...,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    output_padding: Sequence[int] | None = ...,
    group_count: int = ...,
    fused_activation: Operator | None = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def convolution(
    input: ArrayOperand,
    filter: GraphTensor,
    bias: Operand | None = ...,
    *,
    mode: ConvolutionMode | str = ...,
    direction: ConvolutionDirection | str = ...,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    output_padding: Sequence[int] | None = ...,
    group_count: int = ...,
    fused_activation: Operator | None = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def convolution(
    input: ArrayOperand,
    filter: ArrayOperand,
    bias: GraphTensor,
    *,
    mode: ConvolutionMode | str = ...,
    direction: ConvolutionDirection | str = ...,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    output_padding: Sequence[int] | None = ...,
    group_count: int = ...,
    fused_activation: Operator | None = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def convolution(
    input: ArrayOperand,
    filter: ArrayOperand,
    bias: ArrayOperand | None = ...,
    *,
    mode: ConvolutionMode | str = ...,
    direction: ConvolutionDirection | str = ...,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    output_padding: Sequence[int] | None = ...,
    group_count: int = ...,
    fused_activation: Operator | None = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def convolution_integer(
    input: GraphTensor,
    input_zero_point: Operand | None,
    filter: Operand,
    filter_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def convolution_integer(
    input: ArrayOperand,
    input_zero_point: GraphTensor,
    filter: Operand,
    filter_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def convolution_integer(
    input: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: GraphTensor,
    filter_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def convolution_integer(
    input: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: ArrayOperand,
    filter_zero_point: GraphTensor,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def convolution_integer(
    input: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: ArrayOperand,
    filter_zero_point: ArrayOperand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def cos(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def cos(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def cosh(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def cosh(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def cumulative_product(
    input: GraphTensor,
    *,
    axis: int,
    axis_direction: AxisDirection | str = ...,
    exclusive: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def cumulative_product(
    input: ArrayOperand,
    *,
    axis: int,
    axis_direction: AxisDirection | str = ...,
    exclusive: bool = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def cumulative_summation(
    input: GraphTensor,
    *,
    axis: int,
    axis_direction: AxisDirection | str = ...,
    exclusive: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def cumulative_summation(
    input: ArrayOperand,
    *,
    axis: int,
    axis_direction: AxisDirection | str = ...,
    exclusive: bool = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def depth_to_space(
    input: GraphTensor,
    *,
    block_size: int,
    order: DepthSpaceOrder | str = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def depth_to_space(
    input: ArrayOperand,
    *,
    block_size: int,
    order: DepthSpaceOrder | str = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def dequantize(
    input: GraphTensor,
    scale: Operand,
    zero_point: Operand | None = ...,
    *,
    input_data_type: TensorDataType | str | Any = ...,
    input_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def dequantize(
    input: ArrayOperand,
    scale: GraphTensor,
    zero_point: Operand | None = ...,
    *,
    input_data_type: TensorDataType | str | Any = ...,
    input_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def dequantize(
    input: ArrayOperand,
    scale: ArrayOperand,
    zero_point: GraphTensor,
    *,
    input_data_type: TensorDataType | str | Any = ...,
    input_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def dequantize(
    input: ArrayOperand,
    scale: ArrayOperand,
    zero_point: ArrayOperand | None = ...,
    *,
    input_data_type: TensorDataType | str | Any = ...,
    input_sizes: Sequence[int] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def dequantize_linear(
    input: GraphTensor,
    scale: Operand,
    zero_point: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def dequantize_linear(
    input: ArrayOperand,
    scale: GraphTensor,
    zero_point: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def dequantize_linear(
    input: ArrayOperand,
    scale: ArrayOperand,
    zero_point: GraphTensor,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def dequantize_linear(
    input: ArrayOperand,
    scale: ArrayOperand,
    zero_point: ArrayOperand | None = ...,
    *,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def diagonal_matrix(
    input: GraphTensor,
    *,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    value: float | ScalarUnion = ...,
    diagonal_fill_begin: int = ...,
    diagonal_fill_end: int | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def diagonal_matrix(
    input: ArrayOperand | None = ...,
    *,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    value: float | ScalarUnion = ...,
    diagonal_fill_begin: int = ...,
    diagonal_fill_end: int | None = ...,
    device: Graph,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def diagonal_matrix(
    input: ArrayOperand | None = ...,
    *,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    value: float | ScalarUnion = ...,
    diagonal_fill_begin: int = ...,
    diagonal_fill_end: int | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def difference_square(
    a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def difference_square(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def difference_square(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def divide(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def divide(a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def divide(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def dynamic_quantize_linear(
    input: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> DynamicQuantizeLinearOutputs[GraphTensor]: ...
@overload
def dynamic_quantize_linear(
    input: ArrayOperand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> DynamicQuantizeLinearOutputs[Array]: ...
@overload
def equals(
    a: GraphTensor,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def equals(
    a: ArrayOperand,
    b: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def equals(
    a: ArrayOperand,
    b: ArrayOperand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def erf(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def erf(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def exp(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def exp(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def expand_dims(input: GraphTensor, axis: int | Sequence[int]) -> GraphTensor: ...
@overload
def expand_dims(input: ArrayOperand, axis: int | Sequence[int]) -> Array: ...
@overload
def fill_value_constant(
    output_sizes: Sequence[int],
    *,
    output_data_type: TensorDataType | str | Any,
    value: float | ScalarUnion,
    device: Graph,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def fill_value_constant(
    output_sizes: Sequence[int],
    *,
    output_data_type: TensorDataType | str | Any,
    value: float | ScalarUnion,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def fill_value_sequence(
    output_sizes: Sequence[int],
    *,
    output_data_type: TensorDataType | str | Any,
    value_start: float | ScalarUnion,
    value_delta: float | ScalarUnion,
    device: Graph,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def fill_value_sequence(
    output_sizes: Sequence[int],
    *,
    output_data_type: TensorDataType | str | Any,
    value_start: float | ScalarUnion,
    value_delta: float | ScalarUnion,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def flatten(input: GraphTensor) -> GraphTensor: ...
@overload
def flatten(input: ArrayOperand) -> Array: ...
@overload
def floor(
    input: GraphTensor,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def floor(
    input: ArrayOperand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def fold(
    input: GraphTensor,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    output_sizes: Sequence[int],
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def fold(
    input: ArrayOperand,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    output_sizes: Sequence[int],
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def gather(
    input: GraphTensor,
    indices: Operand,
    *,
    axis: int,
    index_dimensions: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def gather(
    input: ArrayOperand,
    indices: GraphTensor,
    *,
    axis: int,
    index_dimensions: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def gather(
    input: ArrayOperand,
    indices: ArrayOperand,
    *,
    axis: int,
    index_dimensions: int,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def gather_elements(
    input: GraphTensor, indices: Operand, *, axis: int, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def gather_elements(
    input: ArrayOperand, indices: GraphTensor, *, axis: int, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def gather_elements(
    input: ArrayOperand, indices: ArrayOperand, *, axis: int, device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def gather_nd(
    input: GraphTensor,
    indices: Operand,
    *,
    input_dimension_count: int,
    indices_dimension_count: int,
    batch_dimension_count: int = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def gather_nd(
    input: ArrayOperand,
    indices: GraphTensor,
    *,
    input_dimension_count: int,
    indices_dimension_count: int,
    batch_dimension_count: int = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def gather_nd(
    input: ArrayOperand,
    indices: ArrayOperand,
    *,
    input_dimension_count: int,
    indices_dimension_count: int,
    batch_dimension_count: int = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def gemm(
    a: GraphTensor,
    b: Operand,
    c: Operand | None = ...,
    *,
    trans_a: MatrixTransform | str = ...,
    trans_b: MatrixTransform | str = ...,
    alpha: float = ...,
    beta: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def gemm(
    a: ArrayOperand,
    b: GraphTensor,
    c: Operand | None = ...,
    *,
    trans_a: MatrixTransform | str = ...,
    trans_b: MatrixTransform | str = ...,
    alpha: float = ...,
    beta: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def gemm(
    a: ArrayOperand,
    b: ArrayOperand,
    c: GraphTensor,
    *,
    trans_a: MatrixTransform | str = ...,
    trans_b: MatrixTransform | str = ...,
    alpha: float = ...,
    beta: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def gemm(
    a: ArrayOperand,
    b: ArrayOperand,
    c: ArrayOperand | None = ...,
    *,
    trans_a: MatrixTransform | str = ...,
    trans_b: MatrixTransform | str = ...,
    alpha: float = ...,
    beta: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def greater_than(
    a: GraphTensor,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def greater_than(
    a: ArrayOperand,
    b: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def greater_than(
    a: ArrayOperand,
    b: ArrayOperand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def greater_than_or_equal(
    a: GraphTensor,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def greater_than_or_equal(
    a: ArrayOperand,
    b: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def greater_than_or_equal(
    a: ArrayOperand,
    b: ArrayOperand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def gru(
    input: GraphTensor,
    weight: Operand,
    recurrence: Operand,
    bias: Operand | None = ...,
    hidden_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    linear_before_reset: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GruOutputs[GraphTensor]: ...
@overload
def gru(
    input: ArrayOperand,
    weight: GraphTensor,
    recurrence: Operand,
    bias: Operand | None = ...,
    hidden_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    linear_before_reset: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GruOutputs[GraphTensor]: ...
@overload
def gru(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: GraphTensor,
    bias: Operand | None = ...,
    hidden_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    linear_before_reset: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GruOutputs[GraphTensor]: ...
@overload
def gru(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: GraphTensor,
    hidden_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    linear_before_reset: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GruOutputs[GraphTensor]: ...
@overload
def gru(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None,
    hidden_init: GraphTensor,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    linear_before_reset: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GruOutputs[GraphTensor]: ...
@overload
def gru(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None,
    hidden_init: ArrayOperand | None,
    sequence_lengths: GraphTensor,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    linear_before_reset: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GruOutputs[GraphTensor]: ...
@overload
def gru(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None = ...,
    hidden_init: ArrayOperand | None = ...,
    sequence_lengths: ArrayOperand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    linear_before_reset: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> GruOutputs[Array]: ...
@overload
def identity(
    input: GraphTensor,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def identity(
    input: ArrayOperand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def if_(
    condition: GraphTensor, a: Operand, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def if_(
    condition: ArrayOperand, a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def if_(
    condition: ArrayOperand, a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def if_(
    condition: ArrayOperand, a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def is_infinity(
    input: GraphTensor,
    *,
    infinity_mode: IsInfinityMode | str = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def is_infinity(
    input: ArrayOperand,
    *,
    infinity_mode: IsInfinityMode | str = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def is_nan(
    input: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def is_nan(
    input: ArrayOperand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def join(
    inputs: Sequence[GraphTensor], *, axis: int, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def join(inputs: Sequence[ArrayOperand], *, axis: int, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def less_than(
    a: GraphTensor,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def less_than(
    a: ArrayOperand,
    b: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def less_than(
    a: ArrayOperand,
    b: ArrayOperand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def less_than_or_equal(
    a: GraphTensor,
    b: Operand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def less_than_or_equal(
    a: ArrayOperand,
    b: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def less_than_or_equal(
    a: ArrayOperand,
    b: ArrayOperand,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def local_response_normalization(
    input: GraphTensor,
    *,
    cross_channel: bool,
    local_size: int,
    alpha: float = ...,
    beta: float = ...,
    bias: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def local_response_normalization(
    input: ArrayOperand,
    *,
    cross_channel: bool,
    local_size: int,
    alpha: float = ...,
    beta: float = ...,
    bias: float = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def local_response_normalization_grad(
    input: GraphTensor,
    input_gradient: Operand,
    *,
    cross_channel: bool,
    local_size: int,
    alpha: float = ...,
    beta: float = ...,
    bias: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def local_response_normalization_grad(
    input: ArrayOperand,
    input_gradient: GraphTensor,
    *,
    cross_channel: bool,
    local_size: int,
    alpha: float = ...,
    beta: float = ...,
    bias: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def local_response_normalization_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    *,
    cross_channel: bool,
    local_size: int,
    alpha: float = ...,
    beta: float = ...,
    bias: float = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def log(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def log(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def logical_and(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def logical_and(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def logical_and(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def logical_not(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def logical_not(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def logical_or(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def logical_or(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def logical_or(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def logical_xor(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def logical_xor(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def logical_xor(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def lp_normalization(
    input: GraphTensor,
    *,
    axis: int,
    epsilon: float = ...,
    p: int = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def lp_normalization(
    input: ArrayOperand, *, axis: int, epsilon: float = ..., p: int = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def lp_pooling(
    input: GraphTensor,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    p: int = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def lp_pooling(
    input: ArrayOperand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    p: int = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def lstm(
    input: GraphTensor,
    weight: Operand,
    recurrence: Operand,
    bias: Operand | None = ...,
    hidden_init: Operand | None = ...,
    cell_mem_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    peephole: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    clip_threshold: float | None = ...,
    couple_input_forget: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    output_cell_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> LstmOutputs[GraphTensor]: ...
@overload
def lstm(
    input: ArrayOperand,
    weight: GraphTensor,
    recurrence: Operand,
    bias: Operand | None = ...,
    hidden_init: Operand | None = ...,
    cell_mem_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    peephole: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    clip_threshold: float | None = ...,
    couple_input_forget: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    output_cell_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> LstmOutputs[GraphTensor]: ...
@overload
def lstm(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: GraphTensor,
    bias: Operand | None = ...,
    hidden_init: Operand | None = ...,
    cell_mem_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    peephole: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    clip_threshold: float | None = ...,
    couple_input_forget: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    output_cell_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> LstmOutputs[GraphTensor]: ...
@overload
def lstm(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: GraphTensor,
    hidden_init: Operand | None = ...,
    cell_mem_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    peephole: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    clip_threshold: float | None = ...,
    couple_input_forget: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    output_cell_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> LstmOutputs[GraphTensor]: ...
@overload
def lstm(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None,
    hidden_init: GraphTensor,
    cell_mem_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    peephole: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    clip_threshold: float | None = ...,
    couple_input_forget: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    output_cell_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> LstmOutputs[GraphTensor]: ...
@overload
def lstm(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None,
    hidden_init: ArrayOperand | None,
    cell_mem_init: GraphTensor,
    sequence_lengths: Operand | None = ...,
    peephole: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    clip_threshold: float | None = ...,
    couple_input_forget: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    output_cell_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> LstmOutputs[GraphTensor]: ...
@overload
def lstm(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None,
    hidden_init: ArrayOperand | None,
    cell_mem_init: ArrayOperand | None,
    sequence_lengths: GraphTensor,
    peephole: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    clip_threshold: float | None = ...,
    couple_input_forget: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    output_cell_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> LstmOutputs[GraphTensor]: ...
@overload
def lstm(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None,
    hidden_init: ArrayOperand | None,
    cell_mem_init: ArrayOperand | None,
    sequence_lengths: ArrayOperand | None,
    peephole: GraphTensor,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    clip_threshold: float | None = ...,
    couple_input_forget: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    output_cell_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> LstmOutputs[GraphTensor]: ...
@overload
def lstm(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None = ...,
    hidden_init: ArrayOperand | None = ...,
    cell_mem_init: ArrayOperand | None = ...,
    sequence_lengths: ArrayOperand | None = ...,
    peephole: ArrayOperand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    clip_threshold: float | None = ...,
    couple_input_forget: bool = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    output_cell_single: bool = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> LstmOutputs[Array]: ...
@overload
def matrix_multiply_integer(
    a: GraphTensor,
    a_zero_point: Operand | None,
    b: Operand,
    b_zero_point: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer(
    a: ArrayOperand,
    a_zero_point: GraphTensor,
    b: Operand,
    b_zero_point: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer(
    a: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: GraphTensor,
    b_zero_point: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer(
    a: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_zero_point: GraphTensor,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer(
    a: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_zero_point: ArrayOperand | None = ...,
    *,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def matrix_multiply_integer_to_float(
    a: GraphTensor,
    a_scale: Operand,
    a_zero_point: Operand | None,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None = ...,
    bias: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer_to_float(
    a: ArrayOperand,
    a_scale: GraphTensor,
    a_zero_point: Operand | None,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None = ...,
    bias: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer_to_float(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: GraphTensor,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None = ...,
    bias: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer_to_float(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: GraphTensor,
    b_scale: Operand,
    b_zero_point: Operand | None = ...,
    bias: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer_to_float(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: GraphTensor,
    b_zero_point: Operand | None = ...,
    bias: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer_to_float(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: GraphTensor,
    bias: Operand | None = ...,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer_to_float(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: ArrayOperand | None,
    bias: GraphTensor,
    *,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def matrix_multiply_integer_to_float(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: ArrayOperand | None = ...,
    bias: ArrayOperand | None = ...,
    *,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def max(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def max(a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def max(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def max_pooling(
    input: GraphTensor,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    output_indices: bool = ...,
    indices_data_type: TensorDataType | str | Any = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MaxPoolingOutputs[GraphTensor]: ...
@overload
def max_pooling(
    input: ArrayOperand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    output_indices: bool = ...,
    indices_data_type: TensorDataType | str | Any = ...,
    output_sizes: Sequence[int] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> MaxPoolingOutputs[Array]: ...
@overload
def max_pooling_grad(
    input: GraphTensor,
    input_gradient: Operand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def max_pooling_grad(
    input: ArrayOperand,
    input_gradient: GraphTensor,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def max_pooling_grad(
    input: ArrayOperand,
    input_gradient: ArrayOperand,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def max_unpooling(
    input: GraphTensor,
    indices: Operand,
    *,
    output_sizes: Sequence[int],
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def max_unpooling(
    input: ArrayOperand,
    indices: GraphTensor,
    *,
    output_sizes: Sequence[int],
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def max_unpooling(
    input: ArrayOperand,
    indices: ArrayOperand,
    *,
    output_sizes: Sequence[int],
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def mean(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def mean(a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def mean(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def mean_variance_normalization(
    input: GraphTensor,
    scale: Operand | None = ...,
    bias: Operand | None = ...,
    *,
    axes: Sequence[int],
    normalize_variance: bool = ...,
    normalize_mean: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def mean_variance_normalization(
    input: ArrayOperand,
    scale: GraphTensor,
    bias: Operand | None = ...,
    *,
    axes: Sequence[int],
    normalize_variance: bool = ...,
    normalize_mean: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def mean_variance_normalization(
    input: ArrayOperand,
    scale: ArrayOperand | None,
    bias: GraphTensor,
    *,
    axes: Sequence[int],
    normalize_variance: bool = ...,
    normalize_mean: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def mean_variance_normalization(
    input: ArrayOperand,
    scale: ArrayOperand | None = ...,
    bias: ArrayOperand | None = ...,
    *,
    axes: Sequence[int],
    normalize_variance: bool = ...,
    normalize_mean: bool = ...,
    epsilon: float = ...,
    fused_activation: Operator | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def min(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def min(a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def min(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def modulus_floor(
    a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def modulus_floor(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def modulus_floor(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def modulus_truncate(
    a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def modulus_truncate(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def modulus_truncate(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def multihead_attention(
    query: GraphTensor,
    key: Operand | None = ...,
    value: Operand | None = ...,
    stacked_query_key: Operand | None = ...,
    stacked_key_value: Operand | None = ...,
    stacked_query_key_value: Operand | None = ...,
    bias: Operand | None = ...,
    mask: Operand | None = ...,
    relative_position_bias: Operand | None = ...,
    past_key: Operand | None = ...,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: GraphTensor,
    value: Operand | None = ...,
    stacked_query_key: Operand | None = ...,
    stacked_key_value: Operand | None = ...,
    stacked_query_key_value: Operand | None = ...,
    bias: Operand | None = ...,
    mask: Operand | None = ...,
    relative_position_bias: Operand | None = ...,
    past_key: Operand | None = ...,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: GraphTensor,
    stacked_query_key: Operand | None = ...,
    stacked_key_value: Operand | None = ...,
    stacked_query_key_value: Operand | None = ...,
    bias: Operand | None = ...,
    mask: Operand | None = ...,
    relative_position_bias: Operand | None = ...,
    past_key: Operand | None = ...,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: ArrayOperand | None,
    stacked_query_key: GraphTensor,
    stacked_key_value: Operand | None = ...,
    stacked_query_key_value: Operand | None = ...,
    bias: Operand | None = ...,
    mask: Operand | None = ...,
    relative_position_bias: Operand | None = ...,
    past_key: Operand | None = ...,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: ArrayOperand | None,
    stacked_query_key: ArrayOperand | None,
    stacked_key_value: GraphTensor,
    stacked_query_key_value: Operand | None = ...,
    bias: Operand | None = ...,
    mask: Operand | None = ...,
    relative_position_bias: Operand | None = ...,
    past_key: Operand | None = ...,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: ArrayOperand | None,
    stacked_query_key: ArrayOperand | None,
    stacked_key_value: ArrayOperand | None,
    stacked_query_key_value: GraphTensor,
    bias: Operand | None = ...,
    mask: Operand | None = ...,
    relative_position_bias: Operand | None = ...,
    past_key: Operand | None = ...,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: ArrayOperand | None,
    stacked_query_key: ArrayOperand | None,
    stacked_key_value: ArrayOperand | None,
    stacked_query_key_value: ArrayOperand | None,
    bias: GraphTensor,
    mask: Operand | None = ...,
    relative_position_bias: Operand | None = ...,
    past_key: Operand | None = ...,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: ArrayOperand | None,
    stacked_query_key: ArrayOperand | None,
    stacked_key_value: ArrayOperand | None,
    stacked_query_key_value: ArrayOperand | None,
    bias: ArrayOperand | None,
    mask: GraphTensor,
    relative_position_bias: Operand | None = ...,
    past_key: Operand | None = ...,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: ArrayOperand | None,
    stacked_query_key: ArrayOperand | None,
    stacked_key_value: ArrayOperand | None,
    stacked_query_key_value: ArrayOperand | None,
    bias: ArrayOperand | None,
    mask: ArrayOperand | None,
    relative_position_bias: GraphTensor,
    past_key: Operand | None = ...,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: ArrayOperand | None,
    stacked_query_key: ArrayOperand | None,
    stacked_key_value: ArrayOperand | None,
    stacked_query_key_value: ArrayOperand | None,
    bias: ArrayOperand | None,
    mask: ArrayOperand | None,
    relative_position_bias: ArrayOperand | None,
    past_key: GraphTensor,
    past_value: Operand | None = ...,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: ArrayOperand | None,
    stacked_query_key: ArrayOperand | None,
    stacked_key_value: ArrayOperand | None,
    stacked_query_key_value: ArrayOperand | None,
    bias: ArrayOperand | None,
    mask: ArrayOperand | None,
    relative_position_bias: ArrayOperand | None,
    past_key: ArrayOperand | None,
    past_value: GraphTensor,
    past_sequence_lengths: Operand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None,
    key: ArrayOperand | None,
    value: ArrayOperand | None,
    stacked_query_key: ArrayOperand | None,
    stacked_key_value: ArrayOperand | None,
    stacked_query_key_value: ArrayOperand | None,
    bias: ArrayOperand | None,
    mask: ArrayOperand | None,
    relative_position_bias: ArrayOperand | None,
    past_key: ArrayOperand | None,
    past_value: ArrayOperand | None,
    past_sequence_lengths: GraphTensor,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None = ...,
    key: ArrayOperand | None = ...,
    value: ArrayOperand | None = ...,
    stacked_query_key: ArrayOperand | None = ...,
    stacked_key_value: ArrayOperand | None = ...,
    stacked_query_key_value: ArrayOperand | None = ...,
    bias: ArrayOperand | None = ...,
    mask: ArrayOperand | None = ...,
    relative_position_bias: ArrayOperand | None = ...,
    past_key: ArrayOperand | None = ...,
    past_value: ArrayOperand | None = ...,
    past_sequence_lengths: ArrayOperand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Graph,
    out: Any = ...,
) -> MultiheadAttentionOutputs[GraphTensor]: ...
@overload
def multihead_attention(
    query: ArrayOperand | None = ...,
    key: ArrayOperand | None = ...,
    value: ArrayOperand | None = ...,
    stacked_query_key: ArrayOperand | None = ...,
    stacked_key_value: ArrayOperand | None = ...,
    stacked_query_key_value: ArrayOperand | None = ...,
    bias: ArrayOperand | None = ...,
    mask: ArrayOperand | None = ...,
    relative_position_bias: ArrayOperand | None = ...,
    past_key: ArrayOperand | None = ...,
    past_value: ArrayOperand | None = ...,
    past_sequence_lengths: ArrayOperand | None = ...,
    *,
    head_count: int,
    key_value_head_count: int | None = ...,
    scale: float | None = ...,
    mask_filter_value: float = ...,
    mask_type: MultiheadAttentionMaskType | str | None = ...,
    total_sequence_length: int | None = ...,
    output_present_key: bool = ...,
    output_present_value: bool = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> MultiheadAttentionOutputs[Array]: ...
@overload
def multiply(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def multiply(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def multiply(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def negate(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def negate(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def nonzero_coordinates(
    input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> NonzeroCoordinatesOutputs[GraphTensor]: ...
@overload
def nonzero_coordinates(
    input: ArrayOperand, *, device: Device | None = ..., out: Any = ...
) -> NonzeroCoordinatesOutputs[Array]: ...
@overload
def one_hot(
    indices: GraphTensor,
    values: Operand,
    *,
    output_length: int,
    axis: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def one_hot(
    indices: ArrayOperand,
    values: GraphTensor,
    *,
    output_length: int,
    axis: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def one_hot(
    indices: ArrayOperand,
    values: ArrayOperand,
    *,
    output_length: int,
    axis: int,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def padding(
    input: GraphTensor,
    *,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    padding_mode: PaddingMode | str = ...,
    padding_value: float | ScalarUnion = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def padding(
    input: ArrayOperand,
    *,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
    padding_mode: PaddingMode | str = ...,
    padding_value: float | ScalarUnion = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def pow(
    input: GraphTensor,
    exponent: Operand | float,
    *,
    scale_bias: Factors = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def pow(
    input: ArrayOperand,
    exponent: GraphTensor,
    *,
    scale_bias: Factors = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def pow(
    input: ArrayOperand,
    exponent: ArrayOperand | float,
    *,
    scale_bias: Factors = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def quantize(
    input: GraphTensor,
    scale: Operand,
    zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantize(
    input: ArrayOperand,
    scale: GraphTensor,
    zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantize(
    input: ArrayOperand,
    scale: ArrayOperand,
    zero_point: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantize(
    input: ArrayOperand,
    scale: ArrayOperand,
    zero_point: ArrayOperand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def quantize_linear(
    input: GraphTensor,
    scale: Operand,
    zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantize_linear(
    input: ArrayOperand,
    scale: GraphTensor,
    zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantize_linear(
    input: ArrayOperand,
    scale: ArrayOperand,
    zero_point: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantize_linear(
    input: ArrayOperand,
    scale: ArrayOperand,
    zero_point: ArrayOperand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def quantized_linear_add(
    a: GraphTensor,
    a_scale: Operand,
    a_zero_point: Operand | None,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_add(
    a: ArrayOperand,
    a_scale: GraphTensor,
    a_zero_point: Operand | None,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_add(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: GraphTensor,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_add(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: GraphTensor,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_add(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: GraphTensor,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_add(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: GraphTensor,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_add(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: ArrayOperand | None,
    output_scale: GraphTensor,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_add(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: ArrayOperand | None,
    output_scale: ArrayOperand,
    output_zero_point: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_add(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: ArrayOperand | None,
    output_scale: ArrayOperand,
    output_zero_point: ArrayOperand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def quantized_linear_average_pooling(
    input: GraphTensor,
    input_scale: Operand,
    input_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_average_pooling(
    input: ArrayOperand,
    input_scale: GraphTensor,
    input_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_average_pooling(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: GraphTensor,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_average_pooling(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    output_scale: GraphTensor,
    output_zero_point: Operand | None = ...,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_average_pooling(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    output_scale: ArrayOperand,
    output_zero_point: GraphTensor,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_average_pooling(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    output_scale: ArrayOperand,
    output_zero_point: ArrayOperand | None = ...,
    *,
    window_size: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    include_padding: bool = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def quantized_linear_convolution(
    input: GraphTensor,
    input_scale: Operand,
    input_zero_point: Operand | None,
    filter: Operand,
    filter_scale: Operand,
    filter_zero_point: Operand | None,
    bias: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_convolution(
    input: ArrayOperand,
    input_scale: GraphTensor,
    input_zero_point: Operand | None,
    filter: Operand,
    filter_scale: Operand,
    filter_zero_point: Operand | None,
    bias: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_convolution(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: GraphTensor,
    filter: Operand,
    filter_scale: Operand,
    filter_zero_point: Operand | None,
    bias: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_convolution(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: GraphTensor,
    filter_scale: Operand,
    filter_zero_point: Operand | None,
    bias: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_convolution(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: ArrayOperand,
    filter_scale: GraphTensor,
    filter_zero_point: Operand | None,
    bias: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_convolution(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: ArrayOperand,
    filter_scale: ArrayOperand,
    filter_zero_point: GraphTensor,
    bias: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_convolution(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: ArrayOperand,
    filter_scale: ArrayOperand,
    filter_zero_point: ArrayOperand | None,
    bias: GraphTensor,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_convolution(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: ArrayOperand,
    filter_scale: ArrayOperand,
    filter_zero_point: ArrayOperand | None,
    bias: ArrayOperand | None,
    output_scale: GraphTensor,
    output_zero_point: Operand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_convolution(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: ArrayOperand,
    filter_scale: ArrayOperand,
    filter_zero_point: ArrayOperand | None,
    bias: ArrayOperand | None,
    output_scale: ArrayOperand,
    output_zero_point: GraphTensor,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_convolution(
    input: ArrayOperand,
    input_scale: ArrayOperand,
    input_zero_point: ArrayOperand | None,
    filter: ArrayOperand,
    filter_scale: ArrayOperand,
    filter_zero_point: ArrayOperand | None,
    bias: ArrayOperand | None,
    output_scale: ArrayOperand,
    output_zero_point: ArrayOperand | None = ...,
    *,
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    group_count: int = ...,
    output_sizes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def quantized_linear_matrix_multiply(
    a: GraphTensor,
    a_scale: Operand,
    a_zero_point: Operand | None,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_matrix_multiply(
    a: ArrayOperand,
    a_scale: GraphTensor,
    a_zero_point: Operand | None,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_matrix_multiply(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: GraphTensor,
    b: Operand,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_matrix_multiply(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: GraphTensor,
    b_scale: Operand,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_matrix_multiply(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: GraphTensor,
    b_zero_point: Operand | None,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_matrix_multiply(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: GraphTensor,
    output_scale: Operand,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_matrix_multiply(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: ArrayOperand | None,
    output_scale: GraphTensor,
    output_zero_point: Operand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_matrix_multiply(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: ArrayOperand | None,
    output_scale: ArrayOperand,
    output_zero_point: GraphTensor,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def quantized_linear_matrix_multiply(
    a: ArrayOperand,
    a_scale: ArrayOperand,
    a_zero_point: ArrayOperand | None,
    b: ArrayOperand,
    b_scale: ArrayOperand,
    b_zero_point: ArrayOperand | None,
    output_scale: ArrayOperand,
    output_zero_point: ArrayOperand | None = ...,
    *,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def random_generator(
    input_state: GraphTensor,
    *,
    output_sizes: Sequence[int],
    output_state: bool = ...,
    generator_type: RandomGeneratorType | str = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RandomGeneratorOutputs[GraphTensor]: ...
@overload
def random_generator(
    input_state: ArrayOperand,
    *,
    output_sizes: Sequence[int],
    output_state: bool = ...,
    generator_type: RandomGeneratorType | str = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> RandomGeneratorOutputs[Array]: ...
@overload
def recip(
    input: GraphTensor,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def recip(
    input: ArrayOperand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def reduce(
    input: GraphTensor,
    function: ReduceFunction | str,
    *,
    axes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def reduce(
    input: ArrayOperand,
    function: ReduceFunction | str,
    *,
    axes: Sequence[int] | None = ...,
    output_data_type: TensorDataType | str | Any = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def resample(
    input: GraphTensor,
    *,
    output_sizes: Sequence[int],
    interpolation_mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str = ...,
    scales: Sequence[float] | None = ...,
    input_pixel_offsets: Sequence[float] | None = ...,
    output_pixel_offsets: Sequence[float] | None = ...,
    antialiased: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def resample(
    input: ArrayOperand,
    *,
    output_sizes: Sequence[int],
    interpolation_mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str = ...,
    scales: Sequence[float] | None = ...,
    input_pixel_offsets: Sequence[float] | None = ...,
    output_pixel_offsets: Sequence[float] | None = ...,
    antialiased: bool = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def resample_grad(
    input_gradient: GraphTensor,
    *,
    output_sizes: Sequence[int],
    interpolation_mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str = ...,
    scales: Sequence[float] | None = ...,
    input_pixel_offsets: Sequence[float] | None = ...,
    output_pixel_offsets: Sequence[float] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def resample_grad(
    input_gradient: ArrayOperand,
    *,
    output_sizes: Sequence[int],
    interpolation_mode: InterpolationMode | str,
    rounding_direction: AxisDirection | str = ...,
    scales: Sequence[float] | None = ...,
    input_pixel_offsets: Sequence[float] | None = ...,
    output_pixel_offsets: Sequence[float] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def reshape(input: GraphTensor, sizes: int | Sequence[int]) -> GraphTensor: ...
@overload
def reshape(input: ArrayOperand, sizes: int | Sequence[int]) -> Array: ...
@overload
def reverse_subsequences(
    input: GraphTensor, sequence_lengths: Operand, *, axis: int, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def reverse_subsequences(
    input: ArrayOperand,
    sequence_lengths: GraphTensor,
    *,
    axis: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def reverse_subsequences(
    input: ArrayOperand, sequence_lengths: ArrayOperand, *, axis: int, device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def rnn(
    input: GraphTensor,
    weight: Operand,
    recurrence: Operand,
    bias: Operand | None = ...,
    hidden_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RnnOutputs[GraphTensor]: ...
@overload
def rnn(
    input: ArrayOperand,
    weight: GraphTensor,
    recurrence: Operand,
    bias: Operand | None = ...,
    hidden_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RnnOutputs[GraphTensor]: ...
@overload
def rnn(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: GraphTensor,
    bias: Operand | None = ...,
    hidden_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RnnOutputs[GraphTensor]: ...
@overload
def rnn(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: GraphTensor,
    hidden_init: Operand | None = ...,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RnnOutputs[GraphTensor]: ...
@overload
def rnn(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None,
    hidden_init: GraphTensor,
    sequence_lengths: Operand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RnnOutputs[GraphTensor]: ...
@overload
def rnn(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None,
    hidden_init: ArrayOperand | None,
    sequence_lengths: GraphTensor,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RnnOutputs[GraphTensor]: ...
@overload
def rnn(
    input: ArrayOperand,
    weight: ArrayOperand,
    recurrence: ArrayOperand,
    bias: ArrayOperand | None = ...,
    hidden_init: ArrayOperand | None = ...,
    sequence_lengths: ArrayOperand | None = ...,
    *,
    activation_descs: Sequence[Operator] | None = ...,
    direction: RecurrentNetworkDirection | str = ...,
    output_sequence: bool = ...,
    output_single: bool = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> RnnOutputs[Array]: ...
@overload
def roi_align(
    input: GraphTensor,
    roi: Operand,
    batch_indices: Operand,
    *,
    output_height: int,
    output_width: int,
    reduction_function: ReduceFunction | str = ...,
    interpolation_mode: InterpolationMode | str = ...,
    spatial_scale_x: float = ...,
    spatial_scale_y: float = ...,
    input_pixel_offset: float = ...,
    output_pixel_offset: float = ...,
    out_of_bounds_input_value: float = ...,
    minimum_samples_per_output: int = ...,
    maximum_samples_per_output: int = ...,
    align_regions_to_corners: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def roi_align(
    input: ArrayOperand,
    roi: GraphTensor,
    batch_indices: Operand,
    *,
    output_height: int,
    output_width: int,
    reduction_function: ReduceFunction | str = ...,
    interpolation_mode: InterpolationMode | str = ...,
    spatial_scale_x: float = ...,
    spatial_scale_y: float = ...,
    input_pixel_offset: float = ...,
    output_pixel_offset: float = ...,
    out_of_bounds_input_value: float = ...,
    minimum_samples_per_output: int = ...,
    maximum_samples_per_output: int = ...,
    align_regions_to_corners: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def roi_align(
    input: ArrayOperand,
    roi: ArrayOperand,
    batch_indices: GraphTensor,
    *,
    output_height: int,
    output_width: int,
    reduction_function: ReduceFunction | str = ...,
    interpolation_mode: InterpolationMode | str = ...,
    spatial_scale_x: float = ...,
    spatial_scale_y: float = ...,
    input_pixel_offset: float = ...,
    output_pixel_offset: float = ...,
    out_of_bounds_input_value: float = ...,
    minimum_samples_per_output: int = ...,
    maximum_samples_per_output: int = ...,
    align_regions_to_corners: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def roi_align(
    input: ArrayOperand,
    roi: ArrayOperand,
    batch_indices: ArrayOperand,
    *,
    output_height: int,
    output_width: int,
    reduction_function: ReduceFunction | str = ...,
    interpolation_mode: InterpolationMode | str = ...,
    spatial_scale_x: float = ...,
    spatial_scale_y: float = ...,
    input_pixel_offset: float = ...,
    output_pixel_offset: float = ...,
    out_of_bounds_input_value: float = ...,
    minimum_samples_per_output: int = ...,
    maximum_samples_per_output: int = ...,
    align_regions_to_corners: bool = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def roi_align_grad(
    input: GraphTensor,
    input_gradient: Operand,
    roi: Operand,
    batch_indices: Operand,
    *,
    batch_size: int | None = ...,
    image_height: int | None = ...,
    image_width: int | None = ...,
    compute_output_gradient: bool = ...,
    compute_output_roi_gradient: bool = ...,
    reduction_function: ReduceFunction | str = ...,
    interpolation_mode: InterpolationMode | str = ...,
    spatial_scale_x: float = ...,
    spatial_scale_y: float = ...,
    input_pixel_offset: float = ...,
    output_pixel_offset: float = ...,
    minimum_samples_per_output: int = ...,
    maximum_samples_per_output: int = ...,
    align_regions_to_corners: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RoiAlignGradOutputs[GraphTensor]: ...
@overload
def roi_align_grad(
    input: ArrayOperand | None,
    input_gradient: GraphTensor,
    roi: Operand,
    batch_indices: Operand,
    *,
    batch_size: int | None = ...,
    image_height: int | None = ...,
    image_width: int | None = ...,
    compute_output_gradient: bool = ...,
    compute_output_roi_gradient: bool = ...,
    reduction_function: ReduceFunction | str = ...,
    interpolation_mode: InterpolationMode | str = ...,
    spatial_scale_x: float = ...,
    spatial_scale_y: float = ...,
    input_pixel_offset: float = ...,
    output_pixel_offset: float = ...,
    minimum_samples_per_output: int = ...,
    maximum_samples_per_output: int = ...,
    align_regions_to_corners: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RoiAlignGradOutputs[GraphTensor]: ...
@overload
def roi_align_grad(
    input: ArrayOperand | None,
    input_gradient: ArrayOperand,
    roi: GraphTensor,
    batch_indices: Operand,
    *,
    batch_size: int | None = ...,
    image_height: int | None = ...,
    image_width: int | None = ...,
    compute_output_gradient: bool = ...,
    compute_output_roi_gradient: bool = ...,
    reduction_function: ReduceFunction | str = ...,
    interpolation_mode: InterpolationMode | str = ...,
    spatial_scale_x: float = ...,
    spatial_scale_y: float = ...,
    input_pixel_offset: float = ...,
    output_pixel_offset: float = ...,
    minimum_samples_per_output: int = ...,
    maximum_samples_per_output: int = ...,
    align_regions_to_corners: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RoiAlignGradOutputs[GraphTensor]: ...
@overload
def roi_align_grad(
    input: ArrayOperand | None,
    input_gradient: ArrayOperand,
    roi: ArrayOperand,
    batch_indices: GraphTensor,
    *,
    batch_size: int | None = ...,
    image_height: int | None = ...,
    image_width: int | None = ...,
    compute_output_gradient: bool = ...,
    compute_output_roi_gradient: bool = ...,
    reduction_function: ReduceFunction | str = ...,
    interpolation_mode: InterpolationMode | str = ...,
    spatial_scale_x: float = ...,
    spatial_scale_y: float = ...,
    input_pixel_offset: float = ...,
    output_pixel_offset: float = ...,
    minimum_samples_per_output: int = ...,
    maximum_samples_per_output: int = ...,
    align_regions_to_corners: bool = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> RoiAlignGradOutputs[GraphTensor]: ...
@overload
def roi_align_grad(
    input: ArrayOperand | None,
    input_gradient: ArrayOperand,
    roi: ArrayOperand,
    batch_indices: ArrayOperand,
    *,
    batch_size: int | None = ...,
    image_height: int | None = ...,
    image_width: int | None = ...,
    compute_output_gradient: bool = ...,
    compute_output_roi_gradient: bool = ...,
    reduction_function: ReduceFunction | str = ...,
    interpolation_mode: InterpolationMode | str = ...,
    spatial_scale_x: float = ...,
    spatial_scale_y: float = ...,
    input_pixel_offset: float = ...,
    output_pixel_offset: float = ...,
    minimum_samples_per_output: int = ...,
    maximum_samples_per_output: int = ...,
    align_regions_to_corners: bool = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> RoiAlignGradOutputs[Array]: ...
@overload
def roi_pooling(
    input: GraphTensor,
    roi: Operand,
    *,
    pooled_size: Size2D | tuple[int, int],
    spatial_scale: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def roi_pooling(
    input: ArrayOperand,
    roi: GraphTensor,
    *,
    pooled_size: Size2D | tuple[int, int],
    spatial_scale: float = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def roi_pooling(
    input: ArrayOperand,
    roi: ArrayOperand,
    *,
    pooled_size: Size2D | tuple[int, int],
    spatial_scale: float = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def round(
    input: GraphTensor, *, rounding_mode: RoundingMode | str = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def round(
    input: ArrayOperand, *, rounding_mode: RoundingMode | str = ..., device: Device | None = ..., out: Any = ...
) -> Array: ...
@overload
def scatter_elements(
    input: GraphTensor,
    indices: Operand,
    updates: Operand,
    *,
    axis: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def scatter_elements(
    input: ArrayOperand,
    indices: GraphTensor,
    updates: Operand,
    *,
    axis: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def scatter_elements(
    input: ArrayOperand,
    indices: ArrayOperand,
    updates: GraphTensor,
    *,
    axis: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def scatter_elements(
    input: ArrayOperand,
    indices: ArrayOperand,
    updates: ArrayOperand,
    *,
    axis: int,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def scatter_nd(
    input: GraphTensor,
    indices: Operand,
    updates: Operand,
    *,
    input_dimension_count: int,
    indices_dimension_count: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def scatter_nd(
    input: ArrayOperand,
    indices: GraphTensor,
    updates: Operand,
    *,
    input_dimension_count: int,
    indices_dimension_count: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def scatter_nd(
    input: ArrayOperand,
    indices: ArrayOperand,
    updates: GraphTensor,
    *,
    input_dimension_count: int,
    indices_dimension_count: int,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def scatter_nd(
    input: ArrayOperand,
    indices: ArrayOperand,
    updates: ArrayOperand,
    *,
    input_dimension_count: int,
    indices_dimension_count: int,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def sign(input: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def sign(input: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def sin(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def sin(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def sinh(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def sinh(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def slice(
    input: GraphTensor,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def slice(
    input: ArrayOperand,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def slice_grad(
    input_gradient: GraphTensor,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int],
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def slice_grad(
    input_gradient: ArrayOperand,
    *,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
    output_sizes: Sequence[int],
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def space_to_depth(
    input: GraphTensor,
    *,
    block_size: int,
    order: DepthSpaceOrder | str = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def space_to_depth(
    input: ArrayOperand,
    *,
    block_size: int,
    order: DepthSpaceOrder | str = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def split(
    input: GraphTensor,
    *,
    axis: int,
    output_axis_sizes: Sequence[int],
    device: Device | Graph | None = ...,
    out: Sequence[Any] | None = ...,
) -> tuple[GraphTensor, ...]: ...
@overload
def split(
    input: ArrayOperand,
    *,
    axis: int,
    output_axis_sizes: Sequence[int],
    device: Device | None = ...,
    out: Sequence[Any] | None = ...,
) -> tuple[Array, ...]: ...
@overload
def sqrt(
    input: GraphTensor,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def sqrt(
    input: ArrayOperand,
    *,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def squeeze(input: GraphTensor, axis: int | Sequence[int] | None = ...) -> GraphTensor: ...
@overload
def squeeze(input: ArrayOperand, axis: int | Sequence[int] | None = ...) -> Array: ...
@overload
def subtract(a: GraphTensor, b: Operand, *, device: Device | Graph | None = ..., out: Any = ...) -> GraphTensor: ...
@overload
def subtract(
    a: ArrayOperand, b: GraphTensor, *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def subtract(a: ArrayOperand, b: ArrayOperand, *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def tan(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def tan(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def tanh(
    input: GraphTensor, *, scale_bias: Factors = ..., device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def tanh(input: ArrayOperand, *, scale_bias: Factors = ..., device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def threshold(
    input: GraphTensor,
    *,
    min: float,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def threshold(
    input: ArrayOperand,
    *,
    min: float,
    scale_bias: ScaleBias | tuple[float, float] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def tile(
    input: GraphTensor, repeats: Sequence[int], *, device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def tile(input: ArrayOperand, repeats: Sequence[int], *, device: Device | None = ..., out: Any = ...) -> Array: ...
@overload
def top_k(
    input: GraphTensor,
    *,
    axis: int,
    k: int,
    axis_direction: AxisDirection | str = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> TopKOutputs[GraphTensor]: ...
@overload
def top_k(
    input: ArrayOperand,
    *,
    axis: int,
    k: int,
    axis_direction: AxisDirection | str = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> TopKOutputs[Array]: ...
@overload
def transpose(input: GraphTensor, axes: Sequence[int] | None = ...) -> GraphTensor: ...
@overload
def transpose(input: ArrayOperand, axes: Sequence[int] | None = ...) -> Array: ...
@overload
def unfold(
    input: GraphTensor,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def unfold(
    input: ArrayOperand,
    *,
    window_sizes: Sequence[int],
    strides: Sequence[int] | None = ...,
    start_padding: Sequence[int] | None = ...,
    end_padding: Sequence[int] | None = ...,
    dilations: Sequence[int] | None = ...,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def upsample_2d(
    input: GraphTensor,
    *,
    scale_size: Size2D | tuple[int, int],
    interpolation_mode: InterpolationMode | str,
    device: Device | Graph | None = ...,
    out: Any = ...,
) -> GraphTensor: ...
@overload
def upsample_2d(
    input: ArrayOperand,
    *,
    scale_size: Size2D | tuple[int, int],
    interpolation_mode: InterpolationMode | str,
    device: Device | None = ...,
    out: Any = ...,
) -> Array: ...
@overload
def value_scale_2d(
    input: GraphTensor, *, scale: float, bias: Sequence[float], device: Device | Graph | None = ..., out: Any = ...
) -> GraphTensor: ...
@overload
def value_scale_2d(
    input: ArrayOperand, *, scale: float, bias: Sequence[float], device: Device | None = ..., out: Any = ...
) -> Array: ...
