/* Tokenizers of Hugging Face folders. See tokenizer_json.h. */
#include "model/tokenizer_json.h"

#include "model/tokenizer.h"
#include "model/vocabulary.h"

#include <stdio.h>
#include <string.h>

#define VALUES_MOST 24
#define HOLES_MOST  4096 /* numbers of tokens that none has */

typedef struct json_reader {
    hr_weight_file *file;
    const char *path;
    hr_spelling spelling;
    bool digits_apart;
    const char *split; /* GGUF's name of the rules by which texts are split; NULL = none were named */
    double space_first;
} json_reader;

static hr_status refuse(const json_reader *reader, const char *part, const char *what) {
    return hr_fail(HR_BAD_INPUT, "%s: %s: \"%.120s\" is not known here", reader->path, part,
                   what ? what : "");
}

static const char *word_of(const json_t *object, const char *key) {
    return json_string_value(json_object_get(object, key));
}

static bool is_word(const char *text, const char *word) {
    return text && strcmp(text, word) == 0;
}

/* ---- values ---- */

static hr_status room_take(const json_reader *reader, size_t size, void **out) {
    if (hr_arena_room(reader->file->arena) < size + 64)
        return hr_fail(HR_BAD_INPUT, "%s: its vocabulary is larger than that of a model", reader->path);
    *out = hr_arena_alloc(reader->file->arena, size);
    return HR_OK;
}

static hr_status value_add(const json_reader *reader, hr_file_value value) {
    if (reader->file->value_count == VALUES_MOST)
        return hr_fail(HR_BAD_INPUT, "%s: its tokenizer says more than is read here", reader->path);
    reader->file->values[reader->file->value_count++] = value;
    return HR_OK;
}

static hr_status number_add(const json_reader *reader, const char *key, double number) {
    void *at;
    HR_TRY(room_take(reader, sizeof number, &at));
    memcpy(at, &number, sizeof number);
    return value_add(reader, (hr_file_value){.key = key, .type = HR_FILE_F64, .bytes = {at, sizeof number}});
}

static hr_status string_add(const json_reader *reader, const char *key, const char *text) {
    void *at;
    const size_t length = strlen(text);
    HR_TRY(room_take(reader, length + 1, &at));
    memcpy(at, text, length + 1);
    return value_add(reader, (hr_file_value){.key = key, .type = HR_FILE_STRING, .bytes = {at, length}});
}

/* Strings as a GGUF array has them: a length of 64 bits, then the letters. */
typedef struct string_list {
    char *at;
    size_t length, room;
} string_list;

static void list_append(string_list *list, const char *first, const char *second) {
    const uint64_t length = strlen(first) + (second ? 1 + strlen(second) : 0);
    memcpy(list->at + list->length, &length, sizeof length);
    list->length += sizeof length;
    memcpy(list->at + list->length, first, strlen(first));
    if (second) {
        list->at[list->length + strlen(first)] = ' ';
        memcpy(list->at + list->length + strlen(first) + 1, second, strlen(second));
    }
    list->length += length;
}

static hr_status list_add(const json_reader *reader, const char *key, const string_list *list, size_t count) {
    return value_add(reader, (hr_file_value){.key = key,
                                             .type = HR_FILE_ARRAY,
                                             .element = HR_FILE_STRING,
                                             .count = count,
                                             .bytes = {list->at, list->length}});
}

/* ---- tokens ---- */

typedef struct token_table {
    const char **names; /* by number; NULL = a hole */
    int32_t *kinds;
    size_t count;
} token_table;

static bool number_of(const json_t *value, size_t most, size_t *out) {
    const json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || (uint64_t)number >= most) return false;
    *out = (size_t)number;
    return true;
}

static hr_status token_put(const json_reader *reader, token_table *table, size_t most, const char *name,
                           const json_t *number, hr_piece_kind kind) {
    size_t at;
    if (!name || !number_of(number, most, &at))
        return hr_fail(HR_BAD_INPUT, "%s: token \"%.80s\" has no number, or one beyond those of all tokens",
                       reader->path, name ? name : "");
    table->names[at] = name;
    table->kinds[at] = kind;
    if (at >= table->count) table->count = at + 1;
    return HR_OK;
}

