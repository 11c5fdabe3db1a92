/* Faults, doubt, conversions. In and out: see interpreter_values.h. */
#include "reference/interpreter_values.h"

#include "base/dtype.h"

#include <math.h>
#include <string.h>

enum { FAULTS_MAX = 1 << 16 };

/* ---- faults ---- */

hr_status hr_fault_carry(hr_reference *reference, hr_lanes *lanes, int lane, int32_t fault) {
    size_t size = (size_t)reference->width * sizeof *lanes->fault;
    if (!lanes->fault) {
        if (hr_arena_room(reference->arena) < size + 64)
            return hr_fail(HR_OUT_OF_MEMORY, "not enough memory to interpret this kernel");
        lanes->fault = hr_arena_alloc(reference->arena, size);
    }
    if (!lanes->faulty) memset(lanes->fault, 0, size);
    lanes->faulty = true;
    if (!lanes->fault[lane]) lanes->fault[lane] = fault;
    return HR_OK;
}

hr_status hr_fault_mark(hr_reference *reference, hr_lanes *lanes, int lane, const hr_fault_record *record) {
    if (reference->fault_count < FAULTS_MAX - 1) ++reference->fault_count;
    reference->faults[reference->fault_count] = *record;
    return hr_fault_carry(reference, lanes, lane, reference->fault_count);
}

hr_status hr_fault_fail(const hr_reference *reference, const hr_fault_record *record) {
    const hr_function *function = reference->function;
    int line = record->line;
    const char *path = function->origin ? hr_origin_path(function->origin, &line) : NULL;
    return hr_fail(
        HR_OUT_OF_RANGE,
        "%s:%d: subscript %d of %s is %lld, but that axis has %lld elements; mend the data or guard "
        "the access with where()",
        path ? path : function->name, line, record->axis + 1, function->tensors[record->tensor].name,
        (long long)record->value, (long long)reference->shapes[record->tensor][record->axis]);
}

hr_status hr_faults_carry(hr_reference *reference, hr_lanes *out, const hr_lanes *from, int n) {
    if (!from->faulty) return HR_OK;
    for (int i = 0; i < n; ++i) {
        int32_t fault = from->fault[from->form == HR_FORM_UNIFORM ? 0 : i];
        if (fault) HR_TRY(hr_fault_carry(reference, out, i, fault));
    }
    return HR_OK;
}

/* ---- copies and conversions ---- */

hr_status hr_lanes_copy(hr_reference *reference, hr_lanes *out, const hr_lanes *in, bool whole, int n) {
    size_t lanes = in->form == HR_FORM_VARYING ? (size_t)n : 1;
    out->form = in->form;
    out->base = in->base;
    out->step = in->step;
    out->spread = whole ? 0 : 1;
    out->faulty = false;
    memcpy(out->value, in->value, lanes * sizeof *in->value);
    out->doubtful = in->doubtful;
    if (!whole || in->doubtful) memcpy(out->bound, in->bound, lanes * sizeof *in->bound);
    if (!whole) memcpy(out->noise, in->noise, lanes * sizeof *in->noise);
    return hr_faults_carry(reference, out, in, (int)lanes);
}

bool hr_element_truncates(hr_element from, hr_dtype dtype) {
    const double error = from.bound;
    if (error == 0 || from.value != from.value) return false;
    int64_t low, high;
    hr_dtype_store(HR_I64, &low, 0, hr_dtype_round(dtype, from.value - error));
    hr_dtype_store(HR_I64, &high, 0, hr_dtype_round(dtype, from.value + error));
    return low != high;
}

hr_element hr_element_convert(hr_element from, hr_dtype type, hr_dtype dtype, bool to_whole) {
    union {
        double f64;
        int64_t i64;
    } room;
    bool from_whole = !hr_dtype_is_float(type);
    if (!from_whole && !to_whole) {
        hr_lanes_round(type, dtype, 1, &from.value, &from.bound, &from.noise);
        return from;
    }
    if (from_whole)
        hr_dtype_store_whole(dtype, &room, 0, from.whole);
    else
        hr_dtype_store(dtype, &room, 0, from.value);
    const double doubt = from_whole ? from.bound : hr_element_truncates(from, dtype);
    if (to_whole) return (hr_element){.whole = hr_dtype_load_whole(dtype, &room, 0), .bound = doubt};
    return (hr_element){.value = hr_dtype_load(dtype, &room, 0), .bound = doubt > 0 ? INFINITY : 0};
}

hr_element hr_element_at(const hr_lanes *lanes, bool whole, int lane) {
    if (whole)
        return (hr_element){.whole = hr_lanes_whole_at(lanes, lane), .bound = hr_lanes_doubt_at(lanes, lane)};
    if (lanes->form == HR_FORM_UNIFORM) lane = 0;
    return (hr_element){
        .value = lanes->value[lane], .bound = lanes->bound[lane], .noise = lanes->noise[lane]};
}

void hr_element_set(hr_lanes *lanes, bool whole, int lane, hr_element from) {
    lanes->bound[lane] = from.bound;
    if (whole) {
        lanes->whole[lane] = from.whole;
    } else {
        lanes->value[lane] = from.value;
        lanes->noise[lane] = from.noise;
    }
}

void hr_lanes_settle(hr_lanes *out, bool uniform, bool whole) {
    out->form = uniform ? HR_FORM_UNIFORM : HR_FORM_VARYING;
    out->spread = 1;
    out->step = 0;
    out->faulty = false;
    out->doubtful = false;
    if (uniform && whole) out->base = out->whole[0];
}

void hr_doubt_find(hr_lanes *out, bool whole, int n) {
    for (int i = 0; whole && i < n && !out->doubtful; ++i)
        out->doubtful = out->bound[i] > 0;
}

void hr_doubt_carry(hr_lanes *out, const hr_lanes *from, int n) {
    for (int i = 0; i < n && from->doubtful; ++i) {
        if (!out->doubtful) memset(out->bound, 0, (size_t)n * sizeof *out->bound);
        out->doubtful = true;
        if (hr_lanes_doubt_at(from, i) > 0) out->bound[i] = 1;
    }
}

hr_status hr_lanes_convert(hr_reference *reference, hr_lanes *out, hr_lanes *in, hr_dtype type,
                           hr_dtype dtype, bool to_whole, int count) {
    bool uniform = in->form == HR_FORM_UNIFORM, from_whole = !hr_dtype_is_float(type);
    int n = uniform ? 1 : count;
    for (int i = 0; i < n; ++i)
        hr_element_set(out, to_whole, i,
                       hr_element_convert(hr_element_at(in, from_whole, i), type, dtype, to_whole));
    hr_lanes_settle(out, uniform, to_whole);
    hr_doubt_find(out, to_whole, n);
    return hr_faults_carry(reference, out, in, n);
}
