"""torch.compile(model, backend="headroom"): runs of operators become kernels.

In: graphs of ATen's operators, after AOTAutograd. Out: the same graphs, with a kernel in place of each group of
operators that can be written as a text (`_operators`, `_groups`, `_writer`); whatever else stays PyTorch's own. A
product or an attention becomes a text where the target is one on which that is at least as fast.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._decomp import core_aten_decompositions
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func  # type: ignore[attr-defined]
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import Graph, GraphModule, Node

from . import _headroom
from . import torch as operators
from ._attention import ATTENTIONS, Attention, attention_of, attention_text, drop_rest
from ._capture import Captured, device_of, is_capturable, is_worth, passed_results
from ._groups import groups_of
from ._operators import VIEWS, aten, is_product, is_shown, is_source, readers_of, sizes_of, value_of
from ._shapes import drop_assertions, join_axes, prefer_channels_last
from ._writer import Text, text_of

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


def _batch_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, mean: torch.Tensor, var: torch.Tensor,
    momentum: float, eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
    """With the statistics of training, in f32 at least."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    shape = (-1, *[1] * (x.dim() - 2))
    y = (x.to(dtype) - mean.to(dtype).reshape(shape)) * torch.rsqrt(var.to(dtype) + eps).reshape(shape)
    y = y if weight is None else y * weight.reshape(shape)
    y = y if bias is None else y + bias.reshape(shape)
    return y.to(x.dtype), x.new_empty(0), x.new_empty(0)


def _decompositions() -> dict[Any, Any]:
    table = {
        **core_aten_decompositions(),
        aten.native_layer_norm.default: _layer_norm,
        aten._native_batch_norm_legit_no_training.default: _batch_norm,
    }
    for each in ATTENTIONS:  # their backward passes take what they give, not what a decomposition does
        table.pop(each, None)
    return table


# ---- what is worth a text ----


@dataclass(frozen=True)
class Choice:
    """Whether products that something follows, and attention, become texts: None is where that is at least as fast, on
    GPUs of compute capability 9 in f16 and bf16. Whether what runs forwards only on a GPU is captured as a CUDA graph."""

    products: bool | None = None
    attention: bool | None = None
    capture: bool = True


def _is_hopper(node: Node) -> bool:
    value = value_of(node)
    value = (
        next((each for each in value if isinstance(each, torch.Tensor)), None) if isinstance(value, tuple) else value
    )
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == "cuda"
        and value.dtype in (torch.float16, torch.bfloat16)
        and torch.cuda.is_available()
        and torch.cuda.get_device_capability(value.device)[0] == 9
    )


_PLAIN = (aten._to_copy.default, aten.clone.default)


def _following(node: Node) -> Iterator[Node]:
    """What reads a product, behind copies."""
    for user in readers_of(node):
        yield user
        if user.target in _PLAIN:
            yield from _following(user)


_LARGE = 1 << 28  # multiplications of a product that is worth the tensor cores' tiles


def _worthy_products(graph: Graph, choice: Choice) -> set[Node]:
    """Products that a text computes at least as fast, with what follows them in the same kernel."""

    def is_worth(node: Node) -> bool:
        if choice.products is not None:
            return choice.products
        left, right = (value_of(each) for each in node.args[-2:])
        aligned = all(size % 8 == 0 for size in (left.shape[-1], right.shape[-1]))
        followed = any(each.target not in _PLAIN for each in _following(node))
        return followed and aligned and left.numel() * right.shape[-1] >= _LARGE and _is_hopper(node)

    return {node for node in graph.nodes if is_product(node) and is_worth(node)}


def _worthy_attentions(graph: Graph, choice: Choice) -> list[tuple[Node, Attention]]:
    """The same of attention; the results beside its output and logsumexp are constants from here on."""
    made = []
    for node in graph.nodes:
        found = attention_of(node)
        if found and (_is_hopper(node) if choice.attention is None else choice.attention):
            drop_rest(graph, found)
            made.append((node, found))
    return made


