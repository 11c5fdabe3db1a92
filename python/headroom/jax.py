"""Kernels in JAX programs, on a CPU or a GPU: custom calls of XLA, with the derived backward pass as a custom_vjp.

import headroom.jax
rmsnorm = headroom.jax.op(text)
y = jax.jit(lambda x, w: rmsnorm(x * 2, w))(x, w)
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import _headroom
from ._gradient import backward_call
from ._kernel import Kernel
from ._kernel import kernel as load
from ._signature import Argument, Signature

_NAMES = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "f8e4m3": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2", "i64": "int64", "i32": "int32", "i16": "int16", "i8": "int8", "u8": "uint8", "bool": "bool_",
}  # fmt: skip
_TARGET = "headroom_kernel"
_making = threading.RLock()
_ops: dict[tuple[Any, ...], Op] = {}  # kernels live as long as the programs that hold their addresses: for ever


@functools.cache
def _register() -> None:
    for platform in ("cpu", "CUDA"):
        jax.ffi.register_ffi_target(_TARGET, _headroom.xla_handler(platform), platform=platform)


@functools.cache
def _gpu_count() -> int:
    return sum(each.platform == "gpu" for each in jax.local_devices())


def op(kernel: Kernel | str, **given: int | str) -> Op:
    """The kernel as a function of JAX's arrays, for jit, grad and the rest. `given` are extents that no array says and
    dtype variables that none binds. An inout array is not changed: its new values come first in the result."""
    if not isinstance(kernel, Kernel):
        kernel = load(kernel)
    key = (kernel.text, kernel.name, *sorted(given.items()))
    with _making:
        if key not in _ops:
            _register()
            _ops[key] = Op(kernel, given)
        return _ops[key]


@jax.tree_util.register_static
@dataclass(frozen=True)
class _Wanted:
    """The parameters whose gradients are asked for: known when the program is traced."""

    names: tuple[str, ...]


@jax.tree_util.register_static
@dataclass(frozen=True)
class _Fixed:
    """The value of a scalar as a part of the program: XLA compiles another one for another value. It is so where an array
    is in a GPU's memory, which a call cannot read, or has not all digits."""

    value: float


