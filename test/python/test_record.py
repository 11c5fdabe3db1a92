"""Recordings of this process, on a CUPTI without a GPU."""

import ctypes
import os
import pathlib
import tempfile
import unittest

import headroom as hr

FAKE = os.environ.get("HEADROOM_FAKE_CUPTI", "")


@unittest.skipUnless(os.path.isfile(FAKE), "HEADROOM_FAKE_CUPTI names no CUPTI")
class Records(unittest.TestCase):
    def setUp(self):
        os.environ["HEADROOM_CUPTI"] = FAKE
        self.addCleanup(os.environ.pop, "HEADROOM_CUPTI")
        self.launch = ctypes.CDLL(FAKE).fake_launch
        self.launch.argtypes = [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_uint64]

    def _launch(self, count):
        for _ in range(count):
            self.launch(b"plain_kernel", 7, 500)

    def test_two_blocks(self):
        with tempfile.TemporaryDirectory() as folder:
            for count in (6, 2):
                path = pathlib.Path(folder) / f"run{count}.hrt"
                with hr.record(path) as recording:
                    self._launch(count)
                self._launch(9)
                (file,) = recording.files
                self.assertEqual((file["path"], file["kernels"]), (str(path), count))
                self.assertIn(f"{count} kernels", repr(recording))
                self.assertIn("plain_kernel", str(recording.diagnose().json))

    def test_without_a_path(self):
        with hr.record() as recording:
            self._launch(3)
            self.assertIn("under way", repr(recording))
            with self.assertRaisesRegex(hr.InputError, "still being recorded"):
                recording.diagnose()
        self.assertIn("plain_kernel", str(recording.diagnose().json))
        self.assertEqual(recording.notes, "")

    def test_one_at_a_time(self):
        with hr.record():
            with self.assertRaisesRegex(hr.InputError, "being recorded already"), hr.record():
                self.fail("entered")

    def test_an_exception_ends_it(self):
        with self.assertRaises(ZeroDivisionError), hr.record() as recording:
            self._launch(1)
            raise ZeroDivisionError
        self.assertEqual(recording.files[0]["kernels"], 1)

    def test_nothing_to_record(self):
        with hr.record() as recording:
            pass
        self.assertEqual(recording.files, [])
        with self.assertRaisesRegex(hr.InputError, "neither CUDA nor NVTX"):
            recording.diagnose()

    def test_no_such_folder(self):
        with self.assertRaises(hr.FileError), hr.record("/nowhere/run.hrt"):
            self.fail("entered")


if __name__ == "__main__":
    unittest.main()
