/* SPDX-License-Identifier: MIT
 * Streams and events. */
#include "api.h"

CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority) {
    ENTER(true);
    if (!stream || flags > 1) return api_leave(CUDA_ERROR_INVALID_VALUE);
    *stream = stream_create(api_context(), flags, priority > 0 ? 0 : priority < -5 ? -5 : priority, false);
    return api_leave(*stream ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}
CUresult cuStreamCreate(CUstream *stream, unsigned int flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

CUresult cuStreamDestroy_v2(CUstream stream) {
    CUresult entered = api_enter(true);
    if (entered && entered != sim.sticky) return api_leave(entered);
    CUstream s = stream_find(stream);
    if (!s || s->null) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (s->capture) s->capture->invalid = true, capture_release(s->capture), s->capture = NULL, sim.captures--;
    stream_wait_for(s, s->enqueued);
    s->alive = false;
    return api_leave(sim.sticky);
}

CUresult cuStreamSynchronize(CUstream stream) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    CUresult r = s->capture ? (s->capture->invalid = true, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
                            : stream_forbid_capture();
    if (r) return api_leave(r);
    if (s->null) /* the default stream comes after all blocking ones */
        for (CUstream o = sim.streams; o; o = o->next)
            if (o->blocking && o->context == s->context) stream_wait_for(o, o->enqueued), stream_host_knows(o);
    stream_wait_for(s, s->enqueued);
    stream_host_knows(s);
    return api_leave(sim.sticky);
}

CUresult cuStreamQuery(CUstream stream) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (s->capture) {
        s->capture->invalid = true;
        return api_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    if (s->done < s->enqueued) {
        stream_poll(s);
        return api_leave(sim.sticky ? sim.sticky : CUDA_ERROR_NOT_READY);
    }
    stream_host_knows(s);
    return api_leave(sim.sticky);
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s || !context) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    *context = s->context;
    return api_leave(CUDA_SUCCESS);
}

CUresult cuStreamGetFlags(CUstream stream, unsigned int *flags) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (s) *flags = s->flags;
    return api_leave(s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuStreamGetPriority(CUstream stream, int *priority) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (s) *priority = s->priority;
    return api_leave(s ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

static CUevent find_event(CUevent event) {
    for (CUevent e = sim.events; e; e = e->next)
        if (e == event) return e->alive ? e : NULL;
    return NULL;
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
    ENTER(true);
    CUstream s = stream_find(stream);
    CUevent e = find_event(event);
    if (!s || !e || flags) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (e->capture) { /* the stream joins the capture */
        if (s->capture && s->capture != e->capture) return api_leave(CUDA_ERROR_STREAM_CAPTURE_MERGE);
        if (s->null) return api_leave(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
        graph_join(s, e->nodes, e->n_nodes, e->capture);
        return api_leave(CUDA_SUCCESS);
    }
    if (s->capture) {
        if (!e->recorded || e->stream->done >= e->position) return api_leave(CUDA_SUCCESS);
        s->capture->invalid = true;
        return api_leave(CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    if (!e->recorded) return api_leave(CUDA_SUCCESS);
    sim_work work = {.kind = WORK_EMPTY};
    dependency d = {e->stream, e->position};
    return api_leave(stream_enqueue(s, &work, &d, 1, e->clock));
}

CUresult cuEventCreate(CUevent *event, unsigned int flags) {
    ENTER(true);
    CUevent e = calloc(1, sizeof *e);
    if (!e) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    e->alive = true, e->timing = !(flags & CU_EVENT_DISABLE_TIMING);
    e->next = sim.events, sim.events = e;
    *event = e;
    return api_leave(CUDA_SUCCESS);
}

CUresult cuEventDestroy_v2(CUevent event) {
    CUresult entered = api_enter(true);
    if (entered && entered != sim.sticky) return api_leave(entered);
    CUevent e = find_event(event);
    if (!e) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    e->alive = false;
    if (e->capture) capture_release(e->capture), e->capture = NULL;
    return api_leave(entered);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
    ENTER(true);
    CUstream s = stream_find(stream);
    CUevent e = find_event(event);
    if (!s || !e) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (e->capture) capture_release(e->capture), e->capture = NULL;
    if (s->capture) {
        int *nodes = realloc(e->nodes, (size_t)(s->n_last + 1) * sizeof *nodes);
        if (!nodes) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
        if (s->n_last) memcpy(nodes, s->last, (size_t)s->n_last * sizeof *nodes);
        e->nodes = nodes, e->n_nodes = s->n_last, e->capture = s->capture, e->recorded = false;
        s->capture->references++;
        return api_leave(CUDA_SUCCESS);
    }
    sim_work work = {.kind = WORK_RECORD, .event = e};
    CUresult r = stream_enqueue(s, &work, NULL, 0, NULL);
    if (r) return api_leave(r);
    e->recorded = true, e->stream = s, e->position = s->enqueued;
    memcpy(e->clock, s->clock, sizeof e->clock);
    return api_leave(CUDA_SUCCESS);
}

static void host_knows_event(CUevent e) {
    for (int k = 0; k < SLOTS; k++)
        if (e->clock[k] > sim.host[k]) sim.host[k] = e->clock[k];
}

CUresult cuEventQuery(CUevent event) {
    ENTER(true);
    CUevent e = find_event(event);
    if (!e) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (e->capture) return api_leave(CUDA_ERROR_CAPTURED_EVENT);
    if (!e->recorded) return api_leave(CUDA_SUCCESS);
    if (e->stream->done < e->position) {
        stream_poll(e->stream);
        return api_leave(sim.sticky ? sim.sticky : CUDA_ERROR_NOT_READY);
    }
    host_knows_event(e);
    return api_leave(sim.sticky);
}

CUresult cuEventSynchronize(CUevent event) {
    ENTER(true);
    CUevent e = find_event(event);
    if (!e) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (e->capture) return api_leave(CUDA_ERROR_CAPTURED_EVENT);
    CUresult r = stream_forbid_capture();
    if (r) return api_leave(r);
    if (e->recorded) {
        stream_wait_for(e->stream, e->position);
        host_knows_event(e);
    }
    return api_leave(sim.sticky);
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end) {
    ENTER(true);
    CUevent a = find_event(start), b = find_event(end);
    if (!a || !b || !a->timing || !b->timing || !a->recorded || !b->recorded)
        return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (a->stream->done < a->position || b->stream->done < b->position) return api_leave(CUDA_ERROR_NOT_READY);
    *milliseconds = (float)(b->time_ms - a->time_ms);
    return api_leave(CUDA_SUCCESS);
}
