/* Functions of the language that are formulas of the others. */
#ifndef HR_LANG_STANDARD_DEFS_H
#define HR_LANG_STANDARD_DEFS_H

/* As the text of a file. A def of the same name in a text goes first. */
extern const char hr_standard_defs[];

#endif
