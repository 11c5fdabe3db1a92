#!/usr/bin/env python3
"""Products of f8 on a GPU: scales of rows, scales of blocks, and the largest magnitude on the way out, beside PyTorch's.

  products_f8_gpu.py [--out FILE.md] [--rounds 21]

in:   the package headroom (docs/benchmarks.md says how it is brought), bench/products_f8.hr
out:  a table; with --out a page of it

PyTorch's product has a scale for each row, too. `exact sums` asks it to add up outside of the tensor cores, as headroom
always does, `fast sums` not to. All competitors of a round read the same matrices in turn; before each run other data goes
through the L2. A time is the median of the rounds, an error that of the results, over their norm.
"""

import argparse
import datetime
import statistics
from pathlib import Path

import headroom as hr
import torch

from attention_rounds import Clock, stream_of_its_own

HERE = Path(__file__).resolve().parent
CYCLES = 400_000  # more than the host needs to queue a launch
SHAPES = ((8192, 8192, 8192), (4096, 4096, 4096), (65536, 3072, 768), (128, 4096, 4096))  # M, N, K
BLOCK = 128


class Product:
    """The operands of one shape, competitors by their names, and what is right."""

    def __init__(self, m, n, k):
        make = lambda *shape: torch.randn(*shape, device="cuda").to(torch.float8_e4m3fn)
        x, w = make(m, k), make(n, k)
        a, b = (torch.rand(size, device="cuda") + 0.5 for size in (m, n))
        fine, coarse = torch.rand(m, k // BLOCK, device="cuda") + 0.5, torch.rand(n // BLOCK, k // BLOCK, device="cuda") + 0.5
        result = lambda: torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        self.results = {name: result() for name in ("rows", "blocks", "amax")}
        largest = torch.empty((), device="cuda")
        kernel = lambda name: hr.kernel(HERE / "products_f8.hr", name)
        scaled = lambda fast: torch._scaled_mm(x, w.t(), a[:, None], b[None, :], out_dtype=torch.bfloat16, use_fast_accum=fast)
        self.runs = {
            "rows": kernel("rows").bind(x=x, w=w, a=a, b=b, y=self.results["rows"]).prepare(),
            "blocks": kernel("blocks").bind(
                x=x.view(m, -1, BLOCK), w=w.view(-1, BLOCK, k // BLOCK, BLOCK), a=fine, s=coarse,
                y=self.results["blocks"].view(m, -1, BLOCK)).prepare(),
            "amax": kernel("amax").bind(x=x, w=w, a=a, b=b, y=self.results["amax"], largest=largest).prepare(),
            "PyTorch, exact sums": lambda: scaled(False),
            "PyTorch, fast sums": lambda: scaled(True),
        }
        rows = (x[:BLOCK].double() @ w.double().t()) * a[:BLOCK, None].double() * b.double()
        left = x[:BLOCK].double() * fine[:BLOCK].double().repeat_interleave(BLOCK, 1)
        right = w.double() * coarse.double().repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
        self.wanted = {"blocks": left @ right.t()} | {name: rows for name in self.runs if name != "blocks"}

    def error(self, name):
        got = self.results[name] if name in self.results else self.runs[name]()
        return ((got[:BLOCK].double() - self.wanted[name]).norm() / self.wanted[name].norm()).item()


def measure(shape, clock, rounds):
    product = Product(*shape)
    times = {name: [] for name in product.runs}
    for run in product.runs.values():
        run()
    torch.cuda.synchronize()
    for _ in range(rounds):
        for name, run in product.runs.items():
            times[name].append(clock.time(run))
    operations = 2 * shape[0] * shape[1] * shape[2]
    for name in product.runs:
        time = statistics.median(times[name])
        gain = statistics.median(p / t for p, t in zip(times["PyTorch, exact sums"], times[name]))
        yield (f"| {' x '.join(map(str, shape))} | {name} | {time * 1e6:.1f} us | {operations / time * 1e-12:.0f} | {gain:.2f} | "
               f"{product.error(name):.1e} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out")
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    stream_of_its_own()
    clock = Clock(CYCLES)
    lines = ["| M x N x K | product | time | TFLOP/s | over PyTorch's exact sums | error |", "|---|---|---|---|---|---|"]
    for shape in SHAPES:
        lines += measure(shape, clock, options.rounds)
    print("\n".join(lines))
    if options.out:
        head = [f"# Products of f8 on {torch.cuda.get_device_name()}, {datetime.date.today()}", "",
                f"headroom {hr.__version__}, PyTorch {torch.__version__}; untuned, medians of {options.rounds} rounds in turn with "
                "a cold L2: bench/products_f8_gpu.py.", ""]
        Path(options.out).write_text("\n".join(head + lines) + "\n")


if __name__ == "__main__":
    main()
