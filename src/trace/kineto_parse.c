/* One event apart. In: a cursor behind its opening brace. Out: slices by field. */
#include "trace/kineto.h"

#include <string.h>

enum { OF_EVENT, OF_ARGUMENTS };

static const struct {
    const char *text;
    uint8_t length, where, field;
} known[] = {
#define FIELD_KEY(name, key) {key, sizeof key - 1, OF_EVENT, HR_KINETO_##name},
    HR_KINETO_FIELDS(FIELD_KEY)
#undef FIELD_KEY
#define ARGUMENT_KEY(name, key) {key, sizeof key - 1, OF_ARGUMENTS, HR_KINETO_##name},
        HR_KINETO_ARGUMENTS(ARGUMENT_KEY)
#undef ARGUMENT_KEY
};
#define KNOWN_COUNT (sizeof known / sizeof *known)
_Static_assert(KNOWN_COUNT < 64 && HR_KINETO_FIELD_COUNT <= 64, "fields are bits of a word");

void hr_kineto_keys_set(hr_kineto_keys *keys) {
    memset(keys, 0, sizeof *keys);
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        uint8_t *first = &keys->first[known[i].where][known[i].length];
        keys->next[i] = *first;
        *first = (uint8_t)(i + 1);
    }
}

static int field_find(const hr_kineto_keys *keys, int where, const hr_json_slice *key) {
    if (key->length >= sizeof keys->next) return HR_KINETO_OTHER;
    for (int i = keys->first[where][key->length]; i; i = keys->next[i - 1])
        if (known[i - 1].text[0] == key->text[0] && memcmp(known[i - 1].text, key->text, key->length) == 0)
            return known[i - 1].field;
    return HR_KINETO_OTHER;
}

/* Of arrows nothing is read but that they are some: correlations say the same. */
static bool is_arrow(const hr_json_slice *phase) {
    return phase->length == 1 && (phase->text[0] == 's' || phase->text[0] == 't' || phase->text[0] == 'f');
}

static bool members_take(const hr_kineto_keys *keys, int where, hr_json *json, hr_kineto_event *event) {
    hr_json_slice key;
    while (hr_json_member(json, &key)) {
        int field = field_find(keys, where, &key);
        if (field == HR_KINETO_ARGUMENTS && hr_json_peek(json) == '{') {
            json->at++;
            if (!members_take(keys, OF_ARGUMENTS, json, event)) return false;
            continue;
        }
        if (!hr_json_take(json, &event->fields[field])) return false;
        if (where == OF_ARGUMENTS || field != HR_KINETO_OTHER) event->have |= UINT64_C(1) << field;
        if (field == HR_KINETO_PHASE && where == OF_EVENT && is_arrow(&event->fields[field]))
            return hr_json_leave(json);
    }
    return !json->more && !json->bad;
}

bool hr_kineto_parse(const hr_kineto_keys *keys, hr_json *json, hr_kineto_event *event) {
    event->have = 0;
    return members_take(keys, OF_EVENT, json, event);
}
