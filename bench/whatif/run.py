#!/usr/bin/env python3
"""Does the diagnosis predict what its remedy gains? Records each faulty program, diagnoses the recording, and compares
the step that the remedy is said to lead to with the measured step of the fixed program.

in:  run.py [--headroom FILE] [--results FOLDER] [--keep FOLDER] [--overhead] [PROGRAM]...
out: a table; whatif-DATE.csv and .md in the results' folder; exit 1 where a planted fault is not the first finding

Steps are measured without the recorder, both ways in turns in one process. Programs start side by side, because
importing PyTorch takes longer than running them, but use the device one at a time (see harness.turn).
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

HERE = pathlib.Path(__file__).resolve().parent

# program: the finding that is to come first
PROGRAMS = {
    "full_precision": "full-precision-matrix",
    "unfused_attention": "unfused-attention",
    "unfused_elementwise": "unfused-elementwise",
    "pageable_copy": "pageable-copy",
    "allocation_churn": "allocation-churn",
    "loop_optimizer": "unfused-optimizer",
    "separate_products": "unbatched-products",
    "blocking_sync": "blocking-sync",
    "launch_bound": "launch-bound",
    "slow_loader": "input-pipeline",
    "healthy": "healthy",
}
RECORDED_STEPS = 10
HEALTHY_LIMIT = 0.05


def start(command, environment):
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(name, process):
    """The program's last line as JSON."""
    out, error = process.communicate()
    if process.returncode != 0:
        sys.exit(f"{name} ended with {process.returncode}:\n{error[-3000:]}")
    return json.loads(out.strip().splitlines()[-1])


def record_and_measure(names, headroom, folder):
    """Recordings as files, and each program's steps both ways."""
    turn = folder / "turn"
    environment = dict(os.environ, WHATIF_TURN=str(turn), PYTHONPATH=str(HERE))
    python, started = sys.executable, []
    for name in names:
        program = str(HERE / f"{name}.py")
        file = folder / f"{name}.hrt"
        record = [headroom, "record", "-o", str(file), "--from-range", "step", "--steps", str(RECORDED_STEPS)]
        record += [python, program, "faulty", "--steps", str(RECORDED_STEPS + 2)]
        started.append((name, start(record, environment), start([python, program, "both"], environment)))
    measured = {}
    for name, recorded, both in started:
        measured[name] = finish(name, both)
        measured[name]["recorded"] = finish(name, recorded)["faulty"]
    return measured


