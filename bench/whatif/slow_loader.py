"""Batches are made on the training thread. Fixed: by workers, ahead of time."""
import torch
from harness import main, perceptron

ROWS, WIDTH, BATCH = 8192, 4096, 64


class Samples(torch.utils.data.Dataset):
    """Each sample takes a fifth of a millisecond of the processor, as decoding a small picture does."""

    def __len__(self):
        return 1 << 20

    def __getitem__(self, place):
        text = b"%d" % place
        total = 0
        for _ in range(2500):
            total = (total * 31 + len(text)) % 1000003
        return torch.full((WIDTH,), total / 1000003)


def build(fixed):
    torch.set_num_threads(1)
    train = perceptron(WIDTH, 2)
    workers = {"num_workers": 8, "persistent_workers": True, "prefetch_factor": 8} if fixed else {}
    loader = iter(torch.utils.data.DataLoader(Samples(), batch_size=BATCH, pin_memory=True, **workers))
    rest = torch.randn(ROWS - BATCH, WIDTH, device="cuda", dtype=torch.bfloat16)

    def step():
        torch.cuda.nvtx.range_push("data loader")
        batch = next(loader)
        torch.cuda.nvtx.range_pop()
        batch = batch.to("cuda", non_blocking=True).to(torch.bfloat16)
        train(torch.cat([rest, batch]))

    return step


if __name__ == "__main__":
    main(build)
