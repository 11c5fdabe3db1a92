"""Kernels as custom calls of XLA: where its structures lie, and on a GPU which stream is used, by calls without XLA."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import xla_frame

FAKE = os.environ.get("HEADROOM_FAKE_CUDA", "")


class Layout(unittest.TestCase):
    @unittest.skipUnless(
        importlib.util.find_spec("jax") and shutil.which("cc"), "JAX, whose header it is, or cc is not installed"
    )
    def test_as_in_the_header(self):
        import jax

        places = [
            (kind, field, xla_frame.NAMES.get(kind, {}).get(field, field), getattr(mirror, field).offset)
            for kind, mirror in xla_frame.LAYOUT.items()
            for field, *_ in mirror._fields_
            if not field.startswith("before_")
        ]
        checks = [
            f'_Static_assert(offsetof({kind}, {name}) == {offset}, "{kind}.{name}");'
            for kind, _, name, offset in places
        ]
        text = '#include <stddef.h>\n#include "xla/ffi/api/c_api.h"\n' + "\n".join(checks) + "\n"
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder, "layout.c")
            source.write_text(text)
            done = subprocess.run(
                ["cc", "-fsyntax-only", f"-I{jax.ffi.include_dir()}", source],
                capture_output=True,
                text=True,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stderr)


class Calls(unittest.TestCase):
    @unittest.skipUnless(os.path.isfile(FAKE), "HEADROOM_FAKE_CUDA names no driver")
    def test_stream(self):
        environment = dict(os.environ, HEADROOM_LIBCUDA=FAKE, HEADROOM_NVRTC=FAKE)
        done = subprocess.run(
            [sys.executable, xla_frame.__file__], env=environment, capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        made = json.loads(done.stdout)
        self.assertEqual(made["streams"], [0x1230, 0x4560])
        self.assertEqual(made["failed"], [False, False, True, True])
        self.assertIn("no kernel for this device", made["told"][0])
        self.assertIn("not those of the kernel's arguments", made["told"][1])


if __name__ == "__main__":
    unittest.main()
