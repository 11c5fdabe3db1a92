/* Weights of a model in the memory of a device that does not see the host's.
 *
 * In: weights in the mapped file. Out: the same in one piece of the device's memory, layer by layer, those of
 * a layer behind each other in the order of the family's text. Matrices in blocks are laid out anew, each in
 * memory of its own, or in that of all whose rows are joined; those of bf16 become f16.
 */
#include "model/model.h"

#include <string.h>

enum { ALIGNMENT = 256 };

typedef struct placing {
    struct hr_model *model;
    size_t at;    /* in the model's weight memory */
    void *blocks; /* of one weight, or of those that are joined, as in the file */
    size_t blocks_bytes;
    hr_model_memory most; /* the largest number of each of its rows, f32 */
    int64_t rows;
} placing;

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool is_packed(const hr_weight *weight) {
    return weight->format->form && weight->rank == 2;
}

static bool is_bf16_matrix(const hr_weight *weight) {
    return weight->rank == 2 && strcmp(weight->format->name, "bf16") == 0;
}

/* ---- weights that are joined ---- */

static const hr_model_weight *rule_weight(const struct hr_model *model, const char *name) {
    for (int i = 0; i < model->text.weight_count; i++)
        if (strcmp(model->weights[i].name, name) == 0) return &model->weights[i];
    return NULL;
}

/* Part `part` of a layer of the join; NULL where there is none. */
static hr_weight *part_of(const struct hr_model *model, int join, int layer, int part) {
    const hr_model_weight *of = rule_weight(model, model->text.joins[join].parts[part]);
    return of && layer < of->layers ? of->layer[layer] : NULL;
}

static bool is_alike(const hr_weight *part, const hr_weight *first) {
    return part && part->data && part->format == first->format && part->rank == 2 && first->rank == 2 &&
           part->shape[1] == first->shape[1];
}

/* What the parts are together, wherever they lie; false where they are not stored alike. */
static bool parts_join(const struct hr_model *model, int join, int layer, hr_weight *out) {
    const hr_weight *first = part_of(model, join, layer, 0);
    if (!first || !is_alike(first, first)) return false;
    *out = *first;
    for (int i = 1; i < model->text.joins[join].count; i++) {
        const hr_weight *part = part_of(model, join, layer, i);
        if (!is_alike(part, first)) return false;
        out->shape[0] += part->shape[0];
        out->bytes += part->bytes;
    }
    return true;
}

/* Room for a weight of each join and layer. */
static void joins_begin(struct hr_model *model) {
    for (int i = 0; i < model->text.join_count; i++) {
        const hr_model_weight *of = rule_weight(model, model->text.joins[i].parts[0]);
        hr_model_weight *made = &model->joined[i];
        *made = (hr_model_weight){.name = model->text.joins[i].name};
        if (!of) continue;
        made->is_layered = of->is_layered;
        made->layers = of->layers;
        made->layer = hr_arena_alloc(model->arena, (size_t)made->layers * sizeof *made->layer);
        model->joined_weight_count += made->layers;
    }
    model->joined_weights =
        hr_arena_alloc(model->arena, (size_t)model->joined_weight_count * sizeof *model->joined_weights);
    hr_weight *at = model->joined_weights;
    for (int i = 0; i < model->text.join_count; i++)
        for (int l = 0; l < model->joined[i].layers; l++)
            model->joined[i].layer[l] = at++;
}

/* The join, and its layer, whose first part this is; false where it is none's. */
static bool join_begins(const struct hr_model *model, const hr_weight *weight, int *join, int *layer) {
    for (*join = 0; *join < model->text.join_count; ++*join)
        for (*layer = 0; *layer < model->joined[*join].layers; ++*layer)
            if (part_of(model, *join, *layer, 0) == weight) return true;
    return false;
}

