#!/usr/bin/env python3
"""Compares headroom on a GPU with PyTorch and Triton and with a plain copy, in one run on the same arrays.

  peers_gpu.py [--out FOLDER] [--only NAME[,NAME]] [--tune none|quick|full] [--rounds N] [--quick] [--fresh]

in:   the package headroom (docs/benchmarks.md says how it is brought), kernels/*.hr, bench/cases_gpu.txt
out:  FOLDER/GPU-DATE.csv and .md (default: bench/results). The table is written after each case; a run that was
      broken off goes on where it stood, unless --fresh.

The protocol: all competitors of a case run once and are compared with each other; then rounds follow, in each of which
every competitor runs once, in turning order. Before each run the L2 cache is filled with other data by reading it, and
a kernel that only waits holds the GPU until the run's own launches are queued, so that the time between the two events
around it has no host time in it. A figure is the median of its rounds; a ratio to a peer is that of the rounds' own
ratios, with the interval that holds the median in 95 of 100 runs. Where arrays lie in memory makes a percent for one
or the other, so a case is run at several placements, and its rounds are those of all. The copy is the driver's, of so many bytes that
it moves as many as the case must (half read, half written). Everybody reads the same inputs; results and what is
changed in place are everybody's own.
"""

import argparse
import csv
import datetime
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

try:
    import torch
except ImportError:
    print("bench-gpu: the peers need PyTorch for CUDA with Triton. Please install it (pip install torch) for this python3.",
          file=sys.stderr)
    sys.exit(3)

import headroom as hr  # noqa: E402

import bench_case  # noqa: E402
import peers_torch  # noqa: E402

DTYPE = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "i32": torch.int32, "i8": torch.int8,
         "u8": torch.uint8}
TOLERANCE = {"f32": 1e-3, "bf16": 2e-2}  # largest difference over the result's largest magnitude
SHARED = ("headroom", "copy")
PEERS = ("eager", "compile", "triton")
CYCLES = 2e9  # a second, at most: how long the waiting kernel waits is not critical

# The least share of the copy's speed that a case is meant to reach; and the kernels whose geometric mean has a target.
AT_COPY = ("softmax layernorm rmsnorm residual_norm bias_gelu swiglu rope cross_entropy cross_entropy_backward "
           "cross_entropy_backward_in_place adamw adamw_in_place").split()
TARGET = {name: 0.90 for name in AT_COPY} | {"dropout": 0.80, "layernorm_backward": 0.88, "rmsnorm_backward": 0.88}
TARGET |= {"linear_int4": 0.80}
MEAN_TARGET = 0.96
# Products of M, N and K in each.
PRODUCTS = {"matmul": 1, "linear": 1, "linear_gelu": 1, "linear_backward": 2, "linear_int8": 1, "linear_int4": 1}


# ---- arrays ----

def normal(shape, dtype, device):
    if not DTYPE[dtype].is_floating_point:
        bounds = torch.iinfo(DTYPE[dtype])
        return torch.randint(bounds.min, bounds.max + 1, shape, device=device, dtype=DTYPE[dtype])
    return torch.randn(shape, device=device, dtype=torch.float32).to(DTYPE[dtype])


def filled(case, device):
    """Inputs and inouts by name: tensors, or lists of them; and empty results."""
    arrays = {}
    for p in case.tensors:
        shapes = [(n,) for n in case.lengths] if case.lengths and p.dims else [p.shape(case.extents)]
        made = []
        for shape in shapes:
            if p.role == "result":
                made.append(torch.empty(shape, device=device, dtype=DTYPE[p.dtype]))
            elif p.name == "target":
                made.append(torch.randint(0, case.extents["V"], shape, device=device, dtype=torch.int32))
            else:
                values = normal(shape, p.dtype, device)
                scale = 1e-3 if p.name == "dloss" else 1
                made.append(values.abs() if p.name in ("v", "rstd") else values.mul_(scale))
        arrays[p.name] = made if case.lengths and p.dims else made[0]
    return arrays


