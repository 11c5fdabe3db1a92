#!/usr/bin/env python3
"""Recordings with hardware counters of an H200 (test/recordings/counters/program.py): what is found by them, what the reports
show of them.

in: counter_recordings.py BUILD SOURCE
"""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

build, source = (pathlib.Path(word) for word in sys.argv[1:3])
failed = []


def expect(holds, words):
    if not holds:
        failed.append(words)


def near(value, expected, part):
    return value is not None and abs(value - expected) <= part * abs(expected)


def diagnose(path, *flags):
    return subprocess.run([build / "headroom", "diagnose", path, *flags], capture_output=True, text=True, check=True).stdout


def kernel(diagnosis, name):
    return next(k for k in diagnosis["kernels"] if k["short_name"] == name)


def check_kernels(diagnosis, name):
    """Four kernels of known work: 268 MB read by `few` and `across`, read and written by `copy`; 2 GFLOP of f32 in `matmul`."""
    few, across, copy, matmul = (kernel(diagnosis, word)["counters"] for word in ("few", "across", "copy", "matmul"))
    megabytes = 8192 * 8192 * 4
    expect(near(few["dram_bytes"], megabytes, 0.1), f"{name}: few moves {few['dram_bytes']} bytes")
    expect(near(copy["dram_bytes"], 2 * megabytes, 0.1), f"{name}: copy moves {copy['dram_bytes']} bytes")
    expect(across["dram_bytes"] > 3 * megabytes, f"{name}: across moves {across['dram_bytes']} bytes")
    expect(copy["dram_of_peak"] > 0.75, f"{name}: copy has {copy['dram_of_peak']} of the bandwidth")
    expect(matmul["l2_hit"] > 0.8, f"{name}: matmul finds {matmul['l2_hit']} in L2")
    expect(near(matmul["vector_instructions"], 1024**3 / 32, 0.3), f"{name}: matmul has {matmul['vector_instructions']}")
    for each in (few, across, copy, matmul):
        expect(each["tensor_active"] < 0.001, f"{name}: tensor cores at {each['tensor_active']}")
    expect(kernel(diagnosis, "few")["achieved_occupancy"] < 0.05, f"{name}: few has its warps there")
    expect(kernel(diagnosis, "matmul")["tensor_cores"] is False, f"{name}: matmul runs on tensor cores")
    found = {f["id"] for f in diagnosis["findings"] if f["gain"] > 0.05}
    wanted = {"low-occupancy", "full-precision-matrix"} | ({"uncoalesced-access"} if name == "replayed" else set())
    expect(wanted <= found, f"{name}: found {found}")
    expect(diagnosis["step"]["halted_by_counters"] == 2, f"{name}: {diagnosis['step']}")
    expect(near(diagnosis["step"]["seconds"]["median"], 2e-3, 0.15), f"{name}: a step of {diagnosis['step']['seconds']}")


def check_replayed(diagnosis):
    sectors = {name: kernel(diagnosis, name)["counters"]["sectors_per_load"] for name in ("few", "across", "copy", "matmul")}
    expect(sectors == {"few": 4, "across": 32, "copy": 16, "matmul": 4}, f"sectors a load: {sectors}")
    expect(kernel(diagnosis, "matmul")["counters"]["tensor_instructions"] == 0, "matmul has tensor instructions")


def check_sampled(path, folder):
    diagnosis = json.loads(diagnose(path, "--json"))
    sampled = diagnosis["sampled"]
    expect(sampled and sampled["samples"] > 20, f"sampled: {sampled}")
    expect(0.5 < sampled["sm_active"] <= 1 and 0.1 < sampled["dram_of_peak"] < 0.9, f"sampled: {sampled}")
    expect("multiprocessors" in diagnose(path) and "DRAM at" in diagnose(path), "the text says nothing of samples")
    diagnose(path, "--html", folder / "page.html", "--perfetto", folder / "trace.json")
    page = (folder / "page.html").read_text()
    data = json.loads(page.split("id='data'>")[1].split("</script>")[0])
    titles = [curve["title"] for curve in data["samples"]]
    expect(titles == ["SM active", "tensor cores active", "warps active", "DRAM bandwidth"], f"curves: {titles}")
    for curve in data["samples"]:
        expect(len(curve["s"]) == len(curve["v"]) > 5 and all(0 <= v <= 1000 for v in curve["v"]), f"curve {curve['title']}")
    trace = json.loads((folder / "trace.json").read_text())
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    expect(sum(e["ph"] == "C" and e["name"] == "SM active" for e in events) >= sampled["samples"], "Perfetto has no samples")


with tempfile.TemporaryDirectory() as scratch:
    folder = pathlib.Path(scratch)
    for packed in (source / "test/recordings/counters").glob("*.hrt.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    for name in ("kernels", "replayed"):
        path = folder / f"{name}.hrt"
        diagnosis = json.loads(diagnose(path, "--json"))
        check_kernels(diagnosis, name)
        expect("Counters of a launch" in diagnose(path), f"{name}: the text shows no counters")
        diagnose(path, "--html", folder / "page.html")
        expect("Counters of a launch" in (folder / "page.html").read_text(), f"{name}: the page shows no counters")
    check_replayed(diagnosis)
    check_sampled(folder / "sampled.hrt", folder)
print("\n".join(failed))
sys.exit(1 if failed else 0)
