/* Tokens from rows of logits, where these lie in the memory of a device of its own.
 *
 * In: rows of the last step's logits, how each one's token is chosen. Out: tokens and their probabilities,
 * which is all that comes to the host. The kernels are those of models/sampling.hr: what is left out is found
 * between two bounds, which some launches bring nearer to each other until nothing is between them.
 */
#include "model/choose_tokens.h"

#include "base/memory.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Places between bounds that a launch tries, of all rows together; and of a row at least. Bounds have to tell
 * 2^SPACE_BITS places apart: numbers of f32 are about 2^32. */
enum { BETWEEN_ALL = 128, BETWEEN_LEAST = 8, SPACE_BITS = 36 };
enum { SHORTLIST = 64 };  /* tokens of which the few that a row asks for are found */
enum { PARTS_MOST = 64 }; /* of a row, each of which has its best token found by a task of its own */
/* log1p(2^149 * x) of what is beyond all numbers of f32 */
#define BOUND_MOST 193.0

/* What kernels are given of each row, at the same places in both memories; `token` and what follows comes
 * back. */
typedef struct choice_table {
    double top_p[HR_BATCH_MOST], min_p[HR_BATCH_MOST], share[HR_BATCH_MOST];
    double low[3][HR_BATCH_MOST], high[3][HR_BATCH_MOST]; /* as they begin, then in turns */
    int64_t top_k[HR_BATCH_MOST], seed[HR_BATCH_MOST], position[HR_BATCH_MOST];
    float temperature[HR_BATCH_MOST], most[HR_BATCH_MOST], floor[HR_BATCH_MOST];
    int64_t token[HR_BATCH_MOST];
    double log_probability[HR_BATCH_MOST];
    double larger[HR_BATCH_MOST * BETWEEN_LEAST]; /* from here on: on the device alone */
    int64_t tokens[HR_BATCH_MOST * PARTS_MOST];
    double part[HR_BATCH_MOST * PARTS_MOST];
    float value[HR_BATCH_MOST * SHORTLIST];
    int32_t place[HR_BATCH_MOST * SHORTLIST];
} choice_table;

_Static_assert(BETWEEN_ALL <= HR_BATCH_MOST * BETWEEN_LEAST, "places between bounds have no room");

typedef struct choosing {
    struct hr_model *model;
    choice_table *table; /* the host's */
    int64_t rows;
    void *logits; /* the device's */
} choosing;

/* ---- launches ---- */

/* Of a kernel: a column of the table, or, where there are columns, memory of the device. */
typedef struct argument {
    hr_dtype dtype;
    void *data;
    int64_t columns, parts; /* parts: that the columns are seen in; 0 = none */
} argument;

enum { ARGUMENTS_MOST = 11 };

static argument logits_of(const choosing *choosing) {
    return (argument){HR_F32, choosing->logits, choosing->model->vocabulary, 0};
}

static argument parts_of(const choosing *choosing) {
    return (argument){HR_F64, choosing->model->choices.parts, choosing->model->vocabulary, 0};
}

static hr_status launch(const choosing *choosing, hr_choice_kernel which, const argument *arguments,
                        int count) {
    const hr_model_choices *choices = &choosing->model->choices;
    hr_array arrays[ARGUMENTS_MOST];
    int64_t shapes[ARGUMENTS_MOST][3];
    for (int i = 0; i < count; i++) {
        const argument *given = &arguments[i];
        shapes[i][0] = choosing->rows;
        shapes[i][1] = given->parts ? given->parts : given->columns;
        shapes[i][2] = given->parts ? given->columns / given->parts : 1;
        arrays[i] = (hr_array){.size = sizeof(hr_array),
                               .data = given->columns ? given->data
                                                      : hr_model_memory_at(&choices->table, given->data),
                               .dtype = given->dtype,
                               .rank = given->parts     ? 3
                                       : given->columns ? 2
                                                        : 1,
                               .shape = shapes[i]};
    }
    return hr_kernel_execute(choices->kernels[which], arrays, count, NULL);
}

/* ---- what is left out ---- */

/* Raises the floors to where a kernel says that nothing more is to be left out. `by`: what it takes between
 * logits and bounds. */
