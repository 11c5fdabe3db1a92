#!/usr/bin/env python3
"""Tokens that a smaller model guesses change no text, and no probability. usage: BUILD SOURCE

Exit 77: NumPy is not installed.
"""
import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (pip install numpy)")
    sys.exit(77)

BUILD, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
sys.path.insert(0, str(SOURCE / "test/support"))
from miniature_model import Model, Options, PROGRESS, SAID, Sampling, load, miniature

WORK = Path(tempfile.mkdtemp())
os.environ["HEADROOM_CC"] = str(SOURCE / "test/support/cc_quick")
library = load(BUILD)
failed = 0


def check(good, what):
    global failed
    if not good:
        print("wrong:", what)
        failed = 1


def run(*words, code=0, text=None):
    done = subprocess.run([BUILD / "headroom", "generate", *map(str, words)], capture_output=True, input=text, encoding="utf-8", errors="replace")
    check(done.returncode == code, f"generate {' '.join(map(str, words[1:]))}: exit {done.returncode}: {done.stderr}")
    return done


# ---- a model that guesses ----

def test_drafts(path, other):
    """`other` is a model of other weights: it is wrong often; the same model is right."""
    for words in (("--temperature", 0), ("--temperature", 2, "--seed", 3, "--top-k", 8)):
        made = lambda *more: json.loads(run(path, "the sea", "-n", 40, "--json", *words, *more).stdout)
        plain, wrong, right = made(), made("--draft", other), made("--draft", path)
        check(plain["text"] == wrong["text"] == right["text"], f"{words}: guesses of a model change the text")
        decode = right["decode"]
        # as near as rounding allows: a step of five tokens adds up in another order
        check(decode["drafted"] - 3 <= decode["accepted"] > 20, f"{words}: a model that guesses for a copy of itself: {decode}")
        decode = wrong["decode"]
        check(decode["accepted"] < decode["drafted"], f"{words}: a model of other weights is never wrong: {decode}")
        check(len(right["kernels"]) >= len(plain["kernels"]) > 5, f"{words}: kernels of a step")
    few = WORK / "few.gguf"
    miniature(few, merges=("t h", "th e", "Ġ the", "i n", "Ġ a", "e n"))
    check("knows the same tokens" in run(path, "the sea", "--draft", few, code=2).stderr, "a model of other tokens")


def generated(model, tokens, seed, most, drafter=None, said=None):
    made = []
    options = Options(ctypes.sizeof(Options), most, Sampling(ctypes.sizeof(Sampling), 1.5, 6, 1, 0, seed), SAID(), None, PROGRESS(),
                      None, 3 if drafter else 0, drafter.model if drafter else None)
    collect = lambda context, text, length: made.append(text[:length]) or (said(options, len(made)) if said else True)
    options.said = SAID(collect)
    given, out = (ctypes.c_int32 * len(tokens))(*tokens), ctypes.create_string_buffer(256)
    status = library.hr_model_generate(model.model, given, ctypes.c_int64(len(tokens)), ctypes.byref(options), out)
    return status, b"".join(made)


def test_probabilities(model, drafter, tokens):
    """The second token by a step that checks guesses is drawn as often as its probability says: chi-squared."""
    logits, draws = model.feed(tokens, 1)[0], 400
    first = np.sort(logits)[-6:].min()
    kept = np.flatnonzero(logits >= first)
    weight = np.exp(logits[kept] / 1.5)
    weight /= weight.sum()
    wanted, seen = {}, {}
    for token, part in zip(kept, weight):
        after = model.feed([int(token)], 1)[0]
        model.keep(len(tokens))
        likely = np.flatnonzero(after >= np.sort(after)[-6:].min())
        shares = np.exp(after[likely] / 1.5)
        for next_token, share in zip(likely, shares / shares.sum()):
            name = model.raw([int(token)] if library.hr_model_token_ends(model.model, int(token)) else [int(token), int(next_token)])
            wanted[name] = wanted.get(name, 0) + part * share
    for seed in range(draws):
        status, text = generated(model, tokens, seed, 2, drafter)
        check(status == 0, f"seed {seed}: {library.hr_last_error()}")
        seen[text] = seen.get(text, 0) + 1
    check(set(seen) <= set(wanted), "a text that top_k leaves out is drawn")
    common = [name for name, share in wanted.items() if share * draws >= 5]
    rest = 1 - sum(wanted[name] for name in common)
    pairs = [(seen.get(name, 0), wanted[name] * draws) for name in common]
    pairs.append((draws - sum(count for count, _ in pairs), rest * draws))
    square, freedom = sum((count - share) ** 2 / share for count, share in pairs if share > 0), len(pairs) - 1
    # beyond the mean by 5 spreads: one right sampler in more than 10000 fails, and the seeds are the same each time
    check(freedom > 5 and square < freedom + 5 * (2 * freedom) ** 0.5, f"chi-squared is {square:.1f} at {freedom} degrees of freedom")


class Info(ctypes.Structure):
    _fields_ = [("family", ctypes.c_char_p), ("name", ctypes.c_char_p), ("layers", ctypes.c_int64), ("vocabulary", ctypes.c_int64),
                ("context", ctypes.c_int64), ("past", ctypes.c_int64), ("weight_bytes", ctypes.c_double), ("cache_bytes", ctypes.c_double),
                ("step_bytes", ctypes.c_double)]


def test_failing_sampler(model, drafter, tokens):
    """What was guessed is not in the context where drawing fails behind it."""
    def spoil(options, said):
        options.sampling.temperature = -1 if said == 2 else 1.5
        return True

    model.keep(0)
    status, _ = generated(model, tokens, 1, 10, drafter, spoil)
    check(status != 0 and b"temperature" in library.hr_last_error(), "a sampler that fails")
    info = Info()
    model.done(library.hr_model_info_get(model.model, ctypes.byref(info)))
    check(info.past <= len(tokens) + 2, f"the context holds {info.past} tokens behind a failure at token {len(tokens) + 2}")


path, other = WORK / "miniature.gguf", WORK / "other.gguf"
pairs, tensors = miniature(path)
changed = {name: tensors[name] for name in ("blk.1.attn_norm.weight", "blk.1.ffn_norm.weight")}
changed = {name: (form, shape, (2 * raw.view(np.float32)).view(np.uint8)) for name, (form, shape, raw) in changed.items()}
miniature(other, tensors=changed)
test_drafts(path, other)
count = len(pairs["tokenizer.ggml.tokens"])
model, drafter = Model(path, count), Model(other, count)
test_probabilities(model, drafter, [5, 6, 7])
test_failing_sampler(model, drafter, [5, 6, 7])
drafter.close()
model.close()
sys.exit(failed)
