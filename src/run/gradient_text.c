/* Gradients of texts. In: a text and what is wanted of it. Out: a kernel as text. */
#include "grad/gradient.h"
#include "lang/program.h"
#include "run/gradient_check.h"

#include <stdlib.h>
#include <string.h>

/* The fields that the caller's struct has. */
static hr_gradient_options options_of(const hr_gradient_options *given) {
    hr_gradient_options options = {.size = sizeof options};
    if (given) memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    return options;
}

/* What is wanted of a kernel of a text, with what the options leave open. */
typedef struct chosen_gradient {
    hr_program *program;
    hr_arena *arena;
    hr_gradient_choice choice;
} chosen_gradient;

static hr_status find(const char *path, const char *text, size_t length, const char *kernel,
                      hr_program **program, const hr_function **function) {
    HR_TRY(hr_program_parse(path ? path : "text", text ? text : "", text ? length : 0, program));
    const hr_status status = hr_program_find(*program, kernel, function);
    if (status != HR_OK) hr_program_destroy(*program);
    return status;
}

static hr_status choose(const char *path, const char *text, size_t length, const char *kernel,
                        const hr_gradient_options *options, chosen_gradient *out) {
    const hr_gradient_options wanted = options_of(options);
    const hr_function *function;
    HR_TRY(find(path, text, length, kernel, &out->program, &function));
    hr_status status = hr_arena_create(HR_GRADIENT_ARENA, &out->arena);
    if (status == HR_OK) {
        status = hr_gradient_choose(function, &wanted, out->arena, &out->choice);
        if (status == HR_OK) return HR_OK;
        hr_arena_destroy(out->arena);
    }
    hr_program_destroy(out->program);
    return status;
}

static void forget(chosen_gradient *gradient) {
    hr_arena_destroy(gradient->arena);
    hr_program_destroy(gradient->program);
}

/* The text's memory becomes the caller's. */
static hr_status give(hr_status status, hr_text *text, char **out) {
    if (status == HR_OK && !text->data) hr_text_append(text, "", 0);
    if (status == HR_OK) status = hr_text_status(text);
    if (status == HR_OK)
        *out = text->data ? text->data : calloc(1, 1);
    else
        hr_text_clear(text);
    return status;
}

hr_status hr_gradient_text(const char *path, const char *text, size_t length, const char *kernel,
                           const hr_gradient_options *options, char **out, char **notes) {
    chosen_gradient gradient;
    hr_text made = {0}, said = {0};
    char *made_text, *said_text;
    if (!out || !notes) return hr_fail(HR_BAD_INPUT, "hr_gradient_text: there is no place for the result");
    HR_TRY(choose(path, text, length, kernel, options, &gradient));
    hr_status status = hr_function_gradient(&gradient.choice, NULL, &made, &said);
    forget(&gradient);
    status = give(status, &made, &made_text);
    if (status != HR_OK) {
        hr_text_clear(&said);
        return status;
    }
    status = give(status, &said, &said_text);
    if (status != HR_OK) {
        free(made_text);
        return status;
    }
    *out = made_text;
    *notes = said_text;
    return HR_OK;
}

hr_status hr_gradient_forward_text(const char *path, const char *text, size_t length, const char *kernel,
                                   const hr_gradient_options *options, char **out) {
    chosen_gradient gradient;
    hr_text made = {0};
    if (!out) return hr_fail(HR_BAD_INPUT, "hr_gradient_forward_text: there is no place for the result");
    HR_TRY(choose(path, text, length, kernel, options, &gradient));
    const hr_status status = hr_function_saving(gradient.choice.function, &gradient.choice.options, &made);
    forget(&gradient);
    return give(status, &made, out);
}

hr_status hr_gradient_verify(const char *path, const char *text, size_t length, const char *kernel,
                             const hr_gradient_options *options, hr_gradient_check *out) {
    const hr_gradient_options wanted = options_of(options);
    hr_program *program;
    const hr_function *function;
    hr_gradient_check check = {.size = sizeof check};
    if (!out) return hr_fail(HR_BAD_INPUT, "hr_gradient_verify: there is no place for the result");
    HR_TRY(find(path, text, length, kernel, &program, &function));
    const hr_status status = hr_gradient_compare(function, &wanted, &check);
    hr_program_destroy(program);
    const size_t size = out->size && out->size < sizeof check ? out->size : sizeof check;
    memcpy(out, &check, size);
    return status;
}