static hr_status floors_raise(const choosing *choosing, hr_choice_kernel narrow, const argument *by,
                              int count) {
    choice_table *table = choosing->table;
    int64_t between = BETWEEN_ALL / choosing->rows;
    int now = 0;
    if (between < BETWEEN_LEAST) between = BETWEEN_LEAST;
    const int rounds = (int)ceil(SPACE_BITS / log2((double)(between + 1)));
    argument given[ARGUMENTS_MOST] = {logits_of(choosing)}, *bounds = given + 1 + count;
    memcpy(given + 1, by, (size_t)count * sizeof *by);
    for (int round = 0; round < rounds; round++) {
        const int next = 1 + round % 2;
        bounds[0] = (argument){HR_F64, table->low[now], 0, 0};
        bounds[1] = (argument){HR_F64, table->high[now], 0, 0};
        bounds[2] =
            (argument){narrow == HR_NARROW_BY_COUNT ? HR_I32 : HR_F64,
                       hr_model_memory_at(&choosing->model->choices.table, table->larger), between, 0};
        bounds[3] = (argument){HR_F64, table->low[next], 0, 0};
        bounds[4] = (argument){HR_F64, table->high[next], 0, 0};
        HR_TRY(launch(choosing, narrow, given, 1 + count + 5));
        now = next;
    }
    const argument last[] = {
        logits_of(choosing), {HR_F64, table->low[now], 0, 0}, {HR_F32, table->floor, 0, 0}};
    return launch(choosing, HR_RAISE_FLOOR, last, 3);
}

/* The k largest. */
static hr_status leave_by_count(const choosing *choosing) {
    const argument by[] = {{HR_I64, choosing->table->top_k, 0, 0}};
    return floors_raise(choosing, HR_NARROW_BY_COUNT, by, 1);
}

/* Of these, as many as have top_p together. */
static hr_status leave_by_share(const choosing *choosing) {
    choice_table *table = choosing->table;
    hr_model_choices *choices = &choosing->model->choices;
    const size_t bytes = (size_t)(choosing->rows * choosing->model->vocabulary) * sizeof(double);
    if (bytes > choices->parts_bytes) {
        if (choices->parts) hr_device_release(choosing->model->device, choices->parts, choices->parts_bytes);
        choices->parts = NULL;
        choices->parts_bytes = 0;
        HR_TRY(hr_device_allocate(choosing->model->device, bytes, &choices->parts));
        choices->parts_bytes = bytes;
    }
    const argument shares[] = {logits_of(choosing),          {HR_F32, table->most, 0, 0},
                               {HR_F32, table->floor, 0, 0}, {HR_I64, table->top_k, 0, 0},
                               {HR_F64, table->top_p, 0, 0}, parts_of(choosing),
                               {HR_F64, table->share, 0, 0}};
    HR_TRY(launch(choosing, HR_SHARES, shares, 7));
    const argument by[] = {parts_of(choosing), {HR_F64, table->share, 0, 0}};
    return floors_raise(choosing, HR_NARROW_BY_SHARE, by, 2);
}

/* Both at once, where no row asks for more than are in a list. */
static hr_status leave_by_list(const choosing *choosing) {
    choice_table *table = choosing->table;
    const hr_model_memory *memory = &choosing->model->choices.table;
    const argument value = {HR_F32, hr_model_memory_at(memory, table->value), SHORTLIST, 0};
    const argument list[] = {
        logits_of(choosing), value, {HR_I32, hr_model_memory_at(memory, table->place), SHORTLIST, 0}};
    const argument floors[] = {value,
                               {HR_I64, table->top_k, 0, 0},
                               {HR_F64, table->top_p, 0, 0},
                               {HR_F32, table->most, 0, 0},
                               {HR_F32, table->floor, 0, 0}};
    HR_TRY(launch(choosing, HR_SHORTLIST, list, 3));
    return launch(choosing, HR_FLOORS, floors, 5);
}

/* ---- the whole ---- */

/* A row that nobody asked for, or all of whose tokens are kept, has the bounds of all. */
static void row_write(const choosing *choosing, int64_t row, const hr_token_choice *choice) {
    const hr_sampling *sampling = choice->sampling;
    choice_table *table = choosing->table;
    const bool draws = sampling && sampling->temperature > 0;
    const int64_t all = choosing->model->vocabulary;
    table->top_k[row] = draws && sampling->top_k > 0 && sampling->top_k < all ? sampling->top_k : all;
    table->top_p[row] = draws && sampling->top_p > 0 && sampling->top_p < 1 ? sampling->top_p : 2;
    table->min_p[row] = draws ? sampling->min_p : 0;
    table->temperature[row] = draws ? (float)sampling->temperature : 0;
    table->seed[row] = draws ? hr_sampling_seed(sampling) : 0;
    table->position[row] = choice->position;
    table->floor[row] = -INFINITY;
    table->low[0][row] = -BOUND_MOST;
    table->high[0][row] = BOUND_MOST;
}

