#!/usr/bin/env python3
"""The page and the Perfetto export of a diagnosis: well-formed, self-contained, nothing of a trace taken for
markup, and the numbers are the trace's. usage: BUILD SOURCE"""

import json
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

HEADROOM, SOURCE = Path(sys.argv[1]) / "headroom", Path(sys.argv[2])
FOLDER = tempfile.TemporaryDirectory()
WORK = Path(FOLDER.name)
HOSTILE = "k</script><b>&\"'\\ü"
STEPS, KERNELS = 6, 40


def events():
    """Steps of 1 ms: each launches small kernels, one of them with a name that is out for trouble."""
    link = 0
    for step in range(STEPS):
        at = 1000.0 + step * 1000
        yield {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1, "ts": at, "dur": 999}
        for i in range(KERNELS):
            link += 1
            yield {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + i * 20,
                   "dur": 15, "args": {"correlation": link}}
            yield {"ph": "X", "cat": "kernel", "name": HOSTILE if i == 3 else f"elementwise_kernel_{i % 5}", "pid": 0, "tid": 7,
                   "ts": at + i * 20 + 12.5, "dur": 3.25, "args": {"correlation": link, "device": 0, "stream": 7,
                   "grid": [8, 1, 1], "block": [64, 1, 1], "registers per thread": 16}}


