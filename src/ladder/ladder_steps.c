/* The tables of the ladders: which steps there are, and what each of them launches. */
#include "ladder/ladder.h"
#include "ladder/ladder_text.h"

#include <stdlib.h>
#include <string.h>

enum {
    WARP_TILES = 128 * 128 + 2 * 64 * 128, /* gemm/warp_product.cuh: both_bytes */
    GROUP_STAGES =
        4 * (2 * 64 * 128 + 4 * 64 * 128) + 64, /* gemm/warpgroup_product.cuh: four, and barriers */
    PING_PONG_STAGES = 6 * (4 * 64 * 128) + 96, /* gemm/13_ping_pong.cu: six, and barriers */
    ROWS = 64 * 128 * 2,                        /* attention/warp_rows.cuh: tile_bytes */
    ATTENTION_RING = 5 * (128 * 128 * 2) +
                     128, /* attention/group_rows.cuh: queries, two of keys, two of values, barriers */
};

#define GRID(name, rows, columns, size)                                                                      \
    {                                                                                                        \
        .entry = (name), .threads = (size), .cluster = 1, .tile = {(rows), (columns) }                       \
    }
#define ONE(...)       .launches = {__VA_ARGS__}, .launch_count = 1
#define PRODUCTS(list) .products = (list), .product_count = (int)(sizeof(list) / sizeof *(list))

static const hr_tensor_core warp_products[] = {{.threads = HR_TENSOR_WARP, .columns = 8}};
static const hr_tensor_core gemm_group_products[] = {{.threads = HR_TENSOR_WARPGROUP,
                                                      .columns = 256,
                                                      .a_place = HR_TENSOR_K_MAJOR,
                                                      .b_place = HR_TENSOR_MN_MAJOR}};
static const hr_tensor_core ping_pong_products[] = {{.threads = HR_TENSOR_WARPGROUP,
                                                     .columns = 128,
                                                     .a_place = HR_TENSOR_K_MAJOR,
                                                     .b_place = HR_TENSOR_MN_MAJOR}};
static const hr_tensor_core attention_group_products[] = {{.threads = HR_TENSOR_WARPGROUP,
                                                           .columns = 128,
                                                           .a_place = HR_TENSOR_K_MAJOR,
                                                           .b_place = HR_TENSOR_K_MAJOR},
                                                          {.threads = HR_TENSOR_WARPGROUP,
                                                           .columns = 128,
                                                           .a_place = HR_TENSOR_REGISTERS,
                                                           .b_place = HR_TENSOR_MN_MAJOR}};

static const hr_ladder_step gemm_steps[] = {
    {"naive", hr_gemm_naive_text, NULL, "sm_80", ONE(GRID("gemm", 32, 32, 1024))},
    {"coalesced", hr_gemm_coalesced_text, NULL, "sm_80", ONE(GRID("gemm", 32, 32, 1024))},
    {"shared-memory tiles", hr_gemm_shared_text, NULL, "sm_80", ONE(GRID("gemm", 32, 32, 1024))},
    {"register tiles", hr_gemm_registers_text, NULL, "sm_80", ONE(GRID("gemm", 128, 128, 256))},
    {"vectorised", hr_gemm_vectorised_text, NULL, "sm_80", ONE(GRID("gemm", 128, 128, 256))},
    {"asynchronous copies", hr_gemm_asynchronous_text, NULL, "sm_80", ONE(GRID("gemm", 128, 128, 256))},
    {"tensor cores by wmma", hr_gemm_wmma_text, NULL, "sm_80", ONE(GRID("gemm", 128, 128, 256))},
    {"mma.sync", hr_gemm_mma_text, hr_gemm_warp_text, "sm_80", PRODUCTS(warp_products),
     ONE({.entry = "gemm", .threads = 256, .cluster = 1, .shared = WARP_TILES, .tile = {128, 128}})},
    {"swizzled", hr_gemm_swizzled_text, hr_gemm_warp_text, "sm_80", PRODUCTS(warp_products),
     ONE({.entry = "gemm", .threads = 256, .cluster = 1, .shared = WARP_TILES, .tile = {128, 128}})},
    {"ring of copies", hr_gemm_ring_text, hr_gemm_warp_text, "sm_80", PRODUCTS(warp_products),
     ONE({.entry = "gemm", .threads = 256, .cluster = 1, .shared = 4 * WARP_TILES, .tile = {128, 128}})},
    {"wgmma and TMA", hr_gemm_wgmma_text, hr_gemm_warpgroup_text, "sm_90a", PRODUCTS(gemm_group_products),
     ONE({.entry = "gemm",
          .threads = 256,
          .cluster = 1,
          .shared = GROUP_STAGES,
          .tile = {128, 256},
          .maps = {{0, 128}, {1, 64}},
          .map_count = 2})},
    {"specialised, persistent", hr_gemm_specialised_text, hr_gemm_warpgroup_text, "sm_90a",
     PRODUCTS(gemm_group_products),
     ONE({.entry = "gemm",
          .threads = 384,
          .cluster = 1,
          .shared = GROUP_STAGES,
          .blocks = HR_LADDER_PERSISTENT,
          .tile = {128, 256},
          .maps = {{0, 128}, {1, 64}},
          .map_count = 2})},
    {"ping-pong", hr_gemm_ping_pong_text, NULL, "sm_90a", PRODUCTS(ping_pong_products),
     ONE({.entry = "gemm",
          .threads = 384,
          .cluster = 2,
          .shared = PING_PONG_STAGES,
          .blocks = HR_LADDER_PERSISTENT,
          .tile = {128, 128},
          .maps = {{0, 128}, {1, 64}},
          .map_count = 2})},
    {"as planned", hr_gemm_planned_text, NULL, "sm_80", .launch_count = 0},
};

