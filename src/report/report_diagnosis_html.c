/* A diagnosis as one self-contained page: the verdict, where a step goes, its timeline, the findings with
 * what each would gain, the kernels.
 *
 * In: a diagnosis. Out: HTML with its style and script inside; nothing is fetched. All text from the trace
 * passes hr_html_escape or hr_json_string.
 */
#include "base/handle.h"
#include "report/diagnosis_page.h"
#include "report/page_text.h"
#include "report/report_counters.h"
#include "report/report_memory.h"
#include "report/report_steps.h"

#include <math.h>
#include <string.h>

#define KERNELS_SHOWN 24
#define CHANGES_SHOWN 20
#define LEAST_SHOWN   0.002 /* of a step */
#define SMALL_GAIN    0.05  /* of a step: nobody needs to do that first */

static const char *time_text(double seconds, hr_words *out) {
    *out = hr_words_time(seconds, true);
    return out->text;
}

static bool is_healthy(const hr_finding *finding) {
    return strcmp(finding->id, "healthy") == 0;
}

/* What the recording lacks has no gain. */
static bool is_doubt(const hr_finding *finding) {
    return strcmp(finding->id, "incomplete-recording") == 0;
}

static const hr_finding *best_of(const hr_diagnosis *diagnosis) {
    for (int i = 0; i < diagnosis->finding_count; i++)
        if (!is_healthy(&diagnosis->findings[i])) return &diagnosis->findings[i];
    return NULL;
}

/* Numbers keep together with their units: "5 ms" never breaks. */
static void write_kept(hr_text *out, const char *text) {
    char piece[2] = {0};
    for (const char *at = text; *at; at++) {
        bool after_digit = at > text && at[-1] >= '0' && at[-1] <= '9';
        if (*at == ' ' && after_digit) {
            hr_text_format(out, "\u00a0");
            continue;
        }
        piece[0] = *at;
        if ((unsigned char)*at < 0x80)
            hr_html_escape(out, piece);
        else
            hr_text_append(out, at, 1);
    }
}

/* ---- the head ---- */

static const char *file_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static const char *source_words(const char *source) {
    static const char *const words[][2] = {{"kineto", "PyTorch's profiler"},
                                           {"nsys", "Nsight Systems"},
                                           {"ncu", "Nsight Compute"},
                                           {"jax", "JAX's profiler"},
                                           {"headroom", "headroom record"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], source) == 0) return words[i][1];
    return source;
}

static void write_source(hr_text *out, const hr_diagnosis *diagnosis) {
    const hr_trace *trace = diagnosis->trace;
    hr_text_format(out, "<p class='about'>");
    if (trace->ranks.count) {
        hr_html_escape(out, file_name(trace->ranks.items[0].path));
        int64_t others = 0; /* one file may hold several ranks */
        for (int64_t i = 1; i < trace->ranks.count; i++)
            others += strcmp(trace->ranks.items[i].path, trace->ranks.items[i - 1].path) != 0;
        if (others) hr_text_format(out, " and %lld more", (long long)others);
        hr_text_format(out, " · recorded by %s", source_words(trace->ranks.items[0].source));
    }
    if (diagnosis->lane->name[0]) {
        hr_text_format(out, " · ");
        hr_html_escape(out, diagnosis->lane->name);
    }
    hr_text_format(out, "</p>");
}

static void write_big(hr_text *out, const hr_diagnosis *diagnosis, const hr_finding *best) {
    hr_words now, then;
    double step = diagnosis->lane->steps.mean;
    bool healthy = diagnosis->finding_count && is_healthy(&diagnosis->findings[0]);
    if (best && !healthy && !is_doubt(best))
        hr_text_format(
            out,
            "<div class='big'><b class='%s'>%s−%.0f %%</b><span>of a step by the first remedy:<br>%s "
            "→ %s</span></div>",
            best->gain > SMALL_GAIN ? "good" : "", best->is_bound ? "≤ " : "", 100 * best->gain,
            time_text(step, &now), time_text(step * (1 - best->gain), &then));
    else
        hr_text_format(out, "<div class='big'><b class='%s'>%s</b><span>a step</span></div>",
                       healthy ? "good" : "", time_text(step, &now));
}

