/* headroom generate: a language model's continuation of a text, as it comes, and what a token costs beside
 * the floor. */
#include "command.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TURNS_MOST     1024
#define DRAFT_OF_MODEL 4 /* tokens that a model guesses at a time */

typedef struct session {
    const arguments *arguments;
    terminal *terminal;
    hr_device *device;
    hr_model *model, *drafter;
    hr_generate_options options;
    bool shows;         /* the text goes to stdout as it comes */
    const char *prompt; /* to be shown before it; NULL = nothing, or done */
    char *said;         /* all of it */
    size_t said_length, said_room;
    int said_code; /* of what kept the text from coming whole */
    hr_chat_turn turns[TURNS_MOST];
    char *owned[TURNS_MOST]; /* texts of turns, for free() */
    int turn_count;
} session;

/* ---- the command line ---- */

static int real_value(const arguments *arguments, const char *name, double most, double otherwise,
                      double *out) {
    const char *text = arguments_value(arguments, name, NULL);
    char *end;
    *out = otherwise;
    if (!text) return 0;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out >= 0 && *out <= most))
        return complain(arguments, "--%s is a number from 0 to %g, not \"%s\"", name, most, text);
    return 0;
}

/* The model that guesses: what is no number is a file. NULL = none. */
static const char *draft_file(const arguments *arguments) {
    const char *text = arguments_value(arguments, "draft", NULL);
    return text && text[strspn(text, "-0123456789")] ? text : NULL;
}

static int options_read(const arguments *arguments, hr_generate_options *out, hr_model_options *model) {
    hr_sampling *sampling = &out->sampling;
    int64_t seed, threads;
    *out = (hr_generate_options){.size = sizeof *out, .sampling = {.size = sizeof out->sampling}};
    *model = (hr_model_options){.size = sizeof *model, .text_path = arguments_value(arguments, "text", NULL)};
    const char *file = draft_file(arguments);
    int code = file ? 0 : arguments_whole(arguments, "draft", 0, 0, &out->draft);
    if (file) out->draft = DRAFT_OF_MODEL;
    if (code == 0) code = arguments_whole(arguments, "number", 0, 256, &out->most);
    if (code == 0) code = real_value(arguments, "temperature", 100, 0.8, &sampling->temperature);
    if (code == 0) code = arguments_whole(arguments, "top-k", 0, 40, &sampling->top_k);
    if (code == 0) code = real_value(arguments, "top-p", 1, 0.95, &sampling->top_p);
    if (code == 0) code = real_value(arguments, "min-p", 1, 0.05, &sampling->min_p);
    if (code == 0) code = arguments_whole(arguments, "seed", 0, 0, &seed);
    if (code == 0) code = arguments_whole(arguments, "context", 1, 0, &model->context);
    if (code == 0) code = arguments_whole(arguments, "threads", 1, 0, &threads);
    if (code == 0 && threads > INT_MAX) code = complain(arguments, "--threads: no machine has so many");
    if (code) return code;
    sampling->seed = (uint64_t)seed;
    model->threads = (int)threads;
    return 0;
}

/* ---- text ---- */

/* What would drive the terminal is left out. */
static void show(const char *text, size_t length) {
    const bool guarded = isatty(STDOUT_FILENO);
    size_t step = length;
    for (size_t i = 0; i < length; i += step)
        if (!guarded || hr_character_is_shown(text + i, length - i, &step) || text[i] == '\n' ||
            text[i] == '\t')
            fwrite(text + i, 1, step, stdout);
    fflush(stdout);
}

/* Behind the progress of what is read, which has the line to itself. */
static void show_prompt(session *session) {
    terminal_progress_end(session->terminal);
    if (session->shows && session->prompt) show(session->prompt, strlen(session->prompt));
    session->prompt = NULL;
}

static bool said(void *context, const char *text, size_t length) {
    session *session = context;
    show_prompt(session);
    if (session->said_length + length + 1 > session->said_room) {
        size_t room = 2 * (session->said_length + length + 512);
        char *grown = realloc(session->said, room);
        if (!grown) {
            session->said_code = complain_memory(session->arguments);
            return false;
        }
        session->said = grown;
        session->said_room = room;
    }
    memcpy(session->said + session->said_length, text, length);
    session->said_length += length;
    session->said[session->said_length] = 0;
    if (session->shows) show(text, length);
    return !terminal_interrupted() && !ferror(stdout); /* nobody reads it any more */
}

