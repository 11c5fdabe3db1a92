"""Compiled graphs as CUDA graphs, without a GPU: a stand-in for PyTorch's capture says what would run where.

A captured function's work is done again, on the same tensors, when the stand-in graph is replayed.
"""

import contextlib
import importlib.util
import unittest
from unittest import mock

if importlib.util.find_spec("torch") is None:
    raise unittest.SkipTest("PyTorch is not installed")

import headroom.torch  # noqa: F401 (registers the backend)
import torch
from headroom import _capture
from torch.fx.experimental.proxy_tensor import make_fx


class Stage:
    """What PyTorch would do on a GPU: streams, captures and replays."""

    def __init__(self):
        self.stream, self.graph, self.capturing, self.fails = "home", None, False, False
        self.one_by_one = self.replays = self.captures = 0

    def run(self, x, w):
        """The operators of a graph whose second result is its second input."""
        if self.graph is None:
            self.one_by_one += 1
            return [x * 2 + w, w]
        if self.fails:
            raise RuntimeError("an operator that waits for the device")
        results = [x * 2 + w, w]
        self.graph.work = (x, w, results)
        return results

    @contextlib.contextmanager
    def capture(self, graph, capture_error_mode):
        self.captures += 1
        self.graph = graph
        try:
            yield
        finally:
            self.graph = None

    def replay(self, graph):
        self.replays += 1
        x, w, results = graph.work
        with torch.inference_mode():  # a GPU does not ask
            results[0].copy_(x * 2 + w)

    def patched(self):
        stage = self

        class Graph:
            def replay(self):
                stage.replay(self)

        replaced = {
            "CUDAGraph": Graph, "graph": self.capture, "current_device": lambda: 0,
            "current_stream": lambda: self.stream, "is_current_stream_capturing": lambda: self.capturing,
        }  # fmt: skip
        return mock.patch.multiple(torch.cuda, **replaced)


class Calls(unittest.TestCase):
    def setUp(self):
        self.stage = Stage()
        patched = self.stage.patched()
        patched.start()
        self.addCleanup(patched.stop)
        self.w = torch.arange(3.0)
        self.call = _capture.Captured(self.stage.run, torch.device("cuda", 0), {1: 1})
        self.kept = []  # addresses stay distinct while their tensors live

    def right(self, x, w=None):
        w = self.w if w is None else w
        self.kept += [x, w]
        y, passed = self.call(x, w)
        torch.testing.assert_close(y, x * 2 + w)
        self.assertIs(passed, w)
        return y

    def test_captured_at_the_second_call(self):
        x = torch.ones(3)
        for _ in range(4):
            self.right(x)
        self.assertEqual((self.stage.one_by_one, self.stage.captures, self.stage.replays), (1, 1, 3))

    def test_results_are_the_callers(self):
        x = torch.ones(3)
        made = [self.right(x) for _ in range(3)]
        x.fill_(5)
        self.right(x)
        for each in made:
            torch.testing.assert_close(each, 2 + self.w)

    def test_what_moves_is_copied(self):
        for value in range(6):
            self.right(torch.full((3,), float(value)))
        self.assertEqual((self.stage.one_by_one, self.stage.captures, self.stage.replays), (1, 1, 5))

    def test_a_weight_that_moves_once(self):
        x = torch.ones(3)
        for w in (self.w, self.w, self.w, self.w + 1, self.w + 1, self.w + 2):
            self.right(x, w)
        self.assertEqual((self.stage.captures, self.stage.one_by_one), (2, 1))

    def test_another_stream_and_a_callers_own_capture(self):
        x = torch.ones(3)
        self.right(x)
        self.right(x)
        self.stage.stream = "side"
        self.right(x)
        self.stage.stream, self.stage.capturing = "home", True
        self.right(x)
        self.assertEqual((self.stage.one_by_one, self.stage.replays), (3, 1))

    def test_what_cannot_be_captured_runs_one_by_one(self):
        self.stage.fails = True
        for _ in range(4):
            self.right(torch.ones(3))
        self.assertEqual((self.stage.one_by_one, self.stage.captures, self.stage.replays), (4, 1, 0))

    def test_much_to_copy_runs_one_by_one(self):
        with mock.patch.object(_capture, "COPIED", 8):
            for _ in range(4):
                self.right(torch.ones(3))
        self.assertEqual((self.stage.one_by_one, self.stage.replays), (4, 0))

    def test_an_expanded_input_that_moves_runs_one_by_one(self):
        for value in range(4):
            self.right(torch.full((1,), float(value)).expand(3))
        self.assertEqual((self.stage.one_by_one, self.stage.replays), (4, 0))

    def test_under_inference_mode_and_without(self):
        for value in range(4):
            with torch.inference_mode(value % 2 == 1):
                self.right(torch.full((3,), float(value)))
        self.assertEqual(self.stage.replays, 3)


class Graphs(unittest.TestCase):
    """Which graphs are captured, on tensors without elements."""

    def graph(self, function, *inputs, device="cuda"):
        with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
            return make_fx(function)(*(torch.empty(each, device=device) for each in inputs))

    def test_operators_of_one_gpu(self):
        made = self.graph(lambda x, w: [torch.relu(x @ w) + torch.arange(4, device="cuda"), w], (3, 4), (4, 4))
        self.assertTrue(_capture.is_capturable(made))
        self.assertEqual(_capture.passed_results(made), {1: 1})
        self.assertEqual(_capture.device_of(made).type, "cuda")

    def test_few_launches(self):
        made = self.graph(lambda x: [torch.relu(x).view(6)], (2, 3))
        self.assertTrue(_capture.is_capturable(made))
        self.assertFalse(_capture.is_worth(made))

        def long(x):
            for _ in range(_capture.FEWEST):
                x = torch.relu(x + 1)
            return [x]

        self.assertTrue(_capture.is_worth(self.graph(long, (2, 3))))

    def test_what_differs_between_calls(self):
        for function in (
            lambda x: [x.add_(1)],
            lambda x: [torch.rand_like(x)],
            lambda x: [torch.nn.functional.dropout(x, 0.5)],
            lambda x: [x.cpu().cuda()],
            lambda x: [x + torch.ones(3)[0]],
        ):
            self.assertFalse(_capture.is_capturable(self.graph(function, (3,))))

    def test_another_device(self):
        self.assertFalse(_capture.is_capturable(self.graph(lambda x: [x + 1], (3,), device="cpu")))


if __name__ == "__main__":
    unittest.main()
