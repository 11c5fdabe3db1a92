/* Expressions of a plan as C. In: nodes. Out: lines and operands. See expression.h for levels and modes. */
#include "emit/expression.h"

#include "base/dtype.h"
#include "emit/c/lane_table.h"
#include "emit/element.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { LINE_LONG = 72 };

void hr_printer_forget(hr_printer *p, hr_emit_level level) {
    hr_expr *const *table = p->plan->graph->table;
    for (int i = 0; i < p->plan->graph->table_size; i++) {
        const hr_expr *node = table[i];
        if (!node) continue;
        if (level == HR_AT_LANE) p->uses[node->id] = 0;
        if (p->level[node->id] >= (signed char)level) p->name[node->id] = NULL;
        if (p->table[node->id] && p->table[node->id]->level >= level) p->table[node->id] = NULL;
        if (p->pointer[node->id] && hr_element_pointer_level(p, node) >= level)
            p->pointer[node->id] = p->valid[node->id] = NULL;
    }
}

hr_printer *hr_printer_switch_to(hr_printer *to, const hr_printer *from) {
    to->out = from->out;
    to->indent = from->indent;
    to->number = from->number;
    return to;
}

bool hr_printer_beside(hr_printer *p, const hr_stage *stage, hr_printer *out) {
    if (hr_printer_begin(out, p->plan, p->arena, p->out) != HR_OK) {
        p->out->failed = true;
        return false;
    }
    hr_printer_stage(hr_printer_switch_to(out, p), stage);
    out->value_read = p->value_read;
    out->used = p->used;
    memcpy(out->value, p->value, (size_t)p->function->tensor_count * sizeof *out->value);
    hr_expr *const *table = p->plan->graph->table;
    for (int i = 0; i < p->plan->graph->table_size; i++)
        if (table[i] && hr_expr_level(p, table[i]) < HR_AT_LANE)
            out->name[table[i]->id] = p->name[table[i]->id];
    return true;
}

/* ---- types ---- */

static bool is_narrow(hr_dtype dtype) {
    return hr_compute_type(dtype) != dtype;
}

/* ---- levels ---- */

static bool is_outer(const hr_printer *p, int index) {
    for (int i = 0; i < p->outer_count; i++)
        if (p->outer[i] == index) return true;
    return false;
}

/* From those of its arguments, which are known. */
static void set_level(void *printer, const hr_expr *node) {
    hr_printer *p = printer;
    signed char level = HR_AT_TASK;
    if (node->op == HR_OP_INDEX)
        level = node->index == p->lane ? HR_AT_LANE : is_outer(p, node->index) ? HR_AT_OUTER : HR_AT_TASK;
    for (int i = 0; i < node->arg_count; i++)
        if (p->level[node->args[i]->id] > level) level = p->level[node->args[i]->id];
    p->level[node->id] = level;
}

static hr_visit needs_level(void *printer, const hr_expr *node) {
    return ((hr_printer *)printer)->level[node->id] >= 0 ? HR_VISIT_PAST : HR_VISIT_ON;
}

hr_emit_level hr_expr_level(hr_printer *p, const hr_expr *node) {
    bool known = true;
    if (p->level[node->id] >= 0) return p->level[node->id];
    for (int i = 0; i < node->arg_count; i++)
        known = known && p->level[node->args[i]->id] >= 0;
    if (known) {
        set_level(p, node);
    } else {
        hr_walk walk = {.enter = needs_level, .leave = set_level, .context = p};
        hr_walk_through(&walk, node);
        hr_walk_end(&walk); /* to set it twice is no harm */
    }
    return p->level[node->id];
}

static bool is_leaf(const hr_printer *p, const hr_expr *node) {
    if (node->op == HR_OP_INDEX) return !(p->vector && node->index == p->lane);
    return node->op == HR_OP_NUMBER || node->op == HR_OP_EXTENT ||
           (node->op == HR_OP_ELEMENT &&
            (p->value[node->tensor] ||
             (node->arg_count == 0 && p->function->tensors[node->tensor].role == HR_ROLE_INPUT)));
}

void hr_expr_count_uses(hr_printer *p, const hr_expr *node) {
    if (p->uses[node->id]++ || p->buffer[node->id] || node == p->given || !hr_expr_at_lane(p, node)) return;
    for (int i = 0; i < node->arg_count; i++)
        hr_expr_count_uses(p, node->args[i]);
}