class Op:
    """A kernel as a function of JAX's arrays. It is called as the kernel is."""

    def __init__(self, kernel: Kernel, given: dict[str, int | str]) -> None:
        self.kernel = kernel
        self.signature: Signature = kernel.signature
        self._given = given
        self._made = [a for a in self.signature.arguments if a.role != "input"]  # inouts, then results
        self._function = jax.custom_vjp(self._forward)
        self._function.defvjp(self._save, self._backward, symbolic_zeros=True)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        parameters = self.signature.parameters
        values = dict(zip((a.name for a in parameters), arguments, strict=False)) | named
        unknown = values.keys() - {a.name for a in parameters}
        if unknown or len(arguments) > len(parameters):
            raise TypeError(
                f"kernel {self.kernel.name} has no parameter {', '.join(unknown) or 'for the last argument'}"
            )
        return self._function(*(self._value(a, values) for a in parameters))

    def __repr__(self) -> str:
        return f"<function of JAX: {self.signature}>"

    def _value(self, argument: Argument, values: dict[str, Any]) -> Any:
        value = values.get(argument.name, argument.default)
        if value is None:
            raise TypeError(f"kernel {self.kernel.name} needs `{argument.name}`")
        if not argument.is_scalar:
            return value
        if isinstance(value, (bool, int, float, np.number)) and self._is_part(argument, value):
            return _Fixed(float(value))
        return jnp.asarray(value, self._dtype(argument, {}))

    def _is_part(self, argument: Argument, value: Any) -> bool:
        """Whether a number is a part of the program, and no array of one element."""
        dtype = np.dtype(self._dtype(argument, {}))
        narrow = jax.dtypes.canonicalize_dtype(dtype) != dtype  # without jax_enable_x64
        exact = np.isnan(value) or float(value) == value  # a number beyond 2^53 has no double
        return bool(exact and (narrow or _gpu_count() > 0))

    def _dtype(self, argument: Argument, variables: dict[str, Any]) -> Any:
        if argument.dtype in variables:
            return variables[argument.dtype]
        return getattr(jnp, _NAMES.get(argument.dtype, "float32"))

    # ---- forward ----

    def _forward(self, *values: Any) -> Any:
        parameters = self.signature.parameters
        tensors = {a.name: v for a, v in zip(parameters, values) if not a.is_scalar}
        self._check(tensors)
        results = [jax.ShapeDtypeStruct(*each) for each in self._shapes(tensors)]
        scalars = [v for a, v in zip(parameters, values) if a.is_scalar]
        fixed = [v.value if isinstance(v, _Fixed) else 0.0 for v in scalars] or [0.0]
        given = [int(isinstance(v, _Fixed)) for v in scalars] or [0]
        buffers = [(a, v) for a, v in zip(parameters, values) if not isinstance(v, _Fixed)]
        inouts = [i for i, (a, _) in enumerate(buffers) if a.role == "inout"]

        def call(devices: Sequence[str], *operands: Any) -> Any:
            addresses = [self.kernel._route(device, self._given).address for device in devices]
            return jax.ffi.ffi_call(
                _TARGET,
                results,
                input_output_aliases={i: place for place, i in enumerate(inouts)},
                vmap_method="sequential",
            )(*operands, fixed=np.array(fixed), given=np.array(given), kernels=np.array(addresses))

        operands = [v for _, v in buffers]
        made = self._on_platform(call, operands, any(a.is_scalar for a, _ in buffers))
        if len(made) == 1:
            return made[0]
        return self.kernel._pack(made) if len(made) == len(self.signature.results) else tuple(made)

    def _on_platform(self, call: Callable[..., Any], operands: Sequence[Any], is_traced: bool) -> Any:
        """The call on each platform that this process has: which one it is for is known when the program is compiled."""
        cpu = functools.partial(call, ["cpu"])
        if not _gpu_count():
            return cpu(*operands)
        if is_traced:
            raise ValueError(
                f"kernel {self.kernel.name}: on a GPU a scalar is a number, not a traced array: jit with static_argnums"
            )
        cuda = functools.partial(call, [f"cuda:{number}" for number in range(_gpu_count())])
        return jax.lax.platform_dependent(*operands, cpu=cpu, cuda=cuda)

    def _check(self, tensors: dict[str, Any]) -> None:
        """XLA says nothing of what a call's arguments are: wrong dtypes and axes are told when it is traced."""
        bound: dict[str, Any] = {}
        for argument in self.signature.parameters:
            if argument.is_scalar:
                continue
            value = tensors[argument.name]
            variable = argument.dtype in self.signature.variables
            want = bound.setdefault(argument.dtype, value.dtype) if variable else self._dtype(argument, {})
            if value.dtype != want:
                raise _headroom.DtypeError(
                    f"`{argument.name}` of kernel {self.kernel.name} is {argument.dtype}, here {np.dtype(want)}; the array "
                    f"given is {value.dtype}: convert it first"
                )
            if value.ndim != len(argument.axes):
                raise _headroom.InputError(f"`{argument.name}` is {argument}; the array given has {value.ndim} axes")

    def _shapes(self, tensors: dict[str, Any]) -> list[tuple[tuple[int, ...], Any]]:
        extents = self.signature.solve_all({name: t.shape for name, t in tensors.items()}, self._given)
        variables = {k: getattr(jnp, _NAMES[str(v)]) for k, v in self._given.items() if k in self.signature.variables}
        for argument in self.signature.parameters:
            if argument.dtype in self.signature.variables and argument.name in tensors:
                variables.setdefault(argument.dtype, tensors[argument.name].dtype)
        return [(self.signature.sizes(a, extents), self._dtype(a, variables)) for a in self._made]

    # ---- backward ----

    def _save(self, *primals: Any) -> tuple[Any, Any]:
        pairs = list(zip(self.signature.parameters, primals))
        wanted = tuple(a.name for a, p in pairs if not isinstance(p, _Fixed) and p.perturbed)
        for argument in self.signature.parameters:
            if argument.name in wanted and (argument.is_scalar or argument.role == "inout"):
                raise ValueError(f"kernel {self.kernel.name} has no gradient for `{argument.name}`, {argument}")
        values = tuple(p if isinstance(p, _Fixed) else p.value for p in primals)
        made = self._forward(*values)
        return made, (values, made, _Wanted(wanted))

    def _backward(self, saved: tuple[Any, Any, _Wanted], cotangents: Any) -> tuple[Any, ...]:
        inputs, outputs, wanted = saved
        results = self.signature.results
        values = {a.name: v.value if isinstance(v, _Fixed) else v for a, v in zip(self.signature.parameters, inputs)}
        values |= dict(zip((r.name for r in results), _listed(outputs, len(results))))
        given = {
            r.name: d
            for r, d in zip(results, _listed(cotangents, len(results)))
            if not isinstance(d, jax.custom_derivatives.SymbolicZero) and jnp.issubdtype(d.dtype, jnp.floating)
        }
        gradients: dict[str, Any] = {}
        if given and wanted.names:
            gradients = backward_call(self.kernel, op, values, given, wanted.names, self._given)
        return tuple(gradients.get(a.name) for a in self.signature.parameters)


def _listed(value: Any, count: int) -> Sequence[Any]:
    return (value,) if count == 1 else tuple(value)
