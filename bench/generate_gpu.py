#!/usr/bin/env python3
"""A language model on a GPU, one text at a time: tokens a second, their share of the copy roof, PyTorch beside it.

  generate_gpu.py BUILD [--shapes 1b,8b] [--format bf16|f16|q4_0|q4_1|q8_0] [--tokens N] [--prompt N] [--batch N] [--folder DIR]
                  [--compile] [--profile] [--read N,N] [--chunk N] [--out FILE.md]

in:   BUILD/libheadroom.so. A Llama of each shape is written to DIR (/dev/shm by default) with random weights and removed
      afterwards: in bf16 as Hugging Face has it, else as GGUF.
out:  a row a shape. `share`: bytes of the weights that a token reads, over its time, over what a copy moves in a second.
      PyTorch: the same weights, static cache, a CUDA graph of a token's step; --compile: torch.compile over it as well.

--batch: as many texts of 1024 tokens at once, by hr_model_respond, in steps of --chunk tokens that read: tokens/s of steps in
which all are written, and of reading them; PyTorch's step of as many, at the same length.
--read: texts of so many tokens, read: tokens/s, and the rate of the products with the weights of layers and head.

Logits of a prompt and of tokens behind it are compared with PyTorch's in f32 from the same weights: the largest difference
over their spread. --profile: the launches of one token's step in order, with what each takes.
"""

import argparse
import ctypes
import json
import shutil
import statistics
import struct
import time
from ctypes import byref, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F

#         layers, width, inner, heads, heads of keys, head, vocabulary, tied
SHAPES = {"8b": (32, 4096, 14336, 32, 8, 128, 128256, False), "1b": (16, 2048, 8192, 32, 8, 64, 128256, True),
          "tiny": (2, 512, 1024, 8, 2, 64, 1024, True)}
THETA, EPS, CONTEXT, CONTEXT_MOST = 500000.0, 1e-5, 4096, 1 << 17


class Shape:
    def __init__(self, name):
        (self.layers, self.width, self.inner, self.heads, self.shared, self.head, self.vocabulary, self.tied) = SHAPES[name]

    def tensors(self):
        """Names as in safetensors, and their shapes."""
        c, f, q, k = self.width, self.inner, self.heads * self.head, self.shared * self.head
        yield "model.embed_tokens.weight", (self.vocabulary, c)
        for l in range(self.layers):
            at = f"model.layers.{l}."
            yield at + "input_layernorm.weight", (c,)
            yield at + "self_attn.q_proj.weight", (q, c)
            yield at + "self_attn.k_proj.weight", (k, c)
            yield at + "self_attn.v_proj.weight", (k, c)
            yield at + "self_attn.o_proj.weight", (c, q)
            yield at + "post_attention_layernorm.weight", (c,)
            yield at + "mlp.gate_proj.weight", (f, c)
            yield at + "mlp.up_proj.weight", (f, c)
            yield at + "mlp.down_proj.weight", (c, f)
        yield "model.norm.weight", (c,)
        if not self.tied:
            yield "lm_head.weight", (self.vocabulary, c)


def weights_make(shape):
    torch.manual_seed(1)
    made = {}
    for name, axes in shape.tensors():
        if len(axes) == 1:
            made[name] = (1 + 0.1 * torch.randn(axes, device="cuda")).bfloat16()
        else:
            made[name] = torch.empty(axes, device="cuda", dtype=torch.bfloat16).normal_(0, axes[1] ** -0.5)
    return made


# ---- blocks ----

BLOCKS = {"f16": (1, 64), "q4_0": (2, 18), "q4_1": (3, 20), "q8_0": (8, 34)}  # number in GGUF, bytes of 32 values


