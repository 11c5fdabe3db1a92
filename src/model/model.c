/* Opening a model: the file, the family that it is of, weights by rule and layer, caches.
 *
 * In: a path, a device. Out: a model that can be fed. Nothing of a file is believed: shapes must be those
 * that the family's text says, and no tensor may be left over, which would be another model's.
 */
#include "model/choose_tokens.h"

#include "base/dtype.h"
#include "base/memory.h"
#include "model/family_text.h"
#include "run/kernel.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_SIZE    ((size_t)256 << 20) /* of address space */
#define EXTENT_MOST   ((int64_t)1 << 40)
#define LETTERS       52                           /* that name an extent which a weight's shape says */
#define STEP_NAMES    (3 + 2 * HR_STATEMENTS_MOST) /* T, A, P, an index a loop */
#define CONSTANT_MOST ((int64_t)1 << 16)           /* elements of a weight that a file leaves out */
#define TEXT_MOST     ((size_t)4 << 20)

static hr_status wrong(const struct hr_model *model, int line, const char *name, const char *what) {
    return hr_fail(HR_BAD_INPUT, "%s: %s (%s:%d) %s", model->file->path, name, model->text.path, line, what);
}

/* ---- the family ---- */

typedef struct family {
    const char *path;
    const unsigned char *text;
} family;

static const family families[] = {{"models/llama.hr", hr_llama_text},
                                  {"models/qwen2.hr", hr_qwen2_text},
                                  {"models/qwen3.hr", hr_qwen3_text},
                                  {"models/gemma3.hr", hr_gemma3_text},
                                  {"models/gpt2.hr", hr_gpt2_text}};
#define FAMILIES (sizeof families / sizeof *families)

static bool is_listed(const char *const *names, hr_bytes name) {
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == name.length && memcmp(names[i], name.at, name.length) == 0) return true;
    return false;
}

static hr_bytes architecture_of(const hr_weight_file *file) {
    hr_bytes name = {"", 0};
    hr_file_string(file, file->kind == HR_WEIGHTS_GGUF ? "general.architecture" : "architectures", &name);
    return name;
}

static hr_status family_read(struct hr_model *model, const char *path, const char *text, size_t length) {
    model->family_text = text;
    model->family_length = length;
    return hr_model_text_read(path, text, length, model->arena, &model->text);
}

static hr_status family_find(struct hr_model *model) {
    hr_bytes name = architecture_of(model->file);
    for (size_t i = 0; i < FAMILIES; i++) {
        const char *text = (const char *)families[i].text;
        HR_TRY(family_read(model, families[i].path, text, strlen(text)));
        const char *const *names =
            model->file->kind == HR_WEIGHTS_GGUF ? model->text.gguf : model->text.safetensors;
        if (is_listed(names, name)) return HR_OK;
    }
    return hr_fail(HR_BAD_INPUT,
                   "%s: is of the architecture \"%.*s\", which no text in models/ has; give one of your own",
                   model->file->path, (int)name.length, name.at);
}

static hr_status family_load(struct hr_model *model, const char *path) {
    hr_mapping mapping;
    HR_TRY(hr_mapping_open(path, &mapping));
    const char *text =
        mapping.length <= TEXT_MOST ? hr_arena_copy(model->arena, mapping.data, mapping.length) : NULL;
    size_t length = mapping.length;
    hr_mapping_close(&mapping);
    if (!text) return hr_fail(HR_BAD_INPUT, "%s: is too long for a text of kernels", path);
    return family_read(model, hr_arena_copy(model->arena, path, strlen(path)), text, length);
}

