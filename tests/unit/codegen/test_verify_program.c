/* SPDX-License-Identifier: MIT
 * The verifier of finished programs: it takes what was built, and finds each kind of fault that is planted. */
#include "codegen/build.h"
#include "codegen/emit/emitter.h"
#include "codegen/select.h"
#include "codegen/verify/verify.h"
#include "harness/check.h"
#include "harness/graphs.h"
#include "harness/passes.h"

#include "ir/support/alloc.h"

/* A program and what was written down about it. */
typedef struct built {
    tcc_context cx;
    tcc_codegen_options options;
    tcc_selector *selector;
    tcc_graph *graph;
    tcc_program *program;
    tcc_program_facts facts;
} built;

/* The graph with groups and places; `eager`: op by op, each a step of its own. */
static void plan(built *b, const tcc_graph *g, bool eager) {
    static tcc_llvm_target target; /* lives as long as the test program */
    *b = (built){.options = {.target = &target, .threads = 1, .separate = eager}};
    assert_ok(tcc_context_init(&b->cx), &b->cx.diag);
    if (!target.cpu) assert_ok(tcc_llvm_target_host(NULL, &b->cx.diag, &target), &b->cx.diag);
    assert_ok(tcc_selector_create(&b->cx, &b->options, false, &b->selector), &b->cx.diag);
    const tcc_pass_options options = {.eager = eager, .target = tcc_selector_target(b->selector)};
    b->graph = run_passes(g, eager ? "fuse,select,plan-memory" : "fuse,select,order,plan-memory", &options);
}

static void plan_text(built *b, const char *text, bool eager) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    plan(b, g, eager);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static tcc_status build(built *b, bool verify) {
    b->options.facts = &b->facts;
    b->options.verify = verify;
    return tcc_codegen_build(&b->cx, &b->cx.diag, b->graph, &b->options, &b->program);
}

static void end(built *b) {
    tcc_program_facts_clear(&b->facts);
    tcc_program_destroy(b->program);
    tcc_graph_destroy(b->graph);
    tcc_selector_destroy(b->selector);
    tcc_context_clear(&b->cx);
}

static void open_built(built *b, const char *text, bool eager) {
    plan_text(b, text, eager);
    assert_ok(build(b, false), &b->cx.diag);
    assert_ok(tcc_program_verify(b->program, &b->facts, &b->cx.diag), &b->cx.diag);
}

/* The fault is found, with these words; the program is not used further. */
static void close_found(built *b, const char *words) {
    assert_error(tcc_program_verify(b->program, &b->facts, &b->cx.diag), TCC_EBUG, &b->cx.diag, words);
    end(b);
}

static tcc_buffer *buffer_of(const built *b, int step, int instance, int k) {
    return (tcc_buffer *)&b->program->steps[step].instances[instance].buffers[k];
}

/* Which buffer of a launch is written, or read for the n-th time. */
static int used(const built *b, const tcc_buffer *buffers, bool written, int n) {
    for (int i = 0; i < b->facts.launches.count; i++) {
        const tcc_fact_launch *l = &b->facts.launches.data[i];
        for (int k = 0; l->buffers == buffers && k < l->n_uses; k++)
            if ((written ? l->uses[k].n_writes : l->uses[k].n_reads) && n-- == 0) return k;
    }
    fail_msg("no such buffer");
    return -1;
}

static tcc_buffer *written_by(const built *b, int step, int instance) {
    return buffer_of(b, step, instance, used(b, b->program->steps[step].instances[instance].buffers, true, 0));
}

static tcc_buffer *read_by(const built *b, int step, int instance, int n) {
    return buffer_of(b, step, instance, used(b, b->program->steps[step].instances[instance].buffers, false, n));
}

/* Three groups in a row: two that are read by the third. */
static const char chain[] = "graph @chain {\n"
                            "  %0 = input {name=\"x\"} : f32[64,48]\n"
                            "  %1 = reduce_sum(%0) {axes=[1]} : f32[64]\n"
                            "  %2 = reduce_max(%0) {axes=[1]} : f32[64]\n"
                            "  %3 = div(%1, %2) : f32[64]\n"
                            "  output \"o\" %3\n"
                            "}\n";
