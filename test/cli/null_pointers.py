#!/usr/bin/env python3
"""Every function of headroom.h survives NULL for each pointer that it takes, and says so. usage: BUILD SOURCE"""

import ctypes
import os
import re
import sys
import tempfile
from pathlib import Path

BUILD, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
WORK = tempfile.TemporaryDirectory()
os.environ["HEADROOM_CACHE"] = WORK.name
os.chdir(WORK.name)

# Pointers that may be NULL, as headroom.h says, by function and parameter: a call without them is no mistake.
MAY_BE_NULL = {
    "hr_device_open": ["name"], "hr_kernel_load": ["path", "name"], "hr_kernel_load_file": ["name"],
    "hr_kernel_prepare": ["options"], "hr_kernel_run": ["options"], "hr_diagnose": ["options"],
    "hr_kernel_source": ["source", "header"], "hr_kernel_emit": ["options", "source", "header"], "hr_kernel_extent": ["name", "value"],
    "hr_kernel_dtype": ["name", "dtype"], "hr_argument_shape": ["steps"], "hr_kernel_execute": ["stream"],
    "hr_report_bench_line": ["row"], "hr_roof_load": ["device"], "hr_device_release": ["data"], "hr_device_release_pinned": ["data"], "hr_kernel_bind_list": ["arrays"],
    "hr_character_is_shown": ["text", "length"], "hr_device_threads_set": ["run", "context"],
    "hr_model_open": ["options"], "hr_model_respond": ["options"], "hr_recording_begin": ["options"], "hr_model_feed": ["logits"], "hr_report_sequence_text": ["roof"], "hr_sequence_call_info": ["roof"],
}
NEVER_A_MISTAKE = {"progress", "context", "style", "stream", "progress_context"}
try:
    library = ctypes.CDLL(str(BUILD / "libheadroom.so"))
except OSError as error:
    print(f"skipped: the shared library cannot be loaded here ({error})")
    sys.exit(77)
library.hr_last_error.restype = ctypes.c_char_p


def prototypes():
    header = re.sub(r"/\*.*?\*/", " ", (SOURCE / "include/headroom.h").read_text(), flags=re.S)
    for match in re.finditer(r"HR_API\s+([\w\s]+?\**)\s*\b(hr_\w+)\(([^;]*?)\)\s*;", header):
        result, name, parameters = (" ".join(part.split()) for part in match.groups())
        given = []
        for parameter in parameters.split(","):
            if parameter.strip() in ("void", ""):
                continue
            kind, word = re.match(r"(.*?)(\w+)$", parameter.strip()).groups()
            given.append((kind.strip(), word))
        yield result, name, given


TEXT = b"kernel scale(x: T[M, N], a: f32 = 2) -> (y: T[M, N])\n{\n    y[m, n] = a * x[m, n]\n}\n"


def handles():
    device, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    assert library.hr_device_open(b"cpu", ctypes.byref(device)) == 0, library.hr_last_error()
    assert library.hr_kernel_load(device, b"t.hr", TEXT, ctypes.c_size_t(len(TEXT)), None, ctypes.byref(kernel)) == 0
    return device, kernel


def argument(kind, word, device, kernel):
    """Something good enough for a call that another pointer makes fail."""
    if "*" not in kind and not kind.endswith("_fn"):
        return ctypes.c_double(1) if kind == "double" else ctypes.c_int64(1)
    if re.match(r"(const )?hr_device \*$", kind):
        return device
    if re.match(r"(const )?hr_kernel \*$", kind):
        return kernel
    if kind.endswith("_fn") or word in NEVER_A_MISTAKE:
        return None
    if re.match(r"(const )?char \*$", kind):
        return ctypes.c_char_p(b"x")
    return ctypes.create_string_buffer(1 << 17)  # zeros, for whatever is read or written there


def attempt(result, name, given, null, device, kernel):
    """Calls in a child: NULL for the parameters in `null`. Returns (signal or None, status, said)."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        function = getattr(library, name)
        function.restype = ctypes.c_void_p if "*" in result else ctypes.c_double if result == "double" else ctypes.c_int
        library.hr_status_name(10**6)
        before = library.hr_last_error()
        values = [None if word in null else argument(kind, word, device, kernel) for kind, word in given]
        status = function(*values)
        said = library.hr_last_error()
        os.write(write, b"%d %d" % (status if result == "hr_status" else 0, said != before))
        os._exit(0)
    os.close(write)
    answer = os.read(read, 100).split()
    os.close(read)
    _, ended = os.waitpid(child, 0)
    if ended or len(answer) != 2:
        return f"ended with {ended}", 0, False
    return None, int(answer[0]), bool(int(answer[1]))


failures, calls = [], 0
device, kernel = handles()
for result, name, given in prototypes():
    pointers = [word for kind, word in given if "*" in kind]
    if not pointers:
        continue
    must = [word for word in pointers if word not in MAY_BE_NULL.get(name, []) and word not in NEVER_A_MISTAKE]
    for null in [pointers] + [[word] for word in pointers]:
        if not set(null) & set(must): # what else is given here is no more than room
            continue
        crash, status, said = attempt(result, name, given, null, device, kernel)
        calls += 1
        if crash:
            failures.append(f"{name} with {', '.join(null)} = NULL: {crash}")
        elif not name.endswith("_destroy") and (not said or result == "hr_status" and status == 0):
            failures.append(f"{name} with {', '.join(null)} = NULL: status {status}, {'a' if said else 'no'} sentence")
print(f"{calls} calls of {len(list(prototypes()))} functions")
assert calls > 120, "the header was not understood"
for failure in failures:
    print(failure)
sys.exit(1 if failures else 0)
