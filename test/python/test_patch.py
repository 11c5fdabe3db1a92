"""hr.patch(model): models of transformers give the loss, the logits and the gradients that they gave without."""

import importlib.util
import unittest

if importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None:
    raise unittest.SkipTest("PyTorch or transformers is not installed")

import headroom as hr
import torch
import transformers

SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
GATED = SMALL | {"intermediate_size": 48, "num_key_value_heads": 2, "max_position_embeddings": 32}
GPT2 = {"vocab_size": 64, "n_embd": 32, "n_layer": 1, "n_head": 4, "n_positions": 32}
PADDED = -100


class Patched(unittest.TestCase):
    def same(self, kind, config, count):
        torch.manual_seed(7)
        model = kind(config).eval()
        token = torch.randint(0, 64, (2, 9))
        label = token.clone()
        label[0, :4] = PADDED
        results = []
        for patched in (False, True):
            if patched:
                self.assertEqual(len(hr.patch(model)), count)
            made = model(input_ids=token, labels=label)
            gradients = torch.autograd.grad(made.loss, list(model.parameters()))
            results.append((made.loss, made.logits, *gradients))
        for want, got in zip(*results):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)

    def test_llama(self):
        self.same(transformers.LlamaForCausalLM, transformers.LlamaConfig(**GATED), 6)

    def test_qwen(self):
        self.same(transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**GATED), 6)
        self.same(transformers.Qwen3ForCausalLM, transformers.Qwen3Config(**GATED, head_dim=8), 8)

    def test_gpt2(self):
        config = transformers.GPT2Config(**GPT2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
        self.same(transformers.GPT2LMHeadModel, config, 5)


if __name__ == "__main__":
    unittest.main()