/* ---- operations ---- */

static const char *number_text(hr_printer *p, const hr_expr *node) {
    if (node->type == HR_BOOL) return node->whole ? "true" : "false";
    if (node->type == HR_I64 || node->type == HR_I32) {
        if (node->whole == INT64_MIN) return "INT64_MIN";
        bool wide = node->whole > INT32_MAX || node->whole < INT32_MIN;
        return hr_format(p,
                         wide              ? "INT64_C(%" PRId64 ")"
                         : node->whole < 0 ? "(%" PRId64 ")"
                                           : "%" PRId64,
                         node->whole);
    }
    double x = node->type == HR_F32 ? (double)(float)node->number : node->number;
    const char *type = hr_c_compute(node->type);
    if (isnan(x)) return hr_format(p, "(%s)NAN", type);
    if (isinf(x)) return hr_format(p, x > 0 ? "(%s)INFINITY" : "(-(%s)INFINITY)", type);
    const char *digits = hr_format(p, node->type == HR_F32 ? "%.9g" : "%.17g", fabs(x));
    bool plain = !strpbrk(digits, ".e");
    const char *text = hr_format(p, "%s%s%s", digits, plain ? ".0" : "", node->type == HR_F32 ? "f" : "");
    return signbit(x) ? hr_format(p, "(-%s)", text) : text;
}

static const char *convert_scalar(hr_printer *p, const char *text, hr_dtype from, hr_dtype to) {
    if (from == to) return text;
    if (to == HR_F64) return hr_format(p, "(double)%s", text);
    if (to == HR_F32 && from != HR_F64) return hr_format(p, "(float)%s", text);
    if ((to == HR_I64 || to == HR_I32) && (from == HR_BOOL || from == HR_I32))
        return hr_format(p, "(%s)%s", hr_c_compute(to), text);
    return hr_format(p, "%s_from_%s(%s)", hr_dtype_name(to), hr_type_prefix(from), text);
}

/* `text`, lanes of type `from`, as lanes of compute type `to`. */
static const char *convert_lanes(hr_printer *p, const char *text, hr_dtype from, hr_dtype to) {
    const char *source = hr_lane_prefix(from), *target = hr_lane_prefix(to);
    if (strcmp(source, target) == 0) return text;
    if (to == HR_BOOL && from == HR_F32) return hr_format(p, "vf_ne(%s, vf_of(0))", text);
    return hr_format(p, "%s_from_%s(%s)", target, source, text);
}

static const char *convert_text(hr_printer *p, const hr_expr *node) {
    hr_dtype from = node->args[0]->type, to = node->dtype, carrier = node->type;
    if (hr_expr_is_vector(p, node)) {
        const char *text = convert_lanes(p, hr_expr_lanes(p, node->args[0]), from, carrier);
        return is_narrow(to)
                   ? hr_format(p, "%s_round_%s(%s)", hr_lane_prefix(carrier), hr_dtype_name(to), text)
                   : text;
    }
    const char *text = hr_expr_text(p, node->args[0]);
    if (!is_narrow(to)) return convert_scalar(p, text, from, to);
    return hr_format(p, "%s_from_%s(%s_from_%s(%s))", hr_type_prefix(carrier), hr_dtype_name(to),
                     hr_dtype_name(to), hr_type_prefix(from), text);
}

static const char *native_operator(hr_op op) {
    switch (op) {
    case HR_OP_ADD:
        return "+";
    case HR_OP_SUB:
        return "-";
    case HR_OP_MUL:
        return "*";
    case HR_OP_LT:
        return "<";
    case HR_OP_LE:
        return "<=";
    case HR_OP_GT:
        return ">";
    case HR_OP_GE:
        return ">=";
    case HR_OP_EQ:
        return "==";
    case HR_OP_NE:
        return "!=";
    case HR_OP_AND:
        return "&&";
    case HR_OP_OR:
        return "||";
    default:
        return NULL;
    }
}

