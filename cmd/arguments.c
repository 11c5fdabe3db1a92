/* The command line -> flags and words. In: argv and a subcommand's table of flags. Out: what was given, or a
 * sentence that names the flag and lists what is possible. */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SENTENCE_MAX 20000 /* the library's are shorter */

/* ---- sentences ---- */

/* A file's name, say, must not drive the terminal. */
static void print_words(const char *words) {
    size_t length;
    for (const char *at = words; *at; at += length) {
        const bool shown = hr_character_is_shown(at, 4, &length) || *at == '\n' || *at == '\t';
        fwrite(shown ? at : "?", 1, shown ? length : 1, stderr);
    }
}

static void complain_words(const arguments *arguments, const char *format, va_list values) {
    char sentence[SENTENCE_MAX];
    vsnprintf(sentence, sizeof sentence, format, values);
    fprintf(stderr, "headroom %s: ", arguments->command->name);
    print_words(sentence);
}

int complain_begin(const arguments *arguments, const char *format, ...) {
    va_list values;
    va_start(values, format);
    complain_words(arguments, format, values);
    va_end(values);
    return EXIT_USAGE;
}

int complain(const arguments *arguments, const char *format, ...) {
    va_list values;
    va_start(values, format);
    complain_words(arguments, format, values);
    va_end(values);
    fprintf(stderr, "\n");
    return EXIT_USAGE;
}

int complain_memory(const arguments *arguments) {
    complain(arguments, "out of memory");
    return hr_status_exit_code(HR_OUT_OF_MEMORY);
}

int complain_status(const arguments *arguments, hr_status status) {
    const char *sentence = hr_last_error();
    if (terminal_interrupted()) { /* what failed for that reason is of no interest, what was kept is */
        if (status == HR_CANCELLED) complain(arguments, "%s", sentence);
        return hr_status_exit_code(HR_CANCELLED);
    }
    if (strstr(sentence, ": error: ")) /* of a text: it begins with file, line and column */
        fprintf(stderr, "%s%s", sentence, sentence[strlen(sentence) - 1] == '\n' ? "" : "\n");
    else
        complain(arguments, "%s", sentence);
    return hr_status_exit_code(status);
}

void complain_closest(const char *marks, const char *closest) {
    if (closest)
        fprintf(stderr, "; did you mean %s%s?", marks, closest);
    else
        fprintf(stderr, ".");
}