# ---- graphs ----


@dataclass
class Explanation:
    """What became of a model: the texts of its kernels, each once, and the operators that stayed PyTorch's."""

    texts: list[str] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    fused: int = 0
    eager: dict[str, int] = field(default_factory=dict)

    def add(self, text: str, operators_in: int) -> None:
        if text not in self.calls:
            self.texts.append(text)
        self.calls[text] = self.calls.get(text, 0) + 1
        self.fused += operators_in

    def add_eager(self, graph: Graph) -> None:
        """Views and constants cost nothing worth a line."""
        for node in graph.nodes:
            if node.op != "call_function" or node.target is operator.getitem:
                continue
            if not is_shown(node) and not is_source(node) and node.target not in VIEWS:
                self.eager[str(node.target)] = self.eager.get(str(node.target), 0) + 1

    def __str__(self) -> str:
        rest = ", ".join(f"{name} {count}x" for name, count in sorted(self.eager.items()))
        launches = sum(self.calls.values())
        head = f"# {launches} calls of {len(self.texts)} kernels for {self.fused} operators; PyTorch's own: {rest or 'none'}\n"
        why = "".join(
            f"# {name}: {why}\n" for name, why in _REASONS.items() if any(name in each for each in self.eager)
        )
        texts = (f"# called {self.calls[text]}x\n{text}" for text in self.texts)
        return "\n".join([head + why, *texts])

    __repr__ = __str__


_REASONS = {
    "mm": "products are texts on GPUs of compute capability 9, in f16 and bf16, where pointwise operators follow",
    "attention": "a text on GPUs of compute capability 9, in f16 and bf16, of queries, keys and values without gaps",
    "convolution": "there is no faster text of it",
}
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
    """A group of operators as one kernel; tensors are given with their axes as they lie in memory."""

    def __init__(self, op: operators.Op, text: Text) -> None:
        super().__init__()
        self.op = op
        self._text = text
        self._orders = [_turn(value_of(node), order) for node, order in text.inputs]
        self._backs = [_turn_back(value_of(node), order) for node, order in text.outputs]
        self._call = self._first

    def forward(self, *inputs: torch.Tensor) -> Any:
        made = self._call(*inputs)
        if made is NotImplemented:  # a tensor without elements
            return self._traced(*inputs)
        return made if self.op._several else made[0]

    __call__ = forward  # a module's own way there takes as long as a launch

    def _first(self, *inputs: torch.Tensor) -> Any:
        """The kernel is loaded where its arrays are."""
        operands = (*self._text.inputs, *self._text.outputs)
        nodes = [node for node, _ in self._text.outputs]
        kernel = self.op.kernel._route(str(value_of(nodes[0]).device))
        places = tuple((tuple(sizes_of(node)[axis] for axis in order), tuple(order)) for node, order in operands)
        makers = tuple(_maker(value_of(node), order) for node, order in self._text.outputs)
        self._call = _headroom.Fixed(kernel, places, makers).call
        return self._call(*inputs)

    def _traced(self, *inputs: torch.Tensor) -> Any:
        given = tuple(each if turn is None else turn(each) for each, turn in zip(inputs, self._orders))
        made = self.op(*given)
        results = made if self.op._several else (made,)
        results = tuple(each if turn is None else turn(each) for each, turn in zip(results, self._backs))
        return results if self.op._several else results[0]


def _maker(value: torch.Tensor, order: list[int]) -> Callable[[], torch.Tensor]:
    """Makes a result whose axes lie in this order without gaps."""
    strides, dense = list(value.stride()), 1
    for axis in reversed(order if value.dim() else []):
        strides[axis] = dense
        dense *= value.shape[axis]
    if value.device.type == "cuda" and torch.cuda.device_count() == 1 and _EMPTY_CUDA:
        return functools.partial(_EMPTY_CUDA, tuple(value.size()), tuple(strides), value.dtype)
    return functools.partial(torch.empty_strided, value.size(), strides, dtype=value.dtype, device=value.device)


