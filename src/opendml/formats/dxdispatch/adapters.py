"""What models can run on: DxDispatch's adapters. The processor, compiled for or interpreted, and others."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from opendml.description.errors import UnknownAdapterError
from opendml.description.quoting import quoted
from opendml.llvm.host import default_thread_count, usable_processors
from opendml.targets.registry import describe_devices, parse_target_name

__all__ = ["Adapter", "available", "select"]


@dataclass(frozen=True, slots=True)
class Adapter:
    """Something that programs run on.

    Attributes:
        device: the name to open it by: ``opendml.Device(adapter.device)``.
        description: its name to people.
        properties: what else there is to say.
    """

    device: str
    description: str
    properties: tuple[tuple[str, str], ...]

    @property
    def detailed_description(self) -> str:
        """The description and a line a property."""
        return "\n".join([self.description, *(f"-{name}: {value}" for name, value in self.properties)])


def available() -> list[Adapter]:
    """All adapters of this machine, the preferred one first."""
    return list(_adapters())


def _adapters() -> Iterator[Adapter]:
    """The processor, its interpreter, and then what has to be looked for, which takes a while."""
    properties = (
        ("Device", "cpu"),
        ("Architecture", platform.machine()),
        ("Processors", str(usable_processors())),
        ("Threads", str(default_thread_count())),
    )
    yield Adapter("cpu", _processor_name(), properties)
    reference = (("Device", "reference"), ("Threads", "1"))
    yield Adapter("reference", "Interpreter of the operators' definitions", reference)
    for found in describe_devices():
        if found.name != "cpu":
            yield Adapter(found.name, found.description, (("Device", found.name), *found.properties))


def select(part: str = "", device: str | None = None) -> Adapter:
    """The first adapter whose description or device contains `part`, in any letter case, and whose device is `device`.

    Raises:
        UnknownAdapterError: there is none.
    """
    parsed = None if device is None else parse_target_name(device)
    wanted = device if parsed is None else str(parsed)
    refused = []
    for adapter in _adapters():
        if wanted in (None, adapter.device):
            if part.casefold() in f"{adapter.device} {adapter.description}".casefold():
                return adapter
            refused.append(adapter)
    if not refused:
        devices = ", ".join(adapter.device for adapter in _adapters())
        raise UnknownAdapterError(f"no device {quoted(device)}; there are: {devices}")
    names = ", ".join(quoted(adapter.description) for adapter in refused)
    raise UnknownAdapterError(f"no adapter matches {quoted(part)}; there are: {names}")


def _processor_name() -> str:
    """The processor's own name where the operating system tells it."""
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() == "model name" and value.strip():
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "cpu"
