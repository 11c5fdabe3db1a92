/* A step of a model as a sequence: the calls of its text, bound to weights, caches and buffers.
 *
 * In: how many tokens there are, and how many of them give logits. Out: the calls. What a call names is given
 * to the kernel in the shape that its parameter declares: extents of the family's kernels are the model's by
 * name, those of models/weights.hr follow from what is given. A weight in blocks is given as arrays over
 * their bytes, to the kernel that bears the format's name: linear_q4_1. Where there is none, or many rows
 * share the work, the weight is written out as numbers first.
 */
#include "model/step_operands.h"
#include "model/step_pieces.h"
#include "model/step_text.h"

#include "base/dtype.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

/* From so many rows on a product of numbers adds up in one order, whatever their number; those of
 * whole-number dots always do. */
#define SAME_ORDER_ROWS 32
#define HALVED_GROUP    32 /* numbers whose sum models/blocks.hr keeps */
#define HALVED_ROWS     64 /* the same of models/blocks.hr */
#define ARGUMENTS_MOST  32

/* ---- calls ---- */

/* A whole number for each token of the step, which the host has at `data`. */
static hr_operand token_operand(const hr_step_builder *builder, const hr_model_memory *memory,
                                const int32_t *data) {
    hr_operand operand = {HR_OPERAND_DENSE, hr_step_array(HR_I32, hr_model_memory_at(memory, data))};
    operand.array.rank = 1;
    operand.array.shape[0] = (hr_step_size){builder->tokens, 0};
    return operand;
}

/* A buffer for a result. */
static hr_status buffer_make(hr_step_builder *builder, const char *name, hr_dtype dtype, hr_operand *out) {
    const int64_t logits = builder->answers * builder->model->vocabulary;
    hr_step_size elements;
    size_t bytes;
    HR_TRY(hr_step_elements(builder, &out->array, 0, &elements));
    if (elements.scaled) return hr_step_wrong(builder, name, "would grow from step to step; only caches do");
    if (elements.fixed < 0 || __builtin_mul_overflow((size_t)elements.fixed, hr_dtype_size(dtype), &bytes))
        return hr_step_wrong(builder, name, "is larger than any memory");
    out->kind = HR_OPERAND_DENSE;
    if (strcmp(name, "logits") != 0)
        HR_TRY(hr_sequence_buffer(builder->sequence, name, bytes, &out->array.buffer));
    else if (elements.fixed == logits && dtype == HR_F32)
        out->array.data = builder->model->logits.device;
    else
        return hr_step_wrong(builder, name, "are not A rows of V numbers in f32");
    return HR_OK;
}

/* The same, which takes the name from what had it before. */
static hr_status result_make(hr_step_builder *builder, const char *name, hr_dtype dtype, hr_operand *out) {
    HR_TRY(buffer_make(builder, name, dtype, out));
    return hr_step_name_set(builder, name, out);
}

/* The token's part of a result of all: operands may bear its name until the last one. */
static hr_status part_make(hr_step_builder *builder, const char *name, hr_dtype dtype, hr_operand *out) {
    hr_step_size elements;
    HR_TRY(hr_step_elements(builder, &out->array, 0, &elements));
    if (builder->token == 0) {
        builder->whole = (hr_operand){HR_OPERAND_NEW, hr_step_array(dtype, NULL)};
        builder->whole.array.rank = 1;
        HR_TRY(hr_step_located(builder, hr_step_product(elements, (hr_step_size){builder->tokens, 0},
                                                        &builder->whole.array.shape[0])));
        HR_TRY(buffer_make(builder, name, dtype, &builder->whole));
    }
    out->array.buffer = builder->whole.array.buffer;
    out->array.data = builder->whole.array.data;
    out->array.offset.fixed = builder->token * elements.fixed;
    return HR_OK;
}

/* Buffers on their way into a cache; no name of a text has spaces. */
static const char *const put_names[HR_TARGETS_MOST] = {"put 0", "put 1", "put 2", "put 3"};

/* Where a result goes: into a cache, nowhere, or into a buffer of its own. By place it is a buffer that
 * goes into the cache afterwards: `put` is its name. */
