/* A diagnosis for a terminal: the verdict in three lines, where a step goes, the findings with their
 * evidence.
 *
 * In: a diagnosis and the terminal's style. Out: lines of text, the most important ones first.
 */
#include "base/handle.h"
#include "diagnose/diagnose.h"
#include "report/report_counters.h"
#include "report/report_memory.h"
#include "report/report_steps.h"
#include "report/sheet.h"

#include <math.h>
#include <string.h>

#define FINDINGS_IN_FULL 4
#define KERNELS_SHOWN    8
#define CHANGES_SHOWN    12

static const char *time_text(const hr_sheet *paper, double seconds, hr_words *out) {
    *out = hr_words_time(seconds, paper->style.unicode);
    return out->text;
}

/* Breaks at spaces; lines after the first one are indented. */
static void put_wrapped(hr_sheet *paper, hr_ink ink, const char *text, int indent) {
    int width = paper->style.width > indent + 24 ? paper->style.width - indent : 76;
    while (*text) {
        size_t length = strlen(text), room = (size_t)width;
        if (length > room) {
            length = room;
            while (length > room / 2 && text[length] != ' ')
                length--;
            if (text[length] != ' ') length = room;
        }
        while (length && ((unsigned char)text[length] & 0xc0) == 0x80) /* not inside of a sign */
            length--;
        char line[512];
        snprintf(line, sizeof line, "%.*s", (int)length, text);
        hr_sheet_put(paper, ink, line);
        hr_sheet_end_line(paper);
        text += strlen(line);
        text += strspn(text, " ");
        if (*text) hr_sheet_format(paper, HR_INK_PLAIN, "%*s", indent, "");
    }
}

/* ---- the first three lines ---- */

static const hr_finding *best_finding(const hr_diagnosis *diagnosis) {
    for (int i = 0; i < diagnosis->finding_count; i++)
        if (strcmp(diagnosis->findings[i].id, "healthy") != 0) return &diagnosis->findings[i];
    return NULL;
}

static void put_verdict(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    hr_words before, after;
    const hr_finding *best = best_finding(diagnosis);
    bool healthy = diagnosis->finding_count && strcmp(diagnosis->findings[0].id, "healthy") == 0;
    double step = diagnosis->lane->steps.mean;
    hr_sheet_label(paper, "limit");
    put_wrapped(paper, HR_INK_BOLD, diagnosis->verdict, 12);
    hr_sheet_label(paper, "remedy");
    if (!best) {
        put_wrapped(paper, HR_INK_PLAIN,
                    healthy                    ? "None known here would gain more than 5 % of a step."
                    : diagnosis->missing_count ? "Record more: see below."
                                               : "None is known.",
                    12);
        hr_sheet_label(paper, "gain");
        hr_sheet_put(paper, HR_INK_PLAIN, "nothing is predicted");
        hr_sheet_end_line(paper);
        return;
    }
    char line[640];
    bool unknown = strcmp(best->id, "incomplete-recording") == 0;
    snprintf(line, sizeof line, "%s%s", healthy ? "Nothing gains more than 5 %. The best: " : "",
             best->remedy);
    put_wrapped(paper, HR_INK_BOLD, line, 12);
    hr_sheet_label(paper, "gain");
    if (unknown)
        snprintf(line, sizeof line, "nothing is predicted: how long the device worked is not known");
    else
        snprintf(line, sizeof line, "%s -> %s a step, %s%.0f %% less (%s; %s)",
                 time_text(paper, step, &before), time_text(paper, step * (1 - best->gain), &after),
                 best->is_bound ? "at most " : "", 100 * best->gain,
                 best->is_bound ? "how much of it can go is not in this file" : "replayed", best->effort);
    put_wrapped(paper, unknown ? HR_INK_PLAIN : HR_INK_GOOD, line, 12);
}

/* ---- where the time went ---- */

static void put_heading(hr_sheet *paper, const char *text) {
    hr_sheet_end_line(paper);
    hr_sheet_put(paper, HR_INK_BOLD, text);
    hr_sheet_end_line(paper);
}