# What Inductor's code calls: on the current device, in less than half the time.
_EMPTY_CUDA = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)


_Turn = Callable[[torch.Tensor], torch.Tensor]


def _turn(value: torch.Tensor, order: list[int]) -> _Turn | None:
    """How a tensor is seen as its text declares it: its axes as they lie, without those of one element."""
    units = tuple(axis for axis in range(value.dim()) if axis not in order)
    if value.numel() == 1:
        return None if value.dim() == 1 else lambda tensor: tensor.reshape(1)
    kept = sorted(order)
    axes = [kept.index(axis) for axis in order]
    if axes == list(range(len(axes))):
        return (lambda tensor: tensor.squeeze(units)) if units else None
    return (lambda tensor: tensor.squeeze(units).permute(axes)) if units else (lambda tensor: tensor.permute(axes))


def _turn_back(value: torch.Tensor, order: list[int]) -> _Turn | None:
    shape = tuple(value.shape)
    if len(order) == value.dim() and order == sorted(order):
        return None
    if value.numel() == 1:
        return lambda tensor: tensor.reshape(shape)
    axes = [order.index(axis) for axis in sorted(order)]
    if len(order) == value.dim():
        return lambda tensor: tensor.permute(axes)
    return lambda tensor: tensor.permute(axes).view(shape)


def _outputs_of(nodes: Sequence[Node]) -> list[Node]:
    """The nodes of a group that something outside reads, itself or through views."""
    inside = set(nodes)
    return [node for node in nodes if not inside.issuperset(readers_of(node))]


def _replace(graph: GraphModule, place: int, text: Text, nodes: Sequence[Node], replaced: dict[Node, Node]) -> bool:
    """Puts the kernel in the place of what it computes; false where the language refuses the text. `replaced` says what
    gives the result of a node that is no more."""
    try:
        op = operators.op(text.words)
    except _headroom.InputError:
        return False
    name = f"headroom_{place}"
    fused = _Fused(op, text)
    graph.add_submodule(name, fused)
    graph.__dict__[name] = fused  # found before nn.Module looks for it, which takes as long as half a launch
    with graph.graph.inserting_before(next(iter(text.outputs))[0]):
        call = graph.graph.call_module(name, tuple(replaced.get(node, node) for node, _ in text.inputs))
        several = len(text.outputs) > 1
        values = tuple(value_of(node) for node, _ in text.outputs)
        call.meta = {"val": values if several else values[0]}
        for result, (node, _) in enumerate(text.outputs):
            made = graph.graph.call_function(operator.getitem, (call, result)) if several else call
            made.meta = {"val": value_of(node)}
            node.replace_all_uses_with(made)
            replaced[node] = made
    for node in reversed(nodes):
        _erase(graph.graph, node)
    return True


def _erase(graph: Graph, node: Node) -> None:
    """A node that nothing reads any more but views that nothing reads."""
    for user in list(node.users):
        if is_shown(user) or user.target is operator.getitem:
            _erase(graph, user)
    if not node.users:
        graph.erase_node(node)


def _sort(graph: Graph) -> None:
    """Each node behind what it needs, else in the order in which they stand."""
    placed: set[Node] = set()
    if not any(node.op == "placeholder" for node in graph.nodes):
        return
    *_, last = (node for node in graph.nodes if node.op == "placeholder")
    for root in [node for node in graph.nodes if node.op not in ("placeholder", "output")]:
        waiting = [root]
        while waiting:
            node = waiting[-1]
            missing = [each for each in node.all_input_nodes if each not in placed and each.op != "placeholder"]
            if node not in placed and missing:
                waiting += missing
                continue
            waiting.pop()
            if node not in placed:
                placed.add(node)
                last.append(node)
                last = node


