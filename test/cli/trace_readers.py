#!/usr/bin/env python3
"""Trace files as our readers see them and as Python's json, sqlite3 and csv do. usage: BUILD SOURCE

The files that every check-out has are made here, each with one oddity of files in the wild. Real ones are read
from ../shared/traces where that folder exists.
"""

import csv
import gzip
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from decimal import Decimal
from pathlib import Path

DUMP = next((path for path in Path(sys.argv[1]).glob("**/trace_dump") if path.is_file()), None)
SOURCE = Path(sys.argv[2])
REAL = SOURCE / "../shared/traces"
FOLDER = tempfile.TemporaryDirectory()
WORK = Path(FOLDER.name)


class Trace:
    """What trace_dump prints."""

    def __init__(self, *words, code=0):
        done = subprocess.run([DUMP, *map(str, words)], capture_output=True)
        self.error = done.stderr.decode()
        assert done.returncode == code, f"{words}: exit code {done.returncode}, should be {code}\n{self.error}"
        lines = [line.split("\t") for line in done.stdout.decode("utf-8").splitlines()]  # strict: UTF-8 comes out
        self.ranks = [line[1:] for line in lines if line[0] == "rank"]
        self.devices = [line[1:] for line in lines if line[0] == "device"]
        self.skipped = {line[3]: (int(line[1]), int(line[2])) for line in lines if line[0] == "skipped"}
        self.events = [line[1:] for line in lines if line[0] == "event"]

    def of(self, *kinds):
        return [event for event in self.events if event[0] in kinds]

    def names(self, *kinds):
        return [event[7] for event in self.of(*kinds)]

    def skips(self, words):
        return sum(count for reason, (count, _) in self.skipped.items() if words in reason)


# ---- PyTorch's JSON, read a second time ----

KINDS = {
    "kernel": "kernel", "Kernel": "kernel", "cpu_op": "operator", "Operator": "operator",
    "python_function": "operator", "cuda_runtime": "call", "cuda_driver": "call", "Runtime": "call",
    "gpu_memcpy": "copy", "Memcpy": "copy", "gpu_memset": "fill", "Memset": "fill", "user_annotation": "range",
    "gpu_user_annotation": "device-range", "cuda_sync": "synchronise", "overhead": "overhead",
}


def expected_of_json(path):
    """(kind, name, ns, duration in ns, correlation) of each event that the model has."""
    opened = gzip.open(path) if path.suffix == ".gz" else open(path, "rb")
    with opened as file:
        document = json.load(file, parse_float=Decimal)
    found = []
    for event in document["traceEvents"]:
        if event["ph"] == "i" and "Bytes" in event.get("args", {}):
            found.append(("allocation", event["name"], int(event["ts"] * 1000), 0, 0))
        if event["ph"] != "X" or event.get("cat") == "Trace":
            continue
        kind = KINDS[event["cat"]]
        if kind == "operator" and event["name"].startswith("ProfilerStep"):
            kind = "range"
        correlation = event.get("args", {}).get("correlation", 0)
        found.append((kind, event["name"], int(event["ts"] * 1000), int(event.get("dur", 0) * 1000), correlation))
    zero = min(event[2] for event in found)
    return Counter((kind, name, time - zero, duration, link) for kind, name, time, duration, link in found), document


def check_real_json(path):
    expected, document = expected_of_json(path)
    trace = Trace(path)
    cut = trace.skips("overlapping")
    got = Counter((e[0], e[7], int(e[3]), int(e[4]), int(e[5])) for e in trace.events)
    assert sum(got.values()) == sum(expected.values()), (path, sum(got.values()), sum(expected.values()))
    # slices that leave the one around them were shortened, so durations may differ there and nowhere else
    without = lambda counter: Counter((kind, name, time, link) for kind, name, time, _, link in counter.elements())
    assert without(got) == without(expected), path
    differing = sum((got - expected).values())
    rounded = "." not in json.dumps(document["traceEvents"][0].get("ts"), default=str)
    assert differing <= cut or rounded, (path, differing, cut)
    device_work = [item for item in got.elements() if item[0] in ("kernel", "copy", "fill")]
    assert Counter(device_work) == Counter(item for item in expected.elements() if item[0] in ("kernel", "copy", "fill"))
    information = document.get("distributedInfo", {})
    assert trace.ranks[0][:2] == [str(information.get("rank", -1)), str(information.get("world_size", 0))], path
    assert [device[2] for device in trace.devices] == [d["name"] for d in document.get("deviceProperties", [])]
    kernels = {(int(e[3]), e[7]): e[8] for e in trace.of("kernel")}
    zero = min(int(e["ts"] * 1000) for e in document["traceEvents"]
               if (e["ph"] == "X" and e.get("cat") != "Trace") or (e["ph"] == "i" and "Bytes" in e.get("args", {})))
    for event in document["traceEvents"]:
        if event.get("cat") in ("kernel", "Kernel") and event["args"].get("grid"):
            detail = kernels[(int(event["ts"] * 1000) - zero, event["name"])]
            grid = ",".join(map(str, event["args"]["grid"]))
            assert f"grid={grid} " in detail and f"registers={event['args']['registers per thread']} " in detail


