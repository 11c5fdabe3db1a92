"""Calls with NumPy's arrays: values, strides, dtypes, shapes, out=, lifetimes, threads."""

import ctypes
import gc
import sys
import threading
import unittest

import headroom as hr
import numpy as np
import texts

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

RNG = np.random.default_rng(7)


def near(test, got, want, dtype):
    bound = {"float16": 2e-3, "float32": 2e-5, "float64": 1e-12, "bfloat16": 1.6e-2}[str(np.dtype(dtype))]
    np.testing.assert_allclose(np.asarray(got, np.float64), want, rtol=bound, atol=bound)
    test.assertEqual(got.dtype, np.dtype(dtype))


def strided(values):
    """The same values in another layout: dense, reversed, with gaps, transposed memory, an offset."""
    way = RNG.integers(5)
    if way == 1:
        return np.ascontiguousarray(values[..., ::-1])[..., ::-1]
    if way == 2:
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    if way == 3:
        return np.asfortranarray(values)
    if way == 4:
        flat = np.zeros(values.size + 3, values.dtype)
        flat[3:] = values.ravel()
        return flat[3:].reshape(values.shape)
    return values


class RandomCalls(unittest.TestCase):
    """Two hundred calls in all, sizes, layouts and dtypes by chance."""

    def setUp(self):
        self.kernels = {
            name: hr.kernel(getattr(texts, name)) for name in ("RMSNORM", "SOFTMAX", "TWO", "GATHER", "MATMUL", "OUTER")
        }

    def sizes(self, count):
        """Mostly within a factor of two, which one code serves; small ones now and then."""
        return [int(RNG.integers(1, 4) if RNG.integers(16) == 0 else RNG.integers(16, 32)) for _ in range(count)]

    def values(self, shape, dtype):
        return strided(RNG.standard_normal(shape).astype(dtype))

    def test_rows(self):
        for _ in range(80):
            m, n = self.sizes(2)
            dtype = ("float32", "float32", "float16", "float64")[RNG.integers(4)]
            x, w = self.values((m, n), dtype), self.values((n,), dtype)
            near(self, self.kernels["RMSNORM"](x, w), texts.rmsnorm(x, w), dtype)
            near(self, self.kernels["SOFTMAX"](x=x), texts.softmax(x), dtype)

    def test_others(self):
        for _ in range(30):
            m, n, k = self.sizes(3)
            x = self.values((m, n), "float32")
            total, twice = self.kernels["TWO"](x)
            near(self, total, x.sum(1, dtype=np.float64), "float32")
            np.testing.assert_array_equal(twice, np.repeat(x, 2, axis=1))
            token = RNG.integers(0, m, k).astype(np.int32)
            np.testing.assert_array_equal(self.kernels["GATHER"](x, token), x[token])
            a, b = self.values((m, k), "float32"), self.values((k, n), "float32")
            near(self, self.kernels["MATMUL"](a, b), a.astype(np.float64) @ b, "float32")
            block = self.values((m, 3, k), "float32")
            near(self, self.kernels["OUTER"](block, 2), 2.0 * block.transpose(2, 0, 1) + 1, "float32")


