"""A real training step to measure the recorder's overhead on: a GPT of 124 million parameters in bf16."""
import torch
from harness import main

BATCH, LENGTH, WIDTH, HEADS, LAYERS, WORDS = 32, 1024, 768, 12, 12, 50304


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before = torch.nn.LayerNorm(WIDTH)
        self.heads = torch.nn.Linear(WIDTH, 3 * WIDTH)
        self.join = torch.nn.Linear(WIDTH, WIDTH)
        self.between = torch.nn.LayerNorm(WIDTH)
        self.widen = torch.nn.Linear(WIDTH, 4 * WIDTH)
        self.narrow = torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        rows, length, _ = x.shape
        parts = self.heads(self.before(x)).view(rows, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.join(y.transpose(1, 2).reshape(rows, length, WIDTH))
        return x + self.narrow(torch.nn.functional.gelu(self.widen(self.between(x)), approximate="tanh"))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(WORDS, WIDTH)
        self.places = torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.Sequential(*[Block() for _ in range(LAYERS)])
        self.last = torch.nn.LayerNorm(WIDTH)

    def forward(self, tokens, targets):
        x = self.words(tokens) + self.places(torch.arange(LENGTH, device="cuda"))
        logits = self.last(self.blocks(x)) @ self.words.weight.t()
        return torch.nn.functional.cross_entropy(logits.reshape(-1, WORDS), targets.reshape(-1))


def build(fixed):
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    tokens = torch.randint(0, WORDS, (BATCH, LENGTH + 1), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        optimizer.step()

    return step


if __name__ == "__main__":
    main(build)