def blocks_make(shape, form):
    """Blocks of random bytes and alike scales; the weights that they are, in f16."""
    torch.manual_seed(1)
    made, weights = {}, {}
    for name, axes in shape.tensors():
        if len(axes) == 1:
            weights[name] = (1 + 0.1 * torch.randn(axes, device="cuda")).half()
            made[name] = weights[name].float()
            continue
        if form == "f16":
            made[name] = weights[name] = torch.empty(axes, device="cuda", dtype=torch.float16).normal_(0, axes[1] ** -0.5)
            continue
        groups, scale = axes[0] * axes[1] // 32, axes[1] ** -0.5 / (74 if form == "q8_0" else 4.6)
        d = (scale * (0.75 + 0.5 * torch.rand(groups, 1, device="cuda"))).half()
        q = torch.randint(0, 256, (groups, 32 if form == "q8_0" else 16), device="cuda", dtype=torch.uint8)
        numbers = q.view(torch.int8).half() if form == "q8_0" else torch.cat([q & 15, q >> 4], 1).half() - (8 if form == "q4_0" else 0)
        m = -(7.5 * d.float()).half()
        weights[name] = (d * numbers + (m if form == "q4_1" else 0)).view(axes)
        if "q_proj" in name or "k_proj" in name:  # neighbours turn in GGUF, halves in Llama below
            weights[name] = weights[name].view(-1, shape.head // 2, 2, axes[1]).transpose(1, 2).reshape(axes)
        head = [d.view(torch.uint8), m.view(torch.uint8)] if form == "q4_1" else [d.view(torch.uint8)]
        made[name] = torch.cat(head + [q], 1)
    return made, weights


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_write(path, shape, form, blocks):
    names = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output", "input_layernorm": "attn_norm",
             "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    whole = {"block_count": shape.layers, "context_length": CONTEXT_MOST, "embedding_length": shape.width, "feed_forward_length": shape.inner,
             "attention.head_count": shape.heads, "attention.head_count_kv": shape.shared, "rope.dimension_count": shape.head}
    pairs = [string("general.architecture") + struct.pack("<I", 8) + string("llama")]
    pairs += [string(f"llama.{key}") + struct.pack("<II", 4, value) for key, value in whole.items()]
    pairs += [string(f"llama.{key}") + struct.pack("<If", 6, value)
              for key, value in (("attention.layer_norm_rms_epsilon", EPS), ("rope.freq_base", THETA))]
    tokens = [f"<0x{i:02X}>" for i in range(256)] + [f"t{i}" for i in range(256, shape.vocabulary)]
    pairs += [string("tokenizer.ggml.model") + struct.pack("<I", 8) + string("llama"),
              string("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, len(tokens)) + b"".join(map(string, tokens)),
              string("tokenizer.ggml.scores") + struct.pack("<IIQ", 9, 6, len(tokens)) + np.zeros(len(tokens), np.float32).tobytes(),
              string("tokenizer.ggml.token_type") + struct.pack("<IIQ", 9, 5, len(tokens)) + np.array([6] * 256 + [1] * (len(tokens) - 256), np.int32).tobytes()]
    heads, at = [], 0
    for (name, axes), block in zip(shape.tensors(), blocks.values()):
        parts = name.removesuffix(".weight").removeprefix("model.layers.").split(".", 1)
        ours = f"blk.{parts[0]}.{names[parts[1]]}" if name.startswith("model.layers.") else names[name.removesuffix(".weight")]
        heads.append(string(ours + ".weight") + struct.pack(f"<I{len(axes)}QIQ", len(axes), *reversed(axes), BLOCKS[form][0] if len(axes) == 2 else 0, at))
        at += -(-block.numel() * block.element_size() // 32) * 32
    text = b"GGUF" + struct.pack("<IQQ", 3, len(heads), len(pairs)) + b"".join(pairs) + b"".join(heads)
    with open(path, "wb") as file:
        file.write(text + b"\0" * (-len(text) % 32))
        for block in blocks.values():
            raw = block.contiguous().view(torch.uint8).cpu().numpy()
            raw.tofile(file)
            file.write(b"\0" * (-raw.size % 32))


def folder_write(folder, shape, weights):
    folder.mkdir(parents=True)
    head, at = {}, 0
    for name, weight in weights.items():
        size = weight.numel() * 2
        head[name] = dict(dtype="BF16", shape=list(weight.shape), data_offsets=[at, at + size])
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for weight in weights.values():
            weight.view(torch.uint8).cpu().numpy().tofile(file)
    (folder / "config.json").write_text(json.dumps(dict(
        architectures=["LlamaForCausalLM"], hidden_size=shape.width, intermediate_size=shape.inner, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, num_key_value_heads=shape.shared, head_dim=shape.head, rms_norm_eps=EPS, rope_theta=THETA,
        max_position_embeddings=CONTEXT_MOST, tie_word_embeddings=shape.tied)))


# ---- headroom ----

class Sampling(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("temperature", c_double), ("top_k", c_int64), ("top_p", c_double), ("min_p", c_double), ("seed", c_uint64)]


class GenerateOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("most", c_int64), ("sampling", Sampling), ("said", c_void_p), ("said_context", c_void_p),
                ("progress", c_void_p), ("progress_context", c_void_p), ("draft", c_int64), ("draft_model", c_void_p)]


class Generation(ctypes.Structure):
    _fields_ = [("prompt_tokens", c_int64), ("fed_tokens", c_int64), ("tokens", c_int64), ("prompt_seconds", c_double),
                ("seconds", c_double), ("end", c_int), ("drafted", c_int64), ("accepted", c_int64), ("rest", c_char * 256)]


class ModelOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("text_path", c_char_p), ("context", c_int64), ("threads", c_int)]


