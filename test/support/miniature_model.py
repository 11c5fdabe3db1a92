"""A miniature of the Llama family for tests, as GGUF and as a folder of safetensors, the library and the command that run
it, and what the tests of them share: the words BUILD SOURCE, a folder, what was wrong.

Random weights in many formats of blocks; a tokenizer of bytes and a few merges. Exit 77: NumPy is not installed.
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

import family_forward
import gguf_files

# ---- a test ----

BUILD, SOURCE = Path(sys.argv[1]), Path(sys.argv[2])
WORK = Path(tempfile.mkdtemp())
os.environ["HEADROOM_CC"] = str(SOURCE / "test/support/cc_quick")
failed = []


def check(good, what):
    if not good:
        print("wrong:", what)
        failed.append(what)


def run(*words, code=0, text=None):
    done = subprocess.run([BUILD / "headroom", "generate", *map(str, words)], capture_output=True, input=text, encoding="utf-8", errors="replace")
    check(done.returncode == code, f"generate {' '.join(map(str, words[1:]))}: exit {done.returncode}: {done.stderr}")
    return done


# ---- the model as GGUF ----

LAYERS, WIDTH, HEADS, SHARED, SIZE, INNER, CONTEXT = 2, 256, 4, 2, 64, 512, 96
FORMATS = dict(  # of each layer
    attn_q=("q4_k", "q4_1"), attn_k=("q5_0", "f16"), attn_v=("q6_k", "q8_0"), attn_output=("q4_0", "q5_k"),
    ffn_gate=("q5_1", "q4_1"), ffn_up=("q4_1", "bf16"), ffn_down=("q5_k", "f32"))


def byte_letters():
    """GPT-2's letters for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    letters = {byte: chr(byte) for byte in plain}
    letters.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return [letters[byte] for byte in range(256)]


def miniature(path, pre="smollm", merges=("t h", "th e", "Ġ the", "i n", "Ġ a", "e r"), letters=byte_letters(), formats=FORMATS, **changed):
    random = np.random.default_rng(5)
    tokens = list(letters) + [merge.replace(" ", "") for merge in merges] + ["<|im_start|>", "<|im_end|>"]
    pairs = {
        "general.architecture": "llama", "general.name": "miniature", "llama.block_count": LAYERS, "llama.context_length": CONTEXT,
        "llama.embedding_length": WIDTH, "llama.feed_forward_length": INNER, "llama.attention.head_count": HEADS,
        "llama.attention.head_count_kv": SHARED, "llama.rope.dimension_count": SIZE,
        "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": pre, "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [1] * (len(tokens) - 2) + [3, 3], "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.eos_token_id": len(tokens) - 1,
        "tokenizer.chat_template": "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}"}
    shapes = dict(attn_q=(HEADS * SIZE, WIDTH), attn_k=(SHARED * SIZE, WIDTH), attn_v=(SHARED * SIZE, WIDTH),
                  attn_output=(WIDTH, HEADS * SIZE), ffn_gate=(INNER, WIDTH), ffn_up=(INNER, WIDTH), ffn_down=(WIDTH, INNER))
    tensors = {}

    def add(name, form, shape, size):
        tensors[name] = (form, shape, gguf_files.random_blocks(form, shape, size, random))

    def add_norm(name):
        tensors[name] = ("f32", (WIDTH,), (1 + 0.1 * random.standard_normal(WIDTH)).astype(np.float32).view(np.uint8))

    add("token_embd.weight", "q8_0", (len(tokens), WIDTH), 1)
    for layer in range(LAYERS):
        add_norm(f"blk.{layer}.attn_norm.weight")
        add_norm(f"blk.{layer}.ffn_norm.weight")
        for name, forms in formats.items():
            add(f"blk.{layer}.{name}.weight", forms[layer % 2], shapes[name], 0.1)
    add_norm("output_norm.weight")
    pairs.update(changed.pop("pairs", {}))
    tensors.update(changed.pop("tensors", {}))
    gguf_files.write(path, pairs, tensors)
    return pairs, tensors


# ---- the model as safetensors ----

