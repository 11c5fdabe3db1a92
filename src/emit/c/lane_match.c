/* Bodies of lane loops in which one lane is sought. In: a pass. Out: text. See lane_match.h. */
#include "emit/c/lane_match.h"

/* How many places the lane's index is compared with, and one of them. */
static int find_places(hr_printer *p, const hr_expr *node, const hr_expr **place) {
    if (p->seen[node->id] == p->stamp || hr_expr_level(p, node) != HR_AT_LANE || p->buffer[node->id])
        return 0;
    p->seen[node->id] = p->stamp;
    const hr_expr *sought = hr_expr_lane_sought(p, node);
    int count = sought != NULL;
    if (sought) *place = sought;
    for (int i = 0; i < node->arg_count; i++)
        count += find_places(p, node->args[i], place);
    return count;
}

static void near_and_far(hr_printer *p, const hr_lane_pass *pass, int vectors, hr_lane_body body) {
    const hr_expr *place = NULL;
    int count = 0;
    p->stamp++;
    for (int i = 0; i < pass->step_count && p->vector; i++)
        count += find_places(p, pass->steps[i].value, &place);
    if (count != 1) {
        body(p, pass);
        return;
    }
    hr_print(p, "if (lane_near((int64_t)%s - i, %d)) {", hr_expr_text(p, place), vectors);
    p->indent++;
    body(p, pass);
    p->indent--;
    hr_print(p, "} else {");
    p->indent++;
    p->absent = true;
    body(p, pass);
    p->absent = false;
    p->indent--;
    hr_print(p, "}");
}

void hr_lane_near_and_far(hr_printer *p, const hr_lane_pass *pass, int vectors, hr_lane_body body) {
    if (!p->bounded) {
        near_and_far(p, pass, vectors, body);
        return;
    }
    hr_print(p, "if (i >= inside_from && i + %d * HR_LANES <= inside_to) {", vectors);
    p->indent++;
    p->inside = true;
    near_and_far(p, pass, vectors, body);
    p->inside = false;
    p->indent--;
    hr_print(p, "} else {");
    p->indent++;
    near_and_far(p, pass, vectors, body);
    p->indent--;
    hr_print(p, "}");
}
