#!/usr/bin/env python3
"""The main job on real input: arrays that NumPy wrote, results that NumPy reads back. usage: BUILD SOURCE"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed")
    sys.exit(77)

HEADROOM, SOURCE = Path(sys.argv[1]) / "headroom", Path(sys.argv[2])
WORK = tempfile.TemporaryDirectory()
os.chdir(WORK.name)
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # where there is a GPU, too
os.environ["HEADROOM_CACHE"] = str(Path(WORK.name) / "cache")
if (Path(sys.argv[1]) / "roofs").is_dir():  # the test of that name measures them
    shutil.copytree(Path(sys.argv[1]) / "roofs", os.environ["HEADROOM_CACHE"])
random = np.random.default_rng(0)


def headroom(*words, code=0):
    done = subprocess.run([HEADROOM, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == code, f"{words}: exit code {done.returncode}, should be {code}\n{done.stdout}{done.stderr}"
    return done


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def softmax_reads_and_writes():
    x = random.standard_normal((37, 129), np.float32)
    np.save("x.npy", x)
    done = headroom("run", SOURCE / "kernels/softmax.hr", "x=x.npy", "-o", "y=y.npy", "--json")
    y = np.load("y.npy")
    assert y.dtype == np.float32 and y.shape == x.shape
    assert np.abs(y - softmax(x)).max() < 1e-6
    report = json.loads(done.stdout)
    assert list(report) == ("kernel file device dtypes extents plan seconds bytes flops floor headroom roof_fraction "
                            "verified tune version threads variants unfused busy").split(), list(report) # no "beside", the baseline: the caches hold it
    assert report["extents"] == {"M": 37, "N": 129}
    assert len(report["seconds"]["samples"]) == report["seconds"]["runs"]
    assert [variant["chosen"] for variant in report["variants"]] == [True]
    assert headroom("--version").stdout.split()[1] == report["version"]
    done = headroom("run", "softmax", "x=x.npy", "--json", "--threads", 1, "--repeat", 7)
    report = json.loads(done.stdout)
    seconds = report["seconds"]
    assert report["threads"] == 1 and seconds["runs"] == 7 and len(seconds["samples"]) == 7
    assert (min(seconds["samples"]), max(seconds["samples"])) == (seconds["min"], seconds["max"])
    assert sorted(seconds["samples"])[3] == seconds["median"]
    said = headroom("run", "softmax", "--threads", 100000, code=2).stderr
    assert "threads is 100000; there are 1 to" in said, said
    assert report["verified"]["ok"] and report["verified"]["points"] > 0
    assert report["bytes"] == 2 * x.nbytes
    assert abs(report["headroom"] * report["roof_fraction"] - 1) < 1e-3


def a_total_is_the_next_scalar():
    x = random.standard_normal(1000).astype(np.float32)
    np.save("x.npy", x)
    Path("norm.hr").write_text("kernel norm(x: f32[N]) -> (loss: f32)\n{\n    loss = sum[n](x[n] * x[n])\n}\n")
    Path("scale.hr").write_text("kernel scale(x: f32[N], loss: f32) -> (y: f32[N])\n{\n    y[n] = x[n] / loss\n}\n")
    headroom("run", "norm.hr", "x=x.npy", "-o", "loss=loss.npy")
    assert np.load("loss.npy").shape == ()
    headroom("run", "scale.hr", "x=x.npy", "loss=loss.npy", "-o", "y=y.npy")
    assert np.allclose(np.load("y.npy"), x / np.dot(x.astype(np.float64), x), rtol=1e-5)
    np.save("half.npy", np.float64(0.5))  # what NumPy computes is f64
    headroom("run", "scale.hr", "x=x.npy", "loss=half.npy", "-o", "y=y.npy")
    assert np.array_equal(np.load("y.npy"), 2 * x)
    said = headroom("run", "scale.hr", "loss=x.npy", code=2).stderr
    assert "an array of 1 axis is wanted as a scalar" in said, said


def fortran_order_is_strides():
    x = np.asfortranarray(random.standard_normal((21, 40), np.float32))
    np.save("x.npy", x)
    headroom("run", SOURCE / "kernels/softmax.hr", "x=x.npy", "-o", "y=y.npy")
    assert np.abs(np.load("y.npy") - softmax(x)).max() < 1e-6


def bf16_is_carried():
    x = random.standard_normal((8, 64), np.float32)
    bits = to_bf16(x)
    kernel = SOURCE / "kernels/softmax.hr:softmax"
    for name, array in ("raw", bits.view("V2")), ("unsigned", bits):
        np.save(f"{name}.npy", array)
        headroom("run", kernel, f"x:bf16={name}.npy", "-o", "y=y.npy", "-o", "y:u2=u.npy")
        y, u = np.load("y.npy"), np.load("u.npy")
        assert y.dtype == np.dtype("V2") and u.dtype == np.uint16
        assert np.array_equal(y.view(np.uint16), u)
        assert np.abs(from_bf16(u) - softmax(from_bf16(bits))).max() < 2e-3
    np.save("f32.npy", x)
    assert "bf16" in headroom("run", kernel, "T=bf16", "x=f32.npy", code=2).stderr


def dtype_of(*words, code=0):
    """What T stood for."""
    done = headroom("run", SOURCE / "kernels/softmax.hr", *words, "--json", "--no-verify", code=code)
    return json.loads(done.stdout)["dtypes"]["T"] if code == 0 else done.stderr


def files_bind_dtypes():
    """V2 is bf16, whatever the device's default; u2 and V1 say nothing, so that T= or the default does."""
    x = random.standard_normal((8, 64), np.float32)
    for name, array in dict(f32=x, f16=x.astype(np.float16), f64=x.astype(np.float64), v2=to_bf16(x).view("V2"),
                            u2=to_bf16(x), v1=np.zeros((8, 64), np.uint8).view("V1"),
                            u1=np.zeros((8, 64), np.uint8)).items():
        np.save(f"{name}.npy", array)
    for dtype in "f32", "f16", "f64":
        assert dtype_of(f"x={dtype}.npy") == dtype
    assert dtype_of("x=v2.npy") == "bf16"
    assert dtype_of("x=u1.npy") == "u8"
    assert dtype_of("x=u2.npy", "T=bf16") == dtype_of("T=bf16", "x=u2.npy") == dtype_of("x:bf16=u2.npy") == "bf16"
    assert dtype_of("x:f8e5m2=v1.npy") == dtype_of("x=u1.npy", "T=f8e5m2") == "f8e5m2"
    assert "could carry bf16, but f32 is wanted" in dtype_of("x=u2.npy", code=2)
    assert "could carry f8" in dtype_of("x=v1.npy", code=2)
    assert "the array given is f32" in dtype_of("x=f32.npy", "T=bf16", code=2)
    assert "the kernel declares x as bf16" in dtype_of("x:f32=f32.npy", "T=bf16", code=2)
    kernel = SOURCE / "kernels/add.hr"
    for name in "f32", "v2", "u2":
        np.save(f"{name}_flat.npy", np.load(f"{name}.npy").ravel())
    said = headroom("run", kernel, "x=f32_flat.npy", "y=v2_flat.npy", code=2).stderr
    assert "bind arrays of one dtype" in said, said
    headroom("run", kernel, "x=u2_flat.npy", "y=v2_flat.npy") # the other file says it


