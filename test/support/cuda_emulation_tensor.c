/* The emulated tensor cores: matrices between shared memory and registers, products of a warp and of a
 * warpgroup, on the fragments and the layouts of shared memory that the hardware has.
 *
 * In: what the threads of a warp or warpgroup ask for together. Out: their registers. A warpgroup's product
 * is done when it is asked for or when somebody waits for it, as the seed says.
 */
#undef _FORTIFY_SOURCE /* longjmp goes from stack to stack here */
#include "support/cuda_emulation_tensor.h"
#include "support/cuda_emulation_parts.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EMULATED __attribute__((visibility("default")))

enum { K_BYTES = 32, ROWS = 64, COLUMNS_MAX = 256, MATRICES_MAX = 4, PART = 16 };

/* ---- elements ---- */

static double small_float(unsigned bits, int exponents, int fractions, bool infinite) {
    int exponent = (int)(bits >> fractions) & ((1 << exponents) - 1), bias = (1 << (exponents - 1)) - 1;
    int fraction = (int)bits & ((1 << fractions) - 1);
    double sign = bits >> (exponents + fractions) & 1 ? -1 : 1;
    if (infinite && exponent == (1 << exponents) - 1) return fraction ? NAN : sign * INFINITY;
    if (!infinite && exponent == (1 << exponents) - 1 && fraction == (1 << fractions) - 1) return NAN;
    return exponent ? sign * ldexp(1 + ldexp(fraction, -fractions), exponent - bias)
                    : sign * ldexp(fraction, 1 - bias - fractions);
}

