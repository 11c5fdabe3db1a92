"""What this process does on its GPUs, recorded from within."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from types import TracebackType
from typing import Any

from . import _headroom
from ._reports import Diagnosis, diagnose


class Recording:
    """A part of a program that is recorded: the body of a `with`.

    `files` has a dict for each file that came of it: path, rank, process, kernels, calls, ranges, dropped, notes.
    """

    def __init__(self, path: str | os.PathLike[str] | None, from_range: str | None, steps: int) -> None:
        self.files: list[dict[str, Any]] = []
        self._path = path
        self._options = (0.0, from_range, steps)
        self._running: _headroom.Recording | None = None

    def __enter__(self) -> Recording:
        path = self._path
        if path is None:
            folder = tempfile.mkdtemp(prefix="headroom")
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            path = os.path.join(folder, "recording.hrt")
        self._running = _headroom.record_begin(path, *self._options)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._running:
            self.files = self._running.end()
        self._running = None

    @property
    def notes(self) -> str:
        """What the recorder could not do, a sentence a line; empty where nothing is amiss."""
        return "\n".join(file["notes"] for file in self.files if file["notes"])

    def diagnose(self) -> Diagnosis:
        """What limits this part of the program."""
        if self._running:
            raise _headroom.InputError("it is still being recorded: diagnose it after the with block")
        if not self.files:
            raise _headroom.InputError("nothing was recorded: the block used neither CUDA nor NVTX")
        return diagnose(*(file["path"] for file in self.files))

    def __repr__(self) -> str:
        if self._running:
            return "<recording under way>"
        each = (f"{f['path']}: {f['kernels']} kernels, {f['calls']} calls, {f['ranges']} ranges" for f in self.files)
        return "<recording " + ("; ".join(each) or "without a file") + ">"


def record(path: str | os.PathLike[str] | None = None, *, from_range: str | None = None, steps: int = 0) -> Recording:
    """Records this process, and what it starts, while a `with` block runs:

        with headroom.record() as recording:
            train_some_steps()
        print(recording.diagnose())

    The file stays where `path` says; without one it lives as long as the recording. `from_range` begins at the first
    NVTX range of that name, `steps` ends after so many. Ranges are seen where the program's first one comes in a
    recording; torch.profiler cannot run beside it.
    """
    return Recording(path, from_range, steps)
