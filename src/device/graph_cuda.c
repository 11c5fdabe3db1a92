/* A list of launches and copies as a CUDA graph, and without one.
 *
 * The grids of an item are kept as the driver takes them. To capture, they are queued on a stream that notes
 * instead of running, and the driver says which node each became. A grid that changes afterwards, in its
 * words, its size or its function, is patched in the graph that exists (cuGraphExecKernelNodeSetParams): that
 * takes a microsecond, and may be done while the graph runs. Anything else, another number of grids or
 * another cluster, is captured anew.
 *
 * In: executions, copies, an order between both. Out: queued work.
 */
#include "base/memory.h"
#include "device/device_cuda.h"

#include <stdlib.h>
#include <string.h>

#define REFUSALS_MOST 3 /* of the driver, one after the other, before it is not asked again */

typedef struct node {
    hr_cuda_grid grid; /* what it points to is below */
    char entry[64];
    hr_cuda_map maps[HR_LAUNCH_MAPS_MAX];
    int64_t words[HR_CUDA_WORDS_MAX];
    hr_cu_graph_node handle; /* in the graph that was captured */
    bool changed;            /* since then */
} node;

typedef struct item {
    const hr_module *module; /* NULL: no launches */
    node **nodes;
    int count, room;
    void *to; /* of a copy */
    const void *from;
    size_t size;
    bool copies;
    int after;         /* the item that it waits for, or HR_GRAPH_NOTHING */
    bool awaited;      /* another item waits for it: */
    hr_cu_event ended; /* NULL until needed */
} item;

struct hr_graph {
    hr_device_cuda *cuda;
    item *items;
    int count, copy_count;
    hr_cu_stream capture, beside; /* what captures; what copies. NULL until needed */
    hr_cu_event begun, joined;    /* of the copies */
    hr_cu_graph graph;
    hr_cu_graph_exec exec; /* NULL: none */
    bool anew;             /* the list has not been queued as it is now */
    int refusals;
    hr_graph_counts counts;
    char refusal[512];
};

/* ---- making ---- */

static void graph_forget(hr_graph *graph) {
    const hr_cuda_driver *driver = &graph->cuda->driver;
    if (graph->exec) driver->graph_exec_destroy(graph->exec);
    if (graph->graph) driver->graph_destroy(graph->graph);
    graph->exec = NULL;
    graph->graph = NULL;
}

/* Another list than the one that was captured. */
static void list_changes(hr_graph *graph) {
    graph_forget(graph);
    graph->anew = true;
    graph->refusals = 0;
}

static void item_clear(const hr_cuda_driver *driver, item *item) {
    for (int i = 0; i < item->room; i++)
        free(item->nodes[i]);
    free(item->nodes);
    if (item->ended) driver->event_destroy(item->ended);
}

static void graph_destroy(hr_graph *graph) {
    bool pushed = false;
    if (!graph) return;
    const hr_cuda_driver *driver = &graph->cuda->driver;
    hr_cuda_enter(graph->cuda, &pushed); /* a context that is lost leaves memory of the host's to free */
    driver->stream_wait(graph->cuda->stream);
    graph_forget(graph);
    for (int i = 0; i < graph->count; i++)
        item_clear(driver, &graph->items[i]);
    if (graph->begun) driver->event_destroy(graph->begun);
    if (graph->joined) driver->event_destroy(graph->joined);
    if (graph->capture) driver->stream_destroy(graph->capture);
    if (graph->beside) driver->stream_destroy(graph->beside);
    hr_cuda_leave(graph->cuda, pushed);
    free(graph->items);
    free(graph);
}

static hr_status graph_create(struct hr_device *device, int count, hr_graph **out) {
    hr_graph *graph = hr_memory_zeros(1, sizeof *graph);
    if (graph) graph->items = hr_memory_zeros((size_t)count + 1, sizeof *graph->items);
    if (!graph || !graph->items) {
        free(graph);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for a list of %d launches", count);
    }
    graph->cuda = (hr_device_cuda *)device;
    graph->count = count;
    graph->anew = true;
    for (int i = 0; i < count; i++)
        graph->items[i].after = HR_GRAPH_NOTHING;
    *out = graph;
    return HR_OK;
}

/* ---- what an item does ---- */

static hr_status node_add(item *item) {
    if (item->count == item->room) {
        node **nodes = hr_memory_resize(item->nodes, ((size_t)item->room + 1) * sizeof *nodes);
        node *made = nodes ? aligned_alloc(_Alignof(node), sizeof *made) : NULL;
        if (nodes) item->nodes = nodes;
        if (!made) return hr_fail(HR_OUT_OF_MEMORY, "no memory for a launch");
        memset(made, 0, sizeof *made);
        item->nodes[item->room++] = made;
    }
    item->count++;
    return HR_OK;
}