/* --- Values */

static void swapped_offsets(void **state) {
    (void)state;
    built b;
    open_built(&b, chain, true);
    assert_int_equal(b.program->n_steps, 3);
    tcc_buffer *sum = read_by(&b, 2, 0, 0), *max = read_by(&b, 2, 0, 1), kept = *sum;
    *sum = *max;
    *max = kept;
    close_found(&b, "step 2 (div, ) reads arena + ");
}

static void says_what_lies_there(void **state) {
    (void)state;
    built b;
    open_built(&b, chain, true);
    *read_by(&b, 2, 0, 0) = *read_by(&b, 2, 0, 1);
    close_found(&b, "%1 = reduce_sum(%0) {axes=[1]} : f32[64] is meant\n"
                    "note: byte 0 of %2 = reduce_max(%0) {axes=[1]} : f32[64] lies there");
}

static void elsewhere_in_the_value(void **state) {
    (void)state;
    built b;
    open_built(&b, chain, true);
    written_by(&b, 1, 0)->offset_bytes += 4;
    b.program->arena_bytes += 64;
    close_found(&b, "is meant");
}

static void dropped_step(void **state) {
    (void)state;
    built b;
    open_built(&b, chain, true);
    tcc_step *steps = b.program->steps;
    steps[1] = steps[2];
    b.program->n_steps--;
    close_found(&b, "nothing was written there");
}

static void dropped_last_step(void **state) {
    (void)state;
    built b;
    open_built(&b, chain, true);
    b.program->n_steps--;
    close_found(&b, "a launch of div () is in no step");
}

static void repeated_step(void **state) {
    (void)state;
    built b;
    open_built(&b, chain, true);
    b.program->steps[2] = b.program->steps[1];
    close_found(&b, "runs for the second time");
}

static void swapped_steps(void **state) {
    (void)state;
    built b;
    open_built(&b, chain, true);
    tcc_step *steps = b.program->steps, kept = steps[1];
    steps[1] = steps[2];
    steps[2] = kept;
    close_found(&b, "step 1 (div, ) reads arena + ");
}

/* A mask may leave out any byte: what is under it must have been written before. */
static void a_guarded_store_fills_nothing(void **state) {
    (void)state;
    built b;
    open_built(&b, chain, true);
    const tcc_buffer *buffers = b.program->steps[0].instances[0].buffers;
    const int written = used(&b, buffers, true, 0);
    for (int i = 0; i < b.facts.launches.count; i++)
        if (b.facts.launches.data[i].buffers == buffers)
            ((tcc_region *)b.facts.launches.data[i].uses[written].writes)->exact = false;
    close_found(&b, "may leave bytes of %1 = reduce_sum(%0) {axes=[1]} : f32[64] unwritten");
}

/* The second value is written where the first one still is. */
static void written_over_before_the_last_read(void **state) {
    (void)state;
    built b;
    plan_text(&b, chain, true);
    assert_int_equal(b.graph->places.count, 2);
    b.graph->places.data[1].offset_bytes = b.graph->places.data[0].offset_bytes;
    assert_error(build(&b, true), TCC_EBUG, &b.cx.diag, "%1 = reduce_sum(%0) {axes=[1]} : f32[64] is meant");
    end(&b);
}

/* A state that is written in place, while another step reads the old value. */
static void in_place_before_the_last_read(void **state) {
    (void)state;
    built b;
    open_built(&b,
               "graph @state {\n"
               "  %0 = input {role=state, name=\"s\"} : f32[64]\n"
               "  %1 = exp(%0) : f32[64]\n"
               "  %2 = neg(%0) : f32[64]\n"
               "  output \"o\" %1\n"
               "  output \"s\" %2 alias %0\n"
               "}\n",
               true);
    assert_int_equal(b.program->n_steps, 2);
    assert_int_equal(written_by(&b, 1, 0)->binding, 0);
    tcc_step *steps = b.program->steps, kept = steps[0];
    steps[0] = steps[1];
    steps[1] = kept;
    close_found(&b, "step 1 (exp, ) reads s + 0 through buffer");
}

