/* The kernels that a model's step calls: those of its family's text, then those that all
 * families share.
 *
 * In: names. Out: kernels, each loaded once.
 */
#include "model/family_text.h"
#include "model/model.h"

#include <string.h>

/* Whether a line of the text begins `kernel NAME(`. */
static bool has_kernel(const char *text, const char *name) {
    static const char word[] = "kernel ";
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, word)); at += strlen(word)) {
        const char *found = at + strlen(word);
        if ((at == text || at[-1] == '\n') && strncmp(found, name, length) == 0 && found[length] == '(')
            return true;
    }
    return false;
}

/* Texts that all families share. Of `of_family` extents are the model's by name. */
typedef struct shared_text {
    const char *path;
    const unsigned char *text;
    bool of_family;
} shared_text;

static const shared_text shared[] = {
    {"models/layers.hr", hr_layers_text, true},  {"models/weights.hr", hr_weights_text, false},
    {"models/packed.hr", hr_packed_text, false}, {"models/blocks.hr", hr_blocks_text, false},
    {"models/paged.hr", hr_paged_text, true},    {"models/cached.hr", hr_cached_text, true},
    {"models/alone.hr", hr_alone_text, true},    {"models/together.hr", hr_together_text, true}};

static hr_status kernel_load(struct hr_model *model, hr_model_kernel *out) {
    if (has_kernel(model->family_text, out->name)) {
        out->of_family = true;
        return hr_kernel_load(model->device, model->text.path, model->family_text, model->family_length,
                              out->name, &out->kernel);
    }
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const char *text = (const char *)shared[i].text;
        if (!has_kernel(text, out->name)) continue;
        out->of_family = shared[i].of_family;
        return hr_kernel_load(model->device, shared[i].path, text, strlen(text), out->name, &out->kernel);
    }
    return HR_OK;
}

hr_status hr_model_kernel_find(struct hr_model *model, const char *name, const hr_model_kernel **out) {
    int i = 0;
    while (i < model->kernel_count && strcmp(model->kernels[i].name, name) != 0)
        i++;
    if (i == model->kernel_count) {
        if (strlen(name) >= sizeof model->kernels[0].name)
            return hr_fail(HR_BAD_INPUT, "%s: the name of kernel %.40s... is too long", model->text.path,
                           name);
        if (i == HR_MODEL_KERNELS_MOST)
            return hr_fail(HR_BAD_INPUT, "%s: calls more kernels than a model has", model->text.path);
        hr_model_kernel added = {.kernel = NULL};
        strcpy(added.name, name);
        HR_TRY(kernel_load(model, &added));
        model->kernels[model->kernel_count++] = added;
    }
    *out = model->kernels[i].kernel ? &model->kernels[i] : NULL;
    return HR_OK;
}

hr_status hr_model_kernel_of(struct hr_model *model, const char *name, const char *suffix,
                             const hr_model_kernel **out) {
    char whole[128];
    snprintf(whole, sizeof whole, "%s_%s", name, suffix);
    return hr_model_kernel_find(model, whole, out);
}

hr_status hr_sampling_load(const struct hr_model *model, const char *name, hr_kernel **out) {
    const char *text = (const char *)hr_sampling_text;
    return hr_kernel_load(model->device, "models/sampling.hr", text, strlen(text), name, out);
}
