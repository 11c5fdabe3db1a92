#!/usr/bin/env python3
"""headroom generate --device cuda: logits of random miniature models against NumPy in f64, by steps of several tokens and
of one; the same tokens as on the CPU. On the GPU of this machine; where there is none, every kernel of a step runs in the
emulator, which takes minutes: HR_TEST_LONG, but for the first test. usage: BUILD SOURCE

Exit 77: NumPy is not installed, or neither a GPU nor the time is there.
"""
import ctypes
import json
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[2]) / "test/support"))
from miniature_model import BUILD, FORMATS, Model, Sampling, SOURCE, WORK, check, failed, folder_arrays, library, miniature, read_safetensors, run, write_config, write_safetensors
import family_forward
import gguf_files
import numpy as np

HALF = 5e-3  # keys, values and scores of 16 bits
BLOCKS = 8e-3  # and what weights in blocks are multiplied with


def has_gpu():
    device = ctypes.c_void_p()
    good = library.hr_device_open(b"cuda", ctypes.byref(device)) == 0
    if good:
        library.hr_device_destroy(device)
    return good


def compare(path, vocabulary, family, what, most=HALF, first=5):
    """`first` tokens by one step, then one by one."""
    tokens = [int(token) for token in np.random.default_rng(7).integers(0, vocabulary - 2, first + 4)]
    wanted = family.logits(tokens)[-9:]
    model = Model(path, vocabulary, device="cuda")
    got = [model.feed(tokens[:first], 5)] + [model.feed([token], 1) for token in tokens[first:]]
    model.keep(first + 1)
    again = model.feed(tokens[first + 1:first + 2], 1)
    model.close()
    error = np.abs(np.concatenate(got) - wanted).max() / wanted.std()
    print(f"{what}, {first} tokens: logits within {error:.2g} of their spread", flush=True)
    check(error < most, f"{what}, {first} tokens: logits are {error:.2g} of their spread away from those of f64")
    check((again == got[2]).all(), f"{what}: the token behind a shorter context has other logits than before")


CLEAR = """
model clear
{
    gguf clear
    extent S = clear.context_length
    extent C = clear.embedding_length
    weight embedding[V, C] = token_embd.weight
    cache held[V, C]

    step {
        logits = whole(embedding, held)
    }
}

kernel whole_cached(w: W[V, C], held: f16[V, C], position: i32[T]) -> (y: f32[T, V])
{
    y[t, v] = w[v, position[t]] * sum[c](held[v, c])
}
"""


def test_clear():
    """Nobody wrote to a cache of more than a MB, and its sums are 0: a step reads beside a context what was never written."""
    path, text = WORK / "clear.gguf", WORK / "clear.hr"
    pairs, _ = miniature(path)
    vocabulary, width = len(pairs["tokenizer.ggml.tokens"]), 3000
    pairs = {key: value for key, value in pairs.items() if not key.startswith("llama.")} | {
        "general.architecture": "clear", "clear.context_length": 8, "clear.embedding_length": width}
    gguf_files.write(path, pairs, {"token_embd.weight": ("f16", (vocabulary, width), np.ones(vocabulary * width, np.float16).view(np.uint8))})
    text.write_text(CLEAR)
    model = Model(path, vocabulary, device="cuda", text=text)
    check((model.feed([0], 1) == 0).all(), "a model's cache does not begin as zeros")
    model.close()


def sampled(model, logits, temperature, top_k, top_p, min_p, seed, position):
    sampling = Sampling(ctypes.sizeof(Sampling), temperature, top_k, top_p, min_p, seed)
    row, token = (ctypes.c_float * len(logits))(*logits), ctypes.c_int32(-1)
    model.done(library.hr_model_sample(model.model, row, ctypes.byref(sampling), ctypes.c_int64(position), ctypes.byref(token)))
    return token.value


def test_sampling(path, vocabulary):
    """The same tokens as on a CPU, whose host sorts: likely ones, equal ones, far ones, none that are numbers."""
    random = np.random.default_rng(3)
    here, there = Model(path, vocabulary), Model(path, vocabulary, device="cuda")
    plain = random.standard_normal(vocabulary).astype(np.float32)
    rows = {"plain": 3 * plain, "equals": np.round(plain), "one far": np.where(np.arange(vocabulary) == 7, np.float32(1e30), plain),
            "tiny": plain * np.float32(1e-38), "masked": np.where(plain > 0.5, plain, -np.inf), "not numbers": np.where(plain > 0.5, np.nan, 2 * plain),
            "only masked": np.full(vocabulary, -np.inf), "one infinite": np.where(np.arange(vocabulary) == 9, np.inf, plain)}
    ways = [(0, 0, 0, 0), (0.8, 40, 0.95, 0.05), (1, 0, 0, 0), (1, 5, 1, 0), (1, 0, 0.6, 0), (2, 1, 0.5, 0), (1, vocabulary - 1, 0.999, 0), (1, 0, 0, 0.3), (5, 3, 1e-9, 0)]
    for name, row in rows.items():
        for way in ways:
            for position in (0, 77, 1 << 40):
                wanted, got = (sampled(model, row.astype(np.float32), *way, 11, position) for model in (here, there))
                check(wanted == got, f"{name}, sampled by {way} at {position}: {got} on a GPU, {wanted} on a CPU")
    here.close()
    there.close()


