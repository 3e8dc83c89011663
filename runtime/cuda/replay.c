/* SPDX-License-Identifier: MIT
 * Capturing a program's steps, replaying them, and measuring which is faster.
 *
 * The first run is made by launches: libraries load their kernels then, which cannot be captured everywhere. Before the
 * second one all is captured. A step that the capture refuses - a library that waits, or allocates - is left out: the
 * capture is made once more up to it, it is a launch by itself, and the next graph begins behind it. The capture is
 * local to this thread, so that other threads of the process may allocate meanwhile; and it holds addresses, so that
 * what is placed anew makes another generation of graphs.
 *
 * Where nobody requires graphs, the next runs are replays and launches in turns, each timed alone. All give the same
 * bits, so none is lost. The faster way is taken, and a replay where both are equal within the noise: it leaves the
 * host's time free. */
#include "runtime/cuda/replay.h"
#include "runtime/cuda/ranks.h"

#include "ir/support/alloc.h"
#include "ir/support/clock.h"

#include <stdio.h>
#include <string.h>

enum {
    TRIALS = 8,       /* runs that are timed, half of them replays; the first two are not counted, as they are slower */
    NOISE_PERCENT = 2 /* of two times that count as equal */
};

/* Steps that follow each other. */
typedef struct segment {
    int first, end;
    tcc_cuda_graph_exec graph; /* NULL: launched */
} segment;

struct tcc_cuda_replay {
    tcc_cuda_steps steps;
    segment *segments; /* at most one a step */
    int n_segments;
    bool *refused; /* by step: it cannot be captured */
    bool ran;      /* once, by launches */
    bool old;      /* the graphs have addresses of before */
    tcc_ranks_graphs of_ranks;
    int trials;
    tcc_replay report;
};

static void drop_graphs(tcc_cuda_replay *r) {
    for (int i = 0; i < r->n_segments; i++)
        if (r->segments[i].graph) r->steps.device->cu.graph_free(r->segments[i].graph);
    r->n_segments = 0;
    r->report.captured = r->report.graphs = 0;
    tcc__cuda_ranks_remove_graphs(&r->of_ranks);
}

static void drop_for_ranks(void *user) { drop_graphs(user); }

tcc_status tcc__cuda_replay_create(tcc_diag *d, const tcc_cuda_steps *steps, tcc_cuda_replay **out) {
    const size_t n = (size_t)steps->program->n_steps + 1;
    tcc_cuda_replay *r = *out = tcc__calloc(1, sizeof *r);
    if (!r) return tcc_enomem(d);
    r->steps = *steps;
    r->of_ranks = (tcc_ranks_graphs){.drop = drop_for_ranks, .user = r};
    r->segments = tcc__calloc(n, sizeof *r->segments);
    r->refused = tcc__calloc(n, sizeof *r->refused);
    for (int i = 0; i < steps->program->n_steps; i++) r->report.launches += steps->count(steps->user, i);
    if (r->segments && r->refused) return TCC_OK;
    tcc__cuda_replay_destroy(r);
    *out = NULL;
    return tcc_enomem(d);
}

void tcc__cuda_replay_drop(tcc_cuda_replay *r) {
    if (r) drop_graphs(r);
}

void tcc__cuda_replay_destroy(tcc_cuda_replay *r) {
    if (!r) return;
    tcc__cuda_ranks_remove_graphs(&r->of_ranks); /* of a lost device, whose graphs nobody could drop */
    tcc__free(r->segments);
    tcc__free(r->refused);
    tcc__free(r);
}

void tcc__cuda_replay_get(const tcc_cuda_replay *r, tcc_replay *out) { *out = r->report; }

/* --- capturing --- */

static void explain(tcc_cuda_replay *r, const char *what, const tcc_diag *why) {
    const char *words = tcc_diag_words(why);
    if (!*r->report.why)
        snprintf(r->report.why, sizeof r->report.why, "%s: %.*s", what, (int)strcspn(words, "\n"), words);
}

static void explain_step(tcc_cuda_replay *r, int step, const tcc_diag *why) {
    const tcc_step *s = &r->steps.program->steps[step];
    explain(r, s->kind == TCC_STEP_LIBRARY ? s->call->name : "a launch", why);
}

/* Nothing is captured, for good. */
static void refuse(tcc_cuda_replay *r, const char *what, const tcc_diag *why) {
    drop_graphs(r);
    *r->report.why = 0;
    explain(r, what, why);
    r->report.stage = TCC_REPLAY_REFUSED;
}

static tcc_status check(tcc_cuda_replay *r, tcc_diag *d, tcc_cuda_result result, const char *call) {
    return result ? tcc__cuda_failed(r->steps.device, d, result, call) : TCC_OK;
}

