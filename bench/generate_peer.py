#!/usr/bin/env python3
"""A language model on a CPU beside llama.cpp: prefill and decode, each in turn.

  generate_peer.py BUILD MODEL.gguf [--threads N] [--prompt N] [-n N] [--rounds N] [--text FILE] [--out FILE.md]

in:   BUILD/libheadroom.so, a GGUF file, llama-cpp-python (pip install llama-cpp-python builds llama.cpp for this machine)
out:  a table; with --out a page of it

Both get the same tokens, the same threads and a process of their own each time, which first does all of it once: what is
compiled, packed or mapped then is not counted. A round is one process of each, one after the other, the first one changing.
A figure is the median of the rounds, a ratio the median of the rounds' own ratios. The next token is the likeliest one.
Perplexity is of the text's first tokens, in pieces of 64. Take no figure of a busy machine: threads that wait for each
other lose all of what others run.
"""

import argparse
import ctypes
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

TEXT = """The history of the lighthouse begins with fires that were lit on hills, to guide mariners to ports. Later the fire was
placed on a platform to improve its visibility, and the practice led to the development of the lighthouse. In antiquity it
functioned more as an entrance marker to ports than as a warning signal for reefs and promontories, unlike many modern ones.
The most famous of them was the Pharos of Alexandria, built in the third century BC; 100 metres high, it was among the tallest
structures of the world for many centuries. It collapsed in a series of earthquakes between 956 and 1323. """
PIECE = 64  # rows of logits that both give at once


class Ours:
    name = "headroom"

    def __init__(self, options):
        self.library = ctypes.CDLL(str(Path(options.build) / "libheadroom.so"))
        self.library.hr_last_error.restype = ctypes.c_char_p

        class Options(ctypes.Structure):
            _fields_ = [("size", ctypes.c_size_t), ("text_path", ctypes.c_char_p), ("context", ctypes.c_int64), ("threads", ctypes.c_int)]

        self.device, self.model = ctypes.c_void_p(), ctypes.c_void_p()
        given = Options(ctypes.sizeof(Options), None, options.context, options.threads)
        self.done(self.library.hr_device_open(b"cpu", ctypes.byref(self.device)))
        self.done(self.library.hr_model_open(self.device, options.model.encode(), ctypes.byref(given), ctypes.byref(self.model)))

    def done(self, status):
        if status:
            raise SystemExit(self.library.hr_last_error().decode())

    def encode(self, text):
        tokens, count, raw = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t(), text.encode()
        self.done(self.library.hr_model_encode(self.model, raw, ctypes.c_size_t(len(raw)), 0, ctypes.byref(tokens), ctypes.byref(count)))
        return [tokens[i] for i in range(count.value)]

    def clear(self):
        self.done(self.library.hr_model_keep(self.model, ctypes.c_int64(0)))

    def feed(self, tokens, answers, vocabulary):
        given, logits = (ctypes.c_int32 * len(tokens))(*tokens), ctypes.POINTER(ctypes.c_float)()
        self.done(self.library.hr_model_feed(self.model, given, ctypes.c_int64(len(tokens)), ctypes.c_int64(answers), ctypes.byref(logits)))
        return np.ctypeslib.as_array(logits, (answers, vocabulary))


class Theirs:
    name = "llama.cpp"

    def __init__(self, options):
        import llama_cpp
        self.model = llama_cpp.Llama(options.model, n_ctx=options.context, n_threads=options.threads, n_threads_batch=options.threads,
                                     n_batch=512, logits_all=options.quality, verbose=False)
        self.version = llama_cpp.__version__

    def encode(self, text):
        return self.model.tokenize(text.encode(), add_bos=False, special=False)

    def clear(self):
        self.model.reset()

    def feed(self, tokens, answers, vocabulary):
        self.model.eval(tokens)
        if answers == 1:  # the others' rows are not kept
            import llama_cpp
            return np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(self.model.ctx, -1), (1, vocabulary))
        return self.model.scores[self.model.n_tokens - answers:self.model.n_tokens]


def perplexity(engine, tokens, vocabulary):
    rows = np.concatenate([np.array(engine.feed(tokens[at:at + PIECE], len(tokens[at:at + PIECE]), vocabulary), dtype=np.float64)
                           for at in range(0, len(tokens), PIECE)])[:-1]
    peak = rows.max(-1, keepdims=True)
    losses = np.log(np.exp(rows - peak).sum(-1)) + peak[:, 0] - rows[np.arange(len(rows)), tokens[1:]]
    return float(np.exp(losses.mean())), rows.argmax(-1).tolist()


