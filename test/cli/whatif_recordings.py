#!/usr/bin/env python3
"""Recordings of bench/whatif/ on an H200, diagnosed anew: the planted fault comes first in each, the healthy program gets
nothing over 5 %, the replay gives the recorded step, and the predictions lie as near to the measured steps as they did.

in: whatif_recordings.py BUILD SOURCE
"""
import csv
import gzip
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

build, source = (pathlib.Path(word) for word in sys.argv[1:3])
REPLAY, MEDIAN, WORST = 0.03, 0.10, 0.25
failed = []


def expect(holds, words):
    if not holds:
        failed.append(words)


with tempfile.TemporaryDirectory() as scratch:
    folder, results = pathlib.Path(scratch, "recordings"), pathlib.Path(scratch, "results")
    folder.mkdir()
    shutil.copy(source / "test/recordings/measured.json", folder)
    for packed in (source / "test/recordings").glob("*.hrt.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    command = [sys.executable, source / "bench/whatif/run.py", "--headroom", build / "headroom", "--measured", folder]
    done = subprocess.run([*command, "--results", results], capture_output=True, text=True)
    print(done.stdout, done.stderr)
    expect(done.returncode == 0, f"run.py ended with {done.returncode}")
    with open(next(results.glob("whatif-*.csv"))) as file:
        rows = list(csv.DictReader(file))

expect(len(rows) == 11, f"{len(rows)} programs instead of 11")
for row in rows:
    expect(row["first"] == row["planted"], f"{row['program']}: {row['first']} comes first, not {row['planted']}")
    expect(float(row["replay_error"]) <= REPLAY, f"{row['program']}: the replay is off by {row['replay_error']}")
    if row["planted"] != "healthy":
        expect(abs(float(row["error"])) <= WORST, f"{row['program']}: the prediction is off by {row['error']}")
median = statistics.median(abs(float(row["error"])) for row in rows if row["planted"] != "healthy")
expect(median <= MEDIAN, f"the predictions are off by {median} (median)")
print("\n".join(failed))
sys.exit(1 if failed else 0)