static void write_header(hr_text *out, const hr_diagnosis *diagnosis) {
    const hr_finding *best = best_of(diagnosis);
    hr_text_format(out, "<header><div>");
    write_source(out, diagnosis);
    hr_text_format(out, "<h1 class='verdict'>");
    write_kept(out, diagnosis->verdict);
    hr_text_format(out, "</h1>");
    if (best) {
        if (best->gain > SMALL_GAIN || is_doubt(best))
            hr_text_format(out, "<p class='remedy'><b>Do this first:</b> ");
        else
            hr_text_format(out, "<p class='remedy'><b>No remedy gains much; the best, %s of a step:</b> ",
                           hr_words_percent(best->gain).text);
        hr_html_escape(out, best->remedy);
        hr_text_format(out, "</p>");
    }
    hr_text_format(out, "</div>");
    write_big(out, diagnosis, best);
    hr_text_format(out, "</header>\n");
}

static void write_fact(hr_text *out, const char *name, const char *value, const char *note) {
    hr_text_format(out, "<div class='fact'><dt>%s</dt><dd>", name);
    hr_html_escape(out, value);
    hr_text_format(out, "<small>");
    hr_html_escape(out, note);
    hr_text_format(out, "</small></dd></div>\n");
}

static void write_facts(hr_text *out, const hr_diagnosis *diagnosis) {
    const hr_lane *lane = diagnosis->lane;
    const hr_steps *steps = &lane->steps;
    hr_words low, high, value;
    char text[64], note[400];
    double launches = 0;
    for (int i = 0; i < diagnosis->kernel_count; i++)
        launches += diagnosis->kernels[i].per_step;
    hr_text_format(out, "<dl class='facts'>\n");
    int counted = steps->count - steps->first;
    char modes[256];
    bool differ = hr_modes_words(lane, true, modes, sizeof modes)[0];
    snprintf(note, sizeof note, "mean of %d, %s to %s; by %s%s%s", counted, time_text(steps->min, &low),
             time_text(steps->max, &high), steps->found_by, differ ? "; " : "", modes);
    if (counted < 2) snprintf(note, sizeof note, "%s", steps->found_by);
    write_fact(out, "a step", time_text(steps->mean, &value), note);
    snprintf(text, sizeof text, "%.0f %%", 100 * lane->busy);
    write_fact(out, "device computes", text, "of the time");
    if (lane->sampled.sm_active >= 0) {
        snprintf(text, sizeof text, "%.0f %%", 100 * lane->sampled.sm_active);
        const char *others = strstr(hr_sampled_words(lane, note, sizeof note), ", ");
        write_fact(out, "multiprocessors active", text, others ? others + 2 : "");
    }
    snprintf(text, sizeof text, "%.0f", launches);
    write_fact(out, "kernels a step", text, "");
    if (best_of(diagnosis)) {
        snprintf(text, sizeof text, "−%.0f %%", 100 * diagnosis->combined_gain);
        snprintf(note, sizeof note, "%s a step",
                 time_text(steps->mean * (1 - diagnosis->combined_gain), &value));
        write_fact(out, "all remedies together", text, note);
    }
    if (hr_outside_words(lane, true, note, sizeof note)[0])
        write_fact(out, "outside of the steps", time_text(lane->before_steps + lane->after_steps, &value),
                   note);
    hr_text_format(out, "</dl>\n");
}

/* ---- where the time went ---- */

/* Whose step a picture shows: "rank 1 of 2, gpu 1: the slowest of 2 by its own work". */
static void write_heading(hr_text *out, const hr_diagnosis *diagnosis, const char *title) {
    const hr_lane *lane = diagnosis->lane;
    const hr_rank *rank = &diagnosis->trace->ranks.items[lane->rank];
    bool several = diagnosis->lane_count > 1;
    hr_text_format(out, "<h2>%s", title);
    if (several || rank->rank >= 0) {
        hr_text_format(out, "<span class='whose'>rank %d", rank->rank >= 0 ? rank->rank : lane->rank);
        if (rank->world > 1) hr_text_format(out, " of %d", rank->world);
        if (lane->device >= 0) hr_text_format(out, ", gpu %d", lane->device);
        if (several)
            hr_text_format(out, ": the slowest of the %d here by its own work", diagnosis->lane_count);
        hr_text_format(out, "</span>");
    }
    hr_text_format(out, "</h2>");
}

