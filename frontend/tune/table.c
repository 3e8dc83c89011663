/* SPDX-License-Identifier: MIT
 * The table of choices by kind of group, which the passes look up, and the lock file that it is written to and read
 * from.
 *
 * The file is text for a version control system. The second line names the target. Then each kind of group has two
 * lines. The first is its key, a hash of its whole description, followed by a few words for people. The second is its
 * choice, in the text form of a graph:
 *
 *     traincc-lock 1
 *     target cpu znver4 2 threads
 *     group 0123456789abcdef contract dot f32[512,1024]
 *       by "contract.tiles" {rows=6, vectors=4, ...}
 *     group fedcba9876543210 contract conv f32[64,32,32,64]
 *       cut */
#include "frontend/tune/tune.h"

#include "codegen/signature.h"
#include "ir/support/hash.h"
#include "passes/group.h"
#include "runtime/cpus.h"
#include "runtime/files/file.h"

#include <errno.h>

tcc_status tcc__tune_key(const tcc_graph *g, const tcc_group *group, uint64_t *key, char **signature) {
    size_t room = 1;
    for (int i = 0; i < group->n_nodes; i++) room += (size_t)group->nodes[i]->n_operands;
    tcc_node **inputs = tcc__calloc(room, sizeof *inputs);
    char *text = inputs ? tcc_group_signature(group, inputs, tcc_group_inputs(group, inputs)) : NULL;
    if (text) *key = tcc_hash_string(0, text);
    tcc__free(inputs);
    if (!text) return tcc_enomem(g->diag);
    if (signature) *signature = text;
    else tcc__free(text);
    return TCC_OK;
}

tcc_tuned *tcc__tune_find(const tcc_model *m, uint64_t key) {
    for (int i = 0; m->compiler->tuning && i < m->compiler->tuning->entries.count; i++)
        if (m->compiler->tuning->entries.data[i].key == key) return &m->compiler->tuning->entries.data[i];
    return NULL;
}

const tcc_implementation *tcc__tune_keep(tcc_model *m, const tcc_implementation *x) {
    const tcc_implementation bare = {.name = x->name, .params = x->params, .n_params = x->n_params};
    const tcc_implementation *copy = tcc_implementation_copy(&m->compiler->tuning->arena, &bare, NULL);
    if (!copy) tcc_enomem(&m->cx->diag);
    return copy;
}

bool tcc__tune_differs(const tcc_tuned *entry) {
    const tcc_implementation *x = entry->choice, *y = entry->plain;
    if (entry->refused || (!x && !entry->cut)) return false;
    if (entry->cut || !y || strcmp(x->name, y->name) != 0 || x->n_params != y->n_params) return true;
    for (int i = 0; i < x->n_params; i++)
        if (strcmp(x->params[i].name, y->params[i].name) != 0 || x->params[i].value != y->params[i].value) return true;
    return false;
}

/* -- What the passes ask -- */

/* Whether a choice has all that another one prescribes; what it has not got at all is no parameter of this group. */
static bool agrees(const tcc_implementation *choice, const tcc_implementation *prescribed) {
    if (strcmp(choice->name, prescribed->name) != 0) return false;
    for (int i = 0; i < prescribed->n_params; i++)
        for (int k = 0; k < choice->n_params; k++)
            if (!strcmp(choice->params[k].name, prescribed->params[i].name) &&
                choice->params[k].value != prescribed->params[i].value)
                return false;
    return true;
}

tcc_status tcc__tune_choose(void *user, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                            tcc_candidate *out) {
    tcc_model *m = user;
    const tcc_pass_target *target = tcc_selector_target(m->compiler->selector);
    uint64_t key;
    *out = (tcc_candidate){0};
    if (group->kind == TCC_GROUP_NORM) return TCC_OK; /* its signature does not say all of it */
    TCC_TRY(tcc__tune_key(g, group, &key, NULL));
    const tcc_tuned *entry = tcc__tune_find(m, key);
    if (!entry || entry->refused || (!entry->cut && !entry->choice)) return TCC_OK;
    if (entry->cut) {
        if (!group->implementation) *out = (tcc_candidate){.name = "cut", .cut = group->hero};
        return TCC_OK;
    }
    if (group->implementation && !agrees(entry->choice, group->implementation)) return TCC_OK;
    tcc_group chosen = *group;
    chosen.implementation = (tcc_implementation *)entry->choice;
    if (entry->from != TCC_TUNED_LOCKED && !target->can_follow(target->user, g, &chosen, false)) return TCC_OK;
    out->name = entry->choice->name;
    return target->follow(target->user, g, &chosen, arena, &out->implementation);
}

/* -- The file -- */

static tcc_status describe_target(tcc_model *m, tcc_strbuf *out) {
    tcc_cpus cpus;
    int threads = 0;
    tcc_selector_print_target(m->compiler->selector, out);
    if (*m->arch) return TCC_OK;
    tcc_cpus_get(&cpus);
    TCC_TRY(tcc_cpus_threads(&m->cx->diag, &cpus, &threads));
    tcc_strbuf_printf(out, " %d threads", threads);
    return TCC_OK;
}

void tcc__tune_print_choice(const tcc_tuned *entry, tcc_strbuf *b) {
    tcc_strbuf_add(b, entry->cut ? "  cut" : "  by ");
    if (!entry->cut) tcc_implementation_print_name(b, entry->choice ? entry->choice : entry->plain);
}

void tcc__tune_print_used(const tcc_tuned *entry, tcc_strbuf *b) {
    const tcc_tuned as_by_default = {.plain = entry->plain};
    tcc__tune_print_choice(entry->refused ? &as_by_default : entry, b);
}

