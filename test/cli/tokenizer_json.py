#!/usr/bin/env python3
"""A folder of config.json, model.safetensors and tokenizer.json runs, and its texts become the tokens that Hugging Face's
tokenizers make of them. usage: BUILD SOURCE

Exit 77: NumPy is not installed. Where `tokenizers` can be imported, it reads the same files; else what it made stands in
test/cases/tokenizer.
"""
import json
import sys
from pathlib import Path

try:
    import tokenizers
except ImportError:
    tokenizers = None

sys.path.insert(0, str(Path(sys.argv[2]) / "test/support"))
from miniature_model import (Model, SOURCE, WIDTH, WORK, check, failed, folder_arrays, miniature, run, write_config,
                             write_safetensors)
import family_forward
import numpy as np

# ---- files ----

CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LETTERS = r"[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True)


def sequence(*parts):
    return dict(type="Sequence", pretokenizers=list(parts))


def split(pattern):
    return dict(type="Split", pattern=dict(Regex=pattern), behavior="Isolated", invert=False)


RULES = {
    "gpt-2": BYTES | dict(use_regex=True),
    "llama-bpe": sequence(split(f"{CONTRACTIONS}|{LETTERS}|\\p{{N}}{{1,3}}|{REST}"), BYTES | dict(use_regex=False)),
    "qwen2": sequence(split(f"{CONTRACTIONS}|{LETTERS}|\\p{{N}}|{REST}"), BYTES | dict(use_regex=False)),
    "smollm": sequence(dict(type="Digits", individual_digits=True), BYTES | dict(use_regex=True)),
}


def description(tokens, merges, added, model={}, **more):
    """tokenizer.json; tokens without names are left out."""
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[
        dict(id=number, content=name, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True) for name, number in added.items()],
        normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None,
        model=dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
                   byte_fallback=False, ignore_merges=False, vocab={token: i for i, token in enumerate(tokens)}, merges=merges) | model) | more


family = None


def write_folder(name, described, settings=None, **config):
    """The miniature's weights, with an embedding of as many rows as there are tokens."""
    global family
    if not family:
        family = family_forward.Llama(*miniature(WORK / "miniature.gguf"), rounds=False)
    folder, (layers, others) = WORK / name, folder_arrays(family)
    count = len(set(described["model"]["vocab"]) | {token["content"] for token in described["added_tokens"]})
    folder.mkdir(exist_ok=True)
    others["model.embed_tokens.weight"] = np.random.default_rng(3).standard_normal((count, WIDTH))
    write_safetensors(folder / "model.safetensors", layers | others)
    write_config(folder, **config)
    (folder / "tokenizer.json").write_text(json.dumps(described))
    if settings:
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder, count


# ---- texts ----

def mixed_text(seed):
    """Words, digits, marks, spaces, lines, letters of many scripts, what is no letter."""
    random = np.random.default_rng(seed)
    parts = ["the", "The", " then", "  ", "\n", "\n\n", "\t", " \r\n", "1", "123", "2024", "'s", "'LL", " don't", "naïve", "Ελλάς", "日本語", "ไทย",
             "🙂", "é", "²", "Ⅷ", " ", "…", "--", "(x)", "<", "|>", "a_b", "İ", "ß", " ", "٣٤"]
    return "".join(parts[i] for i in random.integers(0, len(parts), 400))


def compare(name, folder, count, texts, expected, special=0):
    model = Model(folder, count)
    peer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json")) if tokenizers else None
    for text, ids in zip(texts, expected):
        got = model.encode(text, special)
        check(got == ids, f"{name}: {text!r}: {got}, should be {ids}")
    for seed in range(8 if peer else 0):
        text = mixed_text(seed)
        check(model.encode(text, special) == peer.encode(text, add_special_tokens=False).ids, f"{name}: a mixed text of seed {seed}")
    return model


def test_bytes():
    held = json.loads((SOURCE / "test/cases/tokenizer/merges.json").read_text())
    for style, expected in held["expected"].items():
        pairs = [merge.split(" ") for merge in held["merges"]]  # both ways that files write them
        described = description(held["tokens"], pairs if style == "qwen2" else held["merges"], {}, pre_tokenizer=RULES[style],
                                normalizer=dict(type="NFC") if style == "qwen2" else None,
                                model=dict(ignore_merges=style == "llama-bpe"))
        folder, count = write_folder(style, described)
        compare(style, folder, count, held["texts"], expected).close()


