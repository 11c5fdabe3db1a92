#!/usr/bin/env python3
"""Tokens that a smaller model guesses change no text, and no probability; a request gives the same bits whatever runs
beside it. usage: BUILD SOURCE

Exit 77: NumPy is not installed.
"""
import ctypes
import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[2]) / "test/support"))
from miniature_model import (BatchOptions, BatchTotals, FORMATS, Model, Options, PROGRESS, Request, Response, SAID, SOURCE, Sampling, WORK,
                             check, failed, library, miniature, run)
import numpy as np

# few formats, so that little has to be compiled: whole-number dots alone, and beside them products of numbers
DOTS = {name: ("q4_1", "q4_1") for name in FORMATS}
MIXED = DOTS | dict(ffn_down=("q4_1", "f16"))


# ---- a model that guesses ----

def test_drafts(path, other):
    """`other` is a model of other weights: it is wrong often; the same model is right."""
    for words in (("--temperature", 0), ("--temperature", 2, "--seed", 3, "--top-k", 8)):
        made = lambda *more: json.loads(run(path, "the sea", "-n", 32, "--json", *words, *more).stdout)
        plain, wrong, right = made(), made("--draft", other), made("--draft", path)
        check(plain["text"] == wrong["text"] == right["text"], f"{words}: guesses of a model change the text")
        decode = right["decode"]
        # but for the guesses behind the last token, and rounding: a step of five tokens adds up in another order
        check(decode["drafted"] - 7 <= decode["accepted"] > 15, f"{words}: a model that guesses for a copy of itself: {decode}")
        decode = wrong["decode"]
        check(decode["accepted"] < decode["drafted"], f"{words}: a model of other weights is never wrong: {decode}")
        check(len(right["kernels"]) >= len(plain["kernels"]) > 5, f"{words}: kernels of a step")
    wide = WORK / "wide.gguf"
    miniature(wide, formats=DOTS, pairs={"llama.context_length": 2.0**38})  # a cache that no memory holds
    check(made("--draft", wide, "--context", 40)["text"] == plain["text"], "a drafter takes --context")
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
    logits, draws = model.feed(tokens, 1)[0], 240
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
    check(freedom >= 5 and square < freedom + 5 * (2 * freedom) ** 0.5, f"chi-squared is {square:.1f} at {freedom} degrees of freedom")


class Generation(ctypes.Structure):
    _fields_ = [("prompt_tokens", ctypes.c_int64), ("fed_tokens", ctypes.c_int64), ("tokens", ctypes.c_int64), ("prompt_seconds", ctypes.c_double),
                ("seconds", ctypes.c_double), ("end", ctypes.c_int), ("drafted", ctypes.c_int64), ("accepted", ctypes.c_int64)]


def test_same_bits(name, formats):
    """What right guesses leave in the context is what steps of one token leave there, to the last bit."""
    path, texts, bits = WORK / f"bits-{name}.gguf", [], []
    count = len(miniature(path, formats=formats)[0]["tokenizer.ggml.tokens"])
    for draft in (0, 4):
        model, drafter, made = Model(path, count), Model(path, count), []
        said = SAID(lambda context, text, length: made.append(text[:length]) or True)
        options = Options(ctypes.sizeof(Options), 24, Sampling(ctypes.sizeof(Sampling)), said, None, PROGRESS(), None, draft, drafter.model if draft else None)
        generation = Generation()
        model.done(library.hr_model_generate(model.model, (ctypes.c_int32 * 3)(5, 6, 7), ctypes.c_int64(3), ctypes.byref(options), ctypes.byref(generation)))
        check(draft == 0 or generation.accepted > 12, f"{name}: {generation.accepted} of {generation.drafted} guesses are right")
        texts.append(b"".join(made))
        bits.append(model.feed([7], 1))
        drafter.close()
        model.close()
    check(texts[0] == texts[1] and (bits[0] == bits[1]).all(), f"{name}: the context is another with guesses than without")


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


# ---- many requests ----

