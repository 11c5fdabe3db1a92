"""The library's kernels as a practitioner writes them in NumPy and in JAX, as fast as each lets them be.

NumPy: a function gets a block of rows that stays in the cache, as keyword arguments, results included, writes
each element of the rows' results and returns its part of the results that are sums over rows. The blocks are
shared out to threads. It computes in f32; bf16 arrays are of ml_dtypes.

JAX: a function gets all inputs and returns a dict of results; it is jitted whole.
"""

import math

import numpy as np

ROOT_2_OVER_PI = 0.7978845608028654


def wide(x):
    return x if x.dtype == np.float32 else x.astype(np.float32)


def room(like):
    """f32 scratch for a result that is narrower, the result itself where it is not."""
    return like if like.dtype == np.float32 else np.empty(like.shape, np.float32)


def give(result, scratch):
    if scratch is not result:
        result[...] = scratch


def row_dot(a, b):
    return np.einsum("ij,ij->i", a, b)


def sigmoid_of(x, out):
    np.negative(x, out=out)
    np.exp(out, out=out)
    out += 1
    return np.reciprocal(out, out=out)


class Numpy:
    def add(x, y, z):
        if x.dtype == np.float32:
            np.add(x, y, out=z)
        else:
            z[...] = wide(x) + wide(y)

    def softmax(x, y):
        x, t = wide(x), room(y)
        np.subtract(x, x.max(axis=1, keepdims=True), out=t)
        np.exp(t, out=t)
        t *= 1 / t.sum(axis=1, keepdims=True)
        give(y, t)

    def layernorm(x, weight, bias, eps, y, mean, rstd):
        x, t = wide(x), room(y)
        x.mean(axis=1, out=mean)
        np.subtract(x, mean[:, None], out=t)
        rstd[...] = 1 / np.sqrt(row_dot(t, t) / x.shape[1] + eps)
        t *= rstd[:, None]
        t *= weight
        t += bias
        give(y, t)

    def layernorm_backward(dy, x, weight, mean, rstd, dx):
        dy, normal, g = wide(dy), wide(x) - mean[:, None], room(dx)
        normal *= rstd[:, None]
        np.multiply(dy, weight, out=g)
        along = row_dot(g, normal) / g.shape[1]
        level = g.mean(axis=1)
        partial = {"dweight": np.einsum("ij,ij->j", dy, normal), "dbias": dy.sum(axis=0)}
        normal *= along[:, None]
        g -= level[:, None]
        g -= normal
        g *= rstd[:, None]
        give(dx, g)
        return partial

    def rmsnorm(x, weight, eps, y, rstd):
        x, t = wide(x), room(y)
        rstd[...] = 1 / np.sqrt(row_dot(x, x) / x.shape[1] + eps)
        np.multiply(x, rstd[:, None], out=t)
        t *= weight
        give(y, t)

    def rmsnorm_backward(dy, x, weight, rstd, dx):
        dy, normal, g = wide(dy), wide(x) * rstd[:, None], room(dx)
        np.multiply(dy, weight, out=g)
        along = row_dot(g, normal) / g.shape[1]
        partial = {"dweight": np.einsum("ij,ij->j", dy, normal)}
        normal *= along[:, None]
        g -= normal
        g *= rstd[:, None]
        give(dx, g)
        return partial

    def residual_norm(x, residual, weight, eps, stream, y, rstd):
        s, t = room(stream), room(y)
        np.add(wide(x), wide(residual), out=s)
        give(stream, s)
        rstd[...] = 1 / np.sqrt(row_dot(s, s) / s.shape[1] + eps)
        np.multiply(s, rstd[:, None], out=t)
        t *= weight
        give(y, t)

    def logsumexp(x, lse):
        x = wide(x)
        top = x.max(axis=1)
        t = x - top[:, None]
        np.exp(t, out=t)
        np.add(np.log(t.sum(axis=1)), top, out=lse)

    def row_sum(x, y):
        wide(x).sum(axis=1, out=y)

    def column_sum(x):
        return {"y": wide(x).sum(axis=0)}

    def sum_of_squares(x):
        x = wide(x)
        return {"total": np.dot(x, x)}

    def cross_entropy(logits, target, loss, lse):
        x = wide(logits)
        top = x.max(axis=1)
        t = x - top[:, None]
        np.exp(t, out=t)
        np.add(np.log(t.sum(axis=1)), top, out=lse)
        np.subtract(lse, x[np.arange(len(target)), target], out=loss)

    def cross_entropy_backward(logits, target, lse, dloss, dlogits):
        t = room(dlogits)
        np.subtract(wide(logits), lse[:, None], out=t)
        np.exp(t, out=t)
        t[np.arange(len(target)), target] -= 1
        t *= dloss[:, None]
        give(dlogits, t)

    def cross_entropy_backward_in_place(logits, target, lse, dloss):
        Numpy.cross_entropy_backward(logits, target, lse, dloss, logits)

    def clip_norm(g, limit):
        t = wide(g)
        norm = np.sqrt(sum(float(np.dot(part, part)) for part in np.array_split(t, 1024)))  # in f32 all at once is 2e-4 off
        np.multiply(t, min(np.float32(1), limit / norm), out=t)
        give(g, t)
        return {"norm": norm}

    def adamw(p, m, v, g, lr, beta1, beta2, eps, decay, correct1, correct2, w=None):
        g = wide(g)
        t = np.multiply(g, 1 - beta1)
        m *= beta1
        m += t
        np.multiply(g, g, out=t)
        t *= 1 - beta2
        v *= beta2
        v += t
        np.multiply(v, 1 / correct2, out=t)
        np.sqrt(t, out=t)
        t += eps
        np.divide(m, t, out=t)
        t *= lr / correct1
        p *= 1 - lr * decay
        p -= t
        if w is not None:
            w[...] = p

    adamw_in_place = adamw

    def bias_gelu(x, bias, y):
        u, t = wide(x) + wide(bias), room(y)
        np.multiply(u, u, out=t)
        t *= 0.044715
        t += 1
        t *= u
        t *= ROOT_2_OVER_PI
        np.tanh(t, out=t)
        t += 1
        t *= u
        t *= 0.5
        give(y, t)

    def bias_gelu_erf(x, bias, y):
        from scipy.special import erf  # NumPy has none; JAX brings SciPy along
        u, t = wide(x) + wide(bias), room(y)
        np.multiply(u, np.float32(0.7071067811865476), out=t)
        erf(t, out=t)
        t += 1
        t *= u
        t *= 0.5
        give(y, t)

    def rope(x, cosine, sine, y):
        x, t = wide(x), room(y)
        c, s = cosine[:, None, :], sine[:, None, :]
        np.multiply(x[:, :, 0], c, out=t[:, :, 0])
        t[:, :, 0] -= x[:, :, 1] * s
        np.multiply(x[:, :, 1], c, out=t[:, :, 1])
        t[:, :, 1] += x[:, :, 0] * s
        give(y, t)

    def swiglu(gate, up, y):
        gate, t = wide(gate), room(y)
        sigmoid_of(gate, t)
        t *= gate
        t *= wide(up)
        give(y, t)

    def swiglu_backward(dy, gate, up, dgate, dup):
        dy, gate, t, u = wide(dy), wide(gate), room(dgate), room(dup)
        s = sigmoid_of(gate, np.empty_like(gate))
        ds = dy * s
        np.multiply(ds, gate, out=u)
        np.subtract(1, s, out=t)
        t *= gate
        t += 1
        t *= ds
        t *= wide(up)
        give(dgate, t)
        give(dup, u)

    def dropout(x, seed, p, y):
        t = room(y)
        keep = np.random.Generator(np.random.SFC64()).random(x.shape, np.float32) >= np.float32(p)
        np.multiply(wide(x), np.float32(1 / (1 - p)), out=t)
        t *= keep
        give(y, t)

    def embedding(token, table, y):
        np.take(table, token, axis=0, out=y, mode="clip")

    def embedding_backward(token, dy, dtable):
        dy = wide(dy)
        for t, row in enumerate(token.tolist()):
            dtable[row] += dy[t]

    def linear_int8(q, scale, x, y):
        w = q.astype(np.float32)
        w *= wide(scale)[:, :, None]
        y[...] = wide(x).reshape(len(x), -1) @ w.reshape(len(w), -1).T

    def linear_int4(q, scale, x, y):
        w = np.concatenate((q & 15, q >> 4), axis=2).astype(np.float32)
        w -= 8
        w *= wide(scale)[:, :, None]
        y[...] = wide(x).reshape(len(x), -1) @ w.reshape(len(w), -1).T

    def dequantise(q, scale, w):
        t = room(w)
        np.multiply(q, wide(scale)[:, :, None], out=t)
        give(w, t)

    def attention(q, k, v, o):
        for b, h in np.ndindex(q.shape[:2]):  # products of one head run on all threads
            s = wide(q[b, h]) @ wide(k[b, h]).T
            s /= np.float32(math.sqrt(q.shape[-1]))
            s[~np.tri(*s.shape, dtype=bool)] = -np.inf
            s -= s.max(axis=1, keepdims=True)
            np.exp(s, out=s)
            s /= s.sum(axis=1, keepdims=True)
            o[b, h] = s @ wide(v[b, h])


