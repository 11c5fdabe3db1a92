"""Families of models in NumPy's f64, from the tensors of a GGUF file: logits of every position of a text. What is multiplied
with weights in blocks is rounded to 16 bits, 32 numbers a scale, where groups of sixteen rows make up the weight."""
import numpy as np

import gguf_files


def quantised(x):
    """As models/packed.hr says it."""
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = np.abs(blocks).max(-1, keepdims=True) / 32512
    return (np.round(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0)) * scale).reshape(x.shape)


class Family:
    def __init__(self, pairs, tensors, rounds=True, scaling=None):
        """scaling: of positions, as config.json has it for Llama 3.1."""
        self.pairs, self.tensors, self.cached, self.rounds, self.scaling = pairs, tensors, {}, rounds, scaling
        self.layers, self.heads = self.number("block_count"), self.number("attention.head_count")
        self.shared = self.number("attention.head_count_kv", self.heads)

    def number(self, key, otherwise=None):
        return self.pairs.get(f"{self.pairs['general.architecture']}.{key}", otherwise)

    def weight(self, name):
        if name not in self.tensors:
            name = "token_embd.weight"  # tied
        if name not in self.cached:
            form, shape, raw = self.tensors[name]
            self.cached[name] = gguf_files.numbers(form, raw, shape)
        return self.cached[name]

    def product(self, h, name):
        form, shape, _ = self.tensors[name if name in self.tensors else "token_embd.weight"]
        packed = self.rounds and gguf_files.FORMATS[form][1] > 1 and shape[0] % 16 == 0
        return (quantised(h) if packed else h) @ self.weight(name).T

    def attend(self, q, k, v, window=None):
        """q (tokens, heads, size) and k, v (tokens, shared, size): what each query sees of those up to its own, of the last
        `window` of them where that is given."""
        tokens, out = len(q), np.zeros_like(q)
        for head in range(self.heads):
            of = head // (self.heads // self.shared)
            score = q[:, head] @ k[:, of].T / np.sqrt(q.shape[-1])
            score[np.triu_indices(tokens, 1)] = -np.inf
            score[np.tril_indices(tokens, -(window or tokens))] = -np.inf
            share = np.exp(score - score.max(-1, keepdims=True))
            out[:, head] = share / share.sum(-1, keepdims=True) @ v[:, of]
        return out.reshape(tokens, -1)