def halves_turn(weight, heads):
    """Rows of q and k as safetensors order them: the halves of a head turn, not neighbours."""
    return weight.reshape(heads, SIZE // 2, 2, WIDTH).swapaxes(1, 2).reshape(weight.shape)


def read_safetensors(path):
    """Of f32, of a file that is trusted."""
    raw = path.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    head = json.loads(raw[8:begin])
    return {name: np.frombuffer(raw[begin + of["data_offsets"][0]:begin + of["data_offsets"][1]], np.float32).reshape(of["shape"])
            for name, of in head.items() if name != "__metadata__"}


def write_safetensors(path, arrays, dtype="F32"):
    head, data = {"__metadata__": {"format": "pt"}}, b""
    for name, array in arrays.items():
        raw = array.astype(np.float16 if dtype == "F16" else np.float32).tobytes()
        head[name] = dict(dtype=dtype, shape=list(array.shape), data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def folder_arrays(family):
    """The weights of a family_forward.Llama by their names in safetensors: those of layers, the others."""
    names = dict(attn_norm="input_layernorm", attn_q="self_attn.q_proj", attn_k="self_attn.k_proj", attn_v="self_attn.v_proj",
                 attn_output="self_attn.o_proj", ffn_norm="post_attention_layernorm", ffn_gate="mlp.gate_proj",
                 ffn_up="mlp.up_proj", ffn_down="mlp.down_proj")
    layers = {}
    for layer in range(LAYERS):
        for ours, theirs in names.items():
            weight = family.weight(f"blk.{layer}.{ours}.weight")
            heads = dict(attn_q=HEADS, attn_k=SHARED).get(ours)
            layers[f"model.layers.{layer}.{theirs}.weight"] = halves_turn(weight, heads) if heads else weight
    return layers, {"model.embed_tokens.weight": family.weight("token_embd.weight"), "model.norm.weight": family.weight("output_norm.weight")}


def write_config(folder, **more):
    (folder / "config.json").write_text(json.dumps(dict(
        architectures=["LlamaForCausalLM"], hidden_size=WIDTH, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=SHARED, head_dim=SIZE, rms_norm_eps=1e-5, rope_theta=10000.0,
        max_position_embeddings=CONTEXT, **more)))


# ---- the library ----

library = ctypes.CDLL(str(BUILD / "libheadroom.so"))
library.hr_last_error.restype = ctypes.c_char_p


class Model:
    library = library

    def __init__(self, path, vocabulary, context=0, threads=0, device="cpu", text=None):
        self.device, self.model, self.vocabulary = ctypes.c_void_p(), ctypes.c_void_p(), vocabulary
        options = ModelOptions(ctypes.sizeof(ModelOptions), text and str(text).encode(), context, threads)
        self.done(self.library.hr_device_open(device.encode(), ctypes.byref(self.device)))
        self.done(self.library.hr_model_open(self.device, str(path).encode(), ctypes.byref(options), ctypes.byref(self.model)))

    def done(self, status):
        if status:
            raise SystemExit(self.library.hr_last_error().decode())

    def feed(self, tokens, answers):
        given = (ctypes.c_int32 * len(tokens))(*tokens)
        logits = ctypes.POINTER(ctypes.c_float)()
        self.done(self.library.hr_model_feed(self.model, given, ctypes.c_int64(len(tokens)), ctypes.c_int64(answers), ctypes.byref(logits)))
        return np.ctypeslib.as_array(logits, (answers, self.vocabulary)).astype(np.float64)

    def keep(self, tokens):
        self.done(self.library.hr_model_keep(self.model, ctypes.c_int64(tokens)))

    def encode(self, text, special):
        tokens, count = ctypes.POINTER(ctypes.c_int32)(), ctypes.c_size_t()
        raw = text.encode()
        self.done(self.library.hr_model_encode(self.model, raw, ctypes.c_size_t(len(raw)), special, ctypes.byref(tokens), ctypes.byref(count)))
        return [tokens[i] for i in range(count.value)]

    def raw(self, tokens):
        raw, part, length = b"", ctypes.c_void_p(), ctypes.c_size_t()
        for token in tokens:
            self.done(self.library.hr_model_token_text(self.model, token, ctypes.byref(part), ctypes.byref(length)))
            raw += ctypes.string_at(part, length.value)
        return raw

    def text(self, tokens):
        return self.raw(tokens).decode("utf-8", "replace")

    def close(self):
        self.library.hr_model_destroy(self.model)
        self.library.hr_device_destroy(self.device)


PROGRESS = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_double, ctypes.c_double)
SAID = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)


class Sampling(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("temperature", ctypes.c_double), ("top_k", ctypes.c_int64), ("top_p", ctypes.c_double),
                ("min_p", ctypes.c_double), ("seed", ctypes.c_uint64)]


class Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("most", ctypes.c_int64), ("sampling", Sampling), ("said", SAID),
                ("said_context", ctypes.c_void_p), ("progress", PROGRESS), ("progress_context", ctypes.c_void_p), ("draft", ctypes.c_int64),
                ("draft_model", ctypes.c_void_p)]


class Request(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("tokens", ctypes.POINTER(ctypes.c_int32)), ("count", ctypes.c_int64), ("most", ctypes.c_int64),
                ("sampling", Sampling)]


class Response(ctypes.Structure):
    _fields_ = [("tokens", ctypes.POINTER(ctypes.c_int32)), ("count", ctypes.c_int64), ("end", ctypes.c_int), ("reused", ctypes.c_int64),
                ("log_probability", ctypes.c_double), ("first_seconds", ctypes.c_double), ("seconds", ctypes.c_double)]


class BatchOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("at_once", ctypes.c_int), ("chunk", ctypes.c_int64), ("progress", PROGRESS),
                ("progress_context", ctypes.c_void_p)]


class BatchTotals(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64) for name in ("prompt_tokens", "reused", "tokens", "steps", "rows", "preempted")] + [
        ("seconds", ctypes.c_double)]


class ModelOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("text_path", ctypes.c_char_p), ("context", ctypes.c_int64), ("threads", ctypes.c_int)]