static void write_stack(hr_text *out, const double *parts, double whole, const char *class) {
    hr_text_format(out, "<div class='stack %s' role='img' aria-label='where a step goes'>", class);
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++) {
        hr_words time;
        if (!(parts[i] > 0)) continue;
        hr_text_format(out, "<i class='k%d' style='width:%.3f%%' title='%s, %s'></i>", i,
                       100 * parts[i] / whole, hr_time_kind_words((hr_time_kind)i),
                       time_text(parts[i], &time));
    }
    hr_text_format(out, "</div>");
}

/* Under its part of the bar as much of each label as has room; on narrow screens all of them in a line. */
static void write_groups(hr_text *out, const double *parts, double whole) {
    static const char *const words[] = {"computes", "exposed transfers", "idle"};
    double sums[3] = {0};
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++)
        sums[hr_time_kind_group((hr_time_kind)i)] += parts[i];
    hr_text_format(out, "<div class='groups'>");
    for (int i = 0; i < 3; i++) {
        double part = sums[i] / whole;
        if (!(part > 0)) continue;
        hr_text_format(out, "<span class='%s' style='width:%.3f%%'><b>%s </b>%.0f %%</span>",
                       part > 0.12   ? ""
                       : part > 0.03 ? "tight"
                                     : "tiny",
                       100 * part, words[i], 100 * part);
    }
    hr_text_format(out, "</div>");
}

static void write_legend(hr_text *out, const double *parts, double whole) {
    hr_text_format(out, "<div class='legend'>\n");
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++) {
        hr_words time;
        if (parts[i] < LEAST_SHOWN * whole) continue;
        hr_text_format(
            out, "<div><i class='k%d'></i><span>%s</span><span>%s</span><small>%.1f %%</small></div>\n", i,
            hr_time_kind_words((hr_time_kind)i), time_text(parts[i], &time), 100 * parts[i] / whole);
    }
    hr_text_format(out, "</div>");
}

static double sum_of(const double *parts) {
    double sum = 0;
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++)
        sum += parts[i];
    return sum > 0 ? sum : 1;
}

static void write_account(hr_text *out, const hr_diagnosis *diagnosis) {
    const double *parts = diagnosis->lane->accounted;
    double whole = sum_of(parts);
    hr_text_format(out, "<section>");
    write_heading(out, diagnosis, "Where a step goes");
    write_stack(out, parts, whole, "");
    write_groups(out, parts, whole);
    write_legend(out, parts, whole);
    hr_text_format(out, "</section>\n");
}

static hr_status write_timeline(hr_text *out, const hr_diagnosis *diagnosis) {
    int64_t left_out = 0;
    hr_text_format(out, "<section><div class='bar-head'>");
    write_heading(out, diagnosis, "The median step, on the timeline");
    hr_text_format(out, "<nav>"
                        "<button id='zoom-out' aria-label='zoom out'>−</button>"
                        "<button id='zoom-in' aria-label='zoom in'>+</button>"
                        "<button id='zoom-step'>the whole step</button></nav></div>\n"
                        "<canvas id='timeline' tabindex='0' aria-label='timeline'></canvas>\n"
                        "<p id='slice'></p>\n<script type='application/json' id='data'>");
    HR_TRY(hr_timeline_json(out, diagnosis, &left_out));
    hr_text_format(out, "</script>\n");
    if (left_out)
        hr_text_format(out,
                       "<p class='note'>%lld slices that are too short or too deep to be seen are left "
                       "out.</p>",
                       (long long)left_out);
    hr_text_format(out, "</section>\n");
    return HR_OK;
}

/* ---- findings ---- */

static void write_whatif(hr_text *out, double step, double gain) {
    hr_words now, then;
    hr_text_format(out,
                   "<div class='whatif'><span>now</span><div><i style='width:100%%'></i></div><b>%s</b>"
                   "<span>then</span><div class='then'><i style='width:%.2f%%'></i></div><b>%s</b></div>",
                   time_text(step, &now), 100 * (1 - gain), time_text(step * (1 - gain), &then));
}

