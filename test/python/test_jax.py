"""Kernels in JAX programs, on a GPU where JAX sees one, else on the CPU: values, jit, gradients, errors."""

import importlib.util
import unittest

import headroom as hr
import numpy as np
import texts

if importlib.util.find_spec("jax") is None:
    raise unittest.SkipTest("JAX is not installed")

import headroom.jax
import jax
import jax.numpy as jnp

RNG = np.random.default_rng(5)
ON_GPU = jax.default_backend() == "gpu"


def rms_norm(x, w, eps=1e-6):
    return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + eps) * w


class Jax(unittest.TestCase):
    def setUp(self):
        self.x = jnp.asarray(RNG.standard_normal((3, 8)), jnp.float32)
        self.w = jnp.asarray(RNG.standard_normal(8), jnp.float32)

    def near(self, got, want):
        self.assertIsInstance(got, jax.Array)
        np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=2e-5, atol=1e-5)

    def test_arrays_come_out(self):
        self.near(hr.kernel(texts.RMSNORM)(self.x, self.w), rms_norm(self.x, self.w))
        self.near(hr.kernel(texts.RMSNORM)(self.x, weight=self.w, eps=0.5), rms_norm(self.x, self.w, 0.5))
        y = hr.kernel(texts.SOFTMAX)(self.x.astype(jnp.bfloat16))
        self.assertEqual(y.dtype, jnp.bfloat16)

    def test_jit(self):
        rmsnorm = headroom.jax.op(texts.RMSNORM)
        program = jax.jit(lambda x, w, eps: rmsnorm(x * 2, w, eps) + 1, static_argnums=2 if ON_GPU else ())
        self.near(program(self.x, self.w, 0.25), rms_norm(self.x * 2, self.w, 0.25) + 1)
        self.near(program(self.x[:2], self.w, 0.5), rms_norm(self.x[:2] * 2, self.w, 0.5) + 1)

    @unittest.skipUnless(ON_GPU, "JAX sees no GPU")
    def test_numbers_are_of_the_program(self):
        rmsnorm = headroom.jax.op(texts.RMSNORM)
        with self.assertRaisesRegex(ValueError, "static_argnums"):
            jax.jit(rmsnorm)(self.x, self.w, 0.25)

    def test_what_comes_before_is_done(self):
        """The kernel follows what fills its inputs, and is followed by what reads its results, on XLA's stream."""
        softmax = headroom.jax.op(texts.SOFTMAX)

        @jax.jit
        def program(x):
            for _ in range(20):
                x = softmax(jnp.tanh(x @ x.T) @ x) + x
            return x

        def plain(x):
            for _ in range(20):
                x = jax.nn.softmax(jnp.tanh(x @ x.T) @ x, axis=-1) + x
            return x

        x = jnp.asarray(RNG.standard_normal((300, 200)) * 0.01, jnp.float32)
        np.testing.assert_allclose(np.asarray(program(x)), np.asarray(jax.jit(plain)(x)), rtol=2e-3, atol=1e-3)

    @unittest.skipIf(ON_GPU, "on a GPU a number is a part of XLA's program")
    def test_another_number_compiles_nothing(self):
        compiled = []

        def heard(event, seconds, **_):
            if event.endswith("backend_compile_duration"):
                compiled.append(event)

        jax.monitoring.register_event_duration_secs_listener(heard)
        add = headroom.jax.op(texts.ADD_INTO)
        w = np.asarray(self.w)
        self.near(add(self.w, self.w, 0.5), w * 0.5)
        self.assertGreater(len(compiled), 0)
        compiled.clear()
        for rate in (0.25, 0.125, 3, 1e-3):
            self.near(add(self.w, self.w, rate), w * (1 - rate))
        self.assertEqual(compiled, [])

    def test_numbers_keep_their_digits(self):
        wide = headroom.jax.op("kernel wide(x: f32[N], s: f64) -> (y: f32[N]) { y[n] = f32((s - 1) * 1e9) + x[n] }")
        self.near(wide(jnp.zeros(2), 1 + 1e-9), jnp.ones(2))

    def test_several_results(self):
        total, twice = jax.jit(headroom.jax.op(texts.TWO))(self.x)
        self.near(total, self.x.sum(1))
        self.near(twice, jnp.repeat(self.x, 2, axis=1))

    def test_gradients(self):
        rmsnorm = headroom.jax.op(texts.RMSNORM)
        for program in (lambda f: f, jax.jit):
            got = program(jax.grad(lambda x, w: (rmsnorm(x, w) ** 2 * self.x).sum(), argnums=(0, 1)))(self.x, self.w)
            want = jax.grad(lambda x, w: (rms_norm(x, w) ** 2 * self.x).sum(), argnums=(0, 1))(self.x, self.w)
            self.near(got[0], want[0])
            self.near(got[1], want[1])
        with self.assertRaisesRegex(ValueError, "no gradient for `eps`"):
            jax.grad(lambda eps: rmsnorm(self.x, self.w, eps).sum())(0.5)

    def test_only_one_gradient(self):
        two = headroom.jax.op(texts.TWO)
        self.near(jax.grad(lambda x: two(x).total.sum())(self.x), jnp.ones_like(self.x))

    def test_inout_is_a_result(self):
        p = jnp.ones(5)
        self.near(headroom.jax.op(texts.ADD_INTO)(p, jnp.ones(5), 0.25), jnp.full(5, 0.75))
        self.near(p, jnp.ones(5))

    def test_vmap(self):
        blocks = jnp.stack([self.x, self.x * 3])
        self.near(jax.vmap(headroom.jax.op(texts.SOFTMAX))(blocks), jax.nn.softmax(blocks, axis=-1))

    def test_errors(self):
        with self.assertRaises(TypeError):
            headroom.jax.op(texts.RMSNORM)(self.x, self.w.astype(jnp.float16))
        with self.assertRaises(ValueError):
            headroom.jax.op(texts.RMSNORM)(self.w, self.w)
        with self.assertRaisesRegex(Exception, "weight"):
            jax.block_until_ready(headroom.jax.op(texts.RMSNORM)(self.x, self.w[:3]))


if __name__ == "__main__":
    unittest.main()
