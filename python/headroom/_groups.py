"""Which operators of a graph are computed together.

In: a graph after AOTAutograd. Out: groups of its nodes, each of which can run as one kernel: between two nodes of a
group there is no way through nodes outside of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from torch.fx import Graph, Node

from ._operators import (
    aten,
    is_plain,
    is_product,
    is_reduction,
    is_shown,
    is_source,
    is_view,
    is_writable,
    readers_of,
    sizes_of,
    through,
    value_of,
)

LONGEST = 60  # operators of one group, and tensors that it reads
SMALL = 1 << 14  # elements: below, a kernel costs its launch, whatever it walks


@dataclass(eq=False)
class Group:
    """Nodes in the graph's order."""

    nodes: list[Node]
    domain: tuple[int, ...]  # what it walks: the shape of its largest tensor, without axes of one element
    order: dict[Node, int] = field(repr=False)

    @property
    def first(self) -> int:
        return self.order[self.nodes[0]]

    @property
    def last(self) -> int:
        return self.order[self.nodes[-1]]

    @property
    def is_map(self) -> bool:
        return not any(is_reduction(node) or is_product(node) for node in self.nodes)


def base_of(node: Node) -> Node:
    """The tensor behind views."""
    while is_view(node):
        node, _ = through(node, [f"i{axis}" for axis in range(len(sizes_of(node)))])
    return node


