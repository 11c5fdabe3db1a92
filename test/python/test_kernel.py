"""What a kernel says of itself, tunes, checks and measures; gradients; diagnoses."""

import os
import pathlib
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
