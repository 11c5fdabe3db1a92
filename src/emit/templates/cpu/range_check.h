/* The first of all threads is kept. */
static __attribute__((noinline, cold)) bool out_of_range(int64_t value, int64_t access, fault_record *fault) {
    int64_t none = 0;
    if (__atomic_compare_exchange_n(&fault->access, &none, access, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        fault->value = value;
    return false;
}

static inline bool in_range(int64_t value, int64_t extent, int64_t access, fault_record *fault) {
    return (uint64_t)value < (uint64_t)extent || out_of_range(value, access, fault);
}

/* Of a subscript that leaves elements out: HR_LEFT_OUT of ir/function.h. */
static inline bool is_place(int64_t value, int64_t extent, int64_t access, fault_record *fault) {
    return value != -((int64_t)1 << 62) && in_range(value, extent, access, fault);
}
