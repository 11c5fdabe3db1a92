/* A list of launches and copies as a CUDA replay, and without one.
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
    int after;         /* the item that it waits for, or HR_REPLAY_NOTHING */
    bool awaited;      /* another item waits for it: */
    hr_cu_event ended; /* NULL until needed */
} item;

struct hr_replay {
    hr_device_cuda *cuda;
    item *items;
    int count, copy_count;
    hr_cu_stream capture, beside; /* what captures; what copies. NULL until needed */
    hr_cu_event begun, joined;    /* of the copies */
    hr_cu_graph captured;
    hr_cu_graph_exec exec; /* NULL: none */
    bool anew;             /* the list has not been queued as it is now */
    int refusals;
    hr_replay_counts counts;
    char refusal[512];
};

/* ---- making ---- */

static void replay_forget(hr_replay *replay) {
    const hr_cuda_driver *driver = &replay->cuda->driver;
    if (replay->exec) driver->graph_exec_destroy(replay->exec);
    if (replay->captured) driver->graph_destroy(replay->captured);
    replay->exec = NULL;
    replay->captured = NULL;
}

/* Another list than the one that was captured. */
static void list_changes(hr_replay *replay) {
    replay_forget(replay);
    replay->anew = true;
    replay->refusals = 0;
}

static void item_clear(const hr_cuda_driver *driver, item *item) {
    for (int i = 0; i < item->room; i++)
        free(item->nodes[i]);
    free(item->nodes);
    if (item->ended) driver->event_destroy(item->ended);
}

static void replay_destroy(hr_replay *replay) {
    bool pushed = false;
    if (!replay) return;
    const hr_cuda_driver *driver = &replay->cuda->driver;
    hr_cuda_enter(replay->cuda, &pushed); /* a context that is lost leaves memory of the host's to free */
    driver->stream_wait(replay->cuda->stream);
    replay_forget(replay);
    for (int i = 0; i < replay->count; i++)
        item_clear(driver, &replay->items[i]);
    if (replay->begun) driver->event_destroy(replay->begun);
    if (replay->joined) driver->event_destroy(replay->joined);
    if (replay->capture) driver->stream_destroy(replay->capture);
    if (replay->beside) driver->stream_destroy(replay->beside);
    hr_cuda_leave(replay->cuda, pushed);
    free(replay->items);
    free(replay);
}

static hr_status replay_create(struct hr_device *device, int count, hr_replay **out) {
    hr_replay *replay = hr_memory_zeros(1, sizeof *replay);
    if (replay) replay->items = hr_memory_zeros((size_t)count + 1, sizeof *replay->items);
    if (!replay || !replay->items) {
        free(replay);
        return hr_fail(HR_OUT_OF_MEMORY, "no memory for a list of %d launches", count);
    }
    replay->cuda = (hr_device_cuda *)device;
    replay->count = count;
    replay->anew = true;
    for (int i = 0; i < count; i++)
        replay->items[i].after = HR_REPLAY_NOTHING;
    *out = replay;
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
    hr_replay *replay;
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
    if (!kept) list_changes(setting->replay);
    if (!kept || !node_is(node, grid)) node_set(node, grid);
    return HR_OK;
}

static hr_status replay_set_launches(hr_replay *replay, int i, hr_module *module,
                                     const hr_execution *execution) {
    setting setting = {replay, &replay->items[i], 0};
    bool pushed;
    HR_TRY(hr_cuda_enter(replay->cuda, &pushed));
    hr_status status = hr_launch_cuda_each(replay->cuda, module, execution, grid_set, &setting);
    if (status != HR_OK) setting.at = 0; /* an item that does nothing */
    if (setting.at != setting.item->count) list_changes(replay);
    setting.item->count = setting.at;
    setting.item->module = status == HR_OK ? module : NULL;
    hr_cuda_leave(replay->cuda, pushed);
    return status;
}

static hr_status replay_set_copy(hr_replay *replay, int i, void *to, const void *from, size_t size) {
    item *item = &replay->items[i];
    if (item->copies && item->to == to && item->from == from && item->size == size) return HR_OK;
    replay->copy_count += !item->copies;
    item->copies = true;
    item->to = to;
    item->from = from;
    item->size = size;
    list_changes(replay);
    return HR_OK;
}

static void replay_set_after(hr_replay *replay, int i, int after) {
    item *item = &replay->items[i];
    if (item->after == after) return;
    item->after = after;
    for (int of = 0; of < replay->count; of++)
        replay->items[of].awaited = false;
    for (int of = 0; of < replay->count; of++)
        if (replay->items[of].after != HR_REPLAY_NOTHING)
            replay->items[replay->items[of].after].awaited = true;
    list_changes(replay);
}

/* ---- queueing ---- */

