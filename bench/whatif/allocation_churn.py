"""The cache of device memory is emptied in each step, so memory is allocated anew. Fixed: it is left alone."""
import torch
from harness import main, perceptron

ROWS, WIDTH = 8192, 4096


def build(fixed):
    train = perceptron(WIDTH, 8)
    batch = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step():
        train(batch)
        if not fixed:
            torch.cuda.empty_cache()

    return step


if __name__ == "__main__":
    main(build)
