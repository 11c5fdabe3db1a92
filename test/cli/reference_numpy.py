#!/usr/bin/env python3
"""Every kernel of kernels/ at odd sizes: the interpreter against the same math written with NumPy in f64.

usage: reference_numpy.py BUILD_FOLDER SOURCE_FOLDER. Exit 77: NumPy is not installed.
"""
import math
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not installed (pip install numpy)")
    sys.exit(77)

SIZES = dict(M=5, N=37, K=19, T=7, V=23, C=9, H=6, D=5, I=6, J=8, B=2, E=3, G=3, S=11, L=2, X=23, O=4, P=3, Q=2, W=4)
WHOLE = dict(i8=(-128, 128), u8=(0, 256))
SCALARS = dict(eps=1e-3, lr=0.01, beta1=0.75, beta2=0.96875, decay=0.125, correct1=0.25, correct2=0.5, seed=1234567890123,
               p=0.25, limit=2.5,
               smoothing=0.25, clip=0.125, beta=0.0625)


# ---- dtypes ----

def encode(dtype, values):
    """The raw elements and what they are worth in f64."""
    if dtype == "bf16":
        bits = values.astype(np.float32).view(np.uint32)
        bits = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        return bits, (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    raw = values.astype(dict(f16=np.float16, f32=np.float32, f64=np.float64, i32=np.int32, i8=np.int8, u8=np.uint8)[dtype])
    return raw, raw.astype(np.float64) if dtype[0] == "f" else raw.astype(np.int64)


def stored(dtype, values):
    return encode(dtype, values)[1].reshape(np.shape(values))


# ---- the math, one function a kernel: operands by name -> results by name; `low` is bf16 or f32 ----

def linear_int4_weights(a):
    return (np.concatenate((a["q"] % 16, a["q"] // 16), axis=2) - 8) * a["scale"][:, :, None]


def row_mean(x):
    return x.sum(-1, keepdims=True) / x.shape[-1]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def logsumexp(x):
    top = x.max(-1)
    return top + np.log(np.exp(x - top[..., None]).sum(-1))


erf = np.vectorize(math.erf)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu(x):
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def layernorm(a, low):
    mean = row_mean(a["x"])[:, 0]
    kept = stored("f32", mean)[:, None]
    rstd = 1 / np.sqrt(row_mean((a["x"] - kept) ** 2)[:, 0] + a["eps"])
    y = (a["x"] - kept) * stored("f32", rstd)[:, None] * a["weight"] + a["bias"]
    return dict(y=y, mean=mean, rstd=rstd)


def layernorm_backward(a, low):
    rstd = a["rstd"][:, None]
    normal = (a["x"] - a["mean"][:, None]) * rstd
    g = a["dy"] * a["weight"]
    dx = (g - row_mean(g) - normal * row_mean(g * normal)) * rstd
    return dict(dx=dx, dweight=(a["dy"] * normal).sum(0), dbias=a["dy"].sum(0))


def rmsnorm_of(x, a):
    rstd = 1 / np.sqrt(row_mean(x**2)[:, 0] + a["eps"])
    return dict(y=x * stored("f32", rstd)[:, None] * a["weight"], rstd=rstd)


def rmsnorm_backward(a, low):
    normal = a["x"] * a["rstd"][:, None]
    g = a["dy"] * a["weight"]
    dx = (g - normal * row_mean(g * normal)) * a["rstd"][:, None]
    return dict(dx=dx, dweight=(a["dy"] * normal).sum(0))


def residual_norm(a, low):
    stream = a["x"] + a["residual"]
    return dict(rmsnorm_of(stored(low, stream), a), stream=stream)


def cross_entropy(a, low):
    lse = logsumexp(a["logits"])
    return dict(lse=lse, loss=stored("f32", lse) - a["logits"][np.arange(len(lse)), a["target"]])


def cross_entropy_backward(a, low):
    hit = np.arange(a["logits"].shape[1])[None, :] == a["target"][:, None]
    return dict(dlogits=(np.exp(a["logits"] - a["lse"][:, None]) - hit) * a["dloss"][:, None])


def residual_norm_backward(a, low):
    rstd, g = a["rstd"][:, None], a["dy"] * a["weight"]
    dx = a["dstream"] + (g - a["stream"] * rstd**2 * row_mean(g * a["stream"])) * rstd
    return dict(dx=dx, dresidual=stored(low, dx), dweight=(a["dy"] * a["stream"] * rstd).sum(0))


def clip_norm(a, low):
    norm = np.array(np.sqrt((a["g"] ** 2).sum()))
    return dict(norm=norm, g=a["g"] * min(1, a["limit"] / float(stored("f32", norm))))


def adamw(a, low):
    s = {k: stored("f32", np.array(v)) for k, v in SCALARS.items() if k not in ("seed", "p")}
    m = s["beta1"] * a["m"] + (1 - s["beta1"]) * a["g"]
    v = s["beta2"] * a["v"] + (1 - s["beta2"]) * a["g"] ** 2
    step = stored("f32", m) / s["correct1"] / (np.sqrt(stored("f32", v) / s["correct2"]) + s["eps"])
    p = a["p"] - s["lr"] * (step + s["decay"] * a["p"])
    return dict(m=m, v=v, p=p, w=stored("f32", p))


def rope(a, low):
    x, c, s = a["x"], a["cosine"][:, None, :], a["sine"][:, None, :]
    low_half, high_half = x[:, :, 0], x[:, :, 1]
    return dict(y=np.stack([low_half * c - high_half * s, high_half * c + low_half * s], 2))


def rope_backward(a, low):
    dy, c, s = a["dy"], a["cosine"][:, None, :], a["sine"][:, None, :]
    low_half, high_half = dy[:, :, 0], dy[:, :, 1]
    return dict(dx=np.stack([low_half * c + high_half * s, high_half * c - low_half * s], 2))


def gelu_tanh_slope(x):
    s = sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))
    return s + x * s * (1 - s) * 2 * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)


def gelu_slope(x):
    return np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)))(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def bias_gelu_backward(a, slope):
    dx = a["dy"] * slope(a["x"] + a["bias"])
    return dict(dx=dx, dbias=dx.sum(0))


def swiglu_backward(a, low):
    s = sigmoid(a["gate"])
    return dict(dgate=a["dy"] * a["up"] * s * (1 + a["gate"] * (1 - s)), dup=a["dy"] * a["gate"] * s)


def philox(counter, key):
    """One block of Philox4x32-10 on Python's whole numbers."""
    c, (k0, k1), mask = list(counter), key, 0xFFFFFFFF
    for _ in range(10):
        even, odd = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(odd >> 32) ^ c[1] ^ k0, odd & mask, (even >> 32) ^ c[3] ^ k1, even & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c


def dropout(a, low):
    seed, p = a["seed"], a["p"]
    key = (seed & 0xFFFFFFFF, seed >> 32)
    draws = [philox((i // 4, 0, 0, 0), key)[i % 4] >> 8 for i in range(a["x"].size)]
    keep = np.array(draws).reshape(a["x"].shape) / 2**24 >= p
    return dict(y=np.where(keep, a["x"] / (1 - p), 0))


def embedding_backward(a, low):
    table = a["dtable"].copy()
    np.add.at(table, a["token"], a["dy"])
    return dict(dtable=table)


def attention(a, low):
    s = np.einsum("bhid,bhjd->bhij", a["q"], a["k"]) / math.sqrt(a["q"].shape[-1])
    i, j = np.arange(s.shape[2])[:, None], np.arange(s.shape[3])[None, :]
    s = np.where(j <= i, s, -np.inf)
    return dict(o=softmax(s) @ a["v"], lse=logsumexp(s))


def attention_backward(a, low):
    s = np.einsum("bhid,bhjd->bhij", a["q"], a["k"]) / math.sqrt(a["q"].shape[-1])
    i, j = np.arange(s.shape[2])[:, None], np.arange(s.shape[3])[None, :]
    p = np.where(j <= i, np.exp(s - a["lse"][..., None]), 0)
    along = (a["do"] * a["o"]).sum(-1, keepdims=True)
    ds = p * (np.einsum("bhie,bhje->bhij", a["do"], a["v"]) - along)
    p, ds = stored(low, p), stored(low, ds) / math.sqrt(a["q"].shape[-1])
    return dict(dq=ds @ a["k"], dk=ds.swapaxes(2, 3) @ a["q"], dv=p.swapaxes(2, 3) @ a["do"])


def attention_decode(a, low):
    g = np.arange(a["q"].shape[1]) // (a["q"].shape[1] // a["k"].shape[2])
    s = np.einsum("bhd,bjhd->bhj", a["q"], a["k"][:, :, g]) / math.sqrt(a["q"].shape[-1])
    s = np.where(np.arange(s.shape[2]) < a["length"][:, None, None], s, -np.inf)
    return dict(o=np.einsum("bhj,bjhe->bhe", softmax(s), a["v"][:, :, g]))


def attention_paged(a, low):
    cache = {x: a[x][a["page"]].reshape(a["page"].shape[0], -1, *a[x].shape[2:]) for x in "kv"}
    return attention_decode(dict(a, **cache), low)


def topk(a, low):
    place = np.argsort(-a["x"], axis=1, kind="stable")[:, :SIZES["K"]]
    return dict(value=np.take_along_axis(a["x"], place, 1), place=place)


def windows(x, taps):
    """x with its last axes cut into every window of `taps`: [..., places, taps]."""
    return np.lib.stride_tricks.sliding_window_view(x, taps, axis=tuple(range(-len(taps), 0)))


def conv1d(a, low):
    return dict(y=np.einsum("bclk,ock->bol", windows(a["x"], a["w"].shape[2:]), a["w"]) + a["bias"][:, None])


def conv2d(a, low):
    y = np.einsum("bchwpq,ocpq->bohw", windows(a["x"], a["w"].shape[2:]), a["w"])
    return dict(y=y + a["bias"][:, None, None])


def conv_backward(a, low):
    """Each place of the output gives to the window that it was made from."""
    dx, dw, taps = np.zeros_like(a["x"]), np.zeros_like(a["w"]), a["w"].shape[2:]
    for place in np.ndindex(*a["dy"].shape[2:]):
        window = (slice(None), slice(None), *(slice(at, at + size) for at, size in zip(place, taps)))
        given = a["dy"][(slice(None), slice(None), *place)]
        dx[window] += np.tensordot(given, a["w"], (1, 0))
        dw += np.tensordot(given, a["x"][window], (0, 0))
    return dict(dx=dx, dw=dw, dbias=a["dy"].sum((0, *range(2, a["dy"].ndim))))


def cells(x, size):
    """An image as cells of size x size: [B, C, H, W, size * size]."""
    b, c, h, w = x.shape
    x = x.reshape(b, c, h // size, size, w // size, size)
    return x.transpose(0, 1, 2, 4, 3, 5).reshape(b, c, h // size, w // size, size * size)


def image(x, size):
    b, c, h, w, _ = x.shape
    return x.reshape(b, c, h, w, size, size).transpose(0, 1, 2, 4, 3, 5).reshape(b, c, h * size, w * size)


def max_pool_backward(a, low):
    x = cells(a["x"], SIZES["P"])
    first = np.arange(x.shape[-1]) == x.argmax(-1)[..., None]
    return dict(dx=image(np.where(first, a["dy"][..., None], 0), SIZES["P"]))


def mean_pool_backward(a, low):
    size = SIZES["P"]
    return dict(dx=a["dy"].repeat(size, 2).repeat(size, 3) / size**2)


def norm(a, axes, shape):
    """Over `axes` of x; weight and bias as `shape`."""
    x = a["x"]
    mean = x.mean(axes, keepdims=True)
    kept = stored("f32", mean)
    rstd = 1 / np.sqrt(((x - kept) ** 2).mean(axes, keepdims=True) + a["eps"])
    y = (x - kept) * stored("f32", rstd) * a["weight"].reshape(shape) + a["bias"].reshape(shape)
    return dict(y=y, mean=mean, rstd=rstd)


def norm_backward(a, axes, sums, rows, shape):
    """The same backwards: `sums` are the axes that weight lacks, `rows` the shape of mean."""
    rstd = a["rstd"].reshape(rows)
    normal = (a["x"] - a["mean"].reshape(rows)) * rstd
    g = a["dy"] * a["weight"].reshape(shape)
    dx = (g - g.mean(axes, keepdims=True) - normal * (g * normal).mean(axes, keepdims=True)) * rstd
    return dict(dx=dx, dweight=(a["dy"] * normal).sum(sums), dbias=a["dy"].sum(sums))


def label_smoothing(a, low):
    rows, s = np.arange(len(a["target"])), a["smoothing"]
    lse = logsumexp(a["logits"])
    loss = stored("f32", lse) - (1 - s) * a["logits"][rows, a["target"]] - s * a["logits"].mean(1)
    return dict(lse=lse, loss=loss)


def label_smoothing_backward(a, low):
    v, s = a["logits"].shape[1], a["smoothing"]
    wanted = s / v + (1 - s) * (np.arange(v) == a["target"][:, None])
    return dict(dlogits=(np.exp(a["logits"] - a["lse"][:, None]) - wanted) * a["dloss"][:, None])


def kl_divergence(a, low):
    lse, known = logsumexp(a["logits"]), logsumexp(a["teacher"])
    student, teacher = (x - stored("f32", s)[:, None] for x, s in ((a["logits"], lse), (a["teacher"], known)))
    return dict(lse=lse, known=known, loss=(np.exp(teacher) * (teacher - student)).sum(1))


def kl_divergence_backward(a, low):
    student = np.exp(a["logits"] - a["lse"][:, None])
    return dict(dlogits=(student - np.exp(a["teacher"] - a["known"][:, None])) * a["dloss"][:, None])


def grpo_ratio(a, score):
    """The ratio of probabilities, and whether the clip holds it back."""
    ratio = np.exp(score - a["before"])
    return ratio, np.where(a["advantage"] > 0, ratio > 1 + a["clip"], ratio < 1 - a["clip"])


def grpo_loss(a, low):
    lse = logsumexp(a["logits"])
    score = a["logits"][np.arange(len(lse)), a["token"]] - stored("f32", lse)
    kept, away = stored("f32", score), a["reference"] - stored("f32", score)
    ratio, far = grpo_ratio(a, kept)
    clipped = np.where(far, np.where(a["advantage"] > 0, 1 + a["clip"], 1 - a["clip"]), ratio)
    loss = a["beta"] * (np.exp(away) - away - 1) - a["advantage"] * clipped
    return dict(loss=loss, lse=lse, score=score)


def grpo_loss_backward(a, low):
    ratio, far = grpo_ratio(a, a["score"])
    given = a["beta"] * (1 - np.exp(a["reference"] - a["score"])) - a["advantage"] * np.where(far, 0, ratio)
    hit = np.arange(a["logits"].shape[1]) == a["token"][:, None]
    away = hit - np.exp(a["logits"] - a["lse"][:, None])
    return dict(dlogits=away * (given * a["dloss"])[:, None])


def linear_gelu_training(a, low):
    h = a["x"] @ a["w"].T + a["b"]
    return dict(h=h, y=gelu_tanh(stored(low, h)))


def linear_gelu_backward(a, low):
    g = stored(low, a["dy"] * gelu_tanh_slope(a["h"]))
    return dict(dx=g @ a["w"], dw=g.T @ a["x"], db=g.sum(0))


def linear_int8_backward(a, low):
    w = a["q"] * a["scale"][:, :, None]
    dw = np.einsum("mn,mgs->ngs", a["dy"], a["x"])
    return dict(dscale=(dw * a["q"]).sum(2), dx=np.einsum("mn,ngs->mgs", a["dy"], w))


def norm_linear(a, low):
    rstd = 1 / np.sqrt(row_mean(a["x"] ** 2)[:, 0] + a["eps"])
    return dict(rstd=rstd, y=stored(low, a["x"] * stored("f32", rstd)[:, None] * a["weight"]) @ a["w"].T)


def norm_linear_backward(a, low):
    dnormal, h = stored(low, a["dy"] @ a["w"]), a["x"] * a["rstd"][:, None]
    g = dnormal * a["weight"]
    dx = (g - h * row_mean(h * g)) * a["rstd"][:, None]
    return dict(dx=dx, dweight=(h * dnormal).sum(0), dw=a["dy"].T @ stored(low, h * a["weight"]))


def linear_recurrence_backward(a, low):
    h = linear_recurrence(a, low)["h"]
    before = np.concatenate((a["start"][:, None], h[:, :-1]), 1)
    g, given = np.zeros_like(h), np.zeros_like(a["start"])
    for s in reversed(range(h.shape[1])):
        g[:, s] = given = given + a["dh"][:, s]
        given = given * a["a"][:, s]
    return dict(da=g * before, db=g, dstart=given)


def linear_recurrence(a, low):
    h, state = np.zeros_like(a["b"]), a["start"]
    for s in range(h.shape[1]):
        h[:, s] = state = a["a"][:, s] * state + a["b"][:, s]
    return dict(h=h)


MATH = dict(
    cumsum=lambda a, low: dict(y=np.cumsum(a["x"], 1)),
    topk=topk,
    linear_recurrence=linear_recurrence,
    linear_recurrence_backward=linear_recurrence_backward,
    cumsum_backward=lambda a, low: dict(dx=np.cumsum(a["dy"][:, ::-1], 1)[:, ::-1]),
    linear_gelu_training=linear_gelu_training,
    linear_gelu_backward=linear_gelu_backward,
    linear_int8_backward=linear_int8_backward,
    norm_linear=norm_linear,
    norm_linear_backward=norm_linear_backward,
    matmul_backward=lambda a, low: dict(da=a["dc"] @ a["b"].T, db=a["a"].T @ a["dc"]),
    attention_training=attention,
    conv1d=conv1d,
    conv1d_backward=conv_backward,
    conv2d=conv2d,
    conv2d_backward=conv_backward,
    max_pool=lambda a, low: dict(y=cells(a["x"], SIZES["P"]).max(-1)),
    max_pool_backward=max_pool_backward,
    mean_pool=lambda a, low: dict(y=cells(a["x"], SIZES["P"]).mean(-1)),
    mean_pool_backward=mean_pool_backward,
    group_norm=lambda a, low: {
        name: value if name == "y" else value[:, :, 0, 0]
        for name, value in norm(a, (2, 3), (1, SIZES["G"], SIZES["C"], 1)).items()},
    group_norm_backward=lambda a, low: norm_backward(
        a, (2, 3), (0, 3), (SIZES["B"], SIZES["G"], 1, 1), (1, SIZES["G"], SIZES["C"], 1)),
    batch_norm=lambda a, low: norm(a, (0, 2), (1, SIZES["C"], 1)),
    batch_norm_backward=lambda a, low: norm_backward(a, (0, 2), (0, 2), (1, SIZES["C"], 1), (1, SIZES["C"], 1)),
    label_smoothing=label_smoothing,
    label_smoothing_backward=label_smoothing_backward,
    kl_divergence=kl_divergence,
    kl_divergence_backward=kl_divergence_backward,
    grpo_loss=grpo_loss,
    grpo_loss_backward=grpo_loss_backward,
    softmax=lambda a, low: dict(y=softmax(a["x"])),
    logsumexp=lambda a, low: dict(lse=logsumexp(a["x"])),
    layernorm=layernorm,
    layernorm_backward=layernorm_backward,
    rmsnorm=lambda a, low: rmsnorm_of(a["x"], a),
    rmsnorm_backward=rmsnorm_backward,
    residual_norm=residual_norm,
    cross_entropy=cross_entropy,
    cross_entropy_backward=cross_entropy_backward,
    cross_entropy_backward_in_place=lambda a, low: dict(logits=cross_entropy_backward(a, low)["dlogits"]),
    clip_norm=clip_norm,
    adamw=adamw,
    adamw_in_place=lambda a, low: {name: value for name, value in adamw(a, low).items() if name != "w"},
    bias_gelu=lambda a, low: dict(y=gelu_tanh(a["x"] + a["bias"])),
    bias_gelu_erf=lambda a, low: dict(y=gelu(a["x"] + a["bias"])),
    linear=lambda a, low: dict(y=a["x"] @ a["w"].T + a["b"]),
    linear_gelu=lambda a, low: dict(y=gelu_tanh(a["x"] @ a["w"].T + a["b"])),
    linear_int8=lambda a, low: dict(y=np.einsum("mgs,ngs->mn", a["x"], a["q"] * a["scale"][:, :, None])),
    linear_int4=lambda a, low: dict(y=np.einsum("mgi,ngi->mn", a["x"], linear_int4_weights(a))),
    matmul=lambda a, low: dict(c=a["a"] @ a["b"]),
    rope=rope,
    swiglu=lambda a, low: dict(y=a["gate"] * sigmoid(a["gate"]) * a["up"]),
    swiglu_backward=swiglu_backward,
    dropout=dropout,
    embedding=lambda a, low: dict(y=a["table"][a["token"]]),
    embedding_backward=embedding_backward,
    dequantise=lambda a, low: dict(w=a["q"] * a["scale"][:, :, None]),
    attention=attention,
    attention_backward=attention_backward,
    attention_decode=attention_decode,
    attention_paged=attention_paged,
    row_sum=lambda a, low: dict(y=a["x"].sum(1)),
    column_sum=lambda a, low: dict(y=a["x"].sum(0)),
    sum_of_squares=lambda a, low: dict(total=np.array((a["x"] ** 2).sum())),
    add=lambda a, low: dict(z=a["x"] + a["y"]),
    softmax_backward=lambda a, low: dict(dx=a["y"] * (a["dy"] - (a["y"] * a["dy"]).sum(1, keepdims=True))),
    logsumexp_backward=lambda a, low: dict(dx=np.exp(a["x"] - a["lse"][:, None]) * a["dlse"][:, None]),
    residual_norm_backward=residual_norm_backward,
    bias_gelu_backward=lambda a, low: bias_gelu_backward(a, gelu_tanh_slope),
    bias_gelu_erf_backward=lambda a, low: bias_gelu_backward(a, gelu_slope),
    dropout_backward=lambda a, low: dict(dx=dropout(dict(a, x=a["dy"]), low)["y"]),
    rope_backward=rope_backward,
    dequantise_backward=lambda a, low: dict(dscale=(a["dw"] * a["q"]).sum(2)),
    linear_backward=lambda a, low: dict(dx=a["dy"] @ a["w"], dw=a["dy"].T @ a["x"], db=a["dy"].sum(0)),
)


# ---- running ----

def parameters(header, dtypes):
    inside = header[header.index("(") + 1:].split("->")[0]
    pattern = r"(\w+)\s*:\s*((?:inout|const)\s+)?(\w+)\s*(?:\[([^\]]*)\])?"
    for name, _, dtype, shape in re.findall(pattern, inside):
        yield name, dtypes.get(dtype, dtype), [eval(axis, {}, SIZES) for axis in shape.split(",")] if shape else None


def operands(header, dtypes, folder, random):
    settings, values = [f"{name}={size}" for name, size in (SIZES | dtypes).items()], {}
    for name, dtype, shape in parameters(header, dtypes):
        if shape is None:
            values[name] = SCALARS[name] if dtype == "i64" else float(stored("f32", np.array(SCALARS[name])))
            settings.append(f"{name}={SCALARS[name]!r}")
            continue
        if dtype == "i32":
            drawn = random.integers(name == "length", SIZES["V"], shape)  # a sequence holds a key at least
        elif dtype in WHOLE:
            drawn = random.integers(*WHOLE[dtype], shape)
        else:
            drawn = random.normal(size=shape)
            if name in ("v", "rstd") and len(shape) == 1:
                drawn = np.abs(drawn)
        raw, value = encode(dtype, drawn)
        (folder / f"{name}.bin").write_bytes(raw.tobytes())
        values[name] = value.reshape(shape)
    return settings, values


def check(tool, path, name, header, low, random):
    variables = set(re.findall(r":\s*(?:inout\s+|const\s+)?([A-Z]\w*)\s*\[", header))
    dtypes = {variable: low if variable != "W" else {"bf16": "f16"}.get(low, low) for variable in variables}
    if name not in MATH:
        return [f"{name}: test/cli/reference_numpy.py has no formula for it"]
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        settings, values = operands(header, dtypes, folder, random)
        subprocess.run([tool, path, name, folder, *settings], check=True)
        results = MATH[name](values, low)
        for file in sorted(folder.glob("*.f64")):
            got, expected = np.frombuffer(file.read_bytes()), results[file.stem]
            error = np.abs(got - expected.ravel()) / np.maximum(1, np.abs(expected.ravel()))
            if got.size != expected.size or not np.all(error < 1e-12):
                wrong.append(f"{name}: {file.stem} differs by up to {np.max(error)}")
        if not list(folder.glob("*.f64")):
            wrong.append(f"{name}: no results")
    return wrong


def main():
    build, source = map(pathlib.Path, sys.argv[1:3])
    tool, random, wrong, count = build / "test" / "interpret", np.random.default_rng(1), [], 0
    for path in sorted((source / "kernels").glob("*.hr")):
        text = re.sub(r"#.*", "", path.read_text())
        for name, header in re.findall(r"kernel\s+(\w+)\s*(\([^{]*)\{", text):
            for low in "bf16", "f32":
                wrong += check(tool, path, name, header, low, random)
                count += 1
    print("\n".join(wrong) or f"{count} kernels agree with NumPy")
    return 1 if wrong or count < 50 else 0


sys.exit(main())
