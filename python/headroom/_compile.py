"""torch.compile(model, backend="headroom"): runs of pointwise operations and reductions become kernels.

In: graphs of ATen's operators, after AOTAutograd. Out: the same graphs, with a kernel in place of each run that can be
written as a text; products, convolutions and whatever else is not in the tables below stay PyTorch's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from . import _headroom
from . import torch as operators
from ._frameworks import torch_dtypes

aten = torch.ops.aten
_NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in torch_dtypes(torch).items()}
_FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

# What an operator is in the language; {0}, {1} are its operands, element by element.
_POINTWISE: dict[Any, str] = {
    aten.add.Tensor: "{0} + {1}", aten.add.Scalar: "{0} + {1}", aten.sub.Tensor: "{0} - {1}", aten.sub.Scalar: "{0} - {1}",
    aten.mul.Tensor: "{0} * {1}", aten.mul.Scalar: "{0} * {1}", aten.div.Tensor: "{0} / {1}", aten.div.Scalar: "{0} / {1}",
    aten.neg.default: "-{0}", aten.reciprocal.default: "1 / {0}", aten.abs.default: "abs({0})", aten.exp.default: "exp({0})",
    aten.log.default: "log({0})", aten.sqrt.default: "sqrt({0})", aten.rsqrt.default: "rsqrt({0})",
    aten.tanh.default: "tanh({0})", aten.erf.default: "erf({0})", aten.sigmoid.default: "sigmoid({0})",
    aten.relu.default: "relu({0})", aten.sin.default: "sin({0})", aten.cos.default: "cos({0})",
    aten.pow.Tensor_Scalar: "{0} ^ {1}", aten.maximum.default: "max({0}, {1})", aten.minimum.default: "min({0}, {1})",
    aten.where.self: "where({0}, {1}, {2})", aten.gt.Scalar: "{0} > {1}", aten.gt.Tensor: "{0} > {1}",
    aten.ge.Scalar: "{0} >= {1}", aten.ge.Tensor: "{0} >= {1}", aten.lt.Scalar: "{0} < {1}", aten.lt.Tensor: "{0} < {1}",
    aten.le.Scalar: "{0} <= {1}", aten.le.Tensor: "{0} <= {1}", aten.eq.Scalar: "{0} == {1}",
    aten.eq.Tensor: "{0} == {1}", aten.ne.Scalar: "{0} != {1}", aten.gelu.default: "gelu({0})",
    aten.silu.default: "silu({0})",
}  # fmt: skip
# Of one operand over some of its axes; the other axes keep their places.
_REDUCTIONS: dict[Any, str] = {aten.sum.dim_IntList: "sum", aten.mean.dim: "mean", aten.amax.default: "max"}
# Of one operand along one axis, which stays.
_ALONG: dict[Any, str] = {
    aten._softmax.default: "softmax[{1}]({0})",
    aten._log_softmax.default: "{0} - logsumexp[{2}]({3})",
}
_SHAPES = (aten.unsqueeze.default, aten.expand.default)
_LONGEST = 100  # operators of one kernel, and arguments


# ---- which operators ----


def _value(node: Any) -> Any:
    return node.meta.get("val") if isinstance(node, Node) else None


def _is_plain(value: Any) -> bool:
    """A dense tensor with axes, of a dtype of the language and sizes that are numbers."""
    return (
        isinstance(value, torch.Tensor)
        and value.dim() > 0
        and value.dtype in _NAMES
        and value.device.type in ("cpu", "cuda")
        and all(isinstance(size, int) for size in value.shape)
    )


class _Writable(OperatorSupportBase):
    """The operators that have a text, and whose operands and results it can be written for."""

    def is_node_supported(self, submodules: Any, node: Node) -> bool:
        value = _value(node)
        if node.op != "call_function" or not _is_plain(value):
            return False
        if not value.is_contiguous() and node.target is not aten.expand.default:
            return False  # kernels give dense results, and a view behind this one may count on other strides
        if not all(_is_plain(_value(each)) for each in node.all_input_nodes):
            return False
        return _writable_call(node)


def _writable_call(node: Node) -> bool:
    if node.target in _POINTWISE:
        whole = all(_value(each).dtype not in _FLOATS for each in node.all_input_nodes)
        plain = node.kwargs.get("alpha", 1) == 1 and node.kwargs.get("approximate", "none") == "none"
        plain = plain and len(node.args) == _POINTWISE[node.target].count("{")  # alpha may stand there by position
        return (
            bool(plain)
            and not (whole and _value_is_float(node))
            and all(_is_number(a) for a in node.args if not _is_node(a))
        )
    if node.target in _REDUCTIONS:
        return not node.kwargs and _value(node.args[0]).dtype in _FLOATS and len(node.args) > 1 and bool(node.args[1])
    if node.target in _ALONG:
        return node.args[2] is False
    if node.target is aten._to_copy.default:
        return set(node.kwargs) == {"dtype"}
    return node.target in _SHAPES


def _value_is_float(node: Node) -> bool:
    """Whether the result is of a float dtype."""
    return _value(node).dtype in _FLOATS


def _is_node(value: Any) -> bool:
    return isinstance(value, Node)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


# ---- what is taken apart first ----


def _layer_norm(
    x: torch.Tensor, shape: Sequence[int], weight: torch.Tensor | None, bias: torch.Tensor | None, eps: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As the operator computes it: in f32 at least, with what its backward pass takes."""
    axes = list(range(x.dim() - len(shape), x.dim()))
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    mean = wide.mean(axes, keepdim=True)
    centred = wide - mean
    rstd = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + eps)
    y = centred * rstd
    y = y if weight is None else y * weight
    y = y if bias is None else y + bias
    return y.to(x.dtype), mean, rstd