def test_requests(path):
    """At once, in pages: the tokens of a CPU."""
    lines = [dict(prompt="the in" + " the" * (i % 3), n=3 + i % 3, temperature=0 if i % 2 else 0.9, seed=i) for i in range(4)]
    file = WORK / "cuda.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\n")
    given = lambda device: [json.loads(line) for line in run(path, "--requests", file, "--chunk", 32, "--device", device).stdout.splitlines()]
    ours, theirs = given("cuda"), given("cpu")
    check([one["text"] for one in ours] == [one["text"] for one in theirs], f"requests on a GPU: {ours}, on a CPU: {theirs}")
    return lines, ours


def test_company(path):
    """The same bits whatever runs beside a request: a long one, prompts that begin alike."""
    lines, ours = test_requests(path)
    file = WORK / "alone.jsonl"
    for line, one in list(zip(lines, ours))[1:3]:
        file.write_text(json.dumps(line) + "\n")
        alone = json.loads(run(path, "--requests", file, "--chunk", 32, "--device", "cuda").stdout)
        check((alone["text"], alone["log_probability"]) == (one["text"], one["log_probability"]), f"alone {alone}, among others {one}")


def test_formats(path):
    """Eleven formats of weights, each layer of others."""
    pairs, tensors = miniature(path)
    vocabulary = len(pairs["tokenizer.ggml.tokens"])
    for first in (5, 12, 70):  # blocks; numbers of 16 bits by products of their own; blocks that are written out
        compare(path, vocabulary, family_forward.Llama(pairs, tensors, rounds=False), "formats of blocks", BLOCKS, first)
    words = (path, "the in", "-n", 6, "--json", "--temperature")
    for temperature in (0, 0.8):
        ours, theirs = (json.loads(run(*words, temperature, "--device", device).stdout)["text"] for device in ("cuda", "cpu"))
        check(ours == theirs, f"at temperature {temperature} a GPU says {ours!r} and a CPU {theirs!r}")
    plain, guessed = (json.loads(run(path, "the the the the", "-n", 8, "--json", "--temperature", 0, "--device", "cuda", *more).stdout)
                      for more in ((), ("--draft", 2)))
    check(plain["text"] == guessed["text"], f"with guesses a GPU says {guessed['text']!r}, without {plain['text']!r}")
    test_sampling(path, vocabulary)
    test_requests(path)


def test_blocks():
    """Matrices in blocks: few tokens have a step of their own. q, k and v, gate and up are one product each, or, stored
    differently, parts of one."""
    files = {form: dict.fromkeys(FORMATS, (form, form)) for form in ("q4_0", "q5_1", "q4_k")}
    files["q4_k"] |= dict(attn_v=("q6_k", "q4_k"), ffn_down=("q6_k", "q4_k"), ffn_up=("q4_k", "q8_0"))
    for name, formats in files.items():
        pairs, tensors = miniature(WORK / f"{name}.gguf", formats=formats)
        compare(WORK / f"{name}.gguf", len(pairs["tokenizer.ggml.tokens"]), family_forward.Llama(pairs, tensors, rounds=False), name, BLOCKS)
    words = (WORK / "q4_0.gguf", "the the the the", "-n", 12, "--json", "--temperature", 0, "--device", "cuda")
    plain, words_guess, model_guess = (json.loads(run(*words, *more).stdout) for more in ((), ("--draft", 3), ("--draft", WORK / "q5_1.gguf")))
    check(plain["text"] == words_guess["text"] == model_guess["text"],
          f"without guesses {plain['text']!r}, with guesses from words {words_guess['text']!r}, from a model {model_guess['text']!r}")


def test_folder(folder):
    """One format, so that q, k and v are one product; halves of heads turn. In 16 bits steps of more than 8 tokens are
    `step together`, whose attention is of few queries, or of tiles of them."""
    pairs, tensors = miniature(WORK / "folder.gguf")
    family = family_forward.Llama(pairs, tensors, rounds=False)
    layers, others = folder_arrays(family)
    for dtype, first in (("F32", 5), ("F16", 12), ("F16", 40)):
        at = folder / f"{dtype}{first}"
        at.mkdir(parents=True)
        write_safetensors(at / "model.safetensors", layers | others, dtype)
        write_config(at)
        compare(at, len(pairs["tokenizer.ggml.tokens"]), family, f"safetensors, {dtype}", HALF if dtype == "F32" else BLOCKS, first)


