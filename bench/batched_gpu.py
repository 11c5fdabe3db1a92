#!/usr/bin/env python3
"""Forty products of 512 x 512 x 512 on a GPU: one launch beside a loop of forty, and beside PyTorch's.

  batched_gpu.py [--out FILE.md] [--count 40] [--size 512] [--rounds 21]

in:   the package headroom (docs/benchmarks.md says how it is brought), bench/batched.hr, kernels/matmul.hr
out:  a table; with --out a page of it

One launch is a text with an index more (`strided`), or one whose matrices a table chooses out of a pool (`chosen`). By
pointers: the same text, each matrix memory of its own, bound as lists; torch.bmm takes those when they are stacked.
All competitors of a round read the same matrices in turn; before each run other data goes through the L2. A time is the
median of the rounds. Loops are queued while the GPU is kept busy, once as the host queues them and once as a CUDA graph.
"""

import argparse
import datetime
import statistics
from pathlib import Path

import headroom as hr
import torch

from attention_rounds import Clock, stream_of_its_own

HERE = Path(__file__).resolve().parent
CYCLES = 3_000_000  # more than the host needs to queue forty launches


def by_pointers(matrices, order):
    """The matrices in memory of their own each, allocated in that order, with something else between them."""
    apart, between = [None] * len(matrices), []
    for i in order.tolist():
        apart[i] = matrices[i].clone()
        between.append(torch.empty(4096 * (1 + i % 5), device="cuda"))
    return apart


def competitors(count, size):
    """Functions by their names, and where each leaves its results."""
    make = lambda: torch.empty(count, size, size, device="cuda", dtype=torch.bfloat16).normal_()
    a, b = make(), make()
    order = torch.randperm(count, device="cuda").to(torch.int32)
    pool_a, pool_b = torch.empty_like(a), torch.empty_like(b)
    pool_a[order.long()], pool_b[order.long()] = a, b
    out = {name: torch.empty_like(a) for name in ("one launch", "one launch, chosen by a table", "loop", "loop, torch.mm")}
    strided = hr.kernel(HERE / "batched.hr", "strided").bind(a=a, b=b, c=out["one launch"]).prepare()
    chosen = hr.kernel(HERE / "batched.hr", "chosen").bind(
        a=pool_a, b=pool_b, left=order, right=order, c=out["one launch, chosen by a table"]).prepare()
    apart_a, apart_b, apart = by_pointers(a, order), by_pointers(b, order), by_pointers(a, order)
    pointers = hr.kernel(HERE / "batched.hr", "strided").bind(a=apart_a, b=apart_b, c=apart).prepare()
    matmul = hr.kernel(HERE.parent / "kernels" / "matmul.hr", "matmul")
    singles = [matmul.bind(a=a[i], b=b[i], c=out["loop"][i]).prepare() for i in range(count)]
    bmm = torch.empty_like(a)

    def loop():
        for single in singles:
            single()

    def torch_loop():
        for i in range(count):
            torch.mm(a[i], b[i], out=out["loop, torch.mm"][i])

    torch_loop()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        torch_loop()
    runs = {"one launch": strided, "one launch, chosen by a table": chosen, "one launch, by pointers": pointers,
            "loop": loop, "torch.bmm": lambda: torch.bmm(a, b, out=bmm),
            "torch.bmm of stacked copies": lambda: torch.bmm(torch.stack(apart_a), torch.stack(apart_b), out=bmm), "loop, torch.mm": torch_loop,
            "graph of the loop, torch.mm": graph.replay}
    out |= {"one launch, by pointers": apart, "torch.bmm": bmm, "torch.bmm of stacked copies": bmm}
    return runs, out | {"graph of the loop, torch.mm": out["loop, torch.mm"]}, a.float() @ b.float()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    stream_of_its_own()
    runs, results, wanted = competitors(options.count, options.size)
    clock, times = Clock(CYCLES), {name: [] for name in runs}
    for run in runs.values():
        run()
    torch.cuda.synchronize()
    for _ in range(options.rounds):
        for name, run in runs.items():
            times[name].append(clock.time(run))
    operations = 2 * options.count * options.size**3
    lines = ["| form | time | TFLOP/s | over the loop | error |", "|---|---|---|---|---|"]
    for name in runs:
        time = statistics.median(times[name])
        gain = statistics.median(l / t for l, t in zip(times["loop"], times[name]))
        result = results[name] if torch.is_tensor(results[name]) else torch.stack(results[name])
        error = ((result.float() - wanted).norm() / wanted.norm()).item()
        lines.append(f"| {name} | {time * 1e6:.1f} us | {operations / time * 1e-12:.0f} | {gain:.2f} | {error:.1e} |")
    print("\n".join(lines))
    if options.out:
        head = [f"# {options.count} products of {options.size}^3 on {torch.cuda.get_device_name()}, {datetime.date.today()}", "",
                f"headroom {hr.__version__}, PyTorch {torch.__version__}; bf16, medians of {options.rounds} rounds in turn with a "
                "cold L2: bench/batched_gpu.py.", ""]
        Path(options.out).write_text("\n".join(head + lines) + "\n")


if __name__ == "__main__":
    main()