def diagnose(headroom, file):
    done = subprocess.run([headroom, "diagnose", "--json", str(file)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"headroom diagnose {file}: {done.stderr}")
    return json.loads(done.stdout)


def judge(name, wanted, measured, diagnosis):
    """One row of the table. The prediction is the recorded step less what the planted fault's remedy is said to
    save, wherever that stands in the list."""
    findings = [f for f in diagnosis["findings"] if f["id"] != "healthy"]
    first = findings[0]["id"] if findings else "healthy"
    faulty, fixed = measured["faulty"]["median"], measured["fixed"]["median"]
    row = {"program": name, "planted": wanted, "first": first, "step_ms": faulty * 1e3, "fixed_ms": fixed * 1e3}
    row["recorded_ms"] = measured["recorded"]["median"] * 1e3
    row["replay_error"] = diagnosis["replay_error"]
    if wanted == "healthy":
        worst = max((f["gain"] for f in findings), default=0.0)
        row.update(predicted_ms=faulty * (1 - worst) * 1e3, error=worst, good=worst <= HEALTHY_LIMIT)
        return row
    recorded = diagnosis["step"]["seconds"]["mean"]
    predicted = recorded - next((f["seconds_saved"] for f in findings if f["id"] == wanted), 0.0)
    row.update(predicted_ms=predicted * 1e3, error=predicted / fixed - 1, good=first == wanted)
    return row


COLUMNS = ["program", "planted", "first", "step_ms", "predicted_ms", "fixed_ms", "error", "recorded_ms", "replay_error"]


def table(rows):
    lines = ["| program | planted | first finding | step ms | predicted ms | measured ms | error |",
             "|---|---|---|--:|--:|--:|--:|"]
    for row in rows:
        lines.append(f"| {row['program']} | {row['planted']} | {row['first']} | {row['step_ms']:.2f} | "
                     f"{row['predicted_ms']:.2f} | {row['fixed_ms']:.2f} | {100 * row['error']:+.1f}% |")
    return lines


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        gpu = subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        gpu = "no GPU"
    import torch  # only for its version
    return f"{gpu}, PyTorch {torch.__version__}, Python {platform.python_version()}"


def overhead(headroom, folder, runs=4):
    """A training step with and without the recorder, in turns, a process each: (plain, recorded) medians in seconds."""
    environment = dict(os.environ, PYTHONPATH=str(HERE))
    program = [sys.executable, str(HERE / "training.py"), "faulty", "--steps", "60"]
    record = [headroom, "record", "-o", str(folder / "training.hrt")]
    plain, recorded = [], []
    for _ in range(runs):
        plain.append(finish("training", start(program, environment))["faulty"]["median"])
        recorded.append(finish("training", start(record + program, environment))["faulty"]["median"])
    return plain, recorded


def write(results, rows, notes):
    results.mkdir(parents=True, exist_ok=True)
    day = datetime.date.today().isoformat()
    with open(results / f"whatif-{day}.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({key: f"{value:.4g}" if isinstance(value, float) else value for key, value in row.items()}
                         for row in rows)
    (results / f"whatif-{day}.md").write_text("# What-if\n\n" + "\n".join(table(rows) + [""] + notes) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--headroom", default=str(HERE.parent.parent / "build" / "headroom"))
    parser.add_argument("--results", type=pathlib.Path, default=HERE.parent / "results")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the recordings and the measured steps here")
    parser.add_argument("--measured", type=pathlib.Path, help="a folder that --keep made: nothing is run again")
    parser.add_argument("--overhead", action="store_true", help="also measure the recorder's overhead")
    parser.add_argument("programs", nargs="*", help="all of them where none is named")
    given = parser.parse_args()
    names = given.programs or list(PROGRAMS)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.measured or given.keep or pathlib.Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        store = folder / "measured.json"
        if not given.measured:
            kept = {"machine": machine(), "steps": record_and_measure(names, given.headroom, folder)}
            if given.overhead:
                kept["plain"], kept["recorded"] = overhead(given.headroom, folder)
            store.write_text(json.dumps(kept, indent=1))
        kept = json.loads(store.read_text())
        rows = [judge(name, PROGRAMS[name], kept["steps"][name], diagnose(given.headroom, folder / f"{name}.hrt"))
                for name in names]
    errors = [abs(row["error"]) for row in rows if row["planted"] != "healthy"]
    command = "bench/whatif/run.py" + (" --overhead" if "plain" in kept else "")
    notes = [f"{kept['machine']}; `{command}`. A fault is planted in each program but the last; "
             "`step` and `measured` are the faulty and the fixed program without the recorder, `predicted` is what the "
             "diagnosis of the faulty one's recording says of the fixed one.",
             "", f"- first finding as planted: {sum(r['good'] for r in rows)} of {len(rows)}"]
    if errors:
        notes.append(f"- predicted against measured: {100 * statistics.median(errors):.1f}% (median)")
    if "plain" in kept:
        plain, recorded = statistics.median(kept["plain"]), statistics.median(kept["recorded"])
        notes.append(f"- the recorder's overhead on a training step (GPT, 124 million parameters, 32 x 1024 tokens, "
                     f"{plain * 1e3:.1f} ms): {100 * (recorded / plain - 1):+.1f}%")
    print("\n".join(table(rows) + [""] + notes))
    write(given.results, rows, notes)
    sys.exit(0 if all(row["good"] for row in rows) else 1)


if __name__ == "__main__":
    main()