static bool node_is(const node *node, const hr_cuda_grid *grid) {
    const hr_cuda_grid *old = &node->grid;
    bool same = old->function == grid->function && old->threads == grid->threads &&
                old->shared_bytes == grid->shared_bytes && old->word_count == grid->word_count &&
                memcmp(old->grid, grid->grid, sizeof old->grid) == 0 &&
                memcmp(node->words, grid->words, (size_t)grid->word_count * sizeof *grid->words) == 0;
    for (int i = 0; i < grid->map_count && same; i++)
        same = memcmp(&node->maps[i].value, &grid->maps[i].value, sizeof grid->maps[i].value) == 0;
    return same;
}

static void node_set(node *node, const hr_cuda_grid *grid) {
    node->grid = *grid;
    snprintf(node->entry, sizeof node->entry, "%s", grid->entry);
    memcpy(node->words, grid->words, (size_t)grid->word_count * sizeof *grid->words);
    for (int i = 0; i < grid->map_count; i++)
        node->maps[i] = grid->maps[i];
    node->grid.entry = node->entry;
    node->grid.words = node->words;
    node->grid.maps = node->maps;
    node->changed = true;
}

typedef struct setting {
    hr_graph *graph;
    item *item;
    int at;
} setting;

static hr_status grid_set(void *context, const hr_cuda_grid *grid) {
    setting *setting = context;
    item *item = setting->item;
    bool added = setting->at == item->count;
    if (added) HR_TRY(node_add(item));
    node *node = item->nodes[setting->at++];
    /* what a node of a graph keeps for good */
    bool kept = !added && node->grid.cluster == grid->cluster && node->grid.overlaps == grid->overlaps &&
                node->grid.map_count == grid->map_count;
    if (!kept) list_changes(setting->graph);
    if (!kept || !node_is(node, grid)) node_set(node, grid);
    return HR_OK;
}

static hr_status graph_set_launches(hr_graph *graph, int i, hr_module *module,
                                    const hr_execution *execution) {
    setting setting = {graph, &graph->items[i], 0};
    bool pushed;
    HR_TRY(hr_cuda_enter(graph->cuda, &pushed));
    hr_status status = hr_launch_cuda_each(graph->cuda, module, execution, grid_set, &setting);
    if (status != HR_OK) setting.at = 0; /* an item that does nothing */
    if (setting.at != setting.item->count) list_changes(graph);
    setting.item->count = setting.at;
    setting.item->module = status == HR_OK ? module : NULL;
    hr_cuda_leave(graph->cuda, pushed);
    return status;
}

static hr_status graph_set_copy(hr_graph *graph, int i, void *to, const void *from, size_t size) {
    item *item = &graph->items[i];
    if (item->copies && item->to == to && item->from == from && item->size == size) return HR_OK;
    graph->copy_count += !item->copies;
    item->copies = true;
    item->to = to;
    item->from = from;
    item->size = size;
    list_changes(graph);
    return HR_OK;
}

static void graph_set_after(hr_graph *graph, int i, int after) {
    item *item = &graph->items[i];
    if (item->after == after) return;
    item->after = after;
    for (int of = 0; of < graph->count; of++)
        graph->items[of].awaited = false;
    for (int of = 0; of < graph->count; of++)
        if (graph->items[of].after != HR_GRAPH_NOTHING) graph->items[graph->items[of].after].awaited = true;
    list_changes(graph);
}

/* ---- queueing ---- */

/* Streams and events that the list needs. */
static hr_cu_result parts_make(hr_graph *graph) {
    const hr_cuda_driver *driver = &graph->cuda->driver;
    hr_cu_result result = 0;
    if (!graph->copy_count) return 0;
    if (!graph->beside) result = driver->stream_create(&graph->beside, HR_CU_STREAM_NON_BLOCKING);
    if (!result && !graph->begun) result = driver->event_create(&graph->begun, HR_CU_EVENT_NO_TIMING);
    if (!result && !graph->joined) result = driver->event_create(&graph->joined, HR_CU_EVENT_NO_TIMING);
    for (int i = 0; i < graph->count && !result; i++)
        if (graph->items[i].awaited && !graph->items[i].ended)
            result = driver->event_create(&graph->items[i].ended, HR_CU_EVENT_NO_TIMING);
    return result;
}

/* Which node the grid became that was queued last: the one that the next would wait for. */
static hr_cu_result node_find(const hr_graph *graph, node *node) {
    const hr_cu_graph_node *last = NULL;
    hr_cu_graph captured;
    size_t count = 0;
    uint64_t id;
    int state = 0;
    hr_cu_result result =
        graph->cuda->driver.capture_info(graph->capture, &state, &id, &captured, &last, &count);
    if (result) return result;
    if (state != HR_CU_CAPTURE_ACTIVE || count != 1) return HR_CU_UNKNOWN;
    node->handle = last[0];
    return 0;
}

