/* What a person calls a kernel. In: its name with templates, namespaces and parameters. Out: a few words. */
#include "diagnose/analysis.h"

#include <string.h>

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"

/* The last name outside of all brackets: from its start to its end, which is at a bracket or at the end of
 * all. */
static const char *find_name(const char *name, const char **end) {
    const char *start = name, *at = name;
    if (strncmp(at, "void ", 5) == 0) start = at += 5;
    int depth = 0;
    for (; *at; at++) {
        if (strncmp(at, "(anonymous namespace)", 21) == 0) {
            at += 20;
        } else if (*at == '<' || (*at == '(' && depth == 0)) {
            if (depth == 0 && at > start) break;
            depth++;
        } else if (*at == '>' && depth) {
            depth--;
        } else if (depth == 0 && at[0] == ':' && at[1] == ':') {
            start = at + 2;
            at++;
        }
    }
    *end = at;
    return start;
}

/* What a kernel of a framework computes stands among its arguments. */
static const char *find_functor(const char *arguments, size_t *length) {
    static const struct {
        const char *word;
        size_t skip; /* of it */
    } rows[] = {{"CUDAFunctor_", 12}, {"FusedAdam", 0},      {"FillFunctor", 0},    {"MulFunctor", 0},
                {"AddFunctor", 0},    {"DivFunctor", 0},     {"direct_copy", 0},    {"threshold_kernel", 0},
                {"clamp_", 0},        {"sigmoid", 0},        {"tanh", 0},           {"gelu", 0},
                {"Gelu", 0},          {"silu", 0},           {"exp_kernel", 0},     {"rsqrt", 0},
                {"sqrt_kernel", 0},   {"pow_", 0},           {"addcmul", 0},        {"addcdiv", 0},
                {"lerp", 0},          {"where", 0},          {"neg_kernel", 0},     {"sum_functor", 0},
                {"MeanOps", 0},       {"WelfordOps", 0},     {"MaxOps", 0},         {"BinaryOpScalar", 0},
                {"compare_", 0},      {"reciprocal", 0},     {"abs_kernel", 0},     {"log_kernel", 0},
                {"LogSoftMax", 0},    {"SoftMaxForward", 0}, {"SoftMaxBackward", 0}};
    static const char *const tails[] = {"_kernel_cuda", "_kernel_impl", "_scalar_kernel_impl", "Functor",
                                        "_functor"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *found = strstr(arguments, rows[i].word);
        if (!found) continue;
        found += rows[i].skip;
        *length = strspn(found, WORD);
        for (size_t k = 0; k < sizeof tails / sizeof tails[0]; k++) {
            size_t tail = strlen(tails[k]);
            if (*length > tail && strncmp(found + *length - tail, tails[k], tail) == 0) *length -= tail;
        }
        return found;
    }
    return NULL;
}

const char *hr_kernel_short_name(hr_arena *keep, const char *name) {
    static const char *const empty[] = {"Kernel",        "Kernel2",        "kernel",
                                        "device_kernel", "cutlass_kernel", NULL};
    const char *end, *start = find_name(name, &end);
    size_t length = (size_t)(end - start), functor_length = 0;
    if (strncmp(name, "Memcpy", 6) == 0 || strncmp(name, "Memset", 6) == 0)
        return hr_arena_copy(keep, name, strnlen(name, 60));
    for (int i = 0; empty[i] && *end == '<'; i++) /* the name says nothing, the first argument all */
        if (length == strlen(empty[i]) && strncmp(start, empty[i], length) == 0)
            return hr_arena_copy(keep, end + 1, strcspn(end + 1, "<>,("));
    const char *functor = find_functor(end, &functor_length);
    if (length > 72) length = 72;
    if (!functor) return hr_arena_copy(keep, start, length ? length : strnlen(start, 72));
    return hr_arena_format(keep, "%.*s<%.*s>", (int)length, start,
                           functor_length < 40 ? (int)functor_length : 40, functor);
}
