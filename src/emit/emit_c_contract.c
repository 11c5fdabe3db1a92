/* Prints the stage of a matrix product: the shared main loop and the three functions that it calls.
 *
 * In: a plan and its HR_SHAPE_CONTRACT stages. Out: C. The main loop is a fixed text; a stage adds how an
 * operand's elements are evaluated while they are packed, and what becomes of the finished sums.
 */
#include "emit/emit_c_contract.h"
#include "emit/contract_choice.h"
#include "emit/contract_text.h"

#include <string.h>

/* ---- the main loop ---- */

/* The f64 version of the text: these words and parts of words, replaced. */
static const char *const renames[][2] = {{"f32", "f64"},
                                         {"F32", "F64"},
                                         {"float", "double"},
                                         {"int32_t", "int64_t"},
                                         {"HR_LANES ==", "HR_LANES / 2 =="}};

static void append_renamed(hr_text *out, const char *text) {
    while (*text) {
        size_t plain = 0, from = 0;
        const char *to = NULL;
        for (; text[plain] && !to; plain++)
            for (size_t i = 0; i < sizeof renames / sizeof *renames && !to; i++)
                if (strncmp(text + plain, renames[i][0], strlen(renames[i][0])) == 0)
                    to = renames[i][1], from = strlen(renames[i][0]);
        if (to) plain--;
        hr_text_append(out, text, plain);
        if (to) hr_text_append(out, to, strlen(to));
        text += plain + from;
    }
}

hr_status hr_contract_mainloop_append(const hr_plan *plan, hr_text *out) {
    bool shared = false, done[2] = {false, false};
    for (int i = 0; i < plan->stage_count; i++) {
        if (plan->stages[i].shape != HR_SHAPE_CONTRACT) continue;
        hr_contract_choice choice = hr_contract_choice_of(plan, &plan->stages[i]);
        if (!shared) hr_text_format(out, "%s\n", (const char *)hr_contract_blocks_text);
        shared = true;
        if (done[choice.double_precision]) continue;
        done[choice.double_precision] = true;
        const char *type = choice.double_precision ? "F64" : "F32";
        hr_text_format(out, "enum { CONTRACT_%s_ROWS = %d, CONTRACT_%s_VECTORS = %d };\n\n", type,
                       (int)choice.blocks.rows, type, choice.vectors);
        const char *text = (const char *)hr_contract_mainloop_text;
        if (choice.double_precision)
            append_renamed(out, text);
        else
            hr_text_append(out, text, strlen(text));
        hr_text_append(out, "\n", 1);
    }
    return hr_text_status(out);
}
