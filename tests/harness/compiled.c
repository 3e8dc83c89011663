/* SPDX-License-Identifier: MIT
 * Graphs compiled, run on the CPU and compared with the interpreter. */
#include "harness/compiled.h"
#include "harness/evaluate.h"
#include "codegen/emit/emitter.h"
#include "codegen/select.h"
#include "harness/check.h"
#include "harness/gradcheck.h"
#include "harness/graphs.h"

#include "ir/noise.h"
#include "harness/generator.h"
#include "ir/support/element.h"
#include "passes/pass.h"
#include "harness/plan_check.h"
#include "runtime/cpu/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const tcc_llvm_target *host_target(tcc_diag *diag) {
    static tcc_llvm_target target; /* lives as long as the test program */
    if (!target.cpu) assert_ok(tcc_llvm_target_host(NULL, diag, &target), diag);
    return &target;
}

/* Memory that ends where a page without access begins, so that touching what lies behind it is a fault. */
static size_t guarded_bytes(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (bytes + page - 1) / page * page + page;
}

/* What is large begins at a line, as a program may ask for: the page without access is up to a line away then. */
static size_t placed_bytes(size_t bytes) {
    enum { LARGE = 1 << 20 };
    return bytes < LARGE ? bytes : (bytes + TCC_HOST_ALIGNMENT - 1) / TCC_HOST_ALIGNMENT * TCC_HOST_ALIGNMENT;
}

static void *guarded_alloc(size_t bytes) {
    bytes = placed_bytes(bytes);
    size_t all = guarded_bytes(bytes), page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(start != MAP_FAILED);
    assert_int_equal(mprotect(start + all - page, page, PROT_NONE), 0);
    size_t slack = all - page - bytes;
    memset(start, 0x5a, slack); /* looked at in the end */
    return start + slack;
}

static void guarded_free(void *memory, size_t bytes) {
    bytes = placed_bytes(bytes);
    size_t all = guarded_bytes(bytes), page = (size_t)sysconf(_SC_PAGESIZE), slack = all - page - bytes;
    const char *start = (char *)memory - slack;
    for (size_t i = 0; i < slack; i++)
        if (start[i] != 0x5a) fail_msg("written %zu bytes before the start of a binding", slack - i);
    munmap((void *)start, all);
}

/* All that a program is made of stands in the text. */
static void check_round_trip(const tcc_graph *g, tcc_diag *diag) {
    tcc_strbuf first = {0}, second = {0};
    tcc_graph *parsed;
    tcc_graph_print(&first, g, (tcc_print_options){0});
    assert_ok(tcc_graph_parse(first.text, first.length, "printed", diag, &parsed), diag);
    tcc_graph_print(&second, parsed, (tcc_print_options){0});
    if (strcmp(first.text, second.text) || !tcc_graph_equal(g, parsed))
        fail_msg("the graph reads back as another one:\n%s\n%s", first.text, second.text);
    tcc_graph_destroy(parsed);
    tcc_strbuf_free(&first);
    tcc_strbuf_free(&second);
}

static bool any_sum(void *user, const tcc_graph *g, tcc_node *hero, tcc_node *sum) {
    (void)user, (void)g, (void)hero, (void)sum;
    return true;
}

/* A target whose offers of names that begin so are taken. */
typedef struct preferring {
    tcc_pass_target target;
    const char *name;
} preferring;

static tcc_status prefer(void *user, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                         tcc_candidates *out) {
    const preferring *p = user;
    tcc_status status = p->target.candidates(p->target.user, g, group, arena, out);
    for (int i = 0; i < out->count; i++)
        if (!strncmp(out->data[i].name, p->name, strlen(p->name))) out->data[i].ns = -1;
    return status;
}

static tcc_status forward_follow(void *user, const tcc_graph *g, const tcc_group *group, tcc_arena *arena,
                                 const tcc_implementation **out) {
    const preferring *p = user;
    return p->target.follow(p->target.user, g, group, arena, out);
}

static bool forward_operand(void *user, const tcc_graph *g, tcc_node *hero, int k, tcc_operand_work *out) {
    const preferring *p = user;
    return p->target.computes_operand(p->target.user, g, hero, k, out);
}

