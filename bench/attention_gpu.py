#!/usr/bin/env python3
"""Attention on a GPU beside PyTorch's: cuDNN and FlashAttention-2 for plain scores, FlexAttention for others.

  attention_gpu.py [--out FILE.md] [--only NAME[,NAME]] [--rounds N] [--flex]

in:   the package headroom (docs/benchmarks.md says how it is brought), bench/attention_scores.hr, kernels/attention_backward.hr
out:  a table; with --out a page of it. TFLOP/s counts the products of the pairs of query and key that the mask leaves.

All competitors of a case read the same arrays and run in turn; before each run other data goes through the L2. A figure is
the median of the rounds, a ratio the median of the rounds' own ratios. Each result is compared with attention in f32 of
some heads: the norm of the difference over that of the result. Memory is what the driver has less of after the first run,
all but arrays and results: scratch memory, and the kernel itself.
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
#        name of the text, B, H, heads of keys, length, D
CASES = [
    ("dense", 4, 16, 16, 4096, 128), ("causal", 4, 16, 16, 4096, 128), ("causal", 2, 16, 16, 8192, 128),
    ("dense", 1, 16, 16, 16384, 128), ("causal", 1, 16, 16, 16384, 128), ("causal", 4, 32, 32, 4096, 64),
    ("causal", 64, 12, 12, 1024, 64), ("grouped", 4, 32, 8, 4096, 128), ("dense", 2, 8, 8, 4096, 256),
    ("causal", 2, 8, 8, 4096, 256), ("window", 1, 16, 16, 16384, 128), ("alibi", 4, 16, 16, 4096, 128),
    ("softcap", 4, 16, 16, 4096, 128), ("documents", 4, 16, 16, 4096, 128), ("documents", 1, 16, 16, 16384, 128),
    ("prefix", 4, 16, 16, 4096, 128), ("f8", 4, 16, 16, 4096, 128), ("f8", 1, 16, 16, 16384, 128),
    ("backward", 4, 16, 16, 4096, 128), ("backward", 2, 16, 16, 8192, 128), ("backward", 1, 16, 16, 16384, 128), ("backward", 4, 32, 32, 4096, 64),
    ("backward", 64, 12, 12, 1024, 64), ("backward", 2, 8, 8, 4096, 256),
]
PLAIN = ("dense", "causal", "grouped", "f8", "backward")
WINDOW, DOCUMENT, PREFIX = 1024, 512, 1024
F8_SCALE = 64


def pairs(name, n):
    """Pairs of query and key that the mask leaves."""
    if name == "dense":
        return n * n
    if name == "window":
        return sum(min(i + 1, WINDOW) for i in range(n))
    if name == "documents":
        return n // DOCUMENT * (DOCUMENT * (DOCUMENT + 1) // 2)
    if name == "prefix":
        return n * (n + 1) // 2 + PREFIX * (PREFIX - 1) // 2
    return n * (n + 1) // 2


def flops(case):
    name, b, h, _, n, d = case
    return (10 if name == "backward" else 4) * b * h * pairs(name, n) * d


class Arrays:
    def __init__(self, case):
        name, b, h, g, n, d = case
        make = lambda heads: torch.randn(b, heads, n, d, device="cuda").bfloat16()
        self.q, self.k, self.v = make(h), make(g), make(g)
        if name == "f8":  # the peers take the same numbers as bf16
            self.f8 = [(x * F8_SCALE).to(torch.float8_e4m3fn) for x in (self.q, self.k, self.v)]
            self.q, self.k, self.v = (x.bfloat16() / F8_SCALE for x in self.f8)
            self.scale = torch.full((h,), d**-0.5 / F8_SCALE**2, device="cuda")
            self.value_scale = torch.full((h,), 1 / F8_SCALE, device="cuda")
        self.slope = torch.exp2(-8.0 * torch.arange(1, h + 1, device="cuda") / h)
        self.prefix = torch.full((b,), PREFIX, device="cuda", dtype=torch.int32)
        self.document = (torch.arange(n, device="cuda", dtype=torch.int32) // DOCUMENT).contiguous()


def score_of(name, a):
    """FlexAttention's two functions."""
    causal = lambda b, h, i, j: j <= i
    slope, document, prefix = a.slope, a.document, a.prefix
    if name == "window":
        return None, lambda b, h, i, j: (j <= i) & (i - j < WINDOW)
    if name == "alibi":
        return lambda s, b, h, i, j: s - slope[h] * (i - j), causal
    if name == "softcap":
        return lambda s, b, h, i, j: 30 * torch.tanh(s / 30), causal
    if name == "prefix":
        return None, lambda b, h, i, j: (j < prefix[b]) | (j <= i)
    return None, lambda b, h, i, j: (j <= i) & (document[i] == document[j])


