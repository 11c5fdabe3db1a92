/* A model, opened: its file, its family's text, what they say together.
 *
 * In: a path and a device. Out: extents and numbers, a weight for each rule and layer, caches, kernels.
 * step.c makes sequences of it, feed.c runs them.
 */
#ifndef HR_MODEL_MODEL_H
#define HR_MODEL_MODEL_H

#include "base/handle.h"
#include "model/model_memory.h"
#include "model/model_text.h"
#include "model/numbers.h"
#include "model/tokenizer.h"

#define HR_MODEL_KERNELS_MOST 128
#define HR_MODEL_STEPS_MOST   HR_MODEL_SEQUENCES
#define HR_MODEL_LAYERS_MOST  4096
#define HR_MODEL_CHUNK        2048 /* tokens of a step, at most */

/* One kernel of the family's text, or of those that all share. */
typedef struct hr_model_kernel {
    char name[64];
    hr_kernel *kernel; /* NULL: there is none of this name */
    bool of_family;    /* its extents are the model's */
} hr_model_kernel;

/* A rule's number, one a layer. */
typedef struct hr_model_number {
    const char *name; /* NULL: the rule is of an extent */
    int64_t layers;   /* 0 of what is no layer's */
    double *values;
} hr_model_number;

/* A rule's weights, one a layer. */
typedef struct hr_model_weight {
    const char *name;
    int layers; /* 1 of what is no layer's */
    bool is_layered;
    hr_weight **layer;
} hr_model_weight;

/* A weight as pack_FORMAT or place_FORMAT lays it out: in memory of its own. */
enum { HR_PACKED_MOST = 5 };

typedef struct hr_packed_weight {
    int count; /* arrays; 0 = it is not packed */
    hr_sequence_array arrays[HR_PACKED_MOST];
    void *data;
    size_t bytes;
} hr_packed_weight;

typedef struct hr_model_cache {
    const char *name;
    int64_t layers, shape[HR_AXES_MOST];
    int rank;
    void *data;
    size_t size;
} hr_model_cache;

enum { HR_PAGE_TOKENS = 16, HR_BATCH_MOST = 64 }; /* tokens of a page; requests of a step */

/* Where the tokens of a step lie whose requests keep theirs in pages of the caches: what the kernels of
 * models/paged.hr are given, as the host writes it. */
typedef struct hr_model_pages {
    hr_model_memory memory; /* of all of them */
    int32_t *row;           /* [HR_BATCH_MOST, pages]: where a request's page begins in the caches */
    int32_t *owner, *seen,
        *place;   /* of each token: its request, how many it sees, where it goes; -1 = nowhere */
    int64_t most; /* pages of a request */
} hr_model_pages;

/* Kernels of models/sampling.hr that choose tokens of rows, and what they are given: choose_tokens.c. */
typedef enum hr_choice_kernel {
    HR_LARGEST,
    HR_SHORTLIST,
    HR_FLOORS,
    HR_NARROW_BY_COUNT,
    HR_NARROW_BY_SHARE,
    HR_RAISE_FLOOR,
    HR_SHARES,
    HR_CHOOSE_PARTS,
    HR_CHOOSE,
    HR_CHOICE_KERNELS
} hr_choice_kernel;

typedef struct hr_model_choices {
    hr_kernel *kernels[HR_CHOICE_KERNELS];
    hr_model_memory table;
    void *parts; /* of all rows, f64; none before top_p asks for them */
    size_t parts_bytes;
} hr_model_choices;

/* How a step of a text on a CPU computes its tokens: together, or, where sums would have another order then,
 * each as a step of one token does. All of the latter give logits. */
typedef enum hr_token_order { HR_TOKENS_TOGETHER, HR_TOKENS_EACH } hr_token_order;

/* The sequence for so many tokens of which so many give logits. */
typedef struct hr_model_step {
    int64_t tokens, answers;
    hr_token_order order;
    bool paged;
    hr_sequence *sequence;
    uint64_t used; /* when, in steps */
} hr_model_step;

struct hr_model {
    hr_handle handle;
    hr_device *device;
    hr_arena *arena;
    hr_weight_file *file;
    hr_tokenizer *tokenizer;
    const char *family_text;
    size_t family_length;
    hr_model_text text;
    hr_extents extents; /* with room for T A P and an index */
    hr_model_number numbers[HR_RULES_MOST];
    hr_model_weight weights[HR_RULES_MOST];
    hr_model_weight
        joined[HR_RULES_MOST]; /* of the text's joins; a layer is NULL whose parts are not alike */
    hr_weight *joined_weights; /* join after join, a layer each */
    int64_t joined_weight_count;
    hr_packed_weight *packed; /* one a weight of the file, then one a joined one */
    hr_model_cache caches[HR_RULES_MOST];
    hr_dtype cache_dtype;
    hr_model_kernel kernels[HR_MODEL_KERNELS_MOST];
    int kernel_count;
    int64_t context, vocabulary, past;
    hr_kernel *sampler; /* where the device sees the host's memory, else: */
    hr_model_choices choices;

