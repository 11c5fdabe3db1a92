/* Chrome traces of XLA's profiler (JAX, TensorFlow): devices are processes, streams are threads, and names
 * stand in for categories.
 *
 * In: fields of events, names first as that profiler writes them. Out: events of the model.
 */
#include "trace/kineto.h"
#include "trace/xla_names.h"

#include <stdlib.h>
#include <string.h>

#define PROCESS_MAX 4096

static hr_kineto_xla_process *process_find(hr_kineto_adder *adder, int64_t process) {
    for (int64_t i = 0; i < adder->xla.processes.count; i++)
        if (adder->xla.processes.items[i].process == process) return &adder->xla.processes.items[i];
    return NULL;
}

static const char *field_text(hr_kineto_adder *adder, const hr_kineto_event *event, hr_kineto_field field) {
    return hr_trace_build_text(adder->build, hr_kineto_string(adder, event, field));
}

static void process_add(hr_kineto_adder *adder, int64_t process, int32_t device) {
    hr_kineto_xla *xla = &adder->xla;
    if (process_find(adder, process) || xla->processes.count == PROCESS_MAX) return;
    if (xla->processes.count == xla->processes.capacity) {
        int64_t capacity = xla->processes.capacity ? 2 * xla->processes.capacity : 8;
        hr_kineto_xla_process *grown = realloc(xla->processes.items, (size_t)capacity * sizeof *grown);
        if (!grown) {
            adder->failed = true;
            return;
        }
        xla->processes.items = grown;
        xla->processes.capacity = capacity;
    }
    xla->processes.items[xla->processes.count++] =
        (hr_kineto_xla_process){.process = process, .device = device};
    hr_trace_build_device(adder->build, device);
}

bool hr_kineto_xla_name(hr_kineto_adder *adder, const hr_kineto_event *event) {
    if (!hr_kineto_has(event, HR_KINETO_NAME) || !hr_kineto_has(event, HR_KINETO_TRACK_NAME)) return false;
    int64_t process = hr_kineto_identity(event, HR_KINETO_PROCESS);
    if (hr_json_is(&event->fields[HR_KINETO_NAME], "process_name")) {
        const hr_json_slice *name = &event->fields[HR_KINETO_TRACK_NAME];
        bool host = name->length > 6 && memcmp(name->text, "/host:", 6) == 0;
        if (!host && (name->length < 8 || memcmp(name->text, "/device:", 8) != 0)) return false;
        snprintf(hr_trace_build_rank(adder->build)->source, sizeof(hr_rank){0}.source, "jax");
        int32_t device = hr_xla_device(field_text(adder, event, HR_KINETO_TRACK_NAME));
        if (device >= 0) process_add(adder, process, device);
        return device >= 0;
    }
    hr_kineto_xla_process *of = process_find(adder, process);
    bool stream = of && hr_xla_stream(field_text(adder, event, HR_KINETO_TRACK_NAME)) >= 0;
    if (stream) of->has_streams = true;
    return false; /* threads are named by the caller */
}

/* The name of the event's thread, "" where it has none. Neighbours are mostly of one thread. */
static const char *thread_name(hr_kineto_adder *adder, int64_t process, int64_t thread) {
    const hr_kineto_name *names = adder->names.items;
    int64_t count = adder->names.count, last = adder->xla.last_name;
    if (last < count && names[last].process == process && names[last].thread == thread)
        return hr_trace_build_text(adder->build, names[last].name);
    for (int64_t i = 0; i < count; i++)
        if (names[i].process == process && names[i].thread == thread) {
            adder->xla.last_name = i;
            return hr_trace_build_text(adder->build, names[i].name);
        }
    return "";
}

static void work_add(hr_kineto_adder *adder, const hr_kineto_event *fields, hr_event event) {
    const char *name = hr_trace_build_text(adder->build, event.name);
    event.kind = hr_xla_work_kind(name);
    if (event.kind == HR_EVENT_KERNEL) {
        hr_kernel_work work = hr_xla_kernel(field_text(adder, fields, HR_KINETO_KERNEL_DETAILS));
        hr_trace_build_event(adder->build, event, &work);
    } else {
        hr_copy copy = hr_xla_copy(name, field_text(adder, fields, HR_KINETO_COPY_DETAILS));
        hr_trace_build_event(adder->build, event, &copy);
    }
}

bool hr_kineto_xla_add(hr_kineto_adder *adder, const hr_kineto_event *fields, hr_event event) {
    if (hr_kineto_has(fields, HR_KINETO_CATEGORY)) return false;
    int64_t process = hr_kineto_identity(fields, HR_KINETO_PROCESS);
    int64_t thread = hr_kineto_identity(fields, HR_KINETO_THREAD);
    const hr_kineto_xla_process *of = process_find(adder, process);
    event.name = hr_kineto_string(adder, fields, HR_KINETO_NAME);
    if (!of && !hr_xla_is_call(hr_trace_build_text(adder->build, event.name))) return false;
    event.correlation = hr_kineto_whole(adder, fields, HR_KINETO_CORRELATION, 0);
    if (hr_kineto_has(fields, HR_KINETO_DURATION) &&
        !hr_json_thousandths(&fields->fields[HR_KINETO_DURATION], &event.duration)) {
        hr_trace_build_skip(adder->build, "events whose duration is no number", fields->offset);
        return true;
    }
    adder->added++;
    if (!of) {
        event.kind = HR_EVENT_CALL;
        event.track = hr_trace_build_thread(adder->build, process, thread);
        hr_trace_build_event(adder->build, event, NULL);
        return true;
    }
    const char *title = thread_name(adder, process, thread);
    int64_t stream = hr_xla_stream(title);
    bool work = of->has_streams ? stream >= 0 : hr_xla_is_work_line(title);
    event.track = hr_trace_build_stream(adder->build, of->device, stream >= 0 ? stream : thread);
    event.kind = HR_EVENT_DEVICE_RANGE;
    if (work)
        work_add(adder, fields, event);
    else
        hr_trace_build_event(adder->build, event, NULL);
    return true;
}
