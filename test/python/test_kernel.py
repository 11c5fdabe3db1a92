"""What a kernel says of itself, tunes, checks and measures; gradients; diagnoses."""

import os
import pathlib
import sys
import unittest

import headroom as hr
import numpy as np
import texts

SOURCE = pathlib.Path(os.environ["HEADROOM_SOURCE"])


class Words(unittest.TestCase):
    def test_signature(self):
        kernel = hr.kernel(texts.ADD_INTO)
        self.assertEqual(str(kernel.signature), "kernel add_into(p: inout f32[N], g: f32[N], rate: f32 = 0.5)")
        self.assertIn("add_into", repr(kernel))
        self.assertIn("twice: f32[M, 2 * N]", hr.kernel(texts.TWO)._repr_html_())

    def test_library(self):
        self.assertIn("softmax", hr.library())
        for name in hr.library():
            self.assertEqual(hr.kernel(name).name, name)
        np.testing.assert_allclose(hr.kernel("softmax")(np.zeros((2, 4), np.float32)), 0.25)


class Measures(unittest.TestCase):
    def setUp(self):
        self.kernel = hr.kernel(texts.SOFTMAX)
        self.x = np.random.default_rng(1).standard_normal((64, 48)).astype(np.float32)

    def test_check(self):
        check = self.kernel.check(self.x)
        self.assertTrue(check)
        self.assertTrue(check.right)
        self.assertGreater(check.points, 0)

    def test_floor(self):
        floor = self.kernel.floor(self.x)
        self.assertEqual(floor.bytes, 2 * self.x.nbytes)
        self.assertIn(floor["bound"], ("launch", "memory", "vector", "special"))
        self.assertGreater(floor.seconds, 0)
        self.assertIn("bound by", repr(floor))
        with self.assertRaises(AttributeError):
            floor.second  # noqa: B018

    def test_a_wrong_result_is_no_exception(self):
        check = hr.Check({"right": False, "max_error": 2.0, "tolerance": 1e-6, "points": 3, "where": "y[0]"})
        self.assertFalse(check)
        self.assertIn("WRONG", repr(check))

    def test_plan_and_source(self):
        self.assertIn("row", self.kernel.plan(self.x))
        self.assertIn("kernel_softmax", self.kernel.source(M=5, N=7))

    def test_tune_keeps_arrays(self):
        kernel, p, g = hr.kernel(texts.ADD_INTO), np.ones(100, np.float32), np.ones(100, np.float32)
        self.assertIs(kernel.tune(p, g), kernel)
        np.testing.assert_array_equal(p, 1)
        kernel(p, g)
        np.testing.assert_array_equal(p, 0.5)

    def test_run(self):
        run = self.kernel.run(self.x, seconds=0.01)
        self.assertIn("headroom", str(run))
        self.assertTrue(run.json["verified"]["ok"])
        self.assertTrue(run._repr_html_().startswith("<iframe"))

    def test_wrong_arrays(self):
        with self.assertRaises(TypeError):
            self.kernel.check(self.x.astype(np.int32).astype("c8"))


