"""Which of ATen's operators are written as texts, and which tensors of theirs.

In: a node of a graph after AOTAutograd. Out: whether a statement of the language says it (`is_writable`), whether it
only says where elements lie (`is_view`, `through`), whether it is a number everywhere (`constant`).
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import Node

from ._frameworks import torch_dtypes

aten = torch.ops.aten
NAMES: dict[torch.dtype, str] = {dtype: name for name, dtype in torch_dtypes(torch).items()}
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

# What an operator is in the language; {0}, {1} are its operands, element by element.
POINTWISE: dict[Any, str] = {
    aten.add.Tensor: "{0} + {1}", aten.add.Scalar: "{0} + {1}", aten.sub.Tensor: "{0} - {1}", aten.sub.Scalar: "{0} - {1}",
    aten.mul.Tensor: "{0} * {1}", aten.mul.Scalar: "{0} * {1}", aten.div.Tensor: "{0} / {1}", aten.div.Scalar: "{0} / {1}",
    aten.neg.default: "-{0}", aten.reciprocal.default: "1 / {0}", aten.abs.default: "abs({0})", aten.exp.default: "exp({0})",
    aten.log.default: "log({0})", aten.sqrt.default: "sqrt({0})", aten.rsqrt.default: "rsqrt({0})",
    aten.tanh.default: "tanh({0})", aten.erf.default: "erf({0})", aten.sigmoid.default: "sigmoid({0})",
    aten.relu.default: "relu({0})", aten.sin.default: "sin({0})", aten.cos.default: "cos({0})",
    aten.expm1.default: "expm1({0})", aten.log1p.default: "log1p({0})", aten.floor.default: "floor({0})",
    aten.ceil.default: "ceil({0})", aten.pow.Tensor_Scalar: "{0} ^ {1}", aten.maximum.default: "max({0}, {1})",
    aten.minimum.default: "min({0}, {1})", aten.clamp_min.default: "max({0}, {1})", aten.clamp_max.default: "min({0}, {1})",
    aten.where.self: "where({0}, {1}, {2})", aten.gt.Scalar: "{0} > {1}", aten.gt.Tensor: "{0} > {1}",
    aten.ge.Scalar: "{0} >= {1}", aten.ge.Tensor: "{0} >= {1}", aten.lt.Scalar: "{0} < {1}", aten.lt.Tensor: "{0} < {1}",
    aten.le.Scalar: "{0} <= {1}", aten.le.Tensor: "{0} <= {1}", aten.eq.Scalar: "{0} == {1}",
    aten.eq.Tensor: "{0} == {1}", aten.ne.Scalar: "{0} != {1}", aten.ne.Tensor: "{0} != {1}",
    aten.silu.default: "silu({0})", aten.logical_and.default: "{0} and {1}", aten.logical_or.default: "{0} or {1}",
    aten.logical_not.default: "not {0}", aten.bitwise_and.Tensor: "{0} and {1}", aten.bitwise_or.Tensor: "{0} or {1}",
    aten.bitwise_not.default: "not {0}", aten.clone.default: "{0}", aten.clamp.default: "{0}",
    aten.gelu.default: "{0}",  # clamp and gelu: `_writer` says what they are
}  # fmt: skip
OF_BOOLS = (
    aten.logical_and.default, aten.logical_or.default, aten.logical_not.default, aten.bitwise_and.Tensor,
    aten.bitwise_or.Tensor, aten.bitwise_not.default,
)  # fmt: skip
# PyTorch's forms of gelu: the language's own keeps its far tail, by instructions that a product's epilogue waits for.
GELUS = {"none": "0.5 * {0} * (1 + erf({0} * 0.7071067811865476))", "tanh": "gelu_tanh({0})"}
# Of one operand over some of its axes; the other axes keep their places.
REDUCTIONS: dict[Any, str] = {
    aten.sum.dim_IntList: "sum", aten.mean.dim: "mean", aten.amax.default: "max", aten.amin.default: "min",
    aten.any.dim: "any",
}  # fmt: skip
# Of one operand along one axis, which stays.
ALONG: dict[Any, str] = {
    aten._softmax.default: "softmax[{1}]({0})",
    aten._log_softmax.default: "{0} - logsumexp[{2}]({3})",
}
PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default)
CONSTANTS = (aten.full.default, aten.full_like.default, aten.scalar_tensor.default, aten.zeros_like.default)
_HARMLESS = {"alpha": 1, "approximate": "any", "memory_format": "any"}  # keywords that change no value
SPLITS = (aten.split_with_sizes.default, aten.split.Tensor)
VIEWS = (aten.view.default, aten.reshape.default, aten._unsafe_view.default)
AXIS_MOST = 8  # of a tensor, in the language


# ---- values ----


def value_of(node: Any) -> Any:
    """The tensor without elements that stands for a node's result; None where there is none."""
    return node.meta.get("val") if isinstance(node, Node) else None


