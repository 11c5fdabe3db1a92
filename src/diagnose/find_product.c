/* Matrix products: small ones that could be one, precision, sizes that tensor cores pad.
 *
 * In: works of the kind matrix, with their shapes where the trace has them. Out: drafts with other durations.
 */
#include "diagnose/finding.h"
#include "diagnose/shapes.h"

#include <math.h>

/* ---- many small ones ---- */

#define LEAST_PRODUCTS 4
#define SHORT_PRODUCT  8e-6 /* seconds */
#define PIPELINE_NS    3000

/* The next product of the same kernel and grid, over at most one other product (the sum of a split one)
 * between them; -1 = none. */
static int next_alike(const hr_analysis *analysis, const int32_t *order, int count, int at) {
    const hr_work *work = &analysis->works[order[at]];
    for (int i = at + 1; i < count && i <= at + 2; i++) {
        const hr_work *next = &analysis->works[order[i]];
        if (next->stream != work->stream || next->step != work->step || next->kind != HR_TIME_MATRIX)
            return -1;
        if (analysis->kernel_of[order[i]] == analysis->kernel_of[order[at]] &&
            fabs(hr_work_waves(analysis, order[i]) - hr_work_waves(analysis, order[at])) < 1e-9)
            return i;
    }
    return -1;
}

/* ns of a batch of products that take `one` each: in a batch they share the time to start, to fill and to
 * drain the pipeline, which is most of a short one. */
static double batched_time(double one, double waves, int members) {
    if (waves <= 0.5 && one > PIPELINE_NS * 3) return one * fmax(1, ceil(members * waves));
    return fmax(one, members * fmax(one - PIPELINE_NS, 0.1 * one) * fmin(1, waves > 0.5 ? 1 : 2 * waves));
}

void hr_find_unbatched(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    int32_t *order;
    int count = hr_stream_order(analysis, analysis->arena, &order), most = 0, first = -1;
    int64_t products = 0, runs = 0;
    double before = 0, after = 0;
    for (int i = 0; i < count; i++) {
        double waves = hr_work_waves(analysis, order[i]);
        int members = 1, last = i;
        double own = hr_work_seconds(analysis, order[i]);
        if (analysis->works[order[i]].kind != HR_TIME_MATRIX || waves <= 0) continue;
        if (waves > 0.5 && own > SHORT_PRODUCT) continue;
        for (int next = i; (next = next_alike(analysis, order, count, next)) >= 0; members++)
            last = next;
        if (members < LEAST_PRODUCTS) continue;
        double all = 0, one = INFINITY;
        for (int k = i; k <= last; k++)
            all += hr_work_seconds(analysis, order[k]) * 1e9;
        for (int k = i; k <= last; k = k < last ? next_alike(analysis, order, count, k) : last + 1)
            one = fmin(one, hr_work_seconds(analysis, order[k]) * 1e9);
        double batched = fmin(all, batched_time(one, waves, members));
        for (int k = i; k <= last; k++) { /* each keeps its part of the batch's time */
            double part = batched * hr_work_seconds(analysis, order[k]) * 1e9 / all;
            hr_draft_event(draft, analysis->works[order[k]].event);
            if (k > i)
                hr_draft_replace(draft, order[k], part);
            else
                hr_draft_work(draft, order[k], part);
        }
        products += members;
        runs++;
        before += all;
        after += batched;
        if (members > most) {
            most = members;
            first = order[i];
        }
        i = last;
    }
    if (!runs) return;
    int steps = hr_counted_steps(analysis), kernel = analysis->kernel_of[first];
    hr_draft_note(draft, analysis->works[first].event, products, before * 1e-9,
                  "%.4g products a step in %s of equal ones, each too small to fill the device or too "
                  "short to pay for its start: %s; as batches about %s",
                  (double)products / steps, hr_count_text((double)runs / steps, "run", "runs").text,
                  hr_time_text(before * 1e-9 / steps).text, hr_time_text(after * 1e-9 / steps).text);
    hr_draft_note(draft, analysis->works[first].event, most, 0, "the longest run: %d launches of %s", most,
                  kernel >= 0 ? analysis->kernels[kernel].short_name : "one kernel");
    draft->caveat = "the products of a run do not depend on each other";
}