class Request(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("tokens", ctypes.POINTER(c_int32)), ("count", c_int64), ("most", c_int64), ("sampling", Sampling)]


class Response(ctypes.Structure):
    _fields_ = [("tokens", ctypes.POINTER(c_int32)), ("count", c_int64), ("end", c_int), ("reused", c_int64), ("log_probability", c_double),
                ("first_seconds", c_double), ("seconds", c_double)]


PROGRESS = ctypes.CFUNCTYPE(ctypes.c_bool, c_void_p, c_char_p, c_double, c_double)


class BatchOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("at_once", c_int), ("chunk", c_int64), ("progress", PROGRESS), ("progress_context", c_void_p)]


class BatchTotals(ctypes.Structure):
    _fields_ = [(name, c_int64) for name in ("prompt_tokens", "reused", "tokens", "steps", "rows", "preempted")] + [("seconds", c_double)]


class Model:
    def __init__(self, library, path, vocabulary, context=CONTEXT, device=b"cuda"):
        self.library, self.vocabulary = library, vocabulary
        self.device, self.model = c_void_p(), c_void_p()
        options = ModelOptions(ctypes.sizeof(ModelOptions), None, context, 0)
        begun = time.perf_counter()
        self.done(library.hr_device_open(device, byref(self.device)))
        self.done(library.hr_model_open(self.device, str(path).encode(), byref(options), byref(self.model)))
        self.seconds = time.perf_counter() - begun

    def done(self, status):
        if status:
            raise SystemExit("headroom: " + self.library.hr_last_error().decode())

    def feed(self, tokens, answers=1):
        logits = ctypes.POINTER(ctypes.c_float)()
        self.done(self.library.hr_model_feed(self.model, (c_int32 * len(tokens))(*tokens), c_int64(len(tokens)), c_int64(answers), byref(logits)))
        return np.ctypeslib.as_array(logits, (answers, self.vocabulary)).copy()

    def keep(self, tokens):
        self.done(self.library.hr_model_keep(self.model, c_int64(tokens)))

    def generate(self, tokens, most, temperature=0.0):
        options = GenerateOptions(size=ctypes.sizeof(GenerateOptions), most=most,
                                  sampling=Sampling(ctypes.sizeof(Sampling), temperature, 40, 0.95, 0.05, 0))
        out = Generation()
        self.done(self.library.hr_model_generate(self.model, (c_int32 * len(tokens))(*tokens), c_int64(len(tokens)), byref(options), byref(out)))
        return out

    def respond(self, texts, most, temperature=0.0, chunk=0):
        """When each step began, in seconds from the first; what came of each text."""
        begun = []
        seen = PROGRESS(lambda context, what, done, total: begun.append(time.perf_counter()) or True)
        sampling = Sampling(ctypes.sizeof(Sampling), temperature, 40, 0.95, 0.05, 0)
        requests = (Request * len(texts))(*(Request(ctypes.sizeof(Request), (c_int32 * len(t))(*t), len(t), most, sampling) for t in texts))
        options = BatchOptions(ctypes.sizeof(BatchOptions), len(texts), chunk, seen, None)
        out, totals = (Response * len(texts))(), BatchTotals()
        self.done(self.library.hr_model_respond(self.model, requests, c_int(len(texts)), byref(options), out, byref(totals)))
        made = [(one.first_seconds, one.seconds, one.count) for one in out]
        self.library.hr_responses_destroy(out, c_int(len(texts)))
        return [at - begun[0] for at in begun], made

    def close(self):
        self.library.hr_model_destroy(self.model)
        self.library.hr_device_destroy(self.device)


# ---- PyTorch ----

