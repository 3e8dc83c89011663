/* SPDX-License-Identifier: MIT
 * Replaying: which programs of a model run as graphs of the device, and what is said of it. */
#include "frontend/run/model.h"

static bool replays(const tcc_model *m) {
    return m->options.mode == TCC_MODE_REDUCE_OVERHEAD || m->options.mode == TCC_MODE_MAX_AUTOTUNE;
}

tcc_status tcc__model_check_replay(tcc_model *m) {
    tcc_diag *diag = &m->cx->diag;
    if (!m->options.require_graphs) return TCC_OK;
    if (!replays(m))
        return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE,
                         "require_graphs: steps are replayed as graphs only with TCC_MODE_REDUCE_OVERHEAD and "
                         "TCC_MODE_MAX_AUTOTUNE");
    if (!m->device || m->device->ops->set_replay) return TCC_OK;
    return tcc_error(diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                     "require_graphs: there are no graphs on device '%s'; a step there is a list of resolved calls in "
                     "any mode",
                     m->device_name);
}

tcc_status tcc__compiled_set_replay(tcc_model *m, tcc_compiled *c) {
    if (!replays(m)) return TCC_OK;
    return tcc_exec_set_replay(c->exec, &m->cx->diag,
                               m->options.require_graphs ? TCC_REPLAY_REQUIRED : TCC_REPLAY_IF_FASTER);
}

static bool is_decided(tcc_replay_stage stage) { return stage >= TCC_REPLAY_USED; }

static void print_times(tcc_strbuf *b, const tcc_replay *r) {
    if (r->replay_ns)
        tcc_strbuf_printf(b, "; a step takes %.3f ms replayed and %.3f ms launched", 1e-6 * (double)r->replay_ns,
                          1e-6 * (double)r->launch_ns);
}

static void print_replay(tcc_strbuf *b, const tcc_compiled *c, const tcc_replay *r) {
    const int left = r->launches - r->captured;
    static const char *const parts[TCC_STEP_PARTS] = {"training step", "micro-batch", "update", "totals",
                                                      "training step"};
    const char *what = c->train ? parts[c->part] : "evaluation";
    if (r->stage == TCC_REPLAY_SLOWER) {
        tcc_strbuf_printf(b, "graphs: the launches of the %s are kept, as its replay is slower", what);
        print_times(b, r);
        return;
    }
    tcc_strbuf_printf(b, "graphs: %d of %d launches of the %s are captured", r->captured, r->launches, what);
    if (r->graphs) tcc_strbuf_printf(b, " in %d graph%s", r->graphs, r->graphs == 1 ? "" : "s");
    if (left) tcc_strbuf_printf(b, "; %d %s not: %s", left, left == 1 ? "is" : "are", r->why);
    print_times(b, r);
}

tcc_status tcc__report_replay(tcc_model *m, tcc_compiled *c, tcc_strbuf *b) {
    tcc_replay r = {0};
    if (c->exec) tcc_exec_get_replay(c->exec, &r);
    if (!r.stage) return TCC_OK;
    print_replay(b, c, &r);
    tcc_strbuf_add(b, "\n");
    return c->next ? tcc__report_replay(m, c->next, b) : TCC_OK;
}

void tcc__compiled_log_replay(tcc_model *m, tcc_compiled *c) {
    tcc_replay r;
    if (!replays(m) || is_decided(c->replay_stage)) return;
    tcc_exec_get_replay(c->exec, &r);
    if (r.stage == c->replay_stage) return;
    c->replay_stage = r.stage;
    tcc_strbuf text = {0};
    print_replay(&text, c, &r);
    if (text.text) tcc_logf(m->cx, TCC_LOG_COMPILE, "%s", text.text);
    tcc_strbuf_free(&text);
}

void tcc__compiled_replay_info(const tcc_compiled *c, tcc_program_info *out) {
    tcc_replay r = {0};
    if (c->exec) tcc_exec_get_replay(c->exec, &r);
    out->launches = r.launches;
    out->captured_launches = r.captured;
    out->graphs = r.graphs;
    out->graphs_decided = is_decided(r.stage);
    out->replay_ms = 1e-6 * (double)r.replay_ns;
    out->launch_ms = 1e-6 * (double)r.launch_ns;
}
