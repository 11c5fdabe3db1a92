/* What the files of the fake driver share: streams that capture, and calls that are written down. */
#ifndef TEST_FAKE_FAKE_GRAPH_H
#define TEST_FAKE_FAKE_GRAPH_H

#include "fake_cuda.h"

#include <stdbool.h>

#define SHOWN __attribute__((visibility("default")))

/* CUlaunchConfig and CUlaunchAttribute */
typedef struct fake_attribute {
    int id, padding;
    union {
        unsigned cluster[3];
        int overlaps;
        char bytes[64];
    } value;
} fake_attribute;

typedef struct fake_config {
    unsigned grid[3], block[3], shared;
    void *stream;
    fake_attribute *attributes;
    unsigned attribute_count;
} fake_config;

/* ---- fake_cuda.c ---- */

extern SHOWN fake_cuda_t fake_cuda;

void fake_live(int *count, int more);
/* Writes the call down. Its result: 0, or what the test wants. */
int fake_called(const char *symbol);
#define CALLED(symbol)                                                                                       \
    do {                                                                                                     \
        int result = fake_called(symbol);                                                                    \
        if (result) return result;                                                                           \
    } while (0)

/* `words`: how many are copied. */
void fake_launch_read(const fake_config *config, const void *function, void **parameters, size_t words,
                      fake_launch *out);
/* `words`: as the kernel gets them; NULL: it has none. */
int fake_launch_run(const fake_launch *launch, void *words);

/* ---- fake_graph.c ---- */

void *fake_event_make(void);
/* True where the stream captures: the work became a node, and does not run now. */
bool fake_capture_launch(const fake_config *config, const void *function, void **parameters);
bool fake_capture_copy(unsigned long long to, unsigned long long from, size_t size, void *stream);
void fake_capture_record(void *event, const void *stream);
int fake_capture_wait(void *stream, const void *event);

#endif