def _decompositions() -> dict[Any, Any]:
    return {**core_aten_decompositions(), aten.native_layer_norm.default: _layer_norm}


# ---- a run of operators as a text ----


@dataclass
class _Writer:
    """Prints the statements of a kernel: an element of each operator's result."""

    statements: list[str] = field(default_factory=list)
    names: dict[Node, str] = field(default_factory=dict)

    def element(self, operand: Any, shape: Sequence[int], indices: Sequence[str]) -> str:
        """An operand at a place of a result of this shape, broadcast as PyTorch does."""
        if not _is_node(operand):
            return _number(operand)
        own = _value(operand).shape
        last = indices[len(indices) - len(own) :]
        subscripts = ("0" if size == 1 else index for size, index in zip(own, last))
        return f"{self.names[operand]}[{', '.join(subscripts)}]"

    def add(self, node: Node, name: str) -> None:
        shape = tuple(_value(node).shape)
        indices = [f"i{axis}" for axis in range(len(shape))]
        left = ", ".join(f"{index} < {size}" for index, size in zip(indices, shape))
        self.names[node] = name
        self.statements.append(f"    {name}[{left}] = {self._expression(node, shape, indices)}")

    def _expression(self, node: Node, shape: Sequence[int], indices: list[str]) -> str:
        args: Any = node.args
        if node.target in _REDUCTIONS:
            return self._reduction(node, indices)
        if node.target in _ALONG:
            axis = args[1] % len(shape)
            within = [*indices[:axis], f"k{axis}", *indices[axis + 1 :]]
            return _ALONG[node.target].format(
                self.element(args[0], shape, indices),
                indices[axis],
                f"k{axis} < {shape[axis]}",
                self.element(args[0], shape, within),
            )
        if node.target is aten.unsqueeze.default:
            axis = args[1] % len(shape)
            return self.element(args[0], shape, indices[:axis] + indices[axis + 1 :])
        if node.target in _SHAPES:
            return self.element(args[0], shape, indices)
        operands = [self.element(each, shape, indices) for each in args]
        if node.target is aten._to_copy.default:
            kind: Any = node.kwargs["dtype"]
            return f"{_NAMES[kind]}({operands[0]})"
        return _POINTWISE[node.target].format(*operands)

    def _reduction(self, node: Node, indices: list[str]) -> str:
        args: Any = node.args
        source = args[0]
        own = _value(source).shape
        axes = sorted(axis % len(own) for axis in args[1])
        kept = list(indices)
        if not (len(args) > 2 and args[2]):
            for axis in axes:
                kept.insert(axis, "")
        places = [f"k{axis}" if axis in axes else kept[axis] for axis in range(len(own))]
        ranges = ", ".join(f"k{axis} < {own[axis]}" for axis in axes)
        return f"{_REDUCTIONS[node.target]}[{ranges}]({self.element(source, own, places)})"


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isinf(value):
        return "inf" if value > 0 else "(-inf)"
    if math.isnan(value):
        return "nan"
    return repr(value) if value >= 0 else f"({value!r})"


