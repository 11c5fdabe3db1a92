"""Matrix products in full f32, on the vector units. Fixed: TF32, on the tensor cores; one line."""
import torch
from harness import main

ROWS, WIDTH, LAYERS = 8192, 4096, 3


def build(fixed):
    weights = [torch.randn(WIDTH, WIDTH, device="cuda") / WIDTH**0.5 for _ in range(LAYERS)]
    batch = torch.randn(ROWS, WIDTH, device="cuda")

    def step():
        torch.set_float32_matmul_precision("high" if fixed else "highest")
        x = batch
        for weight in weights:
            x = x @ weight
        return x

    return step


if __name__ == "__main__":
    main(build)