static void put_source(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    const hr_lane *lane = diagnosis->lane;
    const hr_trace *trace = diagnosis->trace;
    const hr_steps *steps = &lane->steps;
    hr_words mean, least, most;
    int counted = steps->count - steps->first;
    hr_sheet_label(paper, "steps");
    hr_sheet_format(paper, HR_INK_PLAIN, "%d, by %s", counted, steps->found_by);
    if (steps->first > steps->halted)
        hr_sheet_format(paper, HR_INK_PLAIN, ", after %d of warm-up", steps->first - steps->halted);
    if (steps->halted)
        hr_sheet_format(paper, HR_INK_PLAIN, ", after %d in which counters were read", steps->halted);
    hr_sheet_format(paper, HR_INK_PLAIN, "; mean %s", time_text(paper, steps->mean, &mean));
    if (counted > 1)
        hr_sheet_format(paper, HR_INK_DIM, ", %s to %s", time_text(paper, steps->min, &least),
                        time_text(paper, steps->max, &most));
    if (diagnosis->replayed_steps)
        hr_sheet_format(paper, HR_INK_DIM, "; gains and kernels of %d of them", diagnosis->replayed_steps);
    hr_sheet_end_line(paper);
    char modes[256];
    if (hr_modes_words(lane, paper->style.unicode, modes, sizeof modes)[0]) {
        hr_sheet_label(paper, "");
        put_wrapped(paper, HR_INK_FAIR, modes, 12);
    }
    hr_sheet_label(paper, "device");
    hr_sheet_format(paper, HR_INK_PLAIN, "%s%scomputes %.0f %% of the time",
                    lane->name[0] ? lane->name : "name not recorded", hr_sheet_dot(paper), 100 * lane->busy);
    if (trace->ranks.count > 1)
        hr_sheet_format(paper, HR_INK_PLAIN, "%s%lld ranks", hr_sheet_dot(paper),
                        (long long)trace->ranks.count);
    hr_sheet_end_line(paper);
    char sampled[256];
    if (!hr_sampled_words(lane, sampled, sizeof sampled)[0]) return;
    hr_sheet_label(paper, "sampled");
    put_wrapped(paper, HR_INK_PLAIN, sampled, 12);
}

static hr_ink kind_ink(hr_time_kind kind) {
    return hr_time_kind_group(kind) == HR_GROUP_COMPUTE ? HR_INK_GOOD
           : hr_time_kind_group(kind) == HR_GROUP_WAIT  ? HR_INK_FAIR
                                                        : HR_INK_POOR;
}

/* What the steps leave of the trace. */
static void put_outside(hr_sheet *paper, const hr_lane *lane) {
    char words[256];
    hr_words all;
    if (!hr_outside_words(lane, paper->style.unicode, words, sizeof words)[0]) return;
    hr_sheet_format(paper, HR_INK_PLAIN, "  %-38s", "outside of the steps");
    time_text(paper, lane->before_steps + lane->after_steps, &all);
    hr_sheet_format(paper, HR_INK_PLAIN, "%*s%s", 9 - hr_sheet_columns(all.text), "", all.text);
    hr_sheet_format(paper, HR_INK_DIM, "  %s", words);
    hr_sheet_end_line(paper);
}

static void put_account(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    const double *parts = diagnosis->lane->accounted;
    double step = diagnosis->lane->steps.mean;
    int width = paper->style.width - 62;
    width = width < 10 ? 10 : width > 40 ? 40 : width;
    put_heading(paper, "Where a step goes");
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++) {
        hr_words time;
        if (parts[i] < 0.002 * step) continue;
        hr_sheet_format(paper, HR_INK_PLAIN, "  %-38s", hr_time_kind_words(i));
        time_text(paper, parts[i], &time);
        hr_sheet_format(paper, HR_INK_PLAIN, "%*s%s %4.0f %%  ", 9 - hr_sheet_columns(time.text), "",
                        time.text, 100 * parts[i] / step);
        hr_sheet_bar(paper, kind_ink(i), parts[i] / step, width);
        hr_sheet_end_line(paper);
    }
    put_outside(paper, diagnosis->lane);
}

