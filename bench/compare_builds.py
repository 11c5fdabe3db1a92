#!/usr/bin/env python3
"""Two builds of headroom beside each other: what a change costs or gains, kernel by kernel.

usage: bench/compare_builds.py OLD NEW [--device cpu] [--only NAME,...] [--rounds 2] [--seconds 600]

in:   two `headroom` programs and the cases of bench/cases.txt, run without tuning, in turn: old, new, old, new
out:  for each case the least median of both in us, new over old, and the part of the floor that each reached at
      best; last the geometric mean and the worst. Exit code 1 where a run fails.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def cases(only):
    for line in (ROOT / "bench" / "cases.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if words and (not only or words[0].split(":")[1] in only):
            yield words


def run(program, words, device, cache):
    command = [program, "run", str(ROOT / "kernels" / words[0]), *words[1:], "--device", device, "--tune", "none",
               "--no-verify", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "HEADROOM_CACHE": cache})
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    return found["seconds"]["median"], found["roof_fraction"]


def main():
    parser = argparse.ArgumentParser(description="times two builds of headroom in turn")
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only", default="", help="names of kernels, with commas")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=600, help="begins no case after so many")
    arguments = parser.parse_args()
    ratios, end = [], time.monotonic() + arguments.seconds
    with tempfile.TemporaryDirectory() as folder:
        builds = [(arguments.old, f"{folder}/old"), (arguments.new, f"{folder}/new")]
        for words in cases(arguments.only and arguments.only.split(",")):
            if time.monotonic() > end:
                print("out of time before", *words)
                break
            found = [[run(program, words, arguments.device, cache) for program, cache in builds]
                     for _ in range(arguments.rounds)]
            old, new = (min(round[side][0] for round in found) for side in (0, 1))
            parts = [max(round[side][1] for round in found) for side in (0, 1)]
            ratios.append(new / old)
            print(f"{' '.join(words):84} {old * 1e6:10.1f} {new * 1e6:10.1f} us  {new / old:.3f}  "
                  f"of the floor {parts[0]:.2f} {parts[1]:.2f}", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"new / old: geometric mean {mean:.3f}, worst {max(ratios):.3f}, {len(ratios)} cases")


if __name__ == "__main__":
    main()
