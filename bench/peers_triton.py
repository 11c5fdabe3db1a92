"""Softmax, layer normalisation and dropout in Triton, in the manner of its tutorials.

Written anew: softmax keeps a row in one program of a persistent grid; layer normalisation reads its row three times
forward, keeps it backward and adds up the weights' gradients in groups of rows under locks; dropout makes its mask from
a seed. As in the tutorials a row must fit one program: Fits says up to which length.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out, x, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    inside = at < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        place = row * columns + at
        value = tl.load(x + place, mask=inside, other=-float("inf")).to(tl.float32)
        value = tl.exp(value - tl.max(value, axis=0))
        tl.store(out + place, value / tl.sum(value, axis=0), mask=inside)


@triton.jit
def layernorm_kernel(x, out, weight, bias, mean_out, rstd_out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row.to(tl.int64) * columns
    out += row.to(tl.int64) * columns
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < columns, other=0.0).to(tl.float32)
        value = tl.where(at < columns, value - mean, 0.0)
        squares += value * value
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        w = tl.load(weight + at, mask=inside).to(tl.float32)
        b = tl.load(bias + at, mask=inside).to(tl.float32)
        value = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(out + at, (value - mean) * rstd * w + b, mask=inside)


@triton.jit
def layernorm_backward_kernel(dx, dy, dw, db, x, weight, mean_in, rstd_in, lock, columns, GROUPS: tl.constexpr,
                              BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    x += row.to(tl.int64) * columns
    dy += row.to(tl.int64) * columns
    dx += row.to(tl.int64) * columns
    group = row % GROUPS
    lock += group
    count = lock + GROUPS
    dw += group * columns + at
    db += group * columns + at
    value = tl.load(x + at, mask=inside, other=0).to(tl.float32)
    gradient = tl.load(dy + at, mask=inside, other=0).to(tl.float32)
    w = tl.load(weight + at, mask=inside).to(tl.float32)
    rstd = tl.load(rstd_in + row)
    normal = tl.where(inside, (value - tl.load(mean_in + row)) * rstd, 0.0)
    weighted = tl.where(inside, w * gradient, 0.0)
    along = tl.sum(normal * weighted, axis=0) / columns
    level = tl.sum(weighted, axis=0) / columns
    tl.store(dx + at, (weighted - (normal * along + level)) * rstd, mask=inside)
    part_w, part_b = gradient * normal, gradient
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(dw, mask=inside)
        part_b += tl.load(db, mask=inside)
    tl.store(dw, part_w, mask=inside)
    tl.store(db, part_b, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def column_sums_kernel(dw, db, dw_out, db_out, groups, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    at = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    w = tl.zeros((ROWS, COLUMNS), tl.float32)
    b = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, groups, ROWS):
        group = start + tl.arange(0, ROWS)
        inside = (group[:, None] < groups) & (at[None, :] < columns)
        place = group[:, None] * columns + at[None, :]
        w += tl.load(dw + place, mask=inside, other=0.0)
        b += tl.load(db + place, mask=inside, other=0.0)
    tl.store(dw_out + at, tl.sum(w, axis=0), mask=at < columns)
    tl.store(db_out + at, tl.sum(b, axis=0), mask=at < columns)


@triton.jit
def dropout_kernel(x, out, count, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    value = tl.load(x + at, mask=inside)
    tl.store(out + at, tl.where(tl.rand(seed, at) > p, value / (1 - p), 0.0), mask=inside)


def warps(block):
    return min(max(block // 256, 1), 8)


def multiprocessors(x):
    return torch.cuda.get_device_properties(x.device).multi_processor_count if x.is_cuda else 2


class Fits:
    """Whether the tutorial's way takes rows of so many columns."""

    def softmax(columns, size):
        return columns <= 65536

    def layernorm(columns, size):
        return columns * size <= 65536

    layernorm_backward = layernorm

    def dropout(columns, size):
        return True


class Triton:
    def softmax(x):
        rows, columns = x.shape
        y, block = torch.empty_like(x), triton.next_power_of_2(columns)
        wide = 4 if block < 2048 else 8 if block < 16384 else 16
        # So many programs as fit the chip at once by their registers; the tutorial asks the compiled kernel.
        each = max(1, 65536 // max(32 * wide * 32, block))
        grid = (min(multiprocessors(x) * min(each, 2048 // (32 * wide)), rows),)
        softmax_kernel[grid](y, x, rows, columns, BLOCK=block, STAGES=4 if block <= 8192 else 2, num_warps=wide)
        return {"y": y}

    def layernorm(x, weight, bias, eps):
        rows, columns = x.shape
        y, mean = torch.empty_like(x), torch.empty(rows, device=x.device)
        rstd, block = torch.empty_like(mean), triton.next_power_of_2(columns)
        layernorm_kernel[(rows,)](x, y, weight, bias, mean, rstd, columns, eps, BLOCK=block, num_warps=warps(block))
        return {"y": y, "mean": mean, "rstd": rstd}

    def layernorm_backward(dy, x, weight, mean, rstd):
        rows, columns = x.shape
        groups = 256 if columns <= 1024 else 128 if columns <= 4096 else 96 if columns <= 8192 else 64
        block = triton.next_power_of_2(columns)
        lock = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
        dw = torch.zeros((groups, columns), device=x.device)
        db = torch.zeros((groups, columns), device=x.device)
        dx, dweight, dbias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(weight)
        layernorm_backward_kernel[(rows,)](dx, dy, dw, db, x, weight, mean, rstd, lock, columns, GROUPS=groups,
                                           BLOCK=block, num_warps=warps(block))
        column_sums_kernel[(triton.cdiv(columns, 128),)](dw, db, dweight, dbias, min(groups, rows), columns, ROWS=32,
                                                         COLUMNS=128)
        return {"dx": dx, "dweight": dweight, "dbias": dbias}

    def dropout(x, seed, p):
        y = torch.empty_like(x)
        dropout_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), p, int(seed), BLOCK=1024)
        return {"y": y}
