"""A compiled graph as one CUDA graph, so that a step costs the host one launch instead of hundreds.

In: a graph of operators and kernels that run forwards, and the function that runs it. Out: a function with the same
meaning: results are the caller's own, inputs may lie anywhere. The first call runs the operators one by one; the second
captures them.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from . import _headroom
from ._kernel import Kernel
from ._operators import is_shown, value_of

COPIED = 64 << 20  # bytes of inputs and results that a call copies at most: some 30 us of an H200
FEWEST = 8  # launches of a graph that is worth it: its own launch and the copies cost as much as some
ANEW = 4  # captures of a graph whose inputs keep moving; then it runs as it is

Run = Callable[..., Sequence[Any]]
_capturing = threading.Lock()  # PyTorch captures one graph at a time


# ---- what can be captured ----


def is_capturable(graph: GraphModule) -> bool:
    """Whether the whole graph is work of one GPU that is the same at each call: no changed input, no random number, no
    size that depends on data, nothing of another library."""
    return device_of(graph) is not None and all(map(_is_repeatable, graph.graph.nodes))


def is_worth(graph: GraphModule) -> bool:
    """Whether it launches often enough; what is a view launches nothing."""
    work = [node for node in graph.graph.nodes if node.op in ("call_function", "call_module")]
    return sum(node.target is not operator.getitem and not is_shown(node) for node in work) >= FEWEST


def device_of(graph: GraphModule) -> torch.device | None:
    """The GPU that all its tensors are on; None where that is not one, or a size or a number is not known."""
    leaves = [leaf for node in graph.graph.nodes if node.op != "output" for leaf in tree_leaves(_value(graph, node))]
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    known = all(isinstance(leaf, torch.Tensor) or leaf is None for leaf in leaves)
    steady = all(isinstance(size, int) for each in tensors for size in each.shape)
    devices = {each.device for each in tensors if each.layout is torch.strided}
    (device,) = devices if len(devices) == 1 else (None,)
    return device if known and steady and device is not None and device.type == "cuda" else None


def _value(graph: GraphModule, node: Node) -> Any:
    return getattr(graph, str(node.target)) if node.op == "get_attr" else value_of(node)


def _is_repeatable(node: Node) -> bool:
    target = node.target
    if node.op == "placeholder":
        return isinstance(value_of(node), torch.Tensor)
    if node.op != "call_function" or target is operator.getitem:
        return True
    unsteady = {torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output, torch.Tag.nondeterministic_seeded}
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace in ("aten", "prims")
        and not target._schema.is_mutable
        and unsteady.isdisjoint(target.tags)
    )


def passed_results(graph: GraphModule) -> dict[int, int]:
    """Results that are inputs: the place of each among those."""
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    results: Any = output.args[0]
    return {place: inputs.index(each) for place, each in enumerate(results) if each in inputs}


# ---- the function ----


@dataclass
class _Capture:
    """A CUDA graph and where it reads and writes."""

    graph: torch.cuda.CUDAGraph
    stream: torch.cuda.Stream  # of the calls that it serves
    addresses: list[int]  # of all inputs
    copies: dict[int, torch.Tensor]  # by place: the inputs that are brought to where it reads them
    results: Sequence[Any]
    held: list[Any]  # the loaded code that it launches

    def fits(self, inputs: Sequence[torch.Tensor]) -> bool:
        return all(
            each.data_ptr() == address or place in self.copies
            for place, (each, address) in enumerate(zip(inputs, self.addresses))
        )


class Captured:
    """Calls are told apart by where their inputs lie: what never moves, as weights, is read in its place; what has moved
    is copied to a place of the graph's own. Calls on another stream or device, while the caller captures, or once inputs
    have moved too often, run the operators one by one."""

    def __init__(self, run: Run, device: torch.device, passed: dict[int, int], kernels: Sequence[Kernel] = ()) -> None:
        """`passed`: results that are inputs, by place."""
        self._run, self._device, self._passed, self._kernels = run, device, passed, kernels
        self._lock = threading.Lock()
        self._capture: _Capture | None = None
        self._before: list[int] | None = None  # addresses of the inputs of an earlier call
        self._moved: set[int] = set()
        self._left = ANEW

    def __call__(self, *inputs: torch.Tensor) -> Sequence[Any]:
        usable = (
            self._left > 0
            and torch.cuda.current_device() == self._device.index
            and not torch.cuda.is_current_stream_capturing()
        )
        if not usable:
            return self._run(*inputs)
        with self._lock:
            return self._call(inputs)

    def _call(self, inputs: Sequence[torch.Tensor]) -> Sequence[Any]:
        capture, stream = self._capture, torch.cuda.current_stream()
        if capture and capture.stream != stream:
            return self._run(*inputs)
        if not capture or not capture.fits(inputs):
            capture = self._capture = self._anew(inputs, stream)
        return self._replay(capture, inputs) if capture else self._run(*inputs)

    def _anew(self, inputs: Sequence[torch.Tensor], stream: torch.cuda.Stream) -> _Capture | None:
        """A capture that fits these inputs; None at the first call, and where none can be made."""
        addresses = [each.data_ptr() for each in inputs]
        before, self._before = self._before, addresses
        if before is None:
            return None
        self._moved |= {place for place, (old, new) in enumerate(zip(before, addresses)) if old != new}
        self._left -= 1
        capture = self._make(inputs, addresses, stream) if self._left else None
        self._left = self._left if capture else 0
        return capture

    def _make(self, inputs: Sequence[torch.Tensor], addresses: list[int], stream: torch.cuda.Stream) -> _Capture | None:
        """None where the operators cannot be captured after all, or a call would copy too much."""
        moved = [inputs[place] for place in self._moved]
        if _bytes_of(moved) > COPIED or any(0 in each.stride() for each in moved):
            return None
        with torch.inference_mode(False):  # what is written in each call is a plain tensor in all of them
            copies = {place: _empty_like(inputs[place]) for place in self._moved}
        graph = torch.cuda.CUDAGraph()
        try:
            with _capturing, torch.cuda.graph(graph, capture_error_mode="thread_local"):
                results = self._run(*(copies.get(place, each) for place, each in enumerate(inputs)))
        except (RuntimeError, _headroom.Error):
            return None
        made = [each for place, each in enumerate(results) if place not in self._passed and each is not None]
        if _bytes_of([*made, *moved]) > COPIED:
            return None
        return _Capture(graph, stream, addresses, copies, results, [each.loaded() for each in self._kernels])

    def _replay(self, capture: _Capture, inputs: Sequence[torch.Tensor]) -> list[Any]:
        for place, copy in capture.copies.items():
            copy.copy_(inputs[place])
        capture.graph.replay()
        return [self._result(place, each, inputs) for place, each in enumerate(capture.results)]

    def _result(self, place: int, made: Any, inputs: Sequence[torch.Tensor]) -> Any:
        """The caller's own, for the next call writes where this one did."""
        if place in self._passed:
            return inputs[self._passed[place]]
        return made.clone() if made is not None else None


def _empty_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)


def _bytes_of(tensors: Sequence[torch.Tensor]) -> int:
    return sum(each.numel() * each.element_size() for each in tensors)