/* ---- precision ---- */

/* Whether the device's tensor cores take halves alone; what is not known of a device is none of it. */
static bool takes_halves_alone(const hr_ceiling *ceiling) {
    bool old = ceiling->compute > 0 && ceiling->compute < 80;
    return old || (ceiling->tensor_half > 0 && ceiling->tensor_tf32 <= 0);
}

/* How much faster a large product runs on tensor cores, with what is lost on the way there. */
static double tensor_speedup(const hr_ceiling *ceiling) {
    double tensor = takes_halves_alone(ceiling) ? ceiling->tensor_half : ceiling->tensor_tf32;
    if (tensor <= 0 && !ceiling->source[0]) return 5; /* the device is not known */
    return tensor > 0 && ceiling->vector_f32 > 0 ? fmax(1, 0.76 * tensor / ceiling->vector_f32) : 1;
}

static double on_tensor_cores(const hr_analysis *analysis, int work, double speedup) {
    const hr_ceiling *ceiling = &analysis->ceiling;
    double now = hr_work_seconds(analysis, work), bytes, flops;
    hr_shapes shapes;
    const char *name;
    double then = fmax(now / speedup, fmin(now, 4e-6));
    if ((analysis->works[work].flags & HR_WORK_CONVOLUTION) ||
        !hr_work_shapes(analysis, work, &shapes, &name))
        return then;
    hr_shapes_work(name, &shapes, HR_TIME_MATRIX, &bytes, &flops);
    double memory = bytes > 0 && ceiling->memory > 0 ? bytes / (0.8 * ceiling->memory) : 0;
    return fmin(now, fmax(then, memory));
}

void hr_find_full_precision(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    double speedup = tensor_speedup(&analysis->ceiling), seconds = 0, products = 0;
    int64_t count = 0;
    int32_t longest = -1;
    if (speedup <= 1.05) return;
    for (int i = 0; i < analysis->work_count; i++) {
        if (!hr_is_counted_work(analysis, i) || analysis->works[i].kind != HR_TIME_MATRIX) continue;
        products += hr_work_seconds(analysis, i);
        if (!(analysis->works[i].flags & HR_WORK_FULL)) continue;
        count++;
        seconds += hr_work_seconds(analysis, i);
        if (longest < 0 || hr_work_seconds(analysis, i) > hr_work_seconds(analysis, longest)) longest = i;
        hr_draft_work(draft, i, 1e9 * on_tensor_cores(analysis, i, speedup));
        hr_draft_event(draft, analysis->works[i].event);
    }
    if (!count) return;
    int steps = hr_counted_steps(analysis);
    hr_draft_note(draft, analysis->works[longest].event, count, seconds,
                  "%.4g products a step run in f32 without tensor cores: %s, %.0f %% of the time of all "
                  "products; for example %s",
                  (double)count / steps, hr_time_text(seconds / steps).text, 100 * seconds / products,
                  hr_event_name(analysis, analysis->works[longest].event));
    hr_draft_note(draft, -1, 0, 0, "large products can be %.1f times as fast there (%s)", speedup,
                  analysis->ceiling.source[0] ? analysis->ceiling.source
                                              : "a guess: the device is not named");
    if (takes_halves_alone(&analysis->ceiling)) {
        draft->remedy = "Run products in half precision, which is what the tensor cores of this device take.";
        draft->code =
            "with torch.autocast(\"cuda\", dtype=torch.float16): ...  # with torch.amp.GradScaler()";
        draft->effort = "a few lines";
    }
    draft->caveat = "the model tolerates products with 10 bits of mantissa; bf16 autocast would gain more";
}

/* ---- sizes ---- */

static bool is_uneven(const hr_analysis *analysis, int work, hr_product *product) {
    hr_shapes shapes;
    const char *name;
    *product = (hr_product){0};
    if (!hr_work_shapes(analysis, work, &shapes, &name) || !hr_shapes_product(name, &shapes, product))
        return false;
    int64_t unit = product->bytes > 0 && product->bytes <= 4 ? 16 / product->bytes : 1;
    return product->m % unit || product->n % unit || product->k % unit;
}

