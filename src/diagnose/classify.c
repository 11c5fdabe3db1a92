/* Names -> classes: kernels, calls, ranges and operators.
 *
 * In: a name as it stands in the trace. Out: its class. Tables of words, the first one that occurs decides;
 * those of kernels stand in kernel_names.def.
 */
#include "diagnose/analysis.h"

#include <string.h>
#include <strings.h>

/* Whether `word` occurs in `name`, in any case of its letters; "" does. */
static bool holds(const char *name, const char *word) {
    if (!*word) return true;
    size_t length = strlen(word);
    char low = word[0], high = low >= 'a' && low <= 'z' ? (char)(low - 32) : low;
    for (; *name; name++)
        if ((*name == low || *name == high) && strncasecmp(name, word, length) == 0) return true;
    return false;
}

/* ---- kernels ---- */

/* A row of any of the tables of kernel_names.def; a table uses the fields that it has. */
typedef struct name_row {
    const char *word, *unless; /* unless: a word that must not be there, "" = none */
    const char *loops;         /* of Inductor's kernels: "red per" */
    hr_time_kind kind;
    unsigned flags;
} name_row;

static const name_row kernel_rows[] = {
#define KERNEL_NAME(word, kind, flags) {word, "", "", HR_TIME_##kind, flags},
#include "diagnose/kernel_names.def"
#undef KERNEL_NAME
};

static const name_row fused_rows[] = {
#define FUSED_NAME(loops, word, kind, flags) {word, "", loops, HR_TIME_##kind, flags},
#include "diagnose/kernel_names.def"
#undef FUSED_NAME
};

static const name_row unit_rows[] = {
#define PRODUCT_UNIT(word, unless, flags) {word, unless, "", HR_TIME_MATRIX, flags},
#include "diagnose/kernel_names.def"
#undef PRODUCT_UNIT
};

static const name_row product_traits[] = {
#define PRODUCT_TRAIT(word, unless, flags) {word, unless, "", HR_TIME_MATRIX, flags},
#include "diagnose/kernel_names.def"
#undef PRODUCT_TRAIT
};

static const name_row fusable_traits[] = {
#define FUSABLE_TRAIT(word, flags) {word, "", "", HR_TIME_ELEMENTWISE, flags},
#include "diagnose/kernel_names.def"
#undef FUSABLE_TRAIT
};

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

static bool row_fits(const name_row *row, const char *name) {
    return holds(name, row->word) && !(row->unless[0] && holds(name, row->unless));
}

static const name_row *first_row(const name_row *rows, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (row_fits(&rows[i], name)) return &rows[i];
    return NULL;
}

static unsigned all_flags(const name_row *rows, size_t count, const char *name) {
    unsigned flags = 0;
    for (size_t i = 0; i < count; i++)
        if (row_fits(&rows[i], name)) flags |= rows[i].flags;
    return flags;
}

/* Of a kernel that Inductor made: by its loops and its operations; NULL where it is none. */
static const name_row *fused_row(const char *name) {
    static const char begins[] = "triton_";
    const char *fused = strstr(name, "_fused_");
    size_t loops = sizeof begins - 1;
    if (strncmp(name, begins, loops) != 0 || fused != name + loops + 3) return NULL;
    for (size_t i = 0; i < COUNT(fused_rows); i++) {
        const char *known = fused_rows[i].loops;
        for (; *known; known += known[3] ? 4 : 3)
            if (strncmp(known, name + loops, 3) == 0 && holds(fused, fused_rows[i].word))
                return &fused_rows[i];
    }
    return NULL;
}

hr_kernel_class hr_classify_kernel(const char *name) {
    const name_row *row = fused_row(name);
    if (!row) row = first_row(kernel_rows, COUNT(kernel_rows), name);
    if (!row) return (hr_kernel_class){HR_TIME_OTHER, 0};
    unsigned flags = row->flags;
    if (row->kind == HR_TIME_MATRIX) {
        const name_row *unit = first_row(unit_rows, COUNT(unit_rows), name);
        flags |= all_flags(product_traits, COUNT(product_traits), name);
        if (unit && !(flags & (HR_WORK_FULL | HR_WORK_TENSOR))) flags |= unit->flags;
    }
    if (flags & HR_WORK_FUSABLE) flags |= all_flags(fusable_traits, COUNT(fusable_traits), name);
    return (hr_kernel_class){(uint8_t)row->kind, (uint16_t)flags};
}

/* ---- calls ---- */