# ---- Nsight Systems' tables, read a second time ----

def check_real_nsys(path):
    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
    rows = lambda query, table: database.execute(query).fetchall() if table in tables else []
    trace = Trace(path)
    count = lambda table: rows(f"select count(*) from {table}", table)[0][0] if table in tables else 0
    assert len(trace.of("kernel")) == count("CUPTI_ACTIVITY_KIND_KERNEL")
    assert len(trace.of("copy")) == count("CUPTI_ACTIVITY_KIND_MEMCPY")
    assert len(trace.of("fill")) == count("CUPTI_ACTIVITY_KIND_MEMSET")
    assert len(trace.of("call")) == count("CUPTI_ACTIVITY_KIND_RUNTIME")
    assert len(trace.of("synchronise")) == count("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION")
    assert len(trace.of("range", "operator")) == count("NVTX_EVENTS")
    assert len(trace.of("overhead")) == count("PROFILER_OVERHEAD") + count("CUPTI_ACTIVITY_KIND_OVERHEAD")
    kernels = rows("select value, end - start, deviceId, streamId, correlationId, gridX, blockX from "
                   "CUPTI_ACTIVITY_KIND_KERNEL join StringIds on id = demangledName", "CUPTI_ACTIVITY_KIND_KERNEL")
    expected = Counter((name, duration, f"gpu{device}:{stream}", link, grid, block)
                       for name, duration, device, stream, link, grid, block in kernels)
    numbers = lambda detail: tuple(map(int, re.match(r"grid=(\d+),.* block=(\d+),", detail).groups()))
    got = Counter((e[7], int(e[4]), e[2], int(e[5]), *numbers(e[8])) for e in trace.of("kernel"))
    assert got == expected
    bytes_copied = rows("select sum(bytes) from CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMCPY")[0][0]
    assert sum(int(re.match(r"bytes=(\d+)", e[8]).group(1)) for e in trace.of("copy")) == bytes_copied
    processes = rows("select count(distinct globalPid) from CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_KERNEL")
    assert len(trace.ranks) == processes[0][0]
    calls = rows("select value from CUPTI_ACTIVITY_KIND_RUNTIME join StringIds on id = nameId", "CUPTI_ACTIVITY_KIND_RUNTIME")
    plain = lambda name: re.sub(r"_(ptsz|ptds)$", "", re.sub(r"_v\d{4,}$", "", name))
    assert Counter(plain(name) for (name,) in calls) == Counter(trace.names("call"))
    if "NVTX_EVENTS" in tables:
        texts = database.execute("select coalesce(text, value) from NVTX_EVENTS left join StringIds on id = textId")
        cut = Counter(re.split(r", (?:op_id|seq|sizes) = ", text)[0] for (text,) in texts)
        assert cut == Counter(trace.names("range", "operator"))


# ---- Nsight Compute's table, read a second time ----

def check_real_ncu(path):
    lines = path.read_text().splitlines()
    header = next(i for i, line in enumerate(lines) if line.startswith('"ID"'))
    names, units, *rows = csv.reader(lines[header:])
    trace = Trace(path)
    assert len(trace.of("kernel")) == len(rows)
    number = lambda row, name: float(row[names.index(name)].replace(",", ""))
    for event, row in zip(trace.of("kernel"), rows):
        assert event[7] == row[names.index("Kernel Name")]
        detail = dict(part.split("=") for part in event[8].split())
        assert units[names.index("gpu__time_duration.sum")] == "ns"
        assert int(event[4]) == number(row, "gpu__time_duration.sum")
        read, written = map(float, detail["dram"].split("+"))
        assert (read, written) == (number(row, "dram__bytes_read.sum"), number(row, "dram__bytes_write.sum"))
        close = lambda a, b: abs(float(a) - b) <= 1e-5 * abs(b)
        assert close(detail["l2"], number(row, "lts__t_sector_hit_rate.pct") / 100)
        assert close(detail["warps"], number(row, "sm__warps_active.avg.pct_of_peak_sustained_active") / 100)
        assert close(detail["sm_of_peak"], number(row, "sm__throughput.avg.pct_of_peak_sustained_elapsed") / 100)


# ---- oddities ----