def _fuse(graph: GraphModule, choice: Choice) -> None:
    """Puts kernels into the graph. A group that the language refuses after all stays as it is."""
    found = _explaining.get()
    drop_assertions(graph.graph)
    join_axes(graph.graph)
    made = [(attention_text(each), [node]) for node, each in _worthy_attentions(graph.graph, choice)]
    for group in groups_of(graph.graph, _worthy_products(graph.graph, choice)):
        outputs = _outputs_of(group.nodes)
        made.append((text_of(group.nodes, outputs), group.nodes))
    replaced: dict[Node, Node] = {}
    for place, (text, nodes) in enumerate(made):
        if _replace(graph, place, text, nodes, replaced) and found:
            found.add(text.words, len(nodes))
    _sort(graph.graph)
    graph.graph.eliminate_dead_code()
    if found:
        found.add_eager(graph.graph)
    graph.recompile()


_METHODS = {aten.view.default: "view", aten.permute.default: "permute", aten.t.default: "t"}
_FUNCTIONS: dict[Any, Any] = {aten.mm.default: torch.mm, aten.addmm.default: torch.addmm, aten.bmm.default: torch.bmm}


def _direct(graph: GraphModule) -> Callable[..., Any]:
    """The graph's function. What it calls most is called by a method or function of PyTorch's: the operator's own object
    takes twice as long."""
    for node in list(graph.graph.nodes):
        with graph.graph.inserting_before(node):
            if node.target in _METHODS:
                made = graph.graph.call_method(_METHODS[node.target], node.args)
            elif node.target in _FUNCTIONS:
                made = graph.graph.call_function(_FUNCTIONS[node.target], node.args, node.kwargs)
            else:
                continue
        made.meta = node.meta
        node.replace_all_uses_with(made)
        graph.graph.erase_node(node)
    graph.recompile()
    return graph.forward


def _captured(graph: GraphModule) -> Callable[..., Any]:
    """The graph's function, by a CUDA graph where it can be one."""
    device = device_of(graph)
    if device is None or not is_capturable(graph) or not is_worth(graph):
        return _direct(graph)
    kernels = [each.op.kernel for each in graph.children() if isinstance(each, _Fused)]
    return Captured(graph.forward, device, passed_results(graph), kernels)


def compile_graph(
    graph: GraphModule, inputs: list[torch.Tensor], *, options: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """The backend of torch.compile; `options` are the fields of Choice."""
    choice = Choice(**(options or {}))

    def fuse(inner: GraphModule, given: list[Any]) -> Callable[..., Any]:
        _fuse(inner, choice)
        return make_boxed_func(_direct(inner))

    def fuse_inference(inner: GraphModule, given: list[Any]) -> Callable[..., Any]:
        prefer_channels_last(inner.graph)
        _fuse(inner, choice)
        return make_boxed_func(_captured(inner) if choice.capture else _direct(inner))

    compiler = aot_autograd(
        fw_compiler=fuse,
        bw_compiler=fuse,
        inference_compiler=fuse_inference,
        decompositions=_decompositions(),
        partition_fn=min_cut_rematerialization_partition,
    )
    made: Callable[..., Any] = compiler(graph, inputs)
    return made


def explain(model: Callable[..., Any], *inputs: Any, **options: Any) -> Explanation:
    """Compiles and runs a model once, forwards and, where it has a gradient, backwards; says its kernels. `options` are
    those of the backend."""
    torch._dynamo.reset()
    with _explained() as found:
        result = torch.compile(model, backend=compile_graph, options=options or None)(*inputs)
        if isinstance(result, torch.Tensor) and result.requires_grad:
            torch.autograd.grad(result.sum(), list(_leaves(result.grad_fn)), allow_unused=True)
    torch._dynamo.reset()
    return found


def _leaves(function: Any) -> Iterator[torch.Tensor]:
    """The tensors that a result's gradient reaches."""
    seen, waiting = set(), [function]
    while waiting:
        each = waiting.pop()
        if each is None or each in seen:
            continue
        seen.add(each)
        if hasattr(each, "variable"):
            yield each.variable
        waiting += [following for following, _ in each.next_functions]
