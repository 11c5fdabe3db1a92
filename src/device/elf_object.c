/* Whether the shared object that a compiler left is whole, before it is sealed and loaded.
 *
 * In: a path in a scratch folder. Out: HR_OK, or the sentence that says what lies beyond the file's end.
 *
 * The loader maps what the headers name and touches it: where the file ends before, the process ends by a
 * signal. So the headers are compared with the file's size. Loading it in a child first would show as much,
 * but a library has no program of its own to start, and a fork of a process with threads must not call the
 * loader.
 */
#define _GNU_SOURCE
#include "base/cache.h"
#include "device/device_cpu.h"

#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

hr_status hr_elf_object_check(const char *path) {
    struct stat info;
    object_file file;
    HR_TRY(hr_cache_open(path, O_RDONLY, &file.descriptor));
    file.size = fstat(file.descriptor, &info) == 0 ? (uint64_t)info.st_size : 0;
    hr_status status = check(&file);
    close(file.descriptor);
    return status;
}
