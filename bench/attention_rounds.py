"""What the benches of attention have in common: competitors that run in turn with a cold L2, errors, a table and its page.

in:   cases, each measured by the bench     out: a table on the terminal; with --out a page of it
"""

import argparse
import datetime
import statistics
from pathlib import Path

import headroom as hr
import torch

CYCLES = 1_000_000


class Clock:
    """`cycles`: the GPU sleeps so long, more than the host needs to queue a run."""

    def __init__(self, cycles=CYCLES):
        self.cycles = cycles
        self.other = torch.empty(160 << 20, dtype=torch.uint8, device="cuda")

    def time(self, run):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.other.sum(dtype=torch.uint8)
        torch.cuda._sleep(self.cycles)
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1e-3


def first_runs(competitors, row):
    """Those that serve the case; what the others say goes into the row."""
    made = {}
    for name, one in competitors.items():
        try:
            one.run()
            torch.cuda.synchronize()
            made[name] = one
        except Exception as error:
            row[name + " says"] = str(error).splitlines()[0][:100]
    return made


def relative_error(wanted, got):
    """The norm of the difference over that of what is wanted."""
    error = ((got.float() - wanted).norm() / wanted.norm()).item()
    return error if error == error else float("inf")


def in_turn(clock, made, rounds, row):
    """Seconds of each competitor, a list a competitor; the medians of the rounds' own ratios to headroom go into the row."""
    times = {name: [] for name in made}
    for _ in range(rounds):
        for name, one in made.items():
            times[name].append(clock.time(one.run))
    for name in made:
        row[name + " ratio"] = statistics.median(t / o for t, o in zip(times[name], times["headroom"]))
    return times


def options_parser():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out")
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=11)
    return parser


def stream_of_its_own():
    """What is queued from now on waits for nothing that the legacy stream does."""
    torch.cuda.set_stream(torch.cuda.Stream())


def table(options, cases, lines, measure, line):
    """Prints a row a case below `lines`, the table's head, and adds it to them; returns what was measured."""
    only = set(filter(None, options.only.split(",")))
    rows = []
    print("\n".join(lines), flush=True)
    for case in cases:
        if only and case[0] not in only:
            continue
        rows.append(measure(case))
        lines.append(line(rows[-1]))
        print(lines[-1], *(f"{k}: {v}" for k, v in rows[-1].items() if k.endswith("says")), flush=True)
        torch.cuda.empty_cache()
    return rows


def page_write(options, title, bench, figures, lines):
    if not options.out:
        return
    head = [f"# {title} on {torch.cuda.get_device_name()}, {datetime.date.today()}", "",
            f"headroom {hr.__version__}, PyTorch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}; {figures}, "
            f"medians of {options.rounds} rounds in turn with a cold L2: bench/{bench}.", ""]
    Path(options.out).write_text("\n".join(head + lines) + "\n")
