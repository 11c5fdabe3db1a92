/* Graphs of the fake driver: what is queued on a stream that captures becomes a node, behind those that the
 * stream waits for. A launch of the graph runs a node when all of these have run, and otherwise in the order
 * that the test wants: an order that is missing shows in what is computed. */
#include "fake_graph.h"

#include <stdlib.h>
#include <string.h>

enum { LAST_MOST = 4, STREAMS_MOST = 8, NODES_MOST = 256 };

typedef struct node {
    int index;
    bool copies;
    fake_launch launch;
    void *to, *from;
    size_t size;
    int before[LAST_MOST], before_count;
} node;

typedef struct graph {
    node *nodes[NODES_MOST];
    int count;
} graph;

/* The nodes that the next one of a stream, or one that waits for an event, comes behind. */
typedef struct point {
    graph *graph; /* NULL: nothing is captured */
    node *last[LAST_MOST];
    int count;
} point;

typedef struct capturing {
    const void *stream;
    bool origin;
    point at;
} capturing;

static capturing streams[STREAMS_MOST];

static capturing *capturing_of(const void *stream) {
    for (int i = 0; i < STREAMS_MOST; i++)
        if (streams[i].at.graph && streams[i].stream == stream) return &streams[i];
    return NULL;
}

static capturing *capturing_add(const void *stream, graph *graph, bool origin) {
    for (int i = 0; i < STREAMS_MOST; i++)
        if (!streams[i].at.graph) {
            streams[i] = (capturing){stream, origin, {.graph = graph}};
            return &streams[i];
        }
    return NULL;
}

/* ---- capturing ---- */

void *fake_event_make(void) {
    return calloc(1, sizeof(point));
}

static node *node_add(capturing *of) {
    graph *graph = of->at.graph;
    node *made = calloc(1, sizeof *made);
    made->index = graph->count;
    for (int i = 0; i < of->at.count; i++)
        made->before[made->before_count++] = of->at.last[i]->index;
    graph->nodes[graph->count++] = made;
    of->at.last[0] = made;
    of->at.count = 1;
    return made;
}

bool fake_capture_launch(const fake_config *config, const void *function, void **parameters) {
    capturing *of = capturing_of(config->stream);
    if (of) fake_launch_read(config, function, parameters, FAKE_WORDS, &node_add(of)->launch);
    return of != NULL;
}

bool fake_capture_copy(unsigned long long to, unsigned long long from, size_t size, void *stream) {
    capturing *of = capturing_of(stream);
    if (!of) return false;
    node *made = node_add(of);
    made->copies = true;
    made->to = (void *)(uintptr_t)to;
    made->from = (void *)(uintptr_t)from;
    made->size = size;
    return true;
}

void fake_capture_record(void *event, const void *stream) {
    const capturing *of = capturing_of(stream);
    *(point *)event = of ? of->at : (point){0};
}

int fake_capture_wait(void *stream, const void *event) {
    const point *behind = event;
    capturing *of = capturing_of(stream);
    if (!behind->graph) return of ? 905 : 0; /* CUDA_ERROR_STREAM_CAPTURE_ISOLATION */
    if (!of) of = capturing_add(stream, behind->graph, false);
    for (int i = 0; i < behind->count; i++) {
        bool known = false;
        for (int k = 0; k < of->at.count; k++)
            known |= of->at.last[k] == behind->last[i];
        if (!known && of->at.count < LAST_MOST) of->at.last[of->at.count++] = behind->last[i];
    }
    return 0;
}

SHOWN int cuStreamBeginCapture_v2(void *stream, int mode) {
    (void)mode;
    CALLED("cuStreamBeginCapture_v2");
    capturing_add(stream, calloc(1, sizeof(graph)), true);
    fake_live(&fake_cuda.graphs, 1);
    return 0;
}

SHOWN int cuStreamGetCaptureInfo_v2(void *stream, int *state, uint64_t *id, void **graph, void ***last,
                                    size_t *count) {
    CALLED("cuStreamGetCaptureInfo_v2");
    capturing *of = capturing_of(stream);
    *state = of || fake_cuda.capture;
    if (id) *id = of ? 1 : fake_cuda.capture;
    if (of && graph) *graph = of->at.graph;
    if (of && last) *last = (void **)of->at.last;
    if (of && count) *count = (size_t)of->at.count;
    return 0;
}

