"""What the documents show in Python is true: the blocks of each run as one program, the notebook by nbconvert."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["HEADROOM_SOURCE"])


def program_of(document):
    """The blocks of Python, each at its own lines."""
    blocks = re.finditer(r"^```python\n(.*?)^```", document, re.DOTALL | re.MULTILINE)
    program = ""
    for block in blocks:
        program += "\n" * (document[: block.start(1)].count("\n") - program.count("\n")) + block[1]
    return program


class Documents(unittest.TestCase):
    def test_blocks(self):
        ran = 0
        for path in [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]:
            program = program_of(path.read_text(encoding="utf-8"))
            if not program:
                continue
            missing = [m for m in ("torch", "jax") if f"import {m}" in program and not importlib.util.find_spec(m)]
            with self.subTest(path.name):
                if missing:
                    self.skipTest(f"{path.name}: {', '.join(missing)} is not installed")
                code = f"exec(compile({program!r}, {path.name!r}, 'exec'))"
                done = subprocess.run(
                    [sys.executable, "-c", code], cwd=SOURCE, capture_output=True, text=True, check=False
                )
                self.assertEqual(done.returncode, 0, done.stderr[-2000:])
                ran += 1
        self.assertGreater(ran, 0)

    @unittest.skipUnless(
        importlib.util.find_spec("nbconvert") and importlib.util.find_spec("ipykernel"), "nbconvert is not installed"
    )
    def test_notebook(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "--output-dir", folder]
            subprocess.run([*command, SOURCE / "docs" / "python.ipynb"], capture_output=True, check=True)
            page = (pathlib.Path(folder) / "python.html").read_text(encoding="utf-8")
        self.assertIn("softmax_backward", page)
        self.assertIn("right: largest error", page)
        self.assertIn("True", page)


if __name__ == "__main__":
    unittest.main()
