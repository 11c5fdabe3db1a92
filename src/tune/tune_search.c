/* The search: prepare candidates, time them in turn, drop the slow, name the fastest. tune.h tells the
 * protocol.
 *
 * In: candidates, the best guess first, and a trial. Out: the best and what each took.
 */
#define _GNU_SOURCE
#include "tune/tune.h"

#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define ROUNDS_MAX      64
#define ROUNDS_MIN      5     /* before the best two can count as told apart */
#define CHALLENGE       0.995 /* of the incumbent's time, to replace it */
#define NEAR_FLOOR      1.02
#define BRIEF_SECONDS   0.25 /* what is timed in less is timed to the end */
#define PARALLEL_MAX    8
#define ALWAYS_PREPARED 2

typedef struct contender {
    hr_choice choice;
    double times[ROUNDS_MAX];  /* sorted */
    double rounds[ROUNDS_MAX]; /* as they came */
    int runs;
    bool alive;
} contender;

typedef struct search {
    contender *contenders; /* [0] is the incumbent */
    int count;
    const hr_tune_budget *budget;
    const hr_trial *trial;
    hr_progress_fn progress;
    void *progress_context;
    double begun, timed_seconds;
    bool stopped;            /* by who follows the timing */
    hr_status first_failure; /* of candidate 0 */
    char first_sentence[2048];
} search;

static bool told(const search *search, const char *what, double done, double total) {
    return !search->progress || search->progress(search->progress_context, what, done, total);
}

hr_tune_budget hr_tune_budget_of(hr_tune mode) {
    if (mode == HR_TUNE_FULL)
        return (hr_tune_budget){
            .candidates = HR_TRIED_MAX, .prepare_seconds = 180, .measure_seconds = 60, .rounds = 31};
    /* A dozen; two cores that take 1.5 s for each end within 20 s, with the best of several stages together.
     */
    return (hr_tune_budget){.candidates = 12, .prepare_seconds = 9, .measure_seconds = 3, .rounds = 15};
}

/* ---- preparing, in parallel ---- */

typedef struct preparing {
    search *search;
    atomic_int next, done;
    atomic_bool stop;
    double deadline;
    pthread_mutex_t lock; /* of search->first_* */
} preparing;

static void failure_keep(preparing *work, int candidate, hr_status status) {
    if (candidate != 0) return;
    pthread_mutex_lock(&work->lock);
    work->search->first_failure = status;
    snprintf(work->search->first_sentence, sizeof work->search->first_sentence, "%s", hr_last_error());
    pthread_mutex_unlock(&work->lock);
}

/* Prepares one candidate that nobody has taken. False where there is none left or time is up. */
static bool prepare_next(preparing *work) {
    search *search = work->search;
    if (work->stop) return false;
    int i = atomic_fetch_add(&work->next, 1);
    if (i >= search->count || (i >= ALWAYS_PREPARED && hr_clock_seconds() > work->deadline)) return false;
    contender *contender = &search->contenders[i];
    hr_status status = search->trial->prepare(search->trial->context, &contender->choice);
    contender->alive = status == HR_OK;
    if (status != HR_OK) failure_keep(work, i, status);
    if (status == HR_CANCELLED) work->stop = true;
    atomic_fetch_add(&work->done, 1);
    return true;
}

static void *prepare_worker(void *context) {
    while (prepare_next(context)) {
    }
    return NULL;
}

static hr_status prepare_all(search *search) {
    preparing work = {.search = search, .deadline = hr_clock_seconds() + search->budget->prepare_seconds};
    pthread_t threads[PARALLEL_MAX];
    int started = 0, parallel = search->trial->parallel;
    pthread_mutex_init(&work.lock, NULL);
    while (started + 1 < parallel && started < PARALLEL_MAX && started + 1 < search->count &&
           pthread_create(&threads[started], NULL, prepare_worker, &work) == 0)
        started++;
    do { /* only the caller's thread tells progress */
        if (!told(search, "compiling candidates", work.done, search->count)) work.stop = true;
    } while (prepare_next(&work));
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&work.lock);
    return work.stop ? hr_fail(HR_CANCELLED, "tuning was stopped") : HR_OK;
}

/* ---- timing in turn ---- */

static double median(const contender *contender) {
    int n = contender->runs;
    const double *t = contender->times;
    if (!n) return INFINITY;
    return n % 2 ? t[n / 2] : 0.5 * (t[n / 2 - 1] + t[n / 2]);
}

