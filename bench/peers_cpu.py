#!/usr/bin/env python3
"""Compares headroom on this machine's processor with NumPy, JAX and OpenBLAS, in one run on the same arrays.

  peers_cpu.py [--out FOLDER] [--only NAME[,NAME]] [--tune none|quick|full] [--seconds S] [--shrink N]

in:   the package headroom (docs/benchmarks.md says how it is brought), kernels/*.hr, bench/cases.txt (a case a line: FILE:KERNEL EXTENT=N ...)
out:  FOLDER/cpu-DATE.csv and .md (default: bench/results)

The protocol: all competitors of a case are warmed once and checked against each other; then rounds follow, in
each of which every competitor runs once, in turning order, after its caches were emptied. A figure is the
median of its rounds. How much of the floor's speed headroom has is measured right afterwards by `headroom
run`, by the baseline, a copy and functions measured alternately with the kernel: a shared machine's memory has another speed
in another minute. Everybody uses all processors. Peers get the best that a practitioner would write: NumPy
in blocks of rows that stay in the cache, shared out to threads; JAX jitted, with its result buffers donated
back so that it need not ask for memory; OpenBLAS through NumPy, followed where there is more to do than a
product by a pass in C, compiled with the compiler's fastest options.
"""

import argparse
import concurrent.futures
import ctypes
import csv
import datetime
import json
import math
import mmap
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THREADS = len(os.sched_getaffinity(0))
os.environ.setdefault("OPENBLAS_NUM_THREADS", str(THREADS))
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # idle threads of its spin and slow whatever runs next
os.environ.setdefault("JAX_PLATFORMS", "cpu")
for setting in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # it knows its processor better than a shell's settings do
    os.environ.pop(setting, None)

import headroom as hr  # noqa: E402
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402

import bench_case  # noqa: E402
import peers_math  # noqa: E402

ROOT = bench_case.ROOT
DTYPES = {"f32": np.dtype("f4"), "bf16": np.dtype(ml_dtypes.bfloat16), "i32": np.dtype("i4"), "i8": np.dtype("i1"),
          "u8": np.dtype("u1")}
APART = 2 << 20
BLOCK_BYTES = 256 << 10  # of one tensor's rows in NumPy: a few of them fit a core's second cache
TOLERANCE = {"f32": 1e-4, "bf16": 2e-2}  # largest difference over the result's largest magnitude
PRODUCTS = {"matmul", "linear", "linear_gelu"}
NOT_COMPARABLE = {"dropout", "dropout_backward"}  # each has its own random numbers; the fraction kept is compared

# The least share of the floor's speed that a case is meant to reach.
TARGETS = {0.90: "add layernorm rmsnorm residual_norm adamw adamw_in_place rope embedding dequantise row_sum "
               "sum_of_squares",
           0.85: "layernorm_backward rmsnorm_backward embedding_backward column_sum softmax logsumexp cross_entropy "
                 "cross_entropy_backward cross_entropy_backward_in_place bias_gelu bias_gelu_erf swiglu swiglu_backward dropout"}
TARGET = {name: target for target, names in TARGETS.items() for name in names.split()}


