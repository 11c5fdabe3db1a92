"""Forty experts, a small product each, one after the other. Fixed: one batched product."""
import torch
from harness import main

EXPERTS, ROWS, WIDTH, LAYERS = 40, 256, 1024, 16


def build(fixed):
    shape = (EXPERTS, WIDTH, WIDTH)
    weights = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) / WIDTH**0.5 for _ in range(LAYERS)]
    batch = torch.randn(EXPERTS, ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    spare = [torch.empty_like(batch), torch.empty_like(batch)]

    def step():
        x = batch
        for i, weight in enumerate(weights):
            out = spare[i % 2]
            if fixed:
                torch.bmm(x, weight, out=out)
            else:
                for expert in range(EXPERTS):
                    torch.mm(x[expert], weight[expert], out=out[expert])
            x = out
        return x

    return step


if __name__ == "__main__":
    main(build)
