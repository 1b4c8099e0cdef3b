"""``InferenceSession``: a model with onnxruntime's interface."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from opendml.compatibility.onnxruntime import errors
from opendml.compatibility.onnxruntime.absent import explains_what_is_absent
from opendml.compatibility.onnxruntime.binding import IOBinding
from opendml.compatibility.onnxruntime.errors import (
    ExecutionError,
    Fail,
    InvalidArgument,
    InvalidProtobuf,
    NoSuchFile,
    OnnxRuntimeError,
    RuntimeException,
)
from opendml.compatibility.onnxruntime.node_arguments import (
    ModelMetadata,
    NodeArg,
    argument_of,
    metadata_of,
    type_of,
)
from opendml.compatibility.onnxruntime.options import RunOptions, SessionOptions
from opendml.compatibility.onnxruntime.providers import Provider, chosen_providers, device_of, flags_of, is_set
from opendml.compatibility.onnxruntime.values import OrtValue
from opendml.description.errors import (
    BindingError,
    InvalidDescriptorError,
    ModelFormatError,
    OpendmlError,
    OutOfMemoryError,
)
from opendml.description.quoting import listed, quoted
from opendml.formats.loading import load
from opendml.formats.onnx.model import OnnxModel
from opendml.formats.onnx.program import OnnxProgram
from opendml.formats.onnx.types import array_type

__all__ = ["InferenceSession"]

Array = npt.NDArray[Any]

OVERRIDABLE_FROM: Final = 4
"""The version of the format from which on initialisers that are listed as inputs may be overridden."""


@explains_what_is_absent
class InferenceSession:
    """A model that runs: onnxruntime's class, on DirectML's operators as opendml computes them.

        session = InferenceSession("model.onnx", providers=["DmlExecutionProvider"])
        (y,) = session.run(["y"], {"x": x})

    Where the model, or overrides of free dimensions, say all sizes, the session compiles for them when it is made. Else
    it does at the first run with new sizes (or new values, where nodes ask for those of an input), and the last few
    programs are kept. ``providers`` may be ``DmlExecutionProvider`` and ``CPUExecutionProvider``, which are the same
    here; their option ``device`` is the name of a ``dml.Device``, and ``narrow_float64`` computes in float32 what
    DirectML does not have in float64, which onnxruntime leaves to the processor.

    Raises NoSuchFile, InvalidProtobuf for what is no model, NotImplemented with all nodes that DirectML's operators do
    not express, InvalidArgument; ``dml.ConfigurationError`` where the package onnx is not installed.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        **options: Any,
    ) -> None:
        self._options = sess_options if sess_options is not None else SessionOptions()
        self._options.check()
        self._model_path = None if isinstance(path_or_bytes, bytes) else os.fspath(path_or_bytes)
        self._model = _loaded(path_or_bytes)
        self._read_arguments()
        self._lock = threading.Lock()
        self.set_providers(providers, provider_options)

    def _read_arguments(self) -> None:
        """Inputs and outputs as the model has them, free dimensions overridden."""
        proto, overrides = self._model.head, (self._options.dimension_sizes, self._options.denotation_sizes)
        weights = {tensor.name for tensor in proto.graph.initializer}
        listed_inputs = [argument_of(one, *overrides) for one in proto.graph.input]
        self._inputs = [one for one in listed_inputs if one.name not in weights]
        self._outputs = [argument_of(one, *overrides) for one in proto.graph.output]
        self._output_names = [one.name for one in self._outputs]
        later = proto.ir_version >= OVERRIDABLE_FROM
        self._weights = [one for one in listed_inputs if one.name in weights] if later else []
        self._types = {info.name: info.element_type for info in self._model.inputs}
        self._ranks = {info.name: None if info.sizes is None else len(info.sizes) for info in self._model.inputs}

    # ---- what it is

    def get_inputs(self) -> list[NodeArg]:
        """The inputs: names, types, shapes."""
        return list(self._inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The outputs: names, types, shapes."""
        return list(self._outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Initialisers that the file lists as inputs. They cannot be given here."""
        return list(self._weights)

    def get_modelmeta(self) -> ModelMetadata:
        """What the file says of the model as a whole."""
        return metadata_of(self._model.head)

    def get_session_options(self) -> SessionOptions:
        """The options that it was made with."""
        return self._options

    def get_providers(self) -> list[str]:
        """The providers in order of preference, the processor's last."""
        return list(self._providers)

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """The options of the providers, as text."""
        return {name: dict(options) for name, options in self._providers.items()}

    def set_providers(
        self,
        providers: Sequence[Provider] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Chooses providers anew, and compiles for them where all sizes are known."""
        self._providers = chosen_providers(providers or list(self._options.providers.items()), provider_options)
        self._device = device_of(self._providers, self._options.thread_count)
        self._program = self._compiled()
        self._recent = self._program  # the one that ran last

    def enable_fallback(self) -> None:
        """Nothing: there is nothing to fall back to."""

    def disable_fallback(self) -> None:
        """Nothing: there is nothing to fall back to."""

    def end_profiling(self) -> NoReturn:
        """Refused, as ``SessionOptions.enable_profiling`` is."""
        raise errors.NotImplemented("end_profiling: nothing is profiled; dml.profile shows where time goes")

    # ---- running

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: RunOptions | None = None,
    ) -> list[Any]:
        """The outputs by name, or all of them for None or an empty list.

        Arrays are of the types that ``get_inputs`` says; lists of numbers become such arrays. Raises InvalidArgument,
        a ValueError, for what does not fit, NotImplemented for nodes that are not expressible with these sizes.
        """
        program = self._recent
        if program is not None and run_options is None and not output_names:
            try:
                quick = program.run_quickly(input_feed)
            except OutOfMemoryError as error:
                raise RuntimeException(str(error)) from error
            if quick is not None:
                return quick
        names = list(output_names or ()) or self._output_names
        for name in names:
            if name not in self._output_names:
                raise InvalidArgument(f"Invalid output name:{name}")
        results = self._results(input_feed, run_options)
        return [results[name] for name in names]

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Runs on what is bound. Raises ExecutionError, a RuntimeError, for what does not fit."""
        try:
            results = self._results(iobinding.feed, run_options)
        except (OnnxRuntimeError, BindingError) as error:
            raise ExecutionError(f"Error in execution: {error.args[0]}") from error
        iobinding.take(results)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """``run`` with values for arrays."""
        arrays = {name: value.numpy() for name, value in input_dict_ort_values.items()}
        return [OrtValue(array) for array in self.run(output_names, arrays, run_options)]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], object],
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """``run`` in a thread, which calls ``callback(results, user_data, error)``; no error is an empty text."""

        def work() -> None:
            try:
                results, message = self.run(output_names, input_feed, run_options), ""
            except OpendmlError as error:
                results, message = [], str(error)
            callback(results, user_data, message)

        threading.Thread(target=work, name="opendml run_async").start()

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: object, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """``OrtValue.ortvalue_from_shape_and_type``: memory is the host's for every session."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def io_binding(self) -> IOBinding:
        """What ``run_with_iobinding`` takes, with nothing bound."""
        return IOBinding(self._inputs, self._outputs)

    # ---- programs

    def _compiled(self) -> OnnxProgram | None:
        """The program, where all sizes are known and no node asks for values."""
        if not all(self._is_known(one) for one in self._inputs):
            return None
        sizes = {one.name: [int(size or 0) for size in one.shape] for one in self._inputs}
        try:
            with _NAMES_OF_ERRORS:
                return self._model.compile(self._device, sizes=sizes, **self._ways)
        except errors.NotImplemented:
            if self._model.needed_values(device=self._device, sizes=sizes):
                return None
            raise

    @property
    def _ways(self) -> dict[str, Any]:
        """How programs are made that may compute otherwise than the file says."""
        return {
            "narrow_float64": is_set(self._providers, "narrow_float64"),
            "fuse_quantization": self._options.fuses_quantization,
            "execution_flags": flags_of(self._providers),
        }

    def _is_known(self, argument: NodeArg) -> bool:
        return self._ranks[argument.name] is not None and all(isinstance(size, int) for size in argument.shape)

    def _results(self, feed: Mapping[str, Any], options: RunOptions | None) -> dict[str, Array]:
        if options is not None and options.terminate:
            raise Fail("Exiting due to terminate flag being set to true.")
        arrays = self._arrays(feed)
        with _NAMES_OF_ERRORS:
            if self._program is not None:
                return self._program.run(arrays)
            with self._lock:
                program = self._model.program_for(arrays, device=self._device, **self._ways)
            self._recent = program
            return program.run(arrays)

    def _arrays(self, feed: Mapping[str, Any]) -> dict[str, Array]:
        """The inputs as arrays that fit. Raises InvalidArgument, or BindingError where some are missing."""
        given = list(feed.keys())
        missing = [one.name for one in self._inputs if one.name not in feed]
        if missing:
            raise BindingError(f"Required inputs ({missing}) are missing from input feed ({given}).")
        known = {one.name: one for one in self._inputs}
        for name in given:
            if name not in known:
                weight = any(one.name == name for one in self._weights)
                reason = ", an initialiser of the model: these are compiled in" if weight else ""
                raise InvalidArgument(f"Invalid input name: {name}{reason}")
        return {name: self._array(argument, feed[name]) for name, argument in known.items()}

    def _array(self, argument: NodeArg, value: Any) -> Array:
        if isinstance(value, OrtValue):
            value = value.numpy()
        element_type = self._types[argument.name]
        expected = array_type(element_type) if element_type else None
        if not isinstance(value, np.ndarray):
            if isinstance(value, np.generic) or value is None:
                raise ExecutionError(f"Unable to handle object of type {type(value)}")
            try:
                value = np.array(value, expected)
            except (TypeError, ValueError, OverflowError) as error:
                message = f"input {quoted(argument.name)}: {error}, as {argument.type}"
                raise InvalidArgument(message) from None
        if expected is not None and value.dtype != expected:
            given = type_of(value.dtype)
            raise InvalidArgument(f"Unexpected input data type. Actual: ({given}) , expected: ({argument.type})")
        self._check_sizes(argument, value.shape)
        return value  # type: ignore[no-any-return]

    def _check_sizes(self, argument: NodeArg, given: tuple[int, ...]) -> None:
        cure = "Please fix either the inputs/outputs or the model."
        rank = self._ranks[argument.name]
        if rank is None:
            return
        if len(given) != rank:
            raise InvalidArgument(f"Invalid rank for input: {argument.name} Got: {len(given)} Expected: {rank} {cure}")
        wrong = [
            f" index: {place} Got: {have} Expected: {want}"
            for place, (have, want) in enumerate(zip(given, argument.shape, strict=True))
            if isinstance(want, int) and have != want
        ]
        if wrong:
            text = "\n".join(wrong)
            name = argument.name
            raise InvalidArgument(
                f"Got invalid dimensions for input: {name} for the following indices\n{text}\n {cure}"
            )


def _loaded(source: Any) -> OnnxModel:
    """The model of a path or of bytes."""
    if not isinstance(source, (str, bytes, os.PathLike)):
        raise TypeError(f"Unable to load from type '{type(source)}'")
    if not isinstance(source, bytes) and not Path(source).exists():
        raise NoSuchFile(f"Load model from {os.fspath(source)} failed: the file does not exist")
    try:
        model = load(source)
    except ModelFormatError as error:
        raise InvalidProtobuf(f"Failed to load model: {error}") from error
    if not isinstance(model, OnnxModel):
        raise InvalidProtobuf(f"Failed to load model: it is no ONNX model, but {listed([type(model).__name__])}")
    return model


class _NamesOfErrors:
    """Gives opendml's exceptions onnxruntime's names."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, (ModelFormatError, InvalidDescriptorError)):
            raise errors.NotImplemented(str(error)) from error
        if isinstance(error, BindingError):
            raise InvalidArgument(str(error)) from error
        if isinstance(error, OutOfMemoryError):
            raise RuntimeException(str(error)) from error


_NAMES_OF_ERRORS: Final = _NamesOfErrors()
