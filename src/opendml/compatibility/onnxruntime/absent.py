"""Names of onnxruntime that are not here, and why: whoever asks for one is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn, TypeVar

from opendml.description.errors import UnknownNameError

__all__ = ["ABSENT", "MODULE", "explains_what_is_absent", "refuse"]

T = TypeVar("T")

MODULE: Final = "onnxruntime"

_ADAPTERS: Final = "weights are those of the model's file, so there are no adapters"
_ALLOCATORS: Final = "a program's memory is planned when it is compiled, so there are no allocators to choose"
_CAPTURE: Final = "programs of graphics cards are captured graphs by themselves"
_COMPILED: Final = "models are compiled to native code when a session is made, and kept in opendml's cache"
_DEVICES: Final = "the provider's option device names a dml.Device, and dml.devices() lists those that there are"
_PACKAGES: Final = (
    "packages of a model's variants for several providers are not read: a model is compiled for its device"
)
_PLUGINS: Final = "providers of other libraries do not run here"
_PROFILE: Final = "nothing is profiled while running; dml.profile and opendml profile show where time goes"
_SPARSE: Final = "DirectML has no sparse tensors"
_TUNING: Final = "schedules follow from the machine, there is nothing that is tuned while running"
_VECTORS: Final = "vectors of values belong to onnxruntime's extension module; lists of OrtValue take their place"
_WEIGHTS: Final = "weights are those of the model's file"

ABSENT: Final[Mapping[str, Mapping[str, str]]] = {
    MODULE: {
        "AdapterFormat": _ADAPTERS,
        "LoraAdapter": _ADAPTERS,
        "ModelCompiler": _COMPILED,
        "ModelPackage": _PACKAGES,
        "ModelPackageComponentContext": _PACKAGES,
        "ModelPackageContext": _PACKAGES,
        "ModelPackageOptions": _PACKAGES,
        "ModelPackageWriteMode": _PACKAGES,
        "OrtAllocatorType": _ALLOCATORS,
        "OrtArenaCfg": _ALLOCATORS,
        "OrtCompileApiFlags": _COMPILED,
        "OrtEpAssignedNode": _DEVICES,
        "OrtEpAssignedSubgraph": _DEVICES,
        "OrtEpContextData": _COMPILED,
        "OrtEpContextDataBuffer": _COMPILED,
        "OrtEpDevice": _DEVICES,
        "OrtExecutionProviderDevicePolicy": _DEVICES,
        "OrtExternalInitializerInfo": _WEIGHTS,
        "OrtHardwareDevice": _DEVICES,
        "OrtHardwareDeviceType": _DEVICES,
        "OrtMemType": _ALLOCATORS,
        "OrtMemoryInfo": _ALLOCATORS,
        "OrtMemoryInfoDeviceType": _ALLOCATORS,
        "OrtSparseFormat": _SPARSE,
        "OrtSyncStream": "a run is over when it returns, so there are no streams to wait for",
        "SparseTensor": _SPARSE,
        "create_and_register_allocator": _ALLOCATORS,
        "create_and_register_allocator_v2": _ALLOCATORS,
        "get_ep_devices": _DEVICES,
        "import_capi_exception": "there is no extension module whose import could fail",
        "onnxruntime_validation": "it asks which systems onnxruntime's extension module runs on",
        "register_execution_provider_library": _PLUGINS,
        "set_default_logger_callback": "nothing is logged, so there is nothing to call with",
        "unregister_execution_provider_library": _PLUGINS,
    },
    "InferenceSession": {
        "get_input_epdevices": _DEVICES,
        "get_input_memory_infos": _ALLOCATORS,
        "get_output_memory_infos": _ALLOCATORS,
        "get_profiling_start_time_ns": _PROFILE,
        "get_provider_graph_assignment_info": "all nodes of a session run on its one device",
        "get_tuning_results": _TUNING,
        "release_captured_graph": _CAPTURE,
        "run_with_ortvaluevector": _VECTORS,
        "set_ep_dynamic_options": _DEVICES,
        "set_tuning_results": _TUNING,
    },
    "SessionOptions": {
        "add_external_initializers_from_files_in_memory": _WEIGHTS,
        "add_provider_for_devices": _DEVICES,
        "clear_ep_context_data_read_func": _COMPILED,
        "set_ep_context_data_read_func": _COMPILED,
        "set_provider_selection_policy": _DEVICES,
        "set_provider_selection_policy_delegate": _DEVICES,
    },
    "RunOptions": {"add_active_adapter": _ADAPTERS},
    "OrtValue": {"as_sparse_tensor": _SPARSE, "ort_value_from_sparse_tensor": _SPARSE},
    "IOBinding": {"get_outputs_as_ortvaluevector": _VECTORS},
}
"""Of the module and of its classes the names that are missing, each with its reason."""


class _Absent:
    """An attribute that there is not: ``hasattr`` is false, and asking for it says why."""

    def __init__(self, name: str, reason: str) -> None:
        self.name, self.reason = name, reason

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise UnknownNameError(f"{self.name} is not here: {self.reason}")


def explains_what_is_absent(kind: type[T]) -> type[T]:
    """A class that says of its missing members why they are."""
    for name, reason in ABSENT[kind.__name__].items():
        setattr(kind, name, _Absent(f"{kind.__name__}.{name}", reason))
    return kind


def refuse(module: str, name: str) -> NoReturn:
    """Raises UnknownNameError, an AttributeError, for a name that a module does not have."""
    reason = ABSENT[MODULE].get(name)
    if reason is None:
        raise UnknownNameError(f"module {module!r} has no attribute {name!r}")
    raise UnknownNameError(f"{MODULE}.{name} is not here: {reason}")