static int64_t forward_row(void *user, tcc_dtype dtype) {
    const preferring *p = user;
    return p->target.row_elements(p->target.user, dtype);
}

static bool forward_norm(void *user, const tcc_graph *g, const tcc_node *n) {
    const preferring *p = user;
    return p->target.takes_norm(p->target.user, g, n);
}

/* Where a choice has the parameter of that name; NULL: there is none behind `from`. */
static char *find_param(char *from, const char *name, size_t length) {
    for (char *at = from; (at = strstr(at, name)); at++)
        if ((at[-1] == '{' || at[-1] == ' ') && at[length] == '=') return at;
    return NULL;
}

char *edit_choices(const char *text, const char *edits) {
    char *result = strdup(text);
    for (const char *edit = edits; edit; edit = strchr(edit, ',') ? strchr(edit, ',') + 1 : NULL) {
        const bool removes = *edit == '-';
        char name[32];
        const size_t length = strcspn(edit + removes, "=,"), all = strcspn(edit, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, edit + removes);
        char *at = find_param(result, name, length);
        if (!at) fail_msg("no parameter %s in:\n%s", name, text);
        while (at) {
            size_t before = (size_t)(at - result);
            const char *rest = at + strcspn(at, ",}");
            if (removes && !strncmp(rest, ", ", 2)) rest += 2;
            else if (removes && !strncmp(at - 2, ", ", 2)) before -= 2;
            char *changed;
            assert_true(asprintf(&changed, "%.*s%.*s%s", (int)before, result, removes ? 0 : (int)all, edit, rest) > 0);
            free(result);
            result = changed;
            at = find_param(result + before + (removes ? 0 : all), name, length);
        }
    }
    return result;
}

/* The choices with edits, whose launches select makes anew; without them it finds the same ones again. */
static tcc_graph *follow_choices(tcc_pass_cx *pass, tcc_graph *graph, const char *edits) {
    tcc_manager_options manager = {.verify = true};
    tcc_strbuf text = {0};
    tcc_graph *again;
    tcc_graph_print(&text, graph, (tcc_print_options){.locs = true});
    char *edited = edits ? edit_choices(text.text, edits) : text.text;
    assert_ok(tcc_graph_parse(edited, strlen(edited), "chosen", pass->diag, &again), pass->diag);
    assert_ok(tcc_pipeline_run_named(pass, &manager, "select", &again, NULL), pass->diag);
    if (!edits && !tcc_graph_equal(graph, again)) fail_msg("choices are followed otherwise than they were made");
    if (edits) free(edited);
    tcc_strbuf_free(&text);
    tcc_graph_destroy(graph);
    return again;
}

/* Variation `options->variation` of all of all groups, and of each once more where that varies it. */
static void vary_choices(tcc_selector *selector, tcc_graph *graph, const compiled_options *options) {
    int before = 0;
    for (int i = 0; i < graph->groups.count; i++) {
        tcc_group *group = &graph->groups.data[i];
        const tcc_implementation decided = {.name = group->implementation->name};
        tcc_group varied = *group;
        tcc_variations all = {0};
        varied.implementation = (tcc_implementation *)&decided;
        assert_ok(tcc_selector_vary(selector, graph, &varied, true, &graph->arena, &all), graph->diag);
        const int at = options->variation - 1 - before;
        if (at >= 0 && at < all.count) {
            group->implementation = (tcc_implementation *)all.data[at].given;
            if (getenv("TCC_TEST_VERBOSE")) {
                tcc_strbuf text = {0};
                tcc_implementation_print_name(&text, all.data[at].whole);
                fprintf(stderr, "%d: %s\n", options->variation, text.text);
                tcc_strbuf_free(&text);
            }
        }
        before += all.count;
        tcc_vec_free(&all);
    }
    if (options->variations) *options->variations = before;
}