/* All of a file, or of standard input; for free(). */
static int input_read(const arguments *arguments, FILE *file, char **out) {
    size_t room = 4096, length = 0;
    char *text = malloc(room);
    while (text) {
        length += fread(text + length, 1, room - length - 1, file);
        if (length + 1 < room) break;
        char *grown = realloc(text, room *= 2);
        if (!grown) free(text);
        text = grown;
    }
    if (!text) return complain_memory(arguments);
    text[length] = 0;
    if (strlen(text) != length) {
        free(text);
        return complain(arguments, "standard input holds a byte 0, so it is no text");
    }
    *out = text;
    return 0;
}

/* ---- generating ---- */

static hr_status text_continue(session *session, const char *text, hr_special_names names,
                               hr_generation *out) {
    int32_t *tokens;
    size_t count;
    hr_status status = hr_model_prompt(session->model, text, strlen(text), names, &tokens, &count);
    if (status != HR_OK) return status;
    session->said_length = 0;
    if (session->said) *session->said = 0;
    status = hr_model_generate(session->model, tokens, (int64_t)count, &session->options, out);
    free(tokens);
    if (status == HR_OK)
        show_prompt(session); /* where nothing was said */
    else
        terminal_progress_end(session->terminal);
    return status;
}

static int answer(session *session, hr_generation *out) {
    char *text;
    hr_status status = hr_model_chat(session->model, session->turns, session->turn_count, &text);
    if (status == HR_OK) {
        status = text_continue(session, text, HR_SPECIAL_AS_TOKENS, out);
        free(text);
    }
    return status == HR_OK ? session->said_code : complain_status(session->arguments, status);
}

/* The steps' sequences, of the model that guesses, too. */
static int sequences_find(const session *session, const hr_sequence **out) {
    int count = hr_model_sequences(session->model, out, HR_MODEL_SEQUENCES);
    if (session->drafter) count += hr_model_sequences(session->drafter, out + count, HR_MODEL_SEQUENCES);
    return count;
}

/* Where the time of a step goes, kernel by kernel, for each number of tokens that steps had. */
static int explain(const session *session, const hr_generation_report *about) {
    for (int i = 0; i < about->sequence_count; i++) {
        char *text;
        hr_status status =
            hr_report_sequence_text(about->sequences[i], about->roof, &session->terminal->style, &text);
        if (status != HR_OK) return complain_status(session->arguments, status);
        fprintf(stderr, "\n%s", text);
        free(text);
    }
    return 0;
}

static int report(session *session, const hr_generation *generation) {
    const arguments *arguments = session->arguments;
    const hr_sequence *sequences[2 * HR_MODEL_SEQUENCES];
    hr_roof roof;
    bool roof_known = hr_device_roof_kept(session->device, &roof) == HR_OK;
    hr_generation_report about = {.size = sizeof about,
                                  .generation = *generation,
                                  .sequences = sequences,
                                  .sequence_count = sequences_find(session, sequences),
                                  .roof = roof_known ? &roof : NULL,
                                  .file = arguments->words[0],
                                  .text = session->said ? session->said : "",
                                  .device_name = hr_device_name(session->device)};
    char *text;
    hr_status status = hr_model_info_get(session->model, &about.model);
    if (arguments_has(arguments, "json")) {
        if (status == HR_OK) status = hr_report_generation_json(&about, &text);
        return status == HR_OK ? terminal_print(arguments, text) : complain_status(arguments, status);
    }
    if (status == HR_OK) status = hr_report_generation_text(&about, &session->terminal->style, &text);
    if (status != HR_OK) return complain_status(arguments, status);
    fprintf(stderr, "\n%s", text);
    free(text);
    if (!roof_known)
        fprintf(stderr, "  floor     not known: headroom roof measures what this machine can do\n");
    return arguments_has(arguments, "explain") ? explain(session, &about) : 0;
}

