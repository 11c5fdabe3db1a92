"""The gradient of a kernel, as a kernel."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

from . import _headroom
from ._kernel import Kernel


def gradient_text(
    kernel: Kernel,
    *,
    of: str | None = None,
    wrt: str | None = None,
    save: str | None = None,
    recompute: str | None = None,
    name: str | None = None,
    accumulate: bool = False,
) -> tuple[str, str]:
    """The text of the gradient, and notes on it. Names are lists with commas."""
    return _headroom.gradient_text(kernel.path, kernel.text, kernel.name, of, wrt, save, recompute, name, accumulate)


def forward_text(kernel: Kernel, *, save: str) -> str:
    """The forward kernel with the locals of `save` as results."""
    return _headroom.gradient_text(kernel.path, kernel.text, kernel.name, None, None, save, forward=True)[0]


def derived_names(made: Sequence[str], of: Sequence[str]) -> dict[str, str]:
    """What each name of a derived kernel is the derivative of: `dx` of x, or `dx2` where the text has a dx already."""
    left = list(of)
    found = {f"d{name}": name for name in of if f"d{name}" in made}
    for name in found.values():
        left.remove(name)
    for name in (n for n in made if n not in found):
        source = next(each for each in left if re.fullmatch(rf"d{each}\d+", name))
        left.remove(source)
        found[name] = source
    return found


@functools.lru_cache(maxsize=1024)
def backward_of(kernel: Kernel, of: tuple[str, ...], wrt: tuple[str, ...]) -> Kernel:
    """The kernel of the gradient of these results for these parameters; derived once."""
    text, _ = gradient_text(kernel, of=",".join(of), wrt=",".join(wrt), save="")  # the forward kernel is what it is
    return Kernel(text, f"{kernel.path} (gradient)")


def backward_call(
    kernel: Kernel,
    make: Callable[..., Callable[..., Any]],
    values: dict[str, Any],
    cotangents: dict[str, Any],
    wrt: tuple[str, ...],
    given: dict[str, int | str],
) -> dict[str, Any]:
    """Gradients by parameter, from the arguments and results of the forward kernel and the cotangents of results.

    `make(kernel, **extents)` gives the framework's operation of a kernel; `given` is what the forward one was given.
    What the derived kernel takes under a name of the forward kernel is that argument; all else is a cotangent.
    """
    backward = backward_of(kernel, tuple(cotangents), wrt)
    asked = [a.name for a in backward.signature.parameters]
    of_name = derived_names([name for name in asked if name not in values], tuple(cotangents))
    operands = {n: values[n] if n in values else cotangents[of_name[n]] for n in asked}
    known = {k: v for k, v in given.items() if k in kernel.signature.extents}
    result = make(backward, **_extents_unsaid(kernel, backward, values, operands, known))(*operands.values())
    names = [r.name for r in backward.signature.results]
    to_parameter = derived_names(names, wrt)
    return {to_parameter[n]: t for n, t in zip(names, result if len(names) > 1 else (result,))}


def _extents_unsaid(
    kernel: Kernel, backward: Kernel, values: dict[str, Any], operands: dict[str, Any], given: dict[str, Any]
) -> dict[str, int]:
    """Extents that none of the gradient's own arrays says: those of a parameter that it has no need of."""
    said = backward.signature.solve(_shapes(operands))
    extents = kernel.signature.solve(_shapes(values), given)
    return {name: int(extents[name]) for name in backward.signature.extents if name not in said and name in extents}


def _shapes(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value.shape for name, value in values.items() if getattr(value, "shape", ())}


def grad(
    kernel: Kernel | str,
    *,
    of: str | None = None,
    wrt: str | None = None,
    save: str | None = "",
    recompute: str | None = None,
    name: str | None = None,
    accumulate: bool = False,
) -> Kernel:
    """The gradient as a kernel: it takes a cotangent of each result (`dy`), what it needs of the parameters and results,
    and gives the gradients (`dx`). Its own gradient is the second derivative.

    of: results; all floats but those that exist for the backward pass. wrt: parameters; all float tensors.
    save: locals that the forward kernel gives as results; None: chosen by cost.
    accumulate: gradients of weights are added into inout tensors.
    """
    if isinstance(kernel, str):
        from ._kernel import kernel as load

        kernel = load(kernel)
    text, _ = gradient_text(kernel, of=of, wrt=wrt, save=save, recompute=recompute, name=name, accumulate=accumulate)
    return Kernel(text, path=f"{kernel.path} (gradient)")
