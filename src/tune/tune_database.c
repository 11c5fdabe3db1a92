/* What earlier searches found, in SQLite: one row a key.
 *
 * In: keys and results. Out: results, or nothing. `user_version` is the schema's version: an older file is
 * begun anew, a newer one is left alone. A rollback journal rather than WAL: writes are rare, and it works on
 * network file systems.
 */
#include "base/saturate.h"
#include "tune/tune.h"

#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

#define SCHEMA_VERSION 3
#define BUSY_MS        2000
#define PATH_SIZE      4096

struct hr_tune_database {
    sqlite3 *handle;
    sqlite3_stmt *find;
    ino_t inode; /* of the file when it was opened */
    char path[PATH_SIZE];
};

/* ---- a result as text: a line a candidate, "seconds runs stage.knob=value ...", the knobs by their names in
 * knobs.def, the best choice first; then a line with the hash of the key and all before ---- */

static void tried_print(hr_text *text, const hr_tried *tried) {
    hr_text_format(text, "%.9g %d", tried->seconds, tried->runs);
    for (int i = 0; i < tried->choice.count; i++) {
        const hr_setting *setting = &tried->choice.settings[i];
        hr_text_format(text, " %d.%s=%d", setting->stage, hr_knob_list[setting->knob].name, setting->value);
    }
    hr_text_append(text, "\n", 1);
}

/* A number from 0 on, before `stop`; NULL where there is none, else what comes behind. */
static const char *number_parse(const char *at, char stop, int *out) {
    char *end;
    const long value = strtol(at, &end, 10);
    if (end == at || value < 0 || value > INT_MAX || (stop && *end != stop)) return NULL;
    *out = (int)value;
    return stop ? end + 1 : end;
}

static const char *setting_parse(const char *at, hr_setting *out) {
    at = number_parse(at, '.', &out->stage);
    const size_t length = at ? strcspn(at, "= \n") : 0;
    out->knob = at ? hr_knob_find(at, length) : -1;
    return out->knob >= 0 && at[length] == '=' ? number_parse(at + length + 1, 0, &out->value) : NULL;
}

/* Reads one line; NULL where it is not one, or no choice that could have been tried. */
static const char *tried_parse(const char *line, hr_tried *out) {
    char *end;
    *out = (hr_tried){0};
    out->seconds = strtod(line, &end);
    if (end == line || !(out->seconds >= 0)) return NULL;
    out->runs = hr_saturate_int(strtol(end, &end, 10));
    hr_choice *choice = &out->choice;
    const char *at = end;
    while (at && *at == ' ' && choice->count < HR_SETTINGS_MAX)
        at = setting_parse(at + 1, &choice->settings[choice->count++]);
    return at && *at == '\n' && hr_choice_check(choice, INT_MAX) == HR_OK ? at + 1 : NULL;
}

static unsigned long long row_hash(const char *key, const char *text, size_t length) {
    return (unsigned long long)XXH3_64bits_withSeed(text, length, XXH3_64bits(key, strlen(key)));
}

static void tuned_print(hr_text *text, const char *key, const hr_tuned *tuned) {
    hr_tried best = {.choice = tuned->best};
    tried_print(text, &best);
    for (int i = 0; i < tuned->tried_count; i++)
        tried_print(text, &tuned->tried[i]);
    hr_text_format(text, "= %016llx\n", row_hash(key, hr_text_data(text), text->length));
}

/* Where the line with the hash begins; NULL where there is none, or it is another row's. */
static const char *hash_find(const char *text, const char *key) {
    char expected[32];
    const char *line = strstr(text, "\n= ");
    if (!line++) return NULL;
    snprintf(expected, sizeof expected, "= %016llx\n", row_hash(key, text, (size_t)(line - text)));
    return strcmp(line, expected) == 0 ? line : NULL;
}

static bool tuned_parse(const char *text, const char *key, hr_tuned *out) {
    hr_tried best;
    const char *end = hash_find(text, key), *line = end ? tried_parse(text, &best) : NULL;
    if (!line) return false;
    out->best = best.choice;
    out->tried_count = 0;
    while (line < end && out->tried_count < HR_TRIED_MAX)
        if (!(line = tried_parse(line, &out->tried[out->tried_count++]))) return false;
    return true;
}

/* ---- the file ---- */

static int version_read(sqlite3 *handle, int *version) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle, "PRAGMA user_version", -1, &statement, NULL);
    if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW) {
        *version = sqlite3_column_int(statement, 0);
        code = SQLITE_OK;
    }
    sqlite3_finalize(statement);
    return code;
}

/* Under the write lock, where the version is looked at again: another process may have been first. */
static int schema_create(sqlite3 *handle) {
    static const char schema[] = "DROP TABLE IF EXISTS tuned;"
                                 "CREATE TABLE tuned(key TEXT PRIMARY KEY, mode INTEGER NOT NULL,"
                                 " seconds REAL NOT NULL, made INTEGER NOT NULL, result TEXT NOT NULL)"
                                 " WITHOUT ROWID;"
                                 "PRAGMA user_version = 3;";
    _Static_assert(SCHEMA_VERSION == 3, "the schema's text sets this version");
    int version = 0;
    int code = sqlite3_exec(handle, "BEGIN IMMEDIATE", NULL, NULL, NULL);
    if (code == SQLITE_OK) code = version_read(handle, &version);
    if (code == SQLITE_OK && version < SCHEMA_VERSION) code = sqlite3_exec(handle, schema, NULL, NULL, NULL);
    if (code == SQLITE_OK) code = sqlite3_exec(handle, "COMMIT", NULL, NULL, NULL);
    if (code != SQLITE_OK) sqlite3_exec(handle, "ROLLBACK", NULL, NULL, NULL);
    return code;
}

