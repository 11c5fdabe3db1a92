/* Finds the host's C compiler and runs it: a fixed argument vector, a cleaned environment, no shell.
 *
 * In: file names of ours in a scratch folder. Out: a shared object there. Nothing of a user's text reaches
 * the command line.
 */
#include "device/compiler.h"
#include "base/file.h"
#include "device/device.h"
#include "device/process.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_NAME      "log"
#define LOG_SHOWN     4000 /* bytes of the compiler's output in an error */
#define LOG_LINES     24
#define ROOM_LEAST    (1 << 20) /* bytes that compiling a kernel may take */
#define ARGUMENTS_MAX 64
#define WORDS_MAX     32
#define SPACES        " \t\n"

/* -ffp-contract=fast: a * b + c is one rounding, as on every accelerator. No -ffast-math: NaN and infinity
 * mean what the language says. The two -fno-*math flags only drop errno and trap bookkeeping that nobody
 * reads, which otherwise keeps loops from being vectorised. */
static const char *const base_flags[] = {
    "-std=gnu11",
    "-O3",
    "-fopenmp-simd",
    "-fPIC",
    "-shared",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-semantic-interposition",
    "-w",
};

/* ---- finding it ---- */

static bool is_program(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && access(path, X_OK) == 0;
}

/* Relative entries of PATH are skipped: they would run what lies in the current folder. */
static bool path_search(const char *name, char *out, size_t size) {
    const char *folders = getenv("PATH");
    if (!folders || !*folders) folders = "/usr/local/bin:/usr/bin:/bin";
    for (const char *folder = folders; *folder;) {
        size_t length = strcspn(folder, ":");
        int written = snprintf(out, size, "%.*s/%s", (int)length, folder, name);
        if (*folder == '/' && written > 0 && (size_t)written < size && is_program(out)) return true;
        folder += length + (folder[length] == ':');
    }
    return false;
}

/* The path of a program that is given by name or by path; false where there is none. */
static bool program_locate(const char *given, char *out, size_t size) {
    char full[PATH_MAX];
    if (!strchr(given, '/')) return path_search(given, out, size);
    if (!realpath(given, full) || !is_program(full)) return false;
    /* The name it is called by matters to wrappers such as ccache, so a link is not resolved. */
    int length = snprintf(out, size, "%s", *given == '/' ? given : full);
    return length > 0 && (size_t)length < size;
}

/* $HEADROOM_CC: a program, or one with arguments behind it ("ccache gcc -g"). */
static hr_status compiler_take(const char *given, hr_compiler *out) {
    char program[PATH_MAX];
    if (program_locate(given, out->path, sizeof out->path)) return HR_OK; /* a path may hold spaces */
    given += strspn(given, SPACES);
    size_t length = strcspn(given, SPACES);
    const char *words = given + length + strspn(given + length, SPACES);
    int count = 0;
    for (const char *word = words; *word; count++) {
        word += strcspn(word, SPACES);
        word += strspn(word, SPACES);
    }
    if (strlen(words) >= sizeof out->words || count > WORDS_MAX)
        return hr_fail(HR_BAD_INPUT, "HEADROOM_CC has more than %d arguments, or of more than %zu bytes",
                       WORDS_MAX, sizeof out->words - 1);
    snprintf(out->words, sizeof out->words, "%s", words);
    snprintf(program, sizeof program, "%.*s", (int)length, given);
    if (length < sizeof program && program_locate(program, out->path, sizeof out->path)) return HR_OK;
    return hr_fail(HR_NOT_AVAILABLE,
                   "HEADROOM_CC=%s: %s is no program: set it to the name or the path of a C compiler; its "
                   "arguments may follow",
                   given, program);
}

static hr_status compiler_locate(hr_compiler *out) {
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *given = getenv("HEADROOM_CC");
    if (given && given[strspn(given, SPACES)]) return compiler_take(given, out);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (path_search(names[i], out->path, sizeof out->path)) return HR_OK;
    return hr_fail(HR_NOT_AVAILABLE,
                   "no C compiler found: install one (Debian/Ubuntu: apt install gcc), or set HEADROOM_CC");
}

hr_status hr_compiler_find(hr_compiler *out) {
    hr_compiler compiler = {0};
    char file[PATH_MAX];
    struct stat info;
    HR_TRY(compiler_locate(&compiler));
    if (!realpath(compiler.path, file) || stat(file, &info))
        return hr_fail(HR_NOT_AVAILABLE, "the C compiler %s cannot be read: %s", compiler.path,
                       strerror(errno));
    snprintf(compiler.identity, sizeof compiler.identity, "%s %lld %lld.%09ld%s%s", file,
             (long long)info.st_size, (long long)info.st_mtim.tv_sec, (long)info.st_mtim.tv_nsec,
             *compiler.words ? " " : "", compiler.words);
    *out = compiler;
    return HR_OK;
}

/* ---- arguments ---- */

