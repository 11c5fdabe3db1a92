"""Kernels as PyTorch operators, on the CPU: values, gradients, fake tensors, torch.compile, autocast."""

import importlib.util
import unittest

import headroom as hr
import texts

if importlib.util.find_spec("torch") is None:
    raise unittest.SkipTest("PyTorch is not installed")

import headroom.torch
import torch
from headroom import _headroom

SCALED = """
kernel scaled(x: T[M, N], gain: f32[N], bias: f32 = 0.5) -> (y: T[M, N], peak: f32[M], place: i32[M]) {
    y[m, n] = tanh(x[m, n] * gain[n] + bias)
    peak[m] = sum[n](x[m, n]^2)
    place[m] = argmax[n](x[m, n])
}"""


class Calls(unittest.TestCase):
    def test_tensors_come_out(self):
        x, w = torch.randn(3, 8), torch.randn(8)
        y = hr.kernel(texts.RMSNORM)(x.t().contiguous().t(), w)
        self.assertIsInstance(y, torch.Tensor)
        torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (8,), w, 1e-6))

    def test_small_floats(self):
        x, w = torch.randn(3, 8).bfloat16(), torch.ones(8).bfloat16()
        y = hr.kernel(texts.RMSNORM)(x, w)
        self.assertEqual(y.dtype, torch.bfloat16)
        torch.testing.assert_close(y, torch.nn.functional.rms_norm(x, (8,), w, 1e-6))

    def test_wrong_dtype(self):
        with self.assertRaisesRegex(TypeError, "weight"):
            hr.kernel(texts.RMSNORM)(torch.ones(2, 3), torch.ones(3).double())

    def test_inout_and_out(self):
        p = torch.ones(4, requires_grad=True)
        with torch.no_grad():
            hr.kernel(texts.ADD_INTO)(p, torch.ones(4))
        torch.testing.assert_close(p.detach(), torch.full((4,), 0.5))
        y = torch.empty(2, 3)
        self.assertIs(hr.kernel(texts.SOFTMAX)(torch.zeros(2, 3), out=y), y)

    def test_a_plain_call_has_a_gradient(self):
        x, w = torch.randn(3, 8, requires_grad=True), torch.randn(8, requires_grad=True)
        hr.kernel(texts.RMSNORM)(x, weight=w).sum().backward()
        gx, gw = x.grad.clone(), w.grad.clone()
        x.grad = w.grad = None
        torch.nn.functional.rms_norm(x, (8,), w, 1e-6).sum().backward()
        torch.testing.assert_close(gx, x.grad)
        torch.testing.assert_close(gw, w.grad)


class Attention(unittest.TestCase):
    """Beside PyTorch's own: values and gradients, with masks that say a place or that data say."""

    TEXT = """
    kernel attend(q: T[B, H, I, D], k: T[B, H, J, D], v: T[B, H, J, E], document: i32[J]) -> (o: T[B, H, I, E]) {
        s[b, h, i, j] = where(MASK, sum[d](q[b, h, i, d] * k[b, h, j, d]) * rsqrt(D), -inf)
        o[b, h, i, e] = sum[j](softmax[j](s[b, h, i, j]) * v[b, h, j, e])
    }"""
    MASKS = {
        "true": lambda i, j, document: i + j >= 0,
        "j <= i + J - I": lambda i, j, document: j <= i + len(document) - len(i),
        "j <= i and document[j] == document[i + 0]": lambda i, j, document: (j <= i) & (document[j] == document[i]),
    }

    def compare(self, mask, queries, keys, deep, wide):
        torch.manual_seed(queries + keys)
        q, k, v = (torch.randn(1, 2, *shape, requires_grad=True)
                   for shape in ((queries, deep), (keys, deep), (keys, wide)))
        document = torch.arange(keys, dtype=torch.int32) // 48
        places = torch.arange(queries)[:, None], torch.arange(keys)[None]
        seen = self.MASKS[mask](*places, document.long())
        do = torch.randn(1, 2, queries, wide)
        def both(o):
            return (o, *torch.autograd.grad(o, (q, k, v), do))

        ours = both(hr.kernel(self.TEXT.replace("MASK", mask))(q, k, v, document))
        theirs = both(torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen))
        for one, other in zip(ours, theirs):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=2e-5)

    def test_beside_pytorch(self):
        self.compare("true", 65, 129, 40, 64)
        self.compare("j <= i + J - I", 100, 127, 32, 32)
        self.compare("j <= i and document[j] == document[i + 0]", 300, 300, 16, 24)