def file(name, text):
    path = WORK / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def x(name="k", ts=1000, dur=5, cat="kernel", pid=0, tid=7, **args):
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def check_json_oddities():
    two = json.dumps(x("first")), json.dumps(x("second", ts=2000))
    document = lambda *events: '{"traceEvents": [%s]}' % ",".join(events)
    # (what, text, names expected, words of what is skipped)
    cases = [
        ("an array alone", f"[{two[0]},{two[1]}]", ["first", "second"], None),
        ("an array that nobody closed", f"[{two[0]},{two[1]}", ["first", "second"], "break off"),
        ("missing and doubled commas", document(two[0] + two[1], ",,"), ["first", "second"], None),
        ("a byte-order mark", b"\xef\xbb\xbf" + document(*two).encode(), ["first", "second"], None),
        ("properties behind the events", document(*two)[:-1] + ', "distributedInfo": {"rank": 5}}', ["first", "second"], None),
        ("text that breaks off", document(*two)[:-30], ["first"], "break off"),
        ("controls of 8 bits, overrides of direction", document(two[0].replace("first", r"a\u009b\u202e\u2028\u200bb"), two[1]), ["a????b", "second"], None),
        ("control characters", document(two[0].replace("first", "a\tb\x01"), two[1]), ["a?b?", "second"], None),
        ("a NUL", document(two[0].replace("first", "a\0b"), two[1]), ["a?b", "second"], None),
        ("invalid UTF-8", document(two[0].replace("first", "a@"), two[1]).encode().replace(b"a@", b"a\xff"), ["a?", "second"], None),
        ("escapes", document(json.dumps(x('q"\\/ü🚀')), two[1]), ['q"\\/ü🚀', "second"], None),
        ("a lone surrogate", document(two[0].replace("first", r"a\ud83db"), two[1]), ["a?b", "second"], None),
        ("quotes that nobody escaped", document(two[0].replace("first", 'call "x" now'), two[1]), ['call "x" now', "second"], None),
        ("an event that is no JSON", document('{"ph": "X", "name": : }', two[1]), ["second"], "not JSON"),
        ("quotes beyond help", document(two[0].replace("first", 'f("x", 3)'), two[1]), ["second"], "not JSON"),
        ("elements that are no events", document("[1, 2]", *two), ["first", "second"], "no events"),
        ("an unknown phase", document(json.dumps({**x(), "ph": "?"}), *two), ["first", "second"], "unknown kinds"),
        ("a time that is no time", document(json.dumps({**x(), "ts": "soon"}), *two), ["first", "second"], "time is no number"),
        ("a negative duration", document(json.dumps(x(dur=-1)), *two), ["first", "second"], "impossible times"),
        ("a time beyond 64 bits", document(json.dumps(x(ts=10**30)), *two), ["first", "second"], "impossible times"),
        ("correlation beyond 64 bits", document(json.dumps(x(correlation=10**25)), *two), ["k", "first", "second"], "64 bits"),
        ("exponents", document(json.dumps(x("e")).replace("1000", "0.5e3"), *two), ["e", "first", "second"], None),
        ("deep nesting", document(two[0].replace('"args": {', '"args": {"deep": %s,' % ("[" * 100000 + "]" * 100000)), two[1]), ["first", "second"], None),
        ("no events", document(), [], None),
    ]
    for what, text, names, skipped in cases:
        trace = Trace(file("odd.json", text))
        assert trace.names("kernel") == names, (what, trace.names("kernel"))
        assert (trace.skips(skipped) == 1) if skipped else not trace.skipped, (what, trace.skipped)
        assert (trace.ranks[0][4] == "1") == (skipped == "break off"), what
    assert Trace(file("odd.json", document(*two)[:-1] + ', "distributedInfo": {"rank": 5}}')).ranks[0][0] == "5"
    trace = Trace(file("odd.json", document('{"ph": "X", "name": : }', two[1])))
    assert trace.skipped["events that are not JSON"] == (1, len('{"traceEvents": [')), trace.skipped


