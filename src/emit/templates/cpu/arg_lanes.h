static inline int64_t NAME(LANES value, vi position) {
    int64_t best = 0;
    int found = -1;
    for (int k = 0; k < HR_LANES; k++) {
        if (position[k] == INT32_MAX) continue;
        bool nan = value[k] != value[k], had_nan = found >= 0 && value[found] != value[found];
        bool equal = found >= 0 && ((nan && had_nan) || value[k] == value[found]);
        bool better = found < 0 || (nan && !had_nan) || (!had_nan && value[k] BETTER value[found]);
        if (better || (equal && position[k] < best)) best = position[k], found = k;
    }
    return best;
}
