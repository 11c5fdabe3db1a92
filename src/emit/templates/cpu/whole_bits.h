/* Bits of whole numbers. A shift by less than 0 or by the width leaves nothing but the sign. */

static inline int32_t i32_bit_and(int32_t a, int32_t b) {
    return a & b;
}

static inline int32_t i32_bit_xor(int32_t a, int32_t b) {
    return a ^ b;
}

static inline int32_t i32_bit_or(int32_t a, int32_t b) {
    return a | b;
}

static inline int32_t i32_shift_left(int32_t a, int32_t by) {
    return by < 0 || by > 31 ? 0 : (int32_t)((uint32_t)a << by);
}

static inline int32_t i32_shift_right(int32_t a, int32_t by) {
    return a >> (by < 0 || by > 31 ? 31 : by);
}
