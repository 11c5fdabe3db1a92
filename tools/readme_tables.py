#!/usr/bin/env python3
"""Fills the tables of figures of the README or of docs/benchmarks.md from the result files that the line above each of them names.

  readme_tables.py [--check] [DOCUMENT]

in:   <!-- figures: gpu FILE.csv -->, <!-- figures: cpu FILE.csv BENCH.txt --> or <!-- figures: floor BENCH.txt -->, then
      a table whose rows begin with a kernel and its extents; BENCH.txt is what one or more runs of `headroom bench`
      printed
out:  the same file with the other columns filled in; with --check nothing is written, and a row that is not what the
      files say is an error (1). A row that they do not have is one, too.
"""

import csv
import re
import sys
from pathlib import Path

MARK = re.compile(r"<!-- figures: (gpu|cpu|floor) (\S+)(?: (\S+))? -->")
BENCH = re.compile(r"^(\w+) +\w+ +((?:\w+=\w+ )+) *([\d.]+ .?s) +([\d.]+ \w+/s) .*?[\d.]+x +(-|\d+ %) "
                   r"+(?:-|[\d.]+x)  \w+ (?:.* now (\d+) % to (\d+) % in \d+ passes)?")
NONE = "–"


def over(text):
    return f"{float(text):.2f}×" if text else NONE


def rate(row):
    if row.get("bound") == "tensor":
        return f"{float(row['GFLOP/s']):.0f} GFLOP/s" if row["GFLOP/s"] else NONE
    value = float(row["GB/s"])
    return f"{value:.0f} GB/s" if value >= 100 else f"{value:.1f} GB/s"


def key_of(kernel, extents):
    """`softmax T=f32` and its extents, in whatever order. Results of the time before dtype variables say softmax_f32, and
    softmax where they mean bf16."""
    name, *words = f"{kernel} {extents.split(' in ')[0]}".split()
    dtypes = {word.split("=")[1] for word in words if not word.split("=")[1].isdigit()}
    if not dtypes:
        dtypes = {"f32" if name.endswith("_f32") else "bf16"}
    name = "adamw_in_place" if name == "adamw_f32" else name.removesuffix("_f32")
    return name, frozenset(dtypes), frozenset(word for word in words if word.split("=")[1].isdigit())


def gpu_cells(row, _):
    def beside(peer):
        return over(float(row[f"{peer} us"]) / float(row["headroom us"]) if row[f"{peer} us"] else "")
    return [f"{float(row['headroom us']):.1f} µs", rate(row), f"{float(row['of copy']):.2f}",
            *(beside(peer) for peer in ("eager", "compile", "triton"))]


def floor_text(shares):
    found = [f"{now / 100:.2f}" + (f" ({int(least) / 100:.2f} to {int(most) / 100:.2f})" if least else "")
             for now, least, most in shares]
    return ", ".join(found) or NONE


def cpu_cells(row, shares):
    return [f"{float(row['headroom ms']):.1f} ms", rate(row), floor_text(shares),
            *(over(row[f"x {peer}"]) for peer in ("NumPy", "JAX", "OpenBLAS"))]


def measured(path):
    """By kernel and extents the rows of a table of peers."""
    with open(path, newline="") as file:
        return {key_of(r["kernel"], r["extents"]): r for r in csv.DictReader(file)}


def floor_cells(lines, shares):
    return [lines[-1][3], lines[-1][4], floor_text(shares)]


def benched(path):
    """By kernel and extents the lines of a bench, as the expression above takes them apart; a run after the other."""
    lines = {}
    for line in filter(None, map(BENCH.match, path.read_text().splitlines())):
        lines.setdefault(key_of(line[1], line[2]), []).append(line)
    return lines


def shares_of(lines):
    """What stands in the column `now`, and the least and most of several passes."""
    return [(int(line[5].split()[0]), line[6], line[7]) for line in lines if line[5] != "-"]


def filled(lines, root):
    """The lines with their tables filled in."""
    cells = rows = None
    for number, line in enumerate(lines, 1):
        mark = MARK.match(line)
        if mark:
            cells = {"gpu": gpu_cells, "cpu": cpu_cells, "floor": floor_cells}[mark[1]]
            bench = mark[2] if mark[1] == "floor" else mark[3]
            lines_of = benched(root / bench) if bench else {}
            rows = lines_of if mark[1] == "floor" else measured(root / mark[2])
        elif rows and line.startswith("| ") and not line.startswith("| kernel"):
            label, extents = (cell.strip() for cell in line.split("|")[1:3])
            key = key_of(label.split(",")[0], extents)
            if key not in rows:
                raise KeyError(f"line {number}: the files have no {label} {extents}")
            line = "| " + " | ".join([label, extents, *cells(rows[key], shares_of(lines_of.get(key, [])))]) + " |"
        elif rows and not line.startswith("|") and line.strip():
            rows = None
        yield line


def main():
    names = [a for a in sys.argv[1:] if a != "--check"]
    path = Path(names[0] if names else Path(__file__).resolve().parent.parent / "README.md")
    lines = path.read_text().splitlines()
    try:
        root = next(parent for parent in path.resolve().parents if (parent / "bench").is_dir())
        new = list(filled(lines, root))
    except (KeyError, OSError) as error:
        print(f"{path.name}: {error.args[0] if isinstance(error, KeyError) else error}", file=sys.stderr)
        return 1
    if "--check" not in sys.argv:
        path.write_text("\n".join(new) + "\n")
        return 0
    wrong = [(number, old, now) for number, (old, now) in enumerate(zip(lines, new), 1) if old != now]
    for number, old, now in wrong:
        print(f"{path.name}:{number}: has\n  {old}\nand should have\n  {now}", file=sys.stderr)
    return 1 if wrong or len(lines) != len(new) else 0


if __name__ == "__main__":
    sys.exit(main())
