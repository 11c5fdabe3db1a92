"""What a kernel's text declares: parameters, results, extents, dtype variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from . import _headroom


@dataclass(frozen=True)
class Argument:
    """A parameter or a result. `dtype` is a dtype of the language or the name of a variable; `axes` are
    arithmetic over extents, as text."""

    name: str
    role: str  # input, inout, result
    dtype: str
    axes: tuple[str, ...]
    default: float | None
    line: int
    column: int

    @property
    def is_scalar(self) -> bool:
        """A number, given by value."""
        return self.role == "input" and not self.axes

    def __str__(self) -> str:
        inout = "inout " if self.role == "inout" else ""
        axes = f"[{', '.join(_bare(axis) for axis in self.axes)}]" if self.axes else ""
        default = "" if self.default is None else f" = {self.default:g}"
        return f"{self.name}: {inout}{self.dtype}{axes}{default}"


def _bare(axis: str) -> str:
    """The outermost brackets of an axis are its own."""
    return axis[1:-1] if axis.startswith("(") and axis.count("(") == 1 else axis


@dataclass(frozen=True)
class Signature:
    """All that is declared, in the text's order."""

    name: str
    arguments: tuple[Argument, ...]
    extents: tuple[str, ...]
    variables: tuple[str, ...]

    @staticmethod
    def of(handle: _headroom.Kernel) -> Signature:
        arguments = tuple(Argument(*each) for each in handle.arguments)
        return Signature(handle.name, arguments, handle.extents, handle.variables)

    @cached_property
    def parameters(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role != "result")

    @cached_property
    def results(self) -> tuple[Argument, ...]:
        return tuple(a for a in self.arguments if a.role == "result")

    @cached_property
    def capitals(self) -> frozenset[str]:
        """Names that are given by keyword beside the parameters: extents and dtype variables."""
        return frozenset(self.extents) | frozenset(self.variables)

    def find(self, name: str) -> Argument | None:
        return next((a for a in self.arguments if a.name == name), None)

    def sizes(self, argument: Argument, extents: dict[str, Any]) -> tuple[Any, ...]:
        """How many elements each axis has; the extents may be symbolic."""
        return tuple(axis(extents) for axis in self._axes[argument.name])

    @cached_property
    def _axes(self) -> dict[str, tuple[Callable[[dict[str, Any]], Any], ...]]:
        return {a.name: tuple(_evaluator(axis) for axis in a.axes) for a in self.arguments}

    def solve(self, shapes: dict[str, Iterable[Any]], extents: dict[str, Any] | None = None) -> dict[str, Any]:
        """Extents from the shapes of arrays, symbolic ones too. Only axes that are one extent's name or linear
        in one unknown say something; what stays unknown is left out."""
        known = dict(extents or {})
        axes = [(axis, size) for name, shape in shapes.items() for axis, size in zip(self._axis_words[name], shape)]
        for _ in range(len(axes) + 1):
            before = len(known)
            for words, size in axes:
                _solve_axis(words, size, self.extents, known)
            if len(known) == before:
                break
        return known

    def solve_all(self, shapes: dict[str, Iterable[Any]], given: dict[str, int | str]) -> dict[str, Any]:
        """All extents, from the shapes of arrays and from what was given by name."""
        known = self.solve(shapes, {name: value for name, value in given.items() if name in self.extents})
        missing = [name for name in self.extents if name not in known]
        if missing:
            raise ValueError(f"kernel {self.name}: no array says what {', '.join(missing)} is: op(text, NAME=...)")
        return known

    @cached_property
    def _axis_words(self) -> dict[str, tuple[str, ...]]:
        return {a.name: a.axes for a in self.arguments}

    def __str__(self) -> str:
        parameters = ", ".join(map(str, self.parameters))
        results = ", ".join(map(str, self.results))
        return f"kernel {self.name}({parameters})" + (f" -> ({results})" if results else "")


def _evaluator(axis: str) -> Callable[[dict[str, Any]], Any]:
    """The library prints axes as brackets, names, whole numbers and + - * //, which Python reads alike."""
    code = compile(axis, "<axis>", "eval")
    return lambda extents: eval(code, {"__builtins__": {}}, extents)


def _solve_axis(words: str, size: Any, names: tuple[str, ...], known: dict[str, Any]) -> None:
    if words in names:
        known.setdefault(words, size)
        return
    unknown = [n for n in names if n not in known and n in _words_of(words)]
    if len(unknown) != 1:
        return
    axis = _evaluator(words)
    try:
        start = axis({**known, unknown[0]: 0})
        step = axis({**known, unknown[0]: 1}) - start
        if step != 0 and "//" not in words:
            known[unknown[0]] = (size - start) // step
    except ArithmeticError:
        return


def _words_of(axis: str) -> list[str]:
    for sign in "()+-*/":
        axis = axis.replace(sign, " ")
    return axis.split()
