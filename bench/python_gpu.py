#!/usr/bin/env python3
"""headroom from Python on a GPU: what a call costs beside Triton's and CuPy's, and torch.compile's backends beside each
other.

  python_gpu.py [--calls] [--models NAME,NAME] [--ways WAY,WAY] [--steps N] [--together ways|models] [--profile FOLDER] [--out FILE.md]

in:   the package headroom (PYTHONPATH=BUILD/python_package), PyTorch; Triton and CuPy where they are installed
out:  two tables; with --out a page of them

A call: the host's time of one, the median of rounds of 2000 in turns; the device is waited for after each round. A model:
each way runs in a process of its own, so that its first steps show what compiling costs; then the ways' steps are timed
one after another, medians. The error is of the result (the loss's gradients, where it is trained) against eager PyTorch's
in f32, a norm over a norm.
"""

import argparse
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F

import python_models

# "graphs": Inductor with CUDA graphs, which our backend makes of what runs forwards only.
WAYS = {"eager": None, "inductor": {}, "graphs": {"mode": "reduce-overhead"}, "headroom": {"backend": "headroom"}}
FIRST = 3  # steps until all is compiled and captured
CALLS, ROUNDS = 2000, 7


# ---- calls ----

RMSNORM = """
kernel rmsnorm(x: T[M, N], weight: T[N], eps: f32 = 1e-6) -> (y: T[M, N]) {
    y[m, n] = x[m, n] * rsqrt(sum[k](x[m, k]^2) / N + eps) * weight[n]
}"""


def triton_launch(x, weight, y):
    import triton
    import triton.language as tl

    @triton.jit
    def rmsnorm(x, weight, y, n: tl.constexpr, eps):
        at = tl.program_id(0) * n + tl.arange(0, n)
        row = tl.load(x + at).to(tl.float32)
        scale = tl.rsqrt(tl.sum(row * row, 0) / n + eps)
        tl.store(y + at, (row * scale * tl.load(weight + tl.arange(0, n)).to(tl.float32)).to(tl.bfloat16))

    rmsnorm.__globals__["tl"] = tl
    m, n = x.shape
    return lambda: rmsnorm[(m,)](x, weight, y, n, 1e-6)


def cupy_launch(x, weight, y):
    import cupy

    code = r"""extern "C" __global__ void copy(const short *x, const short *weight, short *y, int n, float eps) {
        y[blockIdx.x * n + threadIdx.x] = x[blockIdx.x * n + threadIdx.x]; }"""
    kernel = cupy.RawKernel(code, "copy")
    views = [cupy.asarray(t.view(torch.int16)) for t in (x, weight, y)]
    m, n = x.shape
    eps = cupy.float32(1e-6)
    return lambda: kernel((m,), (n,), (*views, n, eps))


def calls():
    """Microseconds a call, by way."""
    import headroom as hr
    import headroom.torch

    x = torch.randn(64, 256, device="cuda", dtype=torch.bfloat16)
    weight, y = torch.randn(256, device="cuda", dtype=torch.bfloat16), torch.empty_like(x)
    kernel, operator = hr.kernel(RMSNORM), headroom.torch.op(RMSNORM)
    ways = {
        "Triton, a launch into a given result": lambda: triton_launch(x, weight, y),
        "CuPy, a launch of a RawKernel": lambda: cupy_launch(x, weight, y),
        "PyTorch, F.rms_norm": lambda: lambda: F.rms_norm(x, (256,), weight, 1e-6),
        "headroom, into a given result": lambda: lambda: kernel(x, weight, out=y),
        "headroom, a new result": lambda: lambda: kernel(x, weight),
        "headroom, the PyTorch operator": lambda: lambda: operator(x, weight),
        "headroom, the operator with a gradient": lambda: lambda: operator(x, leaf),
    }
    leaf = weight.clone().requires_grad_()
    ready, times = {}, {}
    for name, make in ways.items():
        try:
            ready[name] = make()
            ready[name]()
            torch.cuda.synchronize()
        except Exception as error:  # a peer that is not installed, or does not run here
            ready.pop(name, None)
            print(f"{name}: left out ({type(error).__name__}: {str(error)[:100]})", file=sys.stderr)
    for _ in range(ROUNDS):
        for name, call in ready.items():
            begin = time.perf_counter()
            for _ in range(CALLS):
                call()
            times.setdefault(name, []).append((time.perf_counter() - begin) / CALLS * 1e6)
            torch.cuda.synchronize()
    return {name: statistics.median(each) for name, each in times.items()}


# ---- models ----


def step_of(model, loss, run):
    """One step: its result, or, where it is trained, the gradients of the weights."""

    def train(*inputs):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            value = loss(run(*inputs))
        value.backward()
        gradients = [p.grad for p in model.parameters()]
        for parameter in model.parameters():
            parameter.grad = None
        return gradients

    def infer(*inputs):
        with torch.no_grad():
            return [run(*inputs)]

    return train if loss else infer


def exact(model, inputs, loss):
    """In f32, on the same weights."""
    model.float()
    inputs = tuple(i.float() if i.is_floating_point() else i for i in inputs)
    if not loss:
        with torch.no_grad():
            return [model(*inputs)]
    loss(model(*inputs)).backward()
    gradients = [p.grad for p in model.parameters()]
    for parameter in model.parameters():
        parameter.grad = None
    return gradients