/* Edits (insert, delete, replace, swap neighbours) between two names of at most 63 characters. */
static int edits_between(const char *a, const char *b) {
    int rows[3][64];
    int length = (int)strlen(b);
    if (strlen(a) > 63 || length > 63) return 64;
    for (int j = 0; j <= length; j++)
        rows[0][j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= length; j++) {
            int best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && above2[j - 2] + 1 < best) best = above2[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[strlen(a) % 3][length];
}

const char *closest_name(const char *text, const char *const *names, int count) {
    const char *closest = NULL;
    int least = 1 + (int)strlen(text) / 3; /* more edits than that is another word */
    for (int i = 0; i < count; i++) {
        int edits = edits_between(text, names[i]);
        if (edits <= least && (!closest || edits < least)) {
            least = edits;
            closest = names[i];
        }
    }
    return closest;
}

/* ---- parsing ---- */

static const flag help_flag = {'h', "help", NULL, "show this"};

static const flag *flag_find(const command *command, const char *name, size_t length) {
    for (const flag *at = command->flags; at->name; at++)
        if (strlen(at->name) == length && memcmp(at->name, name, length) == 0) return at;
    return length == 4 && memcmp(name, "help", 4) == 0 ? &help_flag : NULL;
}

static const flag *flag_find_letter(const command *command, char letter) {
    for (const flag *at = command->flags; at->name; at++)
        if (at->letter == letter) return at;
    return letter == 'h' ? &help_flag : NULL;
}

static int flag_unknown(const arguments *arguments, const char *word) {
    const char *names[64];
    int count = 0;
    char name[64];
    snprintf(name, sizeof name, "%s", word + strspn(word, "-"));
    name[strcspn(name, "=")] = 0;
    for (const flag *at = arguments->command->flags; at->name; at++)
        names[count++] = at->name;
    const char *closest = closest_name(name, names, count);
    fprintf(stderr, "headroom %s: there is no flag %.*s", arguments->command->name, (int)strcspn(word, "="),
            word);
    complain_closest("--", closest);
    fprintf(stderr, " Possible are");
    for (const flag *at = arguments->command->flags; at->name; at++)
        fprintf(stderr, " --%s", at->name);
    fprintf(stderr, " --help.\n");
    return EXIT_USAGE;
}

/* "[=VALUE]": may be left away. */
static bool is_optional(const flag *flag) {
    return flag->value && flag->value[0] == '[';
}

/* The value of a flag stands in the same word (--flag=VALUE, -oVALUE) or is the next one; one that may be
 * left away is "" then, and never the next word. */
static int flag_take(arguments *arguments, const flag *flag, const char *word, const char *value, int *at,
                     int count, char **values) {
    if (!flag->value && value)
        return complain(arguments, "--%s takes no value; leave \"%s\" away", flag->name, value);
    if (is_optional(flag) && !value) value = "";
    if (flag->value && !value) {
        if (*at + 1 >= count) return complain(arguments, "%s needs a value: %s %s", word, word, flag->value);
        value = values[++*at];
    }
    arguments->flags[arguments->flag_count++] = (given_flag){flag, value};
    return 0;
}

static int arguments_take(arguments *arguments, int count, char **values) {
    bool words_only = false;
    for (int i = 0; i < count; i++) {
        char *word = values[i];
        if (words_only || word[0] != '-' || !word[1] || word[1] == ':') { /* -:KERNEL is standard input */
            arguments->words[arguments->word_count++] = word;
            words_only |= arguments->command == &command_record; /* its first word begins another command */
        } else if (strcmp(word, "--") == 0)
            words_only = true;
        else {
            bool spelt = word[1] == '-';
            char *equals = spelt ? strchr(word, '=') : NULL;
            const flag *flag = spelt ? flag_find(arguments->command, word + 2,
                                                 equals ? (size_t)(equals - word - 2) : strlen(word + 2))
                                     : flag_find_letter(arguments->command, word[1]);
            if (!flag) return flag_unknown(arguments, word);
            const char *value = spelt ? (equals ? equals + 1 : NULL) : word[2] ? word + 2 : NULL;
            int code = flag_take(arguments, flag, word, value, &i, count, values);
            if (code) return code;
        }
    }
    return 0;
}

static char *join_line(const command *command, int count, char **values) {
    size_t length = strlen(command->name) + 16;
    for (int i = 0; i < count; i++)
        length += strlen(values[i]) + 1;
    char *line = malloc(length);
    if (!line) return NULL;
    char *at = line + sprintf(line, "headroom %s", command->name);
    for (int i = 0; i < count; i++)
        at += sprintf(at, " %s", values[i]);
    return line;
}

int arguments_parse(const command *command, int count, char **values, arguments *out) {
    *out = (arguments){.command = command};
    out->flags = calloc((size_t)count + 1, sizeof *out->flags);
    out->words = calloc((size_t)count + 1, sizeof *out->words);
    out->line = join_line(command, count, values);
    if (!out->flags || !out->words || !out->line) return complain_memory(out);
    return arguments_take(out, count, values);
}

void arguments_free(arguments *arguments) {
    free(arguments->flags);
    free(arguments->words);
    free(arguments->line);
}

/* ---- files to write ---- */

int output_check(const arguments *arguments, const char *path) {
    struct stat info;
    char *copy = strdup(path);
    if (!copy) return complain_memory(arguments);
    const char *folder = dirname(copy);
    int code = 0;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        code = complain(arguments, "%s: is a folder; give the name of a file", path);
    else if (access(path, W_OK) != 0 && access(folder, W_OK) != 0)
        code = complain(arguments, "%s: cannot write into its folder %s: %s", path, folder, strerror(errno));
    free(copy);
    return code;
}

/* ---- files that are one ---- */

typedef struct file_place {
    bool there;
    dev_t device; /* of the file where it is there, of its folder otherwise */
    ino_t inode;
    char name[NAME_MAX + 1]; /* in that folder */
} file_place;

static file_place file_place_of(const char *path) {
    file_place place = {.there = true};
    struct stat info;
    char copy[PATH_MAX];
    if (stat(path, &info) != 0) {
        place.there = false;
        snprintf(copy, sizeof copy, "%s", path);
        snprintf(place.name, sizeof place.name, "%s", basename(copy));
        snprintf(copy, sizeof copy, "%s", path);
        if (stat(dirname(copy), &info) != 0) return place;
    }
    place.device = info.st_dev;
    place.inode = info.st_ino;
    return place;
}

static bool files_are_one(const char *a, const char *b) {
    file_place first = file_place_of(a), second = file_place_of(b);
    return first.there == second.there && first.device == second.device && first.inode == second.inode &&
           strcmp(first.name, second.name) == 0;
}

/* A device or a pipe takes more than one text. */
static bool takes_many(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

int output_check_apart(const arguments *arguments, const char *path, const char *read, const char *written) {
    if ((!read && !written) || takes_many(path)) return 0;
    if (read && files_are_one(path, read))
        return complain(arguments, "%s is read here, and writing would replace it; write to another file",
                        path);
    if (written && files_are_one(path, written))
        return complain(arguments, "%s is to be written twice; give each its own file", path);
    return 0;
}

/* ---- asking ---- */

const char *arguments_value(const arguments *arguments, const char *name, const char *otherwise) {
    for (int i = arguments->flag_count - 1; i >= 0; i--)
        if (strcmp(arguments->flags[i].flag->name, name) == 0)
            return arguments->flags[i].value ? arguments->flags[i].value : "";
    return otherwise;
}

bool arguments_has(const arguments *arguments, const char *name) {
    return arguments_value(arguments, name, NULL) != NULL;
}

bool parse_whole(const char *text, int64_t *out) {
    char *end;
    if (!isdigit((unsigned char)text[0])) return false;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (*end || errno) return false;
    *out = value;
    return true;
}

bool parse_extent(const char *text, int64_t *out) {
    static const char letters[] = "kmg";
    char digits[24];
    size_t length = strspn(text, "0123456789");
    int64_t shift = 0, base;
    if (length == 0 || length >= sizeof digits) return false;
    snprintf(digits, sizeof digits, "%.*s", (int)length, text);
    if (!parse_whole(digits, &base)) return false;
    const char *rest = text + length;
    if (*rest == '^') {
        if (base != 2 || !parse_whole(rest + 1, &shift) || shift > 62) return false;
        base = 1;
    } else if (*rest) {
        const char *letter = strchr(letters, tolower((unsigned char)*rest));
        if (!letter || rest[1]) return false;
        shift = 10 * (letter - letters + 1);
    }
    if (base > INT64_MAX >> shift) return false;
    *out = base << shift;
    return true;
}

int arguments_whole(const arguments *arguments, const char *name, int64_t least, int64_t otherwise,
                    int64_t *out) {
    const char *text = arguments_value(arguments, name, NULL);
    *out = otherwise;
    if (!text) return 0;
    if (!parse_whole(text, out) || *out < least)
        return complain(arguments, "--%s is a whole number of at least %lld, not \"%s\"", name,
                        (long long)least, text);
    return 0;
}

int arguments_values(const arguments *arguments, hr_values *out) {
    static const char *const names[] = {"mean-0", "mean-1", "positive"};
    const char *text = arguments_value(arguments, "values", names[0]);
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (hr_values)i;
            return 0;
        }
    return complain(arguments, "--values is mean-0, mean-1 or positive, not \"%s\"", text);
}

int arguments_tune(const arguments *arguments, hr_tune *out) {
    static const char *const names[] = {"none", "quick", "full"};
    static const hr_tune modes[] = {HR_TUNE_NONE, HR_TUNE_QUICK, HR_TUNE_FULL};
    const char *text = arguments_value(arguments, "tune", "none");
    for (int i = 0; i < 3; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = modes[i];
            return 0;
        }
    return complain(arguments, "--tune is none, quick or full, not \"%s\"", text);
}