static const char *function_name(hr_op op) {
    static const struct {
        hr_op op;
        const char *name;
    } special[] = {{HR_OP_DIV, "div"},
                   {HR_OP_FLOORDIV, "floordiv"},
                   {HR_OP_MOD, "mod"},
                   {HR_OP_POW, "pow"},
                   {HR_OP_LT, "lt"},
                   {HR_OP_LE, "le"},
                   {HR_OP_GT, "gt"},
                   {HR_OP_GE, "ge"},
                   {HR_OP_EQ, "eq"},
                   {HR_OP_NE, "ne"},
                   {HR_OP_AND, "and"},
                   {HR_OP_OR, "or"},
                   {HR_OP_NOT, "not"},
                   {HR_OP_BIT_AND, "bit_and"},
                   {HR_OP_BIT_XOR, "bit_xor"},
                   {HR_OP_BIT_OR, "bit_or"},
                   {HR_OP_SHIFT_LEFT, "shift_left"},
                   {HR_OP_SHIFT_RIGHT, "shift_right"}};
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (special[i].op == op) return special[i].name;
    return hr_op_info_of(op)->name;
}

static const char *call_text(hr_printer *p, const char *prefix, const char *function, const hr_expr *node) {
    const char *arguments = "";
    for (int i = 0; i < node->arg_count; i++)
        arguments = hr_format(p, "%s%s%s", arguments, i ? ", " : "",
                              hr_expr_is_vector(p, node) ? hr_expr_lanes(p, node->args[i])
                                                         : hr_expr_text(p, node->args[i]));
    return hr_format(p, "%s_%s(%s)", prefix, function, arguments);
}

static const char *scalar_operation(hr_printer *p, const hr_expr *node) {
    const char *symbol = native_operator(node->op);
    if (node->op == HR_OP_NOT) return hr_format(p, "!%s", hr_expr_text(p, node->args[0]));
    if (node->op == HR_OP_WHERE) {
        const char *c = hr_expr_text(p, node->args[0]), *a = hr_expr_text(p, node->args[1]);
        return hr_format(p, "(%s ? %s : %s)", c, a, hr_expr_text(p, node->args[2]));
    }
    if ((p->forms & HR_FORM_EAGER) && (node->op == HR_OP_AND || node->op == HR_OP_OR))
        symbol = node->op == HR_OP_AND ? "&" : "|";
    if (symbol) {
        const char *a = hr_expr_text(p, node->args[0]);
        return hr_format(p, "(%s %s %s)", a, symbol, hr_expr_text(p, node->args[1]));
    }
    bool fast = (p->forms & HR_FORM_FAST) && (node->op == HR_OP_EXP || node->op == HR_OP_GELU_TANH) &&
                node->type == HR_F32;
    return call_text(p, fast ? "fast" : hr_type_prefix(node->type), function_name(node->op), node);
}

/* An operand beside a vector: scalars broadcast, but a 64-bit one must be narrowed first. */
static const char *beside_vector(hr_printer *p, const hr_expr *node) {
    const char *text = hr_expr_text(p, node);
    return !hr_expr_is_vector(p, node) && node->type == HR_I64 ? hr_format(p, "(int32_t)%s", text) : text;
}

static hr_visit is_peak(const hr_expr *node, const void *peaks) {
    if (node->op != HR_OP_ELEMENT) return HR_VISIT_ON;
    for (const hr_peak *peak = peaks; peak; peak = peak->next)
        if (peak->peak == node->tensor) return HR_VISIT_STOP;
    return HR_VISIT_PAST;
}

/* x - peak, one for all lanes, where anything near the peak gives the same results. */
static bool is_below_peak(hr_printer *p, const hr_expr *node) {
    return node->op == HR_OP_SUB && hr_expr_is_vector(p, node->args[0]) &&
           !hr_expr_is_vector(p, node->args[1]) &&
           hr_expr_find(node->args[1], is_peak, p->plan->graph->peaks);
}

/* The lane's index beside a whole number that is one for all lanes: at most one lane is there. */
static bool is_lane_at(hr_printer *p, const hr_expr *index, const hr_expr *place) {
    return index->op == HR_OP_INDEX && index->index == p->lane && !hr_expr_is_vector(p, place) &&
           !hr_dtype_is_float(place->type) && place->type != HR_BOOL;
}

const hr_expr *hr_expr_lane_match(hr_printer *p, const hr_expr *node) {
    for (int side = 0; side < 2 && node->op == HR_OP_EQ; side++)
        if (is_lane_at(p, node->args[side], node->args[1 - side])) return node->args[1 - side];
    return NULL;
}