static void stale_sums(void **state) {
    (void)state;
    built b;
    open_built(&b,
               "graph @scatter {\n"
               "  %0 = input {name=\"x\"} : f32[40,8]\n"
               "  %1 = input {name=\"i\"} : i32[5]\n"
               "  %2 = input {name=\"u\"} : f32[5,8]\n"
               "  %3 = scatter_add(%0, %1, %2) : f32[40,8]\n"
               "  %4 = exp(%3) : f32[40,8]\n"
               "  output \"o\" %4\n"
               "}\n",
               true);
    assert_int_equal(b.program->n_steps, 3); /* the base, the updates, what reads them */
    tcc_step *steps = b.program->steps, kept = steps[1];
    steps[1] = steps[2];
    steps[2] = kept;
    close_found(&b, "it is not as it was meant");
}

/* --- Temporaries */

static const char columns[] = "graph @columns {\n"
                              "  %0 = input {name=\"x\"} : f32[256,96]\n"
                              "  %1 = input {name=\"y\"} : f32[96]\n"
                              "  %2 = broadcast(%1) {dims=[1]} : f32[256,96]\n"
                              "  %3 = mul(%0, %2) : f32[256,96]\n"
                              "  %4 = reduce_sum(%3) {axes=[1]} : f32[256]\n"
                              "  %5 = exp(%4) : f32[256]\n"
                              "  %6 = broadcast(%5) {dims=[0]} : f32[256,96]\n"
                              "  %7 = mul(%3, %6) : f32[256,96]\n"
                              "  %8 = reduce_sum(%7) {axes=[0]} : f32[96]\n"
                              "  %9 = exp(%1) : f32[96]\n"
                              "  %10 = reduce_sum(%9) {axes=[0]} : f32[]\n"
                              "  %11 = broadcast(%10) {dims=[]} : f32[96]\n"
                              "  %12 = add(%8, %11) : f32[96]\n"
                              "  %13 = reduce_max(%4) {axes=[0]} : f32[]\n"
                              "  output \"o\" %7\n"
                              "  output \"c\" %12\n"
                              "  output \"p\" %13\n"
                              "}\n";

static tcc_place *place_of(const built *b, int rank, int64_t extent) {
    for (int i = 0; i < b->graph->places.count; i++) {
        const tcc_type *type = &b->graph->places.data[i].node->type;
        if (type->rank == rank && tcc_type_numel(type) == extent) return &b->graph->places.data[i];
    }
    fail_msg("no such value has a place");
    return NULL;
}

/* The partial sums of the columns lie over a value that their second launch reads. */
static void overlapping_temporary(void **state) {
    (void)state;
    built b;
    open_built(&b, columns, false);
    int moved = 0;
    for (int i = 0; i < b.facts.launches.count; i++) {
        const tcc_fact_launch *l = &b.facts.launches.data[i];
        for (int k = 0; k < l->n_uses; k++) {
            if (b.facts.values.data[l->uses[k].value].node) continue;
            ((tcc_buffer *)l->buffers)[k].offset_bytes = place_of(&b, 0, 1)->offset_bytes;
            moved++;
        }
    }
    assert_int_equal(moved, 2);
    b.program->arena_bytes += 4096;
    close_found(&b, "%10 = reduce_sum(%9) {axes=[0]} : f32[] is meant\nnote: byte 0 of temporary 0 of ");
}

/* A launch of a group writes its row sums over what the next one, that of its column sums, reads. */
static void between_launches_of_a_group(void **state) {
    (void)state;
    built b;
    plan_text(&b, columns, false);
    place_of(&b, 1, 256)->offset_bytes = place_of(&b, 0, 1)->offset_bytes;
    b.graph->arena_bytes += 4096;
    assert_error(build(&b, true), TCC_EBUG, &b.cx.diag,
                 "%10 = reduce_sum(%9) {axes=[0]} : f32[] is meant\nnote: byte 0 of %4 = reduce_sum(%3) {axes=[1]} : "
                 "f32[256] lies there");
    end(&b);
}