def check_json_meaning():
    events = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "worker"}},
        x("cudaMemcpyAsync", 1000, 5, "cuda_runtime", 1, 2, correlation=11, **{"External id": 7}),
        x("cudaMemcpy", 1010, 5, "Runtime", 1, "2", correlation=12),
        x("cudaStreamSynchronize", 1020, 9, "cuda_runtime", 1, 2, correlation=13),
        x("Memcpy HtoD (Pageable -> Device)", 1003, 2, "gpu_memcpy", 0, 7, correlation=11, bytes=64),
        x("Memcpy DtoH (Device -> Pinned)", 1012, 2, "Memcpy", 0, "stream 7", correlation=12, bytes=32),
        x("Stream Sync", 1020, 8, "cuda_sync", 0, 7, correlation=13, stream=7, cuda_sync_kind="Stream Sync"),
        x("Stream Wait Event", 1030, 0, "cuda_sync", 0, 9, correlation=14, stream=9, wait_on_stream=7,
          wait_on_cuda_event_id=4, wait_on_cuda_event_record_corr_id=10),
        x("mm", 999, 50, "cpu_op", 1, 2, **{"External id": 7, "Input Dims": [[4, 2], [2, 3]], "Input type": ["float", "float"], "Sequence number": 3}),
        x("nccl", 1100, 5, **{"Collective name": "allreduce", "In msg nelems": 10, "Out msg nelems": 20, "dtype": "BFloat16", "Group size": 4}),
        x("old", 1105, 5, correlation=90, **{"External id": 90}),
        {"ph": "B", "name": "outer", "pid": 3, "tid": 3, "ts": 1000}, {"ph": "B", "name": "inner", "pid": 3, "tid": 3, "ts": 1001},
        {"ph": "E", "pid": 3, "tid": 3, "ts": 1003}, {"ph": "E", "pid": 3, "tid": 3, "ts": 1009.5}, {"ph": "E", "pid": 3, "tid": 3, "ts": 1010},
        {"ph": "B", "name": "open", "pid": 3, "tid": 3, "ts": 1020},
        {"ph": "C", "name": "memory", "pid": 3, "tid": 3, "ts": 1020, "args": {"used": 12.5}},
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 2, "ts": 1001, "args": {"Bytes": -8, "Addr": 4096, "Device Type": 1, "Device Id": 0}},
        x("outside", 1000, 5, "unheard of", 5, "some name"),
    ]
    trace = Trace(file("meaning.json.gz", gzip.compress(json.dumps({"baseTimeNanoseconds": 10**18, "traceEvents": events}).encode())))
    got = {event[7]: event for event in trace.events}
    at = lambda name, *columns: [got[name][i] for i in columns]
    copies = [e[8] for e in trace.of("copy")]
    assert copies == ["bytes=64 from=1 to=3 asynchronous=1", "bytes=32 from=3 to=2 asynchronous=0"], copies
    assert at("Stream Sync", 2, 8) == ["1/2", "wait=2 event=0 record=0"] and got["Stream Sync"][9] == "gpu0:7"
    assert at("Stream Wait Event", 2, 8, 9) == ["gpu0:9", "wait=1 event=4 record=10", "gpu0:7"]
    assert at("mm", 3, 6, 8) == ["0", "7", 'sequence=3 python=0 shapes=[[4, 2], [2, 3]] dtypes=["float", "float"]']
    assert at("cudaMemcpyAsync", 2, 5, 6) == ["1/2", "11", "7"] and at("cudaMemcpy", 2) == ["1/2"]
    assert got["nccl"][8].endswith("collective=allreduce bytes=40 ranks=4")
    assert at("old", 5, 6) == ["90", "0"]
    assert at("outer", 3, 4) == ["1000", "9500"] and at("inner", 3, 4) == ["2000", "2000"]
    assert at("memory", 0, 8) == ["counter", "value=12.5"]
    assert at("[memory]", 8) == ["bytes=-8 address=4096 memory=3 device=0"]
    assert at("outside", 0) == ["range"]
    assert trace.skips("never began") == 1 and trace.skips("never end") == 1
    assert trace.ranks[0][3] == str(10**18 + 999000)


