"""What type checkers are told: the stub names what the binding has, and the package is consistent with it."""

import ast
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from headroom import _headroom

SOURCE = pathlib.Path(os.environ["HEADROOM_SOURCE"])


def public(names):
    return {name for name in names if not name.startswith("__") or name == "__new__"}


class Stub(unittest.TestCase):
    def setUp(self):
        text = (SOURCE / "python" / "headroom" / "_headroom.pyi").read_text(encoding="utf-8")
        body = ast.parse(text).body
        self.classes = {node.name: node for node in body if isinstance(node, ast.ClassDef)}
        self.functions = {node.name for node in body if isinstance(node, ast.FunctionDef)}

    def test_module(self):
        self.assertEqual(public(vars(_headroom)), self.classes.keys() | self.functions)

    def test_classes(self):
        for name, node in self.classes.items():
            told = public(each.name for each in node.body if isinstance(each, ast.FunctionDef))
            has = public(vars(getattr(_headroom, name)))
            if issubclass(getattr(_headroom, name), Exception):
                has -= {"__new__"}
            self.assertEqual(has, told, name)

    def test_bases(self):
        for name, node in self.classes.items():
            told = [ast.unparse(base) for base in node.bases] or ["object"]
            self.assertEqual([base.__name__ for base in getattr(_headroom, name).__bases__], told, name)

    def test_marked_as_typed(self):
        self.assertTrue((pathlib.Path(_headroom.__file__).parent / "py.typed").is_file())

    def test_one_file_for_all_later_pythons(self):
        """The stable ABI has few names that begin with an underscore."""
        self.assertTrue(_headroom.__file__.endswith(".abi3.so"))
        nm = shutil.which("nm")
        if nm is None:
            self.skipTest("nm (binutils) is not installed")
        said = subprocess.run(
            [nm, "-D", "--undefined-only", _headroom.__file__], capture_output=True, text=True, check=True
        )
        names = {line.split()[-1] for line in said.stdout.splitlines() if " _Py" in line}
        known = {"_Py_Dealloc", "_Py_NoneStruct", "_Py_TrueStruct", "_Py_FalseStruct", "_Py_NotImplementedStruct"}
        self.assertEqual({name for name in names - known if not name.endswith("_SizeT")}, set())

    @unittest.skipUnless(
        importlib.util.find_spec("mypy") and importlib.util.find_spec("torch"), "mypy or PyTorch is not installed"
    )
    def test_mypy(self):
        with tempfile.TemporaryDirectory() as cache:
            command = [sys.executable, "-m", "mypy", "--cache-dir", os.environ.get("MYPY_CACHE_DIR", cache)]
            done = subprocess.run(command, cwd=SOURCE, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