/* --- Within a step */

static int step_of_instances(const built *b, int n) {
    for (int i = 0; i < b->program->n_steps; i++)
        if (b->program->steps[i].n_instances == n) return i;
    fail_msg("no step of %d instances", n);
    return -1;
}

/* One kernel for two values. */
static const char pair[] = "graph @pair {\n"
                           "  %0 = input {name=\"x\"} : f32[64]\n"
                           "  %1 = input {name=\"y\"} : f32[64]\n"
                           "  %2 = exp(%0) : f32[64]\n"
                           "  %3 = exp(%1) : f32[64]\n"
                           "  output \"o\" %2\n"
                           "  output \"p\" %3\n"
                           "}\n";

static void instance_reads_what_another_writes(void **state) {
    (void)state;
    built b;
    plan_text(&b, pair, true);
    b.options.separate = false;
    assert_ok(build(&b, true), &b.cx.diag);
    const int step = step_of_instances(&b, 2);
    *written_by(&b, step, 0) = *read_by(&b, step, 1, 0);
    close_found(&b, "instance 1 reads what instance 0 writes, at ");
}

/* Parts of a concat beside each other: one of them twice, the other not at all. */
static void parts_of_one_value(void **state) {
    (void)state;
    built b;
    open_built(&b,
               "graph @parts {\n"
               "  %0 = input {name=\"x\"} : f32[32,16]\n"
               "  %1 = input {name=\"y\"} : f32[32,16]\n"
               "  %2 = concat(%0, %1) {axis=1} : f32[32,32]\n"
               "  output \"o\" %2\n"
               "}\n",
               false);
    assert_int_equal(b.program->steps[0].n_instances, 2);
    const tcc_buffer kept = *written_by(&b, 0, 1);
    *written_by(&b, 0, 1) = *written_by(&b, 0, 0);
    assert_error(tcc_program_verify(b.program, &b.facts, &b.cx.diag), TCC_EBUG, &b.cx.diag, "writes what instance");
    *written_by(&b, 0, 1) = kept;
    tcc_diag_clear(&b.cx.diag);
    assert_ok(tcc_program_verify(b.program, &b.facts, &b.cx.diag), &b.cx.diag);
    b.program->steps[0].n_instances = 1;
    close_found(&b, "a launch of concat () is in no step");
}

/* Parts of a concat of concats are rows of rows, and those on its left end elsewhere than those on its right. Each is
 * the bytes that it is, in any order, so one that misses is missed. */
static const char nested[] = "graph @nested {\n"
                             "  %0 = input {name=\"x\"} : f32[3,5,4]\n"
                             "  %1 = input {name=\"y\"} : f32[3,2,4]\n"
                             "  %2 = input {name=\"z\"} : f32[3,3,6]\n"
                             "  %3 = input {name=\"w\"} : f32[3,4,6]\n"
                             "  %4 = concat(%0, %1) {axis=1} : f32[3,7,4]\n"
                             "  %5 = concat(%2, %3) {axis=1} : f32[3,7,6]\n"
                             "  %6 = concat(%4, %5) {axis=2} : f32[3,7,10]\n"
                             "  output \"o\" %6\n"
                             "}\n";

