"""The Llama family in NumPy's f64, from the tensors of a GGUF file: logits of every position of a text. What is multiplied
with weights in blocks is rounded to 16 bits, 32 numbers a scale, where groups of sixteen rows make up the weight."""
import numpy as np

import gguf_files


def quantised(x):
    """As models/packed.hr says it."""
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = np.abs(blocks).max(-1, keepdims=True) / 32512
    return (np.round(np.divide(blocks, scale, out=np.zeros_like(blocks), where=scale > 0)) * scale).reshape(x.shape)


class Llama:
    def __init__(self, pairs, tensors, rounds=True):
        self.pairs, self.tensors, self.cached, self.rounds = pairs, tensors, {}, rounds
        number = lambda key: pairs["llama." + key]
        self.layers, self.heads = number("block_count"), number("attention.head_count")
        self.shared = pairs.get("llama.attention.head_count_kv", self.heads)
        self.eps, self.theta = number("attention.layer_norm_rms_epsilon"), pairs.get("llama.rope.freq_base", 10000.0)

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

    def norm(self, x, name):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.weight(name)

    def turn(self, x):
        """Neighbours turn by their position's angle: x is (tokens, heads, size)."""
        size = x.shape[-1]
        angle = np.arange(len(x))[:, None] * self.theta ** (-np.arange(0, size, 2) / size)
        even, odd = x[..., 0::2], x[..., 1::2]
        cosine, sine = np.cos(angle)[:, None], np.sin(angle)[:, None]
        return np.stack([even * cosine - odd * sine, even * sine + odd * cosine], axis=-1).reshape(x.shape)

    def attention(self, h, layer):
        name = f"blk.{layer}.attn_"
        tokens = len(h)
        q = self.turn(self.product(h, name + "q.weight").reshape(tokens, self.heads, -1))
        k = self.turn(self.product(h, name + "k.weight").reshape(tokens, self.shared, -1))
        v = self.product(h, name + "v.weight").reshape(tokens, self.shared, -1)
        out = np.zeros_like(q)
        for head in range(self.heads):
            of = head // (self.heads // self.shared)
            score = q[:, head] @ k[:, of].T / np.sqrt(q.shape[-1])
            score[np.triu_indices(tokens, 1)] = -np.inf
            share = np.exp(score - score.max(-1, keepdims=True))
            out[:, head] = share / share.sum(-1, keepdims=True) @ v[:, of]
        return self.product(out.reshape(tokens, -1), name + "output.weight")

    def feed_forward(self, h, layer):
        gate, up = (self.product(h, f"blk.{layer}.ffn_{part}.weight") for part in ("gate", "up"))
        return self.product(gate / (1 + np.exp(-gate)) * up, f"blk.{layer}.ffn_down.weight")

    def logits(self, tokens):
        x = self.weight("token_embd.weight")[np.asarray(tokens)]
        for layer in range(self.layers):
            x = x + self.attention(self.norm(x, f"blk.{layer}.attn_norm.weight"), layer)
            x = x + self.feed_forward(self.norm(x, f"blk.{layer}.ffn_norm.weight"), layer)
        return self.product(self.norm(x, "output_norm.weight"), "output.weight")
