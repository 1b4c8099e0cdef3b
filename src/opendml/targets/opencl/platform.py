"""OpenCL as it is found here: runtimes, devices, and what these guarantee about arithmetic.

Devices are those of every OpenCL platform that is installed, in its order, as far as they take SPIR-V. Intel's runtime
for processors is on PyPI; its wheel puts it where no loader looks for it, so it is named to the loader here, unless the
user has chosen runtimes by the loader's environment variables.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.metadata
import importlib.util
import os
import tempfile
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from opendml.description.errors import ConfigurationError, DeviceError, OutOfMemoryError
from opendml.targets.opencl.machine import OpenClMachine
from opendml.targets.target import DeviceDescription

VENDOR_VARIABLES: Final = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES", "OPENCL_VENDOR_PATH")
"""By which users tell loaders of OpenCL where its runtimes are."""

RUNTIME_PACKAGES: Final = {
    "tbb": ("libtbb.so.12",),
    "intel-cmplr-lib-rt": ("libintlc.so.5", "libirng.so", "libimf.so", "libsvml.so"),
    "intel-opencl-rt": ("libintelocl.so",),
}
"""Packages of Intel's runtime for processors, and the libraries of them that the last one needs to find loaded."""

SYSTEM_VENDORS: Final = Path("/etc/OpenCL/vendors")

_lock: Final = threading.RLock()


@dataclass(frozen=True, slots=True)
class Opened:
    """A device, and what a program needs of it in this process."""

    machine: OpenClMachine
    device: Any
    context: Any
    queue: Any


def has_pyopencl() -> bool:
    """Whether pyopencl is installed."""
    return importlib.util.find_spec("pyopencl") is not None


def describe_device(number: int) -> DeviceDescription:
    """A device, for people."""
    device = find_devices()[number]
    machine = machine_of(device)
    facts = (
        ("Platform", machine.platform),
        ("Driver", machine.driver),
        ("Version", device.version.strip()),
        ("Memory", f"{device.global_mem_size} bytes, DLPack's kDLOpenCL {number}"),
        ("FLOAT64", "yes" if machine.has_float64 else "no"),
    )
    return DeviceDescription(f"opencl:{number}", machine.device, facts)


def opened(number: int) -> Opened:
    """A context and a queue of a device, the same for all programs of this process."""
    with _lock:
        return _opened(number)


@functools.cache
def _opened(number: int) -> Opened:
    cl, device = pyopencl_module(), find_devices()[number]
    with driver_errors():
        context = cl.Context([device])
        return Opened(machine_of(device), device, context, cl.CommandQueue(context))


def opened_with_clock(number: int) -> Opened:
    """The same device and context with another queue, whose commands record when they run."""
    with _lock:
        return _opened_with_clock(number)


@functools.cache
def _opened_with_clock(number: int) -> Opened:
    cl, device = pyopencl_module(), opened(number)
    with driver_errors():
        properties = cl.command_queue_properties.PROFILING_ENABLE
        return replace(device, queue=cl.CommandQueue(device.context, properties=properties))


@contextlib.contextmanager
def driver_errors() -> Iterator[None]:
    """Inside, what a driver complains of is an error of this package."""
    cl = pyopencl_module()
    try:
        yield
    except cl.MemoryError as error:
        raise OutOfMemoryError(f"the device has no memory: {error}") from error
    except cl.Error as error:
        if error.code == cl.status_code.INVALID_BUFFER_SIZE:
            raise OutOfMemoryError(f"the device has no memory for so large a tensor: {error}") from error
        raise DeviceError(f"the device's driver refused to run the program: {error}") from error


@functools.cache
def machine_of(device: Any) -> OpenClMachine:
    """The facts of a device."""
    cl = pyopencl_module()
    single, flags = device.single_fp_config, cl.device_fp_config
    return OpenClMachine(
        platform=device.platform.name.strip(),
        device=device.name.strip(),
        driver=device.driver_version.strip(),
        has_denormals=bool(single & flags.DENORM),
        has_specials=bool(single & flags.INF_NAN),
        rounds_to_nearest=bool(single & flags.ROUND_TO_NEAREST),
        is_little_endian=bool(device.endian_little),
        divides_exactly=bool(single & flags.CORRECTLY_ROUNDED_DIVIDE_SQRT),
        has_float64=bool(device.double_fp_config),
    )


@functools.cache
def find_devices() -> list[Any]:
    """All devices that take SPIR-V."""
    with _lock:
        cl = pyopencl_module()
        found = []
        # A loader that finds no platform says so by an error.
        with contextlib.suppress(cl.Error):
            for platform in cl.get_platforms():
                with contextlib.suppress(cl.Error):
                    found += [device for device in platform.get_devices() if _takes_spirv(device)]
        return found


def _takes_spirv(device: Any) -> bool:
    with contextlib.suppress(pyopencl_module().Error, AttributeError):
        return bool(device.available and device.compiler_available and "SPIR-V" in device.il_version)
    return False


def pyopencl_module() -> Any:
    """pyopencl. Raises ConfigurationError where it is absent, DeviceError in a process that was forked from one that
    used it: it lacks the driver's threads."""
    module, user = _imported()
    if user != os.getpid():
        raise DeviceError("this process was forked from one that had used OpenCL: start it by multiprocessing's spawn")
    return module


@functools.cache
def _imported() -> tuple[Any, int]:
    """pyopencl, with the runtimes of wheels made known to its loader, which looks for runtimes once; the process."""
    with _lock:
        if not has_pyopencl():
            raise ConfigurationError("OpenCL devices need the package pyopencl: pip install opendml[opencl]")
        with _vendors():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    import pyopencl

                    with contextlib.suppress(pyopencl.Error):
                        pyopencl.get_platforms()
            except (ImportError, OSError) as error:
                raise ConfigurationError(f"pyopencl cannot be imported: {error}") from error
            return pyopencl, os.getpid()


@contextlib.contextmanager
def _vendors() -> Iterator[None]:
    """While this lasts, a loader finds the system's runtimes and the wheel's."""
    library = None if any(os.environ.get(name) for name in VENDOR_VARIABLES) else _wheel_runtime()
    if library is None:
        yield
        return
    with tempfile.TemporaryDirectory() as directory:
        for number, file in enumerate(sorted(SYSTEM_VENDORS.glob("*.icd"))):
            with contextlib.suppress(OSError):
                Path(directory, f"{number}-{file.name}").write_bytes(file.read_bytes())
        Path(directory, "wheel.icd").write_text(f"{library}\n")
        # Some loaders want the name of a directory to end like one.
        os.environ[VENDOR_VARIABLES[0]] = directory + os.sep
        try:
            yield
        finally:
            del os.environ[VENDOR_VARIABLES[0]]


def _wheel_runtime() -> Path | None:
    """Intel's runtime, installed from PyPI, with the libraries that it needs in this process; None if it is absent."""
    last = None
    for package, names in RUNTIME_PACKAGES.items():
        for name in names:
            last = _library(package, name)
            if last is None:
                return None
            if package != "intel-opencl-rt":
                try:
                    ctypes.CDLL(str(last), mode=ctypes.RTLD_GLOBAL)
                except OSError:
                    return None
    return last


def _library(package: str, name: str) -> Path | None:
    """A library of an installed package, by the package's own list of files."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files(package) or ():
            if file.name == name:
                path = Path(str(file.locate())).resolve()
                return path if path.exists() else None
    return None
