"""Graphs rewritten before they are grouped: batch and sequence as one axis, channels last around convolutions.

A product of PyTorch's has rows; what stands between products is written over batch and sequence. `join_axes` moves the
views that say so behind the operators between, where they meet those of the next product and vanish.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from ._operators import ALONG, POINTWISE, REDUCTIONS, VIEWS, aten, is_plain, is_writable, value_of


def drop_assertions(graph: Graph) -> None:
    """What was traced held when it was traced; a tensor that only an assertion reads need not exist."""
    for node in list(graph.nodes):
        if node.target is aten._assert_tensor_metadata.default:
            graph.erase_node(node)


def join_axes(graph: Graph) -> None:
    """Operators over leading axes that a view split are written over the axis that was split."""
    for node in list(graph.nodes):
        if (node.target in POINTWISE or node.target is aten._to_copy.default) and is_writable(node):
            _join(graph, node, None)
        elif node.target in ALONG and is_writable(node):
            _join(graph, node, [node.args[1]])
        elif node.target in REDUCTIONS and is_writable(node):
            axes: Any = node.args[1]
            _join(graph, node, list(axes) if isinstance(axes, (list, tuple)) else [axes])
    _shorten_views(graph)
    graph.eliminate_dead_code()


def _split_of(node: Any) -> tuple[int, ...]:
    """The leading axes that a view made of the first one of what it shows."""
    if not isinstance(node, Node) or node.target not in VIEWS:
        return ()
    shape, own = tuple(value_of(node).shape), tuple(value_of(node.args[0]).shape)
    count = len(shape) - len(own) + 1
    good = count > 1 and own and shape[count:] == own[1:] and math.prod(shape[:count]) == own[0]
    return shape[:count] if good else ()


def _join(graph: Graph, node: Node, axes: list[int] | None) -> None:
    """One operator; `axes` are those that it reduces or goes along."""
    value = value_of(node)
    operands: list[Any] = list(node.args) if axes is None else [node.args[0]]
    splits = dict.fromkeys(_split_of(each) for each in operands)
    splits.pop((), None)
    if len(splits) != 1 or not value.is_contiguous():
        return
    (split,) = splits
    rank = value.dim() if axes is None else value_of(node.args[0]).dim()
    moved = _moved_axes(axes, len(split), rank) if axes is not None else []
    joined = [_joined(each, split, rank) for each in operands]
    if moved is None or any(each is None for each in joined):
        return
    keeps = axes is None or node.target in ALONG or all(axis != 0 for axis in moved)
    if keeps and tuple(value.shape[: len(split)]) != split:
        return
    shape = (math.prod(split), *value.shape[len(split) :]) if keeps else _without(node, value, len(split))
    with graph.inserting_before(node):
        arguments = [_viewed(graph, each) if isinstance(each, tuple) else each for each in joined]
        arguments += _further_arguments(node, moved)
        made = graph.call_function(node.target, tuple(arguments), node.kwargs)  # type: ignore[arg-type]
        made.meta = {"val": value.reshape(shape)}
        back = _viewed(graph, (made, tuple(value.shape)))
    node.replace_all_uses_with(back)
    graph.erase_node(node)


def _moved_axes(axes: list[int], count: int, rank: int) -> list[int] | None:
    """Axes once the first `count` are one; None where only some of those are meant."""
    places = sorted(axis % rank for axis in axes)
    leading = [axis for axis in places if axis < count]
    if leading and leading != list(range(count)):
        return None
    return [0] * bool(leading) + [axis - count + 1 for axis in places if axis >= count]


def _without(node: Node, value: Any, count: int) -> tuple[int, ...]:
    """The shape of a sum over the leading axes."""
    kept = len(node.args) > 2 and node.args[2]
    return (1, *value.shape[count:]) if kept else tuple(value.shape)


def _further_arguments(node: Node, axes: list[int]) -> list[Any]:
    if node.target in ALONG:
        return [axes[0], *node.args[2:]]
    return [axes, *node.args[2:]] if node.target in REDUCTIONS else []


def _joined(operand: Any, split: Sequence[int], rank: int) -> Any:
    """The operand with one axis for `split`: itself, a node and the shape to see it in, or None where that is none."""
    if not isinstance(operand, Node):
        return operand
    if _split_of(operand) == split:
        return operand.args[0]
    shape = tuple(value_of(operand).shape)
    count = len(split) - (rank - len(shape))  # how many of the split axes it has
    if count <= 0:
        return operand
    if all(size == 1 for size in shape[:count]):
        return operand, (1, *shape[count:])
    if count == len(split) and shape[:count] == split and value_of(operand).is_contiguous():
        return operand, (math.prod(split), *shape[count:])
    return None


def _viewed(graph: Graph, seen: tuple[Node, tuple[int, ...]]) -> Node:
    node, shape = seen
    if tuple(value_of(node).shape) == shape:
        return node
    made = graph.call_function(aten.view.default, (node, list(shape)))
    made.meta = {"val": value_of(node).reshape(shape)}
    return made


def _shorten_views(graph: Graph) -> None:
    """A view of a view shows what the first one does; a view of the same shape is what it shows; two views that show
    the same are one."""
    known: dict[Any, Node] = {}
    for node in list(graph.nodes):
        if node.target not in VIEWS or not is_plain(value_of(node)):
            continue
        source = node.args[0]
        while source.target in VIEWS and value_of(source.args[0]).is_contiguous():
            source = source.args[0]
        node.args = (source, *node.args[1:])
        if tuple(value_of(source).shape) == tuple(value_of(node).shape):
            node.replace_all_uses_with(source)
        else:
            node.replace_all_uses_with(known.setdefault((source, tuple(value_of(node).shape)), node))


# ---- convolutions ----


def prefer_channels_last(graph: Graph) -> None:
    """Convolutions read and write channels last, as the tensor cores take them; the graph's results lie as before. A
    graph whose views count on another layout stays as it is."""
    convolutions = [node for node in graph.nodes if node.target is aten.convolution.default and _is_plane(node)]
    if not convolutions:
        return
    before = {node: node.meta.get("val") for node in graph.nodes}
    copies = [_copied(graph, node, place) for node in convolutions for place in (0, 1)]
    if not _propagate(graph, convolutions):
        _without_copies(graph, [node for node in graph.nodes if node not in before])
        for node, value in before.items():
            node.meta["val"] = value
        return
    _without_copies(graph, [each for each in copies if _is_last(value_of(each.args[0]))])
    _restore_results(graph, before)


def _is_plane(node: Node) -> bool:
    value = value_of(node)
    return is_plain(value) and value.dim() == 4 and not node.args[6]


def _is_last(value: Any) -> bool:
    return bool(value.is_contiguous(memory_format=torch.channels_last))


def _copied(graph: Graph, node: Node, place: int) -> Node:
    source: Any = node.args[place]
    with graph.inserting_before(node):
        made = graph.call_function(aten.clone.default, (source,), {"memory_format": torch.channels_last})
    node.update_arg(place, made)
    return made


def _propagate(graph: Graph, convolutions: Sequence[Node]) -> bool:
    """The values of all operators, from those of the placeholders; false where a view does not fit, or where the
    convolutions of this target write channels first all the same."""
    try:
        with value_of(convolutions[0]).fake_mode:
            for node in graph.nodes:
                if node.op == "call_function":
                    args, kwargs = (map_arg(each, value_of) for each in (node.args, node.kwargs))
                    node.meta["val"] = node.target(*args, **kwargs)
    except RuntimeError:
        return False
    return all(_is_last(value_of(node)) for node in convolutions)


def _without_copies(graph: Graph, copies: Sequence[Node]) -> None:
    for each in copies:
        each.replace_all_uses_with(each.args[0])  # type: ignore[arg-type]
        graph.erase_node(each)


def _restore_results(graph: Graph, before: dict[Node, Any]) -> None:
    (output,) = (node for node in graph.nodes if node.op == "output")
    for node in list(output.all_input_nodes):
        value, old = value_of(node), before.get(node)
        if not isinstance(old, torch.Tensor) or value.stride() == old.stride():
            continue
        with graph.inserting_before(output):
            made = graph.call_function(aten.clone.default, (node,), {"memory_format": torch.contiguous_format})
        made.meta = {"val": old}
        output.replace_input_with(node, made)
