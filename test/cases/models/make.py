#!/usr/bin/env python3
"""Miniatures of families of models as folders that Hugging Face's transformers writes, of random weights, and what it
computes of tokens 1, 2, ... 20 in f64: the files beside this one. usage: make.py [FOLDER], with transformers 5 and PyTorch.

test/cli/generate.py reads them, so that the files of others are read and not only those that the tests write.
"""
import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers

SIZES = dict(vocab_size=48, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=8,
             max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
LLAMA3 = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "mistral": lambda: transformers.MistralConfig(**SIZES, sliding_window=5),
    "qwen2": lambda: transformers.Qwen2Config(**SIZES, rope_parameters=dict(rope_type="default", rope_theta=1e6)),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES, rope_parameters=dict(rope_type="default", rope_theta=1e6)),
    "gemma3": lambda: transformers.Gemma3TextConfig(**SIZES, sliding_window=5, query_pre_attn_scalar=12, layer_types=["sliding_attention", "full_attention"]),
    "gpt2": lambda: transformers.GPT2Config(vocab_size=48, n_embd=16, n_layer=2, n_head=2, n_positions=64, bos_token_id=1, eos_token_id=2),
}


def made(config):
    """Weights that are large enough for all of a model to show."""
    torch.manual_seed(3)
    model = transformers.AutoModelForCausalLM.from_config(config).double().eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.mul_(1 if weight.ndim == 1 else 8)
            weight.add_(0.1 * torch.randn_like(weight) if weight.ndim == 1 else 0)
    return model.float()


def main():
    to = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent)
    for name, config in CONFIGS.items():
        model = made(config())
        model.save_pretrained(to / name)
        (to / name / "generation_config.json").unlink(missing_ok=True)
        with torch.no_grad():
            logits = model.double()(torch.arange(1, 21)[None]).logits[0]
        np.save(to / name / "logits.npy", logits.numpy().astype(np.float32))
        print(name, json.dumps(float(logits.std())))


main()
