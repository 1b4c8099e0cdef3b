"""What operators are called elsewhere: by NumPy, PyTorch, ONNX and WebNN. Asked only when a name is not found here."""

from __future__ import annotations

import re
from typing import Final

from opendml.description.enums import OperatorType
from opendml.description.names import did_you_mean, plain
from opendml.description.quoting import quoted
from opendml.operators import class_name, implemented, unavailable

HERE: Final = {
    "adam_optimizer": "adam adamw",
    "activation_elu": "elu",
    "activation_celu": "celu",
    "activation_gelu": "gelu",
    "activation_hard_sigmoid": "hardsigmoid hard_sigmoid",
    "activation_hard_swish": "hardswish hard_swish",
    "activation_hardmax": "hardmax",
    "activation_leaky_relu": "leaky_relu leakyrelu",
    "activation_linear": "linear",
    "activation_log_softmax": "log_softmax logsoftmax",
    "activation_parameterized_relu": "prelu",
    "activation_relu": "relu",
    "activation_scaled_elu": "selu",
    "activation_shrink": "shrink hardshrink softshrink",
    "activation_sigmoid": "sigmoid logistic expit",
    "activation_softmax": "softmax",
    "activation_softplus": "softplus",
    "activation_softsign": "softsign",
    "activation_swish": "silu swish",
    "activation_thresholded_relu": "thresholded_relu",
    "argmax(x, axes=[...])": "arg_max",
    "argmin(x, axes=[...])": "arg_min",
    "atan_yx": "atan2 arctan2",
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atanh": "arctanh",
    "average_pooling": "avg_pool avg_pool2d average_pool average_pool_2d average_pool2d global_average_pool",
    "average_pooling_grad": "avg_pool2d_backward",
    "batch_normalization": "batch_norm",
    "batch_normalization_training_grad": "batch_norm_backward native_batch_norm_backward",
    "bit_and": "bitwise_and",
    "bit_not": "bitwise_not invert",
    "bit_or": "bitwise_or",
    "bit_shift_left": "left_shift bitwise_left_shift",
    "bit_shift_right": "right_shift bitwise_right_shift",
    "bit_xor": "bitwise_xor",
    "cast": "astype to cast_like",
    "clip": "clamp minimum_maximum",
    "convolution": "conv conv1d conv2d conv3d conv_transpose conv_transpose2d",
    "convolution_integer": "conv_integer",
    "cumulative_product": "cumprod cumulative_prod",
    "cumulative_summation": "cumsum cumulative_sum",
    "dequantize_linear": "dequantize_per_tensor",
    "depth_to_space": "pixel_shuffle",
    "diagonal_matrix": "diag eye eye_like trilu triangular tril triu",
    "difference_square": "squared_difference",
    "divide": "div true_divide",
    "dynamic_quantize_linear": "dynamic_quantize",
    "equals": "equal eq",
    "fill_value_constant": "full full_like zeros ones fill constant_of_shape",
    "fill_value_sequence": "arange linspace range",
    "floor": "trunc",
    "fold": "col2im",
    "gather": "take index_select embedding",
    "gather_elements": "take_along_axis take_along_dim",
    "gemm": "matmul mm bmm addmm dot inner linear_layer",
    "greater_than": "greater gt",
    "greater_than_or_equal": "greater_equal greater_or_equal ge",
    "gru": "gru_cell",
    "identity": "copy clone",
    "if_": "where select",
    "is_infinity": "isinf is_inf",
    "is_nan": "isnan",
    "join": "concat concatenate cat stack hstack vstack",
    "less_than": "less lt",
    "less_than_or_equal": "less_equal less_or_equal lesser_or_equal le",
    "local_response_normalization": "lrn local_response_norm",
    "lp_normalization": "normalize",
    "lp_pooling": "lp_pool lp_pool2d l2_pool_2d l2_pool2d",
    "matrix_multiply_integer": "matmul_integer",
    "matrix_multiply_integer_to_float": "matmul_integer_to_float",
    "lstm": "lstm_cell",
    "max": "maximum",
    "max_pooling": "max_pool max_pool2d max_pool_2d global_max_pool",
    "max_pooling_grad": "max_pool2d_backward max_pool2d_with_indices_backward",
    "max_unpooling": "max_unpool max_unpool2d",
    "mean_variance_normalization": "layer_norm layer_normalization instance_norm instance_normalization group_norm "
    "group_normalization rms_norm",
    "min": "minimum",
    "modulus_floor": "mod remainder floor_mod",
    "modulus_truncate": "fmod",
    "multihead_attention": "attention multi_head_attention scaled_dot_product_attention group_query_attention",
    "multiply": "mul",
    "negate": "neg negative",
    "one_hot": "onehot",
    "padding": "pad",
    "pow": "power square",
    "quantize_linear": "quantize_per_tensor",
    "quantized_linear_average_pooling": "qlinear_average_pool",
    "quantized_linear_convolution": "qlinear_conv",
    "quantized_linear_matrix_multiply": "qlinear_matmul",
    "recip": "reciprocal rsqrt",
    'reduce(x, "AVERAGE")': "reduce_mean average nanmean",
    'reduce(x, "L1")': "reduce_l1",
    'reduce(x, "L2")': "reduce_l2 norm",
    'reduce(x, "LOG_SUM")': "reduce_log_sum",
    'reduce(x, "LOG_SUM_EXP")': "logsumexp reduce_log_sum_exp",
    'reduce(x, "MAX")': "amax reduce_max",
    'reduce(x, "MIN")': "amin reduce_min",
    'reduce(x, "MULTIPLY")': "prod product reduce_prod reduce_product",
    'reduce(x, "SUM")': "sum reduce_sum",
    'reduce(x, "SUM_SQUARE")': "reduce_sum_square",
    "nonzero_coordinates": "nonzero argwhere non_zero",
    "random_generator": "rand random random_uniform philox",
    "resample": "resize interpolate upsample resample2d",
    "reverse_subsequences": "flip reverse reverse_sequence",
    "rnn": "rnn_cell elman",
    "roi_align": "crop_and_resize",
    "roi_align_grad": "crop_and_resize_grad_image crop_and_resize_grad_boxes",
    "roi_pooling": "roi_pool max_roi_pool",
    "scatter_elements": "scatter put_along_axis",
    "scatter_nd": "index_put",
    "space_to_depth": "pixel_unshuffle",
    "subtract": "sub",
    "threshold": "relu_threshold",
    "tile": "repeat",
    "top_k(x, axis=..., k=...)": "topk sort argsort argpartition partition",
    "unfold": "im2col",
}
"""The names elsewhere of each function here. Where one function does several things, it is shown as called."""


def explain_missing(name: str, known: list[str]) -> str:
    """Why the package has no such name, and what is meant by it; ``known`` are the names that it has."""
    missing = f"module 'opendml' has no attribute {quoted(name)}"
    wanted = plain(name)
    for call, names in HERE.items():
        if wanted in map(plain, names.split()):
            return f"{missing}; here it is dml.{call}"
    operator_type = _operator_type(wanted)
    if operator_type is None or wanted in map(plain, known):
        return f"{missing}{did_you_mean(name, known)}"
    if operator_type not in implemented():
        return unavailable(operator_type)
    return f"{missing}; the descriptor is dml.operators.{class_name(operator_type)}"


def _operator_type(wanted: str) -> OperatorType | None:
    """The operator of a name, without its version or with any, that exists here or not."""
    same = [member for member in OperatorType if member and wanted in (plain(member.name), _unversioned(member.name))]
    return max(same, default=None)


def _unversioned(name: str) -> str:
    return plain(re.sub(r"(?<!_)\d$", "", name.removeprefix("ELEMENT_WISE_").removeprefix("ACTIVATION_")))
