/* Reads the `model` section line by line. In: a text. Out: rules. See model_text.h. */
#include "model/model_text.h"

#include "lang/model_section.h"

#include <ctype.h>
#include <string.h>

/* One logical line: without its comment, joined with those that it goes on over. */
typedef struct reader {
    hr_model_text *out;
    hr_arena *arena;
    const char *at, *end; /* of the section */
    int line;             /* of `words` */
    int next_line;
    char *words;
    hr_step_text *step; /* that is read; NULL: none */
    int depth;          /* of loops */
} reader;

/* ---- lines ---- */

static hr_status wrong(const reader *reader, const char *what) {
    return hr_fail(HR_BAD_INPUT, "%s:%d: %s: \"%s\"", reader->out->path, reader->line, what, reader->words);
}

static bool goes_on(const char *words, size_t length) {
    int open = 0;
    for (size_t i = 0; i < length; i++)
        open += (words[i] == '(' || words[i] == '[') - (words[i] == ')' || words[i] == ']');
    while (length > 0 && isspace((unsigned char)words[length - 1]))
        length--;
    return open > 0 ||
           (length > 0 && (words[length - 1] == '|' || words[length - 1] == '=' || words[length - 1] == ','));
}

static char *trimmed(char *words) {
    while (isspace((unsigned char)*words))
        words++;
    for (size_t length = strlen(words); length > 0 && isspace((unsigned char)words[length - 1]);)
        words[--length] = 0;
    return words;
}

/* The next line that says something; false at the end. */
static bool line_next(reader *reader) {
    size_t room = (size_t)(reader->end - reader->at), length = 0;
    char *words = hr_arena_alloc(reader->arena, room + 2);
    reader->line = reader->next_line;
    while (reader->at < reader->end) {
        const char *stop = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
        if (!stop) stop = reader->end;
        const char *comment = memchr(reader->at, '#', (size_t)(stop - reader->at));
        size_t part = (size_t)((comment ? comment : stop) - reader->at);
        memcpy(words + length, reader->at, part);
        length += part;
        words[length] = 0;
        reader->at = stop < reader->end ? stop + 1 : stop;
        reader->next_line++;
        bool empty = strspn(words, " \t\r") == length;
        if (!empty && !goes_on(words, length)) break;
        if (empty) {
            length = 0;
            reader->line = reader->next_line;
        }
    }
    words[length] = 0;
    reader->words = trimmed(words);
    return *reader->words;
}

/* Cuts `words` at the signs `at` that stand outside of brackets; each part trimmed. -1: more than `most`. */
static int parts_cut(char *words, char at, char **parts, int most) {
    int count = 0, open = 0;
    char *begin = words;
    if (!*trimmed(words)) return 0;
    for (char *sign = words;; sign++) {
        open += (*sign == '(' || *sign == '[') - (*sign == ')' || *sign == ']');
        if (*sign && (*sign != at || open > 0)) continue;
        bool last = !*sign;
        if (count == most) return -1;
        *sign = 0;
        parts[count++] = trimmed(begin);
        if (last) return count;
        begin = sign + 1;
    }
}

static bool is_name(const char *words) {
    if (!isalpha((unsigned char)*words) && *words != '_') return false;
    while (isalnum((unsigned char)*words) || *words == '_')
        words++;
    return !*words;
}

/* ---- rules ---- */

static hr_status choices_take(reader *reader, char *words, hr_choices *out) {
    char *parts[HR_CHOICES_MOST];
    int count = parts_cut(words, '|', parts, HR_CHOICES_MOST);
    if (count <= 0) return wrong(reader, "one to six choices are expected behind =");
    for (int i = 0; i < count; i++)
        out->texts[i] = parts[i];
    out->count = count;
    return HR_OK;
}

