/* Products in a walk as text: sizes, tensor maps, and which product comes behind which. In: a stage. Out:
 * text. See gemm_walk_text.h. */
#include "emit/cuda/gemm_walk_text.h"

#include "emit/cuda/stage_cuda.h"

/* ---- sizes ---- */

static void print_size_body(void *context) {
    gemm_printer *g = context;
    const hr_contract *c = g->contract;
    hr_print(g->p, "return {%s, %s, %s, %s};", hr_emit_points(g->p, c->batch, c->batch_count),
             hr_emit_points(g->p, c->m, c->m_count), hr_emit_points(g->p, c->n, c->n_count),
             hr_emit_points(g->p, c->k, c->k_count));
}

void hr_gemm_print_size_function(gemm_printer *g) {
    if (!hr_gemm_walk_of(g->stage)) return;
    hr_cuda_print_function(
        g->p,
        hr_format(g->p, "static __device__ inline gemm_size stage_%d_size(const arguments &a)", g->number),
        print_size_body, g);
}

static void print_size_member(hr_printer *p, int number) {
    hr_print(p, "    static __device__ inline gemm_size size(const arguments &a) {");
    hr_print(p, "        return stage_%d_size(a);", number);
    hr_print(p, "    }");
}

/* ---- which comes behind which ---- */

void hr_gemm_print_terms(hr_printer *p, int number, const char *suffix) {
    const hr_stage *stage = &p->plan->stages[number];
    const hr_gemm_walk *walk = hr_gemm_walk_of(stage);
    const bool sums = walk && walk->kind == HR_GEMM_WALK_SUM;
    const int place = hr_gemm_walk_place(p->plan, stage), after = sums ? walk->count - 1 - place : 0;
    hr_print(p, "    static constexpr int terms_after = %d;", after);
    if (after) hr_print(p, "    typedef stage_%d_%s more;", walk->stage[place + 1], suffix);
    if (sums) print_size_member(p, number);
}

void hr_gemm_print_walk_members(gemm_printer *g) {
    hr_printer *p = g->p;
    const hr_gemm_walk *walk = hr_gemm_walk_of(g->stage);
    const bool apart = walk && walk->kind != HR_GEMM_WALK_SUM;
    const int place = hr_gemm_walk_place(p->plan, g->stage), after = apart ? walk->count - 1 - place : 0;
    hr_print(p, "    static constexpr int walks = %d, after = %d;", apart ? walk->count : 1, after);
    hr_print(p, "    static constexpr bool along_m = %s;",
             apart && walk->kind == HR_GEMM_WALK_ROWS ? "true" : "false");
    if (after) hr_print(p, "    typedef stage_%d_hopper next;", walk->stage[place + 1]);
    if (apart) print_size_member(p, g->number);
    hr_print(p, "    static constexpr int group_bytes = %d, column_bytes = %d;", (int)g->gemm->group_bytes,
             (int)g->gemm->column_bytes);
    hr_gemm_print_terms(p, g->number, "hopper");
}

/* ---- tensor maps ---- */

/* The products whose maps the kernel has: those of its walk, or its own. */
typedef struct mapped {
    const hr_gemm_walk *walk;
    int count;
} mapped;

static mapped mapped_of(const gemm_printer *g) {
    const hr_gemm_walk *walk = hr_gemm_walk_of(g->stage);
    return (mapped){walk, walk ? walk->count : 1};
}

static const hr_cuda_gemm *gemm_of(const gemm_printer *g, mapped of, int i) {
    return of.walk ? &of.walk->gemm[i] : g->gemm;
}

/* What the names of its maps begin with. */
static const char *prefix_of(const gemm_printer *g, mapped of, int i) {
    return i ? hr_format(g->p, "stage_%d_", of.walk->stage[i]) : "";
}

void hr_gemm_print_maps_struct(gemm_printer *g) {
    hr_printer *p = g->p;
    const hr_gemm_walk *walk = hr_gemm_walk_of(g->stage);
    const int place = hr_gemm_walk_place(p->plan, g->stage);
    hr_print(p, "struct stage_%d_maps {", g->number);
    hr_print(p, "    const void *left, *right[%d], *result[%d], *staged;", g->gemm->rights,
             g->gemm->result_count ? g->gemm->result_count : 1);
    if (walk && place + 1 < walk->count)
        hr_print(p, "    stage_%d_maps %s;", walk->stage[place + 1],
                 walk->kind == HR_GEMM_WALK_SUM ? "more" : "next");
    hr_print(p, "};");
    hr_print(p, "%s", "");
}

const char *hr_gemm_map_parameters(const gemm_printer *g) {
    hr_printer *p = g->p;
    const mapped of = mapped_of(g);
    const char *map = "const __grid_constant__ tensor_map", *maps = "";
    for (int i = 0; i < of.count; i++) {
        const hr_cuda_gemm *gemm = gemm_of(g, of, i);
        const char *prefix = prefix_of(g, of, i);
        if (!i || !hr_gemm_walk_shares_left(of.walk, i))
            maps = hr_format(p, "%s%s %sleft_map, ", maps, map, prefix);
        for (int r = 0; r < gemm->rights && (!i || !hr_gemm_walk_shares_right(of.walk, i)); r++)
            maps = r ? hr_format(p, "%s%s %sright_%d_map, ", maps, map, prefix, r)
                     : hr_format(p, "%s%s %sright_map, ", maps, map, prefix);
        for (int r = 0; r < gemm->result_count; r++)
            maps = hr_format(p, "%s%s %sresult_map_%d, ", maps, map, prefix, r);
        if (gemm->staged_block) maps = hr_format(p, "%s%s %sstaged_map, ", maps, map, prefix);
    }
    return maps;
}

const char *hr_gemm_maps_text(const gemm_printer *g) {
    hr_printer *p = g->p;
    const mapped of = mapped_of(g);
    const char *text = "";
    for (int i = of.count - 1; i >= 0; i--) {
        const hr_cuda_gemm *gemm = gemm_of(g, of, i);
        const char *prefix = prefix_of(g, of, i);
        const char *left = i && hr_gemm_walk_shares_left(of.walk, i) ? "" : prefix;
        const char *right = i && hr_gemm_walk_shares_right(of.walk, i) ? "" : prefix;
        const char *maps = hr_format(p, "{&%sleft_map, {&%sright_map", left, right);
        for (int r = 1; r < gemm->rights; r++)
            maps = hr_format(p, "%s, &%sright_%d_map", maps, right, r);
        maps = hr_format(p, "%s}, {", maps);
        for (int r = 0; r < gemm->result_count; r++)
            maps = hr_format(p, "%s%s&%sresult_map_%d", maps, r ? ", " : "", prefix, r);
        maps = gemm->staged_block ? hr_format(p, "%s}, &%sstaged_map", maps, prefix)
                                  : hr_format(p, "%s}, nullptr", maps);
        text = hr_format(p, "%s%s%s}", maps, *text ? ", " : "", text);
    }
    return text;
}