def timed(engine, tokens, options):
    engine.clear()
    begin = time.perf_counter()
    token = int(engine.feed(tokens, 1, options.vocabulary)[0].argmax())
    first, made = time.perf_counter(), []
    for _ in range(options.n):
        made.append(token)
        token = int(engine.feed([token], 1, options.vocabulary)[0].argmax())
    return dict(prefill=len(tokens) / (first - begin), decode=options.n / (time.perf_counter() - first), tokens=made)


def worker(options):
    engine = {"headroom": Ours, "llama.cpp": Theirs}[options.engine](options)
    text = Path(options.text).read_text() if options.text else TEXT * (options.prompt // 100 + 1)
    tokens = engine.encode(text)[:options.prompt]
    if options.quality:
        found, likeliest = perplexity(engine, tokens, options.vocabulary)
        return dict(perplexity=found, likeliest=likeliest)
    timed(engine, tokens, options)
    return timed(engine, tokens, options) | dict(version=getattr(engine, "version", ""))


def start(options, name, *more):
    words = [sys.executable, __file__, options.build, options.model, "--engine", name, "--threads", str(options.threads), "-n", str(options.n),
             "--prompt", str(options.prompt), "--context", str(options.context), "--vocabulary", str(options.vocabulary), *more]
    if options.text:
        words += ["--text", options.text]
    return json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)


def floors(options):
    """A token's seconds over its floor, as the command says them, once a round."""
    words = [f"{options.build}/headroom", "generate", options.model, "The sea is", "--device", "cpu", "--threads", str(options.threads),
             "--temperature", "0", "-n", str(options.n), "--json"]
    runs = [json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
            for _ in range(options.rounds)]
    return [run["decode"]["headroom"] for run in runs]


def page(rounds, quality, over, options):
    ours, theirs = ([one[name] for one in rounds] for name in ("headroom", "llama.cpp"))
    lines = [f"{Path(options.model).name}, {options.threads} threads, {options.prompt} tokens read, {options.n} made, {len(rounds)} rounds in turn; "
             f"llama-cpp-python {theirs[0]['version']}; {datetime.date.today()}", "",
             "| | headroom | llama.cpp | ratio |", "|---|---|---|---|"]
    for what in ("prefill", "decode"):
        a, b = [one[what] for one in ours], [one[what] for one in theirs]
        ratio = statistics.median(x / y for x, y in zip(a, b))
        lines.append(f"| {what}, tokens/s | {statistics.median(a):.1f} | {statistics.median(b):.1f} | {ratio:.2f} |")
    lines.append(f"| a token's time over its floor (`headroom generate --json`) | {statistics.median(over):.2f} ({min(over):.2f} to {max(over):.2f}) | | |")
    lines.append(f"| perplexity of the first {options.prompt} tokens | {quality['headroom']['perplexity']:.4f} | {quality['llama.cpp']['perplexity']:.4f} | "
                 f"{quality['headroom']['perplexity'] / quality['llama.cpp']['perplexity']:.4f} |")
    same = np.mean([x == y for x, y in zip(quality["headroom"]["likeliest"], quality["llama.cpp"]["likeliest"])])
    lines += ["", f"The likeliest token is the same at {100 * same:.1f} % of the positions. Load when it began: {options.load:.2f}."]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--prompt", type=int, default=256, help="tokens that are read")
    parser.add_argument("-n", type=int, default=128, help="tokens that are made")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--text", help="what the prompt is taken from")
    parser.add_argument("--out")
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--quality", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        print(json.dumps(worker(options)))
        return
    options.load = os.getloadavg()[0]
    import llama_cpp
    options.vocabulary = llama_cpp.Llama(options.model, vocab_only=True, verbose=False).n_vocab()
    names = ["headroom", "llama.cpp"]
    quality = {name: start(options, name, "--quality") for name in names}
    rounds = [{name: start(options, name) for name in names[::1 if i % 2 == 0 else -1]} for i in range(options.rounds)]
    text = page(rounds, quality, floors(options), options)
    print(text)
    if options.out:
        Path(options.out).write_text("# A language model beside llama.cpp\n\n" + text + "\n")


if __name__ == "__main__":
    main()
