"""headroom: write the mathematics of a kernel, run it at the hardware's limit, know how far from it you are.

import headroom as hr

rmsnorm = hr.kernel('''
kernel rmsnorm(x: T[M, N], weight: T[N], eps: f32 = 1e-6) -> (y: T[M, N]) {
    y[m, n] = x[m, n] * rsqrt(sum[k](x[m, k]^2) / N + eps) * weight[n]
}''')
y = rmsnorm(x, w)  # NumPy, PyTorch, JAX, CuPy: what came in comes out
"""

from __future__ import annotations

import importlib
from typing import Any

from ._bound import Bound
from ._gradient import grad
from ._headroom import (
    Cancelled,
    DtypeError,
    Error,
    FileError,
    InputError,
    InternalError,
    NotAvailable,
    OutOfMemory,
    OutOfRange,
    WrongResult,
    version,
)
from ._kernel import Kernel, kernel, library
from ._record import Recording, record
from ._reports import Check, Diagnosis, Floor, Roof, Run, diagnose, roof

__version__: str = version()


def __getattr__(name: str) -> Any:
    """headroom.torch and headroom.jax, where they are first asked for."""
    if name in ("torch", "jax"):
        return importlib.import_module(f"headroom.{name}")
    raise AttributeError(f"module 'headroom' has no attribute {name!r}")


def explain(model: Any, *inputs: Any, **options: Any) -> Any:
    """What `torch.compile(model, backend="headroom", options=options)` makes of a model: the text of each kernel, and
    what stays PyTorch's."""
    from . import torch

    return torch.explain(model, *inputs, **options)


def patch(model: Any) -> list[str]:
    """Puts kernels in place of the norms, gates, activations, rotation and loss of a Hugging Face model (Llama, Qwen,
    Mistral, GPT-2); says the names of what became one."""
    from ._patch import patch as patch_model

    return patch_model(model)


__all__ = [
    "Bound",
    "Cancelled",
    "Check",
    "Diagnosis",
    "DtypeError",
    "Error",
    "FileError",
    "Floor",
    "InputError",
    "InternalError",
    "Kernel",
    "NotAvailable",
    "OutOfMemory",
    "OutOfRange",
    "Recording",
    "Roof",
    "Run",
    "WrongResult",
    "diagnose",
    "explain",
    "grad",
    "kernel",
    "library",
    "patch",
    "record",
    "roof",
    "version",
]
