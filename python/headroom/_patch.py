"""hr.patch(model): kernels in place of norms, gates, activations, rotations and the loss of a Hugging Face model.

In: a model of transformers, or any module that contains such layers. Out: the same model; the forwards of its layers
are kernels with derived backward passes. Weights, names and what is saved stay as they are.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import MethodType
from typing import Any

import torch

from . import torch as operators

_TEXTS = {
    "rms_norm": """kernel rms_norm(x: T[M, N], weight: W[N], eps: f32) -> (y: T[M, N]) {
    y[m, n] = x[m, n] * rsqrt(sum[k](x[m, k]^2) / N + eps) * weight[n]
}""",
    "layer_norm": """kernel layer_norm(x: T[M, N], weight: W[N], bias: W[N], eps: f32) -> (y: T[M, N]) {
    mean[m] = sum[n](x[m, n]) / N
    centred[m, n] = x[m, n] - mean[m]
    y[m, n] = centred[m, n] * rsqrt(sum[k](centred[m, k]^2) / N + eps) * weight[n] + bias[n]
}""",
    "swiglu": """kernel swiglu(gate: T[M, N], up: T[M, N]) -> (y: T[M, N]) {
    y[m, n] = silu(gate[m, n]) * up[m, n]
}""",
    "gelu_tanh": """kernel gelu_tanh(x: T[M, N]) -> (y: T[M, N]) {
    y[m, n] = gelu_tanh(x[m, n])
}""",
    "rotate": """kernel rotate(x: T[B, H, I, 2, D], cosine: T[B, I, 2, D], sine: T[B, I, 2, D]) -> (y: T[B, H, I, 2, D]) {
    y[b, h, i, p, d] = x[b, h, i, p, d] * cosine[b, i, p, d] + (2 * p - 1) * x[b, h, i, 1 - p, d] * sine[b, i, p, d]
}""",
    "token_loss": """kernel token_loss(logits: T[M, V], target: i64[M]) -> (loss: f32[M]) {
    loss[m] = where(target[m] < 0, 0, logsumexp[v](logits[m, v]) - logits[m, target[m]])
}""",
}


@functools.cache
def _op(name: str) -> operators.Op:
    return operators.op(_TEXTS[name])


def _rows(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1, x.shape[-1])


# ---- layers ----


def _rms_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    return _op("rms_norm")(_rows(x), self.weight, float(self.variance_epsilon)).view(x.shape)


def _layer_norm(self: Any, x: torch.Tensor) -> torch.Tensor:
    return _op("layer_norm")(_rows(x), self.weight, self.bias, float(self.eps)).view(x.shape)


def _gated(self: Any, x: torch.Tensor) -> torch.Tensor:
    gate, up = self.gate_proj(x), self.up_proj(x)
    return self.down_proj(_op("swiglu")(_rows(gate), _rows(up)).view(gate.shape))


def _gelu_tanh(self: Any, x: torch.Tensor) -> torch.Tensor:
    return _op("gelu_tanh")(_rows(x)).view(x.shape)


def _is_gated(module: Any) -> bool:
    names = ("gate_proj", "up_proj", "down_proj", "act_fn")
    kind = type(getattr(module, "act_fn", None)).__name__
    return all(hasattr(module, name) for name in names) and kind in ("SiLU", "SiLUActivation")


# By the class: those whose forward is known to be these mathematics.
_RMS_NORMS = ("LlamaRMSNorm", "Qwen2RMSNorm", "Qwen3RMSNorm", "MistralRMSNorm")
_MLPS = ("LlamaMLP", "Qwen2MLP", "Qwen3MLP", "MistralMLP")
_GELUS = ("NewGELUActivation", "GELUTanh", "PytorchGELUTanh")


def _forward_of(module: torch.nn.Module) -> Callable[..., torch.Tensor] | None:
    """The kernel that a layer's forward can be."""
    name = type(module).__name__
    if name in _RMS_NORMS:
        return _rms_norm
    if name in _MLPS and _is_gated(module):
        return _gated
    if name in _GELUS:
        return _gelu_tanh
    if type(module) is torch.nn.LayerNorm and module.bias is not None and len(module.normalized_shape) == 1:
        return _layer_norm
    return None


# ---- rotation and loss ----


def _rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    b, h, i, d = x.shape
    angles = (each.expand(b, i, d).reshape(b, i, 2, d // 2).to(x.dtype) for each in (cosine, sine))
    return _op("rotate")(x.reshape(b, h, i, 2, d // 2), *angles).view(b, h, i, d)


def _rotation(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of queries and keys as transformers calls it: heads before positions, else the original."""

    @functools.wraps(original)
    def rotate(q: Any, k: Any, cos: Any, sin: Any, unsqueeze_dim: int = 1) -> tuple[Any, Any]:
        if unsqueeze_dim != 1 or q.dim() != 4 or cos.dim() != 3 or cos.shape[-1] != q.shape[-1]:
            return original(q, k, cos, sin, unsqueeze_dim=unsqueeze_dim)
        return _rotated(q, cos, sin), _rotated(k, cos, sin)

    rotate.headroom = True  # type: ignore[attr-defined]
    return rotate


def _causal_loss(
    logits: torch.Tensor,
    labels: torch.Tensor | None,
    vocab_size: int,
    num_items_in_batch: Any = None,
    ignore_index: int = -100,
    shift_labels: torch.Tensor | None = None,
    **rest: Any,
) -> torch.Tensor:
    """The mean over the tokens that count, as transformers defines it."""
    if shift_labels is None:
        assert labels is not None
        shift_labels = torch.nn.functional.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    target = shift_labels.reshape(-1).to(logits.device)
    counts = target != ignore_index
    loss = _op("token_loss")(logits.reshape(-1, vocab_size), torch.where(counts, target, -1)).sum()
    return loss / (counts.sum() if num_items_in_batch is None else num_items_in_batch)


# ---- models ----


def patch(model: torch.nn.Module) -> list[str]:
    """Kernels in a model of Llama's, Qwen's, Mistral's or GPT-2's family, in place. Says the names of what became one.

    RMSNorm, LayerNorm, SwiGLU and GELU's tanh form of this model; its causal loss; and, for all models of its family in
    this process, the rotation of queries and keys.
    """
    made: list[str] = []
    for name, module in model.named_modules():
        forward = _forward_of(module)
        if forward is not None:
            module.forward = MethodType(forward, module)
            made.append(name)
    home = sys.modules.get(type(model).__module__)
    original = getattr(home, "apply_rotary_pos_emb", None)
    if original is not None and original.__module__.startswith("transformers."):
        if not hasattr(original, "headroom"):
            home.apply_rotary_pos_emb = _rotation(original)  # type: ignore[union-attr]
        made.append("apply_rotary_pos_emb")
    if type(model).__name__.endswith(("ForCausalLM", "LMHeadModel")) and hasattr(model, "loss_function"):
        setattr(model, "loss_function", _causal_loss)  # noqa: B010 (a property of transformers')
        made.append("loss_function")
    return made