class Llama:
    """One token's step over a static cache, written for a graph; a whole text in f32 as what logits are compared with."""

    def __init__(self, shape, weights, length, texts=1):
        self.shape, self.length, self.texts = shape, length, texts
        at = lambda l, name: weights[f"model.layers.{l}.{name}.weight"]
        self.embedding, self.norm = weights["model.embed_tokens.weight"], weights["model.norm.weight"]
        self.head = self.embedding if shape.tied else weights["lm_head.weight"]
        self.layers = [dict(
            norm=at(l, "input_layernorm"), post=at(l, "post_attention_layernorm"), o=at(l, "self_attn.o_proj"), down=at(l, "mlp.down_proj"),
            qkv=torch.cat([at(l, f"self_attn.{n}_proj") for n in "qkv"]), gate_up=torch.cat([at(l, "mlp.gate_proj"), at(l, "mlp.up_proj")]))
            for l in range(shape.layers)]
        self.frequencies = THETA ** (-torch.arange(0, shape.head, 2, device="cuda", dtype=torch.float64) / shape.head)
        self.keys = torch.zeros(shape.layers, texts, shape.shared, length, shape.head, device="cuda", dtype=self.embedding.dtype)
        self.values = torch.zeros_like(self.keys)
        self.token, self.position = (torch.zeros(n, device="cuda", dtype=torch.int64) for n in (texts, 1))
        self.places = torch.arange(length, device="cuda")

    def turn(self, x, positions):
        angles = positions.double()[:, None] * self.frequencies
        cosine, sine = (torch.cat([f(angles)] * 2, -1)[:, None].to(x.dtype) for f in (torch.cos, torch.sin))
        a, b = x.chunk(2, -1)
        return x * cosine + torch.cat([-b, a], -1) * sine

    def split(self, layer, h, positions):
        s = self.shape
        q, k, v = (h @ layer["qkv"].to(h.dtype).T).split([s.heads * s.head, s.shared * s.head, s.shared * s.head], -1)
        return self.turn(q.view(-1, s.heads, s.head), positions), self.turn(k.view(-1, s.shared, s.head), positions), v.view(-1, s.shared, s.head)

    def feed_forward(self, layer, x):
        h = F.rms_norm(x, (self.shape.width,), layer["post"].to(x.dtype), EPS)
        gate, up = (h @ layer["gate_up"].to(x.dtype).T).chunk(2, -1)
        return x + (F.silu(gate) * up) @ layer["down"].to(x.dtype).T

    def step(self):
        s = self.shape
        x = self.embedding[self.token]
        mask = (self.places <= self.position)[None, None, None]
        for l, layer in enumerate(self.layers):
            h = F.rms_norm(x, (s.width,), layer["norm"], EPS)
            q, k, v = self.split(layer, h, self.position)
            self.keys[l].index_copy_(2, self.position, k[:, :, None])
            self.values[l].index_copy_(2, self.position, v[:, :, None])
            o = F.scaled_dot_product_attention(q[:, :, None], self.keys[l], self.values[l], attn_mask=mask, enable_gqa=True)
            x = x + o.reshape(self.texts, -1) @ layer["o"].T
            x = self.feed_forward(layer, x)
        logits = F.rms_norm(x, (s.width,), self.norm, EPS) @ self.head.T
        self.token.copy_(logits.argmax(-1))
        self.position += 1

    def logits(self, tokens):
        """In f32."""
        s = self.shape
        x, positions = self.embedding[torch.tensor(tokens, device="cuda")].float(), torch.arange(len(tokens), device="cuda")
        for layer in self.layers:
            q, k, v = self.split(layer, F.rms_norm(x, (s.width,), layer["norm"].float(), EPS), positions)
            o = F.scaled_dot_product_attention(*(t[None].transpose(1, 2) for t in (q, k, v)), is_causal=True, enable_gqa=True)
            x = x + o[0].transpose(0, 1).reshape(len(tokens), -1) @ layer["o"].float().T
            x = self.feed_forward(layer, x)
        return (F.rms_norm(x, (s.width,), self.norm.float(), EPS) @ self.head.float().T).cpu().numpy()


def torch_rate(llama, prompt, tokens, compiled):
    """Seconds a token, from a graph of the step."""
    step = torch.compile(llama.step, dynamic=False) if compiled else llama.step
    llama.position.fill_(prompt)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    times = []
    for _ in range(3):
        llama.position.fill_(prompt)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(tokens):
            graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) / tokens)
    return statistics.median(times)


def copy_rate():
    """Bytes read and written a second."""
    a = torch.empty(1 << 30, device="cuda", dtype=torch.uint8)
    b, times = torch.empty_like(a), []
    for _ in range(8):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        b.copy_(a)
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e-3)
    return 2 * a.numel() / statistics.median(times)


