"""hr.kernel(text): a kernel that is called with arrays."""

from __future__ import annotations

import functools
import html
import json
import os
import pathlib
import re
import threading
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from . import _frameworks, _headroom
from ._bound import Bound
from ._errors import located
from ._reports import Check, Floor, Run
from ._signature import Signature

_opening = threading.Lock()
_devices: dict[str, _headroom.Device] = {}


def device_open(name: str) -> _headroom.Device:
    """The device that all kernels of this process are called on; opened once."""
    with _opening:
        if name not in _devices:
            _devices[name] = _headroom.Device(name)
        return _devices[name]


class Kernel:
    """A kernel of a text. Calling it with arrays gives arrays of the same framework.

    Parameters go by position or by name; extents that no array says and dtype variables by name (`N=8`,
    `T="bf16"`). It may be called from many threads at once.
    """

    def __init__(self, text: str, path: str = "<text>", name: str | None = None, device: str | None = None) -> None:
        self.text, self.path = text, path
        self._source = (path, text, name)
        self._lock = threading.RLock()
        self._handles: dict[tuple[Any, ...], _headroom.Kernel] = {}
        self._pack = tuple
        home = self._load(device or "cpu", {})
        self.signature = Signature.of(home)
        self.name = self.signature.name
        self._source = (path, text, self.name)
        names = [a.name for a in self.signature.results]
        if len(names) > 1:
            made = namedtuple(f"{self.name}_results", names, rename=True)  # type: ignore[misc]
            self._pack = made._make  # type: ignore[assignment]
        self._home_name = device or "cpu"
        self._capitals = self.signature.capitals
        self._call = self._route(self._home_name).call
        self.__doc__ = f"{self.signature}"

    # ---- loading ----

    def _load(self, device: str, given: dict[str, int | str]) -> _headroom.Kernel:
        route = functools.partial(self._route, given=given)
        return _headroom.Kernel(device_open(device), self._source, given, route, self._pack)

    def _route(self, device: str, given: dict[str, int | str] | None = None) -> _headroom.Kernel:
        """The kernel for a device, with what was given by name."""
        given = given or {}
        key = (device, *sorted(given.items()))
        found = self._handles.get(key)
        if found is None:
            with self._lock:
                found = self._handles.setdefault(key, self._load(device, given))
        return found

    def loaded(self) -> tuple[_headroom.Kernel, ...]:
        """What is loaded now: its code stays where it is for as long as the caller keeps these."""
        return tuple(self._handles.values())

    def _forget(self) -> None:
        """What was compiled is looked up anew at the next call."""
        with self._lock:
            self._handles.clear()
            self._call = self._route(self._home_name).call

    # ---- calling ----

    def __call__(self, *arguments: Any, out: Any = None, **named: Any) -> Any:
        result = self.attempt(arguments, named, out)
        return result if result is not NotImplemented else _frameworks.redirected(self, arguments, named, out)

    def attempt(self, arguments: tuple[Any, ...], named: dict[str, Any], out: Any = None) -> Any:
        """The call, or NotImplemented where it is for the framework's own operation: an array wants a gradient or has
        no elements."""
        try:
            if named and not self._capitals.isdisjoint(named):
                return self._call_given(arguments, named, out)
            return self._call(arguments, named, out)
        except (_headroom.Error, TypeError, ValueError) as error:
            raise located(error, self.path, self.text, self.signature) from None

    def _call_given(self, arguments: tuple[Any, ...], named: dict[str, Any], out: Any) -> Any:
        given = {name: named.pop(name) for name in self._capitals & named.keys()}
        result = self._route(self._home_name, given).call(arguments, named, out)
        if result is NotImplemented:
            raise TypeError(
                f"kernel {self.name}: extents and dtypes cannot be given by name where a framework traces "
                "the call or takes its gradient"
            )
        return result

    # ---- tuning and measuring ----

    @contextmanager
    def _shown(self) -> Iterator[None]:
        """Errors with the place in the text."""
        try:
            yield
        except (_headroom.Error, TypeError, ValueError) as error:
            raise located(error, self.path, self.text, self.signature) from None

    def _bind(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> _headroom.Kernel:
        """A kernel of its own, on a device of its own, with these arguments bound."""
        given = {name: named.pop(name) for name in self._capitals & named.keys()}
        values = dict(zip((a.name for a in self.signature.parameters), arguments)) | named
        device = _headroom.Device(_device_of(values.values(), self._home_name))
        made = _headroom.Kernel(device, self._source, given, self._route, self._pack)
        for name, value in values.items():
            made.bind(name, _detached(value))
        return made

    @contextmanager
    def _bench(self, arguments: tuple[Any, ...], named: dict[str, Any]) -> Iterator[_headroom.Kernel]:
        """The same, with the rest filled."""
        with self._shown():
            bench = self._bind(arguments, named)
            bench.fill(1)
            yield bench

    def bind(self, *arguments: Any, **named: Any) -> Bound:
        """The kernel on these arrays: parameters by position or name, results, extents and dtype variables by name. A
        list of arrays without gaps is a tensor of one axis: a kernel over one axis runs over all of them in one launch.

            step = adamw.bind(p=parameters, g=gradients, ...)
            step()
        """
        with self._shown():
            return Bound(self._bind(arguments, named), self._shown)

    def run(self, *arguments: Any, tune: str = "none", seconds: float = 0.0, threads: int = 0, **named: Any) -> Run:
        """Tunes, checks and measures, as `headroom run` does. What is not given is filled with random numbers, so
        extents alone are enough: `kernel.run(M=4096, N=4096)`. Inout arrays are changed."""
        with self._bench(arguments, named) as bench:
            made = Run(bench.run(tune, seconds, threads))
        if tune != "none":
            self._forget()
        return made

    def tune(self, *arguments: Any, effort: str = "quick", threads: int = 0, **named: Any) -> Kernel:
        """Looks for the fastest code for these shapes. It is kept in the cache folder, and used by every later call
        of these shapes, in other processes too. The arrays keep their values."""
        with self._bench(arguments, named) as bench:
            bench.prepare(effort, threads)
        self._forget()
        return self

    def floor(self, *arguments: Any, **named: Any) -> Floor:
        """The least time that the device needs for these shapes, by its measured roofs."""
        with self._bench(arguments, named) as bench:
            bench.prepare("none", 0)
            return Floor(bench.floor())

    def check(self, *arguments: Any, points: int = 0, **named: Any) -> Check:
        """Compares the results with the text's meaning in f64: `points` sampled elements, 0 also all against the
        unfused kernel. Inout arrays are changed."""
        with self._bench(arguments, named) as bench:
            bench.prepare("none", 0)
            return Check(bench.check(points))

    def plan(self, *arguments: Any, **named: Any) -> str:
        """What became of the text for these shapes, in words."""
        with self._bench(arguments, named) as bench:
            bench.prepare("none", 0)
            return bench.plan()

    def source(self, *arguments: Any, **named: Any) -> str:
        """The generated C or CUDA C for these shapes."""
        with self._bench(arguments, named) as bench:
            bench.prepare("none", 0)
            return bench.source()[0]

    # ---- gradients ----

    def grad(self, **options: Any) -> Kernel:
        """The kernel of the gradient; `headroom.grad` says the options."""
        from ._gradient import grad

        return grad(self, **options)

    # ---- showing ----

    @functools.cached_property
    def _outline(self) -> dict[str, Any]:
        """The plan and the floor at the extents that a plain run takes; nothing runs."""
        bench = _headroom.Kernel(_headroom.Device(self._home_name), self._source, {}, self._route, self._pack)
        made: dict[str, Any] = json.loads(bench.explain().report("plan", 0))
        return made

    def _plan_lines(self) -> list[str]:
        outline = self._outline
        extents = " ".join(f"{name}={value}" for name, value in outline.get("extents", {}).items())
        floor = outline.get("floor") or {}
        seconds = floor.get("seconds") or 0
        words = f"{seconds * 1e6:.3g} us, {floor.get('bound')}" if seconds else "not known: no roof is measured yet"
        return [
            f"at {extents}" if extents else "",
            f"plan   {outline.get('plan', {}).get('summary', '')}",
            f"floor  {words}",
        ]

    def __repr__(self) -> str:
        return f"<{self.signature}>"

    def _repr_html_(self) -> str:
        lines = "\n".join(line for line in self._plan_lines() if line)
        return (
            f"<pre><b>{html.escape(str(self.signature))}</b>\n{html.escape(lines)}</pre>"
            f"<details><summary>text</summary><pre>{html.escape(self.text)}</pre></details>"
        )


def _detached(value: Any) -> Any:
    """Without a gradient."""
    if isinstance(value, (list, tuple)):
        return list(map(_detached, value))
    return value.detach() if hasattr(value, "detach") else value


def _device_of(values: Any, default: str) -> str:
    """The memory that the arrays are in."""
    for value in chain.from_iterable(each if isinstance(each, (list, tuple)) else [each] for each in values):
        device = getattr(value, "device", None)
        if device is None or isinstance(device, str):
            continue
        number = getattr(device, "index", None) if getattr(device, "type", "") == "cuda" else None
        number = getattr(device, "id", None) if number is None and type(value).__module__.startswith("cupy") else number
        if number is not None:
            return f"cuda:{number}"
    return default


def kernel(source: str | os.PathLike[str], name: str | None = None, *, device: str | None = None) -> Kernel:
    """A kernel from a text, from a file (`"mine.hr"`) or from the library by its name (`"softmax"`).

    `name` says which, where the text holds several. A mistake in the text raises InputError with every line and caret.
    `device` is where it is loaded first, "cpu" or "cuda:0"; it runs where the arrays are.
    """
    words = os.fspath(source)
    if "{" in words:
        return Kernel(words, name=name, device=device)
    path = pathlib.Path(words)
    if path.suffix != ".hr":
        names = _library_files()
        if words not in names:
            raise _headroom.FileError(
                f"{words!r} is neither a text, nor a file FILE.hr, nor a kernel of the library: "
                f"{', '.join(sorted(names))}"
            )
        path, name = names[words], words
    return Kernel(_text_of(path), path=str(path), name=name, device=device)


def _text_of(path: pathlib.Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise _headroom.FileError(f"cannot read {path}: {error.strerror}") from None


def _library_files() -> dict[str, pathlib.Path]:
    """Each kernel of the library, and the file that it stands in."""
    return {
        name: path
        for path in sorted(pathlib.Path(_headroom.library_folder()).glob("*.hr"))
        for name in re.findall(r"^kernel\s+(\w+)", _text_of(path), re.MULTILINE)
    }


def library() -> list[str]:
    """The names of the library's kernels."""
    return sorted(_library_files())