/* [a, b] -> its parts, behind which *words goes on. */
static hr_status brackets_take(reader *reader, char **words, char **parts, int *count) {
    char *close = *words;
    int open = 0;
    do {
        open += (*close == '[') - (*close == ']');
        close++;
    } while (*close && open > 0);
    if (open > 0) return wrong(reader, "a bracket is not closed");
    char *rest = trimmed(close), *inside = *words + 1;
    close[-1] = 0;
    *count = parts_cut(inside, ',', parts, HR_AXES_MOST);
    if (*count <= 0) return wrong(reader, "one to four parts are expected between brackets");
    *words = rest;
    return HR_OK;
}

static hr_status number_take(reader *reader, char *words, bool is_extent) {
    hr_model_text *out = reader->out;
    char *equals = strchr(words, '=');
    if (!equals || out->number_count == HR_RULES_MOST) return wrong(reader, "NAME = CHOICES is expected");
    *equals = 0;
    hr_number_rule *rule = &out->numbers[out->number_count++];
    *rule = (hr_number_rule){.is_extent = is_extent, .line = reader->line};
    char *bracket = strchr(words, '['), *parts[HR_AXES_MOST];
    if (bracket) {
        char *at = bracket;
        int count;
        HR_TRY(brackets_take(reader, &at, parts, &count));
        if (*at || count != 1 || is_extent) return wrong(reader, "number NAME[LAYERS] = CHOICES is expected");
        rule->layers = parts[0];
        *bracket = 0;
    }
    rule->name = trimmed(words);
    if (!is_name(rule->name)) return wrong(reader, "a name is expected before =");
    return choices_take(reader, equals + 1, &rule->choices);
}

static hr_status tensor_take(reader *reader, char *words, hr_tensor_rule *rules, int *count, bool is_weight) {
    if (*count == HR_RULES_MOST) return wrong(reader, "more rules than a model has");
    hr_tensor_rule *rule = &rules[(*count)++];
    char *equals = strchr(words, '='), *bracket = strchr(words, '['), *parts[HR_AXES_MOST];
    *rule = (hr_tensor_rule){.line = reader->line};
    if (!bracket || (equals != NULL) != is_weight)
        return wrong(reader, is_weight ? "NAME[AXES] = CHOICES is expected" : "NAME[AXES] is expected");
    if (equals) {
        *equals = 0;
        HR_TRY(choices_take(reader, equals + 1, &rule->choices));
    }
    int groups = 0, counts[2];
    char *at = bracket, *found[2][HR_AXES_MOST];
    for (; *at == '[' && groups < 2; groups++) {
        HR_TRY(brackets_take(reader, &at, parts, &counts[groups]));
        memcpy(found[groups], parts, sizeof parts);
    }
    *bracket = 0;
    rule->name = trimmed(words);
    if (!is_name(rule->name) || *at || (groups == 2 && counts[0] != 1))
        return wrong(reader, "NAME[LAYERS][AXES] is expected");
    if (groups == 2) rule->layers = found[0][0];
    rule->rank = counts[groups - 1];
    for (int i = 0; i < rule->rank; i++)
        rule->axes[i] = found[groups - 1][i];
    return HR_OK;
}

static hr_status names_take(reader *reader, char *words, const char **out) {
    int count = 0;
    while (out[count])
        count++;
    for (char *word = strtok(words, " \t"); word; word = strtok(NULL, " \t")) {
        if (count + 1 == HR_FILE_NAMES) return wrong(reader, "more names than there is room for");
        out[count++] = word;
    }
    return HR_OK;
}

static hr_status join_take(reader *reader, char *words) {
    hr_model_text *out = reader->out;
    char *equals = strchr(words, '=');
    if (!equals || out->join_count == HR_RULES_MOST) return wrong(reader, "NAME = WEIGHTS is expected");
    *equals = 0;
    hr_join_rule *rule = &out->joins[out->join_count++];
    *rule = (hr_join_rule){.name = trimmed(words), .line = reader->line};
    if (!is_name(rule->name)) return wrong(reader, "a name is expected before =");
    for (char *word = strtok(equals + 1, " \t"); word; word = strtok(NULL, " \t")) {
        if (rule->count == HR_JOINED_MOST) return wrong(reader, "up to four weights are joined");
        rule->parts[rule->count++] = word;
    }
    return rule->count > 1 ? HR_OK : wrong(reader, "two to four weights are expected behind =");
}