static int text_run(session *session, const char *prompt) {
    hr_generation generation;
    int code = 0;
    if (arguments_has(session->arguments, "chat")) {
        session->turns[session->turn_count++] = (hr_chat_turn){"user", prompt};
        code = answer(session, &generation);
    } else {
        session->prompt = prompt;
        hr_status status = text_continue(session, prompt, HR_SPECIAL_AS_TEXT, &generation);
        code = status == HR_OK ? session->said_code : complain_status(session->arguments, status);
    }
    if (code) return code;
    if (session->shows) printf("\n");
    return report(session, &generation);
}

/* Takes a copy of the text; false where memory ran out. */
static bool turn_add(session *session, const char *role, const char *text) {
    char *copy = strdup(text ? text : "");
    session->owned[session->turn_count] = copy;
    if (copy) session->turns[session->turn_count++] = (hr_chat_turn){role, copy};
    return copy != NULL;
}

/* An answer that an interrupt stopped is as long as it came; a turn of which nothing came is not held. */
static int answer_stop(session *session, int code) {
    const bool begun = code == 0 && session->said_length > 0;
    if (code != 0 && code != hr_status_exit_code(HR_CANCELLED)) return code;
    if (!begun) free(session->owned[--session->turn_count]);
    terminal_resume();
    return begun && !turn_add(session, "assistant", session->said) ? complain_memory(session->arguments) : 0;
}

/* Tokens of the chat so far, as the model reads it. */
static hr_status turns_count(const session *session, int64_t *out) {
    char *text;
    int32_t *tokens;
    size_t count;
    hr_status status = hr_model_chat(session->model, session->turns, session->turn_count, &text);
    if (status != HR_OK) return status;
    status = hr_model_prompt(session->model, text, strlen(text), HR_SPECIAL_AS_TOKENS, &tokens, &count);
    free(text);
    if (status != HR_OK) return status;
    free(tokens);
    *out = (int64_t)count;
    return HR_OK;
}

/* The oldest question and its answer leave a chat that leaves an answer less than a quarter of the context.
 */
static int turns_fit(session *session) {
    hr_model_info info;
    int64_t count = 0;
    hr_status status = hr_model_info_get(session->model, &info);
    for (int forgotten = 0; status == HR_OK; forgotten++) {
        const int first = session->turns[0].role[0] == 's'; /* behind the system's turn */
        status = turns_count(session, &count);
        if (status == HR_OK && (count <= info.context / 4 * 3 || session->turn_count < first + 3)) {
            if (forgotten > 0) fprintf(stderr, "(the context is full: what was said first is forgotten)\n");
            return 0;
        }
        if (status != HR_OK) break;
        free(session->owned[first]);
        free(session->owned[first + 1]);
        session->turn_count -= 2;
        const size_t left = (size_t)(session->turn_count - first);
        memmove(session->turns + first, session->turns + first + 2, left * sizeof *session->turns);
        memmove(session->owned + first, session->owned + first + 2, left * sizeof *session->owned);
    }
    return complain_status(session->arguments, status);
}

static int turn_run(session *session, const char *line, hr_generation *generation) {
    int code = turn_add(session, "user", line) ? turns_fit(session) : complain_memory(session->arguments);
    if (code == 0) code = answer(session, generation);
    if (terminal_interrupted() == SIGINT)
        code = answer_stop(session, code);
    else if (code == 0 && !turn_add(session, "assistant", session->said))
        code = complain_memory(session->arguments);
    printf("\n");
    fflush(stdout);
    return code;
}

/* A chat on a terminal, until its end, or until an interrupt that stops no answer. */
static int chat_run(session *session) {
    line_editor line = {0};
    line_end end = LINE_TYPED;
    int code = 0;
    hr_generation generation = {0};
    while (code == 0 && session->turn_count + 2 <= TURNS_MOST && !terminal_interrupted()) {
        end = line_take(&line, "> ", session->terminal->progress_allowed);
        if (end != LINE_TYPED) break;
        if (*line.text) code = turn_run(session, line.text, &generation);
    }
    line_editor_clear(&line);
    if (end == LINE_NO_MEMORY) return complain_memory(session->arguments);
    return code == 0 && generation.tokens > 0 ? report(session, &generation) : code;
}

