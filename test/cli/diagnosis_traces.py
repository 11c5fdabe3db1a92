#!/usr/bin/env python3
"""Real traces diagnosed: sums add up, the replay gives the trace, JSON is valid, known faults come first.

in: the build folder, the source folder; traces in ../shared/traces beside the source folder, else the test is skipped
"""
import json
import math
import subprocess
import sys
from pathlib import Path

build, source = Path(sys.argv[1]), Path(sys.argv[2])
headroom = build / "headroom"
failed = 0
IDS = set(
    """pageable-copy blocking-sync launch-bound host-bound input-pipeline allocation-churn unfused-elementwise
    unfused-normalisation unfused-attention unfused-optimizer unbatched-products full-precision-matrix misaligned-dimensions
    small-batch low-occupancy low-bandwidth uncoalesced-access exposed-communication straggler first-use healthy
    copy-bound queued-work incomplete-recording""".split()
)
KEYS = "source device ranks step accounted kernels critical_path findings skipped".split()


def fail(text):
    global failed
    failed = 1
    print(text)


def diagnose(*arguments):
    done = subprocess.run([headroom, "diagnose", *map(str, arguments)], capture_output=True, timeout=120)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def check(name, found, step):
    missing = [key for key in KEYS if key not in found]
    if missing:
        return fail(f"{name}: lacks {missing}")
    mean, median = found["step"]["seconds"]["mean"], found["step"]["seconds"]["median"]
    if not math.isclose(sum(found["accounted"].values()), mean, rel_tol=1e-6):
        fail(f"{name}: accounted {sum(found['accounted'].values())}, the step takes {mean}")
    if found["kernels"] and not found["replay_error"] < 0.03:
        fail(f"{name}: the replay is off by {found['replay_error']}")
    device = sum(kernel["seconds"] for kernel in found["kernels"])
    other = sum(kernel["seconds"] for kernel in found["kernels"] if kernel["kind"] == "other")
    if other > 0.05 * device:
        fail(f"{name}: kernels that no word is known for take {other} s of {device}")
    gains = [finding["gain"] for finding in found["findings"] if finding["id"] not in ("healthy", "incomplete-recording")]
    if gains != sorted(gains, reverse=True) or not all(0 <= gain <= 1 for gain in gains):
        fail(f"{name}: gains {gains}")
    if not found["combined_gain"] <= sum(gains) + 1e-9:
        fail(f"{name}: together {found['combined_gain']}, one by one {gains}")
    for finding in found["findings"]:
        if finding["id"] not in IDS or not finding["evidence"] or not finding["remedy"]["text"]:
            fail(f"{name}: {finding}")
    if step and not math.isclose(median, step, rel_tol=0.02):
        fail(f"{name}: the median step takes {median}, should be {step}")


# file: seconds of the median step as Python reads it from the ranges, the first finding
FILES = {
    "kineto-v100-nccl-world2.json.gz": (0.346, "launch-bound"),
    "kineto-a100-nccl.json.gz": (0.2225, "launch-bound"),
    "kineto-resnet50-workers0.json.gz": (0.175, "input-pipeline"),
    "kineto-alexnet.json.gz": (None, None),
    "kineto-event-sync-multi-stream.json.gz": (None, None),
    "kineto-cpu-only.json.gz": (0.2101, None),
    "kineto-no-rank.json.gz": (None, None),
    "kineto-world128-rank0.json.gz": (None, None),
    "nsys-2gpu-before.sqlite": (None, None),
    "nsys-rtx3080.sqlite": (None, None),
    "ncu-raw-softmax-h200.csv": (None, None),
}

traces = source / "../shared/traces"
if not traces.is_dir():
    print("skipped: there is no ../shared/traces with real traces here")
    sys.exit(77)
for file, (step, first) in FILES.items():
    code, out, sentence = diagnose(traces / file, "--json")
    if code:
        fail(f"{file}: exit code {code}: {sentence}")
        continue
    found = json.loads(out)
    check(file, found, step)
    if first and found["findings"][0]["id"] != first:
        fail(f"{file}: the first finding is {found['findings'][0]['id']}, should be {first}")
    code, out, sentence = diagnose(traces / file)
    if code or not out.startswith("  limit"):
        fail(f"{file}: exit code {code}, {out[:200]}{sentence}")

ranks = [traces / f"kineto-world128-rank{rank}.json.gz" for rank in (0, 1)]
code, out, sentence = diagnose(*ranks, "--json")
found = json.loads(out) if code == 0 else {"ranks": []}
if sorted(rank["rank"] for rank in found["ranks"]) != [0, 1] or "after" in found:
    fail(f"two ranks: {found['ranks']} {sentence}")
code, out, sentence = diagnose(*ranks, "--compare", "--json")
found = json.loads(out)
if not found["changes"] or "findings" not in found["after"]:
    fail("--compare of two files gives no comparison")
print(f"{len(FILES)} traces")
sys.exit(failed)
