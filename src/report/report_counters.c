/* Hardware counters in the reports. In: the table of kernels, a lane's samples. Out: tables of text and HTML
 * with the same columns, a sentence. */
#include "report/report_counters.h"

#include <string.h>

const char *hr_sampled_words(const hr_lane *lane, char *out, size_t size) {
    const hr_sampled *sampled = &lane->sampled;
    const struct {
        const char *before, *after;
        double part;
    } parts[] = {{"multiprocessors ", " active", sampled->sm_active},
                 {"tensor cores ", "", sampled->tensor_active},
                 {"DRAM at ", " of its peak", sampled->dram},
                 {"", " of the warps there", sampled->warps_active}};
    size_t length = 0;
    out[0] = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].part >= 0 && length < size)
            length += (size_t)snprintf(out + length, size - length, "%s%s%.0f %%%s", length ? ", " : "",
                                       parts[i].before, 100 * parts[i].part, parts[i].after);
    return out;
}

/* ---- cells ---- */

#define COLUMNS 11
#define CELL    48
static const char *const titles[COLUMNS] = {"DRAM",       "of peak",      "SM busy", "tensor",
                                            "L1 hit",     "L2 hit",       "warps",   "tensor ops",
                                            "vector ops", "sectors/load", "/store"};
static const int widths[COLUMNS] = {9, 8, 8, 7, 7, 7, 6, 11, 11, 13, 7};

typedef struct cells {
    char text[COLUMNS][CELL];
} cells;

static void set_part(char *cell, double part) {
    if (part >= 0) snprintf(cell, CELL, "%.0f %%", 100 * part);
}

/* 1234567 -> "1.2M" */
static void set_count(char *cell, double count) {
    static const char prefixes[] = " kMGT";
    int prefix = 0;
    if (count < 0) return;
    while (count >= 999.5 && prefix < 4) {
        count /= 1000;
        prefix++;
    }
    snprintf(cell, CELL, prefix ? "%.3g%c" : "%.0f", count, prefixes[prefix]);
}

static cells cells_of(const hr_kernel_summary *kernel) {
    cells cells;
    for (int i = 0; i < COLUMNS; i++)
        snprintf(cells.text[i], sizeof cells.text[i], "-");
    if (kernel->dram_bytes >= 0)
        snprintf(cells.text[0], CELL, "%s", hr_words_rate(kernel->dram_bytes, "B").text);
    set_part(cells.text[1], kernel->dram_of_peak);
    set_part(cells.text[2], kernel->sm_of_peak);
    set_part(cells.text[3], kernel->tensor_active);
    set_part(cells.text[4], kernel->l1_hit);
    set_part(cells.text[5], kernel->l2_hit);
    set_part(cells.text[6], kernel->achieved);
    set_count(cells.text[7], kernel->tensor_instructions);
    set_count(cells.text[8], kernel->vector_instructions);
    if (kernel->sectors_per_load >= 0) snprintf(cells.text[9], CELL, "%.1f", kernel->sectors_per_load);
    if (kernel->sectors_per_store >= 0) snprintf(cells.text[10], CELL, "%.1f", kernel->sectors_per_store);
    return cells;
}

static bool has_counters(const hr_kernel_summary *kernel) {
    return kernel->dram_bytes >= 0 || kernel->dram_of_peak >= 0 || kernel->l2_hit >= 0;
}

/* ---- tables ---- */

void hr_counters_text(hr_sheet *paper, const hr_diagnosis *diagnosis, int most) {
    int shown = 0, room = paper->style.width > 110 ? paper->style.width - 96 : 28;
    for (int i = 0; i < diagnosis->kernel_count && shown < most; i++) {
        const hr_kernel_summary *kernel = &diagnosis->kernels[i];
        if (!has_counters(kernel)) continue;
        if (shown++ == 0) {
            hr_sheet_end_line(paper);
            hr_sheet_put(paper, HR_INK_BOLD, "Counters of a launch");
            hr_sheet_end_line(paper);
            for (int k = 0; k < COLUMNS; k++)
                hr_sheet_format(paper, HR_INK_DIM, "%*s", widths[k], titles[k]);
            hr_sheet_put(paper, HR_INK_DIM, "  name");
            hr_sheet_end_line(paper);
        }
        cells cells = cells_of(kernel);
        for (int k = 0; k < COLUMNS; k++)
            hr_sheet_format(paper, HR_INK_PLAIN, "%*s%s", widths[k] - hr_sheet_columns(cells.text[k]), "",
                            cells.text[k]);
        hr_sheet_format(paper, HR_INK_PLAIN, "  %.*s", room, kernel->short_name);
        hr_sheet_end_line(paper);
    }
}

void hr_counters_html(hr_text *out, const hr_diagnosis *diagnosis, int most) {
    int shown = 0;
    for (int i = 0; i < diagnosis->kernel_count && shown < most; i++) {
        const hr_kernel_summary *kernel = &diagnosis->kernels[i];
        if (!has_counters(kernel)) continue;
        if (shown++ == 0) {
            hr_text_format(out, "<section><h2>Counters of a launch</h2><div class='scroll'><table "
                                "class='kernels'><tr>");
            for (int k = 0; k < COLUMNS; k++)
                hr_text_format(out, "<th class='right'>%s</th>", titles[k]);
            hr_text_format(out, "<th>kernel</th></tr>\n");
        }
        cells cells = cells_of(kernel);
        hr_text_format(out, "<tr>");
        for (int k = 0; k < COLUMNS; k++)
            hr_text_format(out, "<td class='right'>%s</td>", cells.text[k]);
        hr_text_format(out, "<td class='kernel' title='");
        hr_html_escape(out, hr_trace_string(diagnosis->trace, kernel->name));
        hr_text_format(out, "'>");
        hr_html_escape(out, kernel->short_name);
        hr_text_format(out, "</td></tr>\n");
    }
    if (shown)
        hr_text_format(out,
                       "</table></div><p class='note'>Means of the launches that were counted. DRAM: bytes "
                       "read and written; SM busy: the busier of issue slots and tensor cores; tensor: time "
                       "in which those work; ops: instructions of warps.</p>"
                       "</section>\n");
}