/* Streams and events that the list needs. */
static hr_cu_result parts_make(hr_replay *replay) {
    const hr_cuda_driver *driver = &replay->cuda->driver;
    hr_cu_result result = 0;
    if (!replay->copy_count) return 0;
    if (!replay->beside) result = driver->stream_create(&replay->beside, HR_CU_STREAM_NON_BLOCKING);
    if (!result && !replay->begun) result = driver->event_create(&replay->begun, HR_CU_EVENT_NO_TIMING);
    if (!result && !replay->joined) result = driver->event_create(&replay->joined, HR_CU_EVENT_NO_TIMING);
    for (int i = 0; i < replay->count && !result; i++)
        if (replay->items[i].awaited && !replay->items[i].ended)
            result = driver->event_create(&replay->items[i].ended, HR_CU_EVENT_NO_TIMING);
    return result;
}

/* Which node the grid became that was queued last: the one that the next would wait for. */
static hr_cu_result node_find(const hr_replay *replay, node *node) {
    const hr_cu_graph_node *last = NULL;
    hr_cu_graph captured;
    size_t count = 0;
    uint64_t id;
    int state = 0;
    hr_cu_result result =
        replay->cuda->driver.capture_info(replay->capture, &state, &id, &captured, &last, &count);
    if (result) return result;
    if (state != HR_CU_CAPTURE_ACTIVE || count != 1) return HR_CU_UNKNOWN;
    node->handle = last[0];
    return 0;
}

static hr_status item_queue(const hr_replay *replay, const item *item, hr_cu_stream stream) {
    const hr_cuda_driver *driver = &replay->cuda->driver;
    hr_cu_result result = 0;
    if (item->copies && item->size)
        result = driver->copy_any((hr_cu_address)(uintptr_t)item->to, (hr_cu_address)(uintptr_t)item->from,
                                  item->size, stream);
    if (result)
        return hr_cuda_fail(driver, result, "a copy of %.3f MB beside kernels", (double)item->size * 1e-6);
    for (int i = 0; i < item->count && !result; i++) {
        HR_TRY(hr_launch_cuda_grid(replay->cuda, &item->nodes[i]->grid, stream));
        if (stream == replay->capture) result = node_find(replay, item->nodes[i]);
    }
    return result ? hr_cuda_fail(driver, result, "asking for the node of a launch") : HR_OK;
}

/* One item, and the events before and behind it. */
static hr_status item_queue_in_order(const hr_replay *replay, const item *item, hr_cu_stream kernels) {
    const hr_cuda_driver *driver = &replay->cuda->driver;
    hr_cu_stream stream = item->copies ? replay->beside : kernels;
    hr_cu_result result = 0;
    if (item->after != HR_REPLAY_NOTHING)
        result = driver->stream_follow(stream, replay->items[item->after].ended, 0);
    if (!result) HR_TRY(item_queue(replay, item, stream));
    if (!result && item->awaited) result = driver->event_record(item->ended, stream);
    return result ? hr_cuda_fail(driver, result, "ordering a copy and a kernel") : HR_OK;
}

/* `from` goes on when `to` has come so far. */
static hr_status follow(const hr_replay *replay, hr_cu_stream from, hr_cu_event event, hr_cu_stream to) {
    const hr_cuda_driver *driver = &replay->cuda->driver;
    hr_cu_result result = replay->copy_count ? driver->event_record(event, from) : 0;
    if (!result && replay->copy_count) result = driver->stream_follow(to, event, 0);
    return result ? hr_cuda_fail(driver, result, "ordering copies and kernels") : HR_OK;
}

static hr_status items_queue(hr_replay *replay, hr_cu_stream kernels) {
    hr_cu_result result = parts_make(replay);
    if (result) return hr_cuda_fail(&replay->cuda->driver, result, "making a stream for copies");
    HR_TRY(follow(replay, kernels, replay->begun, replay->beside));
    for (int i = 0; i < replay->count; i++)
        HR_TRY(item_queue_in_order(replay, &replay->items[i], kernels));
    return follow(replay, replay->beside, replay->joined, kernels);
}

/* ---- the graph ---- */

/* The list will be queued item by item, with the driver's reason kept. */
static void refuse(hr_replay *replay) {
    snprintf(replay->refusal, sizeof replay->refusal, "%s", hr_last_error());
    replay->refusals++;
    replay_forget(replay);
}

static hr_status list_capture(hr_replay *replay) {
    const hr_cuda_driver *driver = &replay->cuda->driver;
    hr_cu_result result = 0;
    if (!replay->capture) result = driver->stream_create(&replay->capture, HR_CU_STREAM_NON_BLOCKING);
    if (!result) result = parts_make(replay); /* nothing is made while a stream captures */
    if (!result) result = driver->capture_begin(replay->capture, HR_CU_CAPTURE_RELAXED);
    if (result) return hr_cuda_fail(driver, result, "beginning a graph");
    hr_status status = items_queue(replay, replay->capture);
    result = driver->capture_end(replay->capture, &replay->captured); /* after a failure, too */
    HR_TRY(status);
    if (!result) result = driver->graph_instantiate(&replay->exec, replay->captured, 0);
    return result ? hr_cuda_fail(driver, result, "making a graph of %d items", replay->count) : HR_OK;
}

static void nodes_unchange(hr_replay *replay) {
    for (int i = 0; i < replay->count; i++)
        for (int k = 0; k < replay->items[i].count; k++)
            replay->items[i].nodes[k]->changed = false;
}

