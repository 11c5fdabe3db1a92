"""A group of operators as the text of a kernel.

In: the nodes of a group, in order. Out: the text, the nodes that are its parameters and results, and the order of
axes in which each lies in memory: a text walks tensors as they lie.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

from ._operators import (
    ALONG,
    GELUS,
    NAMES,
    POINTWISE,
    REDUCTIONS,
    aten,
    constant,
    counter,
    is_view,
    number,
    readers_of,
    sizes_of,
    text_axes,
    through,
    value_of,
)


@dataclass
class Text:
    """A kernel for a group: `inputs` are parameters, `outputs` results, each with its axes as they lie."""

    words: str
    inputs: list[tuple[Node, list[int]]]
    outputs: list[tuple[Node, list[int]]]


@dataclass
class _Writer:
    """Prints the statements of a kernel: an element of each operator's result."""

    names: dict[Node, str] = field(default_factory=dict)
    orders: dict[Node, list[int]] = field(default_factory=dict)
    parameters: list[Node] = field(default_factory=list)
    statements: list[str] = field(default_factory=list)
    extents: dict[str, int] = field(default_factory=dict)  # of the indices of the statement that is written
    inlined: set[Node] = field(default_factory=set)  # written where they are read, without a statement

    # ---- reading ----

    def element(self, operand: Any, at: Sequence[str]) -> str:
        """An operand at a place of a result that it is broadcast to, as PyTorch does."""
        if not isinstance(operand, Node):
            return number(operand)
        own = sizes_of(operand)
        last = at[len(at) - len(own) :]
        return self.read(operand, ["0" if size == 1 else index for size, index in zip(own, last)])

    def read(self, node: Node, at: Sequence[str]) -> str:
        """An element of a tensor: a number, a place of what a view shows, or of a parameter or local."""
        if node in self.inlined:
            return f"({self._expression(node, sizes_of(node), list(at))})"
        if node not in self.names:
            words = constant(node) or counter(node, at)
            if words is not None:
                return words
            if is_view(node):
                return self.read(*through(node, at))
            self._parameter(node)
        subscripts = [self._subscript(at[axis], sizes_of(node)[axis]) for axis in self.orders[node]]
        return f"{self.names[node]}[{', '.join(subscripts)}]"

    def _parameter(self, node: Node) -> None:
        self.names[node] = f"a{len(self.parameters)}"
        self.orders[node] = text_axes(value_of(node))
        self.parameters.append(node)

    def _subscript(self, index: str, size: int) -> str:
        """An index alone on an axis says that it ranges over all of it."""
        return f"{index} + 0" if self.extents.get(index, size) != size else index

    # ---- statements ----

    def add(self, node: Node, name: str, order: list[int]) -> None:
        shape = sizes_of(node)
        indices = [f"i{axis}" for axis in range(len(shape))]
        self.extents = dict(zip(indices, shape))
        words = self._expression(node, shape, indices)
        left = ", ".join(f"{indices[axis]} < {shape[axis]}" for axis in order)
        self.names[node], self.orders[node] = name, order
        self.statements.append(f"    {name}[{left}] = {words}")

    def _expression(self, node: Node, shape: Sequence[int], at: list[str]) -> str:
        if node.target is aten.clamp.default:
            return self._clamp(node, at)
        if node.target in POINTWISE:
            words = POINTWISE[node.target]
            if node.target is aten.gelu.default:
                words = GELUS[str(node.kwargs.get("approximate", "none"))]
            return words.format(*(self.element(each, at) for each in node.args))
        if node.target in REDUCTIONS:
            return self._reduction(node, at)
        if node.target in ALONG:
            return self._along(node, shape, at)
        return _OTHERS[node.target](self, node, at)

    def _clamp(self, node: Node, at: list[str]) -> str:
        words = self.element(node.args[0], at)
        for function, bound in zip(("max", "min"), node.args[1:]):
            words = words if bound is None else f"{function}({words}, {number(bound)})"
        return words

    def _along(self, node: Node, shape: Sequence[int], at: list[str]) -> str:
        args: Any = node.args
        axis = args[1] % len(shape)
        inner = f"k{axis}"
        self.extents[inner] = shape[axis]
        within = self.element(args[0], [*at[:axis], inner, *at[axis + 1 :]])
        return ALONG[node.target].format(self.element(args[0], at), at[axis], f"{inner} < {shape[axis]}", within)

    def _reduction(self, node: Node, at: list[str]) -> str:
        args: Any = node.args
        own = sizes_of(args[0])
        listed = args[1] if isinstance(args[1], (list, tuple)) else [args[1]]
        axes = sorted(axis % len(own) for axis in listed)
        kept = list(at) if value_of(node).dim() else []
        if not (len(args) > 2 and args[2]):
            for axis in axes:
                kept.insert(axis, "")
        places = [f"k{axis}" if axis in axes else kept[axis] for axis in range(len(own))]
        self.extents |= {f"k{axis}": own[axis] for axis in axes}
        ranges = ", ".join(f"k{axis} < {own[axis]}" for axis in axes)
        return f"{REDUCTIONS[node.target]}[{ranges}]({self.element(args[0], places)})"

    def convert(self, node: Node, at: list[str]) -> str:
        kind: Any = node.kwargs["dtype"]
        return f"{NAMES[kind]}({self.element(node.args[0], at)})"

    def concatenate(self, node: Node, at: list[str]) -> str:
        args: Any = node.args
        axis = args[1] % len(at) if len(args) > 1 else 0
        end, pieces = 0, []
        for part in args[0]:
            place = at[axis] if end == 0 else f"{at[axis]} - {end}"
            pieces.append(self.read(part, [*at[:axis], place, *at[axis + 1 :]]))
            end += sizes_of(part)[axis]
            pieces.append(str(end))
        words = pieces[-2]
        for piece, bound in reversed(list(zip(pieces[:-2:2], pieces[1:-2:2]))):
            words = f"where({at[axis]} < {bound}, {piece}, {words})"
        return words

    def gather(self, node: Node, at: list[str]) -> str:
        args: Any = node.args
        axis = args[1] % len(at)
        return self.read(args[0], [*at[:axis], self.read(args[2], at), *at[axis + 1 :]])

    def embedding(self, node: Node, at: list[str]) -> str:
        args: Any = node.args
        return self.read(args[0], [self.read(args[1], at[:-1] or ["0"]), at[-1]])

    def scatter(self, node: Node, at: list[str]) -> str:
        """One place along an axis has the value, the others what was there."""
        args: Any = node.args
        axis = args[1] % len(at)
        place = self.read(args[2], [*at[:axis], "0", *at[axis + 1 :]])
        return f"where({at[axis]} == {place}, {number(args[3])}, {self.read(args[0], at)})"

    def product(self, node: Node, at: list[str]) -> str:
        *bias, left, right = node.args
        inner = "k0"
        self.extents[inner] = sizes_of(left)[-1]
        words = f"{self.element(left, [*at[:-1], inner])} * {self.element(right, [*at[:-2], inner, at[-1]])}"
        words = f"sum[{inner} < {self.extents[inner]}]({words})"
        return f"{words} + {self.element(bias[0], at)}" if bias else words


