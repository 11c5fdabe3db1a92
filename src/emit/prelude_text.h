/* The preludes, made from src/emit/templates/ as the library is built (tools/make_prelude.c): their texts,
 * the sections that these consist of, and what each section needs.
 */
#ifndef HR_EMIT_PRELUDE_TEXT_H
#define HR_EMIT_PRELUDE_TEXT_H

#include <stdbool.h>

typedef struct hr_prelude_section {
    int begin, length;     /* in the text */
    bool always;           /* a directive that chooses among instruction sets, or an include */
    int needs, need_count; /* numbers of sections: needs[needs] and on, in the order in which it names them */
} hr_prelude_section;

/* A name that a section defines. A name has several where each instruction set has its own definition. */
typedef struct hr_prelude_name {
    const char *name;
    int section;
    bool macro;
} hr_prelude_name;

typedef struct hr_prelude_text {
    const unsigned char *text;
    const hr_prelude_section *sections;
    const int *needs;
    const hr_prelude_name *names; /* sorted */
    int section_count, name_count;
    int wrapper_count; /* of the first sections: PTX, for which an emulator has functions of its own */
    bool sorted;       /* sections stand before those that need them; else what is used comes first */
} hr_prelude_text;

extern const hr_prelude_text hr_prelude_c, hr_prelude_cuda, hr_prelude_interval, hr_prelude_helpers,
    hr_prelude_contract_blocks, hr_prelude_contract_f32, hr_prelude_contract_f64, hr_prelude_contract_attend,
    hr_prelude_contract_tiles, hr_prelude_contract_dots, hr_prelude_contract_bytes, hr_prelude_threads;

#endif