class KnownShapes(unittest.TestCase):
    """The way in which a compiled graph calls its kernels."""

    TEXT = """
    kernel pick(table: f32[5, 4], at: i64[3], one: f32[1]) -> (y: f32[3, 4], top: bf16[3]) {
        y[i, c] = table[at[i], c] * one[0]
        top[i] = bf16(max[c](y[i, c]))
    }"""

    def made(self, operands=None):
        makers = (lambda: torch.empty(3, 4), lambda: torch.empty(3, dtype=torch.bfloat16))
        places = (((5, 4), (1, 0)), ((3,), (0,)), ((1,), (0,)), ((3, 4), (0, 1)), ((3,), (0,)))
        return _headroom.Fixed(hr.kernel(self.TEXT)._route("cpu"), operands or places, makers).call

    def test_where_tensors_lie_and_how(self):
        call, one = self.made(), torch.tensor(2.0)  # without axes; the table's are the other way round
        for table in (torch.randn(4, 5), torch.randn(5, 4).t(), torch.randn(4, 10)[:, ::2]):
            at = torch.tensor([4, 0, 4, 2, 1, 0])[::2]
            y, top = call(table, at, one)
            torch.testing.assert_close(y, table.t()[at] * 2)
            torch.testing.assert_close(top, y.amax(1).bfloat16())

    def test_no_elements(self):
        with torch._subclasses.FakeTensorMode():
            empty = torch.empty(4, 5)
        self.assertIs(self.made()(empty, torch.zeros(3, dtype=torch.int64), torch.ones(1)), NotImplemented)

    def test_wrong(self):
        call, table, at = self.made(), torch.randn(4, 5), torch.tensor([0, 1, 5])
        with self.assertRaises(hr.OutOfRange):
            call(table, at, torch.ones(1))
        with self.assertRaisesRegex(TypeError, "3 parameters, and 2"):
            call(table, at)
        with self.assertRaises(TypeError):
            call(table, at, 1.0)
        for operands in ((), (((5, 4), (0,)),) * 5, (((5,), (0,)),) * 5):
            with self.assertRaises(ValueError):
                self.made(operands or (((5, 4), (0, 1)),))


class Operators(unittest.TestCase):
    def test_opcheck(self):
        rmsnorm, scaled = headroom.torch.op(texts.RMSNORM), headroom.torch.op(SCALED)
        x, w = torch.randn(3, 8, requires_grad=True), torch.randn(8, requires_grad=True)
        torch.library.opcheck(rmsnorm._call, (x, w))
        torch.library.opcheck(rmsnorm._call, (x.detach(), w, 0.5))
        torch.library.opcheck(scaled._call, (x, w, 0.25))
        torch.library.opcheck(headroom.torch.op(texts.ADD_INTO)._call, (torch.ones(5), torch.ones(5)))

    def test_gradcheck(self):
        x = torch.randn(3, 4, dtype=torch.double, requires_grad=True)
        w = torch.randn(4, dtype=torch.double, requires_grad=True)
        rmsnorm = headroom.torch.op(texts.RMSNORM)
        self.assertTrue(torch.autograd.gradcheck(rmsnorm, (x, w), atol=1e-4))
        self.assertTrue(torch.autograd.gradcheck(headroom.torch.op(texts.SOFTMAX), (x,)))
        self.assertTrue(torch.autograd.gradgradcheck(headroom.torch.op(texts.SOFTMAX), (x,)))

    def test_gradients_by_name_and_under_transformations(self):
        rmsnorm = headroom.torch.op(texts.RMSNORM)
        x, w = torch.randn(3, 8), torch.randn(8, requires_grad=True)
        (got,) = torch.autograd.grad(rmsnorm(weight=w, eps=0.5, x=x).sum(), w)
        (want,) = torch.autograd.grad((x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 0.5) * w).sum(), w)
        torch.testing.assert_close(got, want)
        for wrong in (lambda: rmsnorm(x), lambda: rmsnorm(x, w, x=x), lambda: rmsnorm(x, w, epsilon=1)):
            with self.assertRaises(TypeError):
                wrong()
        with torch._subclasses.FakeTensorMode():
            self.assertEqual(rmsnorm(torch.empty(5, 8), torch.empty(8, requires_grad=True)).shape, (5, 8))

    def test_only_some_gradients(self):
        x, gain = torch.randn(3, 4, requires_grad=True), torch.randn(4)
        y, peak, place = headroom.torch.op(SCALED)(x, gain)
        self.assertEqual(place.dtype, torch.int32)
        (y.sum() + 2 * peak.sum()).backward()
        got = x.grad.clone()
        x.grad = None
        (torch.tanh(x * gain + 0.5).sum() + 2 * (x**2).sum()).backward()
        torch.testing.assert_close(got, x.grad)
        x.grad = None
        headroom.torch.op(SCALED)(x, gain).peak.sum().backward()
        torch.testing.assert_close(x.grad, 2 * x.detach())

    def test_an_extent_that_no_array_of_the_gradient_says(self):
        x = torch.randn(3, 4, requires_grad=True)
        headroom.torch.op(texts.TWO)(x).total.sum().backward()
        torch.testing.assert_close(x.grad, torch.ones(3, 4))

    def test_registered_once(self):
        self.assertIs(headroom.torch.op(texts.SOFTMAX), headroom.torch.op(hr.kernel(texts.SOFTMAX)))

    def test_compiled_with_dynamic_shapes(self):
        rmsnorm = headroom.torch.op(texts.RMSNORM)

        def layer(x, w):
            return torch.relu(rmsnorm(x * 2, w)) + 1

        compiled = torch.compile(layer, backend="aot_eager", fullgraph=True, dynamic=True)
        for m in (2, 5, 9):
            x, w = torch.randn(m, 8, requires_grad=True), torch.randn(8)
            compiled(x, w).sum().backward()
            got = x.grad.clone()
            x.grad = None
            layer(x, w).sum().backward()
            torch.testing.assert_close(got, x.grad)

    def test_autocast(self):
        rmsnorm = headroom.torch.op(texts.RMSNORM)
        x, w = torch.randn(3, 8).bfloat16(), torch.randn(8)
        with self.assertRaises(TypeError):
            rmsnorm(x, w)
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(rmsnorm(x, w).dtype, torch.float32)


if __name__ == "__main__":
    unittest.main()