static hr_status result_place(hr_step_builder *builder, const hr_step_solving *solving, int argument,
                              const hr_argument *declared, const hr_operand_text *target, const char *put,
                              hr_operand *out) {
    const hr_model_cache *cache = hr_step_cache_named(builder->model, target->name);
    if (cache && !hr_step_goes_by_place(builder)) {
        HR_TRY(hr_step_cache_take(builder, target, cache, out));
        return hr_step_shape(solving, argument, declared, out);
    }
    *out = (hr_operand){HR_OPERAND_NEW, hr_step_array(declared->dtype, NULL)};
    HR_TRY(hr_step_shape(solving, argument, declared, out));
    if (!cache && strcmp(target->name, "_") == 0) return HR_OK;
    if (builder->token >= 0 && target == builder->statement->targets)
        return part_make(builder, target->name, declared->dtype, out);
    if (builder->into && put == put_names[0]) {
        out->array.buffer = builder->into->buffer;
        out->array.offset = builder->into->offset;
        return HR_OK;
    }
    return result_make(builder, cache ? put : target->name, declared->dtype, out);
}

static hr_status call_add(hr_step_builder *builder, const hr_model_kernel *of, hr_operand *given,
                          int given_count, const hr_operand_text *targets, int target_count);

/* Where each token goes in the caches. */
static hr_operand place_operand(const hr_step_builder *builder) {
    const struct hr_model *model = builder->model;
    return builder->pages
               ? token_operand(builder, &builder->pages->memory, builder->pages->place)
               : token_operand(builder, &model->tokens, hr_model_step_positions(model, builder->tokens));
}

/* Results that are to go into caches, each to the places of its tokens. */
static hr_status results_put(hr_step_builder *builder, const hr_operand_text *targets, int count) {
    for (int i = 0; i < count; i++) {
        const hr_model_cache *cache = hr_step_cache_named(builder->model, targets[i].name);
        const hr_model_kernel *of;
        hr_operand given[3];
        if (!cache) continue;
        hr_operand_text layer = targets[i];
        layer.subscript_count = cache->layers > 0;
        layer.from = false;
        HR_TRY(hr_model_kernel_find(builder->model, builder->pages ? "put_paged" : "put_cached", &of));
        HR_TRY(hr_step_cache_take(builder, &layer, cache, &given[0]));
        given[1] = place_operand(builder);
        given[2] = hr_step_buffer_named(builder, put_names[i])->operand;
        HR_TRY(call_add(builder, of, given, 3, NULL, 0));
    }
    return HR_OK;
}

static hr_status call_add(hr_step_builder *builder, const hr_model_kernel *of, hr_operand *given,
                          int given_count, const hr_operand_text *targets, int target_count) {
    hr_sequence_array arrays[ARGUMENTS_MOST];
    int count = hr_kernel_argument_count(of->kernel);
    hr_argument argument;
    hr_step_solving solving;
    if (count > ARGUMENTS_MOST || given_count + target_count != count)
        return hr_fail(HR_BAD_INPUT, "%s:%d: kernel %s has %d parameters and results; %d and %d are given",
                       builder->model->text.path, builder->statement->line, of->name, count, given_count,
                       target_count);
    HR_TRY(hr_step_solving_begin(builder, of, &solving));
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < given_count; i++) {
            HR_TRY(hr_kernel_argument(of->kernel, i, &argument));
            HR_TRY(hr_step_solve(&solving, i, argument.rank, &given[i]));
        }
    for (int i = 0; i < count; i++) {
        hr_operand result;
        HR_TRY(hr_kernel_argument(of->kernel, i, &argument));
        if (i < given_count)
            HR_TRY(hr_step_shape(&solving, i, &argument, &given[i]));
        else
            HR_TRY(result_place(builder, &solving, i, &argument, &targets[i - given_count],
                                put_names[i - given_count], &result));
        arrays[i] = i < given_count ? given[i].array : result.array;
    }
    HR_TRY(hr_sequence_call(builder->sequence, of->kernel, arrays, count));
    return hr_step_goes_by_place(builder) ? results_put(builder, targets, target_count) : HR_OK;
}