def check_refusals():
    bomb = b'{"traceEvents": [' + (json.dumps(x()).encode() + b",") * 900_000
    assert len(bomb) > 70 << 20
    trace = Trace(file("bomb.json.gz", gzip.compress(bomb)), code=2)
    assert "more than 200 times its size" in trace.error and "gunzip it first" in trace.error, trace.error
    deflated = gzip.compress(b'{"traceEvents": [' + b",".join([json.dumps(x(f"kernel {i}")).encode() for i in range(5000)]) + b"]}")
    cases = [
        (b"", "is empty"),
        (b"\x7fELF" + b"\0" * 100, "not a trace"),
        (b'{"a": 1}', "no \"traceEvents\""),
        (b'{"traceEvents": ', "breaks off at byte 16"),
        (b'{"a": }', "byte 6"),
        (b"SQLite format 3\0" + b"\1" * 5000, "SQLite"),
        (b"==PROF== Connected\nno table\n", "column names"),
        (b'"ID","Process ID","Name","a","b"\n"1","2","3","4","5"\n', "Kernel Name"),
        (b'"ID","Process ID","Kernel Name","Metric Name","Metric Value"\n', "without a kernel"),
    ]
    for content, words in cases:
        error = Trace(file("refused.json", content), code=2).error
        assert words in error and "refused.json" in error, (content[:40], error)
    assert "folder" in Trace(WORK, code=2).error
    assert "absent" in Trace(WORK / "absent.json", code=2).error
    for cut in (len(deflated) // 2, len(deflated) - 4):
        trace = Trace(file("cut.json.gz", deflated[:cut]))
        assert 100 < len(trace.events) <= 5000 and trace.skips("damaged") == 1, cut
    damaged = bytearray(deflated)
    damaged[len(damaged) // 2] ^= 0xFF
    assert Trace(file("cut.json.gz", bytes(damaged))).skips("damaged") == 1
    both = Trace(file("two.json.gz", gzip.compress(b'{"traceEvents": [') + gzip.compress(json.dumps(x()).encode() + b"]}") + b"\0" * 512))
    assert len(both.events) == 1 and not both.skipped, both.skipped


def check_window():
    """A file of more than one window, with a limit on events: the beginning of its time is kept whole."""
    calls = [x(f"call {i % 97}", 1000 + i, 0.5, "cuda_runtime", 1, 2, correlation=i + 1) for i in range(20000)]
    kernels = [x("k" * 200, 1000.25 + i, 0.5, correlation=i + 1) for i in range(20000)]
    path = file("window.json", json.dumps({"traceEvents": calls + kernels}, indent=1))
    assert path.stat().st_size > 8 << 20
    assert len(Trace(path).events) == 40000
    trace = Trace("--limit", 10000, path)
    kept = len(trace.events)
    assert 5000 < kept <= 10000 and trace.skips("beyond the limit") == 40000 - kept
    assert abs(len(trace.of("call")) - len(trace.of("kernel"))) <= 1
    assert max(int(event[3]) for event in trace.events) < (kept // 2 + 1) * 1000


def check_ncu_pages():
    names = ["ID", "Process ID", "Kernel Name", "Stream", "Block Size", "Grid Size", "Device", "CC"]
    who = lambda i, name: [str(i), "5", name, "7", "(64, 2, 1)", "(10, 1, 1)", "0", "9.0"]
    line = lambda cells: ",".join('"%s"' % cell.replace('"', '""') for cell in cells) + "\n"
    details = line(names + ["Section Name", "Metric Name", "Metric Unit", "Metric Value"])
    for i, name in enumerate(['a<"x">', "b"]):
        for metric, unit, value in [("Duration", "us", "1,234.5"), ("Memory Throughput", "%", "55.0"),
                                    ("Memory Throughput", "Gbyte/s", "2,000"), ("L2 Hit Rate", "%", "12,5"),
                                    ("Registers Per Thread", "register/thread", "32"),
                                    ("Dynamic Shared Memory Per Block", "Kbyte/block", "1.02"),
                                    ("Achieved Occupancy", "%", "n/a")]:
            details += line(who(i, name) + ["Speed", metric, unit, value]) + ("==PROF== a line between\n" if unit == "us" else "")
    trace = Trace(file("details.csv", "the program's own words\n==PROF== Connected\n" + details))
    assert trace.names("kernel") == ['a<"x">', "b"]
    assert [e[3:5] for e in trace.of("kernel")] == [["0", "1234500"], ["1234500", "1234500"]]
    detail = dict(part.split("=") for part in trace.events[0][8].split())
    assert detail["dram"] == "2469000000+0" and detail["l2"] == "0.125" and detail["registers"] == "32", detail
    assert detail["shared"] == "0+1020" and detail["block"] == "64,2,1" and detail["warps"] == "nan"
    assert trace.skips("contradict") == 2, trace.skipped
    # a locale that parts thousands with points, known from other rows; rows that end behind the value; no evidence at all
    rules = names + ["Section Name", "Metric Name", "Metric Unit", "Metric Value", "Rule Name", "Rule Type", "Rule Description"]
    metric = lambda i, name, unit, value: line(who(i, "k") + ["Speed", name, unit, value])[:-1] + ",\n"
    ended = line(who(0, "k") + ["Speed", "", "", "", "Bottleneck", "OPT", "Low."])
    for others, nanoseconds, ambiguous in ([("27.595.520", "118.400,5"), 117344, 0], [("1,5", "2"), 117344, 0], [("1,234.5", "2"), 117, 0],
                                           [("5", "2"), 117, 2]):
        text = line(rules) + metric(0, "Duration", "ns", "117.344") + metric(0, "gpu__time_duration.avg", "ns", "117.344")
        text += "".join(metric(1, "dram__bytes_read.sum", "byte", value) for value in others) + ended
        trace = Trace(file("locale.csv", text))
        assert trace.events[0][4] == str(nanoseconds), (others, trace.events)
        assert trace.skips("does not tell") == ambiguous and not trace.skips("surplus"), trace.skipped
    assert Trace(file("locale.csv", text[:text.rindex('"117.344"') + 4])).ranks[0][4] == "1"
    raw = line(names + ["gpu__time_duration.sum", "lts__t_sector_hit_rate.pct"]) + line([""] * 8 + ["msecond", "%"])
    raw += line(who(0, "a") + ["2.5", "50"]) + line(who(1, "short")) + line(who(2, "b") + ["1", "25"])
    trace = Trace(file("raw.csv", "==PROF== Connected\n" + raw.replace("\n", "\r\n")))
    assert [e[4] for e in trace.events] == ["2500000", "1000000"] and trace.skips("surplus") == 1
    trace = Trace(file("raw.csv", "==PROF== Connected\n" + raw[:-6]))
    assert trace.names("kernel") == ["a"] and trace.ranks[0][4] == "1"


# ---- XLA's profiler: its Chrome JSON, and XPlane files written here field by field ----

def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def message(*fields):
    """(number, whole number | text | message) each"""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def plane(name, lines, names, stat_names, *stats):
    entry = lambda number, i, text: (number, message((1, i), (2, message((1, i), (2, text)))))
    return message((2, name), *[(3, line) for line in lines], *[entry(4, i, text) for i, text in names.items()],
                   *[entry(5, i, text) for i, text in stat_names.items()], *[(6, stat) for stat in stats])


def xspace():
    """A device with a stream and a line derived from it, behind a host whose thread launches."""
    stats = {1: "correlation_id", 2: "kernel_details", 3: "memcpy_details", 4: "core_count", 5: "compute_cap_major",
             6: "regs:32 static_shared:16 dynamic_shared:0 grid:528,2,1 block:256,1,1 occ_pct:100"}
    event = lambda name, ps, duration, *rest: message((1, name), (2, ps), (3, duration), *[(4, stat) for stat in rest])
    second = 1_700_000_000_000_000_000
    host = message((1, 77), (2, "main"), (3, second), (4, event(1, 0, 900_000_000)), (4, event(2, 1_000_000, 5_000_000, message((1, 1), (3, 42)))))
    stream = message((1, 9), (2, "Stream #20(Compute,MemcpyH2D)"), (3, second), (4, event(7, 10_000_000, 190_000_500, message((1, 1), (3, 42)), message((1, 2), (7, 6)))),
                     (4, event(8, 300_000_000, 2_000_000, message((1, 3), (5, "kind_src:pageable kind_dst:device size:4096 dest:0 async:1")))))
    modules = message((1, 10), (2, "XLA Modules"), (3, second), (4, event(9, 10_000_000, 300_000_000)))
    return message((1, plane("/host:CPU", [host], {1: "PjitFunction(step)", 2: "cuLaunchKernel"}, {1: "correlation_id"})),
                   (1, plane("/device:GPU:0", [stream, modules], {7: "loop_add_fusion", 8: "MemcpyH2D", 9: "jit_step"}, stats,
                             message((1, 4), (3, 132)), message((1, 5), (3, 9)))), (4, "somewhere"))


def check_xla():
    expected = {("range", "0/77", 0, 900_000, 0, "PjitFunction(step)"), ("call", "0/77", 1000, 5000, 42, "cuLaunchKernel"),
                ("kernel", "gpu0:20", 10_000, 190_000, 42, "loop_add_fusion"), ("copy", "gpu0:20", 300_000, 2000, 0, "MemcpyH2D"),
                ("device-range", "gpu0:10", 10_000, 300_000, 0, "jit_step")}
    for content in (xspace(), gzip.compress(xspace())):
        trace = Trace(file("host.xplane.pb", content))
        got = {(e[0], e[2], int(e[3]), int(e[4]), int(e[5]), e[7]) for e in trace.events}
        assert got == expected and not trace.skipped, (got ^ expected, trace.skipped)
        assert trace.of("kernel")[0][8].startswith("grid=528,2,1 block=256,1,1 registers=32 shared=16+0")
        assert trace.of("copy")[0][8] == "bytes=4096 from=1 to=3 asynchronous=1"
        assert trace.ranks[0][2] == "jax" and trace.devices[0][3:5] == ["132", "90"], (trace.ranks, trace.devices)
    both = [Trace(SOURCE / "test/cases/diagnose/other-runtimes" / f"jax-on-a-cpu.{kind}") for kind in ("xplane.pb", "trace.json.gz")]
    told = [Counter((e[0], e[7], round(int(e[3]), -3)) for e in trace.events if int(e[4]) > 2000) for trace in both]
    assert len(both[0].events) == len(both[1].events) > 50 and told[0].total() == told[1].total() and sum((told[0] - told[1]).values()) < 8
    assert {trace.ranks[0][2] for trace in both} == {"jax"} and not both[1].skips("unknown"), both[1].skipped
    whole = xspace()
    for cut in range(8, len(whole), 7):  # whatever is left of it: a sentence or what came before
        done = subprocess.run([DUMP, file("cut.xplane.pb", whole[:cut])], capture_output=True)
        assert done.returncode in (0, 2) and (done.stdout or b"cut.xplane.pb" in done.stderr), (cut, done)
    named = lambda pid, tid, what, name: {"ph": "M", "pid": pid, **({"tid": tid} if tid else {}), "name": what, "args": {"name": name}}
    bare = lambda name, pid, tid, ts, dur, **args: {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    events = [named(1, 0, "process_name", "/device:GPU:1"), named(1, 20, "thread_name", "Stream #20(Compute)"), named(1, 3, "thread_name", "XLA Ops"),
              named(2, 0, "process_name", "/device:TPU:0"), named(2, 4, "thread_name", "XLA Ops"), named(701, 0, "process_name", "/host:CPU"),
              bare("step", 701, 5, 0, 900), bare("cuLaunchKernel", 701, 5, 1, 5, correlation_id="42"),
              bare("wrapped_add", 1, 20, 10, 190, correlation_id="42", kernel_details="regs:8 grid:4,1,1 block:64,1,1"), bare("add.3", 1, 3, 10, 190),
              bare("MemcpyD2H", 1, 20, 300, 5, memcpy_details="kind:pinned size:64 dest:0 async:0"), bare("fusion.7", 2, 4, 10, 20)]
    trace = Trace(file("jax.trace.json.gz", gzip.compress(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}).encode())))
    got = {(e[0], e[2], e[7]) for e in trace.events}
    assert got == {("range", "701/5", "step"), ("call", "701/5", "cuLaunchKernel"), ("kernel", "gpu1:20", "wrapped_add"), ("device-range", "gpu1:3", "add.3"),
                   ("copy", "gpu1:20", "MemcpyD2H"), ("kernel", "gpu0:4", "fusion.7")}, got
    assert trace.of("copy")[0][8] == "bytes=64 from=3 to=2 asynchronous=0" and trace.of("kernel")[0][5] == "42"


def check_categories():
    """Other devices of PyTorch: their calls are calls, their work is work, and what is not known is named."""
    rows = [("xpu_runtime", "urEnqueueKernelLaunch", "call"), ("privateuse1_runtime", "launch", "call"), ("mtia_runtime", "runFunction", "call"),
            ("hip_runtime", "hipLaunchKernel", "call"), ("mtia_ccp_events", "fc", "kernel"), ("hpu_op", "gemm", "kernel"), ("novelty", "odd", "range")]
    trace = Trace(file("others.json", json.dumps({"traceEvents": [x(name, 1000 + i, 1, category, 1, 2) for i, (category, name, _) in enumerate(rows)]})))
    assert {(e[7], e[0]) for e in trace.events} == {(name, kind) for _, name, kind in rows}, trace.events
    assert trace.skips("unknown categories of events, taken as ranges: novelty") == 1
    copies = [x(name, 1000 + i, 1, "gpu_memcpy", 0, 7, bytes=8) for i, name in enumerate(["CopyHostToDevice", "Memcpy D2M", "Memcpy HtoD (Host -> Device)"])]
    assert [e[8][:15] for e in Trace(file("copies.json", json.dumps({"traceEvents": copies}))).of("copy")] == ["bytes=8 from=0 ", "bytes=8 from=3 ", "bytes=8 from=0 "]


def check_nsys_suffixes():
    """Tables with versions in their names, rows that name no process, warnings, a table that nobody knows."""
    path = WORK / "suffixed.sqlite"
    database = sqlite3.connect(path)
    database.executescript("""
        create table StringIds(id integer primary key, value text);
        insert into StringIds values (1, 'new'), (2, 'old'), (3, 'cudaLaunchKernel');
        create table CUPTI_ACTIVITY_KIND_KERNEL(start integer, end integer, deviceId integer, streamId integer, correlationId integer, shortName integer);
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (100, 150, 0, 7, 1, 2);
        create table CUPTI_ACTIVITY_KIND_KERNEL_V3(start integer, end integer, deviceId integer, streamId integer, correlationId integer, shortName integer);
        insert into CUPTI_ACTIVITY_KIND_KERNEL_V3 values (100, 150, 0, 7, 1, 1);
        create table CUPTI_ACTIVITY_KIND_RUNTIME_V2(start integer, end integer, globalTid integer, correlationId integer, nameId integer);
        insert into CUPTI_ACTIVITY_KIND_RUNTIME_V2 values (90, 95, 281474976710656 + (33 << 24) + 34, 1, 3);
        create table CUPTI_ACTIVITY_KIND_NOVELTY(start integer, end integer);
        create table DIAGNOSTIC_EVENT(timestamp integer, severity integer, text text);
        insert into DIAGNOSTIC_EVENT values (1, 1, 'all is well'), (2, 3, 'CUPTI buffers overflowed');
    """)
    database.commit()
    database.close()
    trace = Trace(path)
    assert trace.names("kernel") == ["new"] and trace.names("call") == ["cudaLaunchKernel"] and len(trace.ranks) == 1
    assert set(trace.skipped) == {"unknown tables: CUPTI_ACTIVITY_KIND_NOVELTY", "errors of Nsight Systems: CUPTI buffers overflowed"}


def check_nsys_versions():
    """A database with few columns, as old versions wrote, and with an id for a name that is absent."""
    path = WORK / "old #1?.sqlite"
    database = sqlite3.connect(path)
    database.executescript("""
        create table StringIds(id integer primary key, value text);
        create table META_DATA_EXPORT(name text, value text);
        insert into StringIds values (1, 'kernel'), (5, 'cudaLaunchKernel_ptsz_v7000'), (6, 'cuLaunchKernel_v2');
        create table CUPTI_ACTIVITY_KIND_KERNEL(start integer, end integer, deviceId integer, streamId integer,
            correlationId integer, globalPid integer, shortName integer);
        insert into CUPTI_ACTIVITY_KIND_KERNEL values (100, 150, 0, 7, 1, 281474976710656 + (33 << 24), 1),
            (160, 140, 0, 7, 2, 281474976710656 + (33 << 24), 99);
        create table CUPTI_ACTIVITY_KIND_RUNTIME(start integer, end integer, globalTid integer, correlationId integer, nameId integer);
        insert into CUPTI_ACTIVITY_KIND_RUNTIME values (90, 95, 281474976710656 + (33 << 24) + 34, 1, 5),
            (96, 97, 281474976710656 + (33 << 24) + 34, 2, 6);
        create table NVTX_EVENTS(start integer, end integer, eventType integer, text text, globalTid integer);
        insert into NVTX_EVENTS values (80, 200, 59, 'aten::mm, seq = 4, op_id = 2, sizes = [[2, 3], [3, 4]]', 281474976710656 + (33 << 24) + 34),
            (85, null, 59, 'never ends', 281474976710656 + (33 << 24) + 34), (90, 300, 60, 'process', 281474976710656 + (33 << 24) + 34);
        create table TARGET_INFO_GPU_METRICS(typeId integer, sourceId integer, typeName text, metricId integer, metricName text);
        insert into TARGET_INFO_GPU_METRICS values (256, 0, 'GA100', 1, 'SMs Active [Throughput %]'),
            (256, 0, 'GA100', 2, 'DRAM Read Bandwidth [Throughput %]'), (256, 0, 'GA100', 3, 'GPC Clock Frequency [MHz]'),
            (257, 0, 'GA100', 1, 'Tensor Active [Throughput %]'), (256, 0, 'GA100', 4, 'SMs Active [Avg]');
        create table GPU_METRICS(rawTimestamp integer, timestamp integer, typeId integer, metricId integer, value integer);
        insert into GPU_METRICS values (9, 110, 256, 1, 87), (9, 110, 256, 2, 50), (9, 110, 256, 3, 1980), (9, 120, 257, 1, 3),
            (9, 120, 256, 99, 1), (9, 120, 256, 4, 131);
        create view CUPTI_ACTIVITY_KIND_MEMCPY as select * from CUPTI_ACTIVITY_KIND_KERNEL;
    """)
    database.commit()
    database.close()
    trace = Trace(path)
    assert trace.names("kernel") == ["kernel"] and trace.skips("impossible times") == 1 and trace.skips("never end") == 1
    assert trace.names("call") == ["cudaLaunchKernel", "cuLaunchKernel_v2"] and not trace.of("copy")
    assert trace.of("operator")[0][7:] == ["aten::mm", "sequence=4 python=0 shapes=[[2, 3], [3, 4]] dtypes="]
    samples = sorted((e[7], e[2], int(e[3]) - int(trace.of("kernel")[0][3]), e[8]) for e in trace.of("counter"))
    assert samples == [("DRAM read bandwidth", "gpu0:-2", 10, "value=0.5 of=5"), ("GPC Clock Frequency [MHz]", "gpu0:-2", 10, "value=1980"),
                       ("SM active", "gpu0:-2", 10, "value=0.87 of=1"), ("SMs Active [Avg]", "gpu0:-2", 20, "value=131"),
                       ("tensor cores active", "gpu1:-2", 20, "value=0.029999999999999999 of=2")], samples
    assert trace.skips("metrics without a name") == 1
    assert trace.of("range")[0][4] == "210" and trace.of("call")[0][2] == "33/34"
    whole = path.read_bytes()
    (WORK / "cut.sqlite").write_bytes(whole[: len(whole) // 2])
    assert "SQLite" in Trace(WORK / "cut.sqlite", code=2).error
    empty = WORK / "empty.sqlite"
    database = sqlite3.connect(empty)
    database.execute("create table META_DATA_EXPORT(name text, value text)")
    database.commit()
    database.close()
    assert "--trace" in Trace(empty, code=2).error


assert DUMP, "trace_dump was not built"
check_json_oddities()
check_json_meaning()
check_refusals()
check_window()
check_ncu_pages()
check_nsys_versions()
check_nsys_suffixes()
check_xla()
check_categories()
if not REAL.is_dir():
    print(f"the files made here agree; {REAL} is not there: real ones were not compared")
    sys.exit(0)
for path in sorted(REAL.glob("kineto-*.json.gz")):
    check_real_json(path)
for path in sorted(REAL.glob("nsys-*.sqlite")):
    check_real_nsys(path)
for path in sorted(REAL.glob("ncu-raw*.csv")):
    check_real_ncu(path)