def several_dtypes():
    """One for activations, one for weights: the meaning is that of plain arithmetic."""
    Path("low.hr").write_text("kernel low(x: T[M, K], w: W[N, K], s: f32[N]) -> (y: T[M, N]) where W: i8 | f8e4m3\n"
                              "{\n    y[m, n] = sum[k](x[m, k] * T(w[n, k])) * s[n]\n}\n")
    x, w, s = random.standard_normal((5, 33)), random.integers(-9, 9, (7, 33), np.int8), np.ones(7, np.float32)
    np.save("x.npy", x.astype(np.float32))
    np.save("w.npy", w)
    np.save("s.npy", s)
    done = headroom("run", "low.hr", "x=x.npy", "w=w.npy", "s=s.npy", "-o", "y=y.npy", "--json")
    assert json.loads(done.stdout)["dtypes"] == {"T": "f32", "W": "i8"}
    assert np.abs(np.load("y.npy") - x.astype(np.float32) @ w.T).max() < 1e-4
    said = headroom("run", "low.hr", "W=i32", code=2).stderr
    assert "cannot be i32: it is f8e4m3 or i8" in said, said


def inout_leaves_the_file_alone():
    n = 1000
    p, m, v = (random.standard_normal(n).astype(np.float32) for _ in range(3))
    v = np.abs(v)
    g = random.standard_normal(n).astype(np.float32)
    for name, array in zip("pmvg", (p, m, v, g)):
        np.save(f"{name}.npy", array)
    before = Path("p.npy").read_bytes()
    outputs = [word for name in "pmv" for word in ("-o", f"{name}={name}_new.npy")]
    headroom("run", SOURCE / "kernels/adamw.hr:adamw_in_place", *[f"{name}={name}.npy" for name in "pmvg"], "lr=0.01",
             "correct1=0.5", "correct2=0.25", *outputs)
    assert Path("p.npy").read_bytes() == before
    m2 = 0.9 * m + 0.1 * g
    v2 = 0.999 * v + 0.001 * g * g
    p2 = p - 0.01 * (m2 / 0.5 / (np.sqrt(v2 / 0.25) + 1e-8) + 0.01 * p)
    for name, expected in ("m", m2), ("v", v2), ("p", p2):
        got = np.load(f"{name}_new.npy")
        assert np.allclose(got, expected, rtol=1e-5, atol=1e-6), (name, np.abs(got - expected).max())