def test_family(name, forward, more, layer_shapes, others):
    random, tensors, path = np.random.default_rng(11), {}, WORK / f"{name}.gguf"
    pairs, _ = miniature(path)
    vocabulary = len(pairs["tokenizer.ggml.tokens"])
    pairs = {key: value for key, value in pairs.items() if not key.startswith("llama.")} | {"general.architecture": name} | {
        f"{name}.{key}": value for key, value in ({"block_count": 1, "context_length": 48, "embedding_length": 64, "feed_forward_length": 96} | more).items()}
    shapes = {"token_embd.weight": (vocabulary, 64)} | others | {f"blk.0.{tensor}": shape for tensor, shape in layer_shapes.items()}
    for tensor, shape in shapes.items():
        numbers = (1 + 0.1 * random.standard_normal(shape)) if "norm.weight" in tensor else 0.1 * random.standard_normal(shape)
        form = "f32" if len(shape) == 1 or "position" in tensor else "f16"
        tensors[tensor] = (form, shape, numbers.astype(np.float32 if form == "f32" else np.float16).ravel().view(np.uint8))
    gguf_files.write(path, pairs, tensors)
    for first in (5, 12):
        compare(path, vocabulary, forward(pairs, tensors, rounds=False), name, first=first)


def test_folders():
    """What transformers wrote; windows among them, and one of f16, whose steps of several tokens have a text of their own."""
    halves = WORK / "mistral of f16"
    shutil.copytree(SOURCE / "test/cases/models/mistral", halves)
    write_safetensors(halves / "model.safetensors", read_safetensors(halves / "model.safetensors"), "F16")
    for folder in [halves] + sorted(path for path in (SOURCE / "test/cases/models").iterdir() if path.is_dir()):
        wanted = np.load(folder / "logits.npy").astype(np.float64)
        model = Model(folder, wanted.shape[1], device="cuda")
        got = np.concatenate([model.feed(list(range(1, 18)), 17)] + [model.feed([token], 1) for token in range(18, 21)])
        model.close()
        error = np.abs(got - wanted).max() / wanted.std()
        print(f"{folder.name} of transformers: logits within {error:.2g} of their spread", flush=True)
        check(error < HALF, f"{folder.name} of transformers: logits are {error:.2g} of their spread away from those of f64")


def test_families():
    test_family("llama", family_forward.Llama, {
        "attention.head_count": 4, "attention.head_count_kv": 2, "rope.dimension_count": 16, "attention.layer_norm_rms_epsilon": 1e-6}, {
        "attn_norm.weight": (64,), "ffn_norm.weight": (64,), "attn_q.weight": (64, 64), "attn_k.weight": (32, 64), "attn_v.weight": (32, 64),
        "attn_output.weight": (64, 64), "ffn_gate.weight": (96, 64), "ffn_up.weight": (96, 64), "ffn_down.weight": (64, 96)}, {
        "output_norm.weight": (64,), "output.weight": (264, 64)})
    test_company(WORK / "llama.gguf")  # of 16 bits: by step together
    test_family("qwen3", family_forward.Qwen3, {
        "attention.head_count": 4, "attention.head_count_kv": 2, "attention.key_length": 32, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 1e6}, {
        "attn_norm.weight": (64,), "ffn_norm.weight": (64,), "attn_q_norm.weight": (32,), "attn_k_norm.weight": (32,), "attn_q.weight": (128, 64),
        "attn_k.weight": (64, 64), "attn_v.weight": (64, 64), "attn_output.weight": (64, 128), "ffn_gate.weight": (96, 64), "ffn_up.weight": (96, 64),
        "ffn_down.weight": (64, 96)}, {"output_norm.weight": (64,), "output.weight": (264, 64)})
    both = lambda name, *shape: {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
    test_family("gpt2", family_forward.Gpt2, {"attention.head_count": 4, "attention.layer_norm_epsilon": 1e-5},
                both("attn_norm", 64) | both("ffn_norm", 64) | both("attn_qkv", 192, 64) | both("attn_output", 64, 64)
                | both("ffn_up", 96, 64) | both("ffn_down", 64, 96), {"position_embd.weight": (48, 64)} | both("output_norm", 64))


if not has_gpu():
    os.environ["HEADROOM_LIBCUDA"] = os.environ["HEADROOM_NVRTC"] = str(BUILD / "test/emulated_cuda.so")
    if not os.environ.get("HR_TEST_LONG"):
        test_clear()
        print("skipped behind the first test: there is no GPU, and the emulator takes minutes (make test-long)")
        sys.exit(1 if failed else 77)
test_clear()
test_folder(WORK / "folder")
test_blocks()
test_formats(WORK / "miniature.gguf")
test_families()
test_folders()
sys.exit(bool(failed))