/* ---- findings ---- */

static void put_indented(hr_sheet *paper, hr_ink ink, const char *mark, const char *text) {
    hr_sheet_format(paper, HR_INK_DIM, "      %-8s", mark);
    put_wrapped(paper, ink, text, 14);
}

static void put_finding(hr_sheet *paper, const hr_finding *finding, bool full) {
    hr_words saved;
    hr_ink ink = finding->gain > 0.05 ? HR_INK_GOOD : HR_INK_PLAIN; /* a gain is nothing bad */
    if (strcmp(finding->id, "healthy") == 0) {
        hr_sheet_format(paper, HR_INK_GOOD, "   healthy  %s", finding->title);
        hr_sheet_end_line(paper);
        return;
    }
    bool unknown = strcmp(finding->id, "incomplete-recording") == 0;
    if (unknown)
        hr_sheet_put(paper, HR_INK_POOR, "     ?  ");
    else
        hr_sheet_format(paper, ink, "%s%3.0f %%  ", finding->is_bound ? "<" : " ", 100 * finding->gain);
    hr_sheet_format(paper, HR_INK_BOLD, "%s", finding->id);
    hr_sheet_format(paper, HR_INK_PLAIN, "  %s", finding->title);
    if (!unknown)
        hr_sheet_format(paper, HR_INK_DIM, " (%s%s a step; %s; confidence %.0f %%)",
                        finding->is_bound ? "at most " : "", time_text(paper, finding->seconds_saved, &saved),
                        finding->effort, 100 * finding->confidence);
    hr_sheet_end_line(paper);
    if (!full) return;
    for (int i = 0; i < finding->evidence_count; i++)
        put_indented(paper, HR_INK_PLAIN, i ? "" : "seen", finding->evidence[i].text);
    put_indented(paper, HR_INK_PLAIN, "do", finding->remedy);
    if (finding->code[0]) put_indented(paper, HR_INK_ACCENT, "", finding->code);
    if (finding->caveat[0]) put_indented(paper, HR_INK_DIM, "assumes", finding->caveat);
}

static void put_findings(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    hr_words before, after;
    double step = diagnosis->lane->steps.mean;
    int real = 0, replayed = 0;
    if (!diagnosis->finding_count) return;
    put_heading(paper, "Findings, by what they would gain of a step");
    for (int i = 0; i < diagnosis->finding_count; i++) {
        const hr_finding *finding = &diagnosis->findings[i];
        bool first = i == 0 || finding->gain >= 0.01;
        put_finding(paper, finding, real < FINDINGS_IN_FULL && first);
        real += strcmp(finding->id, "healthy") != 0;
        replayed += finding->gain > 0 && !finding->is_bound;
    }
    if (replayed < 2) return;
    hr_sheet_format(paper, HR_INK_PLAIN, "  All together: %s -> %s a step, %.0f %% less.",
                    time_text(paper, step, &before),
                    time_text(paper, step * (1 - diagnosis->combined_gain), &after),
                    100 * diagnosis->combined_gain);
    hr_sheet_end_line(paper);
}

/* ---- kernels ---- */

static void put_kernel(hr_sheet *paper, const hr_kernel_summary *kernel) {
    char occupancy[32] = "-", roof[64] = "-";
    hr_words time, median;
    if (kernel->occupancy >= 0) snprintf(occupancy, sizeof occupancy, "%.0f %%", 100 * kernel->occupancy);
    if (kernel->roof_fraction > 0)
        snprintf(roof, sizeof roof, "%.0f %% %s", 100 * kernel->roof_fraction, hr_bound_name(kernel->bound));
    time_text(paper, kernel->seconds, &time);
    time_text(paper, kernel->median, &median);
    hr_sheet_format(paper, HR_INK_PLAIN, " %3.0f %% %*s%s %8.4g %*s%s %6s %-12s ", 100 * kernel->share,
                    9 - hr_sheet_columns(time.text), "", time.text, kernel->per_step,
                    9 - hr_sheet_columns(median.text), "", median.text, occupancy, roof);
    int width = paper->style.width > 80 ? paper->style.width - 58 : 40;
    hr_sheet_format(paper, kernel->full_precision ? HR_INK_FAIR : HR_INK_PLAIN, "%.*s", width,
                    kernel->short_name);
    hr_sheet_end_line(paper);
}

