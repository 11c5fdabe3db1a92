static __attribute__((noinline, cold)) bool out_of_range(int64_t value, int64_t access, fault_record *fault) {
#ifdef _OPENMP
#pragma omp critical(headroom_fault)
#endif
    if (!fault->access) *fault = (fault_record){access, value};
    return false;
}

static inline bool in_range(int64_t value, int64_t extent, int64_t access, fault_record *fault) {
    return (uint64_t)value < (uint64_t)extent || out_of_range(value, access, fault);
}