/* The kind of a token of the vocabulary itself. */
static hr_piece_kind kind_of(const json_t *model, const char *name) {
    const bool bytes = json_is_true(json_object_get(model, "byte_fallback"));
    if (bytes && strlen(name) == 6 && memcmp(name, "<0x", 3) == 0 && name[5] == '>') return HR_PIECE_BYTE;
    return is_word(word_of(model, "unk_token"), name) ? HR_PIECE_UNKNOWN : HR_PIECE_NORMAL;
}

static hr_status tokens_take(const json_reader *reader, const json_t *tokenizer, const json_t *model,
                             token_table *out) {
    json_t *vocabulary = json_object_get(model, "vocab"), *number, *added;
    const json_t *list = json_object_get(tokenizer, "added_tokens");
    const size_t most = json_object_size(vocabulary) + json_array_size(list) + HOLES_MOST;
    const char *name;
    size_t i;
    void *names, *kinds;
    HR_TRY(room_take(reader, most * sizeof *out->names, &names));
    HR_TRY(room_take(reader, most * sizeof *out->kinds, &kinds));
    *out = (token_table){names, kinds, 0};
    memset(names, 0, most * sizeof *out->names);
    for (i = 0; i < most; i++)
        out->kinds[i] = HR_PIECE_UNUSED;
    json_object_foreach(vocabulary, name, number) {
        HR_TRY(token_put(reader, out, most, name, number, kind_of(model, name)));
    }
    json_array_foreach(list, i, added) {
        const bool special = json_is_true(json_object_get(added, "special"));
        HR_TRY(token_put(reader, out, most, word_of(added, "content"), json_object_get(added, "id"),
                         special ? HR_PIECE_CONTROL : HR_PIECE_USER));
    }
    return HR_OK;
}

static hr_status tokens_add(const json_reader *reader, const token_table *table) {
    string_list list = {0};
    void *memory;
    for (size_t i = 0; i < table->count; i++)
        list.room += sizeof(uint64_t) + (table->names[i] ? strlen(table->names[i]) : 0);
    HR_TRY(room_take(reader, list.room, &memory));
    list.at = memory;
    for (size_t i = 0; i < table->count; i++)
        list_append(&list, table->names[i] ? table->names[i] : "", NULL);
    HR_TRY(list_add(reader, "tokenizer.ggml.tokens", &list, table->count));
    return value_add(
        reader, (hr_file_value){.key = "tokenizer.ggml.token_type",
                                .type = HR_FILE_ARRAY,
                                .element = HR_FILE_I32,
                                .count = table->count,
                                .bytes = {(const char *)table->kinds, table->count * sizeof *table->kinds}});
}

/* "a b", or ["a", "b"]. */
static hr_status merges_add(const json_reader *reader, const json_t *model) {
    const json_t *merges = json_object_get(model, "merges");
    string_list list = {0};
    void *memory;
    size_t i;
    json_t *merge;
    json_array_foreach(merges, i, merge) {
        const char *first = json_string_value(json_array_get(merge, 0)),
                   *second = json_string_value(json_array_get(merge, 1));
        if (!json_is_string(merge) && (!first || !second))
            return hr_fail(HR_BAD_INPUT, "%s: merge %zu is no two tokens", reader->path, i);
        list.room +=
            sizeof(uint64_t) + (first ? strlen(first) + 1 + strlen(second) : json_string_length(merge));
    }
    HR_TRY(room_take(reader, list.room, &memory));
    list.at = memory;
    json_array_foreach(merges, i, merge) {
        if (json_is_string(merge))
            list_append(&list, json_string_value(merge), NULL);
        else
            list_append(&list, json_string_value(json_array_get(merge, 0)),
                        json_string_value(json_array_get(merge, 1)));
    }
    HR_TRY(list_add(reader, "tokenizer.ggml.merges", &list, json_array_size(merges)));
    return HR_OK;
}

/* ---- how texts are taken apart ---- */

/* Calls `read` for a part of the tokenizer, or for each of a Sequence. */
typedef hr_status (*part_reader)(json_reader *reader, const json_t *part);