def respond(model, requests, at_once, chunk):
    """Of (tokens, most, temperature, seed) each: tokens and their log-probability to the last bit, tokens reused; the totals."""
    given, out, totals = (Request * len(requests))(), (Response * len(requests))(), BatchTotals()
    for request, (tokens, most, temperature, seed) in zip(given, requests):
        request.size, request.count, request.most = ctypes.sizeof(Request), len(tokens), most
        request.tokens = (ctypes.c_int32 * len(tokens))(*tokens)
        request.sampling = Sampling(ctypes.sizeof(Sampling), temperature, 0, 1, 0, seed)
    options = BatchOptions(ctypes.sizeof(BatchOptions), at_once, chunk, PROGRESS(), None)
    model.done(library.hr_model_respond(model.model, given, len(requests), ctypes.byref(options), out, ctypes.byref(totals)))
    made = [([one.tokens[i] for i in range(one.count)], one.log_probability.hex()) for one in out]
    reused = [one.reused for one in out]
    check(all(0 < one.first_seconds <= one.seconds <= totals.seconds for one in out), "times of responses")
    library.hr_responses_destroy(out, len(requests))
    return made, reused, totals


def prompts_of(count):
    """Of up to three pages; some begin alike."""
    random = np.random.default_rng(17)
    tokens = lambda most: [int(token) for token in random.integers(0, count - 2, most)]
    begin = tokens(36)
    prompts = [begin[:2], begin[:20] + tokens(3), begin, tokens(1), begin[:33] + tokens(9), begin]
    return [(prompt, 5 + i % 3, 0 if i % 2 else 2, i) for i, prompt in enumerate(prompts)]


def test_requests(name, formats, splits):
    path = WORK / f"{name}.gguf"
    pairs, _ = miniature(path, formats=formats, pairs={"llama.context_length": 512})
    count = len(pairs["tokenizer.ggml.tokens"])
    requests, model = prompts_of(count), Model(path, count)
    alone = [respond(model, [request], 1, 0)[0][0] for request in requests]
    lengths = [len(made) for made, _ in alone]
    check(min(lengths) > 3, f"{name}: texts of requests: {lengths}")
    for at_once, chunk in splits:
        made, reused, totals = respond(model, requests, at_once, chunk)
        check(made == alone, f"{name}: {at_once} at once, {chunk} tokens a step: {[a == b for a, b in zip(made, alone)]}")
        check(totals.tokens == sum(lengths) and totals.reused == sum(reused) and totals.prompt_tokens == sum(len(request[0]) for request in requests),
              f"{name}: totals of {at_once}, {chunk}")
        check(totals.preempted == 0 and totals.rows + totals.reused >= totals.prompt_tokens, f"{name}: rows of {at_once}, {chunk}")
    made, reused, totals = respond(model, requests, 1, 0)
    check(made == alone and reused == [0, 0, 16, 0, 32, 32], f"{name}: beginnings that were read before: {reused}")
    model.close()
    return path, count, alone


def test_scarce(path, count, alone):
    """One thread; and a context that holds one long request, or a few short ones."""
    for threads, context in ((1, 512), (0, 64)):
        model = Model(path, count, context, threads)
        made, _, totals = respond(model, prompts_of(count), 8, 0)
        check(made == alone, f"{threads} threads, a context of {context}: {[a == b for a, b in zip(made, alone)]}")
        check(totals.preempted == 0, f"a context of {context}: {totals.preempted} preempted")
        model.close()
    random = np.random.default_rng(5)
    growing = [([int(token) for token in random.integers(0, count - 2, 17)], 30, 2, seed) for seed in (3, 4)]
    model = Model(path, count, 64)
    alone = [respond(model, [request], 1, 0)[0][0] for request in growing]
    made, _, totals = respond(model, growing, 2, 0)
    check(made == alone and totals.preempted > 0, f"two that grow beyond four pages: {totals.preempted} preempted, {[a == b for a, b in zip(made, alone)]}")
    model.close()