def shapes_disagree():
    np.save("x.npy", np.zeros((4, 6), np.float32))
    np.save("w.npy", np.zeros(5, np.float32))
    said = headroom("run", SOURCE / "kernels/layernorm.hr", "x=x.npy", "weight=w.npy", code=2).stderr
    assert "5" in said and "6" in said, said
    np.save("x.npy", np.zeros((4, 6, 2), np.float32))
    headroom("run", SOURCE / "kernels/layernorm.hr", "x=x.npy", code=2)


def gather_out_of_range():
    np.save("token.npy", np.array([0, 1, 99], np.int32))
    said = headroom("run", SOURCE / "kernels/embedding.hr", "token=token.npy", "V=10", "C=8", code=2)
    assert "99" in said.stderr, said.stderr


def page_and_seed():
    kernel = SOURCE / "kernels/layernorm.hr"
    headroom("run", kernel, "M=64", "N=33", "--html", "page.html", "-o", "y=a.npy", "--seed", "3")
    headroom("run", kernel, "M=64", "N=33", "-o", "y=b.npy", "--seed", "3", "--no-verify")
    headroom("run", kernel, "M=64", "N=33", "-o", "y=c.npy", "--seed", "4")
    page = Path("page.html").read_text()
    assert page.startswith("<!doctype html>") and page.rstrip().endswith("</html>") and "<svg" in page
    assert np.array_equal(np.load("a.npy"), np.load("b.npy"))
    assert not np.array_equal(np.load("a.npy"), np.load("c.npy"))


def explain_as_json():
    run = json.loads(headroom("run", "layernorm", "M=64", "N=100", "--json").stdout)
    plan = json.loads(headroom("explain", "layernorm", "M=64", "N=100", "--json").stdout)
    assert list(plan) == "kernel file device dtypes extents plan bytes flops floor version".split(), list(plan)
    for key in set(plan) - {"floor", "plan"}: # a run may have raised the roof
        assert plan[key] == run[key], (key, plan[key], run[key])
    assert plan["floor"]["bound"] and plan["floor"]["seconds"] > 0
    there = [[stage["name"] for stage in one["plan"]["stages"]] for one in (plan, run)]
    assert there[0] == there[1] != []
    target = json.loads(headroom("explain", "layernorm", "--device", "cuda:sm_90a", "--json").stdout)
    assert target["floor"] is None and target["bytes"] > 0 and target["plan"]["stages"]
    assert target["plan"]["stages"][0]["floor_seconds"] is None


def explain_runs_nothing():
    kept = os.environ["HEADROOM_CACHE"]
    os.environ["HEADROOM_CACHE"] = str(Path(WORK.name) / "empty")
    done = headroom("explain", "layernorm", "M=64", "N=100", "--json")
    assert json.loads(done.stdout)["floor"] is None and json.loads(done.stdout)["bytes"] > 64 * 100 * 8, done.stdout
    assert "headroom roof" in done.stderr, done.stderr
    said = headroom("explain", "layernorm").stdout
    assert "floor     not known" in said and "headroom roof" in said, said
    assert not list(Path(WORK.name, "empty").glob("**/roof-*")), "a roof was measured"
    os.environ["HEADROOM_CACHE"] = kept