class Page(HTMLParser):
    EMPTY = {"meta", "br", "line", "circle", "path", "rect"}

    def __init__(self, text):
        super().__init__()
        self.open, self.scripts, self.words, self.tags, self.attributes = [], [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        # what HTML lets one leave open
        while self.open[-1] != tag and self.open[-1] in ("p", "li", "td", "tr", "th"):
            self.open.pop()
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif "style" not in self.open:
            self.words.append(data)


trace = WORK / "trace.json"
trace.write_text(json.dumps({"traceEvents": list(events())}))
page, perfetto = WORK / "page.html", WORK / "perfetto.json"
command = [HEADROOM, "diagnose", trace, "--json", "--html", page, "--perfetto", perfetto]
result = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

# ---- the page ----
text = page.read_text()
parsed = Page(text)
assert not any(name in ("src", "href") for name, _ in parsed.attributes), "the page fetches something"
assert "http" not in re.sub(r"http://www.w3.org/2000/svg", "", text), "the page names an address"
assert ("title", HOSTILE) in parsed.attributes, "the name is not shown as it is"
data = json.loads(parsed.scripts[0])
assert len(parsed.scripts) == 2 and "</script" not in parsed.scripts[1]
assert data["step"] == 10**6 or abs(data["step"] - 10**6) < 10**5, data["step"]
assert HOSTILE in data["names"]
titles = [track["title"] for track in data["tracks"]]
assert titles == ["thread 1", "gpu 0 · stream 7"], titles
for track in data["tracks"]:
    lengths = {key: len(values) for key, values in track.items() if isinstance(values, list)}
    assert set(lengths) == set("sdnklic") and len(set(lengths.values())) == 1, lengths
    start = 0
    for i, (difference, duration) in enumerate(zip(track["s"], track["d"])):
        start += difference
        assert duration >= 0 and start < data["length"] and start + duration > 0
        assert data["names"][track["n"][i]] and track["k"][i] < 32
device = data["tracks"][1]
assert KERNELS <= len(device["d"]) <= KERNELS + 4 and set(device["d"]) == {3250}
assert set(device["c"]) <= set(data["tracks"][0]["c"]), "a kernel whose call is not drawn"
ends = [start + duration for start, duration, _ in data["path"]]
assert ends[:-1] == [piece[0] for piece in data["path"][1:]], "the critical path has gaps"
assert len(data["findings"]) == len(result["findings"])
for places in data["findings"]:
    assert all(i < len(data["tracks"][track]["d"]) for track, i in places)
for finding in result["findings"]:
    assert finding["id"] in "".join(parsed.words)

# ---- whose step it is, and that a small gain comes first of nothing ----
small = WORK / "small.html"
subprocess.run([HEADROOM, "diagnose", SOURCE / "test/cases/diagnose/unknown-kernels/names.json", "--html", small], check=True, capture_output=True)
shown = small.read_text()
assert shown.count("<span class='whose'>rank 0, gpu 0</span>") == 2, "bar and timeline do not say whose they are"
assert "class='gain poor'" not in shown + text
subprocess.run([HEADROOM, "diagnose", SOURCE / "test/cases/diagnose/nsys-suffixed-tables/suffixed.sqlite", "--html", small], check=True, capture_output=True)
assert "Do this first" not in small.read_text() and "No remedy gains much; the best, 0." in small.read_text()
assert "Do this first" in text and "<b class='good'>−" in text
kinds = re.findall(r"--k(\d+): var\((--kind-[a-z-]+)\)", shown)
assert len(kinds) == len(data["kinds"]) and all(shown.count(name + ":") == 2 for _, name in kinds), "a kind without a colour in each theme"

# ---- for Perfetto ----
exported = json.loads(perfetto.read_text())
slices = [event for event in exported["traceEvents"] if event["ph"] == "X"]
own = {e["pid"] for e in exported["traceEvents"] if e["ph"] == "M" and e["name"] == "process_name" and e["args"]["name"] == "headroom"}
assert len(own) == 1
of_trace = [event for event in slices if event["pid"] not in own]
expected = sorted((e["name"], round(e["ts"] * 1000) - 10**6, round(e["dur"] * 1000)) for e in events())
assert sorted((e["name"], round(e["ts"] * 1000), round(e["dur"] * 1000)) for e in of_trace) == expected
begun = {event["id"] for event in exported["traceEvents"] if event["ph"] == "s"}
ended = {event["id"] for event in exported["traceEvents"] if event["ph"] == "f"}
assert begun == ended and len(begun) == STEPS * KERNELS
threads = [e["args"]["name"] for e in exported["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name" and e["pid"] in own]
assert threads[0] == "critical path"
path = sorted((e["ts"], e["dur"]) for e in slices if e["pid"] in own and e["tid"] == 1)
assert len(path) == len(data["path"]) and abs(sum(d for _, d in path) - (path[-1][0] + path[-1][1] - path[0][0])) < 0.01
assert exported["headroom"]["verdict"]

# ---- slices of one track nest or follow each other, whatever the trace has ----
def overlaps(events):
    """Slices that Perfetto would drop: those that leave what is open around them."""
    found, tracks = 0, {}
    for event in events:
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            tracks.setdefault((event["pid"], event["tid"]), []).append((start, -(start + round(event["dur"] * 1000))))
    for slices in tracks.values():
        open_ends = []
        for start, end in sorted(slices):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            found += bool(open_ends) and -end > open_ends[-1]
            open_ends.append(-end)
    return found


slices_of = lambda document: sum(event["ph"] == "X" for event in document["traceEvents"])
assert not overlaps(exported["traceEvents"])
overlapping = SOURCE / "test/cases/diagnose/perfetto-overlap/overlap.json"
assert overlaps(json.loads(overlapping.read_text())["traceEvents"]) > 5
subprocess.run([HEADROOM, "diagnose", overlapping, "--perfetto", perfetto], check=True, capture_output=True)
exported = json.loads(perfetto.read_text())
kernels = [e for e in exported["traceEvents"] if e["ph"] == "X" and e["name"].startswith("gemm_k") and e["pid"] not in own]
assert not overlaps(exported["traceEvents"]) and len(kernels) == sum(e.get("cat") == "kernel" for e in json.loads(overlapping.read_text())["traceEvents"])
names = [e["args"]["name"] for e in exported["traceEvents"] if e["ph"] == "M" and e["name"] == "thread_name"]
assert "stream 7" in names and "stream 7 (row 2)" in names, names
for real in sorted((SOURCE / "../shared/traces").glob("*-rank0.json.gz")):  # where that folder is
    subprocess.run([HEADROOM, "diagnose", real, "--perfetto", perfetto], check=True, capture_output=True)
    assert not overlaps(json.loads(perfetto.read_text())["traceEvents"]), real

# ---- before and after, and a file that cannot be written ----
subprocess.run([HEADROOM, "diagnose", "--compare", trace, trace, "--html", page], check=True, capture_output=True)
assert "Before and after" in "".join(Page(page.read_text()).words)
failed = subprocess.run([HEADROOM, "diagnose", trace, "--html", WORK / "absent" / "page.html"], capture_output=True, text=True)
assert failed.returncode == 2 and "absent" in failed.stderr, failed
