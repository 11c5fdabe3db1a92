"""A kernel on certain arrays: they are read once, and the kernel is launched on them as often as wanted."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from . import _headroom
from ._reports import Floor


class Bound:
    """A kernel with all its arrays, which it keeps alive. Calling it launches, on the framework's current stream; on a
    GPU the call returns once that is queued. One thread at a time."""

    def __init__(self, handle: _headroom.Kernel, shown: Callable[[], AbstractContextManager[None]]) -> None:
        """`shown` adds the place in the text to errors."""
        self._handle, self._shown = handle, shown

    def __call__(self) -> None:
        with self._shown():
            self._handle.launch()

    def prepare(self, effort: str = "none", threads: int = 0) -> Bound:
        """Plans and compiles, and with effort "quick" or "full" looks for the fastest code. Results are overwritten, inout
        arrays keep their values. The first launch prepares where nothing else has."""
        with self._shown():
            self._handle.prepare(effort, threads)
        return self

    def floor(self) -> Floor:
        """The least time that the device needs, by its measured roofs."""
        with self._shown():
            return Floor(self._handle.floor())

    def __repr__(self) -> str:
        return f"<kernel {self._handle.name} on its arrays>"