static void put_kernels(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    if (!diagnosis->kernel_count) return;
    put_heading(paper, "Kernels");
    hr_sheet_format(paper, HR_INK_DIM, "  part      time launches    median  occup. roof         name");
    hr_sheet_end_line(paper);
    for (int i = 0; i < diagnosis->kernel_count && i < KERNELS_SHOWN; i++)
        put_kernel(paper, &diagnosis->kernels[i]);
    if (diagnosis->kernel_count > KERNELS_SHOWN) {
        hr_sheet_format(paper, HR_INK_DIM, "  and %d more: --json has all",
                        diagnosis->kernel_count - KERNELS_SHOWN);
        hr_sheet_end_line(paper);
    }
}

/* ---- ranks ---- */

static void put_ranks(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    const hr_trace *trace = diagnosis->trace;
    if (diagnosis->lane_count < 2) return;
    put_heading(paper, "Ranks and devices, the slowest by its own work first");
    hr_sheet_format(paper, HR_INK_DIM, "  rank device      step  computes  communicates  hidden");
    hr_sheet_end_line(paper);
    for (int i = 0; i < diagnosis->lane_count && i < 16; i++) {
        const hr_lane *lane = &diagnosis->lanes[i];
        hr_words step, communication;
        time_text(paper, lane->steps.mean, &step);
        time_text(paper, lane->communication, &communication);
        hr_sheet_format(paper, HR_INK_PLAIN, "  %4d %6d %*s%s  %6.0f %%  %*s%s",
                        trace->ranks.items[lane->rank].rank, lane->device, 9 - hr_sheet_columns(step.text),
                        "", step.text, 100 * lane->busy, 12 - hr_sheet_columns(communication.text), "",
                        communication.text);
        if (lane->communication > 0)
            hr_sheet_format(paper, HR_INK_PLAIN, "  %4.0f %%",
                            100 * lane->hidden_communication / lane->communication);
        hr_sheet_end_line(paper);
    }
}

/* ---- what is not known ---- */

static void put_limits(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    const hr_trace *trace = diagnosis->trace;
    bool some = diagnosis->missing_count || diagnosis->note_count || trace->skipped.count;
    for (int64_t i = 0; i < trace->ranks.count; i++)
        some |= trace->ranks.items[i].truncated || trace->ranks.items[i].killed;
    if (!some) return;
    put_heading(paper, "What this trace does not show");
    for (int i = 0; i < diagnosis->missing_count; i++) {
        hr_sheet_put(paper, HR_INK_PLAIN, "  record ");
        put_wrapped(paper, HR_INK_PLAIN, diagnosis->missing[i], 9);
    }
    for (int i = 0; i < diagnosis->note_count; i++) {
        hr_sheet_put(paper, HR_INK_FAIR, "  ");
        put_wrapped(paper, HR_INK_FAIR, diagnosis->notes[i], 2);
    }
    for (int64_t i = 0; i < trace->ranks.count; i++)
        if (trace->ranks.items[i].truncated) {
            hr_sheet_format(paper, HR_INK_FAIR, "  %s ends early: what was read stands",
                            trace->ranks.items[i].path);
            hr_sheet_end_line(paper);
        }
    for (int64_t i = 0; i < trace->skipped.count; i++) {
        hr_sheet_format(paper, HR_INK_DIM, "  left out: %lld %s", (long long)trace->skipped.items[i].count,
                        trace->skipped.items[i].reason);
        hr_sheet_end_line(paper);
    }
}

/* ---- before and after ---- */

