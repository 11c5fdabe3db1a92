/* Chats as the text that a model was taught to read.
 *
 * In: turns, and the template that the file holds. Out: a text with the names of special tokens. The template
 * is a program in a language of its own; three of them are known by what they write, others are refused.
 */
#include "model/model.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct chat_form {
    const char *sign;                   /* stands in the template, and in no other's */
    const char *begin, *role_end, *end; /* around a turn: begin ROLE role_end TEXT end */
    const char *assistant;              /* what the role is called */
    bool has_system;                    /* else its text goes before the first turn of the user */
} chat_form;

static const chat_form forms[] = {
    {"<|im_start|>", "<|im_start|>", "\n", "<|im_end|>\n", "assistant", true},
    {"<|start_header_id|>", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>", "assistant", true},
    {"<start_of_turn>", "<start_of_turn>", "\n", "<end_of_turn>\n", "model", false},
};

static bool contains(hr_bytes text, const char *word) {
    size_t length = strlen(word);
    for (const char *at = text.at; (size_t)(text.at + text.length - at) >= length; at++) {
        at = memchr(at, *word, text.length - (size_t)(at - text.at));
        if (!at || (size_t)(text.at + text.length - at) < length) return false;
        if (memcmp(at, word, length) == 0) return true;
    }
    return false;
}

static hr_status form_find(const struct hr_model *model, hr_bytes *template, const chat_form **out) {
    if (!hr_file_string(model->file, "tokenizer.chat_template", template) &&
        !hr_file_string(model->file, "chat_template", template))
        return hr_fail(HR_BAD_INPUT,
                       "%s: holds no chat template: it continues texts, and was not taught to chat",
                       model->file->path);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (contains(*template, forms[i].sign)) {
            *out = &forms[i];
            return HR_OK;
        }
    return hr_fail(HR_BAD_INPUT,
                   "%s: its chat template is none of those that are known (ChatML, Llama-3, Gemma)",
                   model->file->path);
}

/* What a template of ChatML says where no system turn is given: the text between the quotes of
 * '<|im_start|>system\n ... <|im_end|>'. */
static hr_bytes default_system(hr_bytes template) {
    static const char begin[] = "<|im_start|>system\\n";
    for (size_t at = 0; at + strlen(begin) < template.length; at++) {
        if (memcmp(template.at + at, begin, strlen(begin)) != 0) continue;
        const char *text = template.at + at + strlen(begin);
        for (size_t length = 0; text + length + 10 <= template.at + template.length; length++) {
            if (memcmp(text + length, "<|im_end|>", 10) == 0) return (hr_bytes){text, length};
            if (text[length] == '\'' || text[length] == '"' || text[length] == '\\') break;
        }
    }
    return (hr_bytes){"", 0};
}

/* Names of special tokens in what somebody typed are taken apart by a space of no width. */
static void text_append(hr_text *out, const char *text) {
    for (const char *at = text; *at; at++) {
        hr_text_append(out, at, 1);
        if (*at == '<' &&
            (at[1] == '|' || strncmp(at, "<start_of", 9) == 0 || strncmp(at, "<end_of", 7) == 0 ||
             strncmp(at, "<bos", 4) == 0 || strncmp(at, "<eos", 4) == 0))
            hr_text_append(out, "\xe2\x80\x8b", 3);
    }
}

static void turn_append(hr_text *out, const chat_form *form, const char *role, const char *before,
                        const char *text) {
    hr_text_format(out, "%s%s%s", form->begin, strcmp(role, "assistant") == 0 ? form->assistant : role,
                   form->role_end);
    if (before) {
        text_append(out, before);
        hr_text_append(out, "\n\n", 2);
    }
    text_append(out, text);
    hr_text_format(out, "%s", form->end);
}

static hr_status turns_check(const hr_chat_turn *turns, int count) {
    for (int i = 0; i < count; i++) {
        bool known = turns[i].role && turns[i].text &&
                     (!strcmp(turns[i].role, "user") || !strcmp(turns[i].role, "assistant") ||
                      !strcmp(turns[i].role, "system"));
        if (!known)
            return hr_fail(HR_BAD_INPUT,
                           "turn %d of a chat has no text, or a role that is none of system, user, assistant",
                           i);
    }
    return HR_OK;
}

/* Where the model knows no system turn, its text goes before that of the user's turn behind it. */
static hr_status systems_check(const struct hr_model *model, const chat_form *form, const hr_chat_turn *turns,
                               int count) {
    for (int i = 0; i < count && !form->has_system; i++)
        if (strcmp(turns[i].role, "system") == 0 &&
            (i + 1 == count || strcmp(turns[i + 1].role, "user") != 0))
            return hr_fail(
                HR_BAD_INPUT,
                "%s: its chat template has no system turns: turn %d goes with that of a user, which "
                "must follow it",
                model->file->path, i);
    return HR_OK;
}

hr_status hr_model_chat(const hr_model *model, const hr_chat_turn *turns, int count, char **out) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(turns, "turns", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    const chat_form *form = NULL;
    hr_bytes template = {"", 0};
    HR_TRY(turns_check(turns, count));
    HR_TRY(form_find(model, &template, &form));
    HR_TRY(systems_check(model, form, turns, count));
    hr_text text = {0};
    const char *waiting = NULL; /* a system text that goes before the user's */
    bool first_is_system = count > 0 && strcmp(turns[0].role, "system") == 0;
    hr_bytes system = form == &forms[0] && !first_is_system ? default_system(template) : (hr_bytes){"", 0};
    if (system.length > 0)
        hr_text_format(&text, "%ssystem%s%.*s%s", form->begin, form->role_end, (int)system.length, system.at,
                       form->end);
    for (int i = 0; i < count; i++) {
        if (!form->has_system && strcmp(turns[i].role, "system") == 0) {
            waiting = turns[i].text;
            continue;
        }
        turn_append(&text, form, turns[i].role, waiting, turns[i].text);
        waiting = NULL;
    }
    hr_text_format(&text, "%s%s%s", form->begin, form->assistant, form->role_end);
    hr_status status = hr_text_status(&text);
    if (status == HR_OK)
        *out = text.data;
    else
        hr_text_clear(&text);
    return status;
}

/* ---- tokens, for the caller ---- */

hr_status hr_model_encode(const hr_model *model, const char *text, size_t length, hr_special_names names,
                          int32_t **out, size_t *count) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(text, "text", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    HR_TRY(hr_pointer_check(count, "count", __func__));
    if (!model->tokenizer)
        return hr_fail(HR_BAD_INPUT,
                       "%s: holds no tokenizer: put its tokenizer.json beside it, or take a GGUF file",
                       model->file->path);
    hr_tokens tokens = {0};
    hr_status status = hr_tokenizer_encode(model->tokenizer, text, length, names, &tokens);
    if (status != HR_OK) {
        hr_tokens_clear(&tokens);
        return status;
    }
    *out = tokens.items;
    *count = tokens.count;
    return HR_OK;
}

int32_t hr_model_begin_token(const hr_model *model) {
    bool there = hr_handle_check(model, HR_HANDLE_MODEL, __func__) == HR_OK && model->tokenizer;
    return there ? hr_tokenizer_begin(model->tokenizer) : -1;
}

hr_status hr_model_prompt(const hr_model *model, const char *text, size_t length, hr_special_names names,
                          int32_t **out, size_t *count) {
    int32_t *tokens;
    size_t made;
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(text, "text", __func__));
    HR_TRY(hr_pointer_check(out, "place for the result", __func__));
    HR_TRY(hr_pointer_check(count, "count", __func__));
    HR_TRY(hr_model_encode(model, text, length, names, &tokens, &made));
    int32_t *all = hr_memory_resize(tokens, (made + 1) * sizeof *all);
    if (!all) {
        free(tokens);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for %zu tokens", made);
    }
    const int32_t begin = hr_model_begin_token(model);
    if (begin >= 0 && (made == 0 || all[0] != begin)) {
        memmove(all + 1, all, made * sizeof *all);
        all[0] = begin;
        made++;
    }
    *out = all;
    *count = made;
    return HR_OK;
}

bool hr_model_token_ends(const hr_model *model, int32_t token) {
    return hr_handle_check(model, HR_HANDLE_MODEL, __func__) == HR_OK && model->tokenizer &&
           hr_tokenizer_ends(model->tokenizer, token);
}

hr_status hr_model_token_text(const hr_model *model, int32_t token, const char **text, size_t *length) {
    HR_TRY(hr_handle_check(model, HR_HANDLE_MODEL, __func__));
    HR_TRY(hr_pointer_check(text, "place for the text", __func__));
    HR_TRY(hr_pointer_check(length, "length", __func__));
    hr_bytes bytes = model->tokenizer ? hr_tokenizer_bytes(model->tokenizer, token) : (hr_bytes){"", 0};
    *text = bytes.at;
    *length = bytes.length;
    return HR_OK;
}