static hr_status item_queue(const hr_graph *graph, const item *item, hr_cu_stream stream) {
    const hr_cuda_driver *driver = &graph->cuda->driver;
    hr_cu_result result = 0;
    if (item->copies && item->size)
        result = driver->copy_any((hr_cu_address)(uintptr_t)item->to, (hr_cu_address)(uintptr_t)item->from,
                                  item->size, stream);
    if (result)
        return hr_cuda_fail(driver, result, "a copy of %.3f MB beside kernels", (double)item->size * 1e-6);
    for (int i = 0; i < item->count && !result; i++) {
        HR_TRY(hr_launch_cuda_grid(graph->cuda, &item->nodes[i]->grid, stream));
        if (stream == graph->capture) result = node_find(graph, item->nodes[i]);
    }
    return result ? hr_cuda_fail(driver, result, "asking for the node of a launch") : HR_OK;
}

/* One item, and the events before and behind it. */
static hr_status item_queue_in_order(const hr_graph *graph, const item *item, hr_cu_stream kernels) {
    const hr_cuda_driver *driver = &graph->cuda->driver;
    hr_cu_stream stream = item->copies ? graph->beside : kernels;
    hr_cu_result result = 0;
    if (item->after != HR_GRAPH_NOTHING)
        result = driver->stream_follow(stream, graph->items[item->after].ended, 0);
    if (!result) HR_TRY(item_queue(graph, item, stream));
    if (!result && item->awaited) result = driver->event_record(item->ended, stream);
    return result ? hr_cuda_fail(driver, result, "ordering a copy and a kernel") : HR_OK;
}

/* `from` goes on when `to` has come so far. */
static hr_status follow(const hr_graph *graph, hr_cu_stream from, hr_cu_event event, hr_cu_stream to) {
    const hr_cuda_driver *driver = &graph->cuda->driver;
    hr_cu_result result = graph->copy_count ? driver->event_record(event, from) : 0;
    if (!result && graph->copy_count) result = driver->stream_follow(to, event, 0);
    return result ? hr_cuda_fail(driver, result, "ordering copies and kernels") : HR_OK;
}

static hr_status items_queue(hr_graph *graph, hr_cu_stream kernels) {
    hr_cu_result result = parts_make(graph);
    if (result) return hr_cuda_fail(&graph->cuda->driver, result, "making a stream for copies");
    HR_TRY(follow(graph, kernels, graph->begun, graph->beside));
    for (int i = 0; i < graph->count; i++)
        HR_TRY(item_queue_in_order(graph, &graph->items[i], kernels));
    return follow(graph, graph->beside, graph->joined, kernels);
}

/* ---- the graph ---- */

/* The list will be queued item by item, with the driver's reason kept. */
static void refuse(hr_graph *graph) {
    snprintf(graph->refusal, sizeof graph->refusal, "%s", hr_last_error());
    graph->refusals++;
    graph_forget(graph);
}

static hr_status list_capture(hr_graph *graph) {
    const hr_cuda_driver *driver = &graph->cuda->driver;
    hr_cu_result result = 0;
    if (!graph->capture) result = driver->stream_create(&graph->capture, HR_CU_STREAM_NON_BLOCKING);
    if (!result) result = parts_make(graph); /* nothing is made while a stream captures */
    if (!result) result = driver->capture_begin(graph->capture, HR_CU_CAPTURE_RELAXED);
    if (result) return hr_cuda_fail(driver, result, "beginning a graph");
    hr_status status = items_queue(graph, graph->capture);
    result = driver->capture_end(graph->capture, &graph->graph); /* after a failure, too */
    HR_TRY(status);
    if (!result) result = driver->graph_instantiate(&graph->exec, graph->graph, 0);
    return result ? hr_cuda_fail(driver, result, "making a graph of %d items", graph->count) : HR_OK;
}

static void nodes_unchange(hr_graph *graph) {
    for (int i = 0; i < graph->count; i++)
        for (int k = 0; k < graph->items[i].count; k++)
            graph->items[i].nodes[k]->changed = false;
}

static hr_status node_patch(hr_graph *graph, node *node) {
    void *parameters[HR_LAUNCH_MAPS_MAX + 1];
    const hr_cuda_grid *grid = &node->grid;
    const hr_cu_kernel_node kernel = {.function = grid->function,
                                      .grid = {grid->grid[0], grid->grid[1], grid->grid[2]},
                                      .block = {grid->threads, 1, 1},
                                      .shared_bytes = grid->shared_bytes,
                                      .parameters = parameters};
    hr_launch_cuda_parameters(grid, parameters);
    hr_cu_result result = graph->cuda->driver.graph_set_kernel(graph->exec, node->handle, &kernel);
    if (result)
        return hr_cuda_fail(&graph->cuda->driver, result, "patching kernel %s in a graph", node->entry);
    node->changed = false;
    graph->counts.patches++;
    return HR_OK;
}