static void parts_of_parts(void **state) {
    (void)state;
    built b;
    open_built(&b, nested, false);
    assert_int_equal(b.facts.launches.count, 4);
    tcc_fact_launch *launches = b.facts.launches.data;
    for (int i = 0; i < 4; i++) /* each of them first and last */
        for (int k = 0; k < 4; k++) {
            const tcc_fact_launch kept = launches[i];
            launches[i] = launches[k], launches[k] = kept;
            assert_ok(tcc_program_verify(b.program, &b.facts, &b.cx.diag), &b.cx.diag);
        }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < launches[i].n_uses; k++) {
            tcc_region *part = (tcc_region *)launches[i].uses[k].writes, kept;
            if (!launches[i].uses[k].n_writes) continue;
            assert_true(part->exact && part->n_levels == 2);
            kept = *part;
            part->levels[1].count--;
            assert_error(tcc_program_verify(b.program, &b.facts, &b.cx.diag), TCC_EBUG, &b.cx.diag,
                         "output o is not %6 = concat(%4, %5) {axis=2} : f32[3,7,10]");
            tcc_diag_clear(&b.cx.diag);
            *part = kept;
        }
    end(&b);
}

/* --- Within a launch */

static void reads_elsewhere_what_it_writes(void **state) {
    (void)state;
    static const char turned[] = "graph @turned {\n"
                                 "  %0 = input {name=\"x\"} : f32[40,40]\n"
                                 "  %1 = reduce_sum(%0) {axes=[1]} : f32[40]\n"
                                 "  %2 = exp(%0) : f32[40,40]\n"
                                 "  %3 = transpose(%2) {perm=[1, 0]} : f32[40,40]\n"
                                 "  %4 = neg(%3) : f32[40,40]\n"
                                 "  output \"o\" %4\n"
                                 "  output \"p\" %1\n"
                                 "}\n";
    for (int i = 0; i < 2; i++) {
        built b;
        plan_text(&b, turned, true);
        int64_t *exp = NULL;
        for (int k = 0; k < b.graph->places.count; k++) {
            tcc_place *p = &b.graph->places.data[k];
            if (p->node->op == TCC_OP_EXP) exp = &p->offset_bytes;
            if (p->node->op == TCC_OP_TRANSPOSE && i == 1) p->offset_bytes = *exp;
        }
        if (i == 0) assert_ok(build(&b, true), &b.cx.diag);
        else
            assert_error(build(&b, true), TCC_EBUG, &b.cx.diag,
                         "step 2 (transpose, ) writes over what it reads elsewhere in its loop, at arena + ");
        end(&b);
    }
}

static void outputs_of_a_launch_overlap(void **state) {
    (void)state;
    built b;
    open_built(&b,
               "graph @two {\n"
               "  %0 = input {name=\"x\"} : f32[64]\n"
               "  %1 = exp(%0) : f32[64]\n"
               "  %2 = neg(%1) : f32[64]\n"
               "  output \"o\" %1\n"
               "  output \"p\" %2\n"
               "}\n",
               false);
    const tcc_buffer *buffers = b.program->steps[0].instances[0].buffers;
    const int first = used(&b, buffers, true, 0), second = used(&b, buffers, true, 1);
    *buffer_of(&b, 0, 0, second) = *buffer_of(&b, 0, 0, first);
    close_found(&b, "twice: as ");
}

/* --- Bounds and bindings */

static void beyond_a_binding(void **state) {
    (void)state;
    built b;
    open_built(&b, chain, true);
    tcc_buffer *x = read_by(&b, 0, 0, 0), kept = *x;
    x->offset_bytes += 4;
    assert_error(tcc_program_verify(b.program, &b.facts, &b.cx.diag), TCC_EBUG, &b.cx.diag, "lies outside");
    *x = kept;
    x->size_bytes -= 4;
    assert_error(tcc_program_verify(b.program, &b.facts, &b.cx.diag), TCC_EBUG, &b.cx.diag,
                 "reads bytes 0 to 12288 of buffer 0, which has 12284");
    *x = kept;
    x->binding = 7;
    assert_error(tcc_program_verify(b.program, &b.facts, &b.cx.diag), TCC_EBUG, &b.cx.diag, "lies outside");
    *x = kept;
    b.program->arena_bytes -= 512;
    close_found(&b, "lies outside");
}

static const char copied[] = "graph @copied {\n"
                             "  %0 = input {name=\"x\"} : f32[64]\n"
                             "  %1 = exp(%0) : f32[64]\n"
                             "  %2 = constant {values=[1, 2, 3, 4]} : f32[4]\n"
                             "  output \"o\" %1\n"
                             "  output \"p\" %1\n"
                             "  output \"q\" %2\n"
                             "}\n";

