"""Calls with PyTorch's tensors on a GPU, for `make test-gpu`: values, streams, graphs, threads, wrong devices."""

import gc
import importlib.util
import random
import threading
import unittest
from unittest import mock

import headroom as hr
import headroom.torch
import texts
import torch

if not torch.cuda.is_available():
    raise unittest.SkipTest("PyTorch finds no CUDA GPU")

BOUNDS = {torch.float32: 2e-5, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def strided(values):
    """The same values, dense, transposed in memory, or with gaps."""
    way = random.randrange(3)
    if way == 1:
        return values.t().contiguous().t() if values.dim() == 2 else values
    if way == 2:
        return torch.stack([values, values], -1)[..., 0]
    return values


def rms(x, w):
    wide = x.float()
    return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


class Gpu(unittest.TestCase):
    def setUp(self):
        random.seed(11)
        torch.manual_seed(11)

    def test_two_hundred_calls(self):
        rmsnorm, softmax = hr.kernel(texts.RMSNORM), hr.kernel(texts.SOFTMAX)
        for _ in range(100):
            dtype = random.choice(list(BOUNDS))
            m, n = random.randint(16, 31), random.choice((16, 17, 24, 31, 256, 300))
            x = strided(torch.randn(m, n, device="cuda").to(dtype))
            w = torch.randn(n, device="cuda").to(dtype)
            bound = BOUNDS[dtype]
            torch.testing.assert_close(rmsnorm(x, w), rms(x, w), rtol=bound, atol=bound)
            torch.testing.assert_close(softmax(x), torch.softmax(x.float(), 1).to(dtype), rtol=bound, atol=bound)

    def test_current_stream(self):
        softmax, stream = hr.kernel(texts.SOFTMAX), torch.cuda.Stream()
        x = torch.zeros(512, 512, device="cuda")
        softmax(x)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x.fill_(1)
            x[:, 0] = 200
            y = softmax(x)
        stream.synchronize()
        torch.testing.assert_close(y[:, 0], torch.ones(512, device="cuda"))

    def test_bound(self):
        """On the current stream, behind what fills the arrays; over a list of tensors in one launch."""
        x, stream = torch.zeros(512, 512, device="cuda"), torch.cuda.Stream()
        y = torch.empty_like(x)
        softmax = hr.kernel(texts.SOFTMAX).bind(x, y=y).prepare()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(50_000_000)
            x[:, 0] = 200
            softmax()
        stream.synchronize()
        torch.testing.assert_close(y[:, 0], torch.ones(512, device="cuda"))
        p, g = ([torch.full((count,), value, device="cuda") for count in (3, 0, 500)] for value in (1.0, 2.0))
        hr.kernel(texts.ADD_INTO).bind(p=p, g=g, rate=0.25)()
        for each in p:
            torch.testing.assert_close(each, torch.full_like(each, 0.5))

    def test_matrices_that_lie_apart(self):
        """By the copy engine, and where rows or addresses are no whole 16 bytes."""
        for count, odd in ((64, 0), (64, 1), (37, 0)):
            room = lambda: torch.randn(count * count + 8, device="cuda").bfloat16()
            a, b, c = ([room()[odd : odd + count * count].view(count, count) for _ in range(5)] for _ in range(3))
            a[3] = a[1]
            hr.kernel(texts.PRODUCTS).bind(a=a, b=b, c=c)()
            for left, right, got in zip(a, b, c):
                torch.testing.assert_close(got.float(), left.float() @ right.float(), rtol=1.6e-2, atol=2e-2)

    def test_graph(self):
        op = hr.torch.op(texts.RMSNORM)
        x, w = torch.randn(64, 256, device="cuda"), torch.randn(256, device="cuda")
        op(x, w)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = op(x, w)
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(y, rms(x, w), rtol=2e-5, atol=2e-5)

    def test_compiled_model_is_a_graph(self):
        """Inputs and weights that move, results that stay, another stream: as the model says one by one."""
        linear = torch.nn.Linear(64, 64, device="cuda")
        weight = lambda: torch.randn(64, 64, device="cuda") / 4  # values stay near 1 from layer to layer

        def model(x):
            for _ in range(6):
                x = torch.nn.functional.gelu(linear(x))
                x = x - x.mean(0, keepdim=True)  # over rows: with scratch
            return x

        linear.weight.data = weight()
        compiled, made = torch.compile(model, backend="headroom"), []
        replay = torch.cuda.CUDAGraph.replay
        with (
            torch.no_grad(),
            mock.patch.object(torch.cuda.CUDAGraph, "replay", autospec=True, side_effect=replay) as played,
        ):
            for turn in range(8):
                if turn == 5:
                    linear.weight.data = weight()
                x = torch.randn(4096, 64, device="cuda")
                made.append((model(x), compiled(x), x))
            with torch.cuda.stream(torch.cuda.Stream()):
                x = torch.ones(4096, 64, device="cuda")
                made.append((model(x), compiled(x), x))
            torch.cuda.synchronize()
        self.assertEqual(played.call_count, 7)
        for want, got, _ in made:
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)

    def test_gradients(self):
        x = torch.randn(4, 6, device="cuda", dtype=torch.double, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(hr.torch.op(texts.SOFTMAX), (x,)))

    def test_wrong_devices(self):
        with self.assertRaisesRegex(ValueError, "different memories"):
            hr.kernel(texts.RMSNORM)(torch.ones(2, 3, device="cuda"), torch.ones(3))

    def test_freed_temporaries(self):
        outer = hr.kernel(texts.OUTER)
        for size in range(1, 60):
            y = outer(torch.full((size, 3, 2), 2.0, device="cuda") * 2, 0.5)
            gc.collect()
            self.assertTrue(bool((y == 3).all()))

    def test_threads(self):
        rmsnorm, wrong = hr.kernel(texts.RMSNORM), []

        def work(seed):
            generator = torch.Generator("cuda").manual_seed(seed)
            for _ in range(30):
                x = torch.randn(32, 64 + seed, device="cuda", generator=generator)
                w = torch.randn(64 + seed, device="cuda", generator=generator)
                if not torch.allclose(rmsnorm(x, w), rms(x, w), rtol=1e-4, atol=1e-4):
                    wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(wrong, [])

    @unittest.skipUnless(importlib.util.find_spec("cupy"), "CuPy is not installed")
    def test_cupy(self):
        import cupy

        x = torch.randn(8, 16, device="cuda")
        with cupy.cuda.Stream(non_blocking=True) as stream:
            mine = cupy.asarray(x.cpu().numpy())
            y = hr.kernel(texts.SOFTMAX)(mine[:, ::2])
            self.assertIsInstance(y, cupy.ndarray)
            stream.synchronize()
        torch.testing.assert_close(torch.from_numpy(y.get()), torch.softmax(x[:, ::2], 1).cpu(), rtol=2e-5, atol=2e-5)

    def test_both_devices(self):
        softmax = hr.kernel(texts.SOFTMAX)
        for device in ("cpu", "cuda", "cpu", "cuda"):
            x = torch.randn(8, 16, device=device)
            y = softmax(x)
            self.assertEqual(y.device.type, device)
            torch.testing.assert_close(y, torch.softmax(x, 1), rtol=2e-5, atol=2e-5)


if __name__ == "__main__":
    unittest.main()