static void write_finding(hr_text *out, const hr_diagnosis *diagnosis, int number) {
    const hr_finding *finding = &diagnosis->findings[number];
    hr_words saved;
    const char *grade = finding->gain > SMALL_GAIN ? "good" : "";
    hr_text_format(out, "<div class='finding'><div class='gain %s'>", is_healthy(finding) ? "good" : grade);
    if (is_healthy(finding))
        hr_text_format(out, "✓");
    else if (is_doubt(finding))
        hr_text_format(out, "?");
    else
        hr_text_format(out, "%s−%.0f %%<small>%s a step<br>%s<br>confidence %.0f %%</small>",
                       finding->is_bound ? "≤ " : "", 100 * finding->gain,
                       time_text(finding->seconds_saved, &saved), finding->effort, 100 * finding->confidence);
    hr_text_format(out, "</div><div><h3>");
    hr_html_escape(out, finding->title);
    hr_text_format(out, "<span class='tag'>%s</span></h3>", finding->id);
    if (finding->evidence_count) hr_text_format(out, "<ul>");
    for (int i = 0; i < finding->evidence_count; i++) {
        hr_text_format(out, "<li>");
        hr_html_escape(out, finding->evidence[i].text);
        hr_text_format(out, "</li>");
    }
    if (finding->evidence_count) hr_text_format(out, "</ul>");
    if (!is_healthy(finding)) {
        hr_text_format(out, "<p>");
        hr_html_escape(out, finding->remedy);
        hr_text_format(out, "</p>");
        if (finding->code[0]) {
            hr_text_format(out, "<pre>");
            hr_html_escape(out, finding->code);
            hr_text_format(out, "</pre>");
        }
        if (!is_doubt(finding)) write_whatif(out, diagnosis->lane->steps.mean, finding->gain);
    }
    if (finding->caveat[0]) {
        hr_text_format(out, "<p class='assumes'>Assumes that ");
        hr_html_escape(out, finding->caveat);
        hr_text_format(out, ".</p>");
    }
    if (finding->event_count)
        hr_text_format(out, "<button data-finding='%d'>show on the timeline</button>", number);
    hr_text_format(out, "</div></div>\n");
}

static void write_findings(hr_text *out, const hr_diagnosis *diagnosis) {
    hr_words now, then;
    double step = diagnosis->lane->steps.mean;
    if (!diagnosis->finding_count) return;
    hr_text_format(out, "<section><h2>Findings, by what they would gain of a step</h2>\n");
    for (int i = 0; i < diagnosis->finding_count; i++)
        write_finding(out, diagnosis, i);
    if (diagnosis->finding_count > 1 && diagnosis->combined_gain > 0)
        hr_text_format(out,
                       "<p class='together'>All together, replayed at once: <b>%s → %s</b> a step, "
                       "%.0f %% less.</p>",
                       time_text(step, &now), time_text(step * (1 - diagnosis->combined_gain), &then),
                       100 * diagnosis->combined_gain);
    hr_text_format(out, "</section>\n");
}

/* ---- kernels ---- */

static void write_kernel(hr_text *out, const hr_diagnosis *diagnosis, const hr_kernel_summary *kernel,
                         double most) {
    hr_words time, median;
    char occupancy[48] = "–", roof[64] = "–";
    const char *full = hr_trace_string(diagnosis->trace, kernel->name);
    if (kernel->occupancy >= 0) {
        bool limited = kernel->limiter > HR_LIMITER_NONE && kernel->occupancy < 0.995;
        snprintf(occupancy, sizeof occupancy, "%.0f %%%s%s", 100 * kernel->occupancy, limited ? ", " : "",
                 limited ? hr_limiter_name(kernel->limiter) : "");
    }
    if (kernel->roof_fraction > 0)
        snprintf(roof, sizeof roof, "%.0f %% %s", 100 * kernel->roof_fraction, hr_bound_name(kernel->bound));
    hr_text_format(
        out,
        "<tr><td style='white-space:nowrap'><span class='share k%d' style='width:%.0fpx'></span>%.1f %%</td>"
        "<td class='right'>%s</td><td class='right'>%.4g</td><td class='right'>%s</td>"
        "<td>%s</td><td>%s</td><td class='kernel' title='",
        (int)kernel->kind, 70 * kernel->share / most, 100 * kernel->share, time_text(kernel->seconds, &time),
        kernel->per_step, time_text(kernel->median, &median), occupancy, roof);
    hr_html_escape(out, full);
    hr_text_format(out, "'>");
    hr_html_escape(out, kernel->short_name);
    if (kernel->operator_name >= 0) {
        hr_text_format(out, "<small>");
        hr_html_escape(out, hr_trace_string(diagnosis->trace, kernel->operator_name));
        hr_text_format(out, "</small>");
    }
    hr_text_format(out, "</td></tr>\n");
}