/* Puts the steps from `first` on while the stream is captured, as far as `end` or the first that spoils the capture.
 * Returns where that is. `why`: what it said. */
static int put_steps(tcc_cuda_replay *r, tcc_diag *why, int first, int end) {
    const tcc_cuda_driver *cu = &r->steps.device->cu;
    int i = first, state = TCC_CUDA_CAPTURE_ACTIVE;
    r->steps.begin(r->steps.user);
    for (; i < end; i++) {
        const tcc_status s = r->steps.put(r->steps.user, why, i);
        const tcc_cuda_result asked = cu->capture_state(r->steps.device->compute, &state);
        if (s == TCC_OK && !asked && state != TCC_CUDA_CAPTURE_ACTIVE)
            tcc_error(why, TCC_EUNSUPPORTED, TCC_NOWHERE, "its work cannot be captured");
        if (s != TCC_OK || asked || state != TCC_CUDA_CAPTURE_ACTIVE) return i;
    }
    return i;
}

/* One graph of the steps from `first` to `end`, or less: *reached is where a step spoiled it, and then there is no
 * graph. A failure is of the whole: no step is to blame. */
static tcc_status capture(tcc_cuda_replay *r, tcc_diag *why, int first, int end, int *reached,
                          tcc_cuda_graph_exec *out) {
    tcc_device_cuda *cuda = r->steps.device;
    tcc_cuda_graph graph = NULL;
    *out = NULL;
    *reached = first;
    TCC_CUDA_TRY(cuda, why, capture_begin, cuda->compute, TCC_CUDA_CAPTURE_THREAD_LOCAL);
    *reached = put_steps(r, why, first, end);
    const tcc_status joined = r->steps.end(r->steps.user, why);
    tcc_cuda_result ended = cuda->cu.capture_end(cuda->compute, &graph);
    if (*reached < end) {
        if (!ended && graph) cuda->cu.graph_destroy(graph);
        return TCC_OK;
    }
    TCC_TRY(check(r, why, ended, tcc__cuda_symbol_capture_end));
    if (joined != TCC_OK) {
        cuda->cu.graph_destroy(graph);
        return joined;
    }
    ended = cuda->cu.graph_make(out, graph, 0);
    cuda->cu.graph_destroy(graph);
    if (ended) *out = NULL;
    return check(r, why, ended, tcc__cuda_symbol_graph_make);
}

static void add_segment(tcc_cuda_replay *r, int first, int end, tcc_cuda_graph_exec graph) {
    segment *last = r->n_segments ? &r->segments[r->n_segments - 1] : NULL;
    if (last && !last->graph && !graph) last->end = end;
    else r->segments[r->n_segments++] = (segment){first, end, graph};
    if (!graph) return;
    r->report.graphs++;
    for (int i = first; i < end; i++) r->report.captured += r->steps.count(r->steps.user, i);
}

/* Errors: what ends the run too, a lost device. */
static tcc_status capture_all(tcc_cuda_replay *r, tcc_diag *d) {
    const int n = r->steps.program->n_steps;
    *r->report.why = 0;
    r->report.stage = TCC_REPLAY_MEASURED;
    for (int at = 0, end; at < n && r->report.stage == TCC_REPLAY_MEASURED; at = end) {
        tcc_cuda_graph_exec graph = NULL;
        tcc_diag why = {0};
        int reached = end = at + 1;
        tcc_status s = TCC_OK;
        if (!r->refused[at]) {
            while (end < n && !r->refused[end]) end++;
            s = capture(r, &why, at, end, &reached, &graph);
        }
        if (*r->steps.device->lost) {
            s = tcc_error(d, TCC_EDEVICE, TCC_NOWHERE, "%s", tcc_diag_words(&why));
            drop_graphs(r);
            tcc_diag_clear(&why);
            return s;
        }
        if (s != TCC_OK) refuse(r, "capturing failed", &why);
        else if (reached < end) {
            explain_step(r, reached, &why);
            r->refused[reached] = true;
            end = at; /* once more, up to it */
        } else add_segment(r, at, end, graph);
        tcc_diag_clear(&why);
    }
    if (r->report.stage == TCC_REPLAY_MEASURED && !r->report.graphs) r->report.stage = TCC_REPLAY_REFUSED;
    return TCC_OK;
}

void tcc__cuda_replay_outdate(tcc_cuda_replay *r) { r->old = true; }

/* --- running --- */

static tcc_status launch_steps(tcc_cuda_replay *r, tcc_diag *d, int first, int end) {
    r->steps.begin(r->steps.user);
    for (int i = first; i < end; i++) TCC_TRY(r->steps.put(r->steps.user, d, i));
    return r->steps.end(r->steps.user, d);
}

