/* Whether the shared object that a compiler left is whole, before it is sealed and loaded.
 *
 * In: a path in a scratch folder. Out: HR_OK, or the sentence that says what is wrong with it.
 *
 * The loader maps what the headers name and touches it: where the file ends before, or what it finds there
 * makes no sense, the process ends by a signal. So the headers are compared with the file's size, and it is
 * loaded once in another process. A fork of a process with threads must not call the loader, but the loader
 * is a program itself: it loads and binds an object, lists what came with it, and runs none of it.
 */
#define _GNU_SOURCE
#include "base/cache.h"
#include "device/device_cpu.h"
#include "device/process.h"

#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOADING_SECONDS 60.0

typedef struct object_file {
    int descriptor;
    uint64_t size;
} object_file;

static bool lies_within(const object_file *file, uint64_t offset, uint64_t size) {
    return offset <= file->size && size <= file->size - offset;
}

static bool read_at(const object_file *file, uint64_t offset, void *out, size_t size) {
    return lies_within(file, offset, size) &&
           pread(file->descriptor, out, size, (off_t)offset) == (ssize_t)size;
}

static bool segments_are_whole(const object_file *file, const ElfW(Ehdr) * header) {
    ElfW(Phdr) segment;
    if (header->e_phentsize != sizeof segment || header->e_phnum == 0) return false;
    for (uint64_t i = 0; i < header->e_phnum; i++)
        if (!read_at(file, header->e_phoff + i * sizeof segment, &segment, sizeof segment) ||
            !lies_within(file, segment.p_offset, segment.p_filesz))
            return false;
    return true;
}

/* Linkers write the table of sections last: a file that was cut has lost it. */
static bool sections_are_whole(const object_file *file, const ElfW(Ehdr) * header) {
    ElfW(Shdr) section;
    if (header->e_shentsize != sizeof section || header->e_shnum == 0) return false;
    for (uint64_t i = 0; i < header->e_shnum; i++)
        if (!read_at(file, header->e_shoff + i * sizeof section, &section, sizeof section) ||
            (section.sh_type != SHT_NOBITS && !lies_within(file, section.sh_offset, section.sh_size)))
            return false;
    return true;
}

static hr_status check(const object_file *file) {
    ElfW(Ehdr) header;
    if (!read_at(file, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_type != ET_DYN)
        return hr_fail(HR_INTERNAL, "the compiler left a file that is no shared object: see what HEADROOM_CC "
                                    "or cc is, and run again");
    if (segments_are_whole(file, &header) && sections_are_whole(file, &header)) return HR_OK;
    return hr_fail(HR_INTERNAL,
                   "the compiler left a shared object that is cut short at %llu bytes: see that the disk has "
                   "room and what HEADROOM_CC or cc is, and run again",
                   (unsigned long long)file->size);
}

/* ---- in another process ---- */

/* The first object is the program, which names its loader; NULL: it was linked with -static. */
static int see_loader(struct dl_phdr_info *info, size_t size, void *out) {
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_INTERP)
            *(const char **)out = (const char *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return 1;
}

const char *hr_elf_loader(void) {
    const char *loader = NULL;
    dl_iterate_phdr(see_loader, &loader);
    return loader;
}

/* What the loader refuses with a sentence it refuses here, too, where dlopen() returns it. A loader that
 * cannot be started tells nothing. */
static hr_status load_elsewhere(const char *folder, const char *path) {
    static const char *const bind[] = {"LD_BIND_NOW=1", "LD_WARN=1", NULL};
    const char *const arguments[] = {hr_elf_loader(), "--list", path, NULL};
    char log[PATH_MAX];
    int ended;
    snprintf(log, sizeof log, "%s/loader", folder);
    hr_status status = hr_process_run(arguments, bind, folder, log, LOADING_SECONDS, &ended);
    if (status == HR_NOT_AVAILABLE || (status == HR_OK && !(ended > 0 && WIFSIGNALED(ended)))) return HR_OK;
    HR_TRY(status);
    return hr_fail(HR_INTERNAL,
                   "the compiler left a shared object that crashes the loader (signal %d): see that the disk "
                   "has room and what HEADROOM_CC or cc is, and run again",
                   WTERMSIG(ended));
}

hr_status hr_elf_object_check(const char *folder, const char *name) {
    char path[PATH_MAX];
    struct stat info;
    object_file file;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    HR_TRY(hr_cache_open(path, O_RDONLY, &file.descriptor));
    file.size = fstat(file.descriptor, &info) == 0 ? (uint64_t)info.st_size : 0;
    hr_status status = check(&file);
    close(file.descriptor);
    return status == HR_OK ? load_elsewhere(folder, path) : status;
}