def exact(name, a, b, h):
    """Of one head, in f32."""
    g = h // (a.q.shape[1] // a.k.shape[1])
    q, k, v = a.q[b, h].float(), a.k[b, g].float(), a.v[b, g].float()
    n = q.shape[0]
    s = q @ k.T / q.shape[1] ** 0.5
    i, j = torch.arange(n, device="cuda")[:, None], torch.arange(n, device="cuda")[None, :]
    if name == "alibi":
        s = s - a.slope[h] * (i - j)
    if name == "softcap":
        s = 30 * torch.tanh(s / 30)
    seen = torch.ones_like(s, dtype=torch.bool) if name == "dense" else j <= i
    if name == "window":
        seen = seen & (i - j < WINDOW)
    if name == "prefix":
        seen = seen | (j < PREFIX)
    if name == "documents":
        seen = seen & (a.document[:, None] == a.document[None, :])
    return torch.softmax(torch.where(seen, s, -torch.inf), 1) @ v


# ---- competitors: run() makes `result` ----

class Prepared:
    """A kernel of the text, bound to arrays, run once: `seconds` to its first use, `memory` bytes that it took."""

    def prepare(self, file, name, arrays):
        torch.cuda.synchronize()
        free = torch.cuda.mem_get_info()[0]
        begin = time.perf_counter()
        self.run = hr.kernel(file, name).bind(**arrays).prepare()
        self.seconds = time.perf_counter() - begin
        self.run()
        torch.cuda.synchronize()
        self.memory = free - torch.cuda.mem_get_info()[0]


class Ours(Prepared):
    def __init__(self, case, a):
        name = case[0]
        self.result = torch.empty_like(a.q)
        arrays = {"q": a.q, "k": a.k, "v": a.v, "o": self.result}
        if name == "alibi":
            arrays["slope"] = a.slope
        if name == "f8":
            arrays |= dict(zip("qkv", a.f8)) | {"scale": a.scale, "value_scale": a.value_scale}
        if name == "prefix":
            arrays["prefix"] = a.prefix
        if name == "documents":
            arrays["document"] = a.document
        self.prepare(HERE / "attention_scores.hr", name, arrays)


class Sdpa:
    def __init__(self, case, a, backend):
        self.case, self.a, self.backend = case, a, backend

    def run(self):
        name, _, h, g, _, _ = self.case
        with sdpa_kernel(self.backend):
            self.result = F.scaled_dot_product_attention(self.a.q, self.a.k, self.a.v, is_causal=name != "dense",
                                                         enable_gqa=h != g)


class Flex:
    def __init__(self, case, a):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        name, n = case[0], case[4]
        self.a = a
        self.score, mask = score_of(name, a)
        self.mask = create_block_mask(mask, case[1] if name == "prefix" else None, None, n, n, device="cuda")
        self.function = torch.compile(flex_attention, dynamic=False)

    def run(self):
        self.result = self.function(self.a.q, self.a.k, self.a.v, score_mod=self.score, block_mask=self.mask)


class OursBackward(Prepared):
    def __init__(self, case, a):
        _, b, h, g, n, d = case
        q, k, v = (t.detach().requires_grad_() for t in (a.q, a.k, a.v))
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            o, lse = torch.ops.aten._scaled_dot_product_cudnn_attention(a.q, a.k, a.v, None, True, 0.0, True)[:2]
        self.out = torch.randn_like(a.q)
        self.o, self.lse = o.contiguous(), lse.reshape(b, h, n).float().contiguous()
        dq, dk, dv = self.result = [torch.empty_like(a.q) for _ in range(3)]
        self.prepare(HERE.parent / "kernels" / "attention_backward.hr", "attention_backward",
                     dict(do=self.out, q=a.q, k=a.k, v=a.v, o=self.o, lse=self.lse, dq=dq, dk=dk, dv=dv))


class SdpaBackward:
    def __init__(self, case, a, backend, out):
        self.q, self.k, self.v = (t.detach().clone().requires_grad_() for t in (a.q, a.k, a.v))
        self.out = out
        with sdpa_kernel(backend):
            self.o = F.scaled_dot_product_attention(self.q, self.k, self.v, is_causal=True)

    def run(self):
        self.result = torch.autograd.grad(self.o, (self.q, self.k, self.v), self.out, retain_graph=True)


