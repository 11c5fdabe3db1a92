"""Nothing is wrong here: large products in bf16, one fused optimizer, nothing to wait for."""
import torch
from harness import main, perceptron

ROWS, WIDTH = 16384, 8192


def build(fixed):
    train = perceptron(WIDTH, 3)
    batch = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    return lambda: train(batch)


if __name__ == "__main__":
    main(build)