def sizes_of(node: Any) -> tuple[int, ...]:
    """The shape; a tensor without axes has one of one element in a text."""
    return sizes_of_value(value_of(node))


def sizes_of_value(value: torch.Tensor) -> tuple[int, ...]:
    return tuple(value.shape) or (1,)


def memory_order(value: torch.Tensor) -> list[int] | None:
    """The axes from the farthest apart in memory to the nearest, of a tensor without gaps; else None."""
    order = sorted(range(value.dim()), key=lambda axis: (-value.stride()[axis], axis))
    dense = 1
    for axis in reversed(order):
        if value.shape[axis] != 1 and value.stride(axis) != dense:
            return None
        dense *= value.shape[axis]
    return order or [0]


def text_axes(value: torch.Tensor) -> list[int]:
    """The axes that a text declares, as they lie: those of one element say nothing, and one that is all there is stays."""
    order = memory_order(value) or list(range(value.dim()))
    return [axis for axis in order if sizes_of_value(value)[axis] != 1] or [0]


def is_plain(value: Any) -> bool:
    """A tensor with elements, of a dtype of the language and sizes that are numbers."""
    return (
        isinstance(value, torch.Tensor)
        and value.dim() <= AXIS_MOST
        and value.dtype in NAMES
        and value.device.type in ("cpu", "cuda")
        and all(isinstance(size, int) for size in value.shape)
        and value.numel() > 0
    )


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def number(value: Any) -> str:
    """A number as the language writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isinf(value):
        return "inf" if value > 0 else "(-inf)"
    if math.isnan(value):
        return "nan"
    return repr(value) if value >= 0 else f"({value!r})"


# ---- operators that compute ----


def is_writable(node: Node) -> bool:
    """Whether a statement says what the operator computes."""
    value = value_of(node)
    if node.op != "call_function" or not is_plain(value) or memory_order(value) is None:
        return False
    if not all(is_plain(value_of(each)) for each in node.all_input_nodes):
        return False
    if node.target in POINTWISE:
        return _is_writable_pointwise(node)
    if node.target in REDUCTIONS:
        return _is_writable_reduction(node)
    if node.target in ALONG:
        return node.args[2] is False and value.dim() > 0
    return _is_writable_other(node)


def _is_writable_pointwise(node: Node) -> bool:
    dtypes = [value_of(each).dtype for each in node.all_input_nodes]
    if node.target is aten.clamp.default:
        return value_of(node).dtype in FLOATS and len(node.args) > 1
    if node.target in OF_BOOLS and any(dtype != torch.bool for dtype in dtypes):
        return False
    if not any(dtype in FLOATS for dtype in dtypes) and value_of(node).dtype in FLOATS:
        return False  # whole numbers that become floats
    plain = all(_HARMLESS.get(name) in ("any", value) for name, value in node.kwargs.items())
    plain = plain and len(node.args) == len(
        re.findall(r"{\d}", POINTWISE[node.target])
    )  # alpha may stand there by position
    return plain and all(is_number(each) for each in node.args if not isinstance(each, Node))


def _is_writable_reduction(node: Node) -> bool:
    source = value_of(node.args[0])
    fits = source.dtype == torch.bool if node.target is aten.any.dim else source.dtype in FLOATS
    wide = node.kwargs.get("dtype", value_of(node).dtype) == value_of(node).dtype
    return fits and wide and source.dim() > 0 and len(node.args) > 1 and node.args[1] not in ([], None)


def _is_writable_other(node: Node) -> bool:
    args: Any = node.args
    if node.target is aten._to_copy.default:
        return _is_conversion(node)
    if node.target is aten.cat.default:
        return len(args[0]) > 1 and all(value_of(each).dtype == value_of(node).dtype for each in args[0])
    if node.target is aten.gather.default:
        return value_of(node).dim() > 0
    if node.target is aten.scatter.value:  # one place a row
        shape, index = list(sizes_of(args[0])), list(sizes_of(args[2]))
        shape[args[1]] = 1
        return shape == index and is_number(args[3])
    return node.target is aten.embedding.default


def _is_conversion(node: Node) -> bool:
    """A copy to another dtype, in the same memory."""
    given = node.kwargs
    near = given.get("device") in (None, value_of(node.args[0]).device)
    return "dtype" in given and near and given.get("layout") in (None, torch.strided) and not given.get("pin_memory")


def is_reduction(node: Node) -> bool:
    """Whether an element of the result follows from many."""
    return node.target in REDUCTIONS or node.target in ALONG


def is_product(node: Node) -> bool:
    """A product of matrices of floats that a text can say."""
    value = value_of(node)
    if node.target not in PRODUCTS or not is_plain(value) or value.dtype not in FLOATS or node.kwargs:
        return False
    return memory_order(value) is not None and all(is_plain(value_of(each)) for each in node.all_input_nodes)


# ---- operators that say where elements lie ----


def is_view(node: Node) -> bool:
    """Whether `through` follows it."""
    if node.op != "call_function" or not is_plain(value_of(node)):
        return False
    if node.target is operator.getitem:
        source: Any = node.args[0]
        return source.target in SPLITS and is_plain(value_of(source.args[0]))
    if node.target in VIEWS:
        return is_plain(value_of(node.args[0])) and _unit_axes(node) is not None
    return node.target in _THROUGH and all(is_plain(value_of(each)) for each in node.all_input_nodes)


def is_shown(node: Node) -> bool:
    """Whether it only shows another tensor: a view, or the pieces of a split, which are views."""
    return is_view(node) or (node.target in SPLITS and is_plain(value_of(node.args[0])))


def readers_of(node: Node) -> Iterator[Node]:
    """What reads its elements, itself or through views."""
    for user in node.users:
        if is_shown(user):
            yield from readers_of(user)
        else:
            yield user


def constant(node: Node) -> str | None:
    """The number that all elements are."""
    args: Any = node.args
    if node.op != "call_function" or node.target not in CONSTANTS or not is_plain(value_of(node)):
        return None
    if node.target is aten.zeros_like.default:
        return "0"
    value = args[0] if node.target is aten.scalar_tensor.default else args[1]
    return number(value) if is_number(value) else None


def counter(node: Node, at: Sequence[str]) -> str | None:
    """An element of arange."""
    if node.target is not aten.arange.start_step or not is_plain(value_of(node)) or value_of(node).dtype in FLOATS:
        return None
    args: Any = node.args
    step = args[2] if len(args) > 2 else 1
    if not all(isinstance(each, int) for each in args):
        return None
    words = _moved(at[0], step, args[0])
    return words if words == at[0] else f"({words})"


def is_source(node: Node) -> bool:
    """Whether a text has its elements without reading memory."""
    return constant(node) is not None or counter(node, ["0"]) is not None


def through(node: Node, at: Sequence[str]) -> tuple[Node, list[str]]:
    """The tensor that a view shows, and the place in it of the view's element `at`."""
    if node.target is operator.getitem:
        return _through_split(node, at)
    return _THROUGH[node.target](node, list(at))


