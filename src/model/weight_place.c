/* Weights of a model in the memory of a device that does not see the host's.
 *
 * In: weights in the mapped file. Out: the same in one piece of the device's memory, layer by layer, those of
 * a layer behind each other in the order of the family's text. Matrices in blocks are laid out anew, each in
 * memory of its own; those of bf16 become f16.
 */
#include "model/model.h"

#include <string.h>

enum { ALIGNMENT = 256 };

typedef struct placing {
    struct hr_model *model;
    size_t at;    /* in the model's weight memory */
    void *blocks; /* of one weight, as in the file */
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

static hr_status weight_count(placing *placing, hr_weight *weight) {
    if (!is_packed(weight)) placing->model->weight_bytes += aligned(weight->bytes);
    if ((is_packed(weight) || is_bf16_matrix(weight)) && weight->bytes > placing->blocks_bytes)
        placing->blocks_bytes = weight->bytes;
    if (is_bf16_matrix(weight) && weight->shape[0] > placing->rows) placing->rows = weight->shape[0];
    return HR_OK;
}

/* Its arrays are memory of their own. */
static hr_status blocks_send(const placing *placing, hr_weight *weight) {
    const hr_packed_weight *packed;
    HR_TRY(hr_device_upload(placing->model->device, placing->blocks, weight->data, weight->bytes));
    weight->data = placing->blocks;
    HR_TRY(hr_model_weight_pack(placing->model, weight, &packed));
    if (!packed)
        return hr_fail(HR_INTERNAL, "no kernel lays out weights that are stored as %s", weight->format->name);
    weight->data = NULL;
    weight->bytes = 0;
    return HR_OK;
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

/* ---- weights that are joined ---- */

/* NULL where the rows of the parts do not lie behind each other. It has as many layers as they. */
static hr_weight *join(struct hr_model *model, const hr_join_rule *rule, int layer, hr_model_weight *out) {
    hr_weight *made = hr_arena_alloc(model->arena, sizeof *made);
    for (int part = 0; part < rule->count; part++) {
        const hr_model_weight *of = NULL;
        for (int i = 0; i < model->text.weight_count; i++)
            if (strcmp(model->weights[i].name, rule->parts[part]) == 0) of = &model->weights[i];
        if (!of || layer >= of->layers || !of->layer[layer]->data) return NULL;
        const hr_weight *weight = of->layer[layer];
        out->layers = of->layers;
        out->is_layered = of->is_layered;
        if (part == 0) {
            *made = *weight;
            continue;
        }
        if (weight->format != made->format || weight->rank != made->rank || weight->rank != 2 ||
            weight->shape[1] != made->shape[1] || weight->data != made->data + made->bytes)
            return NULL;
        made->shape[0] += weight->shape[0];
        made->bytes += weight->bytes;
    }
    return made;
}

static void weights_join(struct hr_model *model) {
    for (int i = 0; i < model->text.join_count; i++) {
        const hr_join_rule *rule = &model->text.joins[i];
        hr_model_weight made = {.name = rule->name, .layers = 1};
        hr_weight *first = join(model, rule, 0, &made);
        made.layer = hr_arena_alloc(model->arena, (size_t)made.layers * sizeof *made.layer);
        made.layer[0] = first;
        for (int l = 1; l < made.layers && made.layer[l - 1]; l++)
            made.layer[l] = join(model, rule, l, &made);
        if (!first || !made.layer[made.layers - 1]) return;
        model->joined[i] = made;
    }
    model->joined_count = model->text.join_count;
}

/* ---- the whole ---- */

static hr_status place(placing *placing) {
    struct hr_model *model = placing->model;
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
    if (status == HR_OK) weights_join(model);
    return status;
}
