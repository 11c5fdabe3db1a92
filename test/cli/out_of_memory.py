#!/usr/bin/env python3
"""Each allocation of each subcommand fails in turn: the output is the good one, or a sentence and exit code 3.

in: out_of_memory.py BUILD SOURCE [NAME...]; a NAME of COMMANDS takes that one alone. HR_TEST_LONG=1 takes every
allocation, once alone and once with all after it (HR_TEST_LONG=2/16: those that are this run's); else a sample of both.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

build, source = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
chosen = sys.argv[3:]
LONG = os.environ.get("HR_TEST_LONG")
SAMPLE = 12  # allocations a command where the test is short; of a command that measures, or opens a model
SAMPLE_TIMED = 3
SAMPLE_EMULATED = 192  # of a command whose kernels run in the emulator, where the test is long
FOREVER = 1 << 40
failed = []

work = pathlib.Path(tempfile.mkdtemp())
recording = source / "test/recordings/blocking_sync.hrt.gz"
kernel = work / "small.hr"
kernel.write_text("""kernel small(x: f32[M, N], w: f32[N]) -> (y: f32[M, N], s: f32[M])
{
    s[m] = sum[n](x[m, n] * x[m, n])
    y[m, n] = x[m, n] * w[n] * rsqrt(s[m] / N + 1e-5)
}
""")
RUN = ["run", kernel, "M=3", "N=37", "--device", "cpu", "--tune", "none", "--repeat", "3"]  # a GPU's driver ends the program
COMMANDS = {
    "help": ["help", "run"],
    "explain": ["explain", kernel, "--device", "cpu"],
    "emit_c": ["emit", kernel, "--target", "c"],
    "emit_cuda": ["emit", kernel, "--target", "cuda:sm_90a"],
    "emit_product": ["emit", source / "kernels/linear_gelu.hr", "--target", "cuda:sm_90a"],
    "grad": ["grad", kernel],
    "diagnose": ["diagnose", recording],
    "diagnose_json": ["diagnose", recording, "--json"],
    "diagnose_page": ["diagnose", recording, "--html", work / "page.html"],
    "run": RUN,
    "run_json": RUN + ["--json"],
    "run_saved": RUN + ["-o", f"y={work}/y.npy"],
    "roof": ["roof", "--device", "cpu"],
    "sweep": ["sweep", kernel, "M=2,3", "N=37", "--device", "cpu", "--tune", "none"],
    "ladder": ["ladder", "softmax", "--list"],
    "ladder_show": ["ladder", "gemm", "--show", "9"],
    "bench": ["bench", "--only", "softmax_f32", "--size", "1", "--device", "cpu", "--repeat", "1", "--tune", "none"],
    "record": ["record", "-o", work / "run.hrt", "--", build / "test/recorded_program", "cuda", "step", "2", "end", "0"],
}
WRITES = {"diagnose_page": work / "page.html", "run_saved": work / "y.npy"}
# These print times and rates; and they measure the machine's roofs, for some seconds, where the kept ones cannot be read.
TIMED = {"run", "run_json", "run_saved", "roof", "sweep", "bench", "generate_requests"}
TABLES = {"sweep", "bench"}
environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
environment |= {"HEADROOM_CACHE": str(work / "cache"), "NO_COLOR": "1", "HEADROOM_LOAD": "0",
                "HEADROOM_CC": str(source / "test/support/cc_quick"), "HEADROOM_CUPTI": str(build / "test/libfake_cupti.so")}
emulated = {name: str(build / "test/emulated_cuda.so") for name in ("HEADROOM_LIBCUDA", "HEADROOM_NVRTC")}


def add_generate(commands):
    """A model of two layers as GGUF and as a folder of safetensors, in whose steps other kernels run."""
    sys.path.insert(0, str(source / "test/support"))
    import miniature_model  # first: it says where NumPy is not installed
    import family_forward
    pairs, tensors = miniature_model.miniature(work / "miniature.gguf", formats={name: ("q8_0", "q8_0") for name in miniature_model.FORMATS})
    folder, words = work / "folder", ["the", "-n", "2", "--temperature", "0"]
    folder.mkdir()
    layers, others = miniature_model.folder_arrays(family_forward.Llama(pairs, tensors, rounds=False))
    miniature_model.write_safetensors(folder / "model.safetensors", layers | others)
    miniature_model.write_config(folder)
    names = pairs["tokenizer.ggml.tokens"]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [{"id": len(names) - 1, "content": names[-1], "special": True}], "normalizer": None, "pre_tokenizer": byte_level,
        "model": {"type": "BPE", "vocab": {name: i for i, name in enumerate(names[:-1])}, "merges": pairs["tokenizer.ggml.merges"]}}))
    (work / "requests").write_text("".join(json.dumps({"prompt": text, "n": 2, "temperature": 0}) + "\n" for text in ("the", "a")))
    commands |= {"generate": ["generate", work / "miniature.gguf", *words],
                 "generate_requests": ["generate", folder, "--requests", work / "requests"],
                 "generate_folder": ["generate", folder, *words],
                 "generate_cuda": ["generate", folder, *words, "--device", "cuda"]}
    shutil.rmtree(miniature_model.WORK)


try:
    add_generate(COMMANDS)
except SystemExit:
    print("without generate")
if (build / "roofs").is_dir():  # the test of that name measures them
    shutil.copytree(build / "roofs", work / "cache")


def start(words, **more):
    preload = {"LD_PRELOAD": str(build / "test/fail_allocation.so"), **{name: str(value) for name, value in more.items()}}
    preload |= emulated if words[-2:] == ["--device", "cuda"] else {}
    done = subprocess.run([build / "headroom", *map(str, words)], capture_output=True, timeout=900, cwd=work,
                          env=environment | preload, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


def output(name, out, said):
    """What a command says of its work: record says it beside the program's own output."""
    return said if name == "record" else out


