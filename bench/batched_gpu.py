#!/usr/bin/env python3
"""Forty products of 512 x 512 x 512 on a GPU: one launch beside a loop of forty, and beside PyTorch's.

  batched_gpu.py BUILD [--out FILE.md] [--count 40] [--size 512] [--rounds 21]

in:   BUILD/libheadroom.so, bench/batched.hr, kernels/matmul.hr
out:  a table; with --out a page of it

One launch is a text with an index more (`strided`), or one whose matrices a table chooses out of a pool (`chosen`).
All competitors of a round read the same matrices in turn; before each run other data goes through the L2. A time is the
median of the rounds. Loops are queued while the GPU is kept busy, once as the host queues them and once as a CUDA graph.
"""

import argparse
import datetime
import os
import statistics
from pathlib import Path

import torch

import headroom_api as api
from attention_rounds import Clock

HERE = Path(__file__).resolve().parent
CYCLES = 3_000_000  # more than the host needs to queue forty launches


def ours(library, path, name, arrays):
    kernel = api.Kernel(library, path, name, {"T": "bf16"}, arrays, {}, {})
    kernel.prepare("none")
    return kernel


def competitors(library, count, size):
    """Functions by their names, and where each leaves its results."""
    make = lambda: torch.empty(count, size, size, device="cuda", dtype=torch.bfloat16).normal_()
    a, b = make(), make()
    order = torch.randperm(count, device="cuda").to(torch.int32)
    pool_a, pool_b = torch.empty_like(a), torch.empty_like(b)
    pool_a[order.long()], pool_b[order.long()] = a, b
    out = {name: torch.empty_like(a) for name in ("one launch", "one launch, chosen by a table", "loop", "loop, torch.mm")}
    strided = ours(library, HERE / "batched.hr", "strided",
                   {"a": (a, "bf16"), "b": (b, "bf16"), "c": (out["one launch"], "bf16")})
    chosen = ours(library, HERE / "batched.hr", "chosen",
                  {"a": (pool_a, "bf16"), "b": (pool_b, "bf16"), "left": (order, "i32"), "right": (order, "i32"),
                   "c": (out["one launch, chosen by a table"], "bf16")})
    singles = [ours(library, HERE.parent / "kernels" / "matmul.hr", "matmul",
                    {"a": (a[i], "bf16"), "b": (b[i], "bf16"), "c": (out["loop"][i], "bf16")}) for i in range(count)]
    bmm = torch.empty_like(a)

    def loop():
        for single in singles:
            single.launch()

    def torch_loop():
        for i in range(count):
            torch.mm(a[i], b[i], out=out["loop, torch.mm"][i])

    torch_loop()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        torch_loop()
    runs = {"one launch": strided.launch, "one launch, chosen by a table": chosen.launch, "loop": loop,
            "torch.bmm": lambda: torch.bmm(a, b, out=bmm), "loop, torch.mm": torch_loop,
            "graph of the loop, torch.mm": graph.replay}
    return runs, out | {"torch.bmm": bmm, "graph of the loop, torch.mm": out["loop, torch.mm"]}, a.float() @ b.float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--out")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=21)
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    library = api.Library(os.path.join(options.build, "libheadroom.so"), "cuda")
    stream = torch.cuda.Stream()
    torch.cuda.set_stream(stream)
    library.stream(stream.cuda_stream)
    runs, results, wanted = competitors(library, options.count, options.size)
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
        error = ((results[name].float() - wanted).norm() / wanted.norm()).item()
        lines.append(f"| {name} | {time * 1e6:.1f} us | {operations / time * 1e-12:.0f} | {gain:.2f} | {error:.1e} |")
    print("\n".join(lines))
    if options.out:
        head = [f"# {options.count} products of {options.size}^3 on {torch.cuda.get_device_name()}, {datetime.date.today()}", "",
                f"headroom {library.version()}, PyTorch {torch.__version__}; bf16, medians of {options.rounds} rounds in turn with a "
                "cold L2: bench/batched_gpu.py.", ""]
        Path(options.out).write_text("\n".join(head + lines) + "\n")


if __name__ == "__main__":
    main()
