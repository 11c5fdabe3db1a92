"""The optimizer updates one tensor after the other, ten kernels each. Fixed: fused=True, a few kernels for all."""
import torch
from harness import main

LAYERS, ROWS, WIDTH = 60, 8192, 2048


def build(fixed):
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers)
    batch = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)
    settings = {"fused": True} if fixed else {"foreach": False, "fused": False}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **settings)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(batch).sum().backward()
        torch.cuda.nvtx.range_push("optimizer")
        optimizer.step()
        torch.cuda.nvtx.range_pop()

    return step


if __name__ == "__main__":
    main(build)
