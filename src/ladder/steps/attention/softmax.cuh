// The softmax of scores in the registers of tensor cores. A thread has parts of two rows, r and r + 8: of COUNT scores,
// number i belongs to row r + i / 2 % 2 * 8, key i / 4 * 8 + i % 2. Four threads share a row.
struct row_sums {
    float peak[2], total[2];
};

// Scores become weights relative to the rows' new peaks; `shrink` is what earlier sums are to be multiplied by.
// `distance`: query of the first row less key of the first score; MASKED: keys after the query are left out.
template <bool MASKED, int COUNT>
static __device__ inline void soften(float (&s)[COUNT], row_sums &rows, float (&shrink)[2], int distance) {
    float before[2] = {rows.peak[0], rows.peak[1]};
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        if (MASKED && i / 4 * 8 + i % 2 > distance + i / 2 % 2 * 8) s[i] = -INFINITY;
        rows.peak[i / 2 % 2] = fmaxf(rows.peak[i / 2 % 2], s[i]);
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        rows.peak[r] = fmaxf(rows.peak[r], __shfl_xor_sync(0xffffffffu, rows.peak[r], 1));
        rows.peak[r] = fmaxf(rows.peak[r], __shfl_xor_sync(0xffffffffu, rows.peak[r], 2));
        shrink[r] = machine_exp2((before[r] - rows.peak[r]) * factor);
        rows.total[r] *= shrink[r];
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        s[i] = machine_exp2(fmaf(s[i], factor, -rows.peak[i / 2 % 2] * factor));
        rows.total[i / 2 % 2] += s[i];
    }
}

// Sums in registers lie as the left operand of the next product wants its elements: two to a register.
template <int COUNT>
static __device__ inline void weights_pack(uint32_t (&weights)[COUNT / 8][4], const float (&s)[COUNT]) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; i++)
        weights[i / 4][i % 4] = bf16_pair(s[2 * i], s[2 * i + 1]);
}

static __device__ inline void rows_end(const row_sums &rows, float (&scale)[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float total = rows.total[r];
        total += __shfl_xor_sync(0xffffffffu, total, 1);
        total += __shfl_xor_sync(0xffffffffu, total, 2);
        scale[r] = 1 / total;
    }
}
