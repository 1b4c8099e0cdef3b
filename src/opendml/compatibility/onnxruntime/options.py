"""Options of sessions and runs. What means something here is done, what would give a file or other code is refused.

The number of threads (``intra_op_num_threads``) and sizes of free dimensions count. Arenas, patterns of memory, orders
of execution and levels of optimisation change nothing: a program is compiled whole, its memory is planned.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NoReturn

from opendml.compatibility.onnxruntime import errors
from opendml.compatibility.onnxruntime.absent import explains_what_is_absent
from opendml.compatibility.onnxruntime.providers import AVAILABLE
from opendml.formats.onnx.choices import fuses_quantization

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "RunOptions",
    "SessionOptions",
    "set_global_thread_pool_sizes",
]


class GraphOptimizationLevel(enum.Enum):
    """Programs are always optimised, which never changes a bit; what quantised nodes are depends on the level."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(enum.Enum):
    """Accepted; a program's kernels run one after another, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(enum.Enum):
    """Accepted; the order is planned when a program is compiled."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Options:
    """Attributes of fixed names and types, and configuration entries of text."""

    __slots__ = ("_entries",)
    _DEFAULTS: ClassVar[dict[str, Any]] = {}
    _entries: dict[str, str]

    def __init__(self) -> None:
        object.__setattr__(self, "_entries", {})
        for name, value in self._DEFAULTS.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._DEFAULTS:
            raise AttributeError(f"{type(self).__name__} has no option {name!r}, only {', '.join(self._DEFAULTS)}")
        expected = type(self._DEFAULTS[name])
        if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
            raise TypeError(f"{type(self).__name__}.{name}: expected {expected.__name__}, got {value!r}")
        object.__setattr__(self, name, value)

    def _add_entry(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"a configuration entry is text, got {key!r}: {value!r}")
        self._entries[key] = value

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise errors.ExecutionError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._entries[key]


