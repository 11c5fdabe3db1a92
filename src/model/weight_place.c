/* Weights of a model in the memory of a device that does not see the host's.
 *
 * In: weights in the mapped file. Out: the same in one piece of the device's memory, layer by layer, those of
 * a layer behind each other in the order of the family's text. Matrices in blocks are written out as numbers
 * of 16 bits by rows_FORMAT of models/weights.hr.
 */
#include "model/model.h"

#include "base/dtype.h"
#include "run/kernel.h"

#include <string.h>

enum { ALIGNMENT = 256, EXTENTS_MOST = 8 };
enum { EXPAND_ELEMENTS = 1 << 24 }; /* of the f32 that rows of blocks become first, about */

typedef struct placing {
    struct hr_model *model;
    const hr_block_format *numbers; /* of what was in blocks: f16 */
    size_t at;                      /* in the model's weight memory */
    void *blocks;                   /* of one weight, as in the file */
    size_t blocks_bytes;
    void *wide; /* rows of it in f32 */
    size_t wide_bytes;
} placing;

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static bool is_expanded(const hr_weight *weight) {
    return weight->format->values > 1 && weight->rank == 2;
}

static size_t placed_bytes(const placing *placing, const hr_weight *weight) {
    return is_expanded(weight)
               ? (size_t)(weight->shape[0] * weight->shape[1]) * (size_t)placing->numbers->bytes
               : weight->bytes;
}

/* Of a weight that is written out at once. */
static int64_t rows_at_once(const hr_weight *weight) {
    const int64_t rows = EXPAND_ELEMENTS / weight->shape[1];
    return rows < 1 ? 1 : rows < weight->shape[0] ? rows : weight->shape[0];
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
    placing->model->weight_bytes += aligned(placed_bytes(placing, weight));
    if (!is_expanded(weight)) return HR_OK;
    const size_t wide = (size_t)(rows_at_once(weight) * weight->shape[1]) * sizeof(float);
    if (weight->bytes > placing->blocks_bytes) placing->blocks_bytes = weight->bytes;
    if (wide > placing->wide_bytes) placing->wide_bytes = wide;
    return HR_OK;
}

/* ---- blocks ---- */

/* N rows of a matrix of V rows of G blocks each. */
static hr_status expand_extents(const hr_kernel *kernel, const hr_weight *weight, int64_t rows,
                                int64_t *out) {
    const int count = hr_kernel_extent_count(kernel);
    for (int i = 0; i < count; i++) {
        const char *name = hr_kernel_extent_name(kernel, i);
        if (i == EXTENTS_MOST || !strchr("NVG", *name) || name[1])
            return hr_fail(HR_INTERNAL, "a kernel that reads %s has another extent than N, V and G: %s",
                           weight->format->name, name);
        out[i] = *name == 'N'   ? rows
                 : *name == 'V' ? weight->shape[0]
                                : weight->shape[1] / weight->format->values;
    }
    return HR_OK;
}

/* rows_FORMAT of `rows` rows from `first` on, into `wide`. */
static hr_status rows_widen(const placing *placing, const hr_weight *blocks, hr_kernel *kernel, int64_t first,
                            int64_t rows) {
    const int views = blocks->format->view_count;
    int64_t extents[EXTENTS_MOST], result[HR_SEQUENCE_RANK];
    hr_weight_view view[HR_BLOCK_VIEWS_MOST];
    hr_array arrays[2 + HR_BLOCK_VIEWS_MOST];
    hr_argument argument;
    HR_TRY(expand_extents(kernel, blocks, rows, extents));
    arrays[0] = (hr_array){.size = sizeof(hr_array),
                           .data = placing->model->rows.device + first * (int64_t)sizeof(int32_t),
                           .dtype = HR_I32,
                           .rank = 1,
                           .shape = &rows};
    for (int i = 0; i < views; i++) {
        hr_weight_view_make(blocks, i, &view[i]);
        arrays[1 + i] = view[i].array;
    }
    HR_TRY(hr_kernel_argument(kernel, 1 + views, &argument));
    HR_TRY(hr_argument_sizes(kernel, 1 + views, extents, result));
    arrays[1 + views] = (hr_array){.size = sizeof(hr_array),
                                   .data = placing->wide,
                                   .dtype = argument.dtype,
                                   .rank = argument.rank,
                                   .shape = result};
    return hr_kernel_execute(kernel, arrays, 2 + views, NULL);
}