void compiled_build(const tcc_graph *g, const compiled_options *options, const tcc_llvm_target *target, tcc_context *cx,
                    tcc_graph **out, tcc_program **program) {
    tcc_diag *diag = &cx->diag;
    tcc_codegen_options codegen = {.target = target,
                                   .threads = 1,
                                   .dump_dir = options->dump_dir,
                                   .tf32 = options->tf32,
                                   .takes_call = options->takes_call,
                                   .takes_call_user = options->takes_call_user,
                                   .separate = options->eager,
                                   .verify = true};
    tcc_selector *selector;
    assert_ok(tcc_selector_create(cx, &codegen, options->norms == ALL_LIBRARY_NORMS, &selector), diag);
    tcc_pass_target asked = *tcc_selector_target(selector);
    asked.sums_operands = options->operand_sums ? any_sum : NULL;
    if (!options->norms) asked.takes_norm = NULL;
    preferring preferred = {asked, options->prefer};
    if (options->prefer) {
        asked = (tcc_pass_target){.user = &preferred,
                                  .costs = asked.costs,
                                  .candidates = prefer,
                                  .follow = forward_follow,
                                  .row_elements = asked.row_elements ? forward_row : NULL,
                                  .takes_norm = asked.takes_norm ? forward_norm : NULL,
                                  .computes_operand = asked.computes_operand ? forward_operand : NULL,
                                  .sums_operands = asked.sums_operands};
    }
    tcc_pass_options pass_options = {.eager = options->eager, .align_all = options->align_all, .target = &asked};
    tcc_pass_cx pass = {.cx = cx, .diag = diag, .options = &pass_options};
    tcc_graph *graph = NULL;
    assert_ok(tcc_pass_decompose(&pass, g, &graph), diag);
    const char *passes = options->eager      ? "fuse,select"
                         : options->norms    ? "norms,simplify,fuse,select"
                         : options->simplify ? "simplify,fuse,select"
                                             : "fuse,select";
    tcc_manager_options manager = {.verify = true};
    assert_ok(tcc_pipeline_run_named(&pass, &manager, passes, &graph, NULL), diag);
    graph = follow_choices(&pass, graph, options->edits);
    if (options->variation) {
        vary_choices(selector, graph, options);
        assert_ok(tcc_pipeline_run_named(&pass, &manager, "select", &graph, NULL), diag);
    }
    passes = options->eager ? "plan-memory" : "order,plan-memory";
    assert_ok(tcc_pipeline_run_named(&pass, &manager, passes, &graph, NULL), diag);
    *out = graph;
    check_round_trip(graph, diag);
    assert_ok(check_plan(graph, diag), diag);
    assert_ok(tcc_codegen_build(cx, diag, graph, &codegen, program), diag);
    assert_int_equal((*program)->arena_bytes, graph->arena_bytes); /* what was planned is all there is */
    tcc_selector_destroy(selector);
    if (getenv("TCC_TEST_VERBOSE")) {
        tcc_strbuf text = {0};
        tcc_graph_print(&text, graph, (tcc_print_options){0});
        tcc_program_print_steps(&text, *program);
        fprintf(stderr, "%s", text.text);
        tcc_strbuf_free(&text);
    }
}

compiled *compiled_create(const tcc_graph *g, const compiled_options *options) {
    compiled *c = calloc(1, sizeof *c);
    assert_ok(tcc_context_init(&c->cx), &c->cx.diag);
    compiled_build(g, options, host_target(&c->cx.diag), &c->cx, &c->graph, &c->program);
    c->memory = calloc((size_t)c->program->n_bindings + 1, sizeof *c->memory);
    for (int i = 0; i < c->program->n_bindings; i++) {
        size_t bytes = (size_t)tcc_type_bytes(&c->program->bindings[i].type);
        c->memory[i] = guarded_alloc(bytes);
    }
    compiled_use_threads(c, 1);
    return c;
}

/* As the interpreter: the other ranks bring nothing. */
static tcc_status run_alone(void *user, tcc_diag *d, tcc_call call, const tcc_collective_params *p, const void *from,
                            void *to, int64_t *request) {
    (void)user, (void)d, (void)request;
    const size_t part = (size_t)(p->count * tcc_dtype_bytes((tcc_dtype)p->type));
    if (call == TCC_CALL_ALL_GATHER) memset(to, 0, (size_t)p->ranks * part);
    memmove(to, from, part);
    return TCC_OK;
}

static tcc_status wait_for_none(void *user, tcc_diag *d, int64_t request) {
    (void)user, (void)d, (void)request;
    return TCC_OK;
}