def copied(value):
    return [t.clone() for t in value] if isinstance(value, list) else value.clone()


def own(case, arrays, roles):
    """The arrays with copies of those whose role is one of these."""
    role = {p.name: p.role for p in case.tensors}
    return {name: copied(value) if role[name] in roles else value for name, value in arrays.items()}


# ---- competitors: each has a name, prepare() -> seconds, run() and result() after a run ----

class Headroom:
    name = "headroom"

    def __init__(self, case, arrays, tune):
        self.case, self.tune, self.arrays = case, tune, own(case, arrays, ("inout",))
        self.bound = case.bind(self.arrays)

    def prepare(self):
        started = time.perf_counter()
        self.bound.prepare("none")
        ready = time.perf_counter()
        if self.tune != "none":
            self.bound.prepare(self.tune)
        self.tune_seconds = time.perf_counter() - ready
        return ready - started

    def run(self):
        self.bound()

    def result(self):
        return {p.name: self.arrays[p.name] for p in self.case.results}

    def close(self):
        self.bound = self.arrays = None


class Copy:
    name = "copy"

    def __init__(self, case, device):
        half = max(case.bytes() // 2, 1)
        self.source = torch.empty(half, dtype=torch.uint8, device=device).random_()
        self.target = torch.empty_like(self.source)

    def prepare(self):
        return 0.0

    def run(self):
        self.target.copy_(self.source)

    def result(self):
        return None

    def close(self):
        self.source = self.target = None


class Function:
    """PyTorch's or Triton's: a function of all inputs by name."""

    def __init__(self, name, function, case, arrays):
        inputs = own(case, arrays, ("inout",))
        results = {p.name for p in case.results if p.role == "result"}
        self.arguments = {k: v for k, v in inputs.items() if k not in results} | case.scalars
        if "target" in self.arguments:
            self.arguments["target"] = self.arguments["target"].long()
        if case.kernel.startswith("adamw"):  # gradients in the parameters' dtype; many steps done: nothing is corrected
            self.arguments["g"] = [g.float() for g in self.arguments["g"]]
            self.arguments["step"] = [torch.full((), 1e6, device=g.device) for g in self.arguments["g"]]
            if "w" in inputs:
                self.arguments["w"] = copied(inputs["w"])
        self.name, self.case, self.function = name, case, function

    def prepare(self):
        started = time.perf_counter()
        self.run()
        torch.cuda.synchronize()
        return time.perf_counter() - started

    def run(self):
        self.found = self.function(**self.arguments)

    def result(self):
        return {p.name: self.found.get(p.name, self.arguments.get(p.name)) for p in self.case.results}

    def close(self):
        self.arguments = self.found = None


def compiled(function):
    torch._dynamo.reset()
    return torch.compile(function, dynamic=False)


def competitors(case, arrays, arguments, kept):
    """(name, maker) of everybody who has this case. `kept`: what torch.compile made, for all placements."""
    makers = [("copy", lambda: Copy(case, arguments.device))]
    if not arguments.peers_only:
        makers.append(("headroom", lambda: Headroom(case, arrays, arguments.tune)))
    function = getattr(peers_torch.Torch, case.kernel, None)
    if function and (case.lengths or case.kernel not in peers_torch.LISTS):
        makers.append(("eager", lambda: Function("eager", function, case, arrays)))
        if case.kernel not in peers_torch.LISTS and not arguments.no_compile:
            if "compile" not in kept:
                kept["compile"] = compiled(function)
            makers.append(("compile", lambda: Function("compile", kept["compile"], case, arrays)))
    import peers_triton  # needs a GPU's driver to be imported with effect
    tutorial, fits = getattr(peers_triton.Triton, case.kernel, None), getattr(peers_triton.Fits, case.kernel, None)
    if tutorial and fits(case.extents["N"], DTYPE[case.dtype].itemsize):
        makers.append(("triton", lambda: Function("triton", tutorial, case, arrays)))
    return makers


# ---- agreement ----

def difference(mine, theirs):
    """The largest difference over the largest magnitude, of a million elements spread over the whole."""
    if isinstance(mine, list):
        return max(difference(a, b) for a, b in zip(mine, theirs))
    a, b = mine.reshape(-1), theirs.reshape(-1)
    step = max(1, a.numel() >> 20)
    a, b = a[::step].double(), b[::step].double()
    scale = b.abs().max().item() or 1.0
    error = ((a - b).abs().max() / scale).item()
    return error if math.isfinite(error) else math.inf


def disagreement(case, runners):
    """How far the others are from the eager results; of dropout the fraction that is kept."""
    reference = next((r.result() for r in runners if r.name == "eager"), None)
    worst = 0.0
    for r in runners:
        if r.name in ("copy", "eager") or reference is None:
            continue
        for name, value in r.result().items():
            other = reference.get(name)
            if other is None or value is None:
                continue
            if case.kernel == "dropout":
                kept = [t.count_nonzero().item() / t.numel() for t in (value, other)]
                worst = max(worst, abs(kept[0] - kept[1]))
            else:
                worst = max(worst, difference(value, other))
    return worst


# ---- time ----

class Stopwatch:
    def __init__(self, device, l2_bytes):
        self.cold = torch.zeros(max(4 * l2_bytes, 256 << 20) // 4, device=device)
        self.sum = torch.zeros((), device=device)

    def host_seconds(self, runner):
        torch.cuda.synchronize()
        started = time.perf_counter()
        runner.run()
        return time.perf_counter() - started

    def start(self, runner, hold):
        """Queues one run between two events."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.sum(self.cold, dim=0, out=self.sum)
        torch.cuda._sleep(int(hold * CYCLES))
        begin.record()
        runner.run()
        end.record()
        return begin, end

    def rounds(self, runners, count):
        """Seconds of each run by competitor."""
        hold = {r.name: 20e-6 + 1.5 * min(self.host_seconds(r) for _ in range(3)) for r in runners}
        taken = {r.name: [] for r in runners}
        order = list(runners)
        for _ in range(count):
            for r in order:
                taken[r.name].append(self.start(r, hold[r.name]))
            torch.cuda.synchronize()
            order = order[1:] + order[:1]
        return {name: [1e-3 * a.elapsed_time(b) for a, b in pairs] for name, pairs in taken.items()}


# ---- a case ----

def prepared(case, arrays, arguments, kept, row):
    """Competitors that are ready; their times to get there, and what stopped others, in the row where it has none."""
    runners, failures = [], []
    for name, make in competitors(case, arrays, arguments, kept):
        try:
            runner = make()
            row.setdefault(f"{name} prepare s", runner.prepare())
            if name == "headroom":
                row.setdefault("tune s", runner.tune_seconds)
                runner.run()
            torch.cuda.synchronize()
            runners.append(runner)
        except Exception as error:  # a competitor that cannot do a case is a hole in its row
            failures.append(f"{name}: {str(error).splitlines()[0][:160]}")
            if name == "copy":
                raise
    row.setdefault("error", "; ".join(failures))
    return runners


def run_case(case, arguments, watch):
    """One row of the table."""
    row = {"kernel": case.title, "dtype": case.dtype, "extents": case.words(), "MB": case.bytes() / 1e6}
    taken, kept = {}, {}
    for placement in range(arguments.placements):
        between = torch.empty((1 + 37 * placement) << 20, dtype=torch.uint8, device=arguments.device)
        arrays = filled(case, arguments.device)
        runners = prepared(case, arrays, arguments, kept, row)
        if placement == 0:
            error = disagreement(case, runners)
        for name, times in watch.rounds(runners, math.ceil(arguments.rounds / arguments.placements)).items():
            taken.setdefault(name, []).extend(times)
        for r in runners:
            r.close()
        del between, arrays, runners, r
        torch.cuda.empty_cache()
    tolerance = 1e-3 if case.kernel == "dropout" else TOLERANCE[case.dtype]
    row |= {"agree": "yes" if error <= tolerance else "NO", "difference": f"{error:.1e}"}
    for name, times in taken.items():
        row[f"{name} us"] = statistics.median(times) * 1e6
        row[f"{name} best us"] = min(times) * 1e6
    return row | verdict(case, row, taken)


def median_with_interval(values):
    """The median, and the least and largest value that it may have: order statistics, 95 of 100 runs."""
    ordered, count = sorted(values), len(values)
    reach = 0.98 * math.sqrt(count)
    low, high = math.floor((count - 1) / 2 - reach), math.ceil((count - 1) / 2 + reach)
    return statistics.median(ordered), ordered[max(low, 0)], ordered[min(high, count - 1)]


def verdict(case, row, taken):
    """Rates, ratios and which targets are missed; slower than a peer is what the rounds can tell from as fast."""
    peers = {name: row[f"{name} us"] for name in PEERS if f"{name} us" in row}
    found = {"copy GB/s": row["MB"] / row["copy us"] * 1e3}
    if "headroom us" not in row:
        return found | {"missed": "did not run"}
    missed = []
    found |= {"GB/s": row["MB"] / row["headroom us"] * 1e3, "of copy": row["copy us"] / row["headroom us"]}
    if case.kernel in PRODUCTS:
        k = case.extents["K"] if "K" in case.extents else case.extents["G"] * case.extents.get("S", 32)
        operations = 2 * PRODUCTS[case.kernel] * case.extents["M"] * case.extents["N"] * k
        found["TFLOP/s"] = operations / row["headroom us"] * 1e-6
    if case.kernel in TARGET and found["of copy"] < TARGET[case.kernel]:
        missed.append(f"{found['of copy']:.2f} of the copy, meant to be {TARGET[case.kernel]:.2f}")
    if peers:
        best = min(peers, key=peers.get)
        ratio, low, high = median_with_interval([p / h for p, h in zip(taken[best], taken["headroom"])])
        found |= {"best peer": best, "x best peer": ratio, "x low": low, "x high": high}
        if high < 1:
            missed.append(f"{ratio:.3f}x of {best} ({low:.3f} to {high:.3f})")
    return found | {"missed": "; ".join(missed)}


# ---- tables ----

COLUMNS = (["kernel", "dtype", "extents", "MB", "GB/s", "TFLOP/s", "of copy", "best peer", "x best peer", "x low", "x high",
            "headroom us", "copy us"]
           + [f"{p} us" for p in PEERS] + ["copy GB/s"] + [f"{p} best us" for p in SHARED + PEERS]
           + ["headroom prepare s", "tune s"] + [f"{p} prepare s" for p in PEERS]
           + ["agree", "difference", "missed", "error"])
SHOWN = (["kernel", "extents", "MB", "GB/s", "TFLOP/s", "of copy", "headroom us", "copy us"] + [f"{p} us" for p in PEERS]
         + ["x best peer", "x low", "x high", "headroom prepare s", "tune s", "compile prepare s", "agree", "missed"])


def shown(value):
    if value is None or value == "":
        return ""
    try:
        value = float(value)
    except ValueError:
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 20 else f"{value:.2f}"


def shown_in(key, value):
    """Ratios to a peer with three digits, for some are near 1."""
    return f"{float(value):.3f}" if key.startswith("x ") and value not in (None, "") else shown(value)


def mean_of_copy(rows):
    """Of the kernels that are meant to run like a copy: the geometric mean and the least share of its speed."""
    shares = [float(r["of copy"]) for r in rows
              if r["kernel"].split()[0] in AT_COPY and r.get("of copy") not in (None, "")]
    return (math.exp(statistics.fmean(map(math.log, shares))), min(shares), len(shares)) if shares else None


def summary(rows):
    lines = []
    mean = mean_of_copy(rows)
    if mean:
        lines.append(f"Of the copy's speed, over {mean[2]} cases that are meant to run like one: geometric mean "
                     f"{mean[0]:.3f} (target {MEAN_TARGET}), least {mean[1]:.3f}.")
    beside = [[float(r[key]) for key in ("x best peer", "x low", "x high")] for r in rows
              if r.get("x best peer") not in (None, "")]
    if beside:
        ratios = [ratio for ratio, _, _ in beside]
        slower, faster = sum(high < 1 for _, _, high in beside), sum(low > 1 for _, low, _ in beside)
        lines.append(f"Beside the best peer: geometric mean {math.exp(statistics.fmean(map(math.log, ratios))):.2f}x, "
                     f"least {min(ratios):.3f}x; of {len(ratios)} cases faster in {faster}, slower in {slower}, as fast "
                     f"in {len(ratios) - faster - slower} (the interval of the ratio holds 1).")
    met = [r for r in rows if not r["missed"] and r["agree"] == "yes"]
    lines.append(f"{len(met)} of {len(rows)} cases meet every target.")
    return lines


def markdown(rows, facts):
    lines = [f"# headroom beside PyTorch and Triton on one {facts['device']}", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    lines += ["", *summary(rows), "",
              "Times are medians with a cold L2, all competitors taking turns in one process on the same inputs, at several "
              "placements of the arrays in memory (see the command). GB/s "
              "counts what must move: inputs once, results once, what changes in place twice. `of copy` is the time of "
              "the driver's copy that moves as many bytes over ours. `eager` runs PyTorch's own operations, `compile` "
              "the same under torch.compile, `triton` kernels in the manner of its tutorials. `x best peer` is the median of "
              "the best peer's time over ours, round by round; `x low` and `x high` hold it in 95 of 100 runs, and only "
              "what lies below 1 with them counts as slower. `prepare s` is from the text to code that is ready, with nothing cached, and `tune s` the quick search "
              "after it; a peer's is until its first result. `agree` "
              "compares everybody's results.", ""]
    keys = [c for c in SHOWN if any(r.get(c) not in (None, "") for r in rows)]
    lines += ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    lines += ["| " + " | ".join(shown_in(k, r.get(k)) for k in keys) + " |" for r in rows]
    wrong = [r for r in rows if r.get("error") or r["agree"] != "yes"]
    lines += [""] + [f"- {r['kernel']} {r['extents']}: {r.get('error') or 'results differ by ' + r['difference']}"
                     for r in wrong]
    return "\n".join(lines).rstrip() + "\n"


def queried(*names):
    try:
        asked = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(names)}", "--format=csv,noheader", "-i", "0"],
                               capture_output=True, text=True)
    except OSError:
        return "not known"
    return asked.stdout.strip() if asked.returncode == 0 else "not known"


def facts_of(arguments):
    import triton
    commit = subprocess.run(["git", "-C", bench_case.ROOT, "describe", "--always", "--dirty"], capture_output=True,
                            text=True).stdout.strip()
    command = re.sub(r"\S*/(?=bench/|build)", "", " ".join(["bench/peers_gpu.py", *sys.argv[1:]]))
    return {"device": torch.cuda.get_device_name(arguments.device),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "headroom": "not run" if arguments.peers_only else f"{hr.__version__} at {arguments.commit or commit or 'an exported tree'}",
            "driver, clocks (SM, memory), power limit": queried("driver_version", "clocks.sm", "clocks.mem", "power.limit"),
            "PyTorch": f"{torch.__version__}, CUDA {torch.version.cuda}", "Triton": triton.__version__,
            "command": f"`{command}`"}


def read_rows(path):
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write(stem, rows, facts):
    with open(f"{stem}.csv.new", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    Path(f"{stem}.csv.new").rename(f"{stem}.csv")
    Path(f"{stem}.md").write_text(markdown(rows, facts))


def line_of(row, seconds):
    times = ", ".join(f"{p} {shown(row[p + ' us'])}" for p in SHARED + PEERS if p + " us" in row)
    of_copy = f"{row['of copy']:.3f} of the copy, " if "of copy" in row else ""
    notes = "" if row["agree"] == "yes" else f", RESULTS DIFFER by {row['difference']}"
    notes += f" [{row['error']}]" if row["error"] else ""
    return f"{row['kernel']:26} {row['extents']:24} {of_copy}us: {times}{notes}  ({seconds:.1f} s)"


def chosen(arguments):
    cases = bench_case.read_cases(arguments.cases, arguments.only, arguments.shrink)
    if arguments.quick:  # one of each kernel
        cases = [c for i, c in enumerate(cases) if c.title not in {before.title for before in cases[:i]}]
    return cases


def card_name(device):
    """h100 of "NVIDIA H100 80GB HBM3", a100 of "NVIDIA A100-SXM4-80GB": the first word with three digits."""
    return next((word for word in re.split(r"[\s-]+", device.lower()) if re.search(r"\d{3}", word)), "gpu")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=bench_case.ROOT / "bench" / "results", type=Path)
    parser.add_argument("--only", type=lambda text: frozenset(text.split(",")), default=frozenset())
    parser.add_argument("--tune", choices=bench_case.EFFORTS, default="quick")
    parser.add_argument("--rounds", type=int, default=61)
    parser.add_argument("--placements", type=int, default=3, help="of a case's arrays in memory")
    parser.add_argument("--quick", action="store_true", help="one case a kernel, few rounds")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run of today found")
    parser.add_argument("--shrink", type=int, default=1, help="divides each case's first extent: for a try")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no case after so many")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--peers-only", action="store_true", help="leave headroom out")
    parser.add_argument("--commit", help="what is measured, where the tree is no repository")
    parser.add_argument("--cases", type=Path, default=bench_case.ROOT / "bench" / "cases_gpu.txt")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench-gpu: there is no GPU that PyTorch can use", file=sys.stderr)
        return 3
    arguments.device = torch.device("cuda", 0)
    arguments.rounds = min(arguments.rounds, 11) if arguments.quick else arguments.rounds
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()) as _:
        return bench(arguments)


def bench(arguments):
    """In a cache of its own: `prepare s` is with nothing cached, whatever ran here before."""
    cache = tempfile.mkdtemp(prefix="headroom-bench-")
    os.environ["HEADROOM_CACHE"] = cache
    try:
        return bench_cases(arguments)
    finally:
        shutil.rmtree(cache, ignore_errors=True)


def bench_cases(arguments):
    facts = facts_of(arguments)
    watch = Stopwatch(arguments.device, torch.cuda.get_device_properties(arguments.device).L2_cache_size)
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / f"{card_name(facts['device'])}-{facts['date'][:10]}{'-quick' if arguments.quick else ''}"
    rows = [] if arguments.fresh else read_rows(Path(f"{stem}.csv"))
    done, begun = {(r["kernel"], r["extents"]) for r in rows}, time.perf_counter()
    for case in chosen(arguments):
        if (case.title, case.words()) in done or time.perf_counter() - begun > arguments.seconds:
            continue
        started = time.perf_counter()
        try:
            row = run_case(case, arguments, watch)
        except Exception as error:
            print(f"{case.title} {case.words()}: {error}", file=sys.stderr, flush=True)
            continue
        rows.append(row)
        write(stem, rows, facts)
        print(line_of(row, time.perf_counter() - started), flush=True)
        torch.cuda.empty_cache()
    facts["driver, clocks (SM, memory), power limit"] += "; after: " + queried("clocks.sm", "clocks.mem", "power.draw")
    write(stem, rows, facts)
    print("\n".join(summary(rows)), f"{stem}.md", sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
