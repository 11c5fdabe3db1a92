"""Each batch goes to the device from pageable memory. Fixed: pinned memory and a copy that the host does not wait for."""
import torch
from harness import main, perceptron

ROWS, WIDTH = 8192, 4096


def build(fixed):
    train = perceptron(WIDTH, 2)
    batches = [torch.randn(ROWS, WIDTH).to(torch.bfloat16) for _ in range(4)]
    if fixed:
        batches = [batch.pin_memory() for batch in batches]
    count = 0

    def step():
        nonlocal count
        count += 1
        train(batches[count % len(batches)].to("cuda", non_blocking=fixed))

    return step


if __name__ == "__main__":
    main(build)
