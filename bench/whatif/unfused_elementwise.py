"""A chain of elementwise operations, each of which reads and writes all of memory. Fixed: one kernel (torch.compile)."""
import torch
from harness import main

SHAPE = (16384, 8192)


def chain(x, scale, shift):
    y = x * scale
    y = y + shift
    y = torch.tanh(y)
    y = y * x
    y = torch.sigmoid(y)
    y = y - shift
    y = y * scale
    y = torch.relu(y)
    y = y + x
    return y * 0.5


def build(fixed):
    x = torch.randn(SHAPE, device="cuda")
    scale = torch.randn(SHAPE[1], device="cuda")
    shift = torch.randn(SHAPE[1], device="cuda")
    function = torch.compile(chain, dynamic=False) if fixed else chain

    def step():
        y = x
        for _ in range(2):
            y = function(y, scale, shift)
        return y

    return step


if __name__ == "__main__":
    main(build)