/* The rows of a weight as numbers: rows_FORMAT over all of them, or halves_FORM. */
static hr_status weight_write_out(hr_step_builder *builder, const hr_weight *weight, hr_operand *out) {
    static const hr_operand_text target = {.name = "numbers"};
    const int first = weight->data ? 1 : 0, views = hr_step_view_count(builder->model, weight);
    const hr_model_kernel *of;
    hr_operand given[1 + HR_PACKED_MOST] = {
        {HR_OPERAND_DENSE, hr_step_array(HR_I32, builder->model->rows.device)}};
    HR_TRY(hr_model_kernel_of(builder->model, first ? "rows" : "halves", hr_step_weight_suffix(weight), &of));
    if (!of || weight->rank != 2)
        return hr_step_wrong(builder, weight->name, "is stored in a way that no kernel reads");
    given[0].array.rank = 1;
    given[0].array.shape[0] = (hr_step_size){weight->shape[0], 0};
    for (int i = 0; i < views; i++)
        hr_step_view(builder->model, weight, i, &given[first + i]);
    HR_TRY(call_add(builder, of, given, first + views, &target, 1));
    *out = hr_step_buffer_named(builder, target.name)->operand;
    out->kind = HR_OPERAND_EXACT;
    out->array.rank = 2;
    out->array.shape[0] = (hr_step_size){weight->shape[0], 0};
    out->array.shape[1] = (hr_step_size){weight->shape[1], 0};
    return HR_OK;
}

/* A kernel that gives what several weights are multiplied with in fewer bits, and its results: no name of a
 * text has spaces. */
struct hr_rounding {
    const char *kernel;
    int count;
    hr_operand_text names[4];
};

static const hr_rounding quantised = {"quantise",
                                      4,
                                      {{.name = "quantised"},
                                       {.name = "quantised low"},
                                       {.name = "quantised scales"},
                                       {.name = "quantised sums"}}};
static const hr_rounding halved_groups = {
    "halve_groups", 3, {{.name = "halves"}, {.name = "sums of halves"}, {.name = "scales of halves"}}};
static const hr_rounding halved_rows = {
    "halve_rows", 2, {{.name = "halves of rows"}, {.name = "scales of rows"}}};
enum { ROUNDED_MOST = 4 };

/* The operand in fewer bits: of one that several weights share, once. */
static hr_status operand_round(hr_step_builder *builder, const hr_rounding *by, const hr_operand *given,
                               hr_operand *out) {
    const hr_sequence_array *array = &given->array, *known = &builder->rounded;
    const hr_model_kernel *of;
    const bool again = by == builder->rounded_by && array->buffer >= 0 && array->buffer == known->buffer &&
                       hr_step_equal(array->offset, known->offset) &&
                       hr_step_equal(array->shape[0], known->shape[0]);
    if (!again) {
        hr_operand copy = *given;
        HR_TRY(hr_model_kernel_find(builder->model, by->kernel, &of));
        HR_TRY(call_add(builder, of, &copy, 1, by->names, by->count));
        builder->rounded = *array;
        builder->rounded_by = by;
    }
    for (int i = 0; i < by->count; i++)
        out[i] = hr_step_buffer_named(builder, by->names[i].name)->operand;
    return HR_OK;
}

/* A weight times an operand by whole-number dots, where the weight can be packed for these. */
static hr_status packed_call(hr_step_builder *builder, const hr_weight *weight, const hr_operand *with,
                             bool *done) {
    const hr_model_statement *statement = builder->statement;
    const hr_model_kernel *of;
    const hr_packed_weight *packed;
    hr_operand given[HR_PACKED_MOST + ROUNDED_MOST];
    const hr_operand dense = {HR_OPERAND_DENSE, with->array};
    char name[64];
    *done = false;
    snprintf(name, sizeof name, "%s_packed", statement->name);
    HR_TRY(hr_model_kernel_of(builder->model, name, weight->format->name, &of));
    if (!of) return HR_OK;
    HR_TRY(hr_model_weight_pack(builder->model, weight, &packed));
    if (!packed) return HR_OK;
    for (int i = 0; i < packed->count; i++)
        given[i] = (hr_operand){HR_OPERAND_EXACT, packed->arrays[i]};
    HR_TRY(operand_round(builder, &quantised, &dense, given + packed->count));
    *done = true;
    return call_add(builder, of, given, packed->count + quantised.count, statement->targets,
                    statement->target_count);
}

/* The same where the device does not see the host's memory: in 16 bits. Up to HALVED_ROWS rows read the
 * blocks themselves; for more these are written out. */
