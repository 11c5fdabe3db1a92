#!/usr/bin/env python3
"""Attention of one query a head against a long cache, on a GPU: bytes a second beside a copy's, and PyTorch's attention.

  decode_gpu.py [--out FILE.md] [--only NAME[,NAME]] [--rounds N] [--tune none|quick|full]

in:   the package headroom (docs/benchmarks.md says how it is brought), kernels/attention_decode.hr, kernels/attention_paged.hr
out:  a table; with --out a page of it. GB/s counts the keys and values that sequences hold, once.

All competitors of a case read the same arrays and run in turn; before each run other data goes through the L2. A figure is
the median of the rounds, a ratio the median of the rounds' own ratios. Each result is compared with attention in f32 of
some heads: the norm of the difference over that of the result.
"""

import math
import statistics
import time
from pathlib import Path

import headroom as hr
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import attention_rounds as bench

HERE = Path(__file__).resolve().parent
PAGE = 16
#        kind, B, H, heads of keys, longest sequence, D. ragged: lengths from 1/8 of it up; paged: those, in pages.
CASES = [
    ("full", 1, 64, 8, 8192, 128), ("full", 1, 64, 8, 32768, 128), ("full", 1, 64, 8, 131072, 128),
    ("full", 4, 64, 8, 8192, 128), ("full", 4, 64, 8, 131072, 128), ("full", 16, 64, 8, 8192, 128),
    ("full", 16, 64, 8, 32768, 128), ("full", 64, 64, 8, 8192, 128), ("full", 64, 64, 8, 32768, 128),
    ("full", 16, 32, 32, 8192, 128), ("full", 16, 64, 8, 8192, 64), ("full", 8, 32, 4, 8192, 256),
    ("ragged", 16, 64, 8, 32768, 128), ("ragged", 64, 64, 8, 16384, 128), ("paged", 16, 64, 8, 32768, 128),
    ("paged", 64, 64, 8, 16384, 128),
]


class Arrays:
    def __init__(self, case):
        kind, b, h, g, n, d = case
        make = lambda *shape: torch.empty(*shape, device="cuda", dtype=torch.bfloat16).normal_()
        self.q, self.k, self.v = make(b, h, d), make(b, n, g, d), make(b, n, g, d)
        self.length = torch.full((b,), n, device="cuda", dtype=torch.int32)
        if kind != "full":
            self.length = torch.linspace(n / 8, n, b, device="cuda").to(torch.int32)[torch.randperm(b, device="cuda")]
        self.length = self.length.contiguous()
        self.page = torch.randperm(b * n // PAGE, device="cuda").to(torch.int32).reshape(b, n // PAGE).contiguous()

    def of(self, kind, x, at):
        """The keys or values of one sequence."""
        n = int(self.length[at])
        if kind != "paged":
            return x[at, :n]
        pages = x.reshape(-1, PAGE, *x.shape[2:])
        return pages[self.page[at].long()].reshape(-1, *x.shape[2:])[:n]


def exact(kind, a, b, h):
    """Of one head, in f32."""
    g = h // (a.q.shape[1] // a.k.shape[2])
    k, v = a.of(kind, a.k, b)[:, g].float(), a.of(kind, a.v, b)[:, g].float()
    return torch.softmax(k @ a.q[b, h].float() / a.q.shape[2] ** 0.5, 0) @ v


class Ours:
    def __init__(self, case, a, tune):
        kind, b, h, g, n, d = case
        name = "attention_paged" if kind == "paged" else "attention_decode"
        k, v = (x.reshape(-1, PAGE, g, d) if kind == "paged" else x for x in (a.k, a.v))
        self.result = torch.empty_like(a.q)
        arrays = {"q": a.q, "k": k, "v": v, "length": a.length, "o": self.result}
        if kind == "paged":
            arrays["page"] = a.page
        begin = time.perf_counter()
        self.run = hr.kernel(HERE.parent / "kernels" / f"{name}.hr", name).bind(**arrays).prepare(tune)
        self.seconds = time.perf_counter() - begin


class Sdpa:
    def __init__(self, case, a, backend):
        self.q, self.backend, self.grouped = a.q[:, :, None], backend, case[2] != case[3]
        self.k, self.v = a.k.transpose(1, 2), a.v.transpose(1, 2)

    def run(self):
        with sdpa_kernel(self.backend):
            self.result = F.scaled_dot_product_attention(self.q, self.k, self.v, enable_gqa=self.grouped)[:, :, 0]


class Copy:
    """Of so many bytes, read and written together."""

    def __init__(self, bytes_moved):
        self.source = torch.empty(bytes_moved // 2, device="cuda", dtype=torch.uint8)
        self.target = torch.empty_like(self.source)

    def run(self):
        self.target.copy_(self.source)


def bytes_of(case, a):
    _, b, h, g, _, d = case
    return int(a.length.long().sum()) * g * d * 4 + 4 * b * h * d


def measure(clock, case, rounds, tune):
    torch.manual_seed(1)
    kind, b, h = case[:3]
    a = Arrays(case)
    row, competitors = {"case": case}, {"headroom": Ours(case, a, tune)}
    if kind == "full":
        competitors["cuDNN"] = Sdpa(case, a, SDPBackend.CUDNN_ATTENTION)
        competitors["FlashAttention-2"] = Sdpa(case, a, SDPBackend.FLASH_ATTENTION)
    made = bench.first_runs(competitors, row)
    heads = ((0, 0), (b - 1, h - 1), (b // 2, h // 2))
    row["error"] = max(bench.relative_error(exact(kind, a, *at), made["headroom"].result[at]) for at in heads)
    row["first use"] = made["headroom"].seconds
    made["copy"] = Copy(1 << 31)
    times = bench.in_turn(clock, made, rounds, row)
    total = bytes_of(case, a)
    for name in made:
        row[name] = (1 << 31 if name == "copy" else total) / statistics.median(times[name]) * 1e-9
    row["share"] = statistics.median(total / o / ((1 << 31) / c) for o, c in zip(times["headroom"], times["copy"]))
    row["time"] = statistics.median(times["headroom"])
    return row


def line(row):
    kind, b, h, g, n, d = row["case"]
    cells = [f"{kind} b{b} h{h} kv{g} s{n} d{d}", f"{row['time'] * 1e6:.1f} us"]
    cells += [f"{row[p]:.0f}" if p in row else "–" for p in ("headroom", "copy", "cuDNN", "FlashAttention-2")]
    peers = [row[p + " ratio"] for p in ("cuDNN", "FlashAttention-2") if p in row]
    cells += [f"{row['share']:.2f}", f"{min(peers):.2f}" if peers else "–", f"{row['error']:.1e}",
              f"{row['first use']:.1f} s"]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = bench.options_parser()
    parser.add_argument("--tune", default="none")
    options = parser.parse_args()
    bench.stream_of_its_own()
    clock = bench.Clock()
    lines = ["| case | headroom | GB/s | copy | cuDNN | FlashAttention-2 | of the copy | over the better peer | error | first use |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    rows = bench.table(options, CASES, lines,
                       lambda case: measure(clock, case, options.rounds, options.tune), line)
    shares = [row["share"] for row in rows]
    lines += ["", f"- of the copy's rate: geometric mean {math.exp(statistics.fmean(map(math.log, shares))):.2f}, "
                  f"{min(shares):.2f} to {max(shares):.2f}"]
    print(lines[-1])
    bench.page_write(options, "Attention of one query a head", "decode_gpu.py", "bf16", lines)


if __name__ == "__main__":
    main()
