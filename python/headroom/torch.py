"""Kernels as PyTorch operators: with fake tensors, a derived backward pass, torch.compile, autocast.

import headroom.torch
rmsnorm = headroom.torch.op(text)
y = rmsnorm(x, weight)
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._frameworks import torch_dtypes
from ._gradient import backward_call
from ._kernel import Kernel
from ._kernel import kernel as load
from ._signature import Argument, Signature

_DTYPES: dict[str, torch.dtype] = torch_dtypes(torch)
_registering = threading.RLock()
_ops: dict[tuple[Any, ...], Op] = {}


def op(kernel: Kernel | str, **given: int | str) -> Op:
    """The operator of a kernel: one `torch.library` operator, however often it is asked for.

    `given` are extents that no array says and dtype variables that none binds. The backward pass is derived from the
    text when it is first needed; an inout tensor makes the operator one that mutates, without a backward pass.
    """
    if not isinstance(kernel, Kernel):
        kernel = load(kernel)
    key = (kernel.text, kernel.name, *sorted(given.items()))
    with _registering:
        if key not in _ops:
            _ops[key] = Op(kernel, given, hashlib.sha256(repr(key).encode()).hexdigest()[:12])
        return _ops[key]


class Op:
    """A kernel that autograd and torch.compile know. It is called as the kernel is."""

    def __init__(self, kernel: Kernel, given: dict[str, int | str], digest: str) -> None:
        self.kernel = kernel
        self.signature: Signature = kernel.signature
        self.qualified_name = f"headroom::{kernel.name}_{digest}"
        self._given = given
        self._parameters = self.signature.parameters
        self._several = len(self.signature.results) > 1
        self._register()
        self._call = getattr(torch.ops.headroom, self.qualified_name.partition("::")[2]).default
        self._differentiable = None if any(a.role == "inout" for a in self._parameters) else self._function()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if torch.is_autocast_enabled(_device_type(arguments)):
            arguments, named = self._cast(arguments, named)
        if not self._given and _is_plain():
            made = self.kernel.attempt(tuple(arguments), named)
            if made is not NotImplemented:  # it wants a gradient, or has no elements
                return made
            values = self._values(arguments, named)
            if self._differentiable and all(map(_has_elements, values)):
                result = self._differentiable.apply(*values)
                return self.kernel._pack(result) if self._several else result
        result = self._call(*arguments, **named)
        return self.kernel._pack(result) if self._several else result

    def __repr__(self) -> str:
        return f"<operator {self.qualified_name}: {self.signature}>"

    # ---- registration ----

    def _register(self) -> None:
        mutated = [a.name for a in self._parameters if a.role == "inout"]
        made = torch.library.custom_op(
            self.qualified_name, self._execute, mutates_args=mutated, schema=_schema(self.signature)
        )
        made.register_fake(self._fake)
        if not mutated:
            made.register_autograd(self._backward, setup_context=self._save)

    def _values(self, arguments: Sequence[Any], named: dict[str, Any]) -> list[Any]:
        """A value for each parameter of a call that the kernel has looked at."""
        rest = self._parameters[len(arguments) :]
        return [*arguments, *(named.get(a.name, a.default) for a in rest)]

    def _function(self) -> Any:
        """The operator for autograd alone, at a fraction of what the dispatcher's way in Python costs."""

        def forward(ctx: Any, *inputs: Any) -> Any:
            output = self._execute(*inputs)
            self._save(ctx, inputs, output)
            outputs = output if self._several else (output,)
            ctx.mark_non_differentiable(*(each for each in outputs if not each.is_floating_point()))
            return output

        methods = {"forward": staticmethod(forward), "backward": staticmethod(self._backward)}
        return type(self.kernel.name, (torch.autograd.Function,), methods)

    def _execute(self, *arguments: Any) -> Any:
        with torch.no_grad():
            result = self.kernel(*arguments, **self._given)
        return tuple(result) if self._several else result

    def _fake(self, *arguments: Any) -> Any:
        """Tensors of the results' shapes and dtypes, without elements; sizes may be symbols."""
        tensors = {a.name: t for a, t in zip(self._parameters, arguments) if isinstance(t, torch.Tensor)}
        extents = self.signature.solve_all({name: t.shape for name, t in tensors.items()}, self._given)
        dtypes = self._variables(tensors)
        like = next(iter(tensors.values()), torch.empty(()))
        made = [
            like.new_empty(self.signature.sizes(r, extents), dtype=_dtype(r, dtypes)) for r in self.signature.results
        ]
        return None if not made else tuple(made) if self._several else made[0]

    def _variables(self, tensors: dict[str, torch.Tensor]) -> dict[str, torch.dtype]:
        """What each dtype variable stands for."""
        found = {k: _DTYPES[str(v)] for k, v in self._given.items() if k in self.signature.variables}
        for argument in self._parameters:
            if argument.name in tensors and argument.dtype in self.signature.variables:
                found.setdefault(argument.dtype, tensors[argument.name].dtype)
        return found

    # ---- autocast ----

    def _cast(self, arguments: Sequence[Any], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Floats of another dtype than the text names become that one; those of one dtype variable, the widest of
        them."""
        values = dict(zip((a.name for a in self._parameters), arguments)) | named
        wanted = {name: dtype for name, dtype in _DTYPES.items() if dtype.is_floating_point}
        for argument in self._parameters:
            value = values.get(argument.name)
            if argument.dtype in self.signature.variables and isinstance(value, torch.Tensor):
                known = wanted.get(argument.dtype, value.dtype)
                wanted[argument.dtype] = torch.promote_types(known, value.dtype)
        for argument in self._parameters:
            value = values.get(argument.name)
            if isinstance(value, torch.Tensor) and value.is_floating_point() and argument.role == "input":
                values[argument.name] = value.to(wanted.get(argument.dtype, value.dtype))
        return (), values

    # ---- the backward pass ----

    def _save(self, ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        outputs = output if self._several else (output,)
        ctx.set_materialize_grads(False)
        tensors = [i for i, value in enumerate(inputs) if isinstance(value, torch.Tensor)]
        ctx.places = tensors
        ctx.scalars = {i: value for i, value in enumerate(inputs) if i not in tensors}
        ctx.save_for_backward(*(inputs[i] for i in tensors), *outputs)

    def _backward(self, ctx: Any, *cotangents: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        saved = ctx.saved_tensors
        count = len(self._parameters)
        values = {self._parameters[i].name: t for i, t in zip(ctx.places, saved)}
        values |= {self._parameters[i].name: value for i, value in ctx.scalars.items()}
        values |= {r.name: t for r, t in zip(self.signature.results, saved[len(ctx.places) :])}
        of = tuple(
            r.name for r, d in zip(self.signature.results, cotangents) if d is not None and d.is_floating_point()
        )
        wrt = tuple(a.name for a, needed in zip(self._parameters, ctx.needs_input_grad) if needed and a.name in values)
        if not of or not wrt:
            return (None,) * count
        given = {r.name: d for r, d in zip(self.signature.results, cotangents) if r.name in of}
        gradients = backward_call(self.kernel, op, values, given, wrt, self._given)
        return tuple(gradients.get(a.name) for a in self._parameters)


def _has_elements(value: Any) -> bool:
    return not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter)


def _is_plain() -> bool:
    """Whether nothing looks on: no tracing, no transformation. PyTorch's dispatcher, which these need, costs several
    times a launch."""
    return (
        not torch.compiler.is_compiling()
        and torch._C._len_torch_dispatch_stack() == 0
        and torch._C._functorch.peek_interpreter_stack() is None
    )


def _device_type(arguments: Sequence[Any]) -> str:
    return next((a.device.type for a in arguments if isinstance(a, torch.Tensor)), "cpu")


def _dtype(argument: Argument, variables: dict[str, torch.dtype]) -> torch.dtype:
    if argument.dtype in variables:
        return variables[argument.dtype]
    if argument.dtype in _DTYPES:
        return _DTYPES[argument.dtype]
    return torch.float32  # a variable that nothing binds: the device's default


def _schema(signature: Signature) -> str:
    """As PyTorch writes operators: `(Tensor x, float eps=1e-06) -> (Tensor, Tensor)`."""
    parts = []
    for place, argument in enumerate(signature.parameters):
        kind = _scalar_kind(argument) if argument.is_scalar else "Tensor"
        kind = f"Tensor(a{place}!)" if argument.role == "inout" else kind
        parts.append(f"{kind} {argument.name}{_default(argument, kind)}")
    results = ", ".join("Tensor" for _ in signature.results)
    return f"({', '.join(parts)}) -> " + (results if len(signature.results) == 1 else f"({results})")


def _scalar_kind(argument: Argument) -> str:
    floats = ("f64", "f32", "f16", "bf16", "f8e4m3", "f8e5m2")
    return "bool" if argument.dtype == "bool" else "int" if argument.dtype in _DTYPES.keys() - set(floats) else "float"


def _default(argument: Argument, kind: str) -> str:
    if argument.default is None:
        return ""
    value: Any = argument.default
    return f"={bool(value) if kind == 'bool' else int(value) if kind == 'int' else repr(value)}"


@torch._dynamo.register_backend(name="headroom")
def backend(
    graph: torch.fx.GraphModule, inputs: list[torch.Tensor], *, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """torch.compile(model, backend="headroom"). options: `products` and `attention`, true where those are to be texts,
    false where they stay PyTorch's, else as is faster on the target; `capture`, false where what runs forwards only on a
    GPU is not to be a CUDA graph."""
    from ._compile import compile_graph

    return compile_graph(graph, inputs, options=options)


def explain(model: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    """Compiles and runs a model once with this backend, forwards and, where it has a gradient, backwards. The result
    prints the text of each kernel and names the operators that stayed PyTorch's."""
    from ._compile import explain as explain_model

    return explain_model(model, *inputs, **options)