def gradients(a, out, b, h):
    """Of one head, in f32."""
    q, k, v = (t[b, h].float().detach().requires_grad_() for t in (a.q, a.k, a.v))
    n = q.shape[0]
    s = q @ k.T / q.shape[1] ** 0.5
    s = s.masked_fill(torch.ones(n, n, dtype=torch.bool, device="cuda").triu(1), -torch.inf)
    return torch.autograd.grad(torch.softmax(s, 1) @ v, (q, k, v), out[b, h].float())


# ---- cases ----

def competitors_of(case, a, flex):
    name = case[0]
    if name == "backward":
        ours = OursBackward(case, a)
        return {"headroom": ours, "cuDNN": SdpaBackward(case, a, SDPBackend.CUDNN_ATTENTION, ours.out),
                "FlashAttention-2": SdpaBackward(case, a, SDPBackend.FLASH_ATTENTION, ours.out)}
    made = {"headroom": Ours(case, a)}
    if name in PLAIN:
        made["cuDNN"] = Sdpa(case, a, SDPBackend.CUDNN_ATTENTION)
        made["FlashAttention-2"] = Sdpa(case, a, SDPBackend.FLASH_ATTENTION)
    elif flex:
        made["FlexAttention"] = Flex(case, a)
    return made


def worst_of(case, a, one):
    """The largest error of two heads, relative to the result."""
    name, b, h, _, _, _ = case
    worst = 0.0
    for at in ((0, 0), (b - 1, h - 1)):
        if name == "backward":
            wanted, got = gradients(a, one.out, *at), [r[at] for r in one.result]
        else:
            wanted, got = [exact(name, a, *at)], [one.result[at]]
        worst = max([worst] + [bench.relative_error(w, g) for w, g in zip(wanted, got)])
    return worst


def measure(clock, case, rounds, flex):
    torch.manual_seed(1)
    a = Arrays(case)
    row = {"case": case}
    made = bench.first_runs(competitors_of(case, a, flex), row)
    if "headroom" not in made:
        return row
    ours = made["headroom"]
    row["error"], row["first use"], row["memory"] = worst_of(case, a, ours), ours.seconds, ours.memory
    times = bench.in_turn(clock, made, rounds, row)
    for name in made:
        row[name] = flops(case) / statistics.median(times[name]) * 1e-12
    return row


def words(case):
    name, b, h, g, n, d = case
    heads = f"h{h}" if h == g else f"h{h} kv{g}"
    return f"{name} b{b} {heads} s{n} d{d}"


def line(row):
    peers = [p for p in ("cuDNN", "FlashAttention-2", "FlexAttention") if p in row]
    cells = [words(row["case"])] + [f"{row[p]:.0f}" if p in row else "–" for p in ("headroom", "cuDNN", "FlashAttention-2",
                                                                                  "FlexAttention")]
    best = next((p for p in ("cuDNN", "FlexAttention") if p in peers), None)
    cells += [f"{row[best + ' ratio']:.2f}" if best else "–", f"{row['error']:.1e}" if "error" in row else "–",
              f"{row['first use']:.1f} s" if "first use" in row else "–",
              f"{row['memory'] / 1e6:.1f} MB" if "memory" in row else "–"]
    return "| " + " | ".join(cells) + " |"


def means(rows):
    """Geometric means of the ratios to cuDNN or FlexAttention, by kind of case."""
    kinds = {"plain scores, forward": ("dense", "causal", "grouped"),
             "other scores": ("window", "alibi", "softcap", "documents", "prefix"),
             "f8 beside bf16": ("f8",), "gradients": ("backward",)}
    for kind, names in kinds.items():
        ratios = [row.get("cuDNN ratio", row.get("FlexAttention ratio")) for row in rows if row["case"][0] in names]
        ratios = [r for r in ratios if r]
        if ratios:
            yield f"{kind}: geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}, {min(ratios):.2f} to {max(ratios):.2f}"


def main():
    parser = bench.options_parser()
    parser.add_argument("--flex", action="store_true")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    bench.stream_of_its_own()
    clock = bench.Clock()
    lines = ["| case | headroom | cuDNN | FlashAttention-2 | FlexAttention | ours over cuDNN or Flex | error | first use | memory |",
             "|---|---|---|---|---|---|---|---|---|"]
    rows = bench.table(options, CASES, lines,
                       lambda case: measure(clock, case, options.rounds, options.flex), line)
    lines += [""] + [f"- {mean}" for mean in means(rows)]
    print("\n".join(lines[-4:]))
    bench.page_write(options, "Attention", "attention_gpu.py", "bf16, TFLOP/s", lines)


if __name__ == "__main__":
    main()