def labels(name, out):
    """What does not depend on time: the names of what a report of a run says."""
    if name == "generate_requests":
        return re.sub(rb'"(first_seconds|seconds|log_probability)": [-+.e0-9]+', b"", out)
    if name == "run_json":
        return re.findall(rb'"(\w+)":', out)
    return [line.split()[0] for line in out.splitlines() if line.strip()]


def allocations(name):
    """Of the command; of record's program, too, which fails by the same count."""
    counts = [int(line) for line in (work / "count").read_text().split()]
    return max(counts) if name == "record" else counts[-1]


def same(name, good, out):
    return labels(name, good) == labels(name, out) if name in TIMED else good == out


def try_one(name, words, number, until, good, kept):
    if name in WRITES:
        WRITES[name].unlink(missing_ok=True)
    code, out, said = start(words, HR_FAIL_AT=number, HR_FAIL_FOR=until)
    out = output(name, out, said)
    where = f"{name}: allocation {number}{' and all after' if until > 1 else ''}"
    if code == 0:
        if not same(name, good, out):
            failed.append(f"{where}: exit code 0 and another output")
            (work / f"{name}.{number}.out").write_bytes(out)
        elif name in WRITES and name not in TIMED and WRITES[name].read_bytes() != kept:
            failed.append(f"{where}: exit code 0 and another {WRITES[name].name}")
    elif name == "record" and b"memory for thread-local data: ABORT" in said:
        pass  # the system's loader ended the program that was recorded
    elif code != 3 or not (b"memory" in said or name in TABLES and b"memory" in out):  # a row of the table says it, too
        failed.append(f"{where}: exit code {code}: {said[:300]!r}")


def try_all(name, words):
    start(words)  # what is made once lies in the cache from here on
    (work / "count").unlink(missing_ok=True)
    code, good, said = start(words, HR_FAIL_COUNT=work / "count")
    good = output(name, good, said)
    if code:
        failed.append(f"{name}: exit code {code}: {said[:300]!r}")
        return 0
    kept = WRITES[name].read_bytes() if name in WRITES else None
    count = allocations(name)
    if LONG:
        turn, of = map(int, LONG.split("/")) if "/" in LONG else (0, 1)
        step = 2 * count // SAMPLE_EMULATED if name == "generate_cuda" else 1
        tries = [(number, until) for number in range(1, count + 1) for until in (1, FOREVER)][::step][turn::of]
    else:
        step = max(1, count // (SAMPLE_TIMED if name in TIMED or name.startswith("generate") else SAMPLE))
        tries = [(number, (1, FOREVER)[i % 2]) for i, number in enumerate(range(1, count + 1, step))]
    for number, until in tries:
        try_one(name, words, number, until, good, kept)
    return len(tries)


told = 0
for name, words in COMMANDS.items():
    if chosen and name not in chosen or not chosen and not LONG and name in ("run", "run_saved", "generate", "generate_cuda"):
        continue
    print(f"{name}: {try_all(name, words)} runs with a failing allocator")
    print("\n".join(failed[told:told + 100]), flush=True)
    told = len(failed)
if "HR_KEEP" in os.environ:
    print(work)
else:
    shutil.rmtree(work)
sys.exit(1 if failed else 0)
