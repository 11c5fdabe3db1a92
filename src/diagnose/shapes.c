/* Lists of dimensions -> bytes and operations. In: "[[64, 1024], []]" and "[\"float\", \"Scalar\"]". Out:
 * numbers. */
#include "diagnose/shapes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int dtype_bytes(const char *name, size_t length) {
    static const struct {
        const char *name;
        int bytes;
    } rows[] = {{"double", 8},      {"long", 8},          {"BFloat16", 2}, {"Half", 2},
                {"Float8", 1},      {"float", 4},         {"int", 4},      {"short", 2},
                {"signed char", 1}, {"unsigned char", 1}, {"char", 1},     {"bool", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t word = strlen(rows[i].name);
        for (size_t at = 0; at + word <= length; at++)
            if (strncmp(name + at, rows[i].name, word) == 0) return rows[i].bytes;
    }
    return 0;
}

static void parse_dtypes(const char *text, hr_shapes *out) {
    int tensor = 0;
    while (*text && tensor < out->count) {
        const char *open = strchr(text, '"');
        const char *close = open ? strchr(open + 1, '"') : NULL;
        if (!close) return;
        out->bytes[tensor++] = dtype_bytes(open + 1, (size_t)(close - open - 1));
        text = close + 1;
    }
}

bool hr_shapes_parse(const char *dims, const char *dtypes, hr_shapes *out) {
    memset(out, 0, sizeof *out);
    int depth = 0;
    for (const char *at = dims; *at; at++) {
        if (*at == '[') {
            if (++depth == 2 && out->count == HR_SHAPE_TENSORS) break;
        } else if (*at == ']') {
            if (depth-- == 2) out->count++;
        } else if (isdigit((unsigned char)*at) && depth == 2) {
            char *end;
            int64_t value = strtoll(at, &end, 10);
            int *rank = &out->rank[out->count];
            if (*rank < HR_SHAPE_DIMS) out->dims[out->count][(*rank)++] = value;
            at = end - 1;
        }
    }
    parse_dtypes(dtypes, out);
    return out->count > 0;
}

double hr_shapes_elements(const hr_shapes *shapes, int tensor) {
    double elements = shapes->rank[tensor] ? 1 : 0;
    for (int i = 0; i < shapes->rank[tensor]; i++)
        elements *= (double)shapes->dims[tensor][i];
    return elements;
}

bool hr_shapes_product(const char *name, const hr_shapes *shapes, hr_product *out) {
    static const struct {
        const char *name;
        int left; /* argument */
    } rows[] = {
        {"aten::mm", 0}, {"aten::bmm", 0}, {"aten::addmm", 1}, {"aten::baddbmm", 1}, {"aten::matmul", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int a = rows[i].left, b = a + 1;
        if (strcmp(name, rows[i].name) != 0 || b >= shapes->count) continue;
        int rank = shapes->rank[a];
        if (rank < 2 || rank > 3 || shapes->rank[b] != rank) return false;
        const int64_t *left = shapes->dims[a], *right = shapes->dims[b];
        *out = (hr_product){rank == 3 ? left[0] : 1, left[rank - 2], right[rank - 1], left[rank - 1],
                            shapes->bytes[a]};
        return out->k == right[rank - 2];
    }
    return false;
}

void hr_shapes_work(const char *name, const hr_shapes *shapes, hr_time_kind kind, double *bytes,
                    double *flops) {
    hr_product product;
    double moved = 0, largest = 0;
    int element = shapes->count ? shapes->bytes[0] : 0;
    *bytes = *flops = 0;
    if (kind == HR_TIME_MATRIX) {
        if (!hr_shapes_product(name, shapes, &product)) return;
        double batch = (double)product.batch, m = (double)product.m, n = (double)product.n,
               k = (double)product.k;
        *flops = 2 * batch * m * n * k;
        *bytes = batch * (m * k + k * n + m * n) * product.bytes;
        return;
    }
    for (int i = 0; i < shapes->count; i++) {
        double elements = hr_shapes_elements(shapes, i);
        moved += elements * shapes->bytes[i];
        if (elements > largest) largest = elements;
    }
    bool in_place = name[0] && name[strlen(name) - 1] == '_';
    if (kind == HR_TIME_REDUCTION) *bytes = moved;
    if (kind == HR_TIME_ELEMENTWISE || kind == HR_TIME_NORMALISATION) *bytes = moved + largest * element;
    if (kind == HR_TIME_COPY) *bytes = in_place && shapes->count > 1 ? moved : 2 * moved;
}

bool hr_work_shapes(const hr_analysis *analysis, int work, hr_shapes *out, const char **operator_name) {
    const hr_trace *trace = analysis->trace;
    int32_t call = analysis->works[work].call;
    if (call < 0 || analysis->calls[call].operation < 0) return false;
    const hr_event *event = &trace->events.items[analysis->calls[call].operation];
    *operator_name = hr_trace_string(trace, event->name);
    if (event->kind != HR_EVENT_OPERATOR || event->detail < 0 || event->detail >= trace->operators.count)
        return false;
    const hr_operator *from = &trace->operators.items[event->detail];
    if (from->shapes < 0) return false;
    /* steps repeat their operators: the texts are taken apart once */
    hr_known_shapes *known = &analysis->shapes[(uint32_t)from->shapes % HR_SHAPES_KNOWN];
    if (!known->tried || known->text != from->shapes || known->dtypes != from->dtypes) {
        *known = (hr_known_shapes){.text = from->shapes, .dtypes = from->dtypes, .tried = true};
        known->good = hr_shapes_parse(hr_trace_string(trace, from->shapes),
                                      hr_trace_string(trace, from->dtypes), &known->shapes);
    }
    *out = known->shapes;
    return known->good;
}