static tcc_status print_lock(tcc_model *m, tcc_strbuf *b) {
    tcc_strbuf_add(b, "traincc-lock 1\ntarget ");
    TCC_TRY(describe_target(m, b));
    tcc_strbuf_add(b, "\n");
    for (int i = 0; i < m->compiler->tuning->entries.count; i++) {
        const tcc_tuned *entry = &m->compiler->tuning->entries.data[i];
        if (!entry->cut && !entry->choice && !entry->plain) continue;
        tcc_strbuf_printf(b, "group %016llx %s\n", (unsigned long long)entry->key, entry->what);
        tcc__tune_print_used(entry, b);
        tcc_strbuf_add(b, "\n");
    }
    return b->failed ? tcc_enomem(&m->cx->diag) : TCC_OK;
}

tcc_status tcc__tune_write_lock(tcc_model *m) {
    tcc_strbuf text = {0};
    tcc_status status = print_lock(m, &text);
    if (status == TCC_OK) status = tcc__file_save(&m->cx->diag, m->compiler->tuning->lock, text.text, text.length);
    tcc_strbuf_free(&text);
    return status;
}

typedef struct lock_reader {
    tcc_model *m;
    const char *at; /* of the text */
    int line;
} lock_reader;

static tcc_status refuse(const lock_reader *r, const char *expected) {
    return tcc_error(&r->m->cx->diag, TCC_EFORMAT, (tcc_loc){.file = r->m->compiler->tuning->locked, .line = r->line},
                     "expected %s", expected);
}

/* The next line without its end; false at the end of the text. */
static bool next_line(lock_reader *r, char *line, size_t room) {
    if (!*r->at) return false;
    const size_t length = strcspn(r->at, "\n");
    snprintf(line, room, "%.*s", length < room ? (int)length : (int)room - 1, r->at);
    r->at += length + (r->at[length] == '\n');
    r->line++;
    return true;
}

static tcc_status read_choice(lock_reader *r, const char *line, tcc_tuned *entry) {
    const tcc_loc at = {.file = r->m->compiler->tuning->locked, .line = r->line};
    tcc_implementation *choice;
    entry->cut = !strcmp(line, "  cut");
    if (entry->cut) return TCC_OK;
    TCC_TRY(tcc_implementation_parse(line, at, &r->m->compiler->tuning->arena, &r->m->cx->diag, &choice));
    entry->choice = choice;
    return TCC_OK;
}

bool tcc__tune_parse(tcc_model *m, const char *line, tcc_tuned *entry) {
    lock_reader r = {m, line, 0};
    if (read_choice(&r, line, entry) == TCC_OK) return true;
    tcc_diag_begin(&m->cx->diag);
    return false;
}

static tcc_status read_entry(lock_reader *r, char *line, size_t room) {
    unsigned long long key;
    int length = 0;
    tcc_arena *arena = &r->m->compiler->tuning->arena;
    if (sscanf(line, "group %16llx %n", &key, &length) != 1 || !length) return refuse(r, "group KEY WORDS");
    tcc_tuned entry = {.key = key, .what = tcc_arena_strdup(arena, line + length), .from = TCC_TUNED_LOCKED};
    if (!entry.what) return tcc_enomem(&r->m->cx->diag);
    if (!next_line(r, line, room)) return refuse(r, "what runs the group");
    TCC_TRY(read_choice(r, line, &entry));
    return tcc_vec_push(&r->m->compiler->tuning->entries, entry) ? TCC_OK : tcc_enomem(&r->m->cx->diag);
}

static tcc_status read_entries(lock_reader *r) {
    char line[4096];
    tcc_strbuf target = {0};
    if (!next_line(r, line, sizeof line) || strcmp(line, "traincc-lock 1") != 0) return refuse(r, "traincc-lock 1");
    tcc_status status = describe_target(r->m, &target);
    if (status == TCC_OK && target.failed) status = tcc_enomem(&r->m->cx->diag);
    const bool named = status == TCC_OK && next_line(r, line, sizeof line) && !strncmp(line, "target ", 7);
    if (status == TCC_OK && !named) status = refuse(r, "target NAME");
    if (status == TCC_OK && strcmp(line + 7, target.text) != 0)
        status = tcc_error(&r->m->cx->diag, TCC_EINVAL,
                           (tcc_loc){.file = r->m->compiler->tuning->locked, .line = r->line},
                           "these choices are for %s, and this is %s", line + 7, target.text);
    tcc_strbuf_free(&target);
    while (status == TCC_OK && next_line(r, line, sizeof line)) status = read_entry(r, line, sizeof line);
    return status;
}

tcc_status tcc__tune_read_lock(tcc_model *m) {
    enum { MOST_BYTES = 1 << 24 };
    FILE *f = fopen(m->compiler->tuning->locked, "r");
    char *text = f ? tcc__calloc(MOST_BYTES + 1, 1) : NULL;
    tcc_status status = TCC_OK;
    if (!f)
        status = tcc_error(&m->cx->diag, TCC_EIO, TCC_NOWHERE, "cannot read %s: %s", m->compiler->tuning->locked,
                           strerror(errno));
    else if (!text) status = tcc_enomem(&m->cx->diag);
    if (status == TCC_OK && fread(text, 1, MOST_BYTES, f) == MOST_BYTES)
        status = tcc_error(&m->cx->diag, TCC_EFORMAT, TCC_NOWHERE, "%s is too large", m->compiler->tuning->locked);
    if (f) fclose(f);
    lock_reader r = {m, text, 0};
    if (status == TCC_OK) status = read_entries(&r);
    tcc__free(text);
    return status;
}
