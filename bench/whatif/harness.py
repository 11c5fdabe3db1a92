"""What all the what-if programs share: running steps of the faulty and the fixed way, and timing them.

A program calls main(build), where build(fixed) returns a function that does one training step. On the command line:

    PROGRAM.py faulty|fixed [--steps N] [--warmup N]    runs N steps in ranges "step I", for the recorder
    PROGRAM.py both [--rounds N]                        times both ways in turns and prints a JSON line

Steps are not waited for one by one: that would change the program. Their times come from events on the stream.
"""

import argparse
import contextlib
import fcntl
import json
import os
import statistics

import torch


@contextlib.contextmanager
def turn():
    """Several programs start at once, but only one of them uses the device: the one that holds WHATIF_TURN's lock."""
    path = os.environ.get("WHATIF_TURN")
    if not path:
        yield
        return
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
        fcntl.flock(lock, fcntl.LOCK_UN)


def run(step, steps, warmup):
    """Seconds of each of `steps` steps, as the device lived them."""
    for i in range(warmup):
        step()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
    torch.cuda.synchronize()
    marks[0].record()
    for i in range(steps):
        torch.cuda.nvtx.range_push(f"step {i}")
        step()
        torch.cuda.nvtx.range_pop()
        marks[i + 1].record()
    torch.cuda.synchronize()
    return [marks[i].elapsed_time(marks[i + 1]) / 1e3 for i in range(steps)]


def alternate(build, steps, warmup, rounds):
    """Both ways in turns, so that a drift of the machine hits both."""
    ways = {"faulty": build(False), "fixed": build(True)}
    times = {name: [] for name in ways}
    for _ in range(rounds):
        for name, step in ways.items():
            times[name] += run(step, steps, warmup)
    return {name: summary(values) for name, values in times.items()}


def summary(seconds):
    ordered = sorted(seconds)
    return {"median": statistics.median(ordered), "mean": statistics.fmean(ordered), "min": ordered[0],
            "max": ordered[-1], "steps": len(ordered)}


def main(build):
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=["faulty", "fixed", "both"])
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with turn():
        torch.manual_seed(0)
        if given.way == "both":
            result = alternate(build, given.steps, given.warmup, given.rounds)
        else:
            result = {given.way: summary(run(build(given.way == "fixed"), given.steps, given.warmup))}
        print(json.dumps(result), flush=True)


def perceptron(width, depth, dtype=torch.bfloat16):
    """Some honest work: products with width x width weights, forward and backward, with one fused optimizer."""
    layers = [torch.nn.Linear(width, width, bias=False, device="cuda", dtype=dtype) for _ in range(depth)]
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def train(batch):
        optimizer.zero_grad(set_to_none=True)
        loss = model(batch).sum()
        loss.backward()
        optimizer.step()
        return loss

    return train
