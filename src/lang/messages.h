/* Mistakes in a text: collected as they are found, shown together.
 *
 * In: places and sentences. Out: for each, path:line:column: error: sentence, the line and a caret, in the
 * order of the text. Only the first HR_MESSAGES_SHOWN are kept; the rest are counted.
 */
#ifndef HR_LANG_MESSAGES_H
#define HR_LANG_MESSAGES_H

#include "ir/function.h"

#define HR_MESSAGES_SHOWN   20
#define HR_MESSAGE_SENTENCE 400

typedef struct hr_message {
    hr_place place;
    char sentence[HR_MESSAGE_SENTENCE];
} hr_message;

typedef struct hr_messages {
    hr_origin origin;
    int kept;
    long total;
    hr_message kept_messages[HR_MESSAGES_SHOWN];
} hr_messages;

/* Before the place, spaces apart, the line has this. */
bool hr_place_follows(const hr_messages *messages, hr_place place, const char *text);

/* The sentence is cut at HR_MESSAGE_SENTENCE bytes. Names that come from the text go through hr_name_shown().
 */
void hr_messages_add(hr_messages *messages, hr_place place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* HR_OK without messages, else HR_BAD_INPUT with all of them in hr_last_error(). */
hr_status hr_messages_status(hr_messages *messages);

/* A piece of hostile text fit for a sentence: escaped, cut at about 40 bytes. */
typedef struct hr_shown {
    char text[64];
} hr_shown;

hr_shown hr_text_shown(const char *text, size_t length);

#endif