static void missing_output_copy(void **state) {
    (void)state;
    built b;
    open_built(&b, copied, true);
    assert_int_equal(b.program->n_steps, 3);
    int copy = 0;
    while (b.program->steps[copy].kind != TCC_STEP_COPY || b.program->steps[copy].from.space == TCC_SPACE_CONST) copy++;
    for (int i = copy + 1; i < b.program->n_steps; i++) b.program->steps[i - 1] = b.program->steps[i];
    b.program->n_steps--;
    close_found(&b, "in the end output p is not %1 = exp(%0) : f32[64], from byte 0 on\nnote: nothing lies there");
}

static void wrong_constants(void **state) {
    (void)state;
    built b;
    open_built(&b, copied, true);
    float *constants = (float *)(uintptr_t)b.program->constants;
    constants[2] = 7;
    close_found(&b, "in the end output q is not ");
    open_built(&b,
               "graph @table {\n"
               "  %0 = input {name=\"x\"} : f32[4]\n"
               "  %1 = constant {values=[1, 2, 3, 4]} : f32[4]\n"
               "  %2 = mul(%0, %1) : f32[4]\n"
               "  output \"o\" %2\n"
               "}\n",
               true);
    ((float *)(uintptr_t)b.program->constants)[3] = 5;
    close_found(&b, "values=[1, 2, 3, 4]} : f32[4] does not lie there");
}

static void input_written_over(void **state) {
    (void)state;
    built b;
    open_built(&b,
               "graph @kept {\n"
               "  %0 = input {role=param, name=\"w\"} : f32[64]\n"
               "  %1 = exp(%0) : f32[64]\n"
               "  output \"o\" %1\n"
               "  output \"p\" %1\n"
               "}\n",
               true);
    tcc_step *copy = &b.program->steps[1];
    assert_int_equal(copy->kind, TCC_STEP_COPY);
    copy->from = (tcc_buffer){TCC_SPACE_BINDING, 0, 0, 256};
    assert_error(tcc_program_verify(b.program, &b.facts, &b.cx.diag), TCC_EBUG, &b.cx.diag, "in the end output p");
    copy->from = copy->to;
    assert_error(tcc_program_verify(b.program, &b.facts, &b.cx.diag), TCC_EBUG, &b.cx.diag, "onto itself");
    copy->to = (tcc_buffer){TCC_SPACE_BINDING, 0, 0, 256};
    copy->from = (tcc_buffer){TCC_SPACE_BINDING, 1, 0, 256};
    b.graph->outputs.count = 1; /* else the missing copy is what is found */
    close_found(&b, "is written over input w, which nothing replaces");
}

static void states_that_trade_places(void **state) {
    (void)state;
    built b;
    open_built(&b,
               "graph @trade {\n"
               "  %0 = input {role=state, name=\"a\"} : f32[64]\n"
               "  %1 = input {role=state, name=\"b\"} : f32[64]\n"
               "  output \"a\" %1 alias %0\n"
               "  output \"b\" %0 alias %1\n"
               "}\n",
               true);
    assert_int_equal(b.program->n_steps, 4);
    const tcc_buffer kept = b.program->steps[2].from;
    b.program->steps[2].from = b.program->steps[3].from;
    b.program->steps[3].from = kept;
    close_found(&b, "in the end output a is not ");
}

/* --- Memory */

static void memory_runs_out(void **state) {
    (void)state;
    built b;
    open_built(&b, columns, false);
    tcc__alloc_fail_at(INT64_MAX); /* counts */
    assert_ok(tcc_program_verify(b.program, &b.facts, &b.cx.diag), &b.cx.diag);
    const int64_t count = tcc__alloc_fail_at(-1);
    assert_true(count > 10);
    for (int64_t i = 0; i < count; i++) {
        tcc__alloc_fail_at(i);
        const tcc_status status = tcc_program_verify(b.program, &b.facts, &b.cx.diag);
        tcc__alloc_fail_at(-1);
        assert_int_equal(status, TCC_ENOMEM);
        tcc_diag_clear(&b.cx.diag);
    }
    end(&b);
}