static hr_status halved_call(hr_step_builder *builder, const hr_weight *weight, const hr_operand *with,
                             const hr_model_kernel *many) {
    const hr_model_statement *statement = builder->statement;
    const hr_model_kernel *of = many;
    hr_operand given[HR_PACKED_MOST + ROUNDED_MOST], shaped = {HR_OPERAND_EXACT, with->array};
    hr_step_size elements, *shape = shaped.array.shape;
    int count = 0;
    HR_TRY(hr_step_elements(builder, &with->array, 0, &elements));
    const int64_t width = weight->shape[1], rows = elements.fixed / width;
    const bool few = !weight->data && rows <= HALVED_ROWS,
               sums = few && strstr(weight->format->form, "_least") != NULL;
    shape[0] = (hr_step_size){rows, 0};
    shape[1] = (hr_step_size){sums ? width / HALVED_GROUP : width, 0};
    shape[2] = (hr_step_size){HALVED_GROUP, 0};
    shaped.array.rank = sums ? 3 : 2;
    if (few) {
        HR_TRY(hr_model_kernel_of(builder->model, statement->name, weight->format->form, &of));
        if (!of) return hr_step_wrong(builder, weight->name, "is stored in a way that no kernel reads");
        for (int views = hr_step_view_count(builder->model, weight); count < views; count++)
            hr_step_view(builder->model, weight, count, &given[count]);
    } else if (weight->data)
        hr_step_view(builder->model, weight, 0, &given[count++]);
    else
        HR_TRY(weight_write_out(builder, weight, &given[count++]));
    const hr_rounding *by = sums ? &halved_groups : &halved_rows;
    HR_TRY(operand_round(builder, by, &shaped, given + count));
    return call_add(builder, of, given, count + by->count, statement->targets, statement->target_count);
}

typedef struct call_operands {
    const hr_weight *weight; /* the one in blocks, NULL = there is none */
    const hr_weight *matrix; /* the last one of two axes */
    int weight_at, matrix_at, count;
    hr_operand items[HR_OPERANDS_MOST + HR_BLOCK_VIEWS_MOST];
    bool multiplies;  /* by a matrix */
    int64_t elements; /* of the first one that is neither weight nor number */
} call_operands;

static hr_status operands_take(hr_step_builder *builder, call_operands *out) {
    const hr_model_statement *statement = builder->statement;
    const struct hr_model *model = builder->model;
    *out = (call_operands){.count = statement->operand_count};
    for (int i = 0; i < statement->operand_count; i++) {
        const hr_weight *weight;
        HR_TRY(hr_step_operand_take(builder, &statement->operands[i], &out->items[i], &weight));
        out->multiplies |= weight && weight->rank > 1 && strcmp(statement->name, "rows") != 0;
        if (weight && weight->rank == 2) {
            out->matrix = weight;
            out->matrix_at = i;
        }
        if (weight && weight->format->values == 1)
            hr_step_view(model, weight, 0, &out->items[i]);
        else if (weight && out->weight)
            return hr_step_wrong(builder, statement->operands[i].name,
                                 "is a second weight in blocks, and a call takes one");
        else if (weight) {
            out->weight = weight;
            out->weight_at = i;
        } else if (out->items[i].array.rank > 0 && out->elements == 0) {
            hr_step_size elements;
            HR_TRY(hr_step_elements(builder, &out->items[i].array, 0, &elements));
            out->elements = elements.fixed;
        }
    }
    return HR_OK;
}

/* The blocks as arrays in the place of the weight. A weight of one axis is cut into the same groups. */
static void views_insert(const struct hr_model *model, call_operands *operands) {
    const hr_weight *weight = operands->weight;
    int more = hr_step_view_count(model, weight) - 1, at = operands->weight_at;
    memmove(&operands->items[at + 1 + more], &operands->items[at + 1],
            (size_t)(operands->count - at - 1) * sizeof *operands->items);
    for (int i = 0; i <= more; i++)
        hr_step_view(model, weight, i, &operands->items[at + i]);
    operands->count += more;
    for (int i = 0; i < operands->count; i++)
        if (operands->items[i].kind == HR_OPERAND_EXACT && operands->items[i].array.rank == 1)
            operands->items[i].kind = HR_OPERAND_DENSE;
}

static const char *file_kind(const struct hr_model *model) {
    return model->file->kind == HR_WEIGHTS_GGUF ? "gguf" : "safetensors";
}

/* What is multiplied with a cache of 16 bits, in as many. */
static hr_status operand_halve(hr_step_builder *builder, hr_operand *operand) {
    static const hr_operand_text target = {.name = "in 16 bits"}; /* no name of a text has spaces */
    const hr_model_kernel *halve;
    if (builder->model->cache_dtype != HR_F16 || operand->array.dtype != HR_F32) return HR_OK;
    HR_TRY(hr_model_kernel_find(builder->model, "halve", &halve));
    HR_TRY(call_add(builder, halve, operand, 1, &target, 1));
    *operand = hr_step_buffer_named(builder, target.name)->operand;
    return HR_OK;
}