static void behind_mark(const graph *graph, int index, bool *marks) {
    if (marks[index]) return;
    marks[index] = true;
    for (int i = 0; i < graph->nodes[index]->before_count; i++)
        behind_mark(graph, graph->nodes[index]->before[i], marks);
}

/* Streams that were drawn in must have come back. */
static bool is_joined(const capturing *origin) {
    const graph *graph = origin->at.graph;
    bool marks[NODES_MOST] = {false};
    for (int i = 0; i < origin->at.count; i++)
        behind_mark(graph, origin->at.last[i]->index, marks);
    for (int i = 0; i < graph->count; i++)
        if (!marks[i]) return false;
    return true;
}

static void graph_free(graph *graph) {
    for (int i = 0; i < graph->count; i++)
        free(graph->nodes[i]);
    free(graph);
    fake_live(&fake_cuda.graphs, -1);
}

SHOWN int cuStreamEndCapture(void *stream, void **out) {
    capturing *of = capturing_of(stream);
    if (!of || !of->origin) return 901; /* CUDA_ERROR_STREAM_CAPTURE_INVALIDATED */
    graph *made = of->at.graph;
    int result = is_joined(of) ? fake_called("cuStreamEndCapture") : 904; /* ..._UNJOINED */
    for (int i = 0; i < STREAMS_MOST; i++)
        if (streams[i].at.graph == made) streams[i] = (capturing){0};
    *out = result ? NULL : made;
    if (result) graph_free(made);
    return result;
}

/* ---- graphs ---- */

SHOWN int cuGraphInstantiateWithFlags(void **exec, const graph *from, unsigned long long flags) {
    (void)flags;
    CALLED("cuGraphInstantiateWithFlags");
    graph *made = calloc(1, sizeof *made);
    for (made->count = 0; made->count < from->count; made->count++) {
        made->nodes[made->count] = malloc(sizeof(node));
        *made->nodes[made->count] = *from->nodes[made->count];
    }
    *exec = made;
    fake_live(&fake_cuda.graphs, 1);
    return 0;
}

/* CUDA_KERNEL_NODE_PARAMS_v1 */
typedef struct node_parameters {
    void *function;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra;
} node_parameters;

/* What the node keeps for good: its cluster, and whether it overlaps. */
SHOWN int cuGraphExecKernelNodeSetParams(graph *exec, const node *of, const node_parameters *given) {
    CALLED("cuGraphExecKernelNodeSetParams");
    fake_launch *launch = &exec->nodes[of->index]->launch;
    const fake_launch before = *launch;
    fake_config config = {.shared = given->shared, .stream = before.stream};
    memcpy(config.grid, given->grid, sizeof config.grid);
    memcpy(config.block, given->block, sizeof config.block);
    fake_launch_read(&config, given->function, given->parameters, FAKE_WORDS, launch);
    launch->cluster = before.cluster;
    launch->overlaps = before.overlaps;
    return 0;
}

static bool may_run(const node *node, const bool *ran) {
    for (int i = 0; i < node->before_count; i++)
        if (!ran[node->before[i]]) return false;
    return !ran[node->index];
}

static node *next_find(const graph *graph, const bool *ran) {
    node *found = NULL;
    for (int i = 0; i < graph->count; i++) {
        node *of = graph->nodes[i];
        if (!may_run(of, ran)) continue;
        if (!fake_cuda.copies_of_graphs || of->copies == (fake_cuda.copies_of_graphs == 1)) return of;
        if (!found) found = of;
    }
    return found;
}

SHOWN int cuGraphLaunch(graph *exec, void *stream) {
    bool ran[NODES_MOST] = {false};
    int result = 0;
    CALLED("cuGraphLaunch");
    for (node *of = next_find(exec, ran); of; of = next_find(exec, ran)) {
        ran[of->index] = true;
        of->launch.stream = stream;
        if (of->copies)
            memcpy(of->to, of->from, of->size);
        else if (!result)
            result = fake_launch_run(&of->launch, of->launch.words);
    }
    return result;
}

SHOWN int cuGraphExecDestroy(graph *exec) {
    graph_free(exec);
    CALLED("cuGraphExecDestroy");
    return 0;
}

SHOWN int cuGraphDestroy(graph *gone) {
    graph_free(gone);
    CALLED("cuGraphDestroy");
    return 0;
}