def _axis(node: Node, place: int = 1) -> int:
    axis: Any = node.args[place]
    rank = max(value_of(node.args[0]).dim(), 1)
    return axis % (rank + (node.target is aten.unsqueeze.default))


def _moved(index: str, step: int, start: int) -> str:
    words = index if step == 1 else f"{index} * {step}"
    return words if start == 0 else f"{words} + {start}"


def _through_same(node: Node, at: list[str]) -> tuple[Node, list[str]]:
    return node.args[0], at  # type: ignore[return-value]


def _through_unsqueeze(node: Node, at: list[str]) -> tuple[Node, list[str]]:
    axis = _axis(node)
    return node.args[0], (at[:axis] + at[axis + 1 :]) or ["0"]  # type: ignore[return-value]


def _through_squeeze(node: Node, at: list[str]) -> tuple[Node, list[str]]:
    dims: Any = node.args[1] if isinstance(node.args[1], (list, tuple)) else [node.args[1]]
    shape = value_of(node.args[0]).shape
    gone = {axis % len(shape) for axis in dims if shape[axis] == 1}
    left = iter(at)
    return node.args[0], ["0" if axis in gone else next(left) for axis in range(len(shape))]  # type: ignore[return-value]


def _through_expand(node: Node, at: list[str]) -> tuple[Node, list[str]]:
    own = sizes_of(node.args[0])
    last = at[len(at) - len(own) :]
    return node.args[0], ["0" if size == 1 else index for size, index in zip(own, last)]  # type: ignore[return-value]