def empty(shape, dtype):
    """An array on pages of its own, large ones where the system has them. Arrays lie 2 MB further apart than they are
    long: exactly 2^28 bytes apart, those that a kernel walks side by side push each other out of a first-level cache."""
    count = math.prod(np.atleast_1d(shape).tolist())
    size = max(count * np.dtype(dtype).itemsize, 1)
    memory = mmap.mmap(-1, -(-size // APART) * APART + APART, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=dtype, count=count).reshape(shape)


class ArrayCase(bench_case.Case):
    """With NumPy's arrays."""

    def arrays(self, rng):
        """Inputs and inouts, filled: normal, or in range of the axis that they subscript."""
        subscripts = {"token": "V", "target": "V"}
        pool = rng.standard_normal(1 << 22, np.float32)
        filled = {}
        for p in self.tensors:
            if p.role == "result":
                continue
            array = empty(p.shape(self.extents), DTYPES[p.dtype])
            flat = array.reshape(-1)
            if p.name in subscripts:
                source = rng.integers(0, self.extents[subscripts[p.name]], flat.size)
            elif p.dtype in ("i8", "u8"):
                low = -128 if p.dtype == "i8" else 0
                source = rng.integers(low, low + 256, 1 << 22)
            else:  # another part of the pool for each tensor; second moments are positive
                source = np.roll(pool, len(filled) * 12345)
                source = np.abs(source) if p.name in ("v", "rstd") else source
            source = source.astype(flat.dtype)
            for start in range(0, flat.size, source.size):
                flat[start:start + source.size] = source[:flat.size - start]
            filled[p.name] = array
        return filled

    def fresh(self, filled):
        """A competitor's own results, its own copies of the inouts, and the inputs that all share."""
        own = dict(filled)
        for p in self.results:
            own[p.name] = empty(p.shape(self.extents), DTYPES[p.dtype])
            own[p.name][...] = filled[p.name] if p.role == "inout" else 0
        return own


class Headroom:
    name = "headroom"

    def __init__(self, case, filled, tune):
        self.case, self.own = case, case.fresh(filled)
        self.run = case.bind(self.own).prepare(tune)

    def result(self):
        return {p.name: self.own[p.name] for p in self.case.results}

    def of_the_floor(self):
        """The floor's time over ours, by a copy and functions measured alternately with it; None where they did not."""
        command = Path(hr.__file__).parent / "bin" / "headroom"
        extents = [f"{name}={value}" for name, value in (self.case.dtypes | self.case.extents).items()]
        ran = subprocess.run([command, "run", f"{self.case.path}:{self.case.kernel}", *extents, "--device", "cpu",
                              "--no-verify", "--json"], capture_output=True, text=True, check=True)
        return json.loads(ran.stdout).get("beside", {}).get("roof_fraction")


class Numpy:
    name = "NumPy"

    def __init__(self, case, filled, pool):
        self.case, self.own, self.pool = case, case.fresh(filled), pool
        self.function = getattr(peers_math.Numpy, case.kernel)
        rows = case.tensors[0].dims[0]
        self.axis = {p.name: p.dims.index(rows) for p in case.tensors if rows in p.dims}
        self.whole = {p.name: self.own[p.name] for p in case.tensors if p.name not in self.axis and p.role != "result"}
        self.sums = [p.name for p in case.results if p.name not in self.axis and p.role == "result"]
        count = case.extents[rows]
        widest = max(self.own[name].size for name in self.axis) * 4 // max(count, 1)
        step = count if case.kernel in peers_math.NUMPY_SERIAL else max(1, BLOCK_BYTES // max(widest, 1))
        self.blocks = [slice(at, min(at + step, count)) for at in range(0, count, step)]

    def run_blocks(self, blocks):
        total = {}
        for rows in blocks:
            sliced = {name: self.own[name][(slice(None),) * axis + (rows,)] for name, axis in self.axis.items()}
            part = self.function(**sliced, **self.whole, **self.case.scalars)
            for name, value in (part or {}).items():
                total[name] = total[name] + value if name in total else value
        return total

    def run(self):
        shares = [self.blocks[i::THREADS] for i in range(THREADS)]
        parts = list(self.pool.map(self.run_blocks, shares)) if len(self.blocks) > 1 else [self.run_blocks(self.blocks)]
        for name in self.sums:
            self.own[name][...] = sum(part[name] for part in parts if name in part)

    def result(self):
        return {p.name: self.own[p.name] for p in self.case.results}


class Jax:
    name = "JAX"

    def __init__(self, case, filled):
        import jax
        import jax.numpy as jnp
        self.jax, function = jax, getattr(peers_math.jax_math(), case.kernel)
        kept = {p.name: p.dtype for p in case.results}
        numpy_of = {name: DTYPES[dtype] for name, dtype in kept.items()}

        # `previous` is the memory that the results go to: the inouts' old values, or dead buffers.
        def step(inputs, previous):
            inouts = {p.name: previous[p.name] for p in case.results if p.role == "inout"}
            found = function(**inputs, **inouts, **case.scalars)
            return {name: found[name].astype(dtype) for name, dtype in numpy_of.items()}

        self.step = jax.jit(step, donate_argnums=1, keep_unused=True)
        own = case.fresh(filled)
        self.inputs = {p.name: jnp.array(filled[p.name]) for p in case.tensors if p.role == "input"}
        self.previous = {name: jnp.array(own[name]) for name in kept}
        self.jax.block_until_ready((self.inputs, self.previous))

    def run(self):
        self.previous = self.jax.block_until_ready(self.step(self.inputs, self.previous))

    def result(self):
        return {name: np.asarray(array) for name, array in self.previous.items()}


EPILOGUE = r"""
#include <math.h>
#include <stdint.h>
/* 2^x by a polynomial of degree 6 on [-1/2, 1/2]: a library's would cost a call a vector */
static inline float power_of_2(float x)
{
    x = x < -126.0f ? -126.0f : x;
    x = x > 126.0f ? 126.0f : x;
    float whole = rintf(x), r = x - whole;
    float p = 0x1.4309130p-13f;
    p = p * r + 0x1.5d87fe0p-10f; p = p * r + 0x1.3b2ab6fp-7f; p = p * r + 0x1.c6b08d7p-5f;
    p = p * r + 0x1.ebfbe00p-3f; p = p * r + 0x1.62e4300p-1f; p = p * r + 1.0f;
    union { int32_t bits; float value; } scale = {.bits = ((int32_t)whole + 127) << 23};
    return p * scale.value;
}
/* y = act(y + b), once over y, by all threads; act is nothing or gelu in the tanh form, as a sigmoid */
void epilogue(float *restrict y, const float *restrict b, long rows, long columns, int gelu)
{
    #pragma omp parallel for schedule(static)
    for (long r = 0; r < rows; r++) {
        float *restrict row = y + r * columns;
        #pragma omp simd
        for (long c = 0; c < columns; c++) {
            float u = row[c] + b[c];
            row[c] = gelu ? u / (1.0f + power_of_2(-2.302208198f * (u + 0.044715f * u * u * u))) : u;
        }
    }
}
"""
EPILOGUE_OPTIONS = "-O3 -march=native -mprefer-vector-width=512 -fno-math-errno -fno-trapping-math -fopenmp -shared -fPIC".split()


def epilogue():
    folder = tempfile.mkdtemp()
    source = Path(folder, "epilogue.c")
    source.write_text(EPILOGUE)
    for options in (EPILOGUE_OPTIONS, [o for o in EPILOGUE_OPTIONS if "512" not in o]):
        built = subprocess.run(["cc", *options, "-o", f"{folder}/epilogue.so", source, "-lm"], capture_output=True)
        if built.returncode == 0:
            return ctypes.CDLL(f"{folder}/epilogue.so").epilogue
    raise SystemExit(built.stderr.decode())


def openblas():
    """The OpenBLAS that NumPy runs on: its own description of itself, or None where NumPy has another one."""
    np.matmul(np.ones((64, 64), np.float32), np.ones((64, 64), np.float32))
    paths = {line.split()[-1] for line in open("/proc/self/maps") if "openblas" in line}
    for path in paths:
        library = ctypes.CDLL(path)
        for prefix, suffix in (("scipy_", "64_"), ("", "64_"), ("scipy_", ""), ("", "")):
            core = getattr(library, f"{prefix}openblas_get_corename{suffix}", None)
            config = getattr(library, f"{prefix}openblas_get_config{suffix}", None)
            if core and config:
                core.restype = config.restype = ctypes.c_char_p
                return f"{' '.join(config().decode().split()[:2])}, core {core().decode()}"
    return None


class Openblas:
    name = "OpenBLAS"

    def __init__(self, case, filled, pass_after):
        self.case, self.own, self.after = case, case.fresh(filled), pass_after

    def run(self):
        own = self.own
        if self.case.kernel == "matmul":
            np.matmul(own["a"], own["b"], out=own["c"])
            return
        np.matmul(own["x"], own["w"].T, out=own["y"])
        rows, columns = own["y"].shape
        self.after(ctypes.c_void_p(own["y"].ctypes.data), ctypes.c_void_p(own["b"].ctypes.data),
                   ctypes.c_long(rows), ctypes.c_long(columns), int(self.case.kernel == "linear_gelu"))

    def result(self):
        return {p.name: self.own[p.name] for p in self.case.results}


def difference(case, mine, theirs):
    """The largest difference of a result over its largest magnitude; of the fraction kept for dropout."""
    worst = 0.0
    for name, value in mine.items():
        a, b = value.reshape(-1), theirs[name].reshape(-1)
        if case.kernel in NOT_COMPARABLE:
            return abs(np.count_nonzero(a) - np.count_nonzero(b)) / a.size
        # A million elements, spread over the whole.
        a, b = (x[:: max(1, x.size >> 20)].astype(np.float64) for x in (a, b))
        scale = np.max(np.abs(b)) or 1.0
        error = np.max(np.abs(a - b)) / scale
        worst = max(worst, error if np.isfinite(error) else np.inf)
    return worst


class Stopwatch:
    """Times calls with emptied caches; competitors take turns."""

    def __init__(self):
        self.scratch = empty(256 << 17, np.int64)  # 256 MB

    def empty_caches(self):
        self.scratch += 1

    def time(self, competitor):
        self.empty_caches()
        start = time.perf_counter()
        competitor.run()
        return time.perf_counter() - start

    def rounds(self, competitors, seconds):
        taken = {c.name: [] for c in competitors}
        start = time.perf_counter()
        order = list(competitors)
        for number in range(25):
            for c in order:
                if number >= 3 and statistics.median(taken[c.name]) > 0.2:
                    continue  # slow ones need no more
                taken[c.name].append(self.time(c))
            order = order[1:] + order[:1]
            if number >= 4 and time.perf_counter() - start > seconds:
                break
        return taken


def read_cases(path, only, shrink):
    """Those that somebody here can run."""
    cases = bench_case.read_cases(path, only, shrink)
    return [ArrayCase(c.path, c.kernel, c.dtypes, c.extents) for c in cases
            if hasattr(peers_math.Numpy, c.kernel) or c.kernel in PRODUCTS]


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.pool = concurrent.futures.ThreadPoolExecutor(THREADS)
        self.watch, self.rng = Stopwatch(), np.random.default_rng(0)
        self.blas, self.after = openblas(), epilogue()

    def competitors(self, case, filled):
        makers = []
        if not self.arguments.peers_only:
            makers.append(lambda: Headroom(case, filled, self.arguments.tune))
        if case.kernel in PRODUCTS:
            if case.dtype == "f32" and self.blas:
                makers.append(lambda: Openblas(case, filled, self.after))
        elif hasattr(peers_math.Numpy, case.kernel):
            makers.append(lambda: Numpy(case, filled, self.pool))
        makers.append(lambda: Jax(case, filled))
        return [make() for make in makers]

    def case(self, case):
        """One row of the table."""
        filled = case.arrays(self.rng)
        competitors = self.competitors(case, filled)
        for c in competitors:
            c.run()
        reference = competitors[-1].result()
        error = max((difference(case, c.result(), reference) for c in competitors[:-1]), default=0.0)
        tolerance = 1e-3 if case.kernel in NOT_COMPARABLE else TOLERANCE[case.dtype]
        taken = self.watch.rounds(competitors, self.arguments.seconds)
        row = {"kernel": case.title, "dtype": case.dtype,
               "extents": " ".join(f"{k}={v}" for k, v in case.extents.items()),
               "agree": "yes" if error <= tolerance else "NO", "difference": f"{error:.1e}"}
        for name, times in taken.items():
            row[f"{name} ms"] = statistics.median(times) * 1e3
            row[f"{name} best ms"] = min(times) * 1e3
        if not self.arguments.peers_only:
            ours, floor = competitors[0], competitors[0].run.floor()
            row |= {"bound": floor.bound, "MB": floor.bytes / 1e6, "floor ms": floor.seconds * 1e3,
                    "GB/s": floor.bytes / statistics.median(taken["headroom"]) / 1e9}
            if case.kernel in PRODUCTS:
                row["GFLOP/s"] = floor.tensor_flops / statistics.median(taken["headroom"]) / 1e9
            row["roof"] = ours.of_the_floor() or floor.seconds / statistics.median(taken["headroom"])
            row |= self.verdict(case, row)
        return row

    @staticmethod
    def verdict(case, row):
        """Which of its targets a row meets; ratios are peer's time over ours."""
        ratios = {name: row[f"{name} ms"] / row["headroom ms"] for name in ("NumPy", "JAX", "OpenBLAS")
                  if f"{name} ms" in row}
        missed = []
        if case.kernel in TARGET and row["roof"] < TARGET[case.kernel]:
            missed.append(f"{row['roof']:.2f} of the floor's speed, meant to be {TARGET[case.kernel]:.2f}")
        for name, ratio in ratios.items():
            if case.kernel in PRODUCTS and name == "JAX":
                continue
            least = 0.9 if name == "OpenBLAS" and case.kernel != "linear_gelu" else 1.0
            if ratio < least:
                missed.append(f"{ratio:.2f}x of {name}, meant to be {least:.1f}x")
        return {f"x {name}": ratio for name, ratio in ratios.items()} | {"missed": "; ".join(missed)}


def versions(bench):
    import jax
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
               platform.machine())
    compiler = subprocess.run(["cc", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    commit = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    return {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": f"{cpu}, {THREADS} processors, {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') >> 30} GB",
            "headroom": "not run" if bench.arguments.peers_only else f"{hr.__version__} at {commit}",
            "compiler": compiler, "system": f"{platform.system()} {platform.release()}",
            "NumPy": np.__version__, "JAX": jax.__version__, "OpenBLAS": bench.blas or "NumPy runs on another library",
            "ml_dtypes": ml_dtypes.__version__, "Python": platform.python_version()}


COLUMNS = ["kernel", "dtype", "extents", "MB", "bound", "floor ms", "headroom ms", "headroom best ms", "GB/s", "GFLOP/s",
           "roof", "NumPy ms", "JAX ms", "OpenBLAS ms", "x NumPy", "x JAX", "x OpenBLAS", "agree", "difference", "missed"]


def shown(value):
    if value is None or value == "":
        return ""
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 20 else f"{value:.2f}"
    return str(value)


def line_of(row):
    times = ", ".join(f"{name} {shown(row[name + ' ms'])} ms" for name in ("headroom", "NumPy", "JAX", "OpenBLAS")
                      if name + " ms" in row)
    roof = f"roof {row['roof']:.2f}, " if "roof" in row else ""
    agree = "" if row["agree"] == "yes" else f", RESULTS DIFFER by {row['difference']}"
    return f"{row['kernel']:28} {roof}{times}{agree}"


def markdown(rows, facts, roof, command):
    lines = ["# headroom beside NumPy, JAX and OpenBLAS on the CPU", ""]
    lines += [f"- {key}: {value}" for key, value in facts.items()]
    if roof:
        memory = roof["memory"]
        lines.append(f"- roof, measured on this machine: copy {memory['copy'] / 1e9:.1f} GB/s, read {memory['read'] / 1e9:.1f} GB/s, "
                     f"write {memory['write'] / 1e9:.1f} GB/s, f32 FMA {roof['vector']['f32'] / 1e9:.0f} GFLOP/s, "
                     f"exp {roof['special']['exp'] / 1e9:.1f} G/s")
    lines += [f"- command: `{command}`", "",
              "Times are medians with emptied caches, all competitors taking turns in one process on the same arrays. "
              "`roof` is the floor's time over ours, 1.00 being the limit: by a copy and functions measured alternately with "
              "the kernel right afterwards, elsewhere (small products) by the roof above, as `floor ms` is. `x` is the peer's "
              "time over ours. NumPy works in blocks of rows that stay in the cache, shared out to threads; JAX is jitted "
              "and its result buffers are donated back; OpenBLAS is followed by a pass in C where there is more to do "
              "than the product. `agree` compares the results of all competitors.", ""]
    keys = [c for c in COLUMNS if c not in ("headroom best ms", "difference") and any(r.get(c) not in (None, "") for r in rows)]
    lines += ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    lines += ["| " + " | ".join(shown(r.get(k)) for k in keys) + " |" for r in rows]
    if roof:
        missed = [r for r in rows if r["missed"] or r["agree"] != "yes"]
        lines += ["", f"{len(rows) - len(missed)} of {len(rows)} cases meet every target.", ""]
        lines += [f"- missed: {r['kernel']} {r['extents']}: {r['missed'] or 'results differ'}" for r in missed]
    return "\n".join(lines).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", default=ROOT / "bench" / "results", type=Path)
    parser.add_argument("--only", type=lambda text: set(text.split(",")), default=set())
    parser.add_argument("--tune", choices=bench_case.EFFORTS, default="quick")
    parser.add_argument("--seconds", type=float, default=2.5, help="spent timing a case")
    parser.add_argument("--shrink", type=int, default=1, help="divides each case's first extent: for a try")
    parser.add_argument("--peers-only", action="store_true", help="leave headroom out")
    parser.add_argument("--cases", type=Path, default=ROOT / "bench" / "cases.txt")
    arguments = parser.parse_args()

    bench = Bench(arguments)
    rows = []
    for case in read_cases(arguments.cases, arguments.only, arguments.shrink):
        start = time.perf_counter()
        row = bench.case(case)
        rows.append(row)
        print(line_of(row), f"  ({time.perf_counter() - start:.0f} s)", flush=True)
    facts = versions(bench)
    roof = None if arguments.peers_only else hr.roof().json["roof"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    stem = arguments.out / f"cpu-{facts['date'][:10]}"
    command = re.sub(r"\S*/(?=bench/|build)", "", " ".join(["bench/peers_cpu.py", *sys.argv[1:]]))
    with open(f"{stem}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    Path(f"{stem}.md").write_text(markdown(rows, facts, roof, command))
    print(f"{stem}.md")


if __name__ == "__main__":
    main()