static hr_status rows_halve(const placing *placing, hr_kernel *kernel, int64_t elements, void *to) {
    const hr_array arrays[] = {
        {.size = sizeof(hr_array), .data = placing->wide, .dtype = HR_F32, .rank = 1, .shape = &elements},
        {.size = sizeof(hr_array), .data = to, .dtype = HR_F16, .rank = 1, .shape = &elements}};
    return hr_kernel_execute(kernel, arrays, 2, NULL);
}

static hr_status weight_expand(const placing *placing, const hr_weight *weight, unsigned char *to) {
    const hr_model_kernel *rows, *halve;
    hr_weight blocks = *weight;
    HR_TRY(hr_model_kernel_of(placing->model, "rows", weight->format->name, &rows));
    HR_TRY(hr_model_kernel_find(placing->model, "halve", &halve));
    if (!rows || !halve)
        return hr_fail(HR_INTERNAL, "no kernel reads weights that are stored as %s", weight->format->name);
    HR_TRY(hr_device_upload(placing->model->device, placing->blocks, weight->data, weight->bytes));
    blocks.data = placing->blocks;
    const int64_t at_once = rows_at_once(weight), width = weight->shape[1];
    for (int64_t first = 0; first < weight->shape[0]; first += at_once) {
        const int64_t left = weight->shape[0] - first, count = left < at_once ? left : at_once;
        HR_TRY(rows_widen(placing, &blocks, rows->kernel, first, count));
        HR_TRY(rows_halve(placing, halve->kernel, count * width,
                          to + (size_t)(first * width) * (size_t)placing->numbers->bytes));
    }
    return HR_OK;
}

static hr_status weight_send(placing *placing, hr_weight *weight) {
    const size_t bytes = placed_bytes(placing, weight);
    unsigned char *to = (unsigned char *)placing->model->weight_memory + placing->at;
    placing->at += aligned(bytes);
    if (is_expanded(weight)) {
        HR_TRY(weight_expand(placing, weight, to));
        weight->format = placing->numbers;
    } else
        HR_TRY(hr_device_upload(placing->model->device, to, weight->data, weight->bytes));
    weight->data = to;
    weight->bytes = bytes;
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
        if (!of || layer >= of->layers) return NULL;
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
    model->has_joined = true;
}

/* ---- the whole ---- */

static hr_status place(placing *placing) {
    struct hr_model *model = placing->model;
    HR_TRY(each_weight(placing, weight_count));
    HR_TRY(hr_device_allocate(model->device, model->weight_bytes, &model->weight_memory));
    if (placing->blocks_bytes) {
        HR_TRY(hr_device_allocate(model->device, placing->blocks_bytes, &placing->blocks));
        HR_TRY(hr_device_allocate(model->device, placing->wide_bytes, &placing->wide));
    }
    HR_TRY(each_weight(placing, weight_send));
    return hr_device_synchronise(model->device);
}

hr_status hr_model_weights_place(struct hr_model *model) {
    placing placing = {.model = model, .numbers = hr_block_format_named("f16")};
    if (hr_device_memory_is_host(model->device)) return HR_OK;
    const hr_status status = place(&placing);
    if (placing.blocks) hr_device_release(model->device, placing.blocks, placing.blocks_bytes);
    if (placing.wide) hr_device_release(model->device, placing.wide, placing.wide_bytes);
    if (status == HR_OK) weights_join(model);
    return status;
}
