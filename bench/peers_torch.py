"""The library's kernels as a practitioner writes them in PyTorch: the framework's own operations where it has one.

A function gets all inputs and inouts by name and returns a dict of results; it runs as it stands (eager) and under
torch.compile. `target` is int64, as PyTorch wants it. Functions over lists get and change lists of tensors.
"""

import torch
import torch.nn.functional as F

LISTS = {"adamw", "adamw_in_place", "clip_norm"}  # these take lists, and are not compiled


def columns(x):
    return x.shape[1:]


class Torch:
    def softmax(x):
        return {"y": F.softmax(x, 1)}

    def layernorm(x, weight, bias, eps):
        y, mean, rstd = torch.native_layer_norm(x, columns(x), weight, bias, eps)
        return {"y": y, "mean": mean, "rstd": rstd}

    def layernorm_backward(dy, x, weight, mean, rstd):
        # `weight` stands for the bias, too: only its shape and dtype are looked at.
        dx, dweight, dbias = torch.ops.aten.native_layer_norm_backward(
            dy, x, columns(x), mean[:, None], rstd[:, None], weight, weight, [True, True, True])
        return {"dx": dx, "dweight": dweight, "dbias": dbias}

    def rmsnorm(x, weight, eps):
        # What F.rms_norm is made of; this form also gives `rstd`, which training keeps and the kernel stores.
        y, rstd = torch.ops.aten._fused_rms_norm(x, columns(x), weight, eps)
        return {"y": y, "rstd": rstd}

    def rmsnorm_backward(dy, x, weight, rstd):
        dy, normal = dy.float(), x.float() * rstd[:, None]
        g = dy * weight.float()
        along = (g * normal).mean(1, keepdim=True)
        return {"dx": ((g - normal * along) * rstd[:, None]).to(x.dtype), "dweight": (dy * normal).sum(0)}

    def residual_norm(x, residual, weight, eps):
        stream = x + residual
        return {"stream": stream} | Torch.rmsnorm(stream, weight, eps)

    def cross_entropy(logits, target):
        return {"loss": F.cross_entropy(logits.float(), target, reduction="none")}

    def cross_entropy_backward(logits, target, lse, dloss):
        probability = torch.exp(logits.float() - lse[:, None])
        one = torch.arange(logits.shape[1], device=logits.device) == target[:, None]
        return {"dlogits": ((probability - one.float()) * dloss[:, None]).to(logits.dtype)}

    def cross_entropy_backward_in_place(logits, target, lse, dloss):
        logits.copy_(Torch.cross_entropy_backward(logits, target, lse, dloss)["dlogits"])
        return {"logits": logits}

    def bias_gelu(x, bias):
        return {"y": F.gelu(x + bias, approximate="tanh")}

    def matmul(a, b):
        return {"c": a @ b}

    def linear(x, w, b):
        return {"y": F.linear(x, w, b)}

    def linear_backward(dy, x, w):
        return {"dx": dy @ w, "dw": dy.T @ x, "db": dy.sum(0)}

    def linear_gelu(x, w, b):
        return {"y": F.gelu(F.linear(x, w, b), approximate="tanh")}

    def linear_int8(q, scale, x):
        w = q.to(x.dtype) * scale[:, :, None]
        return {"y": F.linear(x.flatten(1), w.flatten(1))}

    def linear_int4(q, scale, x):
        w = (torch.cat((q & 15, q >> 4), dim=2).to(scale.dtype) - 8) * scale[:, :, None]
        return {"y": F.linear(x.flatten(1), w.flatten(1).to(x.dtype))}

    def swiglu(gate, up):
        return {"y": F.silu(gate) * up}

    def swiglu_backward(dy, gate, up):
        wide, s = gate.float(), torch.sigmoid(gate.float())
        dgate = dy.float() * up.float() * s * (1 + wide * (1 - s))
        return {"dgate": dgate.to(gate.dtype), "dup": (dy.float() * wide * s).to(gate.dtype)}

    def rope(x, cosine, sine):
        c, s = cosine[:, None, :], sine[:, None, :]
        low, high = x[:, :, 0].float(), x[:, :, 1].float()
        return {"y": torch.stack((low * c - high * s, high * c + low * s), 2).to(x.dtype)}

    def dropout(x, seed, p):
        return {"y": F.dropout(x, p, training=True)}

    # ---- over lists ----

    def adamw(p, m, v, g, w=None, step=None, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, decay=0.01, correct1=1,
              correct2=1):
        """The optimizer's fused step; a bf16 copy, where one is wanted, is another pass."""
        torch._fused_adamw_(p, g, m, v, [], step, lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=decay,
                            amsgrad=False, maximize=False)
        if w is not None:
            torch._foreach_copy_(w, p)
        return {}

    adamw_in_place = adamw

    def clip_norm(g, limit):
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(g)))
        torch._foreach_mul_(g, torch.clamp(limit / norm, max=1.0))
        return {"norm": norm}
