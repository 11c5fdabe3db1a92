"""scaled_dot_product_attention as the text of a kernel.

In: the node of one of PyTorch's fused attentions. Out: a text over queries, keys and values as they lie in memory, for
the output and the logsumexp of each query's scores, which the backward pass takes.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from ._operators import aten, is_plain, memory_order, sizes_of, value_of
from ._writer import Text, declared

# Where is_causal stands among the arguments, and a mask.
ATTENTIONS = {
    aten._scaled_dot_product_flash_attention.default: (4, None),
    aten._scaled_dot_product_efficient_attention.default: (6, 3),
    aten._scaled_dot_product_cudnn_attention.default: (6, 3),
    aten._scaled_dot_product_flash_attention_for_cpu.default: (4, "attn_mask"),
}
_DROPOUT = {3: 5, "attn_mask": 3, None: 3}


@dataclass(frozen=True)
class Attention:
    query: Node
    key: Node
    value: Node
    causal: bool
    scale: float
    results: dict[int, Node]  # by their place among those of the operator; what nothing reads is not there


def _argument(node: Node, place: int | str | None, default: Any) -> Any:
    if isinstance(place, str):
        return node.kwargs.get(place, default)
    return default if place is None or place >= len(node.args) else node.args[place]


def attention_of(node: Node) -> Attention | None:
    """What an operator attends to; None where a text does not say it: with a mask, dropout, or gaps in memory."""
    if node.op != "call_function" or node.target not in ATTENTIONS:
        return None
    causal, mask = ATTENTIONS[node.target]
    query, key, value = node.args[:3]
    operands = [value_of(each) for each in (query, key, value)]
    if not all(is_plain(each) and memory_order(each) is not None and each.stride(-1) == 1 for each in operands):
        return None
    if _argument(node, mask, None) is not None or _argument(node, _DROPOUT[mask], 0.0) != 0:
        return None
    results = {user.args[1]: user for user in node.users if user.target is operator.getitem and user.users}
    if not all(0 <= place < 2 or _is_known(value_of(each)) for place, each in results.items()):  # type: ignore[operator]
        return None
    scale: Any = node.kwargs.get("scale")
    if operands[0].shape[1] % operands[1].shape[1]:
        return None
    return Attention(
        query, key, value, bool(_argument(node, causal, False)),  # type: ignore[arg-type]
        operands[0].shape[-1] ** -0.5 if scale is None else scale, results,  # type: ignore[arg-type]
    )  # fmt: skip


def _is_known(value: Any) -> bool:
    """What nothing reads without dropout: seeds, lengths that are those of the arrays, nothing."""
    return value is None or isinstance(value, (int, torch.Tensor))


def attention_text(found: Attention) -> Text:
    operands = [found.query, found.key, found.value]
    orders = [_order(each) for each in operands]
    (b, h, i, d), (_, g, j, _) = sizes_of(found.query), sizes_of(found.key)
    group = "h" if g == h else f"h // {h // g}"
    places = [("b", "h", "i", "d"), ("b", group, "j", "d"), ("b", group, "j", "e")]
    q, k, v = (
        f"{name}[{', '.join(place[axis] for axis in order)}]" for name, place, order in zip("qkv", places, orders)
    )
    parameters = ", ".join(map(declared, operands, "qkv", orders))
    score = f"sum[d < {d}]({q} * {k}) * {found.scale!r}"
    score = f"where(j <= i, {score}, -inf)" if found.causal else score
    lines = [f"s[b < {b}, h < {h}, i < {i}, j < {j}] = {score}"]
    results, outputs = [], []
    for place, node in sorted(found.results.items()):
        if place > 1:
            continue
        order = _order(node)
        name, axes = ("o", ("b", "h", "i", "e")) if place == 0 else ("lse", ("b", "h", "i"))
        left = f"{name}[{', '.join(axes[axis] for axis in order)}]"
        right = (
            f"sum[j < {j}](softmax[j < {j}](s[b, h, i, j]) * {v})"
            if place == 0
            else f"logsumexp[j < {j}](s[b, h, i, j])"
        )
        lines.append(f"{left} = {right}")
        results.append(declared(node, name, order))
        outputs.append((node, order))
    body = "\n".join(f"    {line}" for line in lines)
    words = f"kernel attention({parameters})\n    -> ({', '.join(results)})\n{{\n{body}\n}}\n"
    return Text(words, list(zip(operands, orders)), outputs)


def _order(node: Node) -> list[int]:
    return memory_order(value_of(node)) or list(range(value_of(node).dim()))


def drop_rest(graph: Graph, found: Attention) -> None:
    """Results beside the output and the logsumexp become constants: the backward pass takes them, and without dropout
    reads none."""
    for place, node in found.results.items():
        if place < 2:
            continue
        value = value_of(node)
        with graph.inserting_before(node):
            made: Any = value
            if isinstance(value, torch.Tensor):
                keywords: dict[str, Any] = {"dtype": value.dtype, "device": value.device}
                made = graph.call_function(aten.zeros.default, (list(value.shape),), keywords)
                made.meta = {"val": value}
        for user in list(node.users):
            _swap(user, node, made)


def _swap(user: Node, node: Node, made: Any) -> None:
    def instead(each: Node) -> Any:
        return made if each is node else each

    user.args = map_arg(user.args, instead)
    user.kwargs = map_arg(user.kwargs, instead)