static void write_kernels(hr_text *out, const hr_diagnosis *diagnosis) {
    if (!diagnosis->kernel_count) return;
    hr_text_format(out, "<section><h2>Kernels</h2><div class='scroll'><table class='kernels'><tr>"
                        "<th>of a step</th><th class='right'>time a step</th><th class='right'>launches</th>"
                        "<th class='right'>median</th><th>occupancy</th><th>of the roof</th><th>kernel, and "
                        "the operator that launches it</th></tr>\n");
    double most = fmax(diagnosis->kernels[0].share, 1e-9);
    for (int i = 0; i < diagnosis->kernel_count && i < KERNELS_SHOWN; i++)
        write_kernel(out, diagnosis, &diagnosis->kernels[i], most);
    hr_text_format(out, "</table></div>");
    if (diagnosis->kernel_count > KERNELS_SHOWN)
        hr_text_format(out, "<p class='note'>%d others take less.</p>",
                       diagnosis->kernel_count - KERNELS_SHOWN);
    hr_text_format(out, "</section>\n");
}

static void write_roofline(hr_text *out, const hr_diagnosis *diagnosis) {
    if (!hr_kernels_have_roofline(diagnosis)) return;
    hr_text_format(out, "<section><h2>Kernels under the roof</h2>\n");
    hr_svg_kernels(out, diagnosis);
    hr_text_format(out, "<p class='note'>A kernel on a line is as fast as the device allows; the larger its "
                        "dot, the more of a step it takes. Roofs: ");
    hr_html_escape(out, diagnosis->ceiling.source[0] ? diagnosis->ceiling.source : "not known");
    hr_text_format(out, ".</p></section>\n");
}

/* ---- ranks, a comparison, what is missing ---- */

static void write_ranks(hr_text *out, const hr_diagnosis *diagnosis) {
    if (diagnosis->lane_count < 2) return;
    hr_text_format(out, "<section><h2>Ranks</h2><div class='scroll'><table><tr><th>rank, device</th>"
                        "<th class='right'>a step</th><th class='right'>computes</th><th "
                        "style='width:55%%'>where it goes</th></tr>\n");
    for (int i = 0; i < diagnosis->lane_count; i++) {
        const hr_lane *lane = &diagnosis->lanes[i];
        const hr_rank *rank = &diagnosis->trace->ranks.items[lane->rank];
        hr_words time;
        hr_text_format(out,
                       "<tr><td>%d, gpu %d</td><td class='right'>%s</td><td class='right'>%.0f %%</td><td>",
                       rank->rank >= 0 ? rank->rank : lane->rank, lane->device,
                       time_text(lane->steps.mean, &time), 100 * lane->busy);
        write_stack(out, lane->accounted, sum_of(lane->accounted), "thin");
        hr_text_format(out, "</td></tr>\n");
    }
    hr_text_format(out, "</table></div></section>\n");
}

static void write_change(hr_text *out, const hr_change *change) {
    hr_words before, after, by;
    bool less = change->after < change->before;
    hr_text_format(
        out,
        "<tr><td class='right'>%s</td><td class='right'>%s</td><td class='right change-%s'>%s%s</td>"
        "<td class='right'>%.4g → %.4g</td><td class='kernel'>",
        time_text(change->before, &before), time_text(change->after, &after), less ? "down" : "up",
        less ? "−" : "+", time_text(fabs(change->after - change->before), &by), change->before_count,
        change->after_count);
    hr_html_escape(out, change->name);
    hr_text_format(out, "</td></tr>\n");
}

