"""PyTorch's compiler, ``torch.compile``, with a C++ compiler of the system: the functions of ``torch_functions``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.cases import Work
from benchmarks.peers import Buffers, Prepared, Unsupported
from benchmarks.torch_functions import function_of
from benchmarks.torch_peer import Fresh, as_tensors, quick_calls

COMPILERS = ("g++", "clang++", "cl")


class TorchCompile:
    """Functions compiled for the sizes of the case."""

    name = "torch.compile"
    version = str(torch.__version__)

    def prepare(self, operator: Work, buffers: Buffers) -> list[Prepared]:
        """One compiled function; its result is a new tensor."""
        function = function_of(operator)
        if function is None:
            raise Unsupported(type(operator).__name__)
        inputs, _ = as_tensors(operator, buffers)
        torch.compiler.reset()
        compiled: Callable[..., Any] = torch.compile(function, dynamic=False, fullgraph=True)
        fresh = Fresh(lambda: compiled(*inputs))
        return [Prepared(fresh.run, fresh.results)]


def peer(threads: int) -> TorchCompile:
    """The contestant; absent (ImportError) without a C++ compiler."""
    if not any(map(shutil.which, COMPILERS)):
        raise ImportError("torch.compile needs a C++ compiler")
    quick_calls(threads)
    return TorchCompile()
