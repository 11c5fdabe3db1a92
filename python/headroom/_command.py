"""The command `headroom` of an installation by pip: the program that the package holds, in this process's place."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    """Becomes the program."""
    program = pathlib.Path(__file__).resolve().parent / "bin" / "headroom"
    try:
        os.execv(program, ["headroom", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"headroom: {program} cannot be started: {error.strerror}")