static hr_status parts_read(json_reader *reader, const json_t *part, const char *members, part_reader read) {
    size_t i;
    json_t *member;
    if (!part || json_is_null(part)) return HR_OK;
    if (!is_word(word_of(part, "type"), "Sequence")) return read(reader, part);
    json_array_foreach(json_object_get(part, members), i, member) {
        HR_TRY(read(reader, member));
    }
    return HR_OK;
}

/* NFC is taken to be what a text is in already. */
static hr_status normalizer_read(json_reader *reader, const json_t *part) {
    const char *type = word_of(part, "type"), *content = word_of(part, "content"),
               *pattern = word_of(json_object_get(part, "pattern"), "String");
    if (is_word(type, "NFC")) return HR_OK;
    if (is_word(type, "Prepend") && is_word(word_of(part, "prepend"), HR_SPACE_SIGN))
        reader->space_first = 2;
    else if (is_word(type, "Replace") && is_word(pattern, " ") && is_word(content, HR_SPACE_SIGN))
        reader->spelling = HR_SPELLING_SPACES;
    else
        return refuse(reader, "normalizer", type);
    return HR_OK;
}

static hr_status split_read(json_reader *reader, const char *pattern) {
    static const struct {
        const char *pattern, *name;
    } known[] = {
        {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", "gpt-2"},
        {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
         "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
         "llama-bpe"},
        {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
         "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
         "qwen2"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (is_word(pattern, known[i].pattern) && !reader->split && !reader->digits_apart) {
            reader->split = known[i].name;
            return HR_OK;
        }
    return refuse(reader, "the pattern that splits texts", pattern);
}

static hr_status byte_level_read(json_reader *reader, const json_t *part) {
    const bool splits = !json_is_false(json_object_get(part, "use_regex"));
    if (json_is_true(json_object_get(part, "add_prefix_space")))
        return refuse(reader, "pre_tokenizer", "ByteLevel with add_prefix_space");
    if (splits && reader->split) return refuse(reader, "pre_tokenizer", "ByteLevel that splits again");
    if (splits) reader->split = reader->digits_apart ? "smollm" : "gpt-2";
    return HR_OK;
}

static hr_status metaspace_read(json_reader *reader, const json_t *part) {
    const char *scheme = word_of(part, "prepend_scheme");
    if (!json_is_false(json_object_get(part, "split")))
        return refuse(reader, "pre_tokenizer", "Metaspace that splits");
    reader->spelling = HR_SPELLING_SPACES;
    if (scheme) reader->space_first = is_word(scheme, "always") ? 2 : is_word(scheme, "first");
    return HR_OK;
}

static hr_status pre_tokenizer_read(json_reader *reader, const json_t *part) {
    const char *type = word_of(part, "type");
    const json_t *pattern = json_object_get(part, "pattern");
    if (is_word(type, "ByteLevel")) return byte_level_read(reader, part);
    if (is_word(type, "Metaspace")) return metaspace_read(reader, part);
    if (is_word(type, "Digits") && json_is_true(json_object_get(part, "individual_digits")) &&
        !reader->split) {
        reader->digits_apart = true;
        return HR_OK;
    }
    /* no space is left where the normalizer replaces them */
    if (is_word(type, "Split") && is_word(word_of(pattern, "String"), " ") &&
        reader->spelling == HR_SPELLING_SPACES)
        return HR_OK;
    if (is_word(type, "Split") && is_word(word_of(part, "behavior"), "Isolated") &&
        !json_is_true(json_object_get(part, "invert")))
        return split_read(reader, word_of(pattern, "Regex"));
    return refuse(reader, "pre_tokenizer", type);
}

/* What stands before a text: the first thing of a template, where that is a token. */
static hr_status post_processor_read(json_reader *reader, const json_t *part) {
    if (!is_word(word_of(part, "type"), "TemplateProcessing")) return HR_OK;
    const json_t *first = json_array_get(json_object_get(part, "single"), 0);
    const char *name = word_of(json_object_get(first, "SpecialToken"), "id");
    const json_t *of = name ? json_object_get(json_object_get(part, "special_tokens"), name) : NULL,
                 *number = json_array_get(json_object_get(of, "ids"), 0);
    if (!json_is_integer(number)) return HR_OK;
    HR_TRY(number_add(reader, "tokenizer.ggml.bos_token_id", (double)json_integer_value(number)));
    return number_add(reader, "tokenizer.ggml.add_bos_token", 1);
}

static hr_status rules_add(json_reader *reader, const json_t *tokenizer, const json_t *model) {
    HR_TRY(parts_read(reader, json_object_get(tokenizer, "normalizer"), "normalizers", normalizer_read));
    HR_TRY(
        parts_read(reader, json_object_get(tokenizer, "pre_tokenizer"), "pretokenizers", pre_tokenizer_read));
    if (reader->spelling == HR_SPELLING_BYTES && !reader->split)
        return refuse(reader, "pre_tokenizer", "none that splits texts into words");
    HR_TRY(
        parts_read(reader, json_object_get(tokenizer, "post_processor"), "processors", post_processor_read));
    HR_TRY(number_add(reader, "tokenizer.ggml.add_bos_token", 0)); /* the first of a name is found */
    HR_TRY(number_add(reader, "tokenizer.ggml.add_space_prefix", reader->space_first));
    HR_TRY(number_add(reader, "tokenizer.ggml.ignore_merges",
                      json_is_true(json_object_get(model, "ignore_merges"))));
    HR_TRY(
        string_add(reader, "tokenizer.ggml.model", reader->spelling == HR_SPELLING_BYTES ? "gpt2" : "llama"));
    return reader->split ? string_add(reader, "tokenizer.ggml.pre", reader->split) : HR_OK;
}

/* ---- ends of texts, chats ---- */

static hr_status ends_add(const json_reader *reader, const token_table *table, const json_t *settings) {
    const json_t *ends = json_object_get(reader->file->config, "eos_token_id"),
                 *named = json_object_get(settings, "eos_token");
    const char *name = json_is_object(named) ? word_of(named, "content") : json_string_value(named);
    if (json_is_integer(ends)) return number_add(reader, hr_end_keys[0], (double)json_integer_value(ends));
    if (json_array_size(ends) > HR_END_KEYS)
        return hr_fail(HR_BAD_INPUT,
                       "%s: config.json lists %zu tokens that end a text; up to %d are possible",
                       reader->path, json_array_size(ends), HR_END_KEYS);
    for (size_t i = 0; i < json_array_size(ends); i++)
        HR_TRY(number_add(reader, hr_end_keys[i], (double)json_integer_value(json_array_get(ends, i))));
    for (size_t i = 0; !ends && name && i < table->count; i++)
        if (is_word(table->names[i], name)) return number_add(reader, hr_end_keys[0], (double)i);
    return HR_OK;
}

/* A template, or a list of them with names. */
static hr_status chat_add(const json_reader *reader, const json_t *settings) {
    const json_t *given = json_object_get(settings, "chat_template");
    const char *text = json_string_value(given);
    size_t i;
    json_t *of;
    json_array_foreach(given, i, of) {
        if (is_word(word_of(of, "name"), "default")) text = word_of(of, "template");
    }
    return text ? string_add(reader, "tokenizer.chat_template", text) : HR_OK;
}

hr_status hr_tokenizer_json_read(hr_weight_file *file, const char *path, const json_t *tokenizer,
                                 const json_t *settings) {
    json_reader reader = {.file = file, .path = path};
    const json_t *model = json_object_get(tokenizer, "model");
    token_table table;
    void *values;
    const char *type = word_of(model, "type");
    const bool merges = json_is_array(json_object_get(model, "merges"));
    if (!is_word(type, "BPE") && (type || !merges))
        return refuse(&reader, "a model of tokens that is no BPE", type);
    HR_TRY(room_take(&reader, VALUES_MOST * sizeof *file->values, &values));
    file->values = values;
    file->value_count = 0;
    HR_TRY(rules_add(&reader, tokenizer, model));
    HR_TRY(tokens_take(&reader, tokenizer, model, &table));
    HR_TRY(tokens_add(&reader, &table));
    HR_TRY(merges_add(&reader, model));
    HR_TRY(ends_add(&reader, &table, settings));
    return chat_add(&reader, settings);
}
