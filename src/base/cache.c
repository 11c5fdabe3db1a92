/* The cache folder: where it is, whether it can be trusted, and how entries get into it whole.
 *
 * In: the environment (HEADROOM_CACHE, XDG_CACHE_HOME, HOME), keys, finished files. Out: a checked path,
 * hashes, scratch folders, entries. Code is loaded from this folder, so each folder and link on the way to it
 * must belong to this user or to root, and nobody else may be able to replace it.
 */
#include "base/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define SCRATCH_PREFIX   "scratch-"
#define OWNER_LOCK       "lock"          /* in a scratch folder, held while it is in use */
#define TURN_LOCK        ".scratch-lock" /* in the cache folder, held while one is made or removed */
#define LINKS_MAX        40
#define FOLDER_DEPTH_MAX 16
#define PICK_ANOTHER     "set HEADROOM_CACHE to a folder of your own"
#define ENTRY_MODE       0600
#define PRIVATE_MODE     0700

/* ---- where ---- */

static hr_status path_print(char *path, size_t size, const char *folder, const char *rest) {
    int length = snprintf(path, size, "%s%s", folder, rest);
    if (length >= 0 && (size_t)length < size) return HR_OK;
    return hr_fail(HR_BAD_INPUT, "the path of the cache folder is longer than %zu bytes: " PICK_ANOTHER,
                   size - 1);
}