/* ---- requests of a file ---- */

static int responses_show(const session *session, const hr_request *requests, const hr_response *responses,
                          int count, const hr_batch_totals *totals) {
    const arguments *arguments = session->arguments;
    char *text;
    hr_status status = HR_OK;
    for (int i = 0; i < count && status == HR_OK; i++) {
        status = hr_report_response_json(session->model, &requests[i], &responses[i], i, &text);
        if (status == HR_OK && terminal_print(arguments, text)) return 2;
    }
    if (status == HR_OK)
        status = hr_report_batch_text(responses, count, totals, &session->terminal->style, &text);
    if (status != HR_OK) return complain_status(arguments, status);
    fprintf(stderr, "\n%s", text);
    free(text);
    return 0;
}

static int requests_run(session *session, const char *path) {
    const arguments *arguments = session->arguments;
    hr_batch_options options = {
        .size = sizeof options, .progress = terminal_progress, .progress_context = session->terminal};
    hr_batch_totals totals;
    hr_request *requests;
    int64_t at_once;
    int count, code = arguments_whole(arguments, "at-once", 1, 16, &at_once);
    if (!code) code = arguments_whole(arguments, "chunk", 1, 0, &options.chunk);
    if (code) return code;
    if (arguments->word_count > 1 || arguments_has(arguments, "chat") || arguments_has(arguments, "draft"))
        return complain(arguments, "--requests has the texts in its file, and no --chat and --draft");
    options.at_once = at_once > INT_MAX ? INT_MAX : (int)at_once;
    hr_status status = hr_requests_read(session->model, path, &session->options, &requests, &count);
    if (status != HR_OK) return complain_status(arguments, status);
    hr_response *responses = calloc((size_t)count, sizeof *responses);
    if (responses) {
        status = hr_model_respond(session->model, requests, count, &options, responses, &totals);
        terminal_progress_end(session->terminal);
        code = status == HR_OK ? responses_show(session, requests, responses, count, &totals)
                               : complain_status(arguments, status);
        hr_responses_destroy(responses, count);
    } else
        code = complain_memory(arguments);
    free(responses);
    hr_requests_destroy(requests, count);
    return code;
}

static int session_run(session *session) {
    const arguments *arguments = session->arguments;
    const char *requests = arguments_value(arguments, "requests", NULL);
    const char *prompt = arguments->word_count > 1 ? arguments->words[1] : NULL;
    const char *system = arguments_value(arguments, "system", NULL);
    char *given = NULL;
    if (requests) return requests_run(session, requests);
    if (system) session->turns[session->turn_count++] = (hr_chat_turn){"system", system};
    if (!prompt && arguments_has(arguments, "chat") && isatty(STDIN_FILENO)) return chat_run(session);
    if (!prompt || strcmp(prompt, "-") == 0) {
        int code = input_read(arguments, stdin, &given);
        if (code) return code;
        prompt = given;
    }
    int code =
        *prompt ? text_run(session, prompt)
                : complain(arguments,
                           "there is no text to go on with; give it behind the model, or on standard input");
    free(given);
    return code;
}

/* A drafter needs room for no more than the model has; one that was taught with less has that. */
static hr_status drafter_open(session *session, const char *file, const hr_model_options *options) {
    hr_model_options small = {.size = sizeof small, .context = options->context, .threads = options->threads};
    hr_status status = hr_model_open(session->device, file, &small, &session->drafter);
    if (status != HR_BAD_INPUT || !small.context) return status;
    small.context = 0;
    return hr_model_open(session->device, file, &small, &session->drafter);
}

/* The device and what runs on it. */
static hr_status models_open(session *session, const hr_model_options *options) {
    const arguments *arguments = session->arguments;
    const char *drafter = draft_file(arguments);
    hr_status status = hr_device_open(arguments_value(arguments, "device", "cpu"), &session->device);
    if (status == HR_OK)
        status = hr_model_open(session->device, arguments->words[0], options, &session->model);
    if (status != HR_OK || !drafter) return status;
    status = drafter_open(session, drafter, options);
    session->options.draft_model = session->drafter;
    return status;
}

