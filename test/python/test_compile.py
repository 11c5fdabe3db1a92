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


def rms(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


class Compiled(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        torch._dynamo.reset()

    def same(self, model, *inputs):
        leaves = [each for each in inputs if each.requires_grad]
        if isinstance(model, torch.nn.Module):
            leaves += list(model.parameters())
        results = []
        for each in (model, torch.compile(model, backend=compile_graph)):
            y = each(*inputs)
            gradients = torch.autograd.grad((y * torch.arange(y.numel()).view_as(y)).sum(), leaves) if leaves else ()
            results.append((y, *gradients))
        for want, got in zip(*results):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)

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

    def test_transposed_operands(self):
        self.same(lambda x, y: torch.tanh(x + y) * 2, torch.randn(4, 5).t(), torch.randn(5, 4))

    def test_explain(self):
        found = explain(Block(), torch.randn(2, 3, 16, requires_grad=True))
        self.assertGreater(len(found.texts), 1)
        self.assertTrue(any("mm" in name for name in found.eager), found.eager)
        self.assertIn("kernel", str(found))


if __name__ == "__main__":
    unittest.main()
