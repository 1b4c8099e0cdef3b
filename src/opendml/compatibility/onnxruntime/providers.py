"""Providers: where a session runs. DirectML's and the processor's are the same here, and any other falls back."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from opendml.compatibility.onnxruntime.errors import InvalidArgument
from opendml.description.enums import ExecutionFlags
from opendml.description.errors import ConfigurationError
from opendml.programs.device import Device

__all__ = ["AVAILABLE", "Provider", "chosen_providers", "device_of", "flags_of", "is_set"]

AVAILABLE: Final = ("DmlExecutionProvider", "CPUExecutionProvider")

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
    chosen.setdefault(AVAILABLE[-1], {})
    return chosen


def device_of(chosen: Mapping[str, Mapping[str, str]], thread_count: int) -> Device:
    """The device of a session: the processor, or what the first provider's option ``device`` names.

    DirectML's own options (``device_id``, ``performance_preference``, ``device_filter`` ...) choose among graphics
    cards and change nothing here, but for ``disable_metacommands``. ``feature_level`` is the device's. Raises
    InvalidArgument.
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