/* What is left of a product's time once its sizes suit the device: kernels made for older tensor cores
 * take 2.3 to 3.2 times as long as the device's own on Hopper, by published measurements; elsewhere padding
 * usually makes a kernel 1.5 times as fast. */
static double aligned_part(const hr_analysis *analysis, const hr_work *work) {
    return analysis->ceiling.compute >= 90 && (work->flags & HR_WORK_OLD) ? 0.43 : 0.65;
}

/* What its name tells: operands aligned to few elements, or tensor cores of a generation long past. */
static bool is_named_misaligned(const hr_analysis *analysis, const hr_work *work) {
    bool old = (work->flags & HR_WORK_OLD) && (work->flags & HR_WORK_TENSOR);
    return (work->flags & HR_WORK_MISALIGNED) || (old && analysis->ceiling.compute >= 80);
}

typedef struct misaligned {
    hr_tally all, old;  /* old: of them by kernels made for older tensor cores */
    hr_product product; /* of the longest one with uneven sizes; k = 0: none */
    double most;        /* seconds of that one */
    int32_t uneven;     /* the work, -1 = none */
    bool even;          /* sizes of one are known and suit: its addresses don't */
} misaligned;

static void note_misaligned(hr_draft *draft, const misaligned *found) {
    const hr_analysis *analysis = draft->analysis;
    int steps = hr_counted_steps(analysis);
    int32_t shown = found->uneven >= 0 ? found->uneven : found->all.longest;
    hr_draft_note(draft, analysis->works[shown].event, found->all.count, found->all.seconds,
                  "%.4g products a step have sizes or addresses that tensor cores cannot read in whole "
                  "vectors: %s; for example %s",
                  (double)found->all.count / steps, hr_time_text(found->all.seconds / steps).text,
                  hr_event_name(analysis, analysis->works[shown].event));
    if (found->old.count)
        hr_draft_note(
            draft, analysis->works[found->old.longest].event, found->old.count, found->old.seconds,
            "the library fell back to kernels made for tensor cores of compute capability 7.x; this "
            "device has %d.%d",
            analysis->ceiling.compute / 10, analysis->ceiling.compute % 10);
    if (found->uneven >= 0)
        hr_draft_note(draft, analysis->works[shown].event, 0, 0,
                      "its sizes are M=%lld N=%lld K=%lld; multiples of %lld are read in whole vectors",
                      (long long)found->product.m, (long long)found->product.n, (long long)found->product.k,
                      (long long)(16 / found->product.bytes));
    else if (found->even)
        hr_draft_note(draft, analysis->works[shown].event, 0, 0,
                      "its sizes are even: look at where the operands begin (a slice, or parameters packed "
                      "into one buffer behind one of odd length)");
}

void hr_find_misaligned(hr_draft *draft) {
    const hr_analysis *analysis = draft->analysis;
    misaligned found = {.uneven = -1};
    hr_product product;
    for (int i = 0; i < analysis->work_count; i++) {
        const hr_work *work = &analysis->works[i];
        if (!hr_is_counted_work(analysis, i) || work->kind != HR_TIME_MATRIX || (work->flags & HR_WORK_FULL))
            continue;
        bool uneven = is_uneven(analysis, i, &product), named = is_named_misaligned(analysis, work);
        if (!named && !(uneven && (work->flags & HR_WORK_TENSOR))) continue;
        double now = hr_work_seconds(analysis, i);
        hr_tally_add(&found.all, i, now);
        if (work->flags & HR_WORK_OLD) hr_tally_add(&found.old, i, now);
        if (uneven && now > found.most) {
            found.most = now;
            found.product = product;
            found.uneven = i;
        }
        found.even |= !uneven && product.k > 0;
        hr_draft_work(draft, i, 1e9 * fmax(aligned_part(analysis, work) * now, fmin(now, 4e-6)));
        hr_draft_event(draft, work->event);
    }
    if (!found.all.count) return;
    note_misaligned(draft, &found);
    draft->caveat =
        found.old.count && analysis->ceiling.compute >= 90
            ? "with padded sizes the library takes this device's own kernels, which need 0.43 of the "
              "time or less, as published for Hopper"
            : "padding makes these kernels 1.5 times as fast, as it usually does";
    if (found.old.count) draft->confidence = 0.65;
}