/* Parts of a row are alike, so that rows of no such number are one part. */
static int64_t parts_of_row(int64_t all) {
    int64_t parts = PARTS_MOST;
    while (all % parts != 0)
        parts--;
    return parts;
}

static hr_status rows_choose(const choosing *choosing) {
    choice_table *table = choosing->table;
    const hr_model_memory *memory = &choosing->model->choices.table;
    const int64_t parts = parts_of_row(choosing->model->vocabulary);
    argument logits = logits_of(choosing);
    const argument most = {HR_F32, table->most, 0, 0}, floor = {HR_F32, table->floor, 0, 0},
                   min_p = {HR_F64, table->min_p, 0, 0}, temperature = {HR_F32, table->temperature, 0, 0},
                   seed = {HR_I64, table->seed, 0, 0}, position = {HR_I64, table->position, 0, 0},
                   tokens = {HR_I64, hr_model_memory_at(memory, table->tokens), parts, 0},
                   part = {HR_F64, hr_model_memory_at(memory, table->part), parts, 0},
                   token = {HR_I64, table->token, 0, 0},
                   log_probability = {HR_F64, table->log_probability, 0, 0};
    logits.parts = parts;
    HR_TRY(launch(choosing, HR_CHOOSE_PARTS,
                  (const argument[]){logits, most, floor, min_p, temperature, seed, position, tokens, part},
                  9));
    logits.parts = 0;
    return launch(choosing, HR_CHOOSE,
                  (const argument[]){logits, most, floor, min_p, temperature, seed, position, tokens, part,
                                     token, log_probability},
                  11);
}

static hr_status tokens_find(const choosing *choosing) {
    choice_table *table = choosing->table;
    const int64_t all = choosing->model->vocabulary;
    bool by_count = false, by_share = false, by_list = all >= SHORTLIST;
    for (int64_t row = 0; row < choosing->rows; row++) {
        by_count |= table->top_k[row] < all;
        by_share |= table->top_p[row] < 1;
        by_list &= table->top_k[row] <= SHORTLIST || table->temperature[row] == 0;
    }
    const argument largest[] = {logits_of(choosing), {HR_F32, table->most, 0, 0}};
    if (by_list && by_count) {
        HR_TRY(leave_by_list(choosing));
    } else {
        HR_TRY(launch(choosing, HR_LARGEST, largest, 2));
        if (by_count) HR_TRY(leave_by_count(choosing));
        if (by_share) HR_TRY(leave_by_share(choosing));
    }
    return rows_choose(choosing);
}

hr_status hr_tokens_choose_there(struct hr_model *model, void *logits, hr_token_choice *choices, int count) {
    hr_model_memory *memory = &model->choices.table;
    if (!memory->device) HR_TRY(hr_model_memory_take(model->device, sizeof(choice_table), memory));
    choice_table *table = (choice_table *)(void *)memory->host;
    const choosing choosing = {model, table, count, logits};
    for (int row = 0; row < count; row++)
        row_write(&choosing, row, &choices[row]);
    HR_TRY(hr_model_memory_send(model->device, memory, table, offsetof(choice_table, token)));
    HR_TRY(tokens_find(&choosing));
    HR_TRY(hr_model_memory_fetch(model->device, memory, table->token,
                                 offsetof(choice_table, larger) - offsetof(choice_table, token)));
    for (int row = 0; row < count; row++) {
        choices[row].token = (int32_t)table->token[row];
        choices[row].log_probability = table->log_probability[row];
    }
    return HR_OK;
}

hr_status hr_choices_load(struct hr_model *model) {
    static const char *const names[HR_CHOICE_KERNELS] = {"largest",         "shortlist",       "floors",
                                                         "narrow_by_count", "narrow_by_share", "raise_floor",
                                                         "shares",          "choose_parts",    "choose"};
    for (int i = 0; i < HR_CHOICE_KERNELS; i++)
        HR_TRY(hr_sampling_load(model, names[i], &model->choices.kernels[i]));
    return HR_OK;
}

void hr_choices_release(struct hr_model *model) {
    hr_model_choices *choices = &model->choices;
    for (int i = 0; i < HR_CHOICE_KERNELS; i++)
        hr_kernel_destroy(choices->kernels[i]);
    if (choices->parts) hr_device_release(model->device, choices->parts, choices->parts_bytes);
    hr_model_memory_release(model->device, &choices->table);
    *choices = (hr_model_choices){0};
}