static const hr_ladder_step softmax_steps[] = {
    {"naive", hr_softmax_naive_text, hr_softmax_row_text, "sm_80", ONE(GRID("softmax", 128, 0, 128))},
    {"warp a row", hr_softmax_warp_text, hr_softmax_row_text, "sm_80", ONE(GRID("softmax", 8, 0, 256))},
    {"vectorised", hr_softmax_vectorised_text, hr_softmax_row_text, "sm_80", ONE(GRID("softmax", 8, 0, 256))},
    {"one pass", hr_softmax_one_pass_text, hr_softmax_kept_text, "sm_80", ONE(GRID("softmax", 1, 0, 512))},
    {"cluster", hr_softmax_cluster_text, hr_softmax_kept_text, "sm_90",
     ONE({.entry = "softmax", .threads = 256, .cluster = 4, .tile = {1, 0}})},
    {"as planned", hr_softmax_planned_text, NULL, "sm_80", .launch_count = 0},
};

#define GROUPS(size)                                                                                         \
    ONE({.entry = "attention",                                                                               \
         .threads = (size),                                                                                  \
         .cluster = 1,                                                                                       \
         .shared = ATTENTION_RING,                                                                           \
         .tile = {128, 0},                                                                                   \
         .maps = {{0, 128}, {1, 128}, {2, 128}},                                                             \
         .map_count = 3})

static const hr_ladder_step attention_steps[] = {
    {"three stages", hr_attention_stages_text, hr_attention_warp_text, "sm_80", PRODUCTS(warp_products),
     .launches =
         {{.entry = "scores", .threads = 128, .cluster = 1, .shared = 2 * ROWS, .tile = {64, 0}},
          {.entry = "weights", .threads = 256, .cluster = 1, .tile = {8, 0}},
          {.entry = "outputs", .threads = 128, .cluster = 1, .shared = ROWS / 2 + ROWS, .tile = {64, 0}}},
     .launch_count = 3, .scratch_a_score = 4 + 2},
    {"tiled", hr_attention_tiled_text, hr_attention_warp_text, "sm_80", PRODUCTS(warp_products),
     ONE({.entry = "attention",
          .threads = 128,
          .cluster = 1,
          .shared = 3 * ROWS + ROWS / 2 + 4 * (64 * 68 + 128),
          .tile = {64, 0}})},
    {"scores in registers", hr_attention_registers_text, hr_attention_online_text, "sm_80",
     PRODUCTS(warp_products),
     ONE({.entry = "attention", .threads = 128, .cluster = 1, .shared = 3 * ROWS, .tile = {64, 0}})},
    {"wgmma and TMA", hr_attention_wgmma_text, hr_attention_group_text, "sm_90a",
     PRODUCTS(attention_group_products), GROUPS(256)},
    {"specialised", hr_attention_specialised_text, hr_attention_roles_text, "sm_90a",
     PRODUCTS(attention_group_products), GROUPS(384)},
    {"out of step", hr_attention_out_of_step_text, hr_attention_roles_text, "sm_90a",
     PRODUCTS(attention_group_products), GROUPS(384)},
    {"as planned", hr_attention_planned_text, NULL, "sm_80", .launch_count = 0},
};

#define STEPS(list) .steps = (list), .step_count = sizeof(list) / sizeof *(list)

static const hr_ladder ladders[] = {
    {"gemm", "matmul", "a product of two matrices", "M=4096 N=4096 K=4096", STEPS(gemm_steps),
     .extents = {{"M", 4096, 128, 0}, {"N", 4096, 256, 0}, {"K", 4096, 64, 0}}},
    {"softmax", "softmax", "the probabilities of each row", "M=8192 N=32768", STEPS(softmax_steps),
     .extents = {{"M", 8192, 1, 0}, {"N", 32768, 8, 32768}}},
    {"attention", "attention", "causal attention", "B=4 H=16 I=4096 J=4096 D=128 E=128",
     STEPS(attention_steps),
     .extents = {{"B", 4, 1, 0},
                 {"H", 16, 1, 0},
                 {"I", 4096, 128, 0},
                 {"J", 4096, 128, 0},
                 {"D", 128, 128, 128},
                 {"E", 128, 128, 128}}},
};

const hr_ladder *hr_ladder_at(int i) {
    return i >= 0 && i < (int)(sizeof ladders / sizeof *ladders) ? &ladders[i] : NULL;
}

bool hr_ladder_step_is_planned(const hr_ladder_step *step) {
    return step->launch_count == 0;
}

bool hr_ladder_step_fits(const hr_ladder_step *step, int compute) {
    const int needed = atoi(step->needs + strlen("sm_"));
    return strchr(step->needs, 'a') ? compute == needed : compute >= needed;
}
