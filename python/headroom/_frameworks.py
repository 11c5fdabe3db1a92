"""How arrays of each framework are read and made: one Adapter a type, made at the type's first sight.

Nothing is imported here that the program has not imported itself: an array of a type proves that its framework is
there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from . import _headroom

BUFFER, TENSOR, DLPACK, REDIRECT = range(4)
DTYPES: tuple[str, ...] = _headroom.dtype_names()

_NUMPY = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "bool": "bool",
}
_SMALL_FLOATS = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def _adapter(
    reader: int,
    empty: Callable[..., Any] | None,
    known: dict[str, Any],
    stream: Callable[[int], int] | None = None,
    redirect: Callable[[], bool] | None = None,
) -> _headroom.Adapter:
    dtypes = tuple(known.get(name) for name in DTYPES)
    codes = {dtype: code for code, dtype in enumerate(dtypes) if dtype is not None}
    return _headroom.Adapter(reader, empty, dtypes, codes, stream, redirect)


def _numpy_dtypes(numpy: ModuleType) -> dict[str, Any]:
    """NumPy's own, and those of ml_dtypes where that is installed."""
    known = {name: numpy.dtype(word) for name, word in _NUMPY.items()}
    try:
        import ml_dtypes
    except ImportError:
        return known
    return known | {name: numpy.dtype(getattr(ml_dtypes, word)) for name, word in _SMALL_FLOATS.items()}


def _numpy_adapter() -> _headroom.Adapter:
    import numpy

    empty = numpy.empty
    return _adapter(BUFFER, lambda like, shape, dtype: empty(shape, dtype), _numpy_dtypes(numpy))


def torch_dtypes(torch: ModuleType) -> dict[str, Any]:
    """PyTorch's dtype for each of the language's."""
    names = {k: v for k, v in (_NUMPY | _SMALL_FLOATS).items()}
    return {name: getattr(torch, word) for name, word in names.items() if hasattr(torch, word)}


def _torch_adapter(kind: type) -> _headroom.Adapter:
    import torch

    def empty(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        return torch.empty(shape, dtype=dtype, device=like.device)

    def stream_of(number: int) -> int:
        return torch.cuda.current_stream(number).cuda_stream

    # What Triton and Inductor ask, too: without an object of the stream.
    stream = getattr(torch._C, "_cuda_getCurrentRawStream", stream_of)
    plain = kind in (torch.Tensor, torch.nn.Parameter)
    reader = TENSOR if plain else REDIRECT  # FakeTensor and its like have no elements
    return _adapter(reader, empty, torch_dtypes(torch), stream, torch.is_grad_enabled)


def _cupy_adapter() -> _headroom.Adapter:
    import cupy

    def stream(number: int) -> int:
        return cupy.cuda.get_current_stream(number).ptr

    known = {name: cupy.dtype(word) for name, word in _NUMPY.items()}
    return _adapter(DLPACK, lambda like, shape, dtype: cupy.empty(shape, dtype), known, stream)


def _jax_adapter() -> _headroom.Adapter:
    return _adapter(REDIRECT, None, {})


def _root(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _is_jax(kind: type) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and (issubclass(kind, jax.Array) or issubclass(kind, jax.core.Tracer))


def _is_torch(kind: type) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, torch.Tensor)


def adapter_make(kind: type) -> _headroom.Adapter:
    """Called by the binding for a type of arrays that it has not seen."""
    if _is_torch(kind):
        return _torch_adapter(kind)
    if _is_jax(kind):
        return _jax_adapter()
    if _root(kind) == "cupy":
        return _cupy_adapter()
    if kind in (list, tuple, int, float, bool, complex, str):
        raise TypeError(f"a tensor is given as an array, not as a {kind.__name__}: numpy.asarray makes one")
    if kind is type(None) or _root(kind) in ("numpy", "ml_dtypes") or not hasattr(kind, "__dlpack__"):
        return _numpy_adapter()  # and whatever else has the buffer protocol
    return _dlpack_adapter(kind)


def _dlpack_adapter(kind: type) -> _headroom.Adapter:
    """An unknown framework's arrays are read; results are NumPy's."""
    import numpy

    return _adapter(DLPACK, lambda like, shape, dtype: numpy.empty(shape, dtype), _numpy_dtypes(numpy))


_headroom.adapter_maker_set(adapter_make)


def redirected(kernel: Any, arguments: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
    """A call whose arrays have no elements yet, or want a gradient: by the framework's own operation."""
    kinds = [type(each) for each in (*arguments, *named.values())]
    if out is not None:
        raise TypeError("`out` cannot be given where a framework traces the call or takes its gradient")
    if any(map(_is_jax, kinds)):
        from . import jax

        return jax.op(kernel)(*arguments, **named)
    from . import torch

    return torch.op(kernel)(*arguments, **named)