static const char *environment(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

static hr_status cache_path(char *path, size_t size) {
    const char *given = environment("HEADROOM_CACHE");
    if (given && *given == '/') return path_print(path, size, given, "");
    if (given) {
        char here[PATH_MAX], rest[PATH_MAX];
        if (!getcwd(here, sizeof here))
            return hr_fail(HR_IO, "HEADROOM_CACHE=%s is relative and the current folder has no path: %s",
                           given, strerror(errno));
        HR_TRY(path_print(rest, sizeof rest, "/", given));
        return path_print(path, size, here, rest);
    }
    const char *folder = environment("XDG_CACHE_HOME");
    if (folder && *folder == '/') return path_print(path, size, folder, "/headroom");
    const char *home = environment("HOME");
    if (home && *home == '/') return path_print(path, size, home, "/.cache/headroom");

    char buffer[4096];
    struct passwd user, *found = NULL;
    if (getpwuid_r(geteuid(), &user, buffer, sizeof buffer, &found) == 0 && found && *user.pw_dir == '/')
        return path_print(path, size, user.pw_dir, "/.cache/headroom");
    return hr_fail(HR_BAD_INPUT, "there is no place for the cache: HOME is not set; " PICK_ANOTHER);
}

/* Makes every missing folder of `path`. */
static hr_status folders_make(char *path) {
    for (char *slash = path + 1;; slash++) {
        if (*slash != '/' && *slash) continue;
        char end = *slash;
        *slash = 0;
        bool made = mkdir(path, PRIVATE_MODE) == 0 || errno == EEXIST || access(path, F_OK) == 0;
        int error = errno;
        hr_status status = HR_OK;
        if (!made)
            status =
                hr_fail(HR_IO, "cannot make the cache folder %s: %s; " PICK_ANOTHER, path, strerror(error));
        *slash = end;
        if (status != HR_OK || !end) return status;
    }
}

/* ---- trust ---- */

/* Many systems give each user a group of one; a folder that this group can write to is still private. */
static bool group_is_private(gid_t group) {
    char user_buffer[4096], group_buffer[4096];
    struct passwd user, *user_found = NULL;
    struct group members, *group_found = NULL;
    if (getpwuid_r(geteuid(), &user, user_buffer, sizeof user_buffer, &user_found) || !user_found)
        return false;
    if (getgrgid_r(group, &members, group_buffer, sizeof group_buffer, &group_found) || !group_found)
        return false;
    if (user.pw_gid != group || strcmp(user.pw_name, members.gr_name) != 0) return false;
    for (char **name = members.gr_mem; *name; name++)
        if (strcmp(*name, user.pw_name) != 0) return false;
    return true;
}

/* Whoever owns / can do anything here; in a user namespace that need not be number 0. */
static bool owner_is_trusted(uid_t owner) {
    struct stat root;
    return owner == geteuid() || owner == 0 || (stat("/", &root) == 0 && owner == root.st_uid);
}

static hr_status step_check(const char *step, const struct stat *info, bool last) {
    if (!owner_is_trusted(info->st_uid) || (last && S_ISDIR(info->st_mode) && info->st_uid != geteuid()))
        return hr_fail(HR_BAD_INPUT,
                       "the cache holds code that is run, and %s belongs to another user (%u): " PICK_ANOTHER,
                       step, (unsigned)info->st_uid);
    if (S_ISLNK(info->st_mode)) return HR_OK;
    if (!S_ISDIR(info->st_mode))
        return hr_fail(HR_BAD_INPUT,
                       "%s should be a folder of the cache and is none: remove it, or " PICK_ANOTHER, step);
    bool open = (info->st_mode & S_IWOTH) || ((info->st_mode & S_IWGRP) && !group_is_private(info->st_gid));
    if (open && (last || !(info->st_mode & S_ISVTX)))
        return hr_fail(
            HR_BAD_INPUT,
            "the cache holds code that is run, and others can write to %s: chmod go-w %s, or " PICK_ANOTHER,
            step, step);
    return HR_OK;
}

/* Replaces the link at path[0..length) by what it points to, keeping the rest. */
static hr_status link_follow(char *path, size_t size, size_t length) {
    char target[PATH_MAX], rest[PATH_MAX], parent[PATH_MAX];
    HR_TRY(path_print(rest, sizeof rest, path + length, ""));
    path[length] = 0;
    ssize_t count = readlink(path, target, sizeof target - 1);
    if (count < 0) return hr_fail(HR_IO, "cannot read the link %s: %s", path, strerror(errno));
    target[count] = 0;
    *strrchr(path, '/') = 0;
    HR_TRY(path_print(parent, sizeof parent, *target == '/' ? "" : path, *target == '/' ? "" : "/"));
    HR_TRY(path_print(path, size, parent, target));
    size_t used = strlen(path);
    return path_print(path + used, size - used, rest, "");
}

/* Walks `path` from the root as the system would, links included, and checks every step. */
static hr_status folder_check(const char *folder) {
    char path[PATH_MAX];
    HR_TRY(path_print(path, sizeof path, folder, ""));
    int links = 0;
    for (size_t i = 1;; i++) {
        if (path[i] != '/' && path[i]) continue;
        char end = path[i];
        path[i] = 0;
        struct stat info;
        if (lstat(path, &info))
            return hr_fail(HR_IO, "cannot look at %s of the cache folder: %s; " PICK_ANOTHER, path,
                           strerror(errno));
        HR_TRY(step_check(path, &info, !end || !path[i + 1]));
        path[i] = end;
        if (S_ISLNK(info.st_mode)) {
            if (++links > LINKS_MAX)
                return hr_fail(HR_BAD_INPUT, "%s goes through too many links: " PICK_ANOTHER, folder);
            HR_TRY(link_follow(path, sizeof path, i));
            i = 0;
        } else if (!end)
            return HR_OK;
    }
}

hr_status hr_cache_folder(char *path, size_t size) {
    char folder[PATH_MAX];
    HR_TRY(cache_path(folder, sizeof folder - NAME_MAX));
    for (size_t length = strlen(folder); length > 1 && folder[length - 1] == '/';)
        folder[--length] = 0;
    if (access(folder, F_OK) != 0) HR_TRY(folders_make(folder));
    HR_TRY(folder_check(folder));
    return path_print(path, size, folder, "");
}

hr_status hr_cache_open(const char *path, int flags, int *out) {
    struct stat info;
    int file = open(path, flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, ENTRY_MODE);
    if (file >= 0 && fstat(file, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid()) {
        *out = file;
        return HR_OK;
    }
    if (file < 0 && errno != ELOOP)
        return hr_fail(HR_IO, "cannot open %s of the cache: %s; " PICK_ANOTHER, path, strerror(errno));
    if (file >= 0) close(file);
    return hr_fail(HR_IO, "%s of the cache is a link, no regular file, or another user's: remove it", path);
}

/* ---- keys ---- */

void hr_cache_hash(const void *data, size_t length, char out[33]) {
    XXH128_hash_t hash = XXH3_128bits(data, length);
    snprintf(out, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

/* ---- scratch ---- */

/* Removes what lies under an open folder, never following a link, and closes it. */
static void folder_empty(int folder, int depth) {
    DIR *listing = fdopendir(folder);
    if (!listing) {
        close(folder);
        return;
    }
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (unlinkat(folder, entry->d_name, 0) == 0 || depth == FOLDER_DEPTH_MAX) continue;
        int inner = openat(folder, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner < 0) continue;
        folder_empty(inner, depth + 1);
        unlinkat(folder, entry->d_name, AT_REMOVEDIR);
    }
    closedir(listing);
}

static void tree_remove(int parent, const char *name) {
    int folder = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) return;
    folder_empty(folder, 0);
    unlinkat(parent, name, AT_REMOVEDIR);
}

/* The lock at `name` in an open folder. -1: no such file, or another has it. */
static int lock_try(int folder, const char *name) {
    int lock = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
    close(lock);
    return -1;
}

/* Unlocked by name, not by close alone: a child that was forked meanwhile has the descriptor, too. */
static void lock_release(int lock) {
    if (lock < 0) return;
    flock(lock, LOCK_UN);
    close(lock);
}

static bool scratch_has_owner(int cache, const char *name) {
    int folder = openat(cache, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0) return true; /* no folder, so none of ours */
    bool locked = faccessat(folder, OWNER_LOCK, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int lock = lock_try(folder, OWNER_LOCK);
    close(folder);
    lock_release(lock);
    return locked && lock < 0;
}

/* What killed processes left behind. */
static void scratch_sweep(const char *cache) {
    DIR *listing = opendir(cache);
    if (!listing) return;
    for (struct dirent *entry; (entry = readdir(listing));) {
        if (strncmp(entry->d_name, SCRATCH_PREFIX, strlen(SCRATCH_PREFIX)) != 0) continue;
        if (!scratch_has_owner(dirfd(listing), entry->d_name)) tree_remove(dirfd(listing), entry->d_name);
    }
    closedir(listing);
}

static hr_status scratch_make(const char *cache, hr_scratch *out) {
    char path[PATH_MAX];
    out->lock = -1;
    HR_TRY(path_print(out->path, sizeof out->path, cache, "/" SCRATCH_PREFIX "XXXXXX"));
    if (!mkdtemp(out->path))
        return hr_fail(HR_IO, "cannot make a folder in the cache %s: %s; " PICK_ANOTHER, cache,
                       strerror(errno));
    hr_status status = path_print(path, sizeof path, out->path, "/" OWNER_LOCK);
    if (status == HR_OK) status = hr_cache_open(path, O_RDWR | O_CREAT | O_EXCL, &out->lock);
    if (status == HR_OK && flock(out->lock, LOCK_EX | LOCK_NB) == 0) return HR_OK;
    if (status != HR_OK) hr_cache_scratch_remove(out);
    return status;
}

/* One at a time: between its making and its lock a folder looks like one without an owner. */
hr_status hr_cache_scratch_create(hr_scratch *out) {
    char cache[PATH_MAX - NAME_MAX], path[PATH_MAX];
    int turn;
    HR_TRY(hr_cache_folder(cache, sizeof cache));
    HR_TRY(path_print(path, sizeof path, cache, "/" TURN_LOCK));
    HR_TRY(hr_cache_open(path, O_RDWR | O_CREAT, &turn));
    int code;
    do
        code = flock(turn, LOCK_EX);
    while (code != 0 && errno == EINTR);
    if (code == 0) scratch_sweep(cache); /* a file system without locks cannot tell who lives */
    hr_status status = scratch_make(cache, out);
    lock_release(turn);
    return status;
}

void hr_cache_scratch_remove(hr_scratch *scratch) {
    const char *slash = strrchr(scratch->path, '/');
    if (slash && strncmp(slash + 1, SCRATCH_PREFIX, strlen(SCRATCH_PREFIX)) == 0)
        tree_remove(AT_FDCWD, scratch->path);
    lock_release(scratch->lock);
    scratch->lock = -1;
}

/* ---- entries ---- */

static bool entry_name_valid(const char *name) {
    return *name && *name != '.' && !strchr(name, '/') && strlen(name) < NAME_MAX;
}

static hr_status synced_close(int file, bool synced, const char *path) {
    hr_status status = HR_OK;
    if (!synced || fsync(file) != 0)
        status = hr_fail(HR_IO, "cannot write %s of the cache to disk: %s", path, strerror(errno));
    if (file >= 0) close(file);
    return status;
}

static hr_status file_sync(const char *path) {
    int file;
    HR_TRY(hr_cache_open(path, O_RDONLY, &file));
    return synced_close(file, fchmod(file, ENTRY_MODE) == 0, path);
}

static hr_status folder_sync(const char *path) {
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return synced_close(folder, folder >= 0, path);
}

hr_status hr_cache_put(const char *from, const char *name) {
    char cache[PATH_MAX], entry[PATH_MAX];
    if (!entry_name_valid(name)) return hr_fail(HR_INTERNAL, "'%s' cannot name an entry of the cache", name);
    HR_TRY(hr_cache_folder(cache, sizeof cache));
    HR_TRY(path_print(entry, sizeof entry, cache, "/"));
    size_t used = strlen(entry);
    HR_TRY(path_print(entry + used, sizeof entry - used, name, ""));
    HR_TRY(file_sync(from));
    if (rename(from, entry) != 0) {
        /* Something else took the place: a folder under an entry's name is nobody's. */
        if (errno == EISDIR || errno == ENOTEMPTY || errno == EEXIST) tree_remove(AT_FDCWD, entry);
        if (rename(from, entry) != 0)
            return hr_fail(HR_IO, "cannot put %s into the cache: %s; " PICK_ANOTHER, entry, strerror(errno));
    }
    return folder_sync(cache);
}
