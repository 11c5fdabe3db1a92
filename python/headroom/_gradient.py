"""The gradient of a kernel, as a kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence

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


def grad(
    kernel: Kernel | str,
    *,
    of: str | None = None,
    wrt: str | None = None,
    save: str | None = None,
    recompute: str | None = None,
    name: str | None = None,
    accumulate: bool = False,
) -> Kernel:
    """The gradient as a kernel: it takes a cotangent of each result (`dy`), what it needs of the parameters and results,
    and gives the gradients (`dx`). Its own gradient is the second derivative.

    of: results; all floats but those that exist for the backward pass. wrt: parameters; all float tensors.
    accumulate: gradients of weights are added into inout tensors.
    """
    if isinstance(kernel, str):
        from ._kernel import kernel as load

        kernel = load(kernel)
    text, _ = gradient_text(kernel, of=of, wrt=wrt, save=save, recompute=recompute, name=name, accumulate=accumulate)
    return Kernel(text, path=f"{kernel.path} (gradient)")
