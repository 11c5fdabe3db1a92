"""torch.compile(model, backend="headroom"): small models give what they give eagerly, gradients too."""

import importlib.util
import unittest

if importlib.util.find_spec("torch") is None:
    raise unittest.SkipTest("PyTorch is not installed")

import torch
from headroom._compile import compile_graph, explain


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.up, self.down = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x):
        h = torch.nn.functional.gelu(self.up(self.norm(x)))
        return x + torch.softmax(self.down(h), dim=-1)


class Transformer(torch.nn.Module):
    """A small GPT with its loss."""

    def __init__(self, width=32, heads=4, words=50):
        super().__init__()
        self.heads = heads
        self.table, self.place = torch.nn.Embedding(words, width), torch.nn.Parameter(torch.randn(16, width) / 10)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, token, target):
        x = self.table(token) + self.place
        b, t, c = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        past = torch.ones(t, t, dtype=torch.bool).tril()
        scores = ((q @ k.transpose(-1, -2)) / 8**0.5).masked_fill(~past, float("-inf")).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(b, t, c))
        x = x + self.down(torch.nn.functional.gelu(self.up(self.norms[1](x)), approximate="tanh"))
        return torch.nn.functional.cross_entropy((x @ self.table.weight.t()).view(b * t, -1).float(), target.view(-1))


class Convolution(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.norm = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)

    def forward(self, x):
        h = torch.relu(self.norm(self.layer(x)))
        return torch.log_softmax((h + torch.nn.functional.silu(h) * torch.sigmoid(h)).mean((2, 3)), -1)


def rms(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


class Compiled(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        torch._dynamo.reset()

    def same(self, model, *inputs, bound=1e-4):
        leaves = [each for each in inputs if each.requires_grad]
        if isinstance(model, torch.nn.Module):
            leaves += list(model.parameters())
        results = []
        for each in (model, torch.compile(model, backend=compile_graph)):
            y = each(*inputs)
            gradients = torch.autograd.grad((y * torch.arange(y.numel()).view_as(y)).sum(), leaves) if leaves else ()
            results.append((y, *gradients))
        for want, got in zip(*results):
            torch.testing.assert_close(got, want, rtol=bound, atol=bound / 10)

    def test_pointwise(self):
        self.same(
            lambda x, y: torch.where(x > y, x * 2 - 1, torch.exp(-y)) / (1 + x.abs()), torch.randn(3, 5), torch.randn(5)
        )

    def test_norm_with_gradients(self):
        self.same(rms, torch.randn(4, 6, requires_grad=True), torch.randn(6, requires_grad=True))

    def test_reductions(self):
        self.same(
            lambda x: (x * x).sum(1) + x.amax([0, 2], keepdim=True).squeeze() * x.mean((0, 2)).sum(),
            torch.randn(3, 3, 3),
        )

    def test_block(self):
        self.same(Block(), torch.randn(2, 3, 16, requires_grad=True))

    def test_transformer(self):
        token = torch.randint(0, 50, (2, 16))
        self.same(Transformer(), token, token.roll(1, 1))
        self.same(Transformer().bfloat16(), token, token.roll(1, 1), bound=5e-2)

    def test_convolution(self):
        self.same(Convolution(), torch.randn(2, 3, 8, 8), bound=1e-3)

    def test_dynamic_shapes_stay(self):
        compiled = torch.compile(lambda x: torch.tanh(x * 2) + 1, backend=compile_graph, dynamic=True)
        for size in (3, 5):
            torch.testing.assert_close(compiled(torch.ones(size)), torch.tanh(torch.ones(size) * 2) + 1)

    def test_transposed_operands(self):
        self.same(lambda x, y: torch.tanh(x + y) * 2, torch.randn(4, 5).t(), torch.randn(5, 4))

    def test_explain(self):
        found = explain(Block(), torch.randn(2, 3, 16, requires_grad=True))
        self.assertGreater(len(found.texts), 1)
        self.assertTrue(any("mm" in name for name in found.eager), found.eager)
        self.assertIn("kernel", str(found))


if __name__ == "__main__":
    unittest.main()