/* What reads a cache reads pages of it. */
static hr_status paged_call(hr_step_builder *builder, call_operands *operands) {
    const hr_model_statement *statement = builder->statement;
    const hr_model_pages *pages = builder->pages;
    const hr_model_kernel *of;
    hr_operand row = {HR_OPERAND_EXACT,
                      hr_step_array(HR_I32, hr_model_memory_at(&pages->memory, pages->row))};
    HR_TRY(hr_model_kernel_of(builder->model, statement->name, "paged", &of));
    if (!of)
        return hr_step_wrong(builder, statement->name,
                             "reads a cache, and there is no kernel of its name and _paged: requests keep "
                             "their tokens in pages");
    HR_TRY(operand_halve(builder, &operands->items[0]));
    row.array.rank = 2;
    row.array.shape[0] = (hr_step_size){HR_BATCH_MOST, 0};
    row.array.shape[1] = (hr_step_size){0, 1};
    operands->items[operands->count++] = row;
    operands->items[operands->count++] = token_operand(builder, &pages->memory, pages->owner);
    operands->items[operands->count++] = token_operand(builder, &pages->memory, pages->seen);
    return call_add(builder, of, operands->items, operands->count, statement->targets,
                    statement->target_count);
}

/* NAME_SUFFIX, or that of the file's kind: NAME_gguf_SUFFIX. */
static hr_status kernel_of_kind(const hr_step_builder *builder, const char *suffix,
                                const hr_model_kernel **out) {
    const char *name = builder->statement->name;
    char of_kind[64];
    HR_TRY(hr_model_kernel_of(builder->model, name, suffix, out));
    if (*out) return HR_OK;
    snprintf(of_kind, sizeof of_kind, "%s_%s", name, file_kind(builder->model));
    return hr_model_kernel_of(builder->model, of_kind, suffix, out);
}

/* What reads a cache reads all of it up to its token's position, what it multiplies it with in 16 bits. */
static hr_status cached_call(hr_step_builder *builder, call_operands *operands) {
    const hr_model_statement *statement = builder->statement;
    const hr_model_kernel *of;
    hr_argument first;
    HR_TRY(kernel_of_kind(builder, "cached", &of));
    if (!of)
        return hr_step_wrong(builder, statement->name,
                             "reads a cache, and there is no kernel of its name and _cached: that is what "
                             "runs where the device does not see the host's memory");
    HR_TRY(hr_kernel_argument(of->kernel, 0, &first));
    if (first.dtype == HR_F16) HR_TRY(operand_halve(builder, &operands->items[0]));
    operands->items[operands->count++] = place_operand(builder);
    return call_add(builder, of, operands->items, operands->count, statement->targets,
                    statement->target_count);
}

/* A call that names a cache: by the places of its tokens, where it only puts into it. */
static hr_status cache_call(hr_step_builder *builder, call_operands *operands) {
    const hr_model_statement *statement = builder->statement;
    const hr_model_kernel *placed;
    HR_TRY(kernel_of_kind(builder, "placed", &placed));
    if (!placed) return builder->pages ? paged_call(builder, operands) : cached_call(builder, operands);
    operands->items[operands->count++] = place_operand(builder);
    return call_add(builder, placed, operands->items, operands->count, statement->targets,
                    statement->target_count);
}

/* Whether a matrix is multiplied with numbers of 16 bits: one in blocks, or of such numbers itself where many
 * rows share the work. */
static bool is_halved(const hr_step_builder *builder, const call_operands *operands) {
    const hr_weight *matrix = operands->matrix;
    if (hr_device_memory_is_host(builder->model->device) || !operands->multiplies || operands->count != 2 ||
        !matrix)
        return false;
    const int64_t width = matrix->shape[1];
    return !matrix->data ||
           (strcmp(matrix->format->name, "f16") == 0 && operands->elements > HR_STEP_FEW_ROWS * width);
}

/* The weight is read as it is packed: by few rows, or for rows of it. */
static bool is_read_packed(const hr_step_builder *builder, const call_operands *operands) {
    const hr_model_statement *statement = builder->statement;
    const hr_weight *weight = operands->weight;
    return builder->text == &builder->model->text.few ||
           operands->elements <= HR_STEP_FEW_ROWS * weight->shape[weight->rank - 1] ||
           strcmp(statement->name, "rows") == 0;
}