def _long_axes(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(size for size in shape if size != 1)


def domain_of(node: Node) -> tuple[int, ...]:
    shapes = [sizes_of(each) for each in (node, *(n for n in node.all_input_nodes if not is_source(n)))]
    if node.target in (aten.gather.default, aten.embedding.default):
        shapes = [sizes_of(node)]
    return _long_axes(max(shapes, key=math.prod))


class Grouping:
    """The groups of a graph, as they grow."""

    def __init__(self, graph: Graph) -> None:
        self.order = {node: place for place, node in enumerate(graph.nodes)}
        self.groups: dict[Node, Group] = {}
        for node in graph.nodes:
            if is_writable(node):
                self._add(Group([node], domain_of(node), self.order))

    def _add(self, group: Group) -> None:
        self.groups.update(dict.fromkeys(group.nodes, group))

    def all(self) -> list[Group]:
        return sorted(dict.fromkeys(self.groups.values()), key=lambda group: group.first)

    # ---- merging ----

    def merge(self, one: Group, other: Group) -> bool:
        """Makes them one group, unless that would wait for itself or be too long."""
        if one is other:
            return True
        if len(one.nodes) + len(other.nodes) > LONGEST or self._is_between(one, other) or self._is_between(other, one):
            return False
        nodes = sorted(one.nodes + other.nodes, key=self.order.__getitem__)
        if len({each for node in nodes for each in node.all_input_nodes}) > 2 * LONGEST:
            return False
        self._add(Group(nodes, max(one.domain, other.domain, key=math.prod), self.order))
        return True

    def _is_between(self, one: Group, other: Group) -> bool:
        """Whether something outside of both needs `one` and is needed by `other`."""
        inside = {*one.nodes, *other.nodes}
        last = max(one.last, other.last)
        seen: set[Node] = set()
        waiting = [(user, False) for node in one.nodes for user in node.users]
        while waiting:
            node, outside = waiting.pop()
            if node in inside:
                if outside and self.groups.get(node) is other:
                    return True
                continue
            if node in seen:
                continue
            group = self.groups.get(node)
            real = outside or group is not None or not is_shown(node)
            if real:
                seen.add(node)
            nodes = group.nodes if group else [node]
            if self.order[nodes[0]] < last:
                waiting += [(user, real) for each in nodes for user in each.users]
        return False

    def producers(self, group: Group) -> Iterator[Group]:
        """The groups whose results it reads."""
        bases = [base_of(each) for node in group.nodes for each in node.all_input_nodes]
        yield from dict.fromkeys(self.groups[base] for base in bases if base in self.groups)


def _fits(one: Group, other: Group) -> bool:
    """Whether one walk serves both: one's axes are among the other's, or there is so little that it does not matter."""
    short, long = sorted((one.domain, other.domain), key=len)
    left = iter(long)
    if all(size in left for size in short):
        return True
    if one.is_map and other.is_map and sorted(one.domain) == sorted(other.domain):
        return True  # the same places in another order
    return max(math.prod(one.domain), math.prod(other.domain)) <= SMALL


def _fits_concatenation(producer: Group, node: Node) -> bool:
    """Pieces are computed where they are put together."""
    return node.target is aten.cat.default and producer.is_map


def fuse_chains(grouping: Grouping) -> None:
    """An operator joins the groups that make its operands."""
    for node in list(grouping.order):
        if node not in grouping.groups:
            continue
        while _join_producer(grouping, node):
            pass


def _join_producer(grouping: Grouping, node: Node) -> bool:
    """Merges one of those that make what a node's group reads; false where none fits any more."""
    group = grouping.groups[node]
    return any(
        (_fits(each, group) or _fits_concatenation(each, node)) and grouping.merge(each, group)
        for each in grouping.producers(group)
        if each is not group
    )


def fuse_readers(grouping: Grouping) -> None:
    """Groups that walk the same tensor read it once."""
    for node in list(grouping.order):
        if is_shown(node):
            continue
        readers = dict.fromkeys(grouping.groups[u] for u in readers_of(node) if u in grouping.groups)
        if not is_plain(value_of(node)):
            continue
        domain = _long_axes(sizes_of(node))
        same = [group for group in readers if group.domain == domain]
        for other in same[1:]:
            grouping.merge(grouping.groups[same[0].nodes[0]], grouping.groups[other.nodes[0]])


# ---- products ----


def fuse_epilogues(grouping: Grouping, is_worth: set[Node]) -> None:
    """A product joins the map that reads it, where nothing else does: its result need not be written and read."""
    for node in list(grouping.order):
        if node not in is_worth:
            continue
        readers = list(readers_of(node))
        groups = dict.fromkeys(grouping.groups.get(reader) for reader in readers)
        group = next(iter(groups), None)
        if len(groups) != 1 or group is None or not group.is_map or group.domain != _long_axes(sizes_of(node)):
            continue
        grouping.groups[node] = single = Group([node], group.domain, grouping.order)
        if not grouping.merge(single, group):
            del grouping.groups[node]


def fuse_attention(grouping: Grouping, is_worth: set[Node]) -> None:
    """A softmax between two products joins both, where no score and no weight is kept."""
    for group in grouping.all():
        if [node.target for node in group.nodes if is_reduction(node)] != [aten._softmax.default]:
            continue
        products = [base_of(each) for node in group.nodes for each in node.all_input_nodes]
        before = [node for node in dict.fromkeys(products) if node in is_worth and node not in grouping.groups]
        after = dict.fromkeys(u for node in group.nodes for u in readers_of(node) if u not in group.nodes)
        if len(before) != 1 or len(after) != 1 or not set(readers_of(before[0])) <= set(group.nodes):
            continue
        behind = next(iter(after))
        if behind not in is_worth or behind in grouping.groups:
            continue
        grouping.groups[before[0]] = Group([before[0]], group.domain, grouping.order)
        grouping.groups[behind] = Group([behind], group.domain, grouping.order)
        for each in (before[0], behind):
            if not grouping.merge(grouping.groups[each], grouping.groups[group.nodes[0]]):
                del grouping.groups[each]


def groups_of(graph: Graph, products: set[Node]) -> list[Group]:
    """`products` are those that a text computes at least as fast as PyTorch does."""
    grouping = Grouping(graph)
    fuse_chains(grouping)
    fuse_readers(grouping)
    fuse_attention(grouping, products)
    fuse_epilogues(grouping, products)
    return [group for group in grouping.all() if _is_worth(group)]


def _is_worth(group: Group) -> bool:
    """A kernel needs a tensor that says where it runs; a copy alone is PyTorch's."""
    reads = (base_of(each) for node in group.nodes for each in node.all_input_nodes)
    return any(not is_source(each) and each not in group.nodes for each in reads)