static void put_signed(hr_sheet *paper, double before, double after) {
    hr_words from, to, by;
    time_text(paper, before, &from);
    time_text(paper, after, &to);
    time_text(paper, fabs(after - before), &by);
    hr_ink ink = after < before ? HR_INK_GOOD : HR_INK_POOR;
    hr_sheet_format(paper, HR_INK_PLAIN, "%*s%s %*s%s ", 10 - hr_sheet_columns(from.text), "", from.text,
                    10 - hr_sheet_columns(to.text), "", to.text);
    bool same = fabs(after - before) < 0.5e-9;
    if (same) {
        hr_sheet_format(paper, HR_INK_PLAIN, "%11s  ", "same");
        return;
    }
    hr_sheet_format(paper, ink, "%*s%c%s  ", 10 - hr_sheet_columns(by.text), "", after < before ? '-' : '+',
                    by.text);
}

static void put_comparison(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    const hr_lane *before = diagnosis->lane, *after = diagnosis->after->lane;
    double from = before->steps.mean, to = after->steps.mean;
    hr_words first, second;
    hr_sheet_label(paper, "step");
    hr_sheet_format(paper, HR_INK_BOLD, "%s -> %s", time_text(paper, from, &first),
                    time_text(paper, to, &second));
    hr_sheet_format(paper, to <= from ? HR_INK_GOOD : HR_INK_POOR, ", %.1f %% %s",
                    100 * fabs(to - from) / from, to <= from ? "less" : "more");
    hr_sheet_end_line(paper);
    hr_sheet_label(paper, "before");
    put_wrapped(paper, HR_INK_PLAIN, diagnosis->verdict, 12);
    hr_sheet_label(paper, "after");
    put_wrapped(paper, HR_INK_PLAIN, diagnosis->after->verdict, 12);
    if (diagnosis->apart) {
        char line[400];
        snprintf(line, sizeof line, "before and after, not as ranks of one run: %s", diagnosis->apart);
        hr_sheet_label(paper, "taken as");
        put_wrapped(paper, HR_INK_FAIR, line, 12);
    }
    put_heading(paper, "By kind");
    hr_sheet_format(paper, HR_INK_DIM, "    before      after     change");
    hr_sheet_end_line(paper);
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++) {
        if (before->accounted[i] < 0.002 * from && after->accounted[i] < 0.002 * to) continue;
        put_signed(paper, before->accounted[i], after->accounted[i]);
        hr_sheet_format(paper, HR_INK_PLAIN, "%s", hr_time_kind_words(i));
        hr_sheet_end_line(paper);
    }
    put_heading(paper, "By kernel");
    for (int i = 0; i < diagnosis->change_count && i < CHANGES_SHOWN; i++) {
        const hr_change *change = &diagnosis->changes[i];
        if (fabs(change->after - change->before) < 0.001 * from) continue;
        put_signed(paper, change->before, change->after);
        hr_sheet_format(paper, HR_INK_PLAIN, "%s", change->name);
        hr_sheet_format(paper, HR_INK_DIM, "  %.4g -> %.4g launches", change->before_count,
                        change->after_count);
        hr_sheet_end_line(paper);
    }
    put_heading(paper, "What is left after the change");
}

static void put_diagnosis(hr_sheet *paper, const hr_diagnosis *diagnosis) {
    put_verdict(paper, diagnosis);
    put_source(paper, diagnosis);
    put_account(paper, diagnosis);
    put_findings(paper, diagnosis);
    put_kernels(paper, diagnosis);
    hr_counters_text(paper, diagnosis, KERNELS_SHOWN);
    hr_memory_text(paper, diagnosis);
    put_ranks(paper, diagnosis);
    put_limits(paper, diagnosis);
}

hr_status hr_report_diagnosis_text(const hr_diagnosis *diagnosis, const hr_report_style *style, char **out) {
    HR_TRY(hr_handle_check(diagnosis, HR_HANDLE_DIAGNOSIS, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_sheet paper = hr_sheet_begin(style);
    if (diagnosis->after) {
        put_comparison(&paper, diagnosis);
        put_diagnosis(&paper, diagnosis->after);
    } else {
        put_diagnosis(&paper, diagnosis);
    }
    return hr_text_give(&paper.text, out);
}