void compiled_use_threads(compiled *c, int threads) {
    tcc_diag *diag = &c->cx.diag;
    tcc_exec_destroy(c->exec);
    if (c->device) tcc_device_destroy(c->device);
    c->exec = NULL;
    c->device = NULL;
    assert_ok(tcc_device_cpu_create(&c->cx, threads, &c->device), diag);
    static const tcc_collectives alone = {.start = run_alone, .wait = wait_for_none};
    assert_ok(tcc_exec_create(&c->cx, c->device, c->program, &c->exec), diag);
    tcc_exec_set_collectives(c->exec, &alone);
    for (int i = 0; i < c->program->n_bindings; i++)
        assert_ok(tcc_exec_bind(c->exec, diag, i, c->memory[i], tcc_type_bytes(&c->program->bindings[i].type)), diag);
}

void compiled_destroy(compiled *c) {
    for (int i = 0; i < c->program->n_bindings; i++)
        guarded_free(c->memory[i], (size_t)tcc_type_bytes(&c->program->bindings[i].type));
    free(c->memory);
    tcc_exec_destroy(c->exec);
    if (c->device) tcc_device_destroy(c->device);
    tcc_program_destroy(c->program);
    tcc_graph_destroy(c->graph);
    tcc_context_clear(&c->cx);
    free(c);
}

void compiled_run(compiled *c) { assert_ok(tcc_exec_run(c->exec, &c->cx.diag), &c->cx.diag); }

compiled *compiled_run_filled(const tcc_graph *g, const compiled_options *options,
                              void (*fill)(tcc_value *v, uint64_t seed)) {
    tcc_diag diag = {0};
    compiled *c = compiled_create(g, options);
    for (int i = 0; i < g->inputs.count; i++) {
        tcc_value in;
        assert_ok(tcc_value_create(&g->inputs.data[i]->type, &in, &diag), &diag);
        fill(&in, (uint64_t)i + 1);
        value_store(&in, c->memory[i]);
        tcc_value_free(&in);
    }
    compiled_run(c);
    return c;
}

int compiled_output_binding(const tcc_graph *graph, int output) {
    const tcc_output *o = &graph->outputs.data[output];
    if (o->alias >= 0) return o->alias;
    int binding = graph->inputs.count;
    for (int i = 0; i < output; i++) binding += graph->outputs.data[i].alias < 0;
    return binding;
}

const void *compiled_output(const compiled *c, int output) {
    return c->memory[compiled_output_binding(c->graph, output)];
}

tcc_value *random_inputs(const tcc_graph *g, const compiled_options *options) {
    tcc_value *values = calloc((size_t)g->inputs.count + 1, sizeof *values);
    uint64_t state = options->seed + 1;
    for (int i = 0; i < g->inputs.count; i++) {
        const tcc_type *type = &g->inputs.data[i]->type;
        assert_int_equal(tcc_value_create(type, &values[i], NULL), TCC_OK);
        int64_t count = tcc_type_numel(type);
        if (options->inputs) {
            void *packed = malloc((size_t)tcc_type_bytes(type) + 1);
            value_store(&options->inputs[i], packed);
            tcc_value_load(&values[i], packed);
            free(packed);
            continue;
        }
        if (options->generated) {
            void *packed = malloc((size_t)tcc_type_bytes(type));
            tcc_random_input(g, i, options->seed, packed);
            tcc_value_load(&values[i], packed);
            free(packed);
            continue;
        }
        bool narrow = type->dtype == TCC_U8 || type->dtype == TCC_BOOL;
        double low = options->low, high = options->high;
        if (low == 0 && high == 0) low = -1, high = 1;
        for (int64_t e = 0; e < count; e++) {
            if (tcc_dtype_is_float(type->dtype)) {
                values[i].f[e] = test_random(&state, low, high);
                if (values[i].f[e] == 0) values[i].f[e] = 0.5;
            } else if (type->dtype == TCC_BOOL) {
                values[i].i[e] = test_random(&state, 0, 2) >= 1;
            } else {
                values[i].i[e] = (int64_t)floor(
                    test_random(&state, narrow ? 0 : -1, (double)(options->limit ? options->limit : 8) + 1));
            }
        }
        /* what memory can hold */
        void *packed = malloc((size_t)tcc_type_bytes(type));
        value_store(&values[i], packed);
        tcc_value_load(&values[i], packed);
        free(packed);
    }
    return values;
}