def _through_permute(node: Node, at: list[str]) -> tuple[Node, list[str]]:
    order: Any = node.args[1]
    places = {axis % len(order): index for axis, index in zip(order, at)}
    return node.args[0], [places[axis] for axis in range(len(order))]  # type: ignore[return-value]


def _through_slice(node: Node, at: list[str]) -> tuple[Node, list[str]]:
    args: Any = node.args
    axis = args[1] % len(at) if len(args) > 1 else 0
    size = sizes_of(args[0])[axis]
    start = args[2] if len(args) > 2 and args[2] is not None else 0
    start = min(max(start + size if start < 0 else start, 0), size)
    at[axis] = _moved(at[axis], args[4] if len(args) > 4 else 1, start)
    return args[0], at


def _through_select(node: Node, at: list[str]) -> tuple[Node, list[str]]:
    args: Any = node.args
    axis = _axis(node)
    place = str(args[2] % sizes_of(args[0])[axis])
    at = at if value_of(node).dim() else []
    return args[0], [*at[:axis], place, *at[axis:]]


def _through_reshape(node: Node, at: list[str]) -> tuple[Node, list[str]]:
    pairs = _unit_axes(node)
    assert pairs is not None
    return node.args[0], ["0" if to is None else at[to] for to in pairs]  # type: ignore[return-value]


def _unit_axes(node: Node) -> list[int | None] | None:
    """Of a reshape that only adds or drops axes of one element: the axis of the result that each of the source is."""
    own = sizes_of(node.args[0])
    long = [axis for axis, size in enumerate(sizes_of(node)) if size != 1]
    if [size for size in own if size != 1] != [sizes_of(node)[axis] for axis in long]:
        return None
    left = iter(long)
    return [None if size == 1 else next(left) for size in own]


def _through_split(node: Node, at: Sequence[str]) -> tuple[Node, list[str]]:
    split: Any = node.args[0]
    args: Any = split.args
    axis = args[2] % len(at) if len(args) > 2 else 0
    place: Any = node.args[1]
    start = sum(args[1][:place]) if isinstance(args[1], (list, tuple)) else args[1] * place
    moved = list(at)
    moved[axis] = _moved(at[axis], 1, start)
    return args[0], moved


_THROUGH: dict[Any, Any] = {
    aten.alias.default: _through_same, aten.detach.default: _through_same, aten.unsqueeze.default: _through_unsqueeze,
    aten.squeeze.dim: _through_squeeze, aten.squeeze.dims: _through_squeeze, aten.expand.default: _through_expand,
    aten.permute.default: _through_permute, aten.slice.Tensor: _through_slice, aten.select.int: _through_select,
    aten.view.default: _through_reshape, aten.reshape.default: _through_reshape,
    aten._unsafe_view.default: _through_reshape,
}  # fmt: skip