def test_pieces():
    """SentencePiece's vocabulary as its converter writes it: every pair of pieces that is one, by the score of that."""
    held = json.loads((SOURCE / "test/cases/tokenizer/scores.json").read_text())
    normal = {token: score for token, score, kind in zip(held["tokens"], held["scores"], held["kinds"]) if kind == 1}
    merges = [(-score, len(token[:i]), token[:i], token[i:]) for token, score in normal.items() for i in range(1, len(token))
              if token[:i] in normal and token[i:] in normal]
    added = {token: i for i, (token, kind) in enumerate(zip(held["tokens"], held["kinds"])) if kind in (2, 3)}
    described = description(held["tokens"], [f"{left} {right}" for _, _, left, right in sorted(merges)], added,
                            model=dict(byte_fallback=True, unk_token="<unk>", fuse_unk=True),
                            normalizer=dict(type="Sequence", normalizers=[dict(type="Prepend", prepend="▁"),
                                                                          dict(type="Replace", pattern=dict(String=" "), content="▁")]),
                            post_processor=dict(type="TemplateProcessing", single=[dict(SpecialToken=dict(id="<s>", type_id=0)),
                                                                                   dict(Sequence=dict(id="A", type_id=0))],
                                                pair=[dict(Sequence=dict(id="A", type_id=0))], special_tokens={"<s>": dict(id="<s>", ids=[1], tokens=["<s>"])}))
    folder, count = write_folder("pieces", described)
    model = compare("pieces", folder, count, held["texts"], held["expected"])
    check(model.library.hr_model_begin_token(model.model) == 1, "what a text begins with")
    for text, ids in zip(held["texts"], held["expected"]):
        check(model.text(ids) == " " + text, f"pieces: {text!r} comes back as {model.text(ids)!r}")
    model.close()


# ---- the command ----

def test_command():
    held = json.loads((SOURCE / "test/cases/tokenizer/merges.json").read_text())
    count = len(held["tokens"])
    added = {"<|im_start|>": count, "<|im_end|>": count + 1}
    described = description(held["tokens"], held["merges"], added, pre_tokenizer=RULES["smollm"])
    template = "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}"
    folder, rows = write_folder("whole", described, dict(eos_token="<|im_end|>", chat_template=template), eos_token_id=[count + 1, 0])
    said = json.loads(run(folder, "the sea", "-n", 8, "--temperature", 0, "--json").stdout)
    check(said["decode"]["tokens"] == 8 or said["end"] == "stop", f"a folder goes on with a text: {said['decode']} {said['end']}")
    check(said["prefill"]["tokens"] > 0, "tokens of a text")
    run(folder, "--chat", "hello", "-n", 2)
    model = Model(folder, rows)
    first = int(model.feed(model.encode("the sea", 0), 1).argmax())
    model.close()
    config = json.loads((folder / "config.json").read_text())
    for ends, how in (([count, count + 1, first], "stop"), ([count, count + 1], "most")):
        (folder / "config.json").write_text(json.dumps(config | dict(eos_token_id=ends)))
        end = json.loads(run(folder, "the sea", "-n", 1, "--temperature", 0, "--json").stdout)["end"]
        check(end == how, f"tokens {ends} end a text, {first} is the first: {end}")
    (folder / "config.json").write_text(json.dumps(config))
    for what, changed in (("no BPE", dict(model=dict(type="Unigram", vocab=[]))),
                          ("normalizer", dict(normalizer=dict(type="Lowercase"))),
                          ("splits texts", dict(pre_tokenizer=sequence(split("[a-z]+"), BYTES | dict(use_regex=False)))),
                          ("splits texts into words", dict(pre_tokenizer=None)),
                          ("beyond those of all", dict(added_tokens=[dict(id=2**31, content="<x>", special=True)])),
                          ("no two tokens", dict(model=described["model"] | dict(merges=[["a"]])))):
        (folder / "tokenizer.json").write_text(json.dumps(described | changed))
        said = run(folder, "x", code=2).stderr
        check(what in said, f"{what}: {said}")
    (folder / "tokenizer.json").write_text("{")
    check("tokenizer.json" in run(folder, "x", code=2).stderr, "JSON that is cut short")


test_bytes()
test_pieces()
test_command()
if not tokenizers:
    print("tokenizers is not installed: only what it made once was compared (pip install tokenizers)")
sys.exit(bool(failed))