_GLOBAL_THREADS: Final = {"intra_op": 0}


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Threads of programs of sessions whose option ``use_per_session_threads`` is off; 0 for the usual number."""
    _GLOBAL_THREADS["intra_op"] = _checked_size(intra_op_num_threads)


@explains_what_is_absent
class SessionOptions(_Options):
    """onnxruntime's options, with its defaults.

    ``intra_op_num_threads``: threads of a program, 0 for the usual number; without ``use_per_session_threads`` those
    of ``set_global_thread_pool_sizes``. ``add_provider`` counts where a session is given no providers.
    ``add_free_dimension_override_by_name`` and ``..._by_denotation``: sizes of dimensions that the model leaves open,
    for which a session compiles at once.
    ``enable_profiling``, ``optimized_model_filepath`` and foreign code are refused when a session is made. The entry
    ``session.disable_quant_qdq`` and a ``graph_optimization_level`` below ORT_ENABLE_EXTENDED leave nodes between
    DequantizeLinear and QuantizeLinear in float32, as they do there. All others are accepted and change nothing.
    """

    __slots__ = (
        "canceled",
        "denotation_sizes",
        "dimension_sizes",
        "enable_cpu_mem_arena",
        "enable_mem_pattern",
        "enable_mem_reuse",
        "enable_profiling",
        "execution_mode",
        "execution_order",
        "graph_optimization_level",
        "inter_op_num_threads",
        "intra_op_num_threads",
        "log_severity_level",
        "log_verbosity_level",
        "logid",
        "optimized_model_filepath",
        "profile_file_prefix",
        "providers",
        "use_deterministic_compute",
        "use_per_session_threads",
    )
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    enable_profiling: bool
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    graph_optimization_level: GraphOptimizationLevel
    inter_op_num_threads: int
    intra_op_num_threads: int
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    optimized_model_filepath: str
    profile_file_prefix: str
    use_deterministic_compute: bool
    use_per_session_threads: bool
    dimension_sizes: dict[str, int]
    denotation_sizes: dict[str, int]
    providers: dict[str, dict[str, str]]
    canceled: bool

    _DEFAULTS: ClassVar[dict[str, Any]] = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "dimension_sizes", {})
        object.__setattr__(self, "denotation_sizes", {})
        object.__setattr__(self, "providers", {})
        object.__setattr__(self, "canceled", False)

    @property
    def thread_count(self) -> int:
        """The threads that were asked for; 0 for the usual number."""
        return self.intra_op_num_threads if self.use_per_session_threads else _GLOBAL_THREADS["intra_op"]

    def add_free_dimension_override_by_name(self, name: str, size: int, /) -> None:
        """The size of all dimensions of a name."""
        self.dimension_sizes[name] = _checked_size(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int, /) -> None:
        """The size of all dimensions of a denotation, such as ``DATA_BATCH``."""
        self.denotation_sizes[denotation] = _checked_size(size)

    def add_session_config_entry(self, key: str, value: str, /) -> None:
        """Keeps an entry; ``session.disable_quant_qdq`` alone changes anything here."""
        self._add_entry(key, value)

    @property
    def fuses_quantization(self) -> bool:
        """Whether products between DequantizeLinear and QuantizeLinear are those of integers."""
        return fuses_quantization(self.graph_optimization_level.value, self._entries)

    def get_session_config_entry(self, key: str, /) -> str:
        """An entry that was added. Raises ExecutionError, a RuntimeError, where there is none."""
        return self._entry(key)

    def add_provider(self, name: str, options: Mapping[str, str], /) -> None:
        """One more provider of sessions that are given none. Raises ExecutionError for one that there is not."""
        if name not in AVAILABLE:
            raise errors.ExecutionError(f"Unknown Provider Type: {name}")
        self.providers[name] = dict(options)

    def has_providers(self) -> bool:
        """Whether providers were added to the options."""
        return bool(self.providers)

    def set_load_cancellation_flag(self, canceled: bool, /) -> None:
        """Whether sessions with these options refuse to be made, by ModelLoadCanceled."""
        object.__setattr__(self, "canceled", bool(canceled))

    def register_custom_ops_library(self, path: str, /) -> NoReturn:
        """Refused: operators of a library's code are not DirectML's."""
        raise errors.NotImplemented(
            f"register_custom_ops_library({str(path)!r}): operators of foreign libraries do not run here"
        )

    def add_initializer(self, name: str, value: object, /) -> NoReturn:
        """Refused: weights are those of the file."""
        raise errors.NotImplemented(f"add_initializer({name!r}): weights are those of the model's file")

    def add_external_initializers(self, names: object, values: object, /) -> NoReturn:
        """Refused: weights are those of the file."""
        raise errors.NotImplemented("add_external_initializers: weights are those of the model's file")

    def check(self) -> None:
        """Raises NotImplemented for what a session cannot do, ModelLoadCanceled where none is wanted."""
        if self.canceled:
            raise errors.ModelLoadCanceled("loading is canceled by SessionOptions.set_load_cancellation_flag")
        if self.enable_profiling:
            cure = "opendml profile MODEL.onnx, and dml.profile, show where time goes"
            raise errors.NotImplemented(f"SessionOptions.enable_profiling: no file is written while running; {cure}")
        if self.optimized_model_filepath:
            raise errors.NotImplemented(
                "SessionOptions.optimized_model_filepath: models are compiled to native code, not to other models; "
                "OnnxModel.describe gives the graph of DirectML's operators, which dml.save writes"
            )


@explains_what_is_absent
class RunOptions(_Options):
    """onnxruntime's options of one run, with its defaults; ``terminate`` stops a run before it begins."""

    __slots__ = ("log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches", "terminate")
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    only_execute_path_to_fetches: bool
    terminate: bool

    _DEFAULTS: ClassVar[dict[str, Any]] = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }

    def add_run_config_entry(self, key: str, value: str, /) -> None:
        """Keeps an entry; none changes anything here."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str, /) -> str:
        """An entry that was added. Raises ExecutionError, a RuntimeError, where there is none."""
        return self._entry(key)


def _checked_size(size: object) -> int:
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise TypeError(f"the size of a dimension is a number from 0 on, got {size!r}")
    return size