# ---- a shape ----

def profile(model, prompt):
    from torch.profiler import ProfilerActivity, profile as profiler
    with profiler(activities=[ProfilerActivity.CUDA]) as seen:
        for token in range(3):
            model.feed([token])
        torch.cuda.synchronize()
    events = sorted((e for e in seen.events() if e.device_type == torch.autograd.DeviceType.CUDA), key=lambda e: e.time_range.start)
    count = len(events) // 3
    last = events[-count:]
    print(f"{count} launches and copies a token, {(last[-1].time_range.end - last[0].time_range.start) / 1e3:.3f} ms, "
          f"{sum(e.time_range.elapsed_us() for e in last) / 1e3:.3f} ms of it in them")
    for i, e in enumerate(last):
        if i < 60 or i >= count - 6:
            gap = e.time_range.start - last[i - 1].time_range.end if i else 0
            print(f"  {i:4d} {e.name[:40]:40s} {e.time_range.elapsed_us():8.2f} us, {gap:6.2f} behind the one before")


def compare(model, llama, prompt):
    tokens = [int(t) for t in np.random.default_rng(3).integers(0, model.vocabulary, prompt + 8)]
    wanted = llama.logits(tokens)[prompt - 1:]
    got = [model.feed(tokens[:prompt])[0]] + [model.feed([token])[0] for token in tokens[prompt:]]
    got, spread = np.array(got), wanted.std()
    agree = (got.argmax(-1) == wanted.argmax(-1)).mean()
    return np.abs(got - wanted).max() / spread, agree


TEXT = 1024  # tokens of each of a batch


def batch(library, path, shape, llama, arguments):
    """Tokens a second of steps in which all texts are written, and of reading them; PyTorch's."""
    count, most, random = arguments.batch, 256, np.random.default_rng(5)
    model = Model(library, path, shape.vocabulary, context=count * (TEXT + most + 16))
    texts = [[int(t) for t in random.integers(0, shape.vocabulary, TEXT)] for _ in range(count)]
    begun = time.perf_counter()
    model.respond([text[:64] for text in texts], 4, chunk=arguments.chunk)
    print(f"{count} texts of 64 tokens, 4 more of each, compiling: {time.perf_counter() - begun:.2f} s", flush=True)
    for temperature in (0.0, 0.8):
        steps, made = model.respond(texts, most, temperature, arguments.chunk)
        read, ended = max(first for first, _, _ in made), min(end for _, end, _ in made)
        written = [b - a for a, b in zip(steps, steps[1:]) if a >= read and b <= ended]
        rate = count / statistics.median(written) if written else float("nan")
        firsts, wholes = sorted(first for first, _, _ in made), sorted(end for _, end, _ in made)
        print(f"{count} texts of {TEXT} tokens at temperature {temperature}: {rate:.0f} tokens/s written ({len(written)} steps of all of them), "
              f"{count * TEXT / read:.0f} read; first tokens p50 {firsts[count // 2]:.2f} s, p99 {firsts[-1]:.2f} s, "
              f"{most} tokens p50 {wholes[count // 2]:.2f} s, p99 {wholes[-1]:.2f} s", flush=True)
    model.close()
    for compiled in (False, True) if arguments.compile else (False,):
        theirs = torch_rate(llama, TEXT, 32, compiled)
        print(f"PyTorch{', compiled' if compiled else ''}, a graph of {count} texts at {TEXT} tokens: {count / theirs:.0f} tokens/s", flush=True)


def read_texts(library, path, shape, name, lengths):
    """Texts of these lengths, each read three times behind a first one."""
    model = Model(library, path, shape.vocabulary, context=max(lengths) + 16)
    flops = 2 * sum(a[0] * a[1] for n, a in shape.tensors() if len(a) == 2 and "embed_tokens" not in n)
    for length in lengths:
        tokens, times = [int(t) for t in np.random.default_rng(length).integers(0, shape.vocabulary, length)], []
        for _ in range(4):
            model.keep(0)
            begun = time.perf_counter()
            model.feed(tokens)
            times.append(time.perf_counter() - begun)
        seconds = statistics.median(times[1:])
        print(f"{name}: {length} tokens read in {1e3 * seconds:.2f} ms, {length / seconds:.0f} tokens/s, {flops * length / seconds / 1e12:.0f} TFLOP/s; "
              f"the first time, compiling, {times[0]:.2f} s", flush=True)
    model.close()