/* ---- the step ---- */

static hr_status operand_take(reader *reader, char *words, hr_operand_text *out) {
    char *bracket = strchr(words, '['), *parts[HR_AXES_MOST];
    *out = (hr_operand_text){.name = words};
    if (bracket) {
        char *at = bracket;
        HR_TRY(brackets_take(reader, &at, parts, &out->subscript_count));
        if (*at) return wrong(reader, "nothing is expected behind a bracket");
        *bracket = 0;
        char *last = parts[out->subscript_count - 1];
        size_t length = strlen(last);
        if (length > 2 && strcmp(last + length - 2, "..") == 0) {
            out->from = true;
            last[length - 2] = 0;
        }
        for (int i = 0; i < out->subscript_count; i++)
            out->subscripts[i] = trimmed(parts[i]);
    }
    out->name = trimmed(words);
    return is_name(out->name) ? HR_OK : wrong(reader, "a name is expected");
}

/* y = kernel(x) if near[l], y = kernel(x) if not near[l]: the condition, cut off the call. */
static hr_status condition_take(reader *reader, char *words, hr_model_statement *out) {
    char *close = strrchr(words, ')'), *rest = close ? trimmed(close + 1) : words;
    if (!close || strncmp(rest, "if ", 3) != 0) return HR_OK;
    rest = trimmed(rest + 3);
    out->negated = strncmp(rest, "not ", 4) == 0;
    HR_TRY(operand_take(reader, out->negated ? trimmed(rest + 4) : rest, &out->condition));
    if (out->condition.subscript_count > 1 || out->condition.from)
        return wrong(reader, "a number is expected behind if");
    close[1] = 0;
    return HR_OK;
}

static hr_status call_take(reader *reader, hr_model_statement *out) {
    char *words = hr_arena_copy(reader->arena, reader->words, strlen(reader->words));
    *out = (hr_model_statement){.kind = HR_MODEL_CALL, .line = reader->line};
    HR_TRY(condition_take(reader, words, out));
    char *equals = strchr(words, '='), *open = equals ? strchr(equals, '(') : NULL;
    char *parts[HR_OPERANDS_MOST], *targets[HR_TARGETS_MOST];
    size_t length = strlen(words);
    if (!open || words[length - 1] != ')')
        return wrong(reader, "a call is expected: y = kernel(x, weight[l])");
    *equals = *open = words[length - 1] = 0;
    out->name = trimmed(equals + 1);
    if (!is_name(out->name)) return wrong(reader, "the name of a kernel is expected behind =");
    out->target_count = parts_cut(words, ',', targets, HR_TARGETS_MOST);
    out->operand_count = parts_cut(open + 1, ',', parts, HR_OPERANDS_MOST);
    if (out->target_count <= 0 || out->operand_count < 0)
        return wrong(reader, "one to four results and up to 24 arguments are possible");
    for (int i = 0; i < out->target_count; i++)
        HR_TRY(operand_take(reader, targets[i], &out->targets[i]));
    for (int i = 0; i < out->operand_count; i++)
        HR_TRY(operand_take(reader, parts[i], &out->operands[i]));
    return HR_OK;
}

/* for l < L { */
static hr_status loop_take(reader *reader, char *words, hr_model_statement *out) {
    char *less = strchr(words, '<'), *brace = strrchr(words, '{');
    if (!less || !brace || brace[1] || reader->depth)
        return wrong(reader, "a loop is written for l < L {, and holds none");
    *less = *brace = 0;
    *out = (hr_model_statement){
        .kind = HR_MODEL_FOR, .line = reader->line, .name = trimmed(words), .bound = trimmed(less + 1)};
    reader->depth++;
    return is_name(out->name) ? HR_OK : wrong(reader, "the name of an index is expected");
}

