/* The cache folder: where it is looked for, which folders are refused, how entries get in. */
#include "base/cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64], *home;

static int set_up(void **state) {
    (void)state;
    snprintf(root, sizeof root, "/tmp/headroom-cache-XXXXXX");
    if (!mkdtemp(root)) return -1;
    home = getenv("HOME") ? strdup(getenv("HOME")) : NULL;
    unsetenv("HEADROOM_CACHE");
    unsetenv("XDG_CACHE_HOME");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[160];
    if (home) setenv("HOME", home, 1);
    free(home);
    unsetenv("HEADROOM_CACHE");
    unsetenv("XDG_CACHE_HOME");
    snprintf(command, sizeof command, "chmod -R u+rwx '%s'; rm -rf '%s'", root, root);
    return system(command);
}

/* root/name; one of four buffers in turn */
static const char *under(const char *name) {
    static char paths[4][256];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static void folder_make(const char *path, mode_t mode) {
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void accepts(const char *expected) {
    char path[PATH_MAX] = "";
    hr_status status = hr_cache_folder(path, sizeof path);
    if (status != HR_OK) print_error("%s\n", hr_last_error());
    assert_int_equal(status, HR_OK);
    assert_string_equal(path, expected);
}

static void refuses(hr_status code, const char *sentence) {
    char path[PATH_MAX] = "untouched";
    assert_int_equal(hr_cache_folder(path, sizeof path), code);
    if (!strstr(hr_last_error(), sentence)) print_error("%s\n", hr_last_error());
    assert_non_null(strstr(hr_last_error(), sentence));
    assert_non_null(strstr(hr_last_error(), "HEADROOM_CACHE"));
    assert_string_equal(path, "untouched");
}

static void test_order(void **state) {
    (void)state;
    struct stat info;
    setenv("HOME", root, 1);
    accepts(under(".cache/headroom"));
    assert_int_equal(stat(under(".cache/headroom"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    setenv("XDG_CACHE_HOME", under("xdg"), 1);
    accepts(under("xdg/headroom"));
    setenv("XDG_CACHE_HOME", "not/absolute", 1); /* the standard says: ignore it */
    accepts(under(".cache/headroom"));
    setenv("HEADROOM_CACHE", under("a b/it's; $(own)///"), 1);
    accepts(under("a b/it's; $(own)"));
    setenv("HEADROOM_CACHE", "", 1);
    accepts(under(".cache/headroom"));
}

static void test_relative(void **state) {
    (void)state;
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(root), 0);
    setenv("HEADROOM_CACHE", "here/below", 1);
    accepts(under("here/below"));
    assert_int_equal(chdir(before), 0);
}

static void test_no_home(void **state) {
    (void)state;
    unsetenv("HOME"); /* the user's entry in the password file is left */
    char path[PATH_MAX];
    hr_status status = hr_cache_folder(path, sizeof path);
    if (status == HR_OK)
        assert_non_null(strstr(path, "/.cache/headroom"));
    else
        assert_non_null(strstr(hr_last_error(), "HEADROOM_CACHE"));
}

static void test_open_to_others(void **state) {
    (void)state;
    setenv("HEADROOM_CACHE", under("open"), 1);
    folder_make(under("open"), 0777);
    refuses(HR_BAD_INPUT, "others can write");
    assert_int_equal(chmod(under("open"), 01777), 0); /* sticky is good enough for a parent only */
    refuses(HR_BAD_INPUT, "others can write");
    assert_int_equal(chmod(under("open"), 0702), 0);
    refuses(HR_BAD_INPUT, "chmod go-w");
    assert_int_equal(chmod(under("open"), 0755), 0); /* reading harms nobody */
    accepts(under("open"));
}

static void test_open_parent(void **state) {
    (void)state;
    folder_make(under("open"), 0777);
    setenv("HEADROOM_CACHE", under("open/cache"), 1);
    refuses(HR_BAD_INPUT, "others can write");
    assert_int_equal(chmod(under("open"), 01777), 0);
    accepts(under("open/cache"));
}

static void test_links(void **state) {
    (void)state;
    folder_make(under("real"), 0700);
    assert_int_equal(symlink("real", under("link")), 0);
    setenv("HEADROOM_CACHE", under("link"), 1);
    accepts(under("link"));
    setenv("HEADROOM_CACHE", under("link/inner/"), 1);
    accepts(under("link/inner"));

    folder_make(under("open"), 0777);
    folder_make(under("open/cache"), 0700);
    assert_int_equal(symlink(under("open/cache"), under("trap")), 0);
    setenv("HEADROOM_CACHE", under("trap"), 1);
    refuses(HR_BAD_INPUT, "others can write");
    assert_int_equal(symlink("../trap", under("real/again")), 0);
    setenv("HEADROOM_CACHE", under("real/again"), 1);
    refuses(HR_BAD_INPUT, "others can write");

    assert_int_equal(symlink("loop", under("loop")), 0);
    setenv("HEADROOM_CACHE", under("loop"), 1);
    refuses(HR_BAD_INPUT, "too many links");
    assert_int_equal(symlink("/nowhere/at/all", under("dangling")), 0);
    setenv("HEADROOM_CACHE", under("dangling"), 1);
    refuses(HR_IO, "cache");
}

static void test_other_owner(void **state) {
    (void)state;
    if (geteuid() != 0) {
        print_message("not root: cannot make another user's folder\n");
        skip();
    }
    folder_make(under("theirs"), 0700);
    assert_int_equal(chown(under("theirs"), 12345, 12345), 0);
    setenv("HEADROOM_CACHE", under("theirs"), 1);
    refuses(HR_BAD_INPUT, "another user (12345)");
    setenv("HEADROOM_CACHE", under("theirs/inner"), 1);
    refuses(HR_BAD_INPUT, "another user (12345)");
    folder_make(under("mine"), 0700);
    assert_int_equal(symlink("mine", under("their-link")), 0);
    assert_int_equal(lchown(under("their-link"), 12345, 12345), 0);
    setenv("HEADROOM_CACHE", under("their-link"), 1);
    refuses(HR_BAD_INPUT, "another user (12345)");
    folder_make(under("group"), 0770);
    assert_int_equal(chown(under("group"), 0, 12345), 0);
    setenv("HEADROOM_CACHE", under("group"), 1);
    refuses(HR_BAD_INPUT, "others can write");
}

static void test_impossible_places(void **state) {
    (void)state;
    FILE *file = fopen(under("file"), "w");
    assert_non_null(file);
    fclose(file);
    setenv("HEADROOM_CACHE", under("file"), 1);
    refuses(HR_BAD_INPUT, "should be a folder");
    setenv("HEADROOM_CACHE", under("file/inner"), 1);
    refuses(HR_IO, "cannot make");
    setenv("HEADROOM_CACHE", "/proc/headroom", 1);
    refuses(HR_IO, "cannot make");
    char *endless = malloc(PATH_MAX + 10);
    memset(endless, 'a', PATH_MAX + 9);
    endless[0] = '/';
    endless[PATH_MAX + 9] = 0;
    setenv("HEADROOM_CACHE", endless, 1);
    refuses(HR_BAD_INPUT, "longer than");
    free(endless);
    setenv("HEADROOM_CACHE", under("good"), 1);
    char small[4] = "abc";
    assert_int_equal(hr_cache_folder(small, sizeof small), HR_BAD_INPUT);
}

static void test_hash(void **state) {
    (void)state;
    char hash[33], other[33];
    hr_cache_hash("", 0, hash);
    assert_string_equal(hash,
                        "99aa06d3014798d86001c324468d497f"); /* XXH3-128 of nothing, its published value */
    hr_cache_hash("a", 1, hash);
    hr_cache_hash("b", 1, other);
    assert_int_equal(strlen(hash), 32);
    assert_string_not_equal(hash, other);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_scratch_and_put(void **state) {
    (void)state;
    char path[PATH_MAX + 32], read[16] = "";
    hr_scratch scratch, other;
    struct stat info;
    setenv("HEADROOM_CACHE", under("cache"), 1);
    assert_int_equal(hr_cache_scratch_create(&scratch), HR_OK);
    assert_int_equal(hr_cache_scratch_create(&other), HR_OK);
    assert_string_not_equal(scratch.path, other.path);
    assert_int_equal(stat(scratch.path, &info), 0);
    assert_int_equal(info.st_mode & 07777, 0700);
    for (int i = 0; i < 2; i++) { /* the second replaces the first */
        snprintf(path, sizeof path, "%s/file", scratch.path);
        write_file(path, i ? "second" : "first");
        assert_int_equal(hr_cache_put(path, "entry"), HR_OK);
        assert_int_equal(access(path, F_OK), -1);
    }
    FILE *file = fopen(under("cache/entry"), "r");
    assert_non_null(file);
    assert_non_null(fgets(read, sizeof read, file));
    fclose(file);
    assert_string_equal(read, "second");
    assert_int_equal(stat(under("cache/entry"), &info), 0);
    assert_int_equal(info.st_mode & 07777, 0600);

    /* A link in a scratch folder is removed, what it points to is not. */
    snprintf(path, sizeof path, "%s/deep", scratch.path);
    folder_make(path, 0700);
    snprintf(path, sizeof path, "%s/deep/link", scratch.path);
    folder_make(under("precious"), 0700);
    write_file(under("precious/data"), "x");
    assert_int_equal(symlink(under("precious"), path), 0);
    hr_cache_scratch_remove(&scratch);
    assert_int_equal(access(scratch.path, F_OK), -1);
    assert_int_equal(access(under("precious/data"), F_OK), 0);
    assert_int_equal(access(other.path, F_OK), 0);
    hr_scratch foreign = {.lock = -1};
    snprintf(foreign.path, sizeof foreign.path, "%s", under("precious"));
    hr_cache_scratch_remove(&foreign); /* not a scratch folder: not touched */
    assert_int_equal(access(under("precious/data"), F_OK), 0);
    hr_cache_scratch_remove(&other);
}

static void test_put_refuses(void **state) {
    (void)state;
    char path[PATH_MAX + 8];
    hr_scratch scratch;
    setenv("HEADROOM_CACHE", under("cache"), 1);
    assert_int_equal(hr_cache_scratch_create(&scratch), HR_OK);
    snprintf(path, sizeof path, "%s/file", scratch.path);
    write_file(path, "x");
    assert_int_equal(hr_cache_put(path, "../escape"), HR_INTERNAL);
    assert_int_equal(hr_cache_put(path, ""), HR_INTERNAL);
    assert_int_equal(hr_cache_put(path, ".."), HR_INTERNAL);
    assert_int_equal(hr_cache_put("/nowhere/file", "entry"), HR_IO);
    assert_int_equal(access(under("escape"), F_OK), -1);
    hr_cache_scratch_remove(&scratch);
}

static void test_read_only(void **state) {
    (void)state;
    hr_scratch scratch;
    if (geteuid() == 0) {
        /* Root writes anywhere but where nobody can: a pseudo file system. */
        setenv("HEADROOM_CACHE", "/proc/self", 1);
    } else {
        folder_make(under("fixed"), 0500);
        setenv("HEADROOM_CACHE", under("fixed"), 1);
    }
    assert_int_not_equal(hr_cache_scratch_create(&scratch), HR_OK);
    assert_non_null(strstr(hr_last_error(), "HEADROOM_CACHE"));
}

static void age(const char *path, int hours) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - hours * 3600}, {.tv_sec = time(NULL) - hours * 3600}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), 0);
}

/* What a killed process leaves: its lock is gone, its folder stays. */
static void abandon(hr_scratch *scratch) {
    char inner[PATH_MAX + 8];
    assert_int_equal(hr_cache_scratch_create(scratch), HR_OK);
    snprintf(inner, sizeof inner, "%s/a.c", scratch->path);
    write_file(inner, "x");
    close(scratch->lock);
}

/* Whether somebody holds the folder decides, however old it looks: a clock can be set, a build can be long.
 */
static void test_sweep(void **state) {
    (void)state;
    hr_scratch young, old, held, fresh;
    setenv("HEADROOM_CACHE", under("cache"), 1);
    assert_int_equal(hr_cache_scratch_create(&held), HR_OK);
    abandon(&old);
    age(old.path, 200000);
    age(held.path, 200000);
    folder_make(under("cache/kept-scratch-old"), 0700);
    folder_make(under("elsewhere"), 0700);
    write_file(under("elsewhere/data"), "x");
    assert_int_equal(symlink(under("elsewhere"), under("cache/scratch-link")), 0);
    folder_make(under("cache/scratch-lockless"), 0700);
    folder_make(under("cache/scratch-tricky"), 0700);
    assert_int_equal(symlink(under("elsewhere/data"), under("cache/scratch-tricky/lock")), 0);
    abandon(&young);
    assert_int_equal(access(old.path, F_OK), -1);
    assert_int_equal(access(young.path, F_OK), 0);
    assert_int_equal(hr_cache_scratch_create(&fresh), HR_OK);
    assert_int_equal(access(young.path, F_OK), -1);
    assert_int_equal(access(under("cache/scratch-lockless"), F_OK), -1);
    assert_int_equal(access(fresh.path, F_OK), 0);
    assert_int_equal(access(held.path, F_OK), 0);
    assert_int_equal(access(under("cache/kept-scratch-old"), F_OK), 0);
    assert_int_equal(access(under("elsewhere/data"), F_OK), 0);
    hr_cache_scratch_remove(&fresh);
    hr_cache_scratch_remove(&held);
    assert_int_equal(access(held.path, F_OK), -1);
}

/* A file of the cache is regular and ours, never a link. */
static void test_cache_open(void **state) {
    (void)state;
    int file = -1;
    folder_make(under("cache"), 0700);
    write_file(under("canary"), "x");
    write_file(under("cache/good"), "x");
    assert_int_equal(symlink(under("canary"), under("cache/link")), 0);
    assert_int_equal(mkfifo(under("cache/pipe"), 0600), 0);
    assert_int_equal(hr_cache_open(under("cache/good"), O_RDONLY, &file), HR_OK);
    close(file);
    assert_int_equal(hr_cache_open(under("cache/link"), O_RDWR | O_APPEND, &file), HR_IO);
    assert_non_null(strstr(hr_last_error(), "is a link"));
    assert_int_equal(hr_cache_open(under("cache/pipe"), O_RDWR, &file), HR_IO);
    assert_int_equal(hr_cache_open(under("cache"), O_RDONLY, &file), HR_IO);
    assert_int_equal(hr_cache_open(under("cache/absent"), O_RDONLY, &file), HR_IO);
    assert_int_equal(hr_cache_put(under("cache/link"), "entry"), HR_IO);
    if (geteuid() != 0) return; /* only root can give a file away */
    assert_int_equal(chown(under("cache/good"), 12345, (gid_t)-1), 0);
    assert_int_equal(hr_cache_open(under("cache/good"), O_RDONLY, &file), HR_IO);
}

#define WITH_ROOT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_ROOT(test_order),           WITH_ROOT(test_relative),          WITH_ROOT(test_no_home),
        WITH_ROOT(test_open_to_others),  WITH_ROOT(test_open_parent),       WITH_ROOT(test_links),
        WITH_ROOT(test_other_owner),     WITH_ROOT(test_impossible_places), WITH_ROOT(test_hash),
        WITH_ROOT(test_scratch_and_put), WITH_ROOT(test_put_refuses),       WITH_ROOT(test_read_only),
        WITH_ROOT(test_sweep),           WITH_ROOT(test_cache_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