def measure(library, name, arguments, copied):
    shape, folder = Shape(name), Path(arguments.folder) / f"headroom-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    if arguments.format == "bf16":
        path, weights = folder, weights_make(shape)
        folder_write(folder, shape, weights)
    else:
        blocks, weights = blocks_make(shape, arguments.format)
        folder.mkdir(parents=True)
        path = folder / "model.gguf"
        gguf_write(path, shape, arguments.format, blocks)
        del blocks
    if arguments.read:
        read_texts(library, path, shape, name, [int(length) for length in arguments.read.split(",")])
    if arguments.batch:
        batch(library, path, shape, Llama(shape, weights, TEXT + 64, arguments.batch), arguments)
    if arguments.read or arguments.batch:
        shutil.rmtree(folder)
        return None
    llama = Llama(shape, weights, CONTEXT)
    value = 2 if arguments.format == "bf16" else BLOCKS[arguments.format][1] / 32
    read = sum(w.numel() * value for n, w in weights.items() if shape.tied or n != "model.embed_tokens.weight")
    model = Model(library, path, shape.vocabulary)
    begun = time.perf_counter()
    error, agree = compare(model, llama, arguments.prompt)
    print(f"{name}: opened in {model.seconds:.1f} s, first texts in {time.perf_counter() - begun:.1f} s; "
          f"logits differ by {error:.2g} of their spread, likeliest token the same in {100 * agree:.0f} %", flush=True)
    prompt = list(range(1, arguments.prompt + 1))
    rates = []
    for _ in range(3):
        model.keep(0)
        made = model.generate(prompt, arguments.tokens)
        rates.append(made.seconds / (made.tokens - 1))
    drawn = model.generate(prompt, 32, 0.8)
    ours = statistics.median(rates)
    print(f"{name}: {1 / ours:.1f} tokens/s, {read / ours / copied:.3f} of the copy roof; drawn at temperature 0.8 "
          f"{(drawn.tokens - 1) / drawn.seconds:.1f} tokens/s; {arguments.prompt} tokens of a text read in {1e3 * made.prompt_seconds:.2f} ms", flush=True)
    if arguments.profile:
        profile(model, prompt)
    model.close()
    row = f"| {name} | {read / 1e9:.2f} GB | {1 / ours:.1f} | {read / ours / copied:.3f} |"
    for compiled in (False, True) if arguments.compile else (False,):
        theirs = torch_rate(llama, arguments.prompt, arguments.tokens, compiled)
        print(f"{name}: PyTorch{', compiled' if compiled else ''} {1 / theirs:.1f} tokens/s, {read / theirs / copied:.3f}", flush=True)
        row += f" {1 / theirs:.1f} ({theirs / ours:.2f}x) |"
    shutil.rmtree(folder)
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--shapes", default="1b,8b")
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--prompt", type=int, default=16)
    parser.add_argument("--format", choices=["bf16", *BLOCKS], default="bf16")
    parser.add_argument("--batch", type=int, default=0)
    parser.add_argument("--read")
    parser.add_argument("--chunk", type=int, default=0)
    parser.add_argument("--folder", default="/dev/shm")
    parser.add_argument("--out")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    library = ctypes.CDLL(str(Path(arguments.build) / "libheadroom.so"))
    library.hr_last_error.restype = c_char_p
    torch.zeros(1, device="cuda")
    copied = copy_rate()
    print(f"{torch.cuda.get_device_name()}: a copy moves {copied / 1e9:.0f} GB/s", flush=True)
    peers = " PyTorch, graph (ours over it) |" + (" torch.compile, graph (ours over it) |" if arguments.compile else "")
    rows = ["| model | read a token | tokens/s | share of the copy |" + peers, "|---|---|---|---|---|" + ("---|" if arguments.compile else "")]
    with torch.inference_mode():
        for name in arguments.shapes.split(","):
            rows.append(measure(library, name, arguments, copied))
    if arguments.read or arguments.batch:
        return
    table = "\n".join(rows)
    print(table)
    if arguments.out:
        Path(arguments.out).write_text(f"# A language model on a GPU: {torch.cuda.get_device_name()}\n\n"
                                       f"A copy moves {copied / 1e9:.0f} GB/s. {arguments.tokens} tokens behind {arguments.prompt}.\n\n{table}\n")


if __name__ == "__main__":
    main()
