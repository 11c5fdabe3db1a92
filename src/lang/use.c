/* The files that a text uses. In: `use "rmsnorm.hr"` at the top of a file. Out: the kernels and defs of that
 * file beside the text's own, and of the files that it uses in turn, each once.
 *
 * A file is looked for beside the one that names it, then in the library. Their lines are counted on from
 * those of the text, so that a line says which file it is of: hr_origin_source.
 */
#include "lang/use.h"
#include "lang/standard_defs.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_MOST = 255, BYTES_MOST = 16 << 20 };

/* ---- where files are ---- */

/* Beside `path`; false where it has no room. */
static bool path_beside(const char *path, const hr_use_syntax *use, char *out, size_t size) {
    const char *slash = strrchr(path, '/');
    const int folder = slash ? (int)(slash - path) + 1 : 0;
    const int written = snprintf(out, size, "%.*s%.*s", folder, path, (int)use->length, use->name);
    return written > 0 && (size_t)written < size;
}

static bool path_in_library(const hr_use_syntax *use, char *out, size_t size) {
    char folder[PATH_MAX];
    if (hr_library_folder(folder, sizeof folder) != HR_OK) return false;
    const int written = snprintf(out, size, "%s/%.*s", folder, (int)use->length, use->name);
    return written > 0 && (size_t)written < size;
}

static bool has_plain_name(const hr_use_syntax *use) {
    bool plain = use->length > 0 && use->length <= NAME_MOST && use->name[0] != '/';
    for (size_t i = 0; i < use->length; i++)
        plain = plain && (unsigned char)use->name[i] >= ' ' && strncmp(use->name + i, "..", 2) != 0;
    return plain;
}

/* ---- reading ---- */

/* The whole of a plain file, with a 0 behind it; NULL where it cannot be read. */
static char *read_text(hr_arena *arena, const char *path, size_t *length) {
    struct stat status;
    const int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return NULL;
    char *text = NULL;
    *length = 0;
    if (fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size <= BYTES_MOST &&
        hr_arena_room(arena) > (size_t)status.st_size + 65536) {
        text = hr_arena_alloc(arena, (size_t)status.st_size + 1);
        ssize_t got = 1;
        while (*length < (size_t)status.st_size && got > 0) {
            got = read(file, text + *length, (size_t)status.st_size - *length);
            if (got > 0) *length += (size_t)got;
            if (got < 0 && errno == EINTR) got = 1;
        }
        text[*length] = 0;
    }
    close(file);
    return text;
}

static int line_count(const char *text, size_t length) {
    int lines = 1;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines;
}

static const char *path_of_line(const hr_reading *r, int line) {
    const hr_source *source = hr_origin_source(&r->program->origin, line);
    return source ? source->path : r->program->origin.path;
}

static bool is_read(const hr_reading *r, const char *path) {
    const hr_origin *origin = &r->program->origin;
    bool read = strcmp(origin->path, path) == 0;
    for (int i = 0; i < origin->source_count; i++)
        read = read || strcmp(origin->sources[i].path, path) == 0;
    return read;
}

/* Parses what was read, as file `path`; `place`: where it is named. */
static void take_in(hr_reading *r, hr_place place, const char *path, const char *text, size_t length) {
    hr_origin *origin = &r->program->origin;
    hr_arena **arena = &r->arenas[r->arena_count];
    if (hr_arena_create(((size_t)4 << 20) + 128 * length, arena) != HR_OK) {
        hr_messages_add(r->messages, place, "out of memory while reading %.200s", path);
        return;
    }
    r->arena_count++;
    hr_source *source = &origin->sources[origin->source_count++];
    *source = (hr_source){.path = hr_arena_copy(r->program->arena, path, strlen(path)),
                          .text = text,
                          .length = length,
                          .first_line = r->next_line};
    r->next_line += line_count(text, length);
    r->messages->origin = *origin;
    r->file->first_line = source->first_line;
    r->file->used = true;
    hr_syntax_parse(text, length, *arena, r->symbols, r->messages, r->file);
}

/* Takes the file in; false where there is none at `path`. */
static bool read_file(hr_reading *r, const hr_use_syntax *use, const char *path) {
    size_t length;
    if (is_read(r, path)) return true;
    char *text = read_text(r->program->arena, path, &length);
    if (!text) return false;
    if (memchr(text, 0, length)) {
        hr_messages_add(r->messages, use->place, "%.200s holds a byte 0, so it is no text", path);
        return true;
    }
    take_in(r, use->place, path, text, length);
    return true;
}

static void use_file(hr_reading *r, const hr_use_syntax *use) {
    char path[PATH_MAX];
    const hr_shown name = hr_text_shown(use->name, use->length);
    if (!has_plain_name(use)) {
        hr_messages_add(
            r->messages, use->place,
            "a file is named as it lies beside this one or in the library, as in use \"rmsnorm.hr\"");
        return;
    }
    if (r->program->origin.source_count == HR_USES_MOST - 1) {
        hr_messages_add(r->messages, use->place, "a text uses at most %d files", HR_USES_MOST - 1);
        return;
    }
    if (path_beside(path_of_line(r, use->place.line), use, path, sizeof path) && read_file(r, use, path))
        return;
    if (path_in_library(use, path, sizeof path) && read_file(r, use, path)) return;
    const bool ends = use->length > 3 && memcmp(use->name + use->length - 3, ".hr", 3) == 0;
    hr_messages_add(r->messages, use->place,
                    "there is no file %s beside this one, nor in the library that can be read%s", name.text,
                    ends ? "" : "; the name of a file of kernels ends in .hr");
}

void hr_use_files(hr_reading *r) {
    hr_origin *origin = &r->program->origin;
    r->next_line = line_count(origin->text, origin->length) + 1;
    if (hr_arena_room(r->program->arena) > (size_t)1 << 20) {
        origin->sources = hr_arena_alloc(r->program->arena, HR_USES_MOST * sizeof *origin->sources);
        for (const hr_use_syntax *use = r->file->uses; use; use = use->next) /* the list grows behind it */
            use_file(r, use);
        r->file->standard = true;
        take_in(r, (hr_place){.line = 1, .column = 1}, "the language", hr_standard_defs,
                strlen(hr_standard_defs));
    }
}
