"""headroom: write the mathematics of a kernel, run it at the hardware's limit, know how far from it you are.

import headroom as hr

rmsnorm = hr.kernel('''
kernel rmsnorm(x: T[M, N], weight: T[N], eps: f32 = 1e-6) -> (y: T[M, N]) {
    y[m, n] = x[m, n] * rsqrt(sum[k](x[m, k]^2) / N + eps) * weight[n]
}''')
y = rmsnorm(x, w)  # NumPy, PyTorch, JAX, CuPy: what came in comes out
"""

from __future__ import annotations

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
from ._reports import Check, Diagnosis, Floor, Run, diagnose

__version__: str = version()

__all__ = [
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
    "Run",
    "WrongResult",
    "diagnose",
    "grad",
    "kernel",
    "library",
    "version",
]
