/* SPDX-License-Identifier: MIT
 * The key of a program: all that the program depends on. Every input of the passes and codegen beside the graph is
 * named here, or has a row in options.def that says so. Equal keys mean equal programs. The number of threads is not
 * part of the key: no choice depends on it. */
#include "frontend/cache/cache.h"

#include "codegen/options.h"
#include "frontend/run/options.h"
#include "runtime/comm/comm.h"
#include "runtime/wanted.h"

#include <stdlib.h>

extern const char tcc__compiler_sources[]; /* generated: version.cmake */

static void print_graph(tcc_strbuf *b, const tcc_graph *traced) {
    tcc_graph_print(b, traced, (tcc_print_options){.locs = true});
}

static void print_options(tcc_strbuf *b, tcc_model *m, bool train, tcc_step_part part) {
    tcc_model_options o = m->options;
    const tcc_optimizer_options *p = &m->optimizer;
    if (o.mode == TCC_MODE_REDUCE_OVERHEAD) o.mode = TCC_MODE_DEFAULT; /* the same programs */
    tcc_strbuf_printf(b, "train=%d", train);
    tcc__options_print_key(b, TCC_OPTION_OF_MODEL, &o, train);
    if (!train) return;
    tcc_strbuf_printf(b, " part=%d", (int)part);
    if (tcc_step_adds_ranks(part) && o.comm) {
        const tcc_network *n = tcc_comm_network(o.comm);
        tcc_strbuf_printf(b, " ranks=%d network=%a,%a", tcc_comm_size(o.comm), n->latency_ns, n->bytes_a_ns);
    }
    tcc__options_print_key(b, TCC_OPTION_OF_OPTIMIZER, p, train);
    for (int i = 0; i < p->n_groups; i++) /* the other numbers of a group are data */
        tcc_strbuf_printf(b, " group=%d,%d,%zu:%s", p->groups[i].frozen, tcc__group_rates(m, &p->groups[i]),
                          strlen(p->groups[i].match), p->groups[i].match);
}

static void print_precision(tcc_strbuf *b, const tcc_model *m) {
    if (!m->options.mixed_precision) {
        tcc_strbuf_add(b, "none");
        return;
    }
    tcc_strbuf_printf(b, "%s loss_scale=%a classes=", tcc_dtype_text(m->compiler->amp.low), m->options.loss_scale);
    for (int op = 0; op < TCC_OP_COUNT; op++) tcc_strbuf_printf(b, "%x", (unsigned)m->compiler->amp_classes[op]);
}

static void print_memory(tcc_strbuf *b, tcc_model *m, bool train, tcc_step_part part) {
    const tcc_remat_spec *r = tcc__model_remat(m, train);
    if (r && r->budget == TCC_BUDGET_BYTES && part == TCC_STEP_MICRO) /* of which other programs take their share */
        tcc_strbuf_printf(b, "whole=%lld rows=%lld parts=%lld ", (long long)m->micro_whole,
                          (long long)(m->options.comm ? m->ranks_rows : m->micro_whole),
                          (long long)tcc__micro_parts(m));
    if (!r) tcc_strbuf_add(b, "keeps all");
    else
        tcc_strbuf_printf(b, "segments=%d budget=%d bytes=%lld share=%a", r->segments, (int)r->budget,
                          (long long)r->bytes, r->share);
}

/* A line of tcc_device_ops.describe on a library that was found has its version: "cudnn: 9.19.0 (...)". */
static bool names_library(const char *line) {
    const char *colon = strstr(line, ": ");
    return strncmp(line, "cuda:", 5) && colon && colon[2] >= '0' && colon[2] <= '9';
}

/* The device, its driver and libraries, where programs may call a library: what it takes is asked there. Without one
 * nothing but the figures above decides, so that code for a GPU can be made where there is none. */
static void print_libraries(tcc_strbuf *b, const tcc_model *m) {
    tcc_strbuf text = {0};
    bool any = false;
    if (m->device && m->device->ops->target != TCC_TARGET_HOST) m->device->ops->describe(m->device, &text);
    for (const char *line = text.text ? text.text : ""; *line; line += strcspn(line, "\n") + 1) {
        any |= names_library(line);
        if (!line[strcspn(line, "\n")]) break;
    }
    b->failed |= text.failed;
    tcc_strbuf_add(b, any ? text.text : "none");
    if (any && tcc_libraries_prefer("cudnn.batch_norm")) tcc_strbuf_add(b, "cudnn.batch_norm");
    tcc_strbuf_free(&text);
}

static void print_environment(tcc_strbuf *b) {
    const char *skip = getenv("TCC_SKIP");
    tcc_strbuf_printf(b, "TCC_SKIP=%s", skip ? skip : "");
}

/* Takes the text over into the key. */
static void add(tcc_cache_key *key, const char *name, tcc_strbuf *text, tcc_arena *memory, bool *failed) {
    const char *value = text->failed ? NULL : tcc_arena_strdup(memory, text->text ? text->text : "");
    if (!value) *failed = true;
    key->parts[key->count++] = (tcc_cache_part){name, value};
    tcc_strbuf_free(text);
    *text = (tcc_strbuf){0};
}

static void print_version(tcc_strbuf *b) { tcc_strbuf_printf(b, "%s %s", TCC_VERSION, tcc__compiler_sources); }

void tcc__cache_print_compiler(const tcc_model *m, tcc_strbuf *machine, tcc_strbuf *version) {
    tcc_selector_print_target(m->compiler->selector, machine);
    tcc_strbuf_add(machine, "\n");
    tcc_codegen_describe_target(tcc_selector_llvm(m->compiler->selector), machine);
    print_version(version);
}

static void add_machine(tcc_model *m, tcc_arena *memory, tcc_cache_key *key, bool *failed) {
    tcc_strbuf b = {0};
    tcc_codegen_describe_target(tcc_selector_llvm(m->compiler->selector), &b);
    add(key, "target", &b, memory, failed);
    tcc_codegen_describe_llvm(&b);
    add(key, "llvm", &b, memory, failed);
    print_version(&b);
    add(key, "traincc", &b, memory, failed);
    tcc_codegen_describe_hardware(tcc_selector_llvm(m->compiler->selector), &b);
    add(key, "hardware", &b, memory, failed);
}

tcc_status tcc__cache_machine(tcc_model *m, tcc_arena *memory, tcc_cache_key *key) {
    bool failed = false;
    add_machine(m, memory, key, &failed);
    return failed ? tcc_enomem(&m->cx->diag) : TCC_OK;
}

tcc_status tcc__cache_key(tcc_model *m, bool train, tcc_step_part part, const tcc_graph *traced, tcc_arena *memory,
                          tcc_cache_key *key) {
    tcc_strbuf b = {0};
    bool failed = false;
    key->count = 0;
    print_options(&b, m, train, part);
    add(key, "options", &b, memory, &failed);
    print_precision(&b, m);
    add(key, "precision", &b, memory, &failed);
    print_memory(&b, m, train, part);
    add(key, "memory", &b, memory, &failed);
    add_machine(m, memory, key, &failed);
    print_libraries(&b, m);
    add(key, "libraries", &b, memory, &failed);
    print_environment(&b);
    add(key, "environment", &b, memory, &failed);
    print_graph(&b, traced);
    add(key, "graph", &b, memory, &failed);
    return failed ? tcc_enomem(&m->cx->diag) : TCC_OK;
}