static hr_status list_patch(hr_graph *graph) {
    for (int i = 0; i < graph->count; i++)
        for (int k = 0; k < graph->items[i].count; k++)
            if (graph->items[i].nodes[k]->changed) HR_TRY(node_patch(graph, graph->items[i].nodes[k]));
    return HR_OK;
}

/* What the driver refuses is no failure: the list can be queued item by item. */
static void graph_bring_up(hr_graph *graph) {
    if (graph->exec && list_patch(graph) != HR_OK) refuse(graph);
    if (graph->exec || graph->anew || graph->refusals >= REFUSALS_MOST) return;
    if (list_capture(graph) != HR_OK) {
        refuse(graph);
        return;
    }
    graph->counts.captures++;
    graph->refusals = 0;
    graph->refusal[0] = '\0';
    nodes_unchange(graph);
}

static hr_status graph_ready(hr_graph *graph) {
    bool pushed;
    HR_TRY(hr_cuda_enter(graph->cuda, &pushed));
    graph_bring_up(graph);
    hr_cuda_leave(graph->cuda, pushed);
    return HR_OK;
}

/* ---- launching ---- */

static hr_status faults_look(const hr_graph *graph, int *faulty) {
    *faulty = HR_GRAPH_NOTHING;
    for (int i = 0; i < graph->count; i++) {
        const volatile hr_fault *word = graph->items[i].module ? graph->items[i].module->fault : NULL;
        if (!word || !word->access) continue;
        *faulty = i;
        return hr_fail(HR_OUT_OF_RANGE,
                       "a subscript that depends on data left its axis in an earlier launch");
    }
    return HR_OK;
}

static hr_status list_launch(hr_graph *graph) {
    const hr_cuda_driver *driver = &graph->cuda->driver;
    graph_bring_up(graph);
    if (graph->exec) {
        hr_cu_result result = driver->graph_launch(graph->exec, graph->cuda->stream);
        graph->counts.replays += !result;
        if (!result) return HR_OK;
        hr_cuda_fail(driver, result, "launching a graph");
        refuse(graph);
    }
    graph->counts.plain++;
    HR_TRY(items_queue(graph, graph->cuda->stream));
    graph->anew = false;
    return HR_OK;
}

static hr_status graph_launch(hr_graph *graph, int *faulty) {
    bool pushed;
    HR_TRY(faults_look(graph, faulty));
    HR_TRY(hr_cuda_enter(graph->cuda, &pushed));
    hr_status status = list_launch(graph);
    hr_cuda_leave(graph->cuda, pushed);
    return status;
}

static hr_status piece_queue(void *context, int i) {
    const hr_graph *graph = context;
    return item_queue(graph, &graph->items[i], graph->cuda->stream);
}

static hr_status graph_time_items(hr_graph *graph, double *seconds) {
    bool pushed;
    HR_TRY(hr_cuda_enter(graph->cuda, &pushed));
    hr_status status = hr_time_cuda_pieces(graph->cuda, graph->count, piece_queue, graph, seconds);
    graph->anew &= status != HR_OK;
    hr_cuda_leave(graph->cuda, pushed);
    return status;
}

static hr_status whole_queue(void *context) {
    return list_launch(context);
}

/* A list that is no graph may be longer than what the device's queue holds while it waits. */
static hr_status graph_time_whole(hr_graph *graph, double *seconds) {
    bool pushed;
    HR_TRY(hr_cuda_enter(graph->cuda, &pushed));
    graph_bring_up(graph);
    const bool held = graph->exec != NULL;
    *seconds = 0;
    hr_status status =
        held ? hr_time_cuda_queue(graph->cuda, false, whole_queue, graph, seconds) : list_launch(graph);
    hr_cuda_leave(graph->cuda, pushed);
    return status;
}

static void graph_counts(const hr_graph *graph, hr_graph_counts *out) {
    *out = graph->counts;
    out->refusal = graph->refusal;
}

const hr_graph_ops hr_graph_cuda_ops = {
    .create = graph_create,
    .destroy = graph_destroy,
    .set_launches = graph_set_launches,
    .set_copy = graph_set_copy,
    .set_after = graph_set_after,
    .ready = graph_ready,
    .launch = graph_launch,
    .time_items = graph_time_items,
    .time_whole = graph_time_whole,
    .counts = graph_counts,
};
