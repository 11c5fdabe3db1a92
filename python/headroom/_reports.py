"""Results that show themselves: as text in a terminal, as a page in a notebook."""

from __future__ import annotations

import html
import json
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from . import _headroom


def framed(page: str, height: int = 640) -> str:
    """A self-contained page inside a notebook, with its own styles."""
    return (
        f'<iframe srcdoc="{html.escape(page)}" style="width: 100%; height: {height}px; border: 0" '
        'title="headroom"></iframe>'
    )


class _DeviceRoof:
    def __init__(self, device: _headroom.Device, again: bool) -> None:
        self._device = device
        device.roof(again, "text")

    def report(self, form: str, width: int, /) -> str:
        return self._device.roof(False, form)


class Report:
    """A result with a text, a JSON object and a page."""

    def __init__(self, source: _headroom.Run | _headroom.Diagnosis | _DeviceRoof) -> None:
        self._source = source

    def text(self, width: int = 100) -> str:
        """What the command prints."""
        return self._source.report("text", width)

    @property
    def json(self) -> dict[str, Any]:
        """What the command prints with --json."""
        made: dict[str, Any] = json.loads(self._source.report("json", 0))
        return made

    @property
    def html(self) -> str:
        """One self-contained page."""
        return self._source.report("html", 0)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file."""
        pathlib.Path(path).write_text(self.html, encoding="utf-8")

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return framed(self.html)


class Roof(Report):
    """What a device can do at best, measured."""


class Run(Report):
    """A kernel that was tuned, checked and measured."""


class Diagnosis(Report):
    """What limits a program. It iterates over its findings, as dicts: `pandas.DataFrame(diagnosis)` is a table."""

    _source: _headroom.Diagnosis

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A dict for each finding, the largest gain first."""
        return self._source.findings

    @property
    def step(self) -> float:
        """Seconds of a step, the mean of those that count."""
        return self._source.step

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


class Values(dict[str, Any]):
    """A dict whose entries are attributes, too."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class Floor(Values):
    """The least time that the device needs: `seconds`, `bound` by what, `bytes`, `vector_flops`, ..."""

    def __repr__(self) -> str:
        return f"floor {self['seconds'] * 1e6:.3g} us, bound by {self['bound']}, {self['bytes'] / 1e6:.3g} MB"


class Check(Values):
    """A comparison with the text's meaning in f64: `right`, `max_error` of `tolerance`, `where`."""

    def __bool__(self) -> bool:
        return bool(self["right"])

    def __repr__(self) -> str:
        verdict = "right" if self else "WRONG"
        return (
            f"{verdict}: largest error {self['max_error']:.2g} of {self['tolerance']:.2g} allowed, in "
            f"{self['points']} elements; {self['where']}"
        )


def roof(device: str = "cpu", *, again: bool = False) -> Roof:
    """The roof of "cpu", "cuda:0", ...: measured once on a machine, in some seconds, and kept; `again` measures anew."""
    return Roof(_DeviceRoof(_headroom.Device(device), again))


def diagnose(*paths: str | os.PathLike[str], mode: str = "auto") -> Diagnosis:
    """Reads traces (headroom record, PyTorch and JAX, Nsight Systems, Nsight Compute) and says what limits the
    program, what to do, and what each remedy would gain. Several files are ranks of one run, or `mode="compare"`
    before and after. No GPU is needed."""
    return Diagnosis(_headroom.diagnose(tuple(os.fspath(path) for path in paths), mode))