def test_windows():
    """A layer that sees the last tokens alone: a request's tokens and their probability are those of a text by itself."""
    for name in ("mistral", "gemma3"):
        model, prompt, most = Model(SOURCE / f"test/cases/models/{name}", 48), list(range(1, 18)), 4
        logits, tokens = model.feed(prompt, 1)[0], []
        wanted = 0.0
        while len(tokens) < most:
            tokens.append(int(logits.argmax()))
            wanted += logits.max() - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
            logits = model.feed(tokens[-1:], 1)[0]
        model.keep(0)
        for (made, probability) in respond(model, [(prompt, most, 0, 1), (prompt[:3], 2, 0, 2), (prompt, most, 0, 3)], 3, 5)[0][::2]:
            check(made == tokens and abs(float.fromhex(probability) - wanted) < 1e-3, f"{name}: {made} at {float.fromhex(probability)}, should be {tokens} at {wanted}")
        model.close()


def test_requests_file(path):
    lines = [dict(prompt="the sea", n=5, temperature=0), dict(prompt="the sea the tea", n=7, seed=3), dict(chat="hello", n=3, top_k=2), dict(prompt="x")]
    file = WORK / "requests.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n\n")
    done = run(path, "--requests", file, "-n", 4)
    made = [json.loads(line) for line in done.stdout.splitlines()]
    check([one["request"] for one in made] == [0, 1, 2, 3] and [one["tokens"] <= n for one, n in zip(made, (5, 7, 3, 4))] == [True] * 4,
          f"responses: {made}")
    check(all(one["end"] in ("most", "stop") and one["seconds"] > 0 for one in made), f"ends of responses: {made}")
    check("p50" in done.stderr and "p99" in done.stderr and "tokens/s" in done.stderr, f"the report: {done.stderr}")
    one = json.loads(run(path, "the sea", "-n", 5, "--temperature", 0, "--json").stdout)
    check(one["text"] == made[0]["text"], "a request goes on as the text alone")
    for what, text in (("is not known", '{"prompt": "x", "tempreture": 1}'), (":2:", '{"prompt": "x"}\n{'), ("is missing", "{}"), ("no JSON object", "[]"),
                       ("holds no request", "\n"), ("second text", '{"prompt": "x", "chat": "y"}'), ("no number", '{"prompt": "x", "top_p": 2}'),
                       ("whole number", '{"prompt": "x", "n": -1}'), ("no room", json.dumps(dict(prompt="word " * 60)))):
        file.write_text(text)
        said = run(path, "--requests", file, code=2).stderr
        check(what in said, f"{text}: {said}")
    check("no --chat" in run(path, "--requests", file, "--chat", code=2).stderr, "--requests with --chat")
    file.write_text('{"prompt": "x"}')
    check("up to 64" in run(path, "--requests", file, "--at-once", 65, code=2).stderr, "too many at once")


path, other = WORK / "miniature.gguf", WORK / "other.gguf"
pairs, tensors = miniature(path, formats=DOTS)
changed = {name: tensors[name] for name in ("blk.1.attn_norm.weight", "blk.1.ffn_norm.weight")}
changed = {name: (form, shape, (2 * raw.view(np.float32)).view(np.uint8)) for name, (form, shape, raw) in changed.items()}
miniature(other, formats=DOTS, tensors=changed)
test_drafts(path, other)
count = len(pairs["tokenizer.ggml.tokens"])
model, drafter = (Model(file, count, threads=1) for file in (path, other))  # of steps so small others would only be waited for
test_probabilities(model, drafter, [5, 6, 7])
test_failing_sampler(model, drafter, [5, 6, 7])
drafter.close()
model.close()
if "HR_TEST_LONG" in os.environ:
    test_requests("mixed", MIXED, ((6, 0), (2, 8)))
test_scarce(*test_requests("dots", DOTS, ((2, 5),)))
test_same_bits("dots", DOTS)
test_same_bits("mixed", MIXED)
test_windows()
test_requests_file(path)
sys.exit(bool(failed))
