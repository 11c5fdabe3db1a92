/* Bodies of lane loops that match one lane with a place. In: a pass. Out: text. See lane_match.h. */
#include "emit/c/lane_match.h"

/* How many places the lane's index is compared with, and one of them. */
typedef struct places {
    hr_printer *p;
    int count;
    const hr_expr *place;
} places;

static hr_visit count_places(void *context, const hr_expr *node) {
    places *found = context;
    if (hr_expr_level(found->p, node) != HR_AT_LANE || found->p->buffer[node->id]) return HR_VISIT_PAST;
    const hr_expr *match = hr_expr_lane_match(found->p, node);
    found->count += match != NULL;
    if (match) found->place = match;
    return HR_VISIT_ON;
}

static void near_and_far(hr_printer *p, const hr_lane_pass *pass, int vectors, hr_lane_body body) {
    places found = {.p = p};
    hr_walk walk = {.enter = count_places, .context = &found};
    for (int i = 0; i < pass->step_count && p->vector; i++)
        hr_walk_through(&walk, pass->steps[i].value);
    hr_printer_walked(p, &walk);
    if (found.count != 1) {
        body(p, pass);
        return;
    }
    hr_print(p, "if (lane_near((int64_t)%s - i, %d)) {", hr_expr_text(p, found.place), vectors);
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