def _declared(node: Node, name: str) -> str:
    value = _value(node)
    return f"{name}: {_NAMES[value.dtype]}[{', '.join(map(str, value.shape))}]"


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def text_of(graph: torch.fx.Graph, name: str) -> str:
    """A fused run as a kernel: its placeholders are parameters, its outputs results."""
    writer = _Writer()
    parameters: list[str] = []
    inner: list[Node] = []
    outputs: list[Any] = []
    for node in graph.nodes:
        if node.op == "placeholder":
            writer.names[node] = f"a{len(parameters)}"
            parameters.append(_declared(node, writer.names[node]))
        elif node.op == "call_function":
            inner.append(node)
        elif node.op == "output":
            outputs = _listed(node.args[0])
    results = {node: f"r{place}" for place, node in enumerate(dict.fromkeys(outputs))}
    for place, node in enumerate(inner):
        writer.add(node, results.get(node, f"t{place}"))
    declared = ", ".join(_declared(node, each) for node, each in results.items())
    body = "\n".join(writer.statements)
    return f"kernel {name}({', '.join(parameters)})\n    -> ({declared})\n{{\n{body}\n}}\n"


# ---- graphs ----


@dataclass
class Explanation:
    """What became of a model: the texts of its kernels, and the operators that stayed PyTorch's."""

    texts: list[str] = field(default_factory=list)
    fused: int = 0
    eager: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        rest = ", ".join(f"{name} {count}x" for name, count in sorted(self.eager.items()))
        head = f"# {len(self.texts)} kernels of {self.fused} operators; PyTorch's own: {rest or 'none'}\n"
        return "\n".join([head, *self.texts])

    __repr__ = __str__


_explaining: ContextVar[Explanation | None] = ContextVar("explaining", default=None)


@contextmanager
def _explained() -> Iterator[Explanation]:
    made = Explanation()
    token = _explaining.set(made)
    try:
        yield made
    finally:
        _explaining.reset(token)


class _Fused(torch.nn.Module):
    """A run of operators as one kernel."""

    def __init__(self, op: operators.Op) -> None:
        super().__init__()
        self.op = op

    def forward(self, *inputs: torch.Tensor) -> Any:
        result = self.op(*inputs)
        return tuple(result) if self.op._several else result


def _fuse(graph: GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """The graph with its kernels. A run that the language refuses after all stays as it is."""
    found = _explaining.get()
    partitioner = CapabilityBasedPartitioner(graph, _Writable(), allows_single_node_partition=False)
    fused = partitioner.fuse_partitions(
        [p for p in partitioner.propose_partitions() if len(p.nodes) <= _LONGEST], prefix="headroom_"
    )
    for node in fused.graph.nodes:
        if node.op != "call_module":
            if found and node.op == "call_function":
                found.eager[str(node.target)] = found.eager.get(str(node.target), 0) + 1
            continue
        run = fused.get_submodule(node.target)
        assert isinstance(run, GraphModule)
        try:
            op = operators.op(text_of(run.graph, str(node.target)))
        except _headroom.InputError:
            continue
        setattr(fused, str(node.target), _Fused(op))
        if found:
            found.texts.append(op.kernel.text)
            found.fused += sum(each.op == "call_function" for each in run.graph.nodes)
    fused.recompile()
    return make_boxed_func(fused.forward)


def compile_graph(graph: GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
    """The backend of torch.compile."""
    compiler = aot_autograd(fw_compiler=_fuse, bw_compiler=_fuse, decompositions=_decompositions())
    made: Callable[..., Any] = compiler(graph, inputs)
    return made


def explain(model: Callable[..., Any], *inputs: Any) -> Explanation:
    """Compiles and runs a model once, forwards and, where it has a gradient, backwards; says its kernels."""
    torch._dynamo.reset()
    with _explained() as found:
        result = torch.compile(model, backend=compile_graph)(*inputs)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            torch.autograd.grad(result.sum(), [t for t in _leaves(model, inputs) if t.requires_grad], allow_unused=True)
    torch._dynamo.reset()
    return found


def _leaves(model: Any, inputs: Sequence[Any]) -> list[torch.Tensor]:
    parameters = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
    return parameters + [each for each in inputs if isinstance(each, torch.Tensor)]