class Arrays(unittest.TestCase):
    def test_whole_numbers_and_truth(self):
        kernel = hr.kernel(texts.MIXED)
        x, i = np.arange(5.0), np.array([1, -2, 3, 2**40, 0])
        y, count = kernel(x, i, np.array([True, False, True, False, True]))
        np.testing.assert_array_equal(y, [0, -1, 2, -3, 4])
        np.testing.assert_array_equal(count, 3 * i)

    def test_empty(self):
        y = hr.kernel(texts.SOFTMAX)(np.zeros((0, 5), np.float32))
        self.assertEqual(y.shape, (0, 5))

    def test_other_buffers(self):
        y = hr.kernel(texts.SOFTMAX)(memoryview(np.zeros((2, 4), np.float32)))
        np.testing.assert_allclose(y, 0.25)

    def test_a_stride_that_no_memory_has(self):
        """As CuPy exports a view that goes backwards."""

        class Exported:
            def __init__(self, array):
                self.array = array

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

            def __dlpack__(self, stream=None):
                capsule = self.array.__dlpack__()
                get = ctypes.pythonapi.PyCapsule_GetPointer
                get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
                strides = ctypes.c_void_p.from_address(get(capsule, b"dltensor") + 32)
                ctypes.c_int64.from_address(strides.value).value = 2**62 - 1
                return capsule

        with self.assertRaisesRegex(ValueError, "`x` comes with a stride that no memory has on axis 0"):
            hr.kernel(texts.SOFTMAX)(Exported(np.ones((8, 4), np.float32)[::2]))

    def test_inout(self):
        kernel = hr.kernel(texts.ADD_INTO)
        p = np.ones(6, np.float32)
        self.assertIsNone(kernel(p, np.full(6, 2, np.float32), rate=0.25))
        np.testing.assert_array_equal(p, 0.5)
        p.setflags(write=False)
        with self.assertRaisesRegex(ValueError, "read-only"):
            kernel(p, p.copy())

    def test_out(self):
        kernel, two = hr.kernel(texts.SOFTMAX), hr.kernel(texts.TWO)
        x = np.ones((3, 4), np.float32)
        wide = np.zeros((3, 8), np.float32)
        out = wide[:, ::2]
        self.assertIs(kernel(x, out=out), out)
        np.testing.assert_allclose(out, 0.25)
        np.testing.assert_array_equal(wide[:, 1::2], 0)
        twice = np.zeros((3, 8), np.float32)
        result = two(x, out=(None, twice))
        self.assertIs(result.twice, twice)
        np.testing.assert_array_equal(result.total, 4)
        self.assertIs(two(x, out={"twice": twice})[1], twice)
        with self.assertRaises(ValueError):
            kernel(x, out=np.zeros((3, 5), np.float32))
        with self.assertRaises(TypeError):
            two(x, out=twice)
        with self.assertRaises(TypeError):
            two(x, out={"thrice": twice})

    def test_overlap_is_refused(self):
        x = np.ones((4, 4), np.float32)
        with self.assertRaises(hr.InputError):
            hr.kernel(texts.OUTER)(x.reshape(1, 4, 4), 1, out=x.reshape(4, 1, 4))

    def test_extents_and_dtypes_by_name(self):
        kernel = hr.kernel("kernel ramp(step: f32) -> (y: T[N]) {\n    y[n] = step * n\n}")
        np.testing.assert_array_equal(kernel(2, N=4), [0, 2, 4, 6])
        self.assertEqual(kernel(2, N=3, T="f64").dtype, np.float64)
        with self.assertRaises(ValueError):
            kernel(2)
        with self.assertRaises(ValueError):
            kernel(2, N=3, T="f31")

    @unittest.skipUnless(ml_dtypes, "ml_dtypes is not installed")
    def test_small_floats(self):
        x = RNG.standard_normal((5, 24)).astype(ml_dtypes.bfloat16)
        w = np.ones(24, ml_dtypes.bfloat16)
        near(self, hr.kernel(texts.RMSNORM)(x[:, ::-1], w), texts.rmsnorm(x[:, ::-1], w), ml_dtypes.bfloat16)
        cast = hr.kernel(
            "kernel cast(x: f32[N]) -> (y: f8e4m3[N], z: f8e5m2[N]) {\n    y[n] = x[n]\n    z[n] = x[n]\n}"
        )
        values = np.array([1, -2.5, 448, 0.01], np.float32)
        y, z = cast(values)
        np.testing.assert_array_equal(y, values.astype(ml_dtypes.float8_e4m3fn))
        np.testing.assert_array_equal(z, values.astype(ml_dtypes.float8_e5m2))

    @unittest.skipIf(ml_dtypes, "ml_dtypes is installed")
    def test_small_floats_have_no_dtype(self):
        cast = hr.kernel("kernel cast(x: f32[N]) -> (y: bf16[N]) {\n    y[n] = x[n]\n}")
        with self.assertRaisesRegex(TypeError, "ml_dtypes"):
            cast(np.ones(3, np.float32))

    def test_freed_temporaries(self):
        kernel = hr.kernel(texts.OUTER)
        for size in range(1, 60):
            y = kernel(np.full((size, 3, 2), 2, np.float32) * 2, 0.5)
            gc.collect()
            np.testing.assert_array_equal(y, 3)

    def test_results_are_new_each_time(self):
        kernel = hr.kernel(texts.SOFTMAX)
        first = kernel(np.zeros((2, 2), np.float32))
        second = kernel(np.array([[0, 100], [100, 0]], np.float32))
        np.testing.assert_allclose(first, 0.5)
        np.testing.assert_allclose(second, [[0, 1], [1, 0]], atol=1e-6)

    def test_nothing_leaks(self):
        import sys

        kernel = hr.kernel(texts.RMSNORM)
        x, w = np.ones((3, 5), np.float32), np.ones(5, np.float32)
        kernel(x, w)
        before = [sys.getrefcount(each) for each in (x, w, None, kernel, x.dtype)]
        for _ in range(100):
            kernel(x, weight=w)
            with self.assertRaises(TypeError):
                kernel(x, w.astype(np.float64))
        after = [sys.getrefcount(each) for each in (x, w, None, kernel, x.dtype)]
        for was, now in zip(before, after):
            self.assertLess(abs(now - was), 20)


class Threads(unittest.TestCase):
    def test_many_at_once(self):
        kernel = hr.kernel(texts.RMSNORM)
        wrong = []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(40):
                x = rng.standard_normal((int(rng.integers(1, 9)), int(rng.integers(1, 40)))).astype(np.float32)
                w = rng.standard_normal(x.shape[1]).astype(np.float32)
                if not np.allclose(kernel(x, w), texts.rmsnorm(x, w), rtol=1e-4, atol=1e-5):
                    wrong.append(x.shape)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(wrong, [])

    def test_others_run_meanwhile(self):
        """Without a switch by the clock, another thread runs only where this one lets go of the interpreter."""
        kernel, x = hr.kernel(texts.SOFTMAX), np.ones((512, 512), np.float32)
        kernel(x)
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1000)
        gate, ran = threading.Lock(), []
        gate.acquire()
        other = threading.Thread(target=lambda: gate.acquire() and ran.append(True))
        other.start()
        gate.release()
        for _ in range(1000):
            kernel(x)
            if ran:
                break
        before_it_ended = bool(ran)
        other.join()
        self.assertTrue(before_it_ended)

    def test_loaded_by_many(self):
        made = []
        threads = [
            threading.Thread(target=lambda: made.append(hr.kernel(texts.SOFTMAX)(np.zeros((1, 4), np.float32))))
            for _ in range(6)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(len(made), 6)
        for y in made:
            np.testing.assert_allclose(y, 0.25)


if __name__ == "__main__":
    unittest.main()