static hr_status step_take(reader *reader) {
    if (strcmp(reader->words, "}") == 0 && reader->depth == 0) {
        reader->step = NULL;
        return HR_OK;
    }
    if (reader->step->count == HR_STATEMENTS_MOST) return wrong(reader, "more statements than a model has");
    hr_model_statement *statement = &reader->step->statements[reader->step->count++];
    if (strcmp(reader->words, "}") == 0) {
        *statement = (hr_model_statement){.kind = HR_MODEL_END, .line = reader->line};
        reader->depth--;
        return HR_OK;
    }
    if (strncmp(reader->words, "for ", 4) == 0)
        return loop_take(reader, hr_arena_copy(reader->arena, reader->words + 4, strlen(reader->words + 4)),
                         statement);
    return call_take(reader, statement);
}

/* `rest` of the line that it begins with; NULL where there is none of this name. */
static hr_step_text *step_named(hr_model_text *out, const char *rest) {
    return strcmp(rest, "{") == 0            ? &out->step
           : strcmp(rest, "alone {") == 0    ? &out->alone
           : strcmp(rest, "few {") == 0      ? &out->few
           : strcmp(rest, "together {") == 0 ? &out->together
                                             : NULL;
}

/* ---- the section ---- */

static hr_status rule_take(reader *reader) {
    hr_model_text *out = reader->out;
    char *words = hr_arena_copy(reader->arena, reader->words, strlen(reader->words));
    char *rest = words + strcspn(words, " \t");
    if (*rest) *rest++ = 0;
    rest = trimmed(rest);
    if (strcmp(words, "gguf") == 0) return names_take(reader, rest, out->gguf);
    if (strcmp(words, "safetensors") == 0) return names_take(reader, rest, out->safetensors);
    if (strcmp(words, "refuse") == 0) return names_take(reader, rest, out->refused);
    if (strcmp(words, "ignore") == 0) return names_take(reader, rest, out->ignored);
    if (strcmp(words, "prefix") == 0) return names_take(reader, rest, out->prefixes);
    if (strcmp(words, "extent") == 0) return number_take(reader, rest, true);
    if (strcmp(words, "number") == 0) return number_take(reader, rest, false);
    if (strcmp(words, "weight") == 0)
        return tensor_take(reader, rest, out->weights, &out->weight_count, true);
    if (strcmp(words, "cache") == 0) return tensor_take(reader, rest, out->caches, &out->cache_count, false);
    if (strcmp(words, "join") == 0) return join_take(reader, rest);
    if (strcmp(words, "step") == 0 && (reader->step = step_named(out, rest))) return HR_OK;
    return wrong(reader,
                 "a model has gguf, safetensors, refuse, ignore, prefix, extent, number, weight, join, cache "
                 "and step");
}

hr_status hr_model_text_read(const char *path, const char *text, size_t length, hr_arena *arena,
                             hr_model_text *out) {
    hr_model_section section;
    *out = (hr_model_text){.path = path};
    if (!hr_model_section_find(text, length, &section))
        return hr_fail(HR_BAD_INPUT, "%s: has no section model NAME { ... }", path);
    out->name = hr_arena_copy(arena, section.name, section.name_length);
    reader reader = {
        .out = out, .arena = arena, .at = section.begin, .end = section.end, .next_line = section.line};
    while (line_next(&reader)) {
        if (hr_arena_room(arena) / 4 < length)
            return hr_fail(HR_BAD_INPUT, "%s: is too long a text for a model", path);
        HR_TRY(reader.step ? step_take(&reader) : rule_take(&reader));
    }
    if (reader.step || reader.depth) return wrong(&reader, "a brace is not closed before the section's end");
    return HR_OK;
}