/* What guards keep an access from: of conditions on one loop, which only together bound it; and of a quotient of loops,
 * which a reshape leaves. */
static void guards_bound_accesses(void **state) {
    (void)state;
    static const char *const graphs[] = {
        "graph @of_slices_of_a_concat {\n"
        "  %0 = input {name=\"x\"} : f32[3,7]\n"
        "  %1 = exp(%0) : f32[3,7]\n"
        "  %2 = slice(%1) {start=[0, 0], limit=[3, 2], stride=[1, 1]} : f32[3,2]\n"
        "  %3 = slice(%1) {start=[0, 0], limit=[3, 3], stride=[1, 1]} : f32[3,3]\n"
        "  %4 = slice(%1) {start=[0, 2], limit=[3, 6], stride=[1, 1]} : f32[3,4]\n"
        "  %5 = concat(%2, %3, %4) {axis=1} : f32[3,9]\n"
        "  %6 = slice(%5) {start=[0, 0], limit=[3, 3], stride=[1, 1]} : f32[3,3]\n"
        "  %7 = slice(%5) {start=[0, 1], limit=[3, 7], stride=[1, 1]} : f32[3,6]\n"
        "  %8 = slice(%5) {start=[0, 3], limit=[3, 5], stride=[1, 1]} : f32[3,2]\n"
        "  %9 = concat(%6, %7, %8) {axis=1} : f32[3,11]\n"
        "  %10 = tanh(%9) : f32[3,11]\n"
        "  output \"o\" %10\n"
        "}\n",
        "graph @of_reshaped_rows {\n"
        "  %0 = input {name=\"x\"} : f32[23,13,2]\n"
        "  %1 = slice(%0) {start=[22, 0, 0], limit=[23, 13, 2], stride=[1, 1, 1]} : f32[1,13,2]\n"
        "  %2 = slice(%0) {start=[5, 0, 0], limit=[10, 13, 2], stride=[1, 1, 1]} : f32[5,13,2]\n"
        "  %3 = slice(%0) {start=[4, 0, 0], limit=[13, 13, 2], stride=[1, 1, 1]} : f32[9,13,2]\n"
        "  %4 = concat(%1, %2, %3) {axis=0} : f32[15,13,2]\n"
        "  %5 = reshape(%4) : f32[13,30]\n"
        "  %6 = reduce_sum(%5) {axes=[1]} : f32[13]\n"
        "  output \"o\" %6\n"
        "}\n",
    };
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        built b;
        open_built(&b, graphs[i], false);
        end(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(swapped_offsets),
        cmocka_unit_test(says_what_lies_there),
        cmocka_unit_test(elsewhere_in_the_value),
        cmocka_unit_test(dropped_step),
        cmocka_unit_test(dropped_last_step),
        cmocka_unit_test(repeated_step),
        cmocka_unit_test(swapped_steps),
        cmocka_unit_test(a_guarded_store_fills_nothing),
        cmocka_unit_test(written_over_before_the_last_read),
        cmocka_unit_test(in_place_before_the_last_read),
        cmocka_unit_test(stale_sums),
        cmocka_unit_test(overlapping_temporary),
        cmocka_unit_test(between_launches_of_a_group),
        cmocka_unit_test(instance_reads_what_another_writes),
        cmocka_unit_test(parts_of_one_value),
        cmocka_unit_test(parts_of_parts),
        cmocka_unit_test(reads_elsewhere_what_it_writes),
        cmocka_unit_test(outputs_of_a_launch_overlap),
        cmocka_unit_test(beyond_a_binding),
        cmocka_unit_test(missing_output_copy),
        cmocka_unit_test(wrong_constants),
        cmocka_unit_test(input_written_over),
        cmocka_unit_test(states_that_trade_places),
        cmocka_unit_test(guards_bound_accesses),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