def error_of(made, expected):
    square = sum(float((a.double() - b.double()).square().sum()) for a, b in zip(made, expected))
    return (square / sum(float(b.double().square().sum()) for b in expected)) ** 0.5


def profile(step, inputs, path):
    """What a step runs on the device, the longest first."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as made:
        step(*inputs)
        torch.cuda.synchronize()
    Path(path).write_text(made.key_averages().table(sort_by="cuda_time_total", row_limit=60, max_name_column_width=90))


def timed(step, inputs, steps):
    times = []
    for _ in range(steps):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step(*inputs)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def measure(name, way, options):
    """In a process of its own: the first steps, then, once told to go on, the others, the memory, the error."""
    torch.manual_seed(1)
    model, inputs, loss = python_models.MODELS[name]()
    if way == "headroom":
        import headroom.torch  # noqa: F401 (registers the backend)
    run = model if WAYS[way] is None else torch.compile(model, **WAYS[way])
    step = step_of(model, loss, run)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(FIRST):
        step(*inputs)
    torch.cuda.synchronize()
    first = time.perf_counter() - begin
    step(*inputs)
    torch.cuda.synchronize()
    print("ready", flush=True)
    sys.stdin.readline()
    torch.cuda.reset_peak_memory_stats()
    median = timed(step, inputs, options.steps)
    peak = torch.cuda.max_memory_allocated() / 2**30
    if options.profile:
        profile(step, inputs, Path(options.profile) / f"{name}_{way}.txt")
    made = [m.detach().clone() for m in step(*inputs)]
    error = error_of(made, exact(model, inputs, loss))
    print(json.dumps({"first": first, "step": median, "memory": peak, "error": error}), flush=True)


class Apart:
    """A model in one way, in a process that waits after its first steps until it is told to go on."""

    def __init__(self, name, way, options):
        command = [sys.executable, __file__, "--one", f"{name}:{way}", "--steps", str(options.steps)]
        command += ["--profile", options.profile] if options.profile else []
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            ["timeout", str(options.seconds), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
            text=True)

    def line(self, start):
        """The next line that starts so; none where the process ends before."""
        return next((each for each in self.process.stdout if each.startswith(start)), None)

    def result(self):
        if self.process.poll() is None:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()
        line = self.line("{")
        code = self.process.wait()
        if line:
            return json.loads(line)
        self.errors.seek(0)
        last = ["more than the time given"] if code == 124 else self.errors.read().strip().splitlines() or [f"exit {code}"]
        return {"why": last[-1][:200]}


def rows_of(names, ways, options):
    """Each model's rows. First steps of what runs together run at the same time, the other steps one after another."""
    whole = [(name, way) for name in names for way in ways]
    sets = {"models": [whole], "ways": [[(name, way) for way in ways] for name in names]}
    rows = {name: {} for name in names}
    for together in sets.get(options.together, [[each] for each in whole]):
        made = {each: Apart(*each, options) for each in together}
        for apart in made.values():
            apart.line("ready")
        for (name, way), apart in made.items():
            rows[name][way] = apart.result()
        for name in [name for name, each in rows.items() if len(each) == len(ways)]:
            yield name, rows.pop(name)


def model_lines(names, options):
    yield f"| model | way | step | of Inductor's time (less is better) | first {FIRST} steps | memory | error |"
    yield "|---|---|---|---|---|---|---|"
    shares = []
    for name, rows in rows_of(names, options.ways.split(","), options):
        peer = rows.get("inductor", {}).get("step")
        for way, row in rows.items():
            if "why" in row:
                yield f"| {name} | {way} | – ({row['why']}) | | | | |"
                continue
            share = f"{row['step'] / peer:.2f}" if peer else "–"
            shares += [row["step"] / peer] if peer and way == "headroom" else []
            yield (f"| {name} | {way} | {row['step']:.2f} ms | {share} | {row['first']:.1f} s | {row['memory']:.2f} GiB | "
                   f"{row['error']:.1e} |")
    if shares:
        yield ""
        yield f"headroom beside Inductor: {1 / statistics.geometric_mean(shares):.2f}x in geometric mean."


def call_lines():
    yield "| call | time |"
    yield "|---|---|"
    for name, time_us in calls().items():
        yield f"| {name} | {time_us:.2f} us |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("--models", default="")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--together", choices=("ways", "models"),
                        help="first steps of a model's ways, or of all, at the same time: they take longer")
    parser.add_argument("--profile", help="a folder for what a step runs on the device")
    parser.add_argument("--seconds", type=int, default=120, help="at most this long for a model in one way")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--out")
    options = parser.parse_args()
    if options.one:
        measure(*options.one.split(":"), options)
        return
    import headroom as hr

    lines = [f"# headroom from Python on {torch.cuda.get_device_name()}, {datetime.date.today()}", "",
             f"headroom {hr.__version__}, PyTorch {torch.__version__}: `bench/python_gpu.py`.", ""]
    print(lines[0])
    names = [n for n in options.models.split(",") if n]
    parts = [call_lines()] * options.calls + [model_lines(names, options)] * bool(names)
    for part in parts:
        for line in part:
            print(line, flush=True)
            lines.append(line)
        lines.append("")
    if names:
        lines += [f"- {name}: {python_models.MODELS[name].__doc__}" for name in names]
    if options.out:
        Path(options.out).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