void free_values(tcc_value *values, int count) {
    for (int i = 0; i < count; i++) tcc_value_free(&values[i]);
    free(values);
}

static void upload(compiled *c, const tcc_value *inputs) {
    for (int i = 0; i < c->graph->inputs.count; i++) value_store(&inputs[i], c->memory[i]);
}

tcc_value *expected_outputs(const tcc_graph *g, const tcc_value *inputs, const compiled_options *options) {
    tcc_diag diag = {0};
    tcc_value *values = calloc((size_t)g->outputs.count + 1, sizeof *values);
    assert_ok(options->exact ? tcc_graph_eval_rounded(g, inputs, values, &diag)
                             : tcc_graph_eval(g, inputs, values, &diag),
              &diag);
    tcc_diag_clear(&diag);
    return values;
}

/* Equal bits, where one NaN is as good as another. */
static bool same_float(double a, double b) { return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b); }

void compiled_compare(const tcc_output *o, const void *memory, const tcc_value *expected,
                      const compiled_options *options) {
    double tolerance = options->tolerance ? options->tolerance : 2e-5;
    tcc_value got;
    assert_int_equal(tcc_value_create(&o->node->type, &got, NULL), TCC_OK);
    tcc_value_load(&got, memory);
    double unit = o->node->type.dtype == TCC_F16 ? 2e-3 : o->node->type.dtype == TCC_BF16 ? 1.6e-2 : tolerance;
    int64_t count = tcc_type_numel(&o->node->type);
    for (int64_t e = 0; e < count; e++) {
        if (tcc_dtype_is_float(o->node->type.dtype)) {
            double want = expected->f[e], have = got.f[e];
            if (o->node->type.dtype != TCC_F64) want = (double)(float)want;
            bool equal = same_float(want, have) ||
                         (!options->exact && (want == have || fabs(want - have) <= unit * (1 + fabs(want))));
            if (!equal)
                fail_msg("output %s[%lld]: %.9g instead of %.9g (%s)", o->name, (long long)e, have, want,
                         tcc_node_text(o->node));
        } else if (got.i[e] != expected->i[e]) {
            fail_msg("output %s[%lld]: %lld instead of %lld (%s)", o->name, (long long)e, (long long)got.i[e],
                     (long long)expected->i[e], tcc_node_text(o->node));
        }
    }
    tcc_value_free(&got);
}

void run_compiled(const tcc_graph *g, const tcc_value *inputs, const compiled_options *options, void **outputs) {
    compiled *c = compiled_create(g, options);
    upload(c, inputs);
    compiled_run(c);
    for (int i = 0; i < g->outputs.count; i++) {
        const size_t bytes = (size_t)tcc_type_bytes(&g->outputs.data[i].node->type);
        outputs[i] = malloc(bytes);
        memcpy(outputs[i], compiled_output(c, i), bytes);
    }
    compiled_destroy(c);
}

void compiled_check(compiled *c, const tcc_graph *g, const compiled_options *options) {
    tcc_value *inputs = random_inputs(g, options), *expected = expected_outputs(g, inputs, options);
    void **first = calloc((size_t)g->outputs.count + 1, sizeof *first);
    for (int round = 0; round < 2; round++) {
        if (round == 1) compiled_use_threads(c, 2);
        upload(c, inputs);
        assert_ok(tcc_exec_poison(c->exec, &c->cx.diag), &c->cx.diag);
        compiled_run(c);
        for (int i = 0; i < g->outputs.count; i++) {
            size_t bytes = (size_t)tcc_type_bytes(&g->outputs.data[i].node->type);
            if (round == 0) {
                compiled_compare(&c->graph->outputs.data[i], compiled_output(c, i), &expected[i], options);
                first[i] = malloc(bytes);
                memcpy(first[i], compiled_output(c, i), bytes);
            } else if (memcmp(first[i], compiled_output(c, i), bytes)) {
                fail_msg("output %s: two runs differ", g->outputs.data[i].name);
            }
        }
    }
    for (int i = 0; i < g->outputs.count; i++) free(first[i]);
    free(first);
    free_values(inputs, g->inputs.count);
    free_values(expected, g->outputs.count);
}