static const char find_text[] = "SELECT mode, seconds, result FROM tuned WHERE key = ?1 AND mode >= ?2";

/* Opens the file and makes the statement that looks up; creates the schema only where there is none. */
static int file_open(const char *path, hr_tune_database *out) {
    int version = 0;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
    int code = sqlite3_open_v2(path, &out->handle, flags, NULL);
    if (code != SQLITE_OK) return code;
    sqlite3_busy_timeout(out->handle, BUSY_MS);
    if ((code = version_read(out->handle, &version)) != SQLITE_OK) return code;
    if (version > SCHEMA_VERSION) return SQLITE_MISMATCH;
    if (version < SCHEMA_VERSION && (code = schema_create(out->handle)) != SQLITE_OK) return code;
    return sqlite3_prepare_v2(out->handle, find_text, -1, &out->find, NULL);
}

static void file_close(hr_tune_database *database) {
    sqlite3_finalize(database->find);
    sqlite3_close(database->handle);
    database->find = NULL;
    database->handle = NULL;
}

static bool code_is_corruption(int code) {
    return (code & 0xff) == SQLITE_CORRUPT || (code & 0xff) == SQLITE_NOTADB;
}

static ino_t file_inode(const char *path) {
    struct stat now;
    return stat(path, &now) == 0 ? now.st_ino : 0;
}

/* Moves a corrupt file out of the way, unless another process has put a new one there since it was opened. */
static void file_retire(const hr_tune_database *database) {
    char corrupt[PATH_SIZE + 16], journal[PATH_SIZE + 16];
    if (file_inode(database->path) != database->inode) return;
    snprintf(corrupt, sizeof corrupt, "%s.corrupt", database->path);
    snprintf(journal, sizeof journal, "%s-journal", database->path);
    if (rename(database->path, corrupt) == 0) unlink(journal);
}

/* Begins anew where `code` says that the file is corrupt. True where the database can be used (again). */
static bool database_recover(hr_tune_database *database, int code) {
    if (!code_is_corruption(code)) return false;
    file_close(database);
    file_retire(database);
    database->inode = file_inode(database->path);
    return file_open(database->path, database) == SQLITE_OK;
}

/* What is a link, or another user's, is left alone; the folder belongs to this user, so it stays what it is.
 */
static bool file_is_ours(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0) return errno == ENOENT;
    return S_ISREG(info.st_mode) && info.st_uid == geteuid();
}

hr_tune_database *hr_tune_database_open(const char *folder) {
    hr_tune_database *database = calloc(1, sizeof *database);
    if (!database) return NULL;
    int length = snprintf(database->path, sizeof database->path, "%s/tune.sqlite", folder);
    if (length < (int)sizeof database->path && file_is_ours(database->path)) {
        database->inode = file_inode(database->path);
        int code = file_open(database->path, database);
        if (code == SQLITE_OK || database_recover(database, code)) return database;
    }
    hr_tune_database_close(database);
    return NULL;
}

void hr_tune_database_close(hr_tune_database *database) {
    if (!database) return;
    file_close(database);
    free(database);
}

bool hr_tune_database_find(hr_tune_database *database, const char *key, hr_tune mode, hr_tuned *out) {
    bool found = false;
    if (!database || !database->find) return false;
    sqlite3_bind_text(database->find, 1, key, -1, SQLITE_STATIC);
    sqlite3_bind_int(database->find, 2, mode);
    int code = sqlite3_step(database->find);
    if (code == SQLITE_ROW) {
        hr_tuned tuned = {.seconds = sqlite3_column_double(database->find, 1), .cached = true};
        const char *text = (const char *)sqlite3_column_text(database->find, 2);
        found = text && tuned_parse(text, key, &tuned);
        if (found) *out = tuned;
    }
    sqlite3_reset(database->find);
    database_recover(database, code);
    return found;
}

static int row_keep(sqlite3 *handle, const char *key, hr_tune mode, double seconds, const hr_text *result) {
    static const char keep_text[] =
        "INSERT INTO tuned(key, mode, seconds, made, result) VALUES(?1, ?2, ?3, ?4, ?5)"
        " ON CONFLICT(key) DO UPDATE SET mode = ?2, seconds = ?3, made = ?4, result = ?5 WHERE mode <= ?2";
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(handle, keep_text, -1, &statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
        sqlite3_bind_int(statement, 2, mode);
        sqlite3_bind_double(statement, 3, seconds);
        sqlite3_bind_int64(statement, 4, (sqlite3_int64)time(NULL));
        sqlite3_bind_text(statement, 5, hr_text_data(result), (int)result->length, SQLITE_STATIC);
        code = sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    return code;
}

bool hr_tune_database_keep(hr_tune_database *database, const char *key, hr_tune mode, const hr_tuned *tuned) {
    hr_text result = {0};
    int code = SQLITE_ERROR;
    if (!database || !database->handle) return false;
    tuned_print(&result, key, tuned);
    if (!result.failed) code = row_keep(database->handle, key, mode, tuned->seconds, &result);
    if (database_recover(database, code))
        code = row_keep(database->handle, key, mode, tuned->seconds, &result);
    hr_text_clear(&result);
    return code == SQLITE_DONE;
}

void hr_tune_database_forget(hr_tune_database *database, const char *key) {
    sqlite3_stmt *statement = NULL;
    if (!database || !database->handle) return;
    int code = sqlite3_prepare_v2(database->handle, "DELETE FROM tuned WHERE key = ?1", -1, &statement, NULL);
    if (code == SQLITE_OK) {
        sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
        code = sqlite3_step(statement);
    }
    sqlite3_finalize(statement);
    database_recover(database, code);
}