static const char *ways_name(hr_op op, bool narrow, bool by_line) {
    switch (op) {
    case HR_OP_EXP:
        return narrow ? "exp_narrow" : by_line ? NULL : "exp";
    case HR_OP_SIGMOID:
        return narrow ? "sigmoid_narrow" : by_line ? NULL : "sigmoid";
    case HR_OP_SILU:
        return narrow ? "silu_narrow" : by_line ? NULL : "silu";
    case HR_OP_TANH:
        return by_line ? NULL : "tanh";
    case HR_OP_ERF:
        return by_line ? NULL : "erf";
    case HR_OP_GELU:
        return by_line ? NULL : "gelu";
    case HR_OP_GELU_TANH:
        return by_line ? NULL : "gelu_tanh";
    default:
        return NULL;
    }
}

/* Where a vector is a line, functions of all bits are done one vector after the other. */
bool hr_expr_in_ways(hr_printer *p, const hr_expr *node, hr_ways_call *out) {
    *out = (hr_ways_call){.argument = node->arg_count ? node->args[0] : NULL};
    if (node->op == HR_OP_EXP && (p->forms & HR_FORM_NARROW) && is_below_peak(p, node->args[0])) {
        out->name = "exp_below";
        out->argument = node->args[0]->args[0];
        out->peak = node->args[0]->args[1];
        return true;
    }
    out->name = ways_name(node->op, p->forms & HR_FORM_NARROW, !hr_limits_are_short(&p->plan->limits));
    return out->name != NULL;
}

/* By a power of two: //, which rounds down, is a shift and %, which has the divisor's sign, a mask. */
static const char *power_of_two(hr_printer *p, const hr_expr *node) {
    if ((node->op != HR_OP_FLOORDIV && node->op != HR_OP_MOD) || hr_dtype_is_float(node->type)) return NULL;
    const hr_expr *by = node->args[1];
    if (by->op != HR_OP_NUMBER || by->whole < 1 || by->whole > 1 << 30 || by->whole & (by->whole - 1))
        return NULL;
    const char *of = hr_expr_lanes(p, node->args[0]);
    if (node->op == HR_OP_MOD) return hr_format(p, "(%s & %d)", of, (int)by->whole - 1);
    return hr_format(p, "(%s >> %d)", of, __builtin_ctz((unsigned)by->whole));
}

static bool is_product(hr_printer *p, const hr_expr *node) {
    return hr_expr_is_vector(p, node) && node->type == HR_F32 &&
           (node->op == HR_OP_MUL || node->op == HR_OP_POW);
}

/* Of two products that are added the compiler would fuse either with the sum, not the same one everywhere:
 * the second one is rounded. */
static const char *arithmetic_text(hr_printer *p, const hr_expr *node) {
    const hr_expr *left = node->args[0], *right = node->args[1];
    bool rounds = node->op != HR_OP_MUL && is_product(p, left) && is_product(p, right);
    const char *a = beside_vector(p, left), *b = beside_vector(p, right);
    return hr_format(p, rounds ? "(%s %s vf_rounded(%s))" : "(%s %s %s)", a, native_operator(node->op), b);
}

