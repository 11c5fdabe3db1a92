/* Functions of several vectors, one after the other: where a vector is a line, or the instruction set has no
 * functions of its own, nothing is gained side by side.
 */
static inline void vf_exp_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_exp(x[way]);
}

static inline void vf_sigmoid_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_sigmoid(x[way]);
}

static inline void vf_silu_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_silu(x[way]);
}

static inline void vf_gelu_tanh_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_gelu_tanh(x[way]);
}

static inline void vf_gelu_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_gelu(x[way]);
}

static inline void vf_tanh_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_tanh(x[way]);
}

static inline void vf_erf_ways(vf *x, int ways) {
    for (int way = 0; way < ways; way++)
        x[way] = vf_erf(x[way]);
}