hr_status hr_step_call(hr_step_builder *builder) {
    const hr_model_statement *statement = builder->statement;
    struct hr_model *model = builder->model;
    const hr_model_kernel *plain, *halves, *special = NULL;
    call_operands operands;
    HR_TRY(operands_take(builder, &operands));
    if (hr_step_goes_by_place(builder) && hr_step_reads_cache(builder)) return cache_call(builder, &operands);
    HR_TRY(hr_model_kernel_find(model, statement->name, &plain));
    if (!plain) HR_TRY(hr_model_kernel_of(model, statement->name, file_kind(model), &plain));
    if (operands.weight)
        HR_TRY(hr_model_kernel_of(model, statement->name, hr_step_weight_suffix(operands.weight), &special));
    if (!plain && !special)
        return hr_step_wrong(builder, statement->name, "is no kernel of this text or of models/weights.hr");
    if (operands.weight && operands.count == 2 && hr_device_memory_is_host(model->device)) {
        bool done;
        HR_TRY(packed_call(builder, operands.weight, &operands.items[1 - operands.weight_at], &done));
        if (done) return HR_OK;
    }
    if (operands.multiplies) model->rows_least = SAME_ORDER_ROWS;
    if (is_halved(builder, &operands)) {
        HR_TRY(hr_model_kernel_of(model, statement->name, "halves", &halves));
        if (halves)
            return halved_call(builder, operands.matrix, &operands.items[1 - operands.matrix_at], halves);
    }
    if (special && (!plain || is_read_packed(builder, &operands))) {
        views_insert(model, &operands);
        plain = special;
    } else if (operands.weight)
        HR_TRY(weight_write_out(builder, operands.weight, &operands.items[operands.weight_at]));
    return call_add(builder, plain, operands.items, operands.count, statement->targets,
                    statement->target_count);
}

/* ---- the step ---- */

static void tokens_name(hr_step_builder *builder, const char *name, const int32_t *data) {
    builder->names[builder->name_count++] =
        (hr_named_buffer){name, token_operand(builder, &builder->model->tokens, data)};
}

static hr_status statements_build(hr_step_builder *builder) {
    const hr_step_text *text = builder->text;
    int64_t at = 0, bound = 0;
    int loop = -1;
    for (int i = 0; i < text->count; i++) {
        const hr_model_statement *statement = builder->statement = &text->statements[i];
        if (statement->kind == HR_MODEL_CALL) {
            bool holds;
            HR_TRY(hr_step_holds(builder, &holds));
            if (holds) HR_TRY(hr_step_call_in_pieces(builder));
        } else if (statement->kind == HR_MODEL_FOR) {
            hr_step_size size;
            HR_TRY(hr_step_evaluate(builder, statement->bound, &size));
            if (size.fixed < 0 || size.fixed > HR_MODEL_LAYERS_MOST || size.scaled)
                return hr_step_wrong(builder, statement->name, "runs over more layers than a model has");
            while (size.fixed == 0 && text->statements[i + 1].kind != HR_MODEL_END)
                i++;
            loop = i;
            at = 0;
            bound = size.fixed;
            hr_step_extent_set(builder->model, statement->name, (hr_step_size){0, 0});
        } else if (++at < bound) {
            hr_step_extent_set(builder->model, text->statements[loop].name, (hr_step_size){at, 0});
            i = loop;
        }
    }
    if (!hr_step_buffer_named(builder, "logits"))
        return hr_step_wrong(builder, "logits", "are given by no call of the step");
    return HR_OK;
}

hr_status hr_model_step_build(struct hr_model *model, int64_t tokens, int64_t answers, hr_token_order order,
                              const hr_model_pages *pages, hr_sequence *out) {
    hr_step_builder *builder = hr_memory_zeros(1, sizeof *builder);
    if (!builder) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a step of a model");
    builder->model = model;
    builder->sequence = out;
    builder->tokens = tokens;
    builder->answers = answers;
    builder->order = order;
    builder->token = -1;
    builder->pages = pages;
    builder->rounded.buffer = -1;
    builder->step_most = pages ? pages->most : model->context - tokens;
    builder->text = hr_step_text_choose(builder);
    builder->statement = builder->text->statements;
    hr_step_tokens_set(model, 0, tokens, answers);
    tokens_name(builder, "token", hr_model_step_tokens(model));
    tokens_name(builder, "position", hr_model_step_positions(model, tokens));
    hr_status status = statements_build(builder);
    if (status == HR_OK) status = hr_sequence_plan(out);
    free(builder);
    return status;
}