static const char *vector_operation(hr_printer *p, const hr_expr *node) {
    if (node->op == HR_OP_ADD || node->op == HR_OP_SUB || node->op == HR_OP_MUL)
        return arithmetic_text(p, node);
    if (hr_op_is_comparison(node->op)) {
        hr_dtype type = node->args[0]->type;
        const hr_expr *match = hr_expr_lane_match(p, node);
        if (match && (p->known & HR_KNOWN_NO_MATCH)) return "vm_of(false)";
        if (match && p->order == HR_ORDER_EVEN_ODD)
            return hr_format(p, "vm_at_even_odd((int64_t)%s - i, %s)", hr_expr_text(p, match), p->way);
        if (match) return hr_format(p, "vm_at((int64_t)%s - i)", hr_expr_text(p, match));
        if (type != HR_BOOL) return call_text(p, hr_lane_prefix(type), function_name(node->op), node);
        const char *a = convert_lanes(p, hr_expr_lanes(p, node->args[0]), HR_BOOL, HR_I32);
        const char *b = convert_lanes(p, hr_expr_lanes(p, node->args[1]), HR_BOOL, HR_I32);
        return hr_format(p, "vi_%s(%s, %s)", function_name(node->op), a, b);
    }
    if (node->op == HR_OP_WHERE && (p->known & HR_KNOWN_NO_MATCH) && hr_expr_lane_match(p, node->args[0]))
        return hr_expr_lanes(p, node->args[2]);
    const char *power = power_of_two(p, node);
    if (power) return power;
    const char *function = node->op == HR_OP_WHERE ? "select" : function_name(node->op);
    hr_ways_call call;
    if (hr_expr_in_ways(p, node, &call)) {
        const char *argument = hr_expr_lanes(p, call.argument);
        return call.peak ? hr_format(p, "vf_%s(%s, %s)", call.name, argument, hr_expr_text(p, call.peak))
                         : hr_format(p, "vf_%s(%s)", call.name, argument);
    }
    return call_text(p, hr_lane_prefix(node->type), function, node);
}

static const char *operation_text(hr_printer *p, const hr_expr *node) {
    bool vector = hr_expr_is_vector(p, node);
    const char *prefix = vector ? hr_lane_prefix(node->type) : hr_type_prefix(node->type);
    switch (node->op) {
    case HR_OP_NUMBER:
        return number_text(p, node);
    case HR_OP_EXTENT:
        return hr_emit_extent(p, node->extent);
    case HR_OP_INDEX:
        if (vector) return "(vi_iota() + (int32_t)i)";
        return hr_emit_index(p, node->index);
    case HR_OP_ELEMENT:
        return hr_element_text(p, node);
    case HR_OP_CONVERT:
        return convert_text(p, node);
    case HR_OP_NEG:
        return hr_format(p, "(-%s)", hr_expr_text(p, node->args[0]));
    case HR_OP_POW:
        if (node->args[1]->op == HR_OP_NUMBER && node->args[1]->type == HR_I64) {
            const char *base = vector ? hr_expr_lanes(p, node->args[0]) : hr_expr_text(p, node->args[0]);
            return hr_format(p, "%s_powi(%s, %" PRId64 ")", prefix, base, node->args[1]->whole);
        }
        break;
    case HR_OP_RANDOM:
        return hr_format(p, "f32_random((uint64_t)%s, (uint64_t)%s)", hr_expr_text(p, node->args[0]),
                         hr_expr_text(p, node->args[1]));
    default:
        break;
    }
    return vector ? vector_operation(p, node) : scalar_operation(p, node);
}

/* ---- lines ---- */

static const char *c_type_of(hr_printer *p, const hr_expr *node) {
    return hr_expr_is_vector(p, node) ? hr_lane_prefix(node->type) : hr_c_compute(node->type);
}

static const char *give_line(hr_printer *p, const hr_expr *node, const char *text) {
    const char *name = hr_format(p, "r%d", ++p->number);
    hr_print(p, "const %s %s = %s;", c_type_of(p, node), name, text);
    p->name[node->id] = name;
    return name;
}

static bool is_checked_element(hr_printer *p, const hr_expr *node) {
    return node->op == HR_OP_ELEMENT && !p->value[node->tensor] && hr_element_is_checked(p->function, node);
}

static const char *buffer_text(hr_printer *p, const hr_expr *node) {
    const char *buffer = p->buffer[node->id];
    if (!p->vector || node->op == HR_OP_RANDOM || node->type == HR_BOOL) return buffer;
    if (!hr_expr_is_words(node)) return hr_format(p, "vf_load_f32(%s)", buffer);
    if (p->order == HR_ORDER_EVEN_ODD || (p->order == HR_ORDER_PAIRS && p->body != HR_BODY_PART))
        return hr_format(p, "vf_load_%s_bf16(%s, %s)", p->order == HR_ORDER_EVEN_ODD ? "even_odd" : "pair",
                         buffer, p->way);
    return hr_format(p, "vf_load_bf16(%s)", buffer);
}

