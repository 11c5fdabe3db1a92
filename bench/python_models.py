"""The models of bench/python_gpu.py, in plain PyTorch with random weights: what their compilers see is what people write.

A model is (module, inputs, loss): with a loss it is trained, without it runs forwards in bf16.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    """With queries, keys and values by one product, as GPT-2 has it, or by three, as BERT and Llama."""

    def __init__(self, width, heads, heads_kv, causal, bias, joint):
        super().__init__()
        self.heads, self.heads_kv, self.causal = heads, heads_kv, causal
        self.head = width // heads
        counts = (heads, heads_kv, heads_kv)
        counts = [sum(counts)] if joint else counts
        self.qkv = nn.ModuleList(nn.Linear(width, count * self.head, bias=bias) for count in counts)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x, rotate=None):
        b, t, c = x.shape
        parts = [each(x).view(b, t, -1, self.head).transpose(1, 2) for each in self.qkv]
        q, k, v = parts[0].split(self.heads, 1) if len(parts) == 1 else parts
        if rotate is not None:
            q, k = rotate(q), rotate(k)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=self.heads != self.heads_kv)
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    """Norm first, as GPT-2 has it, or behind, as BERT."""

    def __init__(self, width, heads, causal, norm_first):
        super().__init__()
        self.norm_first = norm_first
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, heads, causal, True, norm_first)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def mlp(self, x):
        return self.down(F.gelu(self.up(x), approximate="tanh" if self.norm_first else "none"))

    def forward(self, x):
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Encoder(nn.Module):
    def __init__(self, vocabulary, places, causal, norm_first, head, width=768, heads=12, layers=12):
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(places, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal, norm_first) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False) if head else nn.Identity()

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class Llama(nn.Module):
    """The shape of Llama 3.2 1B."""

    def __init__(self, width=2048, heads=32, heads_kv=8, hidden=8192, layers=16, vocabulary=128256):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(
            nn.ModuleList([RMSNorm(width), Attention(width, heads, heads_kv, True, False, False), RMSNorm(width),
                           nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False),
                           nn.Linear(hidden, width, bias=False)]) for _ in range(layers))
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.half = width // heads // 2

    def forward(self, tokens):
        place = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)
        angle = place[:, None] * 5e5 ** (-torch.arange(self.half, device=tokens.device) / self.half)
        cos, sin = angle.cos(), angle.sin()

        def rotate(x):
            a, b = x.float().chunk(2, -1)
            return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)

        x = self.token(tokens)
        for norm1, attention, norm2, gate, up, down in self.layers:
            x = x + attention(norm1(x), rotate)
            h = norm2(x)
            x = x + down(F.silu(gate(h)) * up(h))
        return self.head(self.norm(x[:, -1:]))


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        make = lambda i, o, k, s: nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o))
        self.parts = nn.ModuleList([make(inside, width, 1, 1), make(width, width, 3, stride), make(width, 4 * width, 1, 1)])
        self.short = nn.Identity() if inside == 4 * width and stride == 1 else make(inside, 4 * width, 1, stride)

    def forward(self, x):
        y = F.relu(self.parts[0](x))
        y = F.relu(self.parts[1](y))
        return F.relu(self.parts[2](y) + self.short(x))


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, inside = [], 64
        for width, count in ((64, 3), (128, 4), (256, 6), (512, 3)):
            for i in range(count):
                blocks.append(Bottleneck(inside, width, 2 if i == 0 and width > 64 else 1))
                inside = 4 * width
        self.blocks, self.head = nn.Sequential(*blocks), nn.Linear(2048, 1000)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def _tokens(vocabulary, *shape):
    return torch.randint(vocabulary, shape, device="cuda")


def gpt2():
    """GPT-2 124M, a training step of 8 x 1024 tokens under autocast."""
    tokens, targets = _tokens(50304, 8, 1024), _tokens(50304, 8, 1024)
    loss = lambda logits: F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))
    return Encoder(50304, 1024, True, True, True).cuda(), (tokens,), loss


def resnet50():
    """ResNet-50, 64 images of 224 x 224, forwards."""
    images = torch.randn(64, 3, 224, 224, device="cuda", dtype=torch.bfloat16)
    return ResNet50().cuda().bfloat16().eval(), (images,), None


def bert():
    """BERT-base, 32 x 384 tokens, forwards."""
    return Encoder(30522, 512, False, False, False).cuda().bfloat16().eval(), (_tokens(30522, 32, 384),), None


def llama():
    """The shape of Llama 3.2 1B, a prompt of 2048 tokens."""
    return Llama().cuda().bfloat16().eval(), (_tokens(128256, 1, 2048),), None


MODELS = {"gpt2": gpt2, "resnet50": resnet50, "bert": bert, "llama": llama}
