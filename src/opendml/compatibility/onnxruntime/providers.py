"""Providers: where a session runs. DirectML's and the processor's are the same here, and any other falls back."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opendml.compatibility.onnxruntime.errors import InvalidArgument
from opendml.description.enums import ExecutionFlags
from opendml.description.errors import ConfigurationError
from opendml.description.names import did_you_mean
from opendml.description.quoting import quoted
from opendml.programs.device import Device

__all__ = ["AVAILABLE", "OPTIONS", "Provider", "chosen_providers", "device_of", "flags_of", "is_set"]

AVAILABLE: Final = ("DmlExecutionProvider", "CPUExecutionProvider")

_SWITCH: Final = ("true", "false", "1", "0")
_DIRECTX: Final = "Accepted: it chooses among DirectX's adapters, here the option `device` chooses."


class ProviderOption(NamedTuple):
    """What an option of a provider does here, and its values in small letters; () for any text."""

    effect: str
    values: tuple[str, ...] = ()


OPTIONS: Final[Mapping[str, ProviderOption]] = {
    "device": ProviderOption("Our own: where the session runs, the name of a `dml.Device`, such as `cpu` or `opencl`."),
    "feature_level": ProviderOption("Our own: the device's feature level, such as `5_0`."),
    "narrow_float64": ProviderOption(
        "Our own: computes in float32 what DirectML does not have in float64; onnxruntime leaves it to the processor.",
        _SWITCH,
    ),
    "disable_metacommands": ProviderOption(
        "Keeps products of float16 off a GPU's matrix units, as `DISABLE_META_COMMANDS` does.", _SWITCH
    ),
    "device_id": ProviderOption(_DIRECTX),
    "performance_preference": ProviderOption(_DIRECTX, ("default", "high_performance", "minimum_power")),
    "device_filter": ProviderOption(_DIRECTX, ("any", "gpu", "npu")),
    "enable_graph_capture": ProviderOption(
        "Accepted: a program is one native function, which starts all kernels by itself.", _SWITCH
    ),
    "enable_graph_serialization": ProviderOption(
        "Accepted, and no file is written: `dml.save` writes the graph that `OnnxModel.describe` gives.", _SWITCH
    ),
    "disable_memory_arena": ProviderOption("Accepted: memory is planned when a program is compiled.", _SWITCH),
    "arena_extend_strategy": ProviderOption("Accepted: memory is planned when a program is compiled."),
    "use_arena": ProviderOption("Accepted: memory is planned when a program is compiled."),
    "enable_cpu_sync_spinning": ProviderOption("Accepted: a run is over when it returns.", _SWITCH),
}
"""The options of both providers."""

Provider = str | tuple[str, Mapping[str, Any]]


def chosen_providers(
    providers: Sequence[Provider] | None, options: Sequence[Mapping[str, Any]] | None
) -> dict[str, dict[str, str]]:
    """The providers of a session and their options, the processor's always among them, as in onnxruntime.

    Those that there are not are left out with a warning. Raises ValueError for lists that do not belong together.
    """
    given = list(providers or AVAILABLE)
    if options is not None and len(options) != len(given):
        raise InvalidArgument("'providers' and 'provider_options' should be the same length if both are given.")
    chosen: dict[str, dict[str, str]] = {}
    for place, provider in enumerate(given):
        name, own = (provider, {}) if isinstance(provider, str) else provider
        if not isinstance(name, str):
            raise InvalidArgument(f"a provider is a name, or a name with options, got {provider!r}")
        if name not in AVAILABLE:
            shown = ", ".join(AVAILABLE)
            warnings.warn(
                f"Specified provider {name!r} is not in available provider names. Available providers: {shown!r}",
                stacklevel=4,
            )
        elif name in chosen:
            warnings.warn(f"Duplicate provider {name!r} encountered, ignoring.", stacklevel=4)
        else:
            both = {**dict(own), **(options[place] if options is not None else {})}
            chosen[name] = {str(key): str(value) for key, value in both.items()}
            _check_options(name, chosen[name])
    chosen.setdefault(AVAILABLE[-1], {})
    return chosen


def _check_options(provider: str, options: Mapping[str, str]) -> None:
    """Warns of options that there are not. Raises InvalidArgument for values that mean nothing."""
    for name, value in options.items():
        option = OPTIONS.get(name)
        if option is None:
            shown = f"{quoted(name)}{did_you_mean(name, OPTIONS)}"
            warnings.warn(f"{provider} has no option {shown}; it changes nothing", stacklevel=5)
        elif option.values and value.lower() not in option.values:
            raise InvalidArgument(
                f"provider options: {name}: expected {' or '.join(option.values)}, got {quoted(value)}"
            )


def device_of(chosen: Mapping[str, Mapping[str, str]], thread_count: int) -> Device:
    """The device of a session: the processor, or what the first provider's option ``device`` names.

    ``OPTIONS`` says what others do. Raises InvalidArgument.
    """
    first = next(iter(chosen.values()), {})
    name = first.get("device", "cpu")
    try:
        threads = thread_count if thread_count > 0 and name == "cpu" else None
        return Device(name, feature_level=first.get("feature_level", "6_4"), thread_count=threads)
    except ConfigurationError as error:
        raise InvalidArgument(f"provider options: {error}") from None


def is_set(chosen: Mapping[str, Mapping[str, str]], option: str) -> bool:
    """Whether an option of the first provider is set: ``1`` or ``true``."""
    return next(iter(chosen.values()), {}).get(option, "").lower() in ("1", "true")


def flags_of(chosen: Mapping[str, Mapping[str, str]]) -> ExecutionFlags:
    """DirectML's flags: ``disable_metacommands`` keeps products of float16 off matrix units."""
    return ExecutionFlags.DISABLE_META_COMMANDS if is_set(chosen, "disable_metacommands") else ExecutionFlags.NONE
