"""Errors that show the place in the kernel's text: what the library says, then the line with a caret."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._signature import Signature

_SUBJECT = re.compile(r"^`(\w+)` (?:of kernel|has|is)")


def located(error: BaseException, path: str, text: str, signature: Signature) -> BaseException:
    """The same error; where its sentence is about an argument, with the line that declares it."""
    words = str(error)
    found = _SUBJECT.match(words)
    argument = signature.find(found[1]) if found else None
    lines = text.splitlines()
    if argument is None or not 0 < argument.line <= len(lines):
        return error
    line = lines[argument.line - 1]
    before = line.encode()[: argument.column - 1].decode(errors="replace")
    if not line.startswith(before + argument.name):
        return error  # the declaration stands in a file that the text uses
    caret = " " * len(before.expandtabs(4))
    place = f"{path}:{argument.line}:{argument.column}: error: "
    return type(error)(f"{place}{words}\n    {line.expandtabs(4)}\n    {caret}^")
