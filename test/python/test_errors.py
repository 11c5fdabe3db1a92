"""What is wrong is an exception of the right kind, with the place in the text."""

import subprocess
import sys
import unittest

import headroom as hr
import numpy as np
import texts


class Errors(unittest.TestCase):
    def said(self, kinds, call):
        with self.assertRaises(kinds[0]) as caught:
            call()
        for kind in kinds:
            self.assertIsInstance(caught.exception, kind)
        return str(caught.exception)

    def test_text(self):
        words = self.said(
            [hr.InputError, ValueError, hr.Error],
            lambda: hr.kernel("kernel a(x: f32[N]) -> (y: f32[N]) {\n    y[n] = x[q] * zz\n}"),
        )
        self.assertIn("<text>:2:14: error: there is no name 'q'", words)
        self.assertIn("    y[n] = x[q] * zz\n                 ^", words)
        self.assertIn("'zz'", words)

    def test_dtype_has_the_caret(self):
        kernel = hr.kernel("kernel half(x: f32[N])\n    -> (y: f32[N]) {\n    y[n] = x[n] / 2\n}")
        words = self.said([hr.DtypeError, TypeError], lambda: kernel(np.ones(3)))
        self.assertEqual(
            words,
            "<text>:1:13: error: `x` of kernel half is f32[N]; the array given is f64: convert it first\n"
            "    kernel half(x: f32[N])\n                ^",
        )
        words = self.said([hr.DtypeError], lambda: kernel(np.ones(3, np.float32), out=np.ones(3)))
        self.assertIn("<text>:2:9: error: `y` of kernel half", words)

    def test_dtypes_never_reinterpreted(self):
        kernel = hr.kernel("kernel same(x: f32[N]) -> (y: f32[N]) {\n    y[n] = x[n]\n}")
        for dtype in ("i4", "u4", "f8", "f2", "i8", "u2", "?", "c8", ">f4", "S4", "O"):
            with self.subTest(dtype), self.assertRaises(TypeError):
                kernel(np.ones(4).astype(dtype))

    def test_variable_with_two_meanings(self):
        words = self.said(
            [hr.DtypeError, TypeError], lambda: hr.kernel(texts.RMSNORM)(np.ones((2, 3), np.float32), np.ones(3))
        )
        self.assertIn("`weight` of kernel rmsnorm has the dtype T, which is f32 by `x`; the array given is f64", words)

    def test_shapes(self):
        kernel = hr.kernel(texts.RMSNORM)
        one = np.ones((2, 3), np.float32)
        self.assertIn("weight", self.said([hr.InputError], lambda: kernel(one, np.ones(4, np.float32))))
        self.assertIn("2 axes", self.said([hr.InputError], lambda: kernel(one[0], one[0])))

    def test_arguments(self):
        kernel = hr.kernel(texts.RMSNORM)
        x, w = np.ones((2, 3), np.float32), np.ones(3, np.float32)
        for call in (
            lambda: kernel(x),
            lambda: kernel(x, w, 1e-6, 4),
            lambda: kernel(x, w, x=x),
            lambda: kernel(x, w, y=x),
            lambda: kernel(x, w, epsilon=1),
            lambda: kernel([[1.0]], w),
            lambda: kernel(x, w, eps="a"),
            lambda: kernel(x, w, eps=x),
            lambda: kernel(x, 2.0),
            lambda: kernel(x, w, None, out=3),
        ):
            with self.assertRaises(TypeError):
                call()

    def test_subscript_out_of_range(self):
        kernel = hr.kernel(texts.GATHER)
        self.said([hr.OutOfRange, IndexError], lambda: kernel(np.ones((3, 2), np.float32), np.array([0, 3], np.int32)))

    def test_files(self):
        self.said([hr.FileError, OSError], lambda: hr.kernel("/nowhere/kernel.hr"))
        self.assertIn("softmax", self.said([hr.FileError], lambda: hr.kernel("softmacks")))
        self.said([hr.InputError], lambda: hr.kernel(texts.SOFTMAX, "other"))

    def test_no_compiler_is_a_sentence(self):
        code = (
            "import numpy, headroom as hr\n"
            "k = hr.kernel('kernel a(x: f32[N]) -> (y: f32[N]) { y[n] = x[n] * 3 }')\n"
            "try: k(numpy.ones(3, 'f4'))\n"
            "except hr.NotAvailable as error: print(error)\n"
        )
        import os

        environment = dict(os.environ, HEADROOM_CC="/nowhere/cc")
        words = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        self.assertIn("/nowhere/cc", words.stdout)


if __name__ == "__main__":
    unittest.main()