static hr_status node_patch(hr_replay *replay, node *node) {
    void *parameters[HR_LAUNCH_MAPS_MAX + 1];
    const hr_cuda_grid *grid = &node->grid;
    const hr_cu_kernel_node kernel = {.function = grid->function,
                                      .grid = {grid->grid[0], grid->grid[1], grid->grid[2]},
                                      .block = {grid->threads, 1, 1},
                                      .shared_bytes = grid->shared_bytes,
                                      .parameters = parameters};
    hr_launch_cuda_parameters(grid, parameters);
    hr_cu_result result = replay->cuda->driver.graph_set_kernel(replay->exec, node->handle, &kernel);
    if (result)
        return hr_cuda_fail(&replay->cuda->driver, result, "patching kernel %s in a graph", node->entry);
    node->changed = false;
    replay->counts.patches++;
    return HR_OK;
}

static hr_status list_patch(hr_replay *replay) {
    for (int i = 0; i < replay->count; i++)
        for (int k = 0; k < replay->items[i].count; k++)
            if (replay->items[i].nodes[k]->changed) HR_TRY(node_patch(replay, replay->items[i].nodes[k]));
    return HR_OK;
}

/* What the driver refuses is no failure: the list can be queued item by item. */
static void replay_bring_up(hr_replay *replay) {
    if (replay->exec && list_patch(replay) != HR_OK) refuse(replay);
    if (replay->exec || replay->anew || replay->refusals >= REFUSALS_MOST) return;
    if (list_capture(replay) != HR_OK) {
        refuse(replay);
        return;
    }
    replay->counts.captures++;
    replay->refusals = 0;
    replay->refusal[0] = '\0';
    nodes_unchange(replay);
}

static hr_status replay_ready(hr_replay *replay) {
    bool pushed;
    HR_TRY(hr_cuda_enter(replay->cuda, &pushed));
    replay_bring_up(replay);
    hr_cuda_leave(replay->cuda, pushed);
    return HR_OK;
}

/* ---- launching ---- */

static hr_status faults_look(const hr_replay *replay, int *faulty) {
    *faulty = HR_REPLAY_NOTHING;
    for (int i = 0; i < replay->count; i++) {
        const volatile hr_fault *word = replay->items[i].module ? replay->items[i].module->fault : NULL;
        if (!word || !word->access) continue;
        *faulty = i;
        return hr_fail(HR_OUT_OF_RANGE,
                       "a subscript that depends on data left its axis in an earlier launch");
    }
    return HR_OK;
}

static hr_status list_launch(hr_replay *replay) {
    const hr_cuda_driver *driver = &replay->cuda->driver;
    replay_bring_up(replay);
    if (replay->exec) {
        hr_cu_result result = driver->graph_launch(replay->exec, replay->cuda->stream);
        replay->counts.replays += !result;
        if (!result) return HR_OK;
        hr_cuda_fail(driver, result, "launching a graph");
        refuse(replay);
    }
    replay->counts.plain++;
    HR_TRY(items_queue(replay, replay->cuda->stream));
    replay->anew = false;
    return HR_OK;
}

static hr_status replay_launch(hr_replay *replay, int *faulty) {
    bool pushed;
    HR_TRY(faults_look(replay, faulty));
    HR_TRY(hr_cuda_enter(replay->cuda, &pushed));
    hr_status status = list_launch(replay);
    hr_cuda_leave(replay->cuda, pushed);
    return status;
}

static hr_status piece_queue(void *context, int i) {
    const hr_replay *replay = context;
    return item_queue(replay, &replay->items[i], replay->cuda->stream);
}

static hr_status replay_time_items(hr_replay *replay, double *seconds) {
    bool pushed;
    HR_TRY(hr_cuda_enter(replay->cuda, &pushed));
    hr_status status = hr_time_cuda_pieces(replay->cuda, replay->count, piece_queue, replay, seconds);
    replay->anew &= status != HR_OK;
    hr_cuda_leave(replay->cuda, pushed);
    return status;
}

static hr_status whole_queue(void *context) {
    return list_launch(context);
}

/* A list that is no graph may be longer than what the device's queue holds while it waits. */
static hr_status replay_time_whole(hr_replay *replay, double *seconds) {
    bool pushed;
    HR_TRY(hr_cuda_enter(replay->cuda, &pushed));
    replay_bring_up(replay);
    const bool held = replay->exec != NULL;
    *seconds = 0;
    hr_status status =
        held ? hr_time_cuda_queue(replay->cuda, false, whole_queue, replay, seconds) : list_launch(replay);
    hr_cuda_leave(replay->cuda, pushed);
    return status;
}

static void replay_counts(const hr_replay *replay, hr_replay_counts *out) {
    *out = replay->counts;
    out->refusal = replay->refusal;
}

const hr_replay_ops hr_replay_cuda_ops = {
    .create = replay_create,
    .destroy = replay_destroy,
    .set_launches = replay_set_launches,
    .set_copy = replay_set_copy,
    .set_after = replay_set_after,
    .ready = replay_ready,
    .launch = replay_launch,
    .time_items = replay_time_items,
    .time_whole = replay_time_whole,
    .counts = replay_counts,
};