static int flags_list(unsigned flags, const char **out) {
    int count = 0;
    for (size_t i = 0; i < sizeof base_flags / sizeof *base_flags; i++)
        out[count++] = base_flags[i];
#if defined(__x86_64__) || defined(__i386__)
    out[count++] = "-march=native";
    const bool vectors = flags & HR_COMPILE_VECTOR_512, wide = vectors && __builtin_cpu_supports("avx512f");
    if (wide) out[count++] = "-mprefer-vector-width=512";
    /* gcc 12 takes AMD's cores with AVX-512 for those before them, and for these it splits fused
     * multiplications and additions. */
    if (vectors && __builtin_cpu_is("amd") && __builtin_cpu_supports("avx2"))
        out[count++] = wide ? "-mtune=skylake-avx512" : "-mtune=skylake";
#else
    out[count++] = "-mcpu=native";
    (void)flags;
#endif
    return count;
}

void hr_compiler_describe(unsigned flags, hr_text *out) {
    const char *list[ARGUMENTS_MAX];
    int count = flags_list(flags, list);
    for (int i = 0; i < count; i++)
        hr_text_format(out, "%s%s", i ? " " : "", list[i]);
}

/* ---- running it ---- */

/* The first lines of the compiler's output, without the scratch folder's name. */
static void log_read(const char *path, const char *folder, char *out, size_t size) {
    char raw[LOG_SHOWN + 1];
    size_t used = 0, prefix = strlen(folder);
    hr_file_first(path, raw, sizeof raw);
    int lines = 0;
    for (const char *c = raw; *c && used + 1 < size && lines < LOG_LINES; c++) {
        if (strncmp(c, folder, prefix) == 0 && c[prefix] == '/') c += prefix + 1;
        if (!*c) break;
        lines += *c == '\n';
        out[used++] = *c;
    }
    while (used && out[used - 1] == '\n')
        used--;
    out[used] = 0;
}

/* Temporary files and the object need room where the folder lies; without it a compiler may not even say so.
 */
static bool room_is_left(const char *folder) {
    struct statvfs info;
    if (statvfs(folder, &info) != 0) return true;
    return (double)info.f_bavail * (double)info.f_frsize >= ROOM_LEAST &&
           (info.f_files == 0 || info.f_favail > 0);
}

static hr_status outcome(const hr_compiler *compiler, int status, double seconds, const char *folder,
                         const char *log, const char *object) {
    char said[LOG_SHOWN + 1];
    struct stat info;
    log_read(log, folder, said, sizeof said);
    if (status == HR_PROCESS_TIMED_OUT)
        return hr_fail(HR_INTERNAL, "%s did not finish within %.0f s", compiler->path, seconds);
    if (status >= 0 && WIFSIGNALED(status))
        return hr_fail(HR_INTERNAL, "%s was ended by signal %d (%s)%s%s", compiler->path, WTERMSIG(status),
                       strsignal(WTERMSIG(status)), *said ? ":\n" : "", said);
    if (status != 0 && !room_is_left(folder))
        return hr_fail(
            HR_IO,
            "%s had no room to compile in %s of the cache: free some, or set HEADROOM_CACHE to another "
            "folder",
            compiler->path, folder);
    if (status > 0)
        return hr_fail(HR_INTERNAL, "%s refused the generated source (exit code %d)%s%s", compiler->path,
                       WEXITSTATUS(status), *said ? ":\n" : "", said);
    if (stat(object, &info) || info.st_size == 0)
        return hr_fail(HR_INTERNAL, "%s ended without writing a shared object%s%s", compiler->path,
                       *said ? ":\n" : "", said);
    return HR_OK;
}

hr_status hr_compiler_run(const hr_compiler *compiler, unsigned flags, const char *folder, const char *source,
                          const char *object, double seconds) {
    char source_path[PATH_MAX], object_path[PATH_MAX], log_path[PATH_MAX], words[sizeof compiler->words],
        *rest;
    const char *arguments[ARGUMENTS_MAX];
    int count = 0;
    int longest = snprintf(source_path, sizeof source_path, "%s/%s", folder, source);
    int other = snprintf(object_path, sizeof object_path, "%s/%s", folder, object);
    snprintf(log_path, sizeof log_path, "%s/" LOG_NAME, folder);
    if (longest >= PATH_MAX || other >= PATH_MAX)
        return hr_fail(HR_BAD_INPUT, "%s is too long a path", folder);

    arguments[count++] = compiler->path;
    memcpy(words, compiler->words, sizeof words);
    for (char *word = strtok_r(words, SPACES, &rest); word; word = strtok_r(NULL, SPACES, &rest))
        arguments[count++] = word;
    count += flags_list(flags, arguments + count);
    arguments[count++] = "-o";
    arguments[count++] = object_path;
    arguments[count++] = source_path;
    arguments[count++] = "-lm";
    arguments[count] = NULL;

    int ended;
    HR_TRY(hr_process_run(arguments, NULL, folder, log_path, seconds, &ended));
    return outcome(compiler, ended, seconds, folder, log_path, object_path);
}
