#!/usr/bin/env python3
"""Small traces whose truth is known, diagnosed: the first finding, the step, where it goes, what is said and what never is.

in: diagnose_cases.py BUILD SOURCE [CASE...]; a case is a folder of test/cases/diagnose with its files and a truth.json:
a list of
  files      to diagnose together
  arguments  further words of the command line
  exit       its exit code, 0 where it is left out
  findings   ids that must come first, in this order; [] = none
  absent     ids of findings that must not be there
  steps      how many count
  step       seconds of one, on average
  accounted  seconds a step by kind; a kind that is not listed is none of it
  kernels    seconds a step by short name, of those listed
  says       regular expressions that the report for a terminal holds, the verdict first
  never      regular expressions that neither report holds
Seconds may be off by 2 % of the step. What holds of any diagnosis is asked of each of these, of the recordings of
bench/whatif, and of the traces in ../shared/traces where that folder is.
"""
import gzip
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

build, source = (pathlib.Path(word) for word in sys.argv[1:3])
chosen = sys.argv[3:]
NEAR = 0.02
IDLE = """queued kernel-gap launch synchronisation data-loader host-compute allocation first-use unrecorded""".split()
HOST = """input-pipeline launch-bound host-bound allocation-churn first-use queued-work exposed-communication copy-bound
    pageable-copy""".split()
failed = []


def diagnose(words):
    done = subprocess.run([build / "headroom", "diagnose", *map(str, words)], capture_output=True, timeout=120)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def flat(text):
    return re.sub(r"\s+", " ", text)


def check_any(expect, found, text):
    """What holds of any diagnosis."""
    expect(not re.search(r"\bnan\b|\binf\b|- -> -", text, re.I), "a number in the report is none")
    mean, accounted = found["step"]["seconds"]["mean"], found["accounted"]
    expect(mean > 0, f"a step of {mean} s")
    total = sum(accounted.values())
    expect(math.isclose(total, mean, rel_tol=1e-6, abs_tol=1e-9), f"accounted {total} of a step of {mean}")
    # the account and the critical path tell one story of the time in which the device stands idle
    path, idle = found["critical_path_seconds"], found["critical_path_idle"]
    expect(math.isclose(sum(path.values()), mean, rel_tol=1e-6, abs_tol=1e-9), f"a path of {sum(path.values())} s")
    for kind in IDLE:
        on_path, all_idle = idle.get(kind, 0), accounted.get(kind, 0)
        expect(abs(on_path - all_idle) <= 1e-6 * mean + 1e-9, f"{kind}: {on_path} on the path, {all_idle} accounted")
    shares = sum(kernel["share"] for kernel in found["kernels"])
    expect(shares <= 1 + 1e-6, f"kernels add to {shares} of a step")
    ids = [finding["id"] for finding in found["findings"]]
    gains = [finding["gain"] for finding in found["findings"]]
    expect(len(set(ids)) == len(ids), f"findings {ids}")
    expect(all(0 <= gain <= 1 for gain in gains), f"gains {gains}")
    marginal = sum(finding["marginal_gain"] for finding in found["findings"])
    expect(marginal <= 1 + 1e-9 and abs(found["combined_gain"] - marginal) < 1e-9, f"together {found['combined_gain']}, the parts {marginal}")
    expect("healthy" not in ids or found["busy"] >= 0.8, f"healthy, and the device computes {found['busy']}")
    expect("healthy" not in ids or accounted.get("exposed-communication", 0) <= 0.05 * mean, "healthy and exposed")
    expect((ids[:1] == ["incomplete-recording"]) == bool(found["caution"]), f"{found['caution']} but {ids}")
    expect(not found["caution"] or found["verdict"].startswith(found["caution"]), f"{found['verdict']}")
    # remedies that leave the kernels as they are leave their time as it is
    compute = found["busy"] * mean
    for finding in found["findings"]:
        left = mean * (1 - finding["gain"])
        host = finding["id"] in HOST
        expect(not host or left >= compute * (1 - 1e-6) - 1e-9, f"{finding['id']}: {left} s left of {compute} s of work")


def check_truth(expect, truth, found, text):
    step = found["step"]["seconds"]["mean"]

    def near(words, value, right):
        expect(abs(value - right) <= NEAR * truth.get("step", step), f"{words}: {value:.6g}, should be {right:.6g}")

    ids = [finding["id"] for finding in found["findings"]]
    if "findings" in truth:
        wanted = truth["findings"]
        expect(ids[: len(wanted)] == wanted and (wanted or not ids), f"findings {ids}, should begin with {wanted}")
    for id in truth.get("absent", []):
        expect(id not in ids, f"{id} is found")
    if "steps" in truth:
        counted = found["step"]["count"] - found["step"]["warm_up"]
        expect(counted == truth["steps"], f"{counted} steps, should be {truth['steps']}")
    if "step" in truth:
        near("step", step, truth["step"])
    if "accounted" in truth:
        for kind in sorted(truth["accounted"].keys() | found["accounted"].keys()):
            near(kind, found["accounted"].get(kind, 0), truth["accounted"].get(kind, 0))
    for name, seconds in truth.get("kernels", {}).items():
        near(name, sum(kernel["seconds"] for kernel in found["kernels"] if kernel["short_name"] == name), seconds)
    for pattern in truth.get("says", []):
        expect(re.search(pattern, flat(text)), f"does not say /{pattern}/")
    for pattern in truth.get("never", []):
        expect(not re.search(pattern, flat(text) + json.dumps(found)), f"says /{pattern}/")


def check(name, words, truth):
    def expect(holds, sentence):
        if not holds:
            failed.append(f"{name}: {sentence}")

    code, text, sentence = diagnose(words)
    expect(code == truth.get("exit", 0), f"exit code {code}: {sentence}")
    if code:
        for pattern in truth.get("says", []):
            expect(re.search(pattern, flat(sentence)), f"does not say /{pattern}/ but {sentence}")
        return
    code, out, sentence = diagnose([*words, "--json"])
    expect(code == 0, f"--json: exit code {code}: {sentence}")
    found = json.loads(out, parse_constant=lambda word: expect(False, f"{word} in JSON"))
    check_any(expect, found, text)
    check_truth(expect, truth, found, text)


rows = 0
for truths in sorted((source / "test/cases/diagnose").glob("*/truth.json")):
    for truth in json.loads(truths.read_text()):
        name = " ".join([truths.parent.name, *truth["files"]])
        if chosen and truths.parent.name not in chosen:
            continue
        check(name, [*(truths.parent / file for file in truth["files"]), *truth.get("arguments", [])], truth)
        rows += 1


def check_all(files):
    for words in files:
        check(" ".join(word.name for word in words), words, {})
    return len(files)


real = source / "../shared/traces"
names = [] if chosen or not real.is_dir() else sorted(real.iterdir())
others = check_all([[file] for file in names if file.suffix in (".gz", ".sqlite", ".csv")])
with tempfile.TemporaryDirectory() as scratch:
    recordings = []
    for packed in [] if chosen else sorted((source / "test/recordings").glob("*.hrt.gz")):
        recordings.append([pathlib.Path(scratch, packed.stem)])
        recordings[-1][0].write_bytes(gzip.decompress(packed.read_bytes()))
    others += check_all(recordings)
print(f"{rows} truths, {others} traces more")
print("\n".join(failed))
sys.exit(1 if failed or not rows else 0)
