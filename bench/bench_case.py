"""A case of a benchmark: a kernel of the library with its dtypes and extents, as a line of a text says it.

  FILE:KERNEL T=DTYPE EXTENT=N ...    arrays of these extents
  FILE:KERNEL T=DTYPE list=NAME       the kernel's one axis is a list of arrays, LISTS[NAME] says how long each is
"""

import math
from pathlib import Path

import headroom as hr

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "u8": 1,
         "bool": 1}  # of an element
EFFORTS = ("none", "quick", "full")  # of tuning
ROOT = Path(__file__).resolve().parent.parent


def gpt2_lengths(layers=12, width=768, vocabulary=50257, context=1024):
    """The parameters of GPT-2 124M, in order, as their numbers of elements."""
    block = [width, width, 3 * width * width, 3 * width, width * width, width, width, width, 4 * width * width,
             4 * width, 4 * width * width, width]
    return [vocabulary * width, context * width] + block * layers + [width, width]


LISTS = {"gpt2": gpt2_lengths()}


class Parameter:
    """A parameter or a result as the text declares it, its dtype known."""

    def __init__(self, argument, signature, dtypes):
        self.role, self.name, self.default, self.dims = argument.role, argument.name, argument.default, argument.axes
        self.dtype = dtypes.get(argument.dtype, argument.dtype)
        self.shape = lambda extents: signature.sizes(argument, extents)


class Case:
    """A kernel with its dtypes and extents: what it is called, its declaration, its bytes."""

    def __init__(self, path, kernel, dtypes, extents, lengths=None):
        self.path, self.kernel, self.dtypes, self.extents, self.lengths = path, kernel, dtypes, extents, lengths
        self.text = hr.kernel(path, kernel)
        self.title = " ".join([kernel, *(f"{variable}={dtype}" for variable, dtype in dtypes.items())])
        self.dtype = "f32" if set(dtypes.values()) == {"f32"} else "bf16"
        self.parameters = [Parameter(each, self.text.signature, dtypes) for each in self.text.signature.arguments]
        self.scalars = {p.name: p.default for p in self.parameters if not p.dims and p.role == "input"}
        self.tensors = [p for p in self.parameters if p.name not in self.scalars]
        self.results = [p for p in self.parameters if p.role != "input"]

    def bytes(self):
        """What must move: inputs once, results once, what is both twice."""
        return sum(math.prod(p.shape(self.extents)) * BYTES[p.dtype] * (2 if p.role == "inout" else 1) for p in self.tensors)

    def bind(self, arrays):
        """The kernel on arrays by name, each a tensor, or a list of them where the case is one over lists."""
        extents = {} if self.lengths else self.extents
        return self.text.bind(**arrays, **self.scalars, **self.dtypes, **extents)

    def words(self):
        return " ".join(f"{k}={v}" for k, v in self.extents.items()) + (f" in {len(self.lengths)}" if self.lengths else "")


def read_cases(path, only=frozenset(), shrink=1):
    """The cases of a text, of those kernels where `only` names some; their first extent divided by `shrink`."""
    cases = []
    for line in path.read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        file, _, kernel = words[0].partition(":")
        file = ROOT / "kernels" / (Path(file).name.removesuffix(".hr") + ".hr")
        kernel = kernel or file.stem
        given = dict(w.split("=") for w in words[1:] if "=" in w)
        dtypes = {k: given.pop(k) for k in list(given) if given[k] in BYTES}
        if only and kernel not in only and "_".join([kernel, *dtypes.values()]) not in only:
            continue
        lengths = LISTS[given.pop("list")] if "list" in given else None
        if lengths:
            lengths = [max(1, n // shrink) for n in lengths]
            extents = {"N": sum(lengths)}
        else:
            extents = {k: int(v) for k, v in given.items()}
            first = next(iter(extents))
            extents[first] = max(1, extents[first] // shrink)
        cases.append(Case(file, kernel, dtypes, extents, lengths))
    return cases