static tcc_status replay(tcc_cuda_replay *r, tcc_diag *d) {
    tcc_device_cuda *cuda = r->steps.device;
    for (int i = 0; i < r->n_segments; i++) {
        const segment *s = &r->segments[i];
        if (s->graph) TCC_CUDA_TRY(cuda, d, graph_launch, s->graph, cuda->compute);
        else TCC_TRY(launch_steps(r, d, s->first, s->end));
    }
    return TCC_OK;
}

static tcc_status launch_all(tcc_cuda_replay *r, tcc_diag *d) {
    return launch_steps(r, d, 0, r->steps.program->n_steps);
}

/* A timed run; the last one decides. */
static tcc_status try_run(tcc_cuda_replay *r, tcc_diag *d) {
    tcc_device_cuda *cuda = r->steps.device;
    tcc_replay *report = &r->report;
    const bool replays = r->trials % 2 == 0, counts = r->trials >= 2;
    int64_t *best = replays ? &report->replay_ns : &report->launch_ns;
    TCC_TRY(tcc__cuda_wait_stream(cuda, d, cuda->compute));
    const int64_t start = tcc_clock_ns();
    TCC_TRY(replays ? replay(r, d) : launch_all(r, d));
    TCC_TRY(tcc__cuda_wait_stream(cuda, d, cuda->compute));
    const int64_t ns = tcc_clock_ns() - start;
    if (counts && (!*best || ns < *best)) *best = ns;
    if (++r->trials < TRIALS) return TCC_OK;
    const bool slower = (double)report->replay_ns > (1 + 0.01 * NOISE_PERCENT) * (double)report->launch_ns;
    report->stage = slower ? TCC_REPLAY_SLOWER : TCC_REPLAY_USED;
    if (slower) drop_graphs(r);
    return TCC_OK;
}

/* Has graphs of the present addresses, if there are to be any. What was measured holds for other addresses too. */
static tcc_status need_graphs(tcc_cuda_replay *r, tcc_diag *d, tcc_device_ranks *meets) {
    const tcc_replay_stage stage = r->report.stage;
    if (r->old) drop_graphs(r); /* the driver keeps one that runs until it is done */
    r->old = false;
    if (r->n_segments || stage == TCC_REPLAY_SLOWER || stage == TCC_REPLAY_REFUSED) return TCC_OK;
    if (meets) tcc__cuda_ranks_add_graphs(meets, &r->of_ranks);
    TCC_TRY(capture_all(r, d));
    if (r->report.stage == TCC_REPLAY_MEASURED && stage == TCC_REPLAY_USED) r->report.stage = stage;
    return TCC_OK;
}

static tcc_status check_required(tcc_cuda_replay *r, tcc_diag *d) {
    const tcc_replay *report = &r->report;
    if (report->captured == report->launches) return TCC_OK;
    return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE,
                     "graphs are required, and %d of the %d launches of program '%s' were captured: %s",
                     report->captured, report->launches, r->steps.program->name, report->why);
}

static void refuse_for(tcc_cuda_replay *r, const char *why) {
    r->report.stage = TCC_REPLAY_REFUSED;
    snprintf(r->report.why, sizeof r->report.why, "%s", why);
}

/* All or nothing: a rank's launches would meet another one's replay else. */
static void decide_together(tcc_cuda_replay *r) {
    const bool all = r->report.captured == r->report.launches;
    if (r->report.stage != TCC_REPLAY_MEASURED && r->report.stage != TCC_REPLAY_USED) return;
    r->report.stage = all ? TCC_REPLAY_USED : TCC_REPLAY_REFUSED;
    if (!all) drop_graphs(r);
}

tcc_status tcc__cuda_replay_run(tcc_cuda_replay *r, tcc_diag *d, tcc_replay_mode mode, tcc_device_ranks *meets) {
    const tcc_device_cuda *cuda = r->steps.device;
    const bool required = mode == TCC_REPLAY_REQUIRED;
    if (!cuda->cu.capture_begin) refuse_for(r, "the driver is of a CUDA before 11.4");
    else if (cuda->blocking) refuse_for(r, "TCC_LAUNCH_BLOCKING waits for each launch");
    if (r->report.stage == TCC_REPLAY_WAITING && !r->ran) {
        r->ran = true;
        return launch_all(r, d);
    }
    TCC_TRY(need_graphs(r, d, meets));
    if (required) {
        TCC_TRY(check_required(r, d));
        r->report.stage = TCC_REPLAY_USED;
    }
    if (meets) decide_together(r);
    switch (r->report.stage) {
    case TCC_REPLAY_MEASURED: return try_run(r, d);
    case TCC_REPLAY_USED: return replay(r, d);
    default: return launch_all(r, d);
    }
}
