#!/usr/bin/env python3
"""What recording costs a program: steps without the recorder, with it, and under torch.profiler, alternately.

  record_overhead.py [--headroom FILE] [--rounds N] [--results FOLDER] [PROGRAM]...

in:   programs: gpt2 (Hugging Face, fine-tuning: launch-bound), convolution (a residual net: device-bound), jax, cupy
out:  a table, and record-overhead-DATE.csv and .md in the results' folder

A process is plain, recorded or profiled. Each makes the same steps twice: first with the recorder's window closed, then with
it open (a window opens at a range called "counted"), so that a card or a moment that is slower hits both. JAX and CuPy have
no ranges, so there a whole process is one or the other. The rounds go A B C A B C. A cost is the median step over the
plain processes' median.
"""

import argparse
import csv
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

STEPS, WARMUP = 60, 15
HERE = pathlib.Path(__file__).resolve()


def build_gpt2():
    """GPT-2 small with random weights, 4 sequences of 256 words in fp32 with autocast: over a thousand launches a step."""
    import torch
    import transformers
    torch.manual_seed(0)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config()).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    words = torch.randint(0, 50257, (4, 256), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=words, labels=words).loss
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def build_convolution():
    """ResNet-50 on 128 images in bf16, channels last."""
    import torch
    import torchvision
    torch.manual_seed(0)
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(128, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (128,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def build_jax():
    """A jitted step of a perceptron, thirty calls of small kernels beside it."""
    import jax
    import jax.numpy as jnp
    weights = [jax.random.normal(jax.random.PRNGKey(i), (1024, 1024), jnp.bfloat16) for i in range(4)]
    x = jax.random.normal(jax.random.PRNGKey(9), (4096, 1024), jnp.bfloat16)

    @jax.jit
    def gradient(weights, x):
        def loss(weights):
            y = x
            for w in weights:
                y = jnp.tanh(y @ w)
            return jnp.mean(y.astype(jnp.float32)**2)
        return jax.grad(loss)(weights)

    def step():
        made = gradient(weights, x)
        small = x[0]
        for _ in range(30):
            small = small + 1
        jax.block_until_ready((made, small))

    return step


def build_cupy():
    """Five hundred small operations a step."""
    import cupy
    x = cupy.random.standard_normal((256, 1024), dtype=cupy.float32)

    def step():
        y = x
        for _ in range(250):
            y = cupy.tanh(y) + x
        cupy.cuda.Stream.null.synchronize()

    return step


PROGRAMS = {"gpt2": build_gpt2, "convolution": build_convolution, "jax": build_jax, "cupy": build_cupy}
WITH_RANGES = {"gpt2", "convolution"}


def timed(step, steps, name):
    """Seconds of each step; each waits for the device by itself."""
    seconds = []
    push = pop = None
    if name:
        import torch
        push, pop = torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop
    for i in range(steps):
        start = time.perf_counter()
        if push:
            push(f"{name} {i}")
        step()
        if pop:
            pop()
        seconds.append(time.perf_counter() - start)
    return seconds


def run_program(name, profiled):
    """One process: prints the seconds of its steps, window closed and open."""
    step = PROGRAMS[name]()
    for _ in range(WARMUP):
        step()
    ranges = name in WITH_RANGES
    closed = timed(step, STEPS, "waiting" if ranges else None)
    if profiled:
        import torch
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]):
            opened = timed(step, STEPS, "counted")
    else:
        opened = timed(step, STEPS, "counted" if ranges else None)
    print(json.dumps({"closed": closed, "open": opened}), flush=True)


def run_process(name, mode, headroom, folder):
    command = [sys.executable, str(HERE), "--program", name] + (["--profiled"] if mode == "profiled" else [])
    if mode == "recorded":
        window = ["--from-range", "counted"] if name in WITH_RANGES else []
        command = [headroom, "record", "-o", str(folder / "recording.hrt"), *window, "--", *command]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{name} {mode} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return json.loads([line for line in done.stdout.splitlines() if line.startswith("{")][-1])


def measure(name, rounds, headroom):
    """The steps of all processes of a mode, closed and open."""
    modes = ["plain", "recorded"] + (["profiled"] if name in WITH_RANGES else [])
    seconds = {mode: {"closed": [], "open": []} for mode in modes}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for mode in modes:
                for window, values in run_process(name, mode, headroom, pathlib.Path(folder)).items():
                    seconds[mode][window].append(statistics.median(values))
    return seconds


def row_of(name, seconds):
    plain = statistics.median(seconds["plain"]["closed"] + seconds["plain"]["open"])
    row = {"program": name, "plain ms": f"{1e3 * plain:.2f}",
           "plain min..max": f"{1e3 * min(seconds['plain']['open']):.2f}..{1e3 * max(seconds['plain']['open']):.2f}"}
    for mode in ("recorded", "profiled"):
        if mode not in seconds:
            continue
        opened, closed = (statistics.median(seconds[mode][window]) for window in ("open", "closed"))
        row[f"{mode} ms"] = f"{1e3 * opened:.2f}"
        row[f"{mode} % of plain"] = f"{100 * (opened / plain - 1):.1f}"
        row[f"{mode} % of its own closed"] = f"{100 * (opened / closed - 1):.1f}" if name in WITH_RANGES else ""
    return row


def device_name():
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True)
    return done.stdout.strip().splitlines()[0] if done.returncode == 0 else "no GPU seen"


def write_results(rows, folder, rounds):
    columns = list(dict.fromkeys(key for row in rows for key in row))
    stem = folder / f"record-overhead-{datetime.date.today()}"
    with open(f"{stem}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
    lines = [f"# What recording costs: {device_name()}, {platform.processor() or platform.machine()}, {os.cpu_count()} cores, "
             f"{datetime.date.today()}", "", f"`bench/record_overhead.py --rounds {rounds}`", "",
             "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(row.get(column, "") for column in columns) + " |" for row in rows]
    pathlib.Path(f"{stem}.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="PROGRAM")
    parser.add_argument("--headroom", default="build/headroom")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--results", type=pathlib.Path, default=HERE.parent / "results")
    parser.add_argument("--program", help=argparse.SUPPRESS)
    parser.add_argument("--profiled", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.program:
        run_program(given.program, given.profiled)
        return
    names = given.names or list(PROGRAMS)
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        sys.exit(f"no program {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    write_results([row_of(name, measure(name, given.rounds, given.headroom)) for name in names], given.results, given.rounds)


if __name__ == "__main__":
    main()