def explain_and_emit():
    said = headroom("explain", SOURCE / "kernels/layernorm_backward.hr:layernorm_backward", "M=100", "N=33").stdout
    assert "M=100 N=33" in said and "floor" in said, said
    headroom("emit", SOURCE / "kernels/layernorm.hr", "--target", "c", "-o", "generated")
    names = sorted(p.name for p in Path("generated").iterdir())
    assert names == ["kernel_layernorm_f32.c", "kernel_layernorm_f32.h"], names
    source = Path("generated/kernel_layernorm_f32.c").read_text()
    assert "headroom.h" not in source
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler:
        for dtype in "f32", "bf16": # side by side in one folder
            headroom("emit", SOURCE / "kernels/softmax.hr", f"T={dtype}", "-o", "generated")
        strict = [compiler, "-std=c11", "-O1", "-march=native", "-fopenmp", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        for name in "kernel_layernorm_f32.c", "kernel_softmax_f32.c", "kernel_softmax_bf16.c":
            subprocess.run([*strict, "-c", name], cwd="generated", check=True)
    printed = headroom("emit", SOURCE / "kernels/layernorm.hr").stdout
    assert source in printed


def bench_in_small():
    headroom("bench", "--only", "add,softmax", "--size", "1", "--csv", "table.csv")
    lines = Path("table.csv").read_text().splitlines()
    assert lines[1] == "# headroom bench --only add,softmax --size 1 --csv table.csv"
    names = [(line.split(",")[0], line.split(",")[1]) for line in lines[3:]] # each case of the list, long rows and short ones
    assert names == ([("add", "bf16"), ("add", "f32"), ("softmax", "bf16"), ("softmax", "f32")]
                     + [("softmax", "bf16")] * 2 + [("softmax", "f32")]), names
    assert [line.split(",")[-1] for line in lines[3:5]] == ["T=bf16", "T=f32"]
    assert all(line.split(",")[13] == "right" for line in lines[3:]), lines


def bench_in_passes():
    """A line a kernel, however many passes; one that fails is tried once, and the others go on."""
    Path("passes").mkdir()
    Path("passes/two.hr").write_text("kernel good(x: f32[N]) -> (y: f32[N])\n{\n    y[n] = 2 * x[n]\n}\n"
                                     "kernel bad(x: f32[N]) -> (y: f32[N])\n{\n    y[n] = x[n]\n}\n")
    Path("passes/cases.txt").write_text("two.hr:bad N=1000000000000000\ntwo.hr:good N=30000\n")
    done = headroom("bench", "passes", "--repeat", "3", "--csv", "passes.csv", code=3)
    lines = [line.split(",") for line in Path("passes.csv").read_text().splitlines()[3:]]
    assert [line[0] for line in lines] == ["bad", "good"], lines
    assert lines[0][3] == "" and lines[1][13] == "right", lines
    assert [done.stdout.count(f"\n{name} ") for name in ("good", "bad")] == [1, 1], done.stdout


def memory_is_the_arrays():
    """And 64 MB, with the baseline copy."""
    kernel = SOURCE / "kernels/layernorm_backward.hr"
    run = subprocess.Popen([HEADROOM, "run", kernel, "T=bf16", "M=8192", "N=4096", "--device", "cpu"],
                           stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    _, status, usage = os.wait4(run.pid, 0)
    run.returncode = os.waitstatus_to_exitcode(status)
    assert run.returncode == 0, run.returncode
    arrays = 3 * 2 * 8192 * 4096 + 2 * 4 * 8192
    assert arrays < usage.ru_maxrss * 1024 < arrays + (64 << 20), f"{usage.ru_maxrss} KB"


def a_closed_pipe_is_no_crash():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([HEADROOM, "roof"], stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    assert done.returncode == 0 and done.stderr == b"", done


if subprocess.run([HEADROOM, "roof"], capture_output=True).returncode == 3:
    print("skipped: this machine's roof cannot be measured, or it has no compiler")
    sys.exit(77)
for test in (softmax_reads_and_writes, a_total_is_the_next_scalar, fortran_order_is_strides, bf16_is_carried, files_bind_dtypes, several_dtypes,
             inout_leaves_the_file_alone, shapes_disagree, gather_out_of_range, page_and_seed, explain_as_json, explain_runs_nothing, explain_and_emit, bench_in_small, bench_in_passes,
             memory_is_the_arrays, a_closed_pipe_is_no_crash):
    test()
    print("ok", test.__name__)
assert not list(Path(".").glob("*.part"))
