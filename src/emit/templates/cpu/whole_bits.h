/* Bits of whole numbers. A shift by less than 0 or by the width leaves nothing but the sign. */

STATIC_INLINE intxx_t ixx_bit_and(intxx_t a, intxx_t b) {
    return a & b;
}

STATIC_INLINE intxx_t ixx_bit_xor(intxx_t a, intxx_t b) {
    return a ^ b;
}

STATIC_INLINE intxx_t ixx_bit_or(intxx_t a, intxx_t b) {
    return a | b;
}

STATIC_INLINE intxx_t ixx_shift_left(intxx_t a, intxx_t by) {
    return by < 0 || by > SIGN_BIT ? 0 : (intxx_t)((uintxx_t)a << by);
}

STATIC_INLINE intxx_t ixx_shift_right(intxx_t a, intxx_t by) {
    return a >> (by < 0 || by > SIGN_BIT ? SIGN_BIT : by);
}