_OTHERS: dict[Any, Callable[[_Writer, Node, list[str]], str]] = {
    aten._to_copy.default: _Writer.convert, aten.cat.default: _Writer.concatenate, aten.gather.default: _Writer.gather,
    aten.embedding.default: _Writer.embedding, aten.scatter.value: _Writer.scatter, aten.mm.default: _Writer.product,
    aten.addmm.default: _Writer.product, aten.bmm.default: _Writer.product,
}  # fmt: skip


_GATHERS = (aten.gather.default, aten.embedding.default)


def _inlined(nodes: Sequence[Node], outputs: Sequence[Node]) -> set[Node]:
    """What is computed for one reader, at places of its choice: pieces of a concatenation, rows of a table."""
    made: set[Node] = set()
    inside = set(nodes)

    def is_piece(reader: Node) -> bool:
        return reader.target is aten.cat.default or (reader in made and reader.target not in _GATHERS)

    for node in reversed(nodes):
        readers = set(readers_of(node))
        if node in outputs or not readers <= inside:
            continue
        is_conversion = node.target is aten._to_copy.default
        single = len(readers) == 1
        if (single or is_conversion) and (is_conversion or node.target in POINTWISE) and all(map(is_piece, readers)):
            made.add(node)
        elif single and node.target in (*_GATHERS, aten.cat.default) and _is_map(next(iter(readers))):
            made.add(node)
    return made


def _is_map(node: Node) -> bool:
    return node.target in POINTWISE or node.target is aten._to_copy.default


def declared(node: Node, name: str, order: Sequence[int]) -> str:
    shape = sizes_of(node)
    return f"{name}: {NAMES[value_of(node).dtype]}[{', '.join(str(shape[axis]) for axis in order)}]"


def kernel_name(nodes: Sequence[Node]) -> str:
    """By its operators, as they first come: the same group of another layer is the same kernel."""
    words = dict.fromkeys(re.sub(r"\W", "", str(node.target).split(".")[1]).strip("_") for node in nodes)
    return "_".join(list(words)[:6])


def text_of(nodes: Sequence[Node], outputs: Sequence[Node]) -> Text:
    """The kernel that computes `outputs`, which are among `nodes`."""
    writer = _Writer(inlined=_inlined(nodes, outputs))
    results = {node: f"r{place}" for place, node in enumerate(outputs)}
    for place, node in enumerate(node for node in nodes if node not in writer.inlined):
        writer.add(node, results.get(node, f"t{place}"), text_axes(value_of(node)))
    parameters = ", ".join(declared(n, writer.names[n], writer.orders[n]) for n in writer.parameters)
    made = ", ".join(declared(n, name, writer.orders[n]) for n, name in results.items())
    body = "\n".join(writer.statements)
    return Text(
        f"kernel {kernel_name(nodes)}({parameters})\n    -> ({made})\n{{\n{body}\n}}\n",
        [(node, writer.orders[node]) for node in writer.parameters],
        [(node, writer.orders[node]) for node in outputs],
    )
