"""torch.compile(model, backend="headroom"): small models give what they give eagerly, gradients too."""

import importlib.util
import unittest

if importlib.util.find_spec("torch") is None:
    raise unittest.SkipTest("PyTorch is not installed")

import headroom.torch  # noqa: F401 (registers the backend)
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

    def same(self, model, *inputs, bound=1e-4, **options):
        leaves = [each for each in inputs if each.requires_grad]
        if isinstance(model, torch.nn.Module):
            leaves += list(model.parameters())
        results = []
        for each in (model, torch.compile(model, backend="headroom", options=options or None)):
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

    def test_products_and_attention_as_texts(self):
        token = torch.randint(0, 50, (2, 16))
        self.same(Transformer(), token, token.roll(1, 1), products=True)
        q = torch.randn(2, 4, 16, 8, requires_grad=True)
        k, v = (torch.randn(2, 16, 4, 8).transpose(1, 2).requires_grad_() for _ in range(2))
        attention = torch.nn.functional.scaled_dot_product_attention
        for causal in (False, True):
            self.same(lambda *qkv: attention(*qkv, is_causal=causal), q, k, v, bound=1e-3, attention=True)  # noqa: B023
        grouped = (k[:, :2].detach(), v[:, :2].detach())
        self.same(lambda *qkv: attention(*qkv, enable_gqa=True), q.detach(), *grouped, attention=True)

    def test_attention_taken_apart(self):
        def attend(q, k, v):
            scores = q @ k.transpose(-1, -2) * 0.3
            return scores.masked_fill(scores > 1, float("-inf")).softmax(-1) @ v

        parts = [torch.randn(3, 5, 8) for _ in range(3)]
        self.same(attend, *parts, products=True)
        self.assertIn("bmm", self.texts(attend, *parts, products=True)[0])

    def texts(self, model, *inputs, **options):
        with torch.no_grad():
            found = explain(model, *inputs, **options)
        return found.texts

    def test_an_epilogue_is_in_the_kernel_of_its_product(self):
        layer = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU())
        (text,) = self.texts(layer, torch.randn(2, 3, 16), products=True)
        self.assertIn("sum[k0 < 16]", text)
        self.assertIn("erf(", text)
        self.assertIn("[6, 32]", text)

    def test_single_operators(self):
        for model in (
            lambda x: x.to(torch.float64),
            lambda x: x.sum(0),
            lambda x: torch.cat([x, -x, x * 2], 1),
            lambda x: torch.cat([part + 1 for part in x.split([1, 3, 2], 1)[::-1]], 1)[:, 1:5:2],
            lambda x: x.clamp(-0.5, 0.5),
        ):
            self.same(model, torch.randn(4, 6))
            self.assertEqual(len(self.texts(model, torch.randn(4, 6))), 1)

    def test_places_from_data(self):
        table, place = torch.randn(7, 4), torch.randint(0, 7, (2, 3))
        self.same(lambda t, p: torch.nn.functional.embedding(p, t) * 2, table, place)
        self.same(lambda x, p: x.gather(1, p) + 1, torch.randn(2, 7), place)
        self.same(
            lambda x, p: torch.nn.functional.cross_entropy(x, p), torch.randn(5, 7, requires_grad=True), torch.arange(5)
        )

    def test_layers_share_a_kernel(self):
        layers = torch.nn.Sequential(
            *(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)) for _ in range(4))
        )
        self.assertEqual(len(self.texts(layers, torch.randn(3, 8))), 1)

    def test_nothing_waits_for_itself(self):
        def model(x, w):
            a = torch.tanh(x) + 1
            b = a @ w
            return a * b + torch.exp(b), a.sum() * 2

        x, w = torch.randn(4, 4), torch.randn(4, 4)
        for got, want in zip(torch.compile(model, backend="headroom")(x, w), model(x, w)):
            torch.testing.assert_close(got, want)

    def test_convolution(self):
        self.same(Convolution(), torch.randn(2, 3, 8, 8), bound=1e-3)
        with torch.no_grad():
            model, images = Convolution().eval(), torch.randn(2, 3, 8, 8)
            got = torch.compile(model, backend="headroom")(images)
            torch.testing.assert_close(got, model(images), rtol=1e-4, atol=1e-5)

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
