"""Targets by the names of devices. A target's module is imported when one of its devices is asked for."""

from __future__ import annotations

import importlib
from typing import Any, Final, NamedTuple, cast

from opendml.description.errors import ConfigurationError
from opendml.description.quoting import quoted
from opendml.targets.target import DeviceDescription, Target, TargetModule


class TargetKind(NamedTuple):
    """Where a kind of targets is. ``is_numbered``: whether there may be several devices of it, or none;
    ``has_threads``: whether threads of this process run its programs."""

    module: str
    is_numbered: bool
    has_threads: bool


KINDS: Final[dict[str, TargetKind]] = {
    "cpu": TargetKind("opendml.targets.cpu.processor", is_numbered=False, has_threads=True),
    "opencl": TargetKind("opendml.targets.opencl.target", is_numbered=True, has_threads=False),
}
"""A target is added by a line here and by its folder."""


class TargetName(NamedTuple):
    """The name of a device taken apart."""

    kind: str
    number: int

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}" if KINDS[self.kind].is_numbered else self.kind


def parse_target_name(name: str) -> TargetName | None:
    """``"opencl:1"`` taken apart; ``"opencl"`` is ``"opencl:0"``. None for what is no target's name."""
    kind, colon, number = name.partition(":")
    if kind not in KINDS:
        return None
    if not colon:
        return TargetName(kind, 0)
    is_number = number.isascii() and number.isdigit() and len(number) < 5
    return TargetName(kind, int(number)) if is_number and KINDS[kind].is_numbered else None


def has_threads(name: str) -> bool:
    """Whether threads of this process run the programs of a device; others have threads of their own."""
    parsed = parse_target_name(name)
    return parsed is not None and KINDS[parsed.kind].has_threads


def find_target(name: str, tuning: Any = None) -> Target:
    """The target of a device. Raises ConfigurationError for a name that no target has, or where it is not there."""
    parsed = parse_target_name(name)
    if parsed is None:
        raise ConfigurationError(f"unknown target {quoted(name)}")
    return _module_of(parsed.kind).open_target(parsed.number, tuning)


def describe_devices() -> list[DeviceDescription]:
    """The devices of all targets that there are here."""
    return [device for kind in KINDS for device in _module_of(kind).describe_devices()]


def _module_of(kind: str) -> TargetModule:
    return cast(TargetModule, importlib.import_module(KINDS[kind].module))
