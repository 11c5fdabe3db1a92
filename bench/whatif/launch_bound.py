"""Small layers: the device waits for the host's launches. Fixed: the same launches as one CUDA graph."""
import torch
from harness import main

LAYERS, ROWS, WIDTH = 600, 64, 512


def build(fixed):
    weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.bfloat16) / WIDTH**0.5 for _ in range(LAYERS)]
    batch = torch.randn(ROWS, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step():
        x = batch
        for weight in weights:
            x = torch.tanh(x @ weight)
        return x

    if not fixed:
        return step
    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


if __name__ == "__main__":
    main(build)