/* Whether the parts of the layer are one matrix where they lie now. */
static bool is_joined(const struct hr_model *model, int join, int layer) {
    hr_weight *made = model->joined[join].layer[layer];
    if (made->format && hr_model_weight_packed(model, made)) return true;
    if (!parts_join(model, join, layer, made)) return false;
    const unsigned char *end = made->data;
    for (int i = 0; i < model->text.joins[join].count; i++) {
        const hr_weight *part = part_of(model, join, layer, i);
        if (part->data != end) return false;
        end += part->bytes;
    }
    return true;
}

static void joins_end(struct hr_model *model) {
    for (int i = 0; i < model->text.join_count; i++)
        for (int l = 0; l < model->joined[i].layers; l++)
            if (!is_joined(model, i, l)) model->joined[i].layer[l] = NULL;
}

/* ---- each weight once ---- */

/* Whether another rule before this one, or an earlier layer, has the weight: they are tied. */
static bool is_tied(const struct hr_model *model, int rule, int layer) {
    const hr_weight *weight = model->weights[rule].layer[layer];
    for (int i = 0; i <= rule; i++)
        for (int l = 0; l < (i < rule ? model->weights[i].layers : layer); l++)
            if (model->weights[i].layer[l] == weight) return true;
    return false;
}

static int layers_most(const struct hr_model *model) {
    int most = 0;
    for (int i = 0; i < model->text.weight_count; i++)
        if (model->weights[i].layers > most) most = model->weights[i].layers;
    return most;
}

static hr_status each_weight(placing *placing, hr_status (*visit)(struct placing *placing, hr_weight *)) {
    const struct hr_model *model = placing->model;
    const int layers = layers_most(model);
    for (int l = 0; l < layers; l++)
        for (int i = 0; i < model->text.weight_count; i++)
            if (l < model->weights[i].layers && !is_tied(model, i, l))
                HR_TRY(visit(placing, model->weights[i].layer[l]));
    return HR_OK;
}

static void room_count(placing *placing, size_t bytes) {
    if (bytes > placing->blocks_bytes) placing->blocks_bytes = bytes;
}

static hr_status weight_count(placing *placing, hr_weight *weight) {
    hr_weight whole;
    int join, layer;
    if (!is_packed(weight)) placing->model->weight_bytes += aligned(weight->bytes);
    if (is_packed(weight) || is_bf16_matrix(weight)) room_count(placing, weight->bytes);
    if (is_packed(weight) && join_begins(placing->model, weight, &join, &layer) &&
        parts_join(placing->model, join, layer, &whole))
        room_count(placing, whole.bytes);
    if (is_bf16_matrix(weight) && weight->shape[0] > placing->rows) placing->rows = weight->shape[0];
    return HR_OK;
}

/* The weight as it is in `blocks`, laid out in memory of its own. */
static hr_status blocks_lay_out(const placing *placing, hr_weight *weight) {
    const hr_packed_weight *packed;
    weight->data = placing->blocks;
    HR_TRY(hr_model_weight_pack(placing->model, weight, &packed));
    if (!packed)
        return hr_fail(HR_INTERNAL, "no kernel lays out weights that are stored as %s", weight->format->name);
    weight->data = NULL;
    weight->bytes = 0;
    return HR_OK;
}

/* All parts of a layer of a join as one matrix, of which they are rows. */
static hr_status joined_send(const placing *placing, int join, int layer) {
    struct hr_model *model = placing->model;
    hr_weight *whole = model->joined[join].layer[layer];
    size_t at = 0;
    int64_t row = 0;
    for (int i = 0; i < model->text.joins[join].count; i++) {
        const hr_weight *part = part_of(model, join, layer, i);
        HR_TRY(hr_device_upload(model->device, (char *)placing->blocks + at, part->data, part->bytes));
        at += part->bytes;
    }
    HR_TRY(blocks_lay_out(placing, whole));
    for (int i = 0; i < model->text.joins[join].count; i++) {
        hr_weight *part = part_of(model, join, layer, i);
        hr_model_weight_part(model, whole, part, row);
        row += part->shape[0];
        part->data = NULL;
        part->bytes = 0;
    }
    return HR_OK;
}