static double element(int type, const void *place) {
    uint32_t bits = 0;
    float value;
    memcpy(&bits, place, (size_t)emulated_type_bytes(type));
    switch (type) {
    case EMULATED_BF16:
        bits <<= 16;
        break;
    case EMULATED_TF32:
        bits &= ~0x1fffu;
        break;
    case EMULATED_F16:
        return small_float(bits, 5, 10, true);
    case EMULATED_E4M3:
        return small_float(bits, 4, 3, false);
    case EMULATED_E5M2:
        return small_float(bits, 5, 2, true);
    case EMULATED_S8:
        return (int8_t)bits;
    default:
        return bits; /* u8 */
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Nearest even. */
static uint32_t f16_bits(double value) {
    uint32_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    int exponent;
    if (isnan(value)) return 0x7fff;
    if (magnitude >= 65520) return sign | 0x7c00;
    if (magnitude < ldexp(1, -14)) return sign | (uint32_t)rint(ldexp(magnitude, 24));
    frexp(magnitude, &exponent);
    return sign | (((uint32_t)(exponent + 13) << 10) + (uint32_t)rint(ldexp(magnitude, 11 - exponent)));
}

/* ---- accumulators: element `i` of a thread's, one by one whatever registers hold ---- */

static double sum_get(int sum, const void *d, int i) {
    if (sum == EMULATED_SUM_F32) return ((const float *)d)[i];
    if (sum == EMULATED_SUM_S32) return ((const int32_t *)d)[i];
    return small_float(((const uint32_t *)d)[i / 2] >> 16 * (i % 2) & 0xffff, 5, 10, true);
}

static void sum_set(int sum, void *d, int i, double value) {
    if (sum == EMULATED_SUM_F32) {
        ((float *)d)[i] = (float)value;
    } else if (sum == EMULATED_SUM_S32) {
        ((int32_t *)d)[i] = (int32_t)(uint32_t)(int64_t)value;
    } else {
        uint32_t *word = (uint32_t *)d + i / 2;
        *word = (*word & 0xffff0000u >> 16 * (i % 2)) | f16_bits(value) << 16 * (i % 2);
    }
}

/* ---- fragments of A, and of B of a warp ---- */

/* Byte `byte` of row `row` (16 of them) in the registers of a warp: the lane and the byte of its four words.
 */
static const char *fragment_a(uint32_t (*const words)[4], int row, int byte) {
    int lane = row % 8 * 4 + byte % 16 / 4;
    return (const char *)&words[lane][row / 8 + byte / 16 * 2] + byte % 4;
}

static const char *fragment_b(uint32_t (*const words)[2], int column, int byte) {
    return (const char *)&words[column * 4 + byte % 16 / 4][byte / 16] + byte % 4;
}

/* ---- products of a warp ---- */

typedef struct warp_product {
    int type_a, type_b, sum;
    void *d;
    const uint32_t *a, *b;
} warp_product;

static void mma_do(cuda_emulation *emulation, fiber *first) {
    uint32_t a[WARP][4], b[WARP][2];
    const warp_product *product = first->group.arguments;
    int bytes = emulated_type_bytes(product->type_a);
    (void)emulation;
    for (int lane = 0; lane < WARP; lane++) {
        const warp_product *own = first[lane].group.arguments;
        memcpy(a[lane], own->a, sizeof a[lane]);
        memcpy(b[lane], own->b, sizeof b[lane]);
    }
    for (int lane = 0; lane < WARP; lane++)
        for (int i = 0; i < 4; i++) {
            int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            void *d = ((const warp_product *)first[lane].group.arguments)->d;
            double total = sum_get(product->sum, d, i);
            for (int byte = 0; byte < K_BYTES; byte += bytes)
                total += element(product->type_a, fragment_a(a, row, byte)) *
                         element(product->type_b, fragment_b(b, column, byte));
            sum_set(product->sum, d, i, total);
        }
}

EMULATED void emulated_mma(int type_a, int type_b, int sum, void *d, const uint32_t *a, const uint32_t *b) {
    warp_product product = {type_a, type_b, sum, d, a, b};
    emulation_together(WARP, mma_do, &product);
}

/* ---- matrices ---- */

typedef struct matrices {
    int count, transposed, stores;
    uint32_t address, *words;
} matrices;

/* Lane 8 i + r names row r of matrix i. */
static void matrices_do(cuda_emulation *emulation, fiber *first) {
    const matrices *shape = first->group.arguments;
    fiber *last = emulation->fiber;
    uint16_t element[MATRICES_MAX][8][8];
    for (int lane = 0; lane < WARP && shape->stores; lane++)
        for (int i = 0; i < shape->count * 2; i++) {
            const matrices *own = first[lane].group.arguments;
            int row = lane / 4, column = lane % 4 * 2 + i % 2;
            uint16_t half = (uint16_t)(own->words[i / 2] >> 16 * (i % 2));
            *(shape->transposed ? &element[i / 2][column][row] : &element[i / 2][row][column]) = half;
        }
    for (int i = 0; i < shape->count; i++)
        for (int row = 0; row < 8; row++) {
            emulation->fiber = &first[8 * i + row];
            uint32_t address = ((const matrices *)first[8 * i + row].group.arguments)->address;
            char *place = emulation_shared_pointer(address);
            if (address % PART) emulation_fail("a row of a matrix at %s: misaligned", emulation_place(place));
            emulation_check(place, PART, shape->stores, true, false);
            memcpy(shape->stores ? (void *)place : element[i][row],
                   shape->stores ? element[i][row] : (void *)place, PART);
        }
    emulation->fiber = last;
    for (int lane = 0; lane < WARP && !shape->stores; lane++)
        for (int i = 0; i < shape->count; i++) {
            const matrices *own = first[lane].group.arguments;
            int row = lane / 4, column = lane % 4 * 2;
            uint16_t low = shape->transposed ? element[i][column][row] : element[i][row][column];
            uint16_t high = shape->transposed ? element[i][column + 1][row] : element[i][row][column + 1];
            own->words[i] = low | (uint32_t)high << 16;
        }
}

EMULATED void emulated_matrices(uint32_t address, uint32_t *words, int count, int transposed, int stores) {
    matrices request = {count, transposed, stores, address, words};
    emulation_together(WARP, matrices_do, &request);
}

/* ---- operands in shared memory ---- */

typedef struct layout {
    uint32_t start, leading, stride, width; /* width: bytes of the swizzle; 0 none */
    bool k_major;
} layout;

static layout layout_of(uint64_t descriptor, bool k_major) {
    static const uint32_t widths[] = {0, 128, 64, 32};
    if (descriptor >> 49 & 7)
        emulation_fail("a descriptor with a base offset: tiles that follow address bits need none");
    return (layout){.start = (uint32_t)(descriptor & 0x3fff) << 4,
                    .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                    .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
                    .width = widths[descriptor >> 62],
                    .k_major = k_major};
}

/* Where byte `byte` of K of row `row` lies, or with 16-bit elements along the rows element (row, byte / 2).
 */
static uint32_t place_of(const layout *at, int row, int byte) {
    uint32_t r = (uint32_t)row, b = (uint32_t)byte, k = b / 2, address;
    if (at->k_major && at->width)
        address = r / 8 * at->stride + r % 8 * at->width + b;
    else if (at->k_major)
        address = r / 8 * at->stride + r % 8 * 16 + b / 16 * at->leading + b % 16;
    else if (at->width)
        address = r / (at->width / 2) * at->leading + k / 8 * at->stride + k % 8 * at->width +
                  r % (at->width / 2) * 2 + b % 2;
    else
        address = r / 8 * at->stride + k / 8 * at->leading + k % 8 * 16 + r % 8 * 2 + b % 2;
    address += at->start;
    uint32_t mask = at->width == 128 ? 7 : at->width == 64 ? 3 : at->width == 32 ? 1 : 0;
    return address ^ (address >> 7 & mask) << 4;
}

/* ---- products of a warpgroup ---- */

typedef struct product {
    int type_a, type_b, sum, columns, accumulate;
    bool a_registers;
    layout a, b;
    uint32_t block;
    int group; /* of those that are committed together */
    void *d[WARPGROUP];
    uint32_t words[WARPGROUP][4];
    struct product *next;
} product;

typedef struct group_product {
    const emulated_product *what;
    void *d;
    const uint32_t *words;
    uint64_t a, b;
    int accumulate;
} group_product;

static const char *byte_at(const product *product, const layout *at, int row, int byte) {
    return emulation_shared_pointer(product->block << 24 | place_of(at, row, byte));
}

static const char *a_at(const product *product, int row, int byte) {
    if (!product->a_registers) return byte_at(product, &product->a, row, byte);
    return fragment_a((uint32_t(*)[4])(uintptr_t)(product->words + row / 16 * WARP), row % 16, byte);
}

static void product_do(const product *product) {
    int bytes = emulated_type_bytes(product->type_a), count = K_BYTES / bytes;
    static double a[ROWS][K_BYTES], b[COLUMNS_MAX][K_BYTES];
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < count; k++)
            a[row][k] = element(product->type_a, a_at(product, row, k * bytes));
    for (int column = 0; column < product->columns; column++)
        for (int k = 0; k < count; k++)
            b[column][k] = element(product->type_b, byte_at(product, &product->b, column, k * bytes));
    for (int t = 0; t < WARPGROUP; t++)
        for (int i = 0; i < product->columns / 2; i++) {
            int row = t / WARP * 16 + t % WARP / 4 + i % 4 / 2 * 8;
            int column = i / 4 * 8 + t % 4 * 2 + i % 2;
            double total = product->accumulate ? sum_get(product->sum, product->d[t], i) : 0;
            for (int k = 0; k < count; k++)
                total += a[row][k] * b[column][k];
            sum_set(product->sum, product->d[t], i, total);
        }
}

/* Each warp must know of what lies there. */
static void operand_check(cuda_emulation *emulation, fiber *first, const product *product, const layout *at,
                          int rows, uint32_t agent) {
    fiber *last = emulation->fiber;
    int step = at->k_major ? 1 : 8;
    for (int warp = 0; warp < WARPGROUP / WARP; warp++) {
        emulation->fiber = &first[warp * WARP];
        for (int row = 0; row < rows; row += step)
            for (int byte = 0; byte < K_BYTES; byte += at->k_major ? PART : 2)
                emulation_check_agent(agent, byte_at(product, at, row, byte), PART, false);
    }
    emulation->fiber = last;
}

/* Those of groups before `end`. */
static void products_flush(product_group *group, int end) {
    while (group->waiting && group->waiting->group < end) {
        product *next = group->waiting->next;
        product_do(group->waiting);
        free(group->waiting);
        group->waiting = next;
    }
}

static product_group *group_of_fiber(cuda_emulation *emulation, const fiber *first) {
    return &emulation->blocks[first->block].products[first->index / WARPGROUP];
}

static void product_take(fiber *first, product *out) {
    const group_product *one = first->group.arguments;
    const emulated_product *what = one->what;
    *out = (product){.type_a = what->a,
                     .type_b = what->b,
                     .sum = what->sum,
                     .columns = what->columns,
                     .accumulate = one->accumulate,
                     .a_registers = what->a_place == EMULATED_REGISTERS,
                     .b = layout_of(one->b, what->b_place == EMULATED_K_MAJOR),
                     .block = (uint32_t)first->block + 1};
    if (!out->a_registers) out->a = layout_of(one->a, what->a_place == EMULATED_K_MAJOR);
    for (int t = 0; t < WARPGROUP; t++) {
        const group_product *own = first[t].group.arguments;
        if (own->b != one->b || own->accumulate != one->accumulate || own->what != what ||
            (!out->a_registers && own->a != one->a))
            emulation_fail("threads of a warpgroup ask for different products");
        out->d[t] = own->d;
        if (out->a_registers) memcpy(out->words[t], own->words, sizeof out->words[t]);
    }
}

static void wgmma_do(cuda_emulation *emulation, fiber *first) {
    product_group *group = group_of_fiber(emulation, first);
    uint32_t agent = emulation_agent(emulation, first->block, first->index / WARPGROUP);
    product *made = malloc(sizeof *made), **end = &group->waiting;
    if (!made) emulation_fail("no memory for a product");
    if (!group->fenced) emulation_fail("begins a group of products without wgmma.fence");
    product_take(first, made);
    group->open++;
    ++emulation->now;
    if (!made->a_registers) operand_check(emulation, first, made, &made->a, ROWS, agent);
    operand_check(emulation, first, made, &made->b, made->columns, agent);
    made->next = NULL;
    made->group = group->commits;
    while (*end)
        end = &(*end)->next;
    *end = made;
    if (!emulation->late) products_flush(group, INT_MAX);
}

EMULATED void emulated_wgmma(const emulated_product *what, void *d, uint64_t a, const uint32_t *words,
                             uint64_t b, int accumulate) {
    group_product request = {what, d, words, a, b, accumulate != 0};
    emulation_together(WARPGROUP, wgmma_do, &request);
}

static void fence_do(cuda_emulation *emulation, fiber *first) {
    group_of_fiber(emulation, first)->fenced = true;
}

EMULATED void emulated_wgmma_fence(void) {
    emulation_together(WARPGROUP, fence_do, NULL);
}

static void commit_do(cuda_emulation *emulation, fiber *first) {
    product_group *group = group_of_fiber(emulation, first);
    group->open = 0;
    group->fenced = false;
    group->committed[group->commits++ % 64] = ++emulation->now;
}

EMULATED void emulated_wgmma_commit(void) {
    emulation_together(WARPGROUP, commit_do, NULL);
}

/* Products end in the order in which they were asked for. */
static void wait_do(cuda_emulation *emulation, fiber *first) {
    product_group *group = group_of_fiber(emulation, first);
    int left = *(const int *)first->group.arguments, ended = group->commits - left;
    uint32_t agent = emulation_agent(emulation, first->block, first->index / WARPGROUP);
    if (ended <= 0) return;
    products_flush(group, ended);
    knowledge *told = emulation_knowledge(emulation, NULL);
    told->time[agent - AGENT_FIRST] = group->committed[(ended - 1) % 64] + 1;
    for (int t = 0; t < WARPGROUP; t++)
        emulation_acquire(emulation, &first[t], told);
}

EMULATED void emulated_wgmma_wait(int left) {
    emulation_together(WARPGROUP, wait_do, &left);
}

void emulation_products_end(cuda_emulation *emulation, emulated_block *block) {
    for (int g = 0; g < GROUPS_MAX; g++) {
        bool any = block->products[g].waiting != NULL;
        while (block->products[g].waiting) {
            product *next = block->products[g].waiting->next;
            free(block->products[g].waiting);
            block->products[g].waiting = next;
        }
        block->products[g] = (product_group){0};
        if (any && emulation) emulation_fail("block %lld ends before its products", (long long)block->index);
    }
}
