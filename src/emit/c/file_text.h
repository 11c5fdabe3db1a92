/* Fixed text of C files, embedded at build time. All are terminated. */
#ifndef HR_EMIT_C_FILE_TEXT_H
#define HR_EMIT_C_FILE_TEXT_H

extern const unsigned char hr_c_threads_text[]; /* OpenMP or none */
extern const unsigned char hr_c_team_text[];    /* of the program that loads the code */
extern const unsigned char
    hr_c_loaded_launch_text[]; /* hr_execution of device/device.h as loaded code sees it */
extern const unsigned char hr_c_list_types_text[]; /* hr_pieces of base/pieces.h */

#endif