# Sums into rows that several tokens share, a norm that comes before the rest, products with threads of their
# own: one thread, whole.
NUMPY_SERIAL = {"clip_norm", "embedding_backward", "attention"}


def jax_math():
    """The same in JAX; imported only where JAX is."""
    import jax
    import jax.numpy as jnp

    def f(x):
        return x.astype(jnp.float32)

    class Jax:
        def add(x, y):
            return {"z": x + y}

        def softmax(x):
            return {"y": jax.nn.softmax(f(x), axis=1)}

        def layernorm(x, weight, bias, eps):
            x = f(x)
            mean = x.mean(axis=1)
            d = x - mean[:, None]
            rstd = jax.lax.rsqrt((d * d).mean(axis=1) + eps)
            return {"y": d * rstd[:, None] * f(weight) + f(bias), "mean": mean, "rstd": rstd}

        def layernorm_backward(dy, x, weight, mean, rstd):
            dy = f(dy)
            normal = (f(x) - mean[:, None]) * rstd[:, None]
            g = dy * f(weight)
            along = (g * normal).mean(axis=1, keepdims=True)
            dx = (g - g.mean(axis=1, keepdims=True) - normal * along) * rstd[:, None]
            return {"dx": dx, "dweight": (dy * normal).sum(axis=0), "dbias": dy.sum(axis=0)}

        def rmsnorm(x, weight, eps):
            x = f(x)
            rstd = jax.lax.rsqrt((x * x).mean(axis=1) + eps)
            return {"y": x * rstd[:, None] * f(weight), "rstd": rstd}

        def rmsnorm_backward(dy, x, weight, rstd):
            dy = f(dy)
            normal = f(x) * rstd[:, None]
            g = dy * f(weight)
            along = (g * normal).mean(axis=1, keepdims=True)
            return {"dx": (g - normal * along) * rstd[:, None], "dweight": (dy * normal).sum(axis=0)}

        def residual_norm(x, residual, weight, eps):
            stream = f(x) + f(residual)
            rstd = jax.lax.rsqrt((stream * stream).mean(axis=1) + eps)
            return {"stream": stream, "y": stream * rstd[:, None] * f(weight), "rstd": rstd}

        def logsumexp(x):
            return {"lse": jax.nn.logsumexp(f(x), axis=1)}

        def row_sum(x):
            return {"y": f(x).sum(axis=1)}

        def column_sum(x):
            return {"y": f(x).sum(axis=0)}

        def sum_of_squares(x):
            return {"total": (f(x) * f(x)).sum()}

        def cross_entropy(logits, target):
            logits = f(logits)
            lse = jax.nn.logsumexp(logits, axis=1)
            return {"loss": lse - jnp.take_along_axis(logits, target[:, None], axis=1)[:, 0], "lse": lse}

        def cross_entropy_backward(logits, target, lse, dloss):
            one = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1) == target[:, None]
            return {"dlogits": (jnp.exp(f(logits) - lse[:, None]) - one) * dloss[:, None]}

        def cross_entropy_backward_in_place(logits, target, lse, dloss):
            return {"logits": Jax.cross_entropy_backward(logits, target, lse, dloss)["dlogits"]}

        def clip_norm(g, limit):
            norm = jnp.sqrt((f(g) * f(g)).sum())
            return {"norm": norm, "g": f(g) * jnp.minimum(1, limit / norm)}

        def adamw(p, m, v, g, lr, beta1, beta2, eps, decay, correct1, correct2):
            g = f(g)
            m = beta1 * m + (1 - beta1) * g
            v = beta2 * v + (1 - beta2) * g * g
            p = p - lr * (m / correct1 / (jnp.sqrt(v / correct2) + eps) + decay * p)
            return {"p": p, "m": m, "v": v, "w": p}

        adamw_in_place = adamw

        def bias_gelu(x, bias):
            return {"y": jax.nn.gelu(f(x) + f(bias), approximate=True)}

        def bias_gelu_erf(x, bias):
            return {"y": jax.nn.gelu(f(x) + f(bias), approximate=False)}

        def rope(x, cosine, sine):
            x, c, s = f(x), cosine[:, None, :], sine[:, None, :]
            return {"y": jnp.stack([x[:, :, 0] * c - x[:, :, 1] * s, x[:, :, 1] * c + x[:, :, 0] * s], axis=2)}

        def swiglu(gate, up):
            return {"y": jax.nn.silu(f(gate)) * f(up)}

        def swiglu_backward(dy, gate, up):
            dy, gate, up = f(dy), f(gate), f(up)
            s = jax.nn.sigmoid(gate)
            return {"dgate": dy * up * s * (1 + gate * (1 - s)), "dup": dy * gate * s}

        def softmax_backward(dy, y):
            dy, y = f(dy), f(y)
            return {"dx": y * (dy - (y * dy).sum(axis=1, keepdims=True))}

        def logsumexp_backward(dlse, x, lse):
            return {"dx": jnp.exp(f(x) - lse[:, None]) * dlse[:, None]}

        def residual_norm_backward(dstream, dy, weight, stream, rstd):
            def norm(stream, weight):
                return stream * jax.lax.rsqrt((stream * stream).mean(axis=1, keepdims=True) + 1e-6) * weight
            dx, dweight = jax.vjp(norm, f(stream), f(weight))[1](f(dy))
            return {"dx": dx + f(dstream), "dresidual": dx + f(dstream), "dweight": dweight}

        def bias_gelu_backward(dy, x, bias, exact=False):
            u = f(x) + f(bias)
            dx = jax.vjp(lambda u: jax.nn.gelu(u, approximate=not exact), u)[1](f(dy))[0]
            return {"dx": dx, "dbias": dx.sum(axis=0)}

        def bias_gelu_erf_backward(dy, x, bias):
            return Jax.bias_gelu_backward(dy, x, bias, exact=True)

        def rope_backward(dy, cosine, sine):
            dy, c, s = f(dy), cosine[:, None, :], sine[:, None, :]
            return {"dx": jnp.stack([dy[:, :, 0] * c + dy[:, :, 1] * s, dy[:, :, 1] * c - dy[:, :, 0] * s], axis=2)}

        def dequantise_backward(dw, q):
            return {"dscale": (f(dw) * f(q)).sum(axis=2)}

        def linear_backward(dy, x, w):
            return {"dx": jnp.matmul(dy, w, preferred_element_type=jnp.float32),
                    "dw": jnp.matmul(dy.T, x, preferred_element_type=jnp.float32), "db": f(dy).sum(axis=0)}

        def dropout_backward(dy, seed, p):
            return {"dx": Jax.dropout(dy, seed, p)["y"]}

        def dropout(x, seed, p):
            # The counter-based generator that the processor runs fastest of JAX's.
            keep = jax.random.bernoulli(jax.random.key(0, impl="unsafe_rbg"), 1 - p, x.shape)
            return {"y": jnp.where(keep, f(x) * (1 / (1 - p)), 0)}

        def embedding(token, table):
            return {"y": jnp.take(table, token, axis=0, mode="clip")}

        def embedding_backward(token, dy, dtable):
            return {"dtable": dtable.at[token].add(f(dy))}

        def dequantise(q, scale):
            return {"w": f(q) * f(scale)[:, :, None]}

        def linear_int8(q, scale, x):
            w = f(q) * f(scale)[:, :, None]
            return {"y": jnp.einsum("mgs,ngs->mn", f(x), w)}

        def linear_int4(q, scale, x):
            w = (f(jnp.concatenate((q & 15, q >> 4), axis=2)) - 8) * f(scale)[:, :, None]
            return {"y": jnp.einsum("mgs,ngs->mn", f(x), w)}

        def attention(q, k, v):
            s = jnp.einsum("bhid,bhjd->bhij", q, k, preferred_element_type=jnp.float32) / math.sqrt(q.shape[-1])
            s = jnp.where(jnp.tri(*s.shape[2:], dtype=bool), s, -jnp.inf)
            return {"o": jnp.einsum("bhij,bhje->bhie", jax.nn.softmax(s), f(v))}

        def attention_backward(do, q, k, v, o, lse):
            scale = 1 / math.sqrt(q.shape[-1])
            s = jnp.einsum("bhid,bhjd->bhij", q, k, preferred_element_type=jnp.float32) * scale
            p = jnp.where(jnp.tri(*s.shape[2:], dtype=bool), jnp.exp(s - lse[..., None]), 0)
            along = (f(do) * f(o)).sum(axis=-1)
            ds = jnp.einsum("bhie,bhje->bhij", do, v, preferred_element_type=jnp.float32) - along[..., None]
            ds = (p * ds * scale).astype(q.dtype)
            return {"dq": jnp.einsum("bhij,bhjd->bhid", ds, k, preferred_element_type=jnp.float32),
                    "dk": jnp.einsum("bhij,bhid->bhjd", ds, q, preferred_element_type=jnp.float32),
                    "dv": jnp.einsum("bhij,bhie->bhje", p.astype(q.dtype), do, preferred_element_type=jnp.float32)}

        def matmul(a, b):
            return {"c": jnp.matmul(a, b, preferred_element_type=jnp.float32)}

        def linear(x, w, b):
            return {"y": jnp.matmul(x, w.T, preferred_element_type=jnp.float32) + f(b)}

        def linear_gelu(x, w, b):
            u = jnp.matmul(x, w.T, preferred_element_type=jnp.float32) + f(b)
            return {"y": jax.nn.gelu(u, approximate=True)}

    return Jax
