#!/usr/bin/env python3
"""The Python package of the build folder: every test of test/python, with what this Python has of frameworks.

usage: python_package.py BUILD_FOLDER SOURCE_FOLDER [TEST...]. Exit 77: it was not built.
"""

import os
import pathlib
import subprocess
import sys


def main() -> int:
    build, source = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    package = build / "python_package"
    if not (package / "headroom" / "_headroom.abi3.so").is_file():
        print("skipped: the package was not built (it takes Python 3.11 with its headers and NumPy)")
        return 77
    if sys.version_info < (3, 11):
        print("skipped: python3 is older than 3.11")
        return 77
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("skipped: NumPy is not installed (pip install numpy)")
        return 77
    tests = sys.argv[3:] or ["discover", "-s", str(source / "test" / "python"), "-t", str(source / "test" / "python")]
    environment = dict(
        os.environ,
        HEADROOM_SOURCE=str(source),
        HEADROOM_CACHE=str(build / "roofs"),  # the test of that name measures them
        HEADROOM_FAKE_CUDA=str(build / "test" / "fake_cuda.so"),
        HEADROOM_FAKE_CUPTI=str(build / "test" / "libfake_cupti.so"),
        HEADROOM_RECORD_LIBRARY=str(build / "libheadroom_record.so"),
        HEADROOM_CC=str(source / "test" / "support" / "cc_quick"),
        PYTHONPATH=os.pathsep.join([str(package), str(source / "test" / "python")]),
    )
    return subprocess.run([sys.executable, "-m", "unittest", *tests, "-v"], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
