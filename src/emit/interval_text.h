/* base/interval.h as text, embedded at build time, terminated. */
#ifndef HR_EMIT_INTERVAL_TEXT_H
#define HR_EMIT_INTERVAL_TEXT_H

extern const unsigned char hr_interval_text[];

#endif