static const struct {
    const char *word;
    hr_call_class kind;
} call_rows[] = {
    {"graphlaunch", HR_CALL_GRAPH_LAUNCH},
    {"launch", HR_CALL_LAUNCH},
    {"synchronize", HR_CALL_SYNCHRONISE},
    {"streamwaitevent", HR_CALL_STREAM_WAIT},
    {"eventrecord", HR_CALL_EVENT_RECORD},
    {"memset", HR_CALL_LAUNCH},
    {"memcpy", HR_CALL_COPY},
    {"moduleload", HR_CALL_FIRST_USE},
    {"libraryload", HR_CALL_FIRST_USE},
    {"linkcreate", HR_CALL_FIRST_USE},
    {"linkadd", HR_CALL_FIRST_USE},
    {"linkcomplete", HR_CALL_FIRST_USE},
    {"nvrtc", HR_CALL_FIRST_USE},
    {"graphinstantiate", HR_CALL_FIRST_USE},
    {"ctxcreate", HR_CALL_FIRST_USE},
    {"primaryctxretain", HR_CALL_FIRST_USE},
    {"malloc", HR_CALL_ALLOCATE},
    {"cudafree", HR_CALL_ALLOCATE},
    {"hostalloc", HR_CALL_ALLOCATE},
    {"hostregister", HR_CALL_ALLOCATE},
    {"hostunregister", HR_CALL_ALLOCATE},
    {"memalloc", HR_CALL_ALLOCATE},
    {"memfree", HR_CALL_ALLOCATE},
    {"memcreate", HR_CALL_ALLOCATE},
    {"memmap", HR_CALL_ALLOCATE},
    {"memunmap", HR_CALL_ALLOCATE},
    {"memrelease", HR_CALL_ALLOCATE},
    /* HIP where its names are its own, then SYCL's unified runtime and Level Zero */
    {"hipfree", HR_CALL_ALLOCATE},
    {"hiprtc", HR_CALL_FIRST_USE},
    {"eventhostwait", HR_CALL_SYNCHRONISE},
    {"ureventwait", HR_CALL_SYNCHRONISE},
    {"queuefinish", HR_CALL_SYNCHRONISE},
    {"usmfill", HR_CALL_LAUNCH},
    {"memoryfill", HR_CALL_LAUNCH},
    {"memorycopy", HR_CALL_COPY},
    {"programbuild", HR_CALL_FIRST_USE},
    {"zemodulecreate", HR_CALL_FIRST_USE},
    {"usmdevicealloc", HR_CALL_ALLOCATE},
    {"usmhostalloc", HR_CALL_ALLOCATE},
    {"usmsharedalloc", HR_CALL_ALLOCATE},
    {"usmfree", HR_CALL_ALLOCATE},
    {"zememalloc", HR_CALL_ALLOCATE},
};

hr_call_class hr_classify_call(const char *name) {
    for (size_t i = 0; i < COUNT(call_rows); i++)
        if (holds(name, call_rows[i].word)) return call_rows[i].kind;
    return HR_CALL_OTHER;
}

/* ---- ranges and operators ---- */

/* What a compiler's own code does when its product runs: frames of its file, and the look for it in its
 * cache. */
static bool runs_compiled(const char *name) {
    const char *function = strstr(name, "): ");
    bool frame = strstr(name, ".py(") && function;
    return frame ? !holds(function, "compile") : holds(name, "cache lookup");
}

unsigned hr_classify_range(const char *name) {
    static const struct {
        const char *word;
        unsigned bits;
    } rows[] = {
        {"dataloader", HR_RANGE_LOADER},
        {"data_load", HR_RANGE_LOADER},
        {"dataload", HR_RANGE_LOADER},
        {"data loading", HR_RANGE_LOADER},
        {"data loader", HR_RANGE_LOADER},
        {"load batch", HR_RANGE_LOADER},
        {"load_batch", HR_RANGE_LOADER},
        {"load data", HR_RANGE_LOADER},
        {"next batch", HR_RANGE_LOADER},
        {"get_batch", HR_RANGE_LOADER},
        {"next_batch", HR_RANGE_LOADER},
        {"fetch_data", HR_RANGE_LOADER},
        {"optimizer", HR_RANGE_OPTIMIZER},
        {"optim step", HR_RANGE_OPTIMIZER},
        {"backward", HR_RANGE_BACKWARD},
        {"torchdynamo", HR_RANGE_COMPILE},
        {"compile_fx", HR_RANGE_COMPILE},
        {"triton_compile", HR_RANGE_COMPILE},
        {"(dynamo_timed)", HR_RANGE_COMPILE},
        {"layer_norm", HR_RANGE_NORMALISATION},
        {"batch_norm", HR_RANGE_NORMALISATION},
        {"group_norm", HR_RANGE_NORMALISATION},
        {"softmax", HR_RANGE_NORMALISATION},
        {"rms_norm", HR_RANGE_NORMALISATION},
        {"dot_product_flash", HR_RANGE_ATTENTION},
        {"dot_product_efficient", HR_RANGE_ATTENTION},
        {"dot_product_cudnn", HR_RANGE_ATTENTION},
        {"aten::mm", HR_RANGE_MATRIX},
        {"aten::bmm", HR_RANGE_MATRIX},
        {"aten::addmm", HR_RANGE_MATRIX},
        {"aten::baddbmm", HR_RANGE_MATRIX},
        {"aten::cudnn_convolution", HR_RANGE_MATRIX},
        {"aten::convolution", HR_RANGE_MATRIX},
    };
    unsigned bits = 0;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (holds(name, rows[i].word)) bits |= rows[i].bits;
    if ((bits & HR_RANGE_COMPILE) && runs_compiled(name)) bits &= ~(unsigned)HR_RANGE_COMPILE;
    if (holds(name, "zero_grad")) bits &= ~(unsigned)HR_RANGE_OPTIMIZER;
    return bits;
}