static void write_comparison(hr_text *out, const hr_diagnosis *before) {
    const hr_diagnosis *after = before->after;
    hr_words from, to;
    double first = before->lane->steps.mean, second = after->lane->steps.mean;
    double longer = fmax(fmax(first, second), 1e-12);
    hr_text_format(out, "<section><h2>Before and after</h2><p><b>%s → %s</b> a step</p>\n",
                   time_text(first, &from), time_text(second, &to));
    const hr_diagnosis *both[] = {before, after};
    for (int i = 0; i < 2; i++) {
        double step = both[i]->lane->steps.mean;
        hr_text_format(out, "<p class='note' style='margin:8px 0 4px'>%s: ", i ? "after" : "before");
        hr_html_escape(out, both[i]->verdict);
        hr_text_format(out, "</p><div style='width:%.2f%%'>", 100 * step / longer);
        write_stack(out, both[i]->lane->accounted, sum_of(both[i]->lane->accounted), "");
        hr_text_format(out, "</div>");
    }
    hr_text_format(out, "<div class='scroll' style='margin-top:16px'><table class='kernels'><tr><th "
                        "class='right'>before</th><th class='right'>after</th><th class='right'>change</th>"
                        "<th class='right'>launches</th><th>kernel</th></tr>\n");
    for (int i = 0; i < before->change_count && i < CHANGES_SHOWN; i++)
        if (fabs(before->changes[i].after - before->changes[i].before) > 0.0005 * first)
            write_change(out, &before->changes[i]);
    hr_text_format(out, "</table></div></section>\n");
}

static void write_limits(hr_text *out, const hr_diagnosis *diagnosis) {
    const hr_trace *trace = diagnosis->trace;
    int64_t early = 0;
    for (int64_t i = 0; i < trace->ranks.count; i++)
        early += trace->ranks.items[i].truncated || trace->ranks.items[i].killed;
    if (!diagnosis->missing_count && !diagnosis->note_count && !trace->skipped.count && !early) return;
    hr_text_format(out, "<section><h2>What this trace does not show</h2><ul>\n");
    for (int i = 0; i < diagnosis->missing_count; i++) {
        hr_text_format(out, "<li>To learn more, record ");
        hr_html_escape(out, diagnosis->missing[i]);
        hr_text_format(out, "</li>\n");
    }
    for (int i = 0; i < diagnosis->note_count; i++) {
        hr_text_format(out, "<li>");
        hr_html_escape(out, diagnosis->notes[i]);
        hr_text_format(out, "</li>\n");
    }
    if (early)
        hr_text_format(out, "<li>%lld file(s) end early: what was read stands.</li>\n", (long long)early);
    for (int64_t i = 0; i < trace->skipped.count; i++) {
        hr_text_format(out, "<li>Left out: %lld ", (long long)trace->skipped.items[i].count);
        hr_html_escape(out, trace->skipped.items[i].reason);
        hr_text_format(out, "</li>\n");
    }
    hr_text_format(out, "</ul></section>\n");
}

/* The sheet, and kinds of time by number: --k0 for the script, the class k0 for bars. */
static void write_style(hr_text *out) {
    hr_text_format(out, "<style>%s:root {", (const char *)hr_page_style_text);
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++)
        hr_text_format(out, " --k%d: var(--kind-%s);", i, hr_time_kind_name((hr_time_kind)i));
    hr_text_format(out, " }\n");
    for (int i = 0; i < HR_TIME_KIND_COUNT; i++)
        hr_text_format(out, ".k%d { background: var(--k%d) }\n", i, i);
    hr_text_format(out, "</style>\n");
}

static hr_status write_page(hr_text *out, const hr_diagnosis *diagnosis) {
    const hr_diagnosis *now = diagnosis->after ? diagnosis->after : diagnosis;
    hr_html_head(out, now->verdict);
    write_style(out);
    write_header(out, now);
    if (diagnosis->after) write_comparison(out, diagnosis);
    write_facts(out, now);
    write_account(out, now);
    HR_TRY(write_timeline(out, now));
    write_findings(out, now);
    write_kernels(out, now);
    hr_counters_html(out, now, KERNELS_SHOWN);
    hr_memory_html(out, now);
    write_roofline(out, now);
    write_ranks(out, now);
    write_limits(out, now);
    hr_text_format(out, "<script>");
    hr_text_format(out, "%s", (const char *)hr_page_script_text);
    hr_text_format(out, "</script>\n");
    hr_html_foot(out, 0);
    return HR_OK;
}

hr_status hr_report_diagnosis_html(const hr_diagnosis *diagnosis, char **out) {
    HR_TRY(hr_handle_check(diagnosis, HR_HANDLE_DIAGNOSIS, __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    hr_text page = {0};
    hr_status status = write_page(&page, diagnosis);
    if (status == HR_OK) return hr_text_give(&page, out);
    hr_text_clear(&page);
    return status;
}