static int run_generate(const arguments *arguments, terminal *terminal) {
    hr_model_options model_options;
    session *session = calloc(1, sizeof *session);
    if (!session) return complain_memory(arguments);
    session->arguments = arguments;
    session->terminal = terminal;
    session->shows = !arguments_has(arguments, "json");
    int code = options_read(arguments, &session->options, &model_options);
    session->options.said = said;
    session->options.said_context = session;
    session->options.progress = terminal_progress;
    session->options.progress_context = terminal;
    if (code == 0 && (arguments->word_count < 1 || arguments->word_count > 2))
        code = complain(
            arguments,
            "give a model's file, and the text in quotes: headroom generate MODEL \"Once upon a time\"");
    if (code == 0 && arguments_has(arguments, "system") && !arguments_has(arguments, "chat"))
        code = complain(arguments, "--system is said before a chat; add --chat");
    hr_status status = code == 0 ? models_open(session, &model_options) : HR_OK;
    if (status != HR_OK) code = complain_status(arguments, status);
    if (code == 0) code = session_run(session);
    for (int i = 0; i < session->turn_count; i++)
        free(session->owned[i]);
    hr_model_destroy(session->drafter);
    hr_model_destroy(session->model);
    hr_device_destroy(session->device);
    free(session->said);
    free(session);
    return code;
}

static const flag flags[] = {
    {0, "chat", NULL, "the text is a turn of a chat; without a text, chat on the terminal"},
    {0, "system", "TEXT", "what the model is told before a chat"},
    {'n', "number", "N", "tokens to generate at most, 256 by default; 0: until the text ends"},
    {0, "temperature", "X", "0.8 by default; 0: the likeliest token each time"},
    {0, "top-k", "N", "only the N likeliest tokens, 40 by default; 0: all"},
    {0, "top-p", "X", "only the likeliest that have this share together, 0.95 by default"},
    {0, "min-p", "X", "only those with this part of the likeliest one's share, 0.05 by default"},
    {0, "seed", "N", "the same text for the same number; 0 by default"},
    {0, "draft", "N|FILE",
     "guess N tokens at a time from what followed the same words before, or 4 by the smaller model in FILE, "
     "and check them together; the text stays the same but where two tokens are as likely within rounding"},
    {0, "requests", "FILE.jsonl",
     "go on with many texts at once, a JSON object a line: prompt or chat, n, temperature, top_k, top_p, "
     "min_p, seed; a line of JSON comes back for each"},
    {0, "at-once", "N", "requests that share a step, 16 by default, at most 64"},
    {0, "chunk", "N", "tokens of a step that reads them, 256 by default, on a GPU 1024, at most 2048"},
    {0, "context", "N",
     "tokens that there is room for, in a drafter, too; as many as the model was taught with by default"},
    {0, "device", "NAME", "cpu, cuda or cuda:I; cpu by default"},
    {0, "threads", "N", "all by default"},
    {0, "text", "FILE.hr", "a family's text in place of those of models/"},
    {0, "explain", NULL, "show where a token's time goes, kernel by kernel"},
    {0, "json", NULL, "print one JSON object"},
    {0, NULL, NULL, NULL},
};

const command command_generate = {
    "generate",
    "generate MODEL [TEXT|-] [--chat] [FLAG]...",
    "let a language model go on with a text",
    "MODEL is a GGUF file of a family that has a text (Llama, Mistral, Qwen2, Qwen3,\n"
    "Gemma 3, GPT-2), or a folder with config.json, safetensors and tokenizer.json. The\n"
    "text comes as it is made, on standard output; behind it, on standard error, what a\n"
    "token cost: tokens a second, bytes a second, the floor, the headroom. Without a text\n"
    "it is read from standard input.\n\n"
    "  headroom generate smollm2.gguf \"The sea is\" -n 40 --temperature 0\n"
    "  headroom generate smollm2.gguf --chat \"Why is the sky blue?\"",
    flags,
    run_generate};
