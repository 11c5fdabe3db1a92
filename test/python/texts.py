"""Kernels that several tests call, and their mathematics in NumPy."""

import numpy as np

RMSNORM = """
kernel rmsnorm(x: T[M, N], weight: T[N], eps: f32 = 1e-6) -> (y: T[M, N]) {
    y[m, n] = x[m, n] * rsqrt(sum[k](x[m, k]^2) / N + eps) * weight[n]
}"""
SOFTMAX = """
kernel softmax(x: T[M, N]) -> (y: T[M, N]) {
    y[m, n] = softmax[n](x[m, n])
}"""
TWO = """
kernel two(x: f32[M, N]) -> (total: f32[M], twice: f32[M, 2 * N]) {
    total[m] = sum[n](x[m, n])
    twice[m, n < 2 * N] = x[m, n // 2]
}"""
ADD_INTO = """
kernel add_into(p: inout f32[N], g: f32[N], rate: f32 = 0.5) {
    p[i] = p[i] - rate * g[i]
}"""
PRODUCTS = """
kernel products(a: T[B, M, K], b: T[B, K, N]) -> (c: T[B, M, N]) {
    c[p, m, n] = sum[k](a[p, m, k] * b[p, k, n])
}"""
GATHER = """
kernel gather(table: T[V, C], token: i32[N]) -> (y: T[N, C]) {
    y[n, c] = table[token[n], c]
}"""
MIXED = """
kernel mixed(x: f64[N], i: i64[N], flag: bool[N]) -> (y: f64[N], count: i64[N]) {
    y[n] = where(flag[n], x[n], -x[n])
    count[n] = i[n] * 3
}"""
MATMUL = """
kernel matmul(a: T[M, K], b: T[K, N]) -> (c: f32[M, N]) {
    c[m, n] = sum[k](a[m, k] * b[k, n])
}"""
OUTER = """
kernel outer(x: T[A, B, C], s: f32) -> (y: T[C, A, B]) {
    y[c, a, b] = s * x[a, b, c] + 1
}"""


def rmsnorm(x, weight, eps=1e-6):
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * weight.astype(np.float64)


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