const char *hr_expr_text(hr_printer *p, const hr_expr *node) {
    if (p->name[node->id]) return hr_use(p, p->name[node->id]);
    if (p->buffer[node->id]) return give_line(p, node, buffer_text(p, node));
    if (node == p->given) return give_line(p, node, p->given_text);
    const char *text = p->table[node->id] ? hr_lane_table_text(p, node) : operation_text(p, node);
    if (is_leaf(p, node)) return text;
    bool reused = hr_expr_at_lane(p, node) && p->uses[node->id] > 1;
    if (reused || is_checked_element(p, node) || strlen(text) > LINE_LONG) return give_line(p, node, text);
    return text;
}

const char *hr_expr_lanes(hr_printer *p, const hr_expr *node) {
    const char *text = hr_expr_text(p, node);
    if (!p->vector || hr_expr_is_vector(p, node)) return text;
    const char *narrow = node->type == HR_I64 ? "(int32_t)" : "";
    return hr_format(p, "%s_of(%s%s)", hr_lane_prefix(node->type), narrow, text);
}

typedef struct preparing {
    hr_printer *p;
    hr_emit_level level;
    hr_walk walk;
} preparing;

static hr_visit prepare_before(void *context, const hr_expr *node) {
    preparing *now = context;
    hr_printer *p = now->p;
    hr_emit_level own = hr_expr_level(p, node);
    if (own < now->level || p->buffer[node->id]) return HR_VISIT_PAST;
    if (own == now->level) {
        if (!is_leaf(p, node) && !p->name[node->id]) {
            const char *text = hr_expr_text(p, node);
            if (!p->name[node->id]) give_line(p, node, text);
        }
        return HR_VISIT_PAST;
    }
    const hr_expr *seed;
    if (own != HR_AT_LANE || !hr_lane_table_prepare(p, node, now->level, &seed)) return HR_VISIT_ON;
    hr_walk_through(&now->walk, seed);
    return HR_VISIT_PAST;
}

static void prepare_after(void *context, const hr_expr *node) {
    preparing *now = context;
    hr_printer *p = now->p;
    if (node->op == HR_OP_ELEMENT && !p->value[node->tensor] && hr_expr_at_lane(p, node) &&
        hr_expr_is_row_form(p, node) && hr_element_pointer_level(p, node) == now->level)
        hr_expr_print_pointer(p, node);
}

void hr_expr_prepare(hr_printer *p, const hr_expr *node, hr_emit_level level) {
    preparing now = {
        .p = p, .level = level, .walk = {.enter = prepare_before, .leave = prepare_after, .context = &now}};
    hr_walk_through(&now.walk, node);
    hr_walk_end(&now.walk); /* what has a line of its own is printed once anyway */
}

const char *hr_emit_stored(hr_printer *p, const char *value, hr_dtype type, hr_dtype dtype) {
    if (p->vector) {
        hr_dtype carrier = hr_compute_type(dtype) == HR_F32 ? HR_F32 : HR_I32;
        if (dtype == HR_BOOL && type != HR_BOOL)
            value = convert_lanes(p, value, type, HR_BOOL), type = HR_BOOL;
        return convert_lanes(p, value, type, carrier);
    }
    if (type == dtype && dtype != HR_BOOL) return value;
    return hr_format(p, "%s_from_%s(%s)", hr_dtype_name(dtype), hr_type_prefix(type), value);
}

const char *hr_emit_value(hr_printer *p, int tensor) {
    if (!p->value[tensor]) return NULL;
    if (p->value_read) p->value_read[tensor] = true;
    return hr_use(p, p->value[tensor]);
}

void hr_emit_step_value(hr_printer *p, const hr_step *step, const char *text, hr_dtype type) {
    int tensor = p->function->statements[step->statement].tensor;
    const hr_tensor *target = &p->function->tensors[tensor];
    hr_dtype carrier = hr_compute_type(target->dtype);
    bool vector = p->vector;
    p->vector = false;
    const char *stored = hr_emit_stored(p, text, type, target->dtype);
    p->vector = vector;
    if (carrier != target->dtype) /* a narrow dtype rounds: the value is what a load gives back */
        stored =
            hr_format(p, "%s_from_%s(%s)", hr_type_prefix(carrier), hr_dtype_name(target->dtype), stored);
    const char *name = hr_format(p, "s%d_%.40s", (int)(step - p->stage->steps), target->name);
    hr_print(p, "const %s %s = %s;", hr_c_compute(carrier), name, stored);
    p->value[tensor] = name;
}
