/* SPDX-License-Identifier: MIT
 * Modules of PTX: directives at the top level, and calls between functions. */
#include "read.h"

#include <stdlib.h>

/* --- module */

static void parse_target(parser *p) {
    char w[64];
    do {
        lex_word(p, w, sizeof w, false);
        if (strncmp(w, "sm_", 3) == 0) {
            p->module->target = atoi(w + 3);
            size_t n = strlen(w);
            p->module->target_specific = n > 0 && w[n - 1] == 'a';
        } else if (strcmp(w, "texmode_independent") != 0 && strcmp(w, "debug") != 0 &&
                   strcmp(w, "map_f64_to_f32") != 0) {
            parse_fail(p, "target '%s' is not known", w);
        }
    } while (lex_accept(p, ','));
    if (p->module->target > p->device_sm || (p->module->target_specific && p->module->target != p->device_sm))
        parse_fail(p, "code for sm_%d%s cannot run on this device, which is sm_%d", p->module->target,
                   p->module->target_specific ? "a" : "", p->device_sm);
}

static void parse_module(parser *p) {
    char w[256];
    bool external = false;
    while (lex_peek(p)) {
        operand o;
        lex_word(p, w, sizeof w, false);
        if (strcmp(w, ".version") == 0) {
            lex_skip_space(p);
            char *end;
            long major = strtol(p->at, &end, 10), minor = *end == '.' ? strtol(end + 1, &end, 10) : 0;
            p->at = end;
            p->module->version = (int)(major * 10 + minor);
        } else if (strcmp(w, ".target") == 0) parse_target(p);
        else if (strcmp(w, ".address_size") == 0) {
            if (!lex_number(p, &o) || o.bits != 64) parse_fail(p, "only 64-bit addresses are known here");
        } else if (!p->module->version || !p->module->target)
            parse_fail(p, ".version and .target expected before '%s'", w[0] ? w : p->at);
        else if (strcmp(w, ".visible") == 0 || strcmp(w, ".weak") == 0 || strcmp(w, ".common") == 0) continue;
        else if (strcmp(w, ".extern") == 0) {
            external = true;
            continue;
        } else if (strcmp(w, ".entry") == 0) parse_function(p, true);
        else if (strcmp(w, ".func") == 0) parse_function(p, false);
        else if (strcmp(w, ".global") == 0) parse_variable(p, SP_GLOBAL, external);
        else if (strcmp(w, ".const") == 0) parse_variable(p, SP_CONST, external);
        else if (strcmp(w, ".shared") == 0) parse_variable(p, SP_SHARED, external);
        else if (strcmp(w, ".file") == 0 || strcmp(w, ".loc") == 0) lex_skip_line(p);
        else if (strcmp(w, ".pragma") == 0) lex_skip_statement(p);
        else if (strcmp(w, ".section") == 0) { /* debug information */
            while (p->at < p->end && *p->at != '{') p->line += *p->at++ == '\n';
            for (int depth = 0; p->at < p->end;) {
                depth += *p->at == '{', depth -= *p->at == '}', p->line += *p->at == '\n';
                p->at++;
                if (depth == 0) break;
            }
        } else parse_fail(p, "'%s' is not known here", w[0] ? w : p->at);
        external = false;
    }
    if (!p->module->version) parse_fail(p, "this is no PTX");
}

/* Dynamic shared memory starts after the static variables, which are all known only now; decode left a mark. */
static void resolve_calls(parser *p) {
    for (sim_func *f = p->module->funcs; f; f = f->next)
        for (int k = 0; k < f->n_calls; k++) {
            if (!f->calls[k].func->defined) {
                for (sim_func *g = p->module->funcs; g; g = g->next)
                    if (g->defined && strcmp(g->name, f->calls[k].func->name) == 0) f->calls[k].func = g;
                if (!f->calls[k].func->defined) parse_fail(p, "function '%s' is not defined", f->calls[k].func->name);
            }
            if (f->calls[k].func->dynamic_shared) f->dynamic_shared = true;
            for (int a = 0; a < f->calls[k].n_args; a++)
                if (a < f->calls[k].func->n_params && f->calls[k].arg_bytes[a] != f->calls[k].func->params[a]->size)
                    parse_fail(p, "argument %d of a call of '%s' has another size", a, f->calls[k].func->name);
        }
}

sim_module *sim_module_parse(const char *text, int device_sm, char *error, size_t error_size) {
    parser *p = calloc(1, sizeof *p);
    sim_module *volatile m = calloc(1, sizeof *m);
    if (error_size) error[0] = 0;
    if (p && m) {
        p->at = text, p->end = text + strlen(text), p->line = 1;
        p->error = error, p->error_size = error_size;
        p->module = m, p->device_sm = device_sm;
        m->has_device_functions = strstr(text, ".func") != NULL;
        if (setjmp(p->fail) == 0) {
            parse_module(p);
            resolve_calls(p);
        } else {
            sim_module_free(m);
            m = NULL;
        }
        p->scope = 0;
        symbol_leave_scope(p);
        while (p->fixups) {
            fixup *x = p->fixups;
            p->fixups = x->next;
            free(x->label), free(x);
        }
    } else {
        free(m);
        m = NULL;
    }
    free(p);
    return m;
}

void sim_module_free(sim_module *m) {
    if (!m) return;
    while (m->vars) {
        sim_var *v = m->vars;
        m->vars = v->next;
        free(v->name), free(v->init), free(v->references), free(v);
    }
    while (m->funcs) {
        sim_func *f = m->funcs;
        m->funcs = f->next;
        for (int k = 0; k < f->n_target_lists; k++) free(f->targets[k]);
        free(f->targets), free(f->n_targets), free(f->name), free(f->params), free(f->returns), free(f->code),
            free(f->constants), free(f->calls), free(f->inputs), free(f);
    }
    free(m);
}