    hr_model_memory tokens; /* of a step, i32, and behind them their positions */
    hr_model_memory logits; /* rows of the vocabulary, f32, HR_MODEL_ANSWERS of them */
    hr_model_memory drawn;  /* a row that is no answer of a step, and the token that was drawn, i64 */
    hr_model_memory rows;   /* 0, 1, 2, ... of i32 */
    void *weight_memory;    /* all weights, where the device does not see the host's memory */
    size_t weight_bytes;
    int32_t *fed;      /* the context's tokens */
    hr_sequence *last; /* of the last step */
    int threads;
    char name[128]; /* as the file says */
    hr_model_step steps[HR_MODEL_STEPS_MOST];
    int step_count;
    hr_model_pages pages; /* none before the first requests */
    int64_t rows_least;   /* of a step of requests, so that no row depends on how many there are */
    uint64_t clock;
    hr_progress_fn progress; /* while a text is read; NULL = nobody watches */
    void *progress_context;
    int64_t progress_from, progress_to, progress_step; /* tokens of the context; of the step that runs */
};

/* ---- model_kernels.c ---- */

/* The kernel of this name: the family's, else that of models/weights.hr or models/packed.hr; *out NULL where
 * there is none. */
hr_status hr_model_kernel_find(struct hr_model *model, const char *name, const hr_model_kernel **out);
/* NAME_SUFFIX. */
hr_status hr_model_kernel_of(struct hr_model *model, const char *name, const char *suffix,
                             const hr_model_kernel **out);

/* A kernel of models/sampling.hr. */
hr_status hr_sampling_load(const struct hr_model *model, const char *name, hr_kernel **out);

/* ---- weight_packed.c ---- */

/* The weight packed once, by pack_FORMAT of models/packed.hr; *out NULL where there is no such kernel, or its
 * rows are no groups of sixteen. Where the device does not see the host's memory: by place_FORMAT of
 * models/blocks.hr, and weight->data is memory of the device. */
hr_status hr_model_weight_pack(struct hr_model *model, const hr_weight *weight, const hr_packed_weight **out);
/* `part` is rows of `whole` from `row` on, which was packed: its arrays are parts of those. */
void hr_model_weight_part(struct hr_model *model, const hr_weight *whole, const hr_weight *part, int64_t row);
/* What was packed of it; NULL: nothing. */
const hr_packed_weight *hr_model_weight_packed(const struct hr_model *model, const hr_weight *weight);
void hr_model_packed_release(struct hr_model *model);

/* ---- weight_place.c ---- */

/* Brings all weights to a device that does not see the host's memory, matrices in blocks in a form of
 * models/blocks.hr. Those whose rows a text joins lie behind each other then, where they are stored alike. */
hr_status hr_model_weights_place(struct hr_model *model);

/* ---- step.c ---- */

/* Builds the calls of a step; `out` is empty. `pages`: its tokens are those of several requests, and the
 * sequence's step is how many pages the longest one has; NULL: they follow those before, whose number is the
 * step. */
hr_status hr_model_step_build(struct hr_model *model, int64_t tokens, int64_t answers, hr_token_order order,
                              const hr_model_pages *pages, hr_sequence *out);

/* ---- batch.c ---- */

void hr_model_pages_release(struct hr_model *model);

/* ---- feed.c ---- */

/* The tokens of the step that is made next, for the host to write, and behind `tokens` of them the positions
 * of as many. */
int32_t *hr_model_step_tokens(const struct hr_model *model);
int32_t *hr_model_step_positions(const struct hr_model *model, int64_t tokens);
/* Runs the step on the tokens and positions that were written. `size`: what the sequence's sizes grow with.
 */
hr_status hr_model_step_run(struct hr_model *model, const hr_model_step *step, int64_t size);

/* The sequence of such a step, built once. */
hr_status hr_model_step_get(struct hr_model *model, int64_t tokens, int64_t answers, hr_token_order order,
                            const hr_model_pages *pages, hr_model_step **out);

/* Tokens of a step in which a text is read: where a weight is read from memory for each step, as many as make
 * that little beside their products. */
int64_t hr_model_chunk(const struct hr_model *model);

/* hr_model_feed, whose logits stay on the device: *logits is where the host would have them, for
 * hr_model_sample. */
hr_status hr_model_advance(struct hr_model *model, const int32_t *tokens, int64_t count, int64_t answers,
                           const float **logits);
/* Brings the logits of the last step's first `answers` rows to the host. */
/* The same of tokens that follow a context, up to HR_MODEL_ANSWERS, each as it would be computed alone. */
hr_status hr_model_advance_each(struct hr_model *model, const int32_t *tokens, int64_t count,
                                const float **logits);
hr_status hr_model_logits_fetch(struct hr_model *model, int64_t answers);

/* Builds and compiles the step of so many tokens that all give logits, so that no token's time has that in
 * it. */
hr_status hr_model_step_ready(struct hr_model *model, int64_t tokens);
/* Of all steps. */
void hr_model_times_clear(struct hr_model *model);
#endif