/* How far the median may be off: half the distance between the quartiles over the root of the runs. */
static double uncertainty(const contender *contender) {
    int n = contender->runs;
    return 0.5 * (contender->times[(3 * (n - 1) + 2) / 4] - contender->times[(n - 1) / 4]) / sqrt(n);
}

static void time_insert(contender *contender, double seconds) {
    int i = contender->runs++;
    contender->rounds[i] = seconds;
    for (; i > 0 && contender->times[i - 1] > seconds; i--)
        contender->times[i] = contender->times[i - 1];
    contender->times[i] = seconds;
}

static int alive_count(const search *search) {
    int alive = 0;
    for (int i = 0; i < search->count; i++)
        alive += search->contenders[i].alive;
    return alive;
}

/* The fastest that is alive, other than `but`; NULL where there is none. */
static contender *fastest(const search *search, const contender *but) {
    contender *best = NULL;
    for (int i = 0; i < search->count; i++) {
        contender *contender = &search->contenders[i];
        if (contender->alive && contender != but && (!best || median(contender) < median(best)))
            best = contender;
    }
    return best;
}

/* By how much a candidate may be slower than the best after so many runs and stay. */
static double patience(int runs) {
    return runs < 3 ? INFINITY : runs < 5 ? 1.25 : runs < 8 ? 1.08 : 1.03;
}

/* Both the median and the best case must be slower: one disturbed stretch of time drops nobody. */
static void drop_slow(search *search) {
    const contender *best = fastest(search, NULL);
    for (int i = 0; best && i < search->count; i++) {
        contender *contender = &search->contenders[i];
        double limit = patience(contender->runs);
        if (contender->alive && contender != best && median(contender) > limit * median(best) &&
            contender->times[0] > (0.5 * (limit - 1) + 1) * best->times[0])
            contender->alive = false;
    }
}

/* True when more runs would not change the choice. */
static bool settled(const search *search) {
    const contender *best = fastest(search, NULL);
    const contender *next = fastest(search, best);
    if (!next) return true;
    if (best->runs < ROUNDS_MIN) return false;
    if (search->timed_seconds > BRIEF_SECONDS && median(best) < NEAR_FLOOR * search->budget->floor_seconds)
        return true;
    double doubt = uncertainty(best) + uncertainty(next);
    return median(next) - median(best) > 2 * doubt || doubt < 0.001 * median(best);
}

static int runs_left(const search *search, int round) {
    int rounds = search->budget->rounds < ROUNDS_MAX ? search->budget->rounds : ROUNDS_MAX;
    int alive = alive_count(search), left = 0;
    for (int r = round; r < rounds && r<ROUNDS_MIN + 3; r++, alive -= alive> 2 ? alive / 4 : 0)
        left += alive;
    return left > alive ? left : alive;
}

/* Times every candidate that is alive once; every other round backwards, so that a steady drift favours no
 * place in the round. */
static hr_status time_round(search *search, int round, double *done) {
    double total = *done + runs_left(search, round);
    for (int i = 0; i < search->count; i++) {
        contender *contender = &search->contenders[round % 2 ? search->count - 1 - i : i];
        double seconds = 0;
        if (!contender->alive) continue;
        hr_status status = search->trial->time(search->trial->context, &contender->choice, &seconds);
        if (status == HR_CANCELLED) return status;
        contender->alive = status == HR_OK && isfinite(seconds) && seconds >= 0;
        if (contender->alive) {
            time_insert(contender, seconds);
            search->timed_seconds += seconds;
        } else {
            contender->runs = 0; /* what failed once is no choice */
        }
        if (told(search, "timing candidates", ++*done, total)) continue;
        search->stopped = true;
        return hr_fail(HR_CANCELLED, "tuning was stopped");
    }
    return HR_OK;
}

static hr_status time_all(search *search) {
    double done = 0, deadline = hr_clock_seconds() + search->budget->measure_seconds;
    int rounds = search->budget->rounds < ROUNDS_MAX ? search->budget->rounds : ROUNDS_MAX;
    for (int round = 0; round < rounds && alive_count(search) > 0; round++) {
        if (round > 0 && (settled(search) || hr_clock_seconds() > deadline)) break;
        HR_TRY(time_round(search, round, &done));
        drop_slow(search);
    }
    return HR_OK;
}

/* ---- the choice ---- */

static int tried_order(const void *left, const void *right) {
    double a = ((const hr_tried *)left)->seconds, b = ((const hr_tried *)right)->seconds;
    return (a > b) - (a < b);
}

/* Faster by more than half a percent at the median, and in most of the rounds that both ran: two times of one
 * round were taken one after the other, so neither drift nor a disturbed stretch of time decides. */