void check_compiled(const tcc_graph *g, const compiled_options *options) {
    compiled *c = compiled_create(g, options);
    compiled_check(c, g, options);
    compiled_destroy(c);
}

void check_threads(const tcc_graph *g, const compiled_options *options, int most) {
    enum { OUTPUTS = 8 };
    void *first[OUTPUTS];
    tcc_value *inputs = random_inputs(g, options);
    compiled *c = compiled_create(g, options);
    assert_in_range(g->outputs.count, 1, OUTPUTS);
    for (int threads = 1; threads <= most; threads++) {
        compiled_use_threads(c, threads);
        for (int i = 0; i < c->graph->inputs.count; i++) value_store(&inputs[i], c->memory[i]);
        assert_ok(tcc_exec_poison(c->exec, &c->cx.diag), &c->cx.diag);
        compiled_run(c);
        for (int i = 0; i < g->outputs.count; i++) {
            size_t bytes = (size_t)tcc_type_bytes(&g->outputs.data[i].node->type);
            if (threads == 1) first[i] = memcpy(malloc(bytes), compiled_output(c, i), bytes);
            else if (memcmp(first[i], compiled_output(c, i), bytes))
                fail_msg("output %s: other bits on %d threads", g->outputs.data[i].name, threads);
        }
    }
    for (int i = 0; i < g->outputs.count; i++) free(first[i]);
    compiled_destroy(c);
    free_values(inputs, g->inputs.count);
}

/* The largest error of an output over its noise: of the element or usual there, whichever is larger. */
static double over_noise(const tcc_noisy *expected, const void *memory) {
    const int64_t count = tcc_type_numel(&expected->value.type);
    double usual = 0, worst = 0;
    for (int64_t e = 0; e < count; e++) usual += expected->noise[e] * expected->noise[e] / (double)count;
    for (int64_t e = 0; e < count; e++) {
        const double error = fabs(tcc_element_get(expected->value.type.dtype, memory, e) - expected->value.f[e]);
        worst = fmax(worst, error / fmax(expected->noise[e], sqrt(usual)));
    }
    return worst;
}

void check_within_noise(const tcc_graph *g, const compiled_options *options, double factor) {
    tcc_diag diag = {0};
    const tcc_noise noise = {.seed = 1, .draws = 4, .factor = factor};
    tcc_value *inputs = random_inputs(g, options);
    tcc_noisy *expected = calloc((size_t)g->outputs.count, sizeof *expected);
    assert_ok(tcc_graph_eval_noisy(g, inputs, &noise, expected, &diag), &diag);
    compiled *c = compiled_create(g, options);
    upload(c, inputs);
    assert_ok(tcc_exec_poison(c->exec, &c->cx.diag), &c->cx.diag);
    compiled_run(c);
    for (int i = 0; i < g->outputs.count; i++) {
        const double ratio = over_noise(&expected[i], compiled_output(c, i));
        if (!(ratio <= 1)) fail_msg("%s errs by %g of its noise", g->outputs.data[i].name, ratio);
        tcc_noisy_free(&expected[i]);
    }
    free(expected);
    compiled_destroy(c);
    free_values(inputs, g->inputs.count);
}

void check_text(const char *text, const compiled_options *options) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    check_compiled(g, options);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

int count_in_code(tcc_graph *g, const char *cpu, const char *text) {
    tcc_llvm_target target;
    tcc_context cx = {0};
    tcc_program *program;
    tcc_graph *graph;
    char line[4096];
    int count = 0;
    assert_int_equal(tcc_llvm_target_host(cpu, g->diag, &target), TCC_OK);
    compiled_build(g, &(compiled_options){.dump_dir = "."}, &target, &cx, &graph, &program);
    FILE *f = fopen("./rows.module00.ll", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) count += strstr(line, text) != NULL;
    fclose(f);
    tcc_program_destroy(program);
    tcc_graph_destroy(graph);
    tcc_llvm_target_clear(&target);
    return count;
}