class Bindings(unittest.TestCase):
    def test_launched_again(self):
        x, y = np.zeros((2, 4), np.float32), np.empty((2, 4), np.float32)
        softmax = hr.kernel(texts.SOFTMAX).bind(x[:, ::-1], y=y).prepare()
        softmax()
        np.testing.assert_allclose(y, 0.25)
        x[:, 0] = 100
        softmax()
        np.testing.assert_allclose(y, [[0, 0, 0, 1]] * 2, atol=1e-6)
        self.assertGreater(softmax.floor().bytes, 0)
        self.assertIn("softmax", repr(softmax))

    def test_arrays_live(self):
        x, y = np.arange(1000, dtype=np.float32), np.empty(1000, np.float32)
        double = hr.kernel("kernel double(x: f32[N]) -> (y: f32[N]) { y[n] = 2 * x[n] }").bind(x.copy(), y=y)
        kept = [np.full(1000, -1, np.float32) for _ in range(50)]  # where the copy was, if it were freed
        double()
        np.testing.assert_array_equal(y, 2 * x)
        self.assertEqual(len(kept), 50)

    def test_lists(self):
        p = [np.ones(count, np.float32) for count in (3, 0, 5)]
        g = [np.full(count, place, np.float32) for place, count in enumerate((3, 0, 5))]
        hr.kernel(texts.ADD_INTO).bind(p=p, g=g, rate=0.25)()
        for place, each in enumerate(p):
            np.testing.assert_array_equal(each, 1 - 0.25 * place)

    def test_matrices_that_lie_apart(self):
        random = np.random.default_rng(5)
        a, b = ([random.standard_normal(shape, np.float32) for _ in range(4)] for shape in ((5, 7), (7, 3)))
        a[2] = a[1]
        c = [np.empty((5, 3), np.float32) for _ in range(4)]
        hr.kernel(texts.PRODUCTS).bind(a=a, b=b, c=c)()
        for left, right, got in zip(a, b, c):
            np.testing.assert_allclose(got, left @ right, rtol=1e-5, atol=1e-5)

    def test_wrong_arrays(self):
        kernel, ones = hr.kernel(texts.ADD_INTO), np.ones(3, np.float32)
        with self.assertRaisesRegex(hr.DtypeError, "<text>:2:17: error: `p` of kernel add_into"):
            kernel.bind(p=[np.ones(3)], g=[ones])
        with self.assertRaisesRegex(TypeError, "not as a list"):
            kernel.bind(p=[[1.0]], g=[ones])
        with self.assertRaisesRegex(TypeError, "no argument `h`"):
            kernel.bind(ones, h=ones)
        with self.assertRaisesRegex(hr.InputError, "not bound: g"):
            kernel.bind(ones)()
        with self.assertRaises(hr.InputError):
            kernel.bind(p=[ones, ones], g=[ones])()


class Roofs(unittest.TestCase):
    def test_cpu(self):
        roof = hr.roof("cpu")
        self.assertGreater(roof.json["roof"]["memory"]["copy"], 0)
        self.assertIn("memory", str(roof))
        self.assertTrue(roof._repr_html_().startswith("<iframe"))
        with self.assertRaises(hr.Error):
            hr.roof("abacus")


class BenchCases(unittest.TestCase):
    """What the benchmarks read names kernels of the library, with all their dtypes and extents."""

    def test_cases(self):
        sys.path.insert(0, str(SOURCE / "bench"))
        self.addCleanup(sys.path.remove, str(SOURCE / "bench"))
        import bench_case

        for name in ("cases.txt", "cases_gpu.txt"):
            for case in bench_case.read_cases(SOURCE / "bench" / name):
                with self.subTest(name, case=case.title):
                    self.assertGreater(case.bytes(), 0)


class Gradients(unittest.TestCase):
    def test_softmax(self):
        forward, backward = hr.kernel(texts.SOFTMAX), hr.grad(texts.SOFTMAX)
        x = np.random.default_rng(2).standard_normal((3, 5))
        dy = np.random.default_rng(3).standard_normal((3, 5))
        y = forward(x)
        given = {"x": x, "y": y, "dy": dy}
        dx = backward(**{a.name: given[a.name] for a in backward.signature.parameters})
        np.testing.assert_allclose(dx, y * (dy - (dy * y).sum(1, keepdims=True)), rtol=1e-10)


class Diagnoses(unittest.TestCase):
    def test_recording(self):
        diagnosis = hr.diagnose(SOURCE / "test" / "recordings" / "blocking_sync.hrt.gz")
        self.assertEqual(diagnosis.rows[0]["id"], diagnosis.json["findings"][0]["id"])
        self.assertGreater(diagnosis.rows[0]["gain"], 0.3)
        self.assertEqual(len(list(diagnosis)), len(diagnosis))
        self.assertIn("waits", str(diagnosis))
        self.assertIn("<iframe", diagnosis._repr_html_())

    def test_no_file(self):
        with self.assertRaises(hr.FileError):
            hr.diagnose("/nowhere.hrt")


if __name__ == "__main__":
    unittest.main()