class Llama(Family):
    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.number("attention.layer_norm_rms_epsilon")) * self.weight(name)

    def angles(self, x):
        """Cosine and sine for each position and pair of a head's numbers: x is (tokens, heads, size)."""
        size = x.shape[-1]
        frequency = self.number("rope.freq_base", 10000.0) ** (-np.arange(0, size, 2) / size)
        if "rope_freqs.weight" in self.tensors:
            frequency = frequency / self.weight("rope_freqs.weight")
        if self.scaling:
            factor, low, high, original = (self.scaling[key] for key in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"))
            wave = 2 * np.pi / frequency
            smooth = (original / wave - low) / (high - low)
            frequency = np.where(wave > original / low, frequency / factor, np.where(wave < original / high, frequency, (1 - smooth) * frequency / factor + smooth * frequency))
        angle = np.arange(len(x))[:, None] * frequency
        return np.cos(angle)[:, None], np.sin(angle)[:, None]

    def turn(self, x, name):
        """Neighbours turn by their position's angle."""
        cosine, sine = self.angles(x)
        even, odd = x[..., 0::2], x[..., 1::2]
        return np.stack([even * cosine - odd * sine, even * sine + odd * cosine], axis=-1).reshape(x.shape)

    def attention(self, h, layer):
        name = f"blk.{layer}.attn_"
        q, k, v = (self.product(h, f"{name}{part}.weight").reshape(len(h), heads, -1)
                   for part, heads in (("q", self.heads), ("k", self.shared), ("v", self.shared)))
        return self.product(self.attend(self.turn(q, name + "q_norm.weight"), self.turn(k, name + "k_norm.weight"), v), name + "output.weight")

    def feed_forward(self, h, layer):
        gate, up = (self.product(h, f"blk.{layer}.ffn_{part}.weight") for part in ("gate", "up"))
        return self.product(gate / (1 + np.exp(-gate)) * up, f"blk.{layer}.ffn_down.weight")

    def embedded(self, tokens):
        return self.weight("token_embd.weight")[np.asarray(tokens)]

    def logits(self, tokens):
        x = self.embedded(tokens)
        for layer in range(self.layers):
            x = x + self.attention(self.norm(x, f"blk.{layer}.attn_norm.weight"), layer)
            x = x + self.feed_forward(self.norm(x, f"blk.{layer}.ffn_norm.weight"), layer)
        return self.product(self.norm(x, "output_norm.weight"), "output.weight")


class Qwen3(Llama):
    def turn(self, x, name):
        """Each head has a norm; then its halves turn."""
        x = self.norm(x, name)
        cosine, sine = self.angles(x)
        low, high = np.split(x, 2, axis=-1)
        return np.concatenate([low * cosine - high * sine, low * sine + high * cosine], axis=-1)


class Qwen2(Llama):
    def product(self, h, name):
        bias = name.replace(".weight", ".bias")
        return super().product(h, name) + (self.weight(bias) if bias in self.tensors else 0)

    def turn(self, x, name):
        return self.turn_halves(x, self.number("rope.freq_base", 10000.0))

    @staticmethod
    def turn_halves(x, base):
        size = x.shape[-1]
        angle = np.arange(len(x))[:, None] * base ** (-np.arange(0, size, 2) / size)
        cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
        low, high = np.split(x, 2, axis=-1)
        return np.concatenate([low * cosine - high * sine, low * sine + high * cosine], axis=-1)


class Gemma3(Qwen2):
    """Heads are divided by the root of their size; every sixth layer sees all tokens."""

    def attention(self, h, layer):
        name, near = f"blk.{layer}.attn_", (layer + 1) % 6 != 0
        q, k, v = (self.product(h, f"{name}{part}.weight").reshape(len(h), heads, -1)
                   for part, heads in (("q", self.heads), ("k", self.shared), ("v", self.shared)))
        base = 10000.0 if near else self.number("rope.freq_base")
        q, k = (self.turn_halves(self.norm(x, f"{name}{part}_norm.weight"), base) for part, x in (("q", q), ("k", k)))
        o = self.attend(q, k, v, self.number("attention.sliding_window") if near else None)
        return self.norm(self.product(o, name + "output.weight"), f"blk.{layer}.post_attention_norm.weight")

    def feed_forward(self, h, layer):
        gate, up = (self.product(h, f"blk.{layer}.ffn_{part}.weight") for part in ("gate", "up"))
        gate = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        return self.norm(self.product(gate * up, f"blk.{layer}.ffn_down.weight"), f"blk.{layer}.post_ffw_norm.weight")

    def embedded(self, tokens):
        return super().embedded(tokens) * np.sqrt(self.number("embedding_length"))


class Gpt2(Family):
    def norm(self, x, name):
        x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.number("attention.layer_norm_epsilon")) * self.weight(name + ".weight") + self.weight(name + ".bias")

    def linear(self, h, name):
        return self.product(h, name + ".weight") + self.weight(name + ".bias")

    def block(self, x, layer):
        name = f"blk.{layer}."
        q, k, v = (part.reshape(len(x), self.heads, -1) for part in np.split(self.linear(self.norm(x, name + "attn_norm"), name + "attn_qkv"), 3, axis=-1))
        x = x + self.linear(self.attend(q, k, v), name + "attn_output")
        h = self.linear(self.norm(x, name + "ffn_norm"), name + "ffn_up")
        h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
        return x + self.linear(h, name + "ffn_down")

    def logits(self, tokens):
        x = self.weight("token_embd.weight")[np.asarray(tokens)] + self.weight("position_embd.weight")[:len(tokens)]
        for layer in range(self.layers):
            x = self.block(x, layer)
        return self.product(self.norm(x, "output_norm"), "output.weight")