static bool is_string(hr_bytes text, const char *word) {
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

/* KEY, or KEY:VALUE, where that value is known. */
static hr_status refused_check(const struct hr_model *model) {
    for (int i = 0; model->text.refused[i]; i++) {
        const char *colon = strchr(model->text.refused[i], ':'), *known = colon ? colon + 1 : "none",
                   *key = colon ? hr_arena_copy(model->arena, model->text.refused[i],
                                                (size_t)(colon - model->text.refused[i]))
                                : model->text.refused[i];
        double number = 0;
        hr_bytes text;
        bool given = hr_file_number(model->file, key, &number) && number != 0;
        if (hr_file_string(model->file, key, &text))
            given |= !is_string(text, "none") && !is_string(text, "default") && !is_string(text, known);
        if (given)
            return hr_fail(HR_BAD_INPUT, "%s: has %s, which %s does not know", model->file->path, key,
                           model->text.path);
    }
    return HR_OK;
}

/* ---- numbers ---- */

/* KEY, or KEY:WORD, of which the file has an array: one a layer. */
static bool layer_number(const struct hr_model *model, const char *text, int64_t layer, double *out) {
    const char *colon = strchr(text, ':');
    const char *key = colon ? hr_arena_copy(model->arena, text, (size_t)(colon - text)) : text;
    return hr_file_number_of(model->file, key, colon ? colon + 1 : NULL, layer, out);
}

/* The first choice that the file knows, or that is arithmetic over what is known. */
static bool number_choose(const struct hr_model *model, const hr_choices *choices, int64_t layer,
                          double *out) {
    for (int i = 0; i < choices->count; i++) {
        const char *text = choices->texts[i];
        hr_step_size size;
        char *end;
        if (layer >= 0 && layer_number(model, text, layer, out)) return true;
        if (hr_file_number(model->file, text, out)) return true;
        *out = strtod(text, &end);
        if (end != text && !*end) return true;
        if (hr_extents_evaluate(&model->extents, text, &size) == HR_OK) {
            *out = (double)size.fixed;
            return true;
        }
    }
    return false;
}

static hr_status layers_count(const struct hr_model *model, const char *name, const char *text, int line,
                              int64_t *out) {
    hr_step_size layers = {1, 0};
    if (text) HR_TRY(hr_extents_evaluate(&model->extents, text, &layers));
    if (layers.fixed < 1 || layers.fixed > HR_MODEL_LAYERS_MOST || layers.scaled)
        return wrong(model, line, name, "has more layers than a model");
    *out = layers.fixed;
    return HR_OK;
}

/* Of each layer, which arithmetic calls l. */
static hr_status number_find(struct hr_model *model, const hr_number_rule *rule, hr_model_number *out) {
    hr_named_extent *index = &model->extents.items[model->extents.count];
    int64_t layers;
    HR_TRY(layers_count(model, rule->name, rule->layers, rule->line, &layers));
    *out = (hr_model_number){.name = rule->name, .layers = rule->layers ? layers : 0};
    out->values = hr_arena_alloc(model->arena, (size_t)layers * sizeof *out->values);
    if (rule->layers) model->extents.count++;
    for (int64_t l = 0; l < layers; l++) {
        if (rule->layers) *index = (hr_named_extent){"l", {l, 0}, true};
        if (!number_choose(model, &rule->choices, rule->layers ? l : -1, &out->values[l]))
            return wrong(model, rule->line, rule->name, "is nowhere in the file");
    }
    if (rule->layers) model->extents.count--;
    return HR_OK;
}

static hr_status numbers_find(struct hr_model *model) {
    const hr_model_text *text = &model->text;
    model->extents.items = hr_arena_alloc(model->arena, (size_t)(text->number_count + LETTERS + STEP_NAMES) *
                                                            sizeof *model->extents.items);
    for (int i = 0; i < text->number_count; i++) {
        const hr_number_rule *rule = &text->numbers[i];
        double value;
        if (!rule->is_extent) {
            HR_TRY(number_find(model, rule, &model->numbers[i]));
            continue;
        }
        if (!number_choose(model, &rule->choices, -1, &value))
            return wrong(model, rule->line, rule->name, "is nowhere in the file");
        if (!(value >= 1 && value <= EXTENT_MOST) || value != (double)(int64_t)value)
            return wrong(model, rule->line, rule->name, "is no whole number that a model can have");
        model->extents.items[model->extents.count++] =
            (hr_named_extent){rule->name, {(int64_t)value, 0}, true};
    }
    return HR_OK;
}

/* ---- weights ---- */

/* blk.{l}.attn_q.weight of a layer. */
static void layer_name(const char *pattern, int64_t layer, char *out, size_t size) {
    const char *open = strchr(pattern, '{'), *close = open ? strchr(open, '}') : NULL;
    if (close)
        snprintf(out, size, "%.*s%" PRId64 "%s", (int)(open - pattern), pattern, layer, close + 1);
    else
        snprintf(out, size, "%s", pattern);
}

/* NAME, or with one of the prefixes before it. */
static hr_weight *weight_find(const struct hr_model *model, const char *name) {
    char whole[640];
    hr_weight *found = hr_weight_find(model->file, name);
    for (int i = 0; model->text.prefixes[i] && !found; i++) {
        snprintf(whole, sizeof whole, "%s%s", model->text.prefixes[i], name);
        found = hr_weight_find(model->file, whole);
    }
    return found;
}

/* The first of the choices that the file, or a rule before, has: NAME, or transposed NAME. *out NULL: none.
 */
static hr_status weight_choose(const struct hr_model *model, const hr_tensor_rule *rule, int64_t layer,
                               hr_weight **out) {
    static const char transposed[] = "transposed ";
    char name[512];
    *out = NULL;
    for (int i = 0; i < rule->choices.count && !*out; i++) {
        const char *text = rule->choices.texts[i];
        const bool turns = strncmp(text, transposed, strlen(transposed)) == 0;
        layer_name(turns ? text + strlen(transposed) : text, layer, name, sizeof name);
        *out = weight_find(model, name);
        if (*out && turns) HR_TRY(hr_weight_transpose(model->file, *out));
        for (int other = 0; other < model->text.weight_count && !*out; other++) /* tied to another rule's */
            if (model->weights[other].name && strcmp(model->weights[other].name, name) == 0)
                *out = model->weights[other].layer[0];
    }
    return HR_OK;
}

/* A weight that a file may leave out, all of whose elements are a number then; *out NULL: the rule names
 * none.
 */
static hr_status weight_constant(struct hr_model *model, const hr_tensor_rule *rule, hr_weight **out) {
    const char *text = rule->choices.texts[rule->choices.count - 1];
    char *end;
    const double value = strtod(text, &end);
    int64_t elements = 1;
    *out = NULL;
    if (end == text || *end) return HR_OK;
    hr_weight *made = hr_arena_alloc(model->arena, sizeof *made);
    *made = (hr_weight){.name = rule->name, .format = hr_block_format_named("f32"), .rank = rule->rank};
    for (int axis = 0; axis < rule->rank; axis++) {
        hr_step_size size;
        HR_TRY(hr_extents_evaluate(&model->extents, rule->axes[axis], &size));
        if (size.fixed < 1 || size.fixed > CONSTANT_MOST / elements)
            return wrong(model, rule->line, rule->name, "is larger than any memory");
        made->shape[axis] = size.fixed;
        elements *= size.fixed;
    }
    float *numbers = hr_arena_alloc(model->arena, (size_t)elements * sizeof *numbers);
    for (int64_t i = 0; i < elements; i++)
        numbers[i] = (float)value;
    made->data = (const unsigned char *)numbers;
    made->bytes = (size_t)elements * sizeof *numbers;
    *out = made;
    return HR_OK;
}

/* An extent that nothing has said yet is what the first weight with it has. */
static hr_status weight_shape_check(struct hr_model *model, const hr_tensor_rule *rule,
                                    const hr_weight *weight) {
    if (weight->rank != rule->rank)
        return hr_fail(HR_BAD_INPUT, "%s: tensor %s has %d axes; %s (%s:%d) has %d", model->file->path,
                       weight->name, weight->rank, rule->name, model->text.path, rule->line, rule->rank);
    for (int axis = 0; axis < rule->rank; axis++) {
        hr_step_size wanted;
        bool letter = isalpha((unsigned char)*rule->axes[axis]) && !rule->axes[axis][1] &&
                      hr_extents_find(&model->extents, rule->axes[axis]) < 0;
        if (letter && weight->shape[axis] < 1)
            return hr_fail(HR_BAD_INPUT, "%s: tensor %s has no elements along axis %d (%s:%d)",
                           model->file->path, weight->name, axis, model->text.path, rule->line);
        if (letter)
            model->extents.items[model->extents.count++] =
                (hr_named_extent){rule->axes[axis], {weight->shape[axis], 0}, true};
        HR_TRY(hr_extents_evaluate(&model->extents, rule->axes[axis], &wanted));
        if (wanted.fixed != weight->shape[axis])
            return hr_fail(HR_BAD_INPUT,
                           "%s: tensor %s has %" PRId64 " elements along axis %d; %s = %" PRId64
                           " (%s:%d) are needed",
                           model->file->path, weight->name, weight->shape[axis], axis, rule->axes[axis],
                           wanted.fixed, model->text.path, rule->line);
    }
    return HR_OK;
}

/* Whether a name is that of a pattern, whose {l} is any number. */
static bool is_named(const char *pattern, const char *name) {
    const char *open = strchr(pattern, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!close) return strcmp(pattern, name) == 0;
    const size_t before = (size_t)(open - pattern);
    const char *digits = name + before;
    if (strncmp(pattern, name, before) != 0) return false;
    const size_t count = strspn(digits, "0123456789");
    return count > 0 && strcmp(close + 1, digits + count) == 0;
}

/* What may be left over. */
static bool is_ignored(const struct hr_model *model, const char *name) {
    for (int p = -1; p < 0 || model->text.prefixes[p]; p++) {
        const char *prefix = p < 0 ? "" : model->text.prefixes[p];
        for (int i = 0; model->text.ignored[i]; i++)
            if (strncmp(name, prefix, strlen(prefix)) == 0 &&
                is_named(model->text.ignored[i], name + strlen(prefix)))
                return true;
    }
    return false;
}

static hr_status weights_find(struct hr_model *model, bool *used) {
    for (int i = 0; i < model->text.weight_count; i++) {
        const hr_tensor_rule *rule = &model->text.weights[i];
        int64_t layers;
        HR_TRY(layers_count(model, rule->name, rule->layers, rule->line, &layers));
        hr_weight **layer = hr_arena_alloc(model->arena, (size_t)layers * sizeof *layer);
        for (int64_t l = 0; l < layers; l++) {
            HR_TRY(weight_choose(model, rule, l, &layer[l]));
            if (!layer[l]) {
                HR_TRY(weight_constant(model, rule, &layer[l]));
                if (layer[l]) continue;
            }
            if (!layer[l])
                return hr_fail(HR_BAD_INPUT, "%s: has no tensor for %s of layer %" PRId64 " (%s:%d)",
                               model->file->path, rule->name, l, model->text.path, rule->line);
            HR_TRY(weight_shape_check(model, rule, layer[l]));
            used[layer[l] - model->file->weights] = true;
        }
        model->weights[i] = (hr_model_weight){rule->name, (int)layers, rule->layers != NULL, layer};
    }
    for (int64_t i = 0; i < model->file->weight_count; i++)
        if (!used[i] && !is_ignored(model, model->file->weights[i].name))
            return hr_fail(HR_BAD_INPUT, "%s: tensor %s has no place in %s: the file is of another model",
                           model->file->path, model->file->weights[i].name, model->text.path);
    return HR_OK;
}

/* ---- memory ---- */

/* They begin as zeros: kernels read tokens in groups, those past the context, too. A value of these that is
 * not finite would have a row made again in another way, so that its last bits depend on what the memory
 * held.
 */
static hr_status caches_take(struct hr_model *model) {
    model->cache_dtype = hr_device_memory_is_host(model->device) ? HR_F32 : HR_F16;
    for (int i = 0; i < model->text.cache_count; i++) {
        const hr_tensor_rule *rule = &model->text.caches[i];
        hr_model_cache *cache = &model->caches[i];
        int64_t layers, elements;
        HR_TRY(layers_count(model, rule->name, rule->layers, rule->line, &layers));
        *cache =
            (hr_model_cache){.name = rule->name, .layers = rule->layers ? layers : 0, .rank = rule->rank};
        elements = layers;
        for (int axis = 0; axis < rule->rank; axis++) {
            hr_step_size size;
            HR_TRY(hr_extents_evaluate(&model->extents, rule->axes[axis], &size));
            cache->shape[axis] = size.fixed;
            if (size.fixed < 1 || __builtin_mul_overflow(elements, size.fixed, &elements) ||
                elements > EXTENT_MOST)
                return wrong(model, rule->line, rule->name, "would be larger than memory");
        }
        cache->size = (size_t)elements * hr_dtype_size(model->cache_dtype);
        HR_TRY(hr_model_zeros_take(model->device, cache->size, &cache->data));
    }
    return HR_OK;
}

/* The numbers 0, 1, 2, ... up to the rows of the largest matrix. */
static hr_status rows_take(struct hr_model *model) {
    int64_t most = 1;
    for (int64_t i = 0; i < model->file->weight_count; i++)
        if (model->file->weights[i].rank == 2 && model->file->weights[i].shape[0] > most)
            most = model->file->weights[i].shape[0];
    if (most > INT32_MAX)
        return hr_fail(HR_BAD_INPUT, "%s: has a matrix of more rows than a model", model->file->path);
    HR_TRY(hr_model_memory_take(model->device, (size_t)most * sizeof(int32_t), &model->rows));
    int32_t *rows = (int32_t *)(void *)model->rows.host;
    for (int64_t i = 0; i < most; i++)
        rows[i] = (int32_t)i;
    return hr_model_memory_send(model->device, &model->rows, rows, (size_t)most * sizeof *rows);
}

static hr_status memory_take(struct hr_model *model) {
    const size_t row = (size_t)model->vocabulary * sizeof(float);
    model->fed = hr_memory_zeros((size_t)model->context, sizeof *model->fed);
    if (!model->fed)
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for a context of %" PRId64 " tokens", model->context);
    HR_TRY(caches_take(model));
    HR_TRY(rows_take(model));
    HR_TRY(hr_model_memory_take(model->device, (size_t)2 * HR_MODEL_CHUNK * sizeof(int32_t), &model->tokens));
    HR_TRY(hr_model_memory_take(model->device, row + sizeof(int64_t), &model->drawn));
    return hr_model_memory_take(model->device, row * HR_MODEL_ANSWERS, &model->logits);
}

/* ---- the whole ---- */

static hr_status context_find(struct hr_model *model, int64_t wanted) {
    int found = hr_extents_find(&model->extents, "S"), tokens = hr_extents_find(&model->extents, "V");
    if (found < 0 || tokens < 0)
        return hr_fail(HR_BAD_INPUT, "%s: a model has an extent S, its context, and V, its vocabulary",
                       model->text.path);
    int64_t taught = model->extents.items[found].value.fixed;
    if (wanted > taught)
        return hr_fail(HR_BAD_INPUT, "%s: its context has %" PRId64 " tokens, and %" PRId64 " are wanted",
                       model->file->path, taught, wanted);
    model->context = wanted > 0 ? wanted : taught;
    model->extents.items[found].value.fixed = model->context;
    model->vocabulary = model->extents.items[tokens].value.fixed;
    if (model->tokenizer && hr_tokenizer_size(model->tokenizer) > model->vocabulary)
        return hr_fail(HR_BAD_INPUT, "%s: its tokenizer has %d tokens, and its embedding %" PRId64,
                       model->file->path, hr_tokenizer_size(model->tokenizer), model->vocabulary);
    return HR_OK;
}

/* Cut to whole characters; what would drive a terminal becomes a space. */
static void name_read(struct hr_model *model) {
    hr_bytes name = {"", 0};
    if (model->file->kind != HR_WEIGHTS_GGUF || !hr_file_string(model->file, "general.name", &name)) return;
    size_t length = name.length < sizeof model->name ? name.length : sizeof model->name - 1;
    while (length > 0 && length < name.length && ((unsigned char)name.at[length] & 0xc0) == 0x80)
        length--;
    for (size_t i = 0; i < length; i++)
        model->name[i] = iscntrl((unsigned char)name.at[i]) ? ' ' : name.at[i];
}

static hr_status model_read(struct hr_model *model, const char *path, const hr_model_options *options) {
    HR_TRY(hr_arena_create(ARENA_SIZE, &model->arena));
    HR_TRY(hr_weight_file_open(path, &model->file));
    name_read(model);
    HR_TRY(options->text_path ? family_load(model, options->text_path) : family_find(model));
    HR_TRY(refused_check(model));
    HR_TRY(numbers_find(model));
    bool *used = hr_memory_zeros((size_t)model->file->weight_count + 1, sizeof *used);
    if (!used) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a model");
    hr_status status = weights_find(model, used);
    free(used);
    HR_TRY(status);
    if (model->file->kind == HR_WEIGHTS_GGUF || hr_file_value_find(model->file, "tokenizer.ggml.tokens"))
        HR_TRY(hr_tokenizer_create(model->file, &model->tokenizer));
    HR_TRY(context_find(model, options->context));
    HR_TRY(memory_take(model));
    HR_TRY(hr_model_weights_place(model));
    model->threads = options->threads;
    return hr_device_memory_is_host(model->device) ? hr_sampling_load(model, "sample", &model->sampler)
                                                   : hr_choices_load(model);
}

hr_status hr_model_open(hr_device *device, const char *path, const hr_model_options *options,
                        hr_model **out) {
    static const hr_model_options defaults = {.size = sizeof defaults};
    HR_TRY(hr_handle_check(device, HR_HANDLE_DEVICE, __func__));
    HR_TRY(hr_pointer_check(path, "path", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    if (!options) options = &defaults;
    if (options->size < sizeof *options)
        return hr_fail(HR_BAD_INPUT, "the options of a model do not say their size");
    HR_TRY(hr_threads_check(device, options->threads));
    struct hr_model *model = hr_memory_zeros(1, sizeof *model);
    if (!model) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a model");
    model->handle.kind = HR_HANDLE_MODEL;
    model->device = device;
    hr_status status = model_read(model, path, options);
    if (status == HR_OK)
        *out = model;
    else
        hr_model_destroy(model);
    return status;
}

void hr_model_destroy(hr_model *model) {
    if (!model || hr_handle_check(model, HR_HANDLE_MODEL, __func__) != HR_OK) return;
    for (int i = 0; i < model->step_count; i++)
        hr_sequence_destroy(model->steps[i].sequence);
    for (int i = 0; i < model->kernel_count; i++)
        hr_kernel_destroy(model->kernels[i].kernel);
    hr_kernel_destroy(model->sampler);
    hr_choices_release(model);
    for (int i = 0; i < model->text.cache_count; i++)
        if (model->caches[i].data)
            hr_device_release(model->device, model->caches[i].data, model->caches[i].size);
    hr_model_packed_release(model);
    hr_model_pages_release(model);
    hr_model_memory_release(model->device, &model->rows);
    hr_model_memory_release(model->device, &model->tokens);
    hr_model_memory_release(model->device, &model->drawn);
    hr_model_memory_release(model->device, &model->logits);
    if (model->weight_memory) hr_device_release(model->device, model->weight_memory, model->weight_bytes);
    free(model->fed);
    hr_tokenizer_destroy(model->tokenizer);
    hr_weight_file_close(model->file);
    hr_arena_destroy(model->arena);
    hr_handle_free(model);
}

hr_status hr_model_info_get(const hr_model *model, hr_model_info *out) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_model_info info = {.family = model->text.name,
                          .name = model->name,
                          .vocabulary = model->vocabulary,
                          .context = model->context,
                          .past = model->past};
    int layers = hr_extents_find(&model->extents, "L");
    if (layers >= 0) info.layers = model->extents.items[layers].value.fixed;
    for (int64_t i = 0; i < model->file->weight_count; i++)
        info.weight_bytes += (double)model->file->weights[i].bytes;
    for (int64_t i = 0; model->packed && i < model->file->weight_count + model->joined_weight_count; i++)
        info.weight_bytes += (double)model->packed[i].bytes;
    for (int i = 0; i < model->text.cache_count; i++)
        info.cache_bytes += (double)model->caches[i].size;
    for (int i = 0; i < model->step_count; i++) {
        double bytes = (double)hr_sequence_memory(model->steps[i].sequence);
        if (bytes > info.step_bytes) info.step_bytes = bytes;
    }
    *out = info;
    return HR_OK;
}