static bool beats(const contender *challenger, const contender *incumbent) {
    if (!incumbent->alive) return true; /* it dropped out as clearly slower */
    int common = challenger->runs < incumbent->runs ? challenger->runs : incumbent->runs, wins = 0;
    for (int round = 0; round < common; round++)
        wins += challenger->rounds[round] < incumbent->rounds[round];
    return median(challenger) < CHALLENGE * median(incumbent) &&
           (common < ROUNDS_MIN ? wins == common : 3 * wins >= 2 * common);
}

static hr_status choose(search *search, hr_tuned *out) {
    const contender *best = fastest(search, NULL), *incumbent = &search->contenders[0];
    if (!best && search->first_failure != HR_OK)
        return hr_fail_again(search->first_failure, search->first_sentence);
    if (!best) return hr_fail(HR_INTERNAL, "not one of %d candidates could be timed", search->count);
    if (incumbent->runs && !beats(best, incumbent)) best = incumbent;
    out->best = best->choice;
    out->cached = false;
    out->tried_count = 0;
    for (int i = 0; i < search->count; i++) {
        const contender *contender = &search->contenders[i];
        if (!contender->runs) continue;
        out->tried[out->tried_count++] =
            (hr_tried){.choice = contender->choice, .seconds = median(contender), .runs = contender->runs};
    }
    qsort(out->tried, (size_t)out->tried_count, sizeof *out->tried, tried_order);
    out->seconds = hr_clock_seconds() - search->begun;
    return HR_OK;
}

/* Of what was timed until the search was stopped the fastest; of one candidate nothing is found. */
static hr_status choose_stopped(search *search, hr_tuned *out) {
    int timed = 0;
    for (int i = 0; i < search->count; i++)
        timed += search->contenders[i].runs > 0;
    if (timed > 1) HR_TRY(choose(search, out));
    return hr_fail(HR_CANCELLED, "tuning was stopped");
}

hr_status hr_tune_choose(const hr_choice *candidates, int count, const hr_tune_budget *budget,
                         const hr_trial *trial, hr_progress_fn progress, void *progress_context,
                         hr_tuned *out) {
    search search = {.budget = budget,
                     .trial = trial,
                     .progress = progress,
                     .progress_context = progress_context,
                     .begun = hr_clock_seconds()};
    int limit = budget->candidates < HR_TRIED_MAX ? budget->candidates : HR_TRIED_MAX;
    search.count = count < limit ? count : limit;
    if (search.count < 1) return hr_fail(HR_INTERNAL, "a search needs at least one candidate");
    search.contenders = calloc((size_t)search.count, sizeof *search.contenders);
    if (!search.contenders) return hr_fail(HR_OUT_OF_MEMORY, "no memory for %d candidates", search.count);
    for (int i = 0; i < search.count; i++)
        search.contenders[i].choice = candidates[i];
    hr_status status = prepare_all(&search);
    if (status == HR_OK) status = time_all(&search);
    if (status == HR_OK) status = choose(&search, out);
    if (status == HR_CANCELLED && search.stopped) status = choose_stopped(&search, out);
    free(search.contenders);
    return status;
}

/* ---- the best of each stage ---- */

/* The fastest that changes this stage and no other; NULL where the schedule's own is as fast. */
static const hr_tried *best_of(const hr_tuned *found, int stage, double own) {
    for (int i = 0; i < found->tried_count; i++) {
        const hr_tried *tried = &found->tried[i];
        const hr_setting *settings = tried->choice.settings;
        const int count = tried->choice.count;
        if (!(tried->seconds < CHALLENGE * own)) return NULL;
        if (count && settings[0].stage == stage && settings[count - 1].stage == stage) return tried;
    }
    return NULL;
}

bool hr_tune_combined(const hr_tuned *found, hr_choice *out) {
    double own = 0;
    int last = -1, parts = 0;
    *out = (hr_choice){0};
    for (int i = 0; i < found->tried_count; i++) {
        const hr_choice *choice = &found->tried[i].choice;
        if (!choice->count) own = found->tried[i].seconds;
        for (int k = 0; k < choice->count; k++)
            if (choice->settings[k].stage > last) last = choice->settings[k].stage;
    }
    for (int stage = 0; stage <= last; stage++) {
        const hr_tried *best = best_of(found, stage, own);
        const hr_knobs knobs = best ? hr_choice_knobs(&best->choice, stage) : (hr_knobs){0};
        parts += best && hr_choice_add(out, stage, &knobs);
    }
    return parts > 1;
}
