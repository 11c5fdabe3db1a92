/* Weights of a model in the memory of a device that does not see the host's.
 *
 * In: weights in the mapped file. Out: the same bytes in one piece of the device's memory. Those of a layer
 * lie behind each other in the order of the family's text.
 */
#include "model/model.h"

enum { ALIGNMENT = 256 };

static size_t aligned(size_t bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

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

/* Calls `visit` for each weight once, layer by layer. */
static hr_status each_weight(struct hr_model *model,
                             hr_status (*visit)(struct hr_model *model, hr_weight *weight, size_t *at),
                             size_t *at) {
    const int layers = layers_most(model);
    for (int l = 0; l < layers; l++)
        for (int i = 0; i < model->text.weight_count; i++) {
            if (l >= model->weights[i].layers || is_tied(model, i, l)) continue;
            HR_TRY(visit(model, model->weights[i].layer[l], at));
        }
    return HR_OK;
}

static hr_status weight_count(struct hr_model *model, hr_weight *weight, size_t *at) {
    (void)model;
    *at += aligned(weight->bytes);
    return HR_OK;
}

static hr_status weight_send(struct hr_model *model, hr_weight *weight, size_t *at) {
    unsigned char *to = (unsigned char *)model->weight_memory + *at;
    HR_TRY(hr_device_upload(model->device, to, weight->data, weight->bytes));
    weight->data = to;
    *at += aligned(weight->bytes);
    return HR_OK;
}

hr_status hr_model_weights_place(struct hr_model *model) {
    size_t at = 0;
    if (hr_device_memory_is_host(model->device)) return HR_OK;
    HR_TRY(each_weight(model, weight_count, &model->weight_bytes));
    HR_TRY(hr_device_allocate(model->device, model->weight_bytes, &model->weight_memory));
    return each_weight(model, weight_send, &at);
}