static hr_status blocks_send(const placing *placing, hr_weight *weight) {
    struct hr_model *model = placing->model;
    int join, layer;
    if (hr_model_weight_packed(model, weight)) return HR_OK; /* with those that it is joined with */
    if (join_begins(model, weight, &join, &layer) &&
        parts_join(model, join, layer, model->joined[join].layer[layer]))
        return joined_send(placing, join, layer);
    HR_TRY(hr_device_upload(model->device, placing->blocks, weight->data, weight->bytes));
    return blocks_lay_out(placing, weight);
}

/* Whether f16 holds all numbers of rows with these largest ones: none is beyond it, and where the smallest
 * lose digits it is less than what bf16 leaves out of the largest of their row. */
static bool f16_holds(const float *most, int64_t rows) {
    static const float least = 0x1p-14f, beyond = 60000;
    for (int64_t row = 0; row < rows; row++)
        if (!(most[row] == 0 || (most[row] >= least && most[row] <= beyond))) return false;
    return true;
}

/* A matrix of bf16 as f16, in which tensor cores multiply it with f16 rows, where that holds it. */
static hr_status halves_send(placing *placing, hr_weight *weight, unsigned char *to, bool *done) {
    struct hr_model *model = placing->model;
    const hr_model_kernel *halve;
    const hr_array arrays[] = {
        {.size = sizeof(hr_array),
         .data = placing->blocks,
         .dtype = HR_BF16,
         .rank = 2,
         .shape = weight->shape},
        {.size = sizeof(hr_array), .data = to, .dtype = HR_F16, .rank = 2, .shape = weight->shape},
        {.size = sizeof(hr_array),
         .data = placing->most.device,
         .dtype = HR_F32,
         .rank = 1,
         .shape = weight->shape}};
    *done = false;
    HR_TRY(hr_model_kernel_find(model, "halve_matrix", &halve));
    if (!halve) return hr_fail(HR_INTERNAL, "no kernel makes f16 of bf16");
    HR_TRY(hr_device_upload(model->device, placing->blocks, weight->data, weight->bytes));
    HR_TRY(hr_kernel_execute(halve->kernel, arrays, 3, NULL));
    HR_TRY(hr_model_memory_fetch(model->device, &placing->most, placing->most.host,
                                 (size_t)weight->shape[0] * sizeof(float)));
    if (!f16_holds((const float *)(const void *)placing->most.host, weight->shape[0])) return HR_OK;
    weight->format = hr_block_format_named("f16");
    *done = true;
    return HR_OK;
}

static hr_status weight_send(placing *placing, hr_weight *weight) {
    unsigned char *to = (unsigned char *)placing->model->weight_memory + placing->at;
    bool done = false;
    if (is_packed(weight)) return blocks_send(placing, weight);
    placing->at += aligned(weight->bytes);
    if (is_bf16_matrix(weight)) HR_TRY(halves_send(placing, weight, to, &done));
    if (!done) HR_TRY(hr_device_upload(placing->model->device, to, weight->data, weight->bytes));
    weight->data = to;
    return HR_OK;
}

/* ---- the whole ---- */

static hr_status place(placing *placing) {
    struct hr_model *model = placing->model;
    joins_begin(model);
    HR_TRY(each_weight(placing, weight_count));
    HR_TRY(hr_device_allocate(model->device, model->weight_bytes, &model->weight_memory));
    if (placing->blocks_bytes)
        HR_TRY(hr_device_allocate(model->device, placing->blocks_bytes, &placing->blocks));
    if (placing->rows)
        HR_TRY(hr_model_memory_take(model->device, (size_t)placing->rows * sizeof(float), &placing->most));
    HR_TRY(each_weight(placing, weight_send));
    return hr_device_synchronise(model->device);
}

hr_status hr_model_weights_place(struct hr_model *model) {
    placing placing = {.model = model};
    if (hr_device_memory_is_host(model->device)) return HR_OK;
    const hr_status status = place(&placing);
    if (placing.blocks) hr_device_release(model->device, placing.blocks, placing.blocks_bytes);
    hr_model_memory_release(model->device, &placing.most);
    if (status == HR_OK) joins_end(model);
    return status;
}
