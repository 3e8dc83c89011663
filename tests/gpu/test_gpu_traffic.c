/* SPDX-License-Identifier: MIT
 * Memory traffic of kernels, as the stand-in counts it: each buffer is moved once, in wide accesses, and nothing is in
 * local memory. */
#include "harness/check.h"
#include "harness/evaluate.h"
#include "harness/cuda_device.h"
#include "harness/gpu_program.h"
#include "harness/graphs.h"
#include "harness/norm_cases.h"
#include "harness/passes.h"

#include <stdio.h>
#include <stdlib.h>

/* What all steps must move, each buffer once. */
static double bytes_of_steps(const tcc_program *p) {
    double least = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const tcc_step *step = &p->steps[i];
        least += step->bytes;
        /* of several instances each warp reads a row of the table, and hyper-parameters, from caches: about 24 sectors
         */
        for (int k = 0; step->n_instances > 1 && k < step->n_instances; k++) {
            const tcc_kernel *kernel = &p->kernels[step->kernel];
            int64_t blocks = (step->instances[k].items + kernel->items_a_block - 1) / kernel->items_a_block;
            least += 24.0 * 32 * (double)blocks * kernel->threads / 32;
        }
    }
    return least;
}

/* What the graph must move: its inputs and outputs, each once, and nothing between. */
static double bytes_of_graph(const tcc_graph *g) {
    double least = 0;
    for (int i = 0; i < g->inputs.count; i++) least += (double)tcc_type_bytes(&g->inputs.data[i]->type);
    for (int i = 0; i < g->outputs.count; i++) least += (double)tcc_type_bytes(&g->outputs.data[i].node->type);
    return least;
}

/* Runs the graph once, with random inputs. */
static gpu_program *run_counted(const tcc_graph *g, ptxsim_stats *s) {
    gpu_program *p = gpu_program_create(g, &(compiled_options){.simplify = true}, "sm_90");
    tcc_value *inputs = random_inputs(g, &(compiled_options){.low = 0.1, .high = 1, .limit = 6});
    for (int i = 0; i < g->inputs.count; i++) {
        void *packed = malloc((size_t)tcc_type_bytes(&g->inputs.data[i]->type) + 1);
        value_store(&inputs[i], packed);
        gpu_program_upload(p, i, packed);
        free(packed);
    }
    free_values(inputs, g->inputs.count);
    sim.reset_stats();
    gpu_program_run(p);
    assert_int_equal(sim.get_stats(NULL, s), 0);
    return p;
}

/* Runs the graph once and compares the sectors of all its accesses with what must be moved at least: by its steps, or,
 * `whole`, by the graph. `again`: bytes that rows read again and again and that caches hold, a row's weights; `narrow`:
 * share of the traffic that may be in accesses of less than 16 bytes. */
static void check_moves(const tcc_graph *g, bool whole, double again, double narrow) {
    ptxsim_stats s;
    gpu_program *p = run_counted(g, &s);
    double least = whole ? bytes_of_graph(g) : bytes_of_steps(p->program);
    double moved = 32.0 * (double)s.global_sectors, wide = 16.0 * (double)(s.global_loads[4] + s.global_stores[4]),
           narrow_share = 1 - wide / moved;
    moved -= again;
    printf("%-14s %d steps: %.0f KB moved, %.3f of the least; %.3f in narrow accesses; %.0f KB in shared memory, %llu "
           "of %llu conflict\n",
           g->name, p->program->n_steps, moved / 1024, moved / least, narrow_share,
           (double)(s.shared_read_bytes + s.shared_write_bytes) / 1024, (unsigned long long)s.shared_conflicts,
           (unsigned long long)s.shared_accesses);
    if (moved > 1.05 * least) fail_msg("%.0f bytes are moved, %.0f are enough", moved, least);
    if (narrow_share > narrow) fail_msg("%.3f of the traffic is in narrow accesses", narrow_share);
    assert_int_equal(s.local_read_bytes + s.local_write_bytes, 0);
    assert_int_equal(s.float_atomics, 0);
    assert_int_equal(s.shared_conflicts, 0);
    long spilled = gpu_assemble(p->program, "sm_90");
    if (spilled > 0) fail_msg("%ld bytes of registers are spilled", spilled);
    gpu_program_destroy(p);
}

static void check_traffic(const tcc_graph *g, double again, double narrow) { check_moves(g, false, again, narrow); }

static void check_text_traffic(const char *text, double again, double narrow) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    check_traffic(g, again, narrow);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

enum { ROWS = 96, WIDTH = 768, ROW_BYTES = WIDTH * 4 };

static void norms(void **state) {
    (void)state;
    check_text_traffic(
        "graph @layer_norm {\n  %0 = input {name=\"x\"} : f32[96,768]\n  %1 = input {name=\"w\"} : f32[768]\n"
        "  %2 = input {name=\"b\"} : f32[768]\n"
        "  %3 = layer_norm(%0, %1, %2) {eps=0x1p-10, axis=1} : f32[96,768]\n  output \"n\" %3\n}\n",
        2 * ROWS * ROW_BYTES, 0.01);
    check_text_traffic("graph @softmax {\n  %0 = input {name=\"x\"} : f32[96,1000]\n  %1 = softmax(%0) {axis=1} : "
                       "f32[96,1000]\n  output \"s\" %1\n}\n",
                       0, 0.01);
    check_text_traffic("graph @softmax_long {\n  %0 = input {name=\"x\"} : f32[270,17000]\n  %1 = softmax(%0) {axis=1} "
                       ": f32[270,17000]\n  output \"s\" %1\n}\n",
                       0, 0.01);
    check_text_traffic(
        "graph @dropout {\n  %0 = input {name=\"x\"} : f32[96,768]\n  %1 = input {name=\"r\"} : f32[96,768]\n"
        "  %2 = input {role=rng, name=\"key\"} : i64[2]\n  %3 = dropout(%0, %2) {id=3, p=0x1p-3} : f32[96,768]\n"
        "  %4 = add(%1, %3) : f32[96,768]\n  %5 = rms_norm(%4) {eps=0x1p-10, axis=1} : f32[96,768]\n"
        "  output \"sum\" %4\n  output \"n\" %5\n}\n",
        0, 0.02);
}

/* Gradients by the input, the weight and the bias, of x and dy that are read once. */
static void norm_backward(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int rows, columns;
    } cases[] = {{"layer_norm", 4096, 768},
                 {"layer_norm", 16384, 128},
                 {"layer_norm", 4096, 2048},
                 {"layer_norm_plain", 4096, 256},
                 {"rms_norm", 4096, 768}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_diag diag = {0};
        tcc_graph *g = norm_gradients(&diag, cases[i].name, cases[i].rows, cases[i].columns);
        assert_string_equal(g->outputs.data[0].name, "loss");
        g->outputs.count--;
        memmove(g->outputs.data, g->outputs.data + 1, sizeof *g->outputs.data * (size_t)g->outputs.count);
        tcc_graph *backward = run_passes(g, "simplify", NULL);
        /* The first element of a row, from which its mean is taken, is read by each warp of the row by itself: all but
         * the first find it in a cache. */
        const int threads = cases[i].columns / 4, warps = threads < 32 ? 1 : threads > 256 ? 8 : threads / 32;
        const double firsts = strcmp(cases[i].name, "rms_norm") ? 32.0 * warps * cases[i].rows : 0;
        check_moves(backward, true, 4.0 * cases[i].rows * cases[i].columns + firsts, 0.03); /* parts: word by word */
        tcc_graph_destroy(backward);
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* The graph's traffic in words an element of its input 0, where each launch moves a byte once; caches have what it
 * reads again. */
static void check_words(const tcc_graph *g, double most) {
    ptxsim_stats s;
    gpu_program *p = run_counted(g, &s);
    double elements = (double)tcc_type_numel(&g->inputs.data[0]->type);
    double words = (double)(s.global_read_unique_bytes + s.global_write_unique_bytes) / (4 * elements);
    printf("%-14s %d steps: %.3f words an element, %.1f instructions\n", g->name, p->program->n_steps, words,
           (double)s.lane_instructions / elements);
    if (words > most) fail_msg("%.3f words an element are moved, %.3f are enough", words, most);
    assert_int_equal(s.local_read_bytes + s.local_write_bytes, 0);
    assert_int_equal(s.shared_conflicts, 0);
    long spilled = gpu_assemble(p->program, "sm_90");
    if (spilled > 0) fail_msg("%ld bytes of registers are spilled", spilled);
    gpu_program_destroy(p);
}

#define BATCH_NORM                                                                                                \
    "graph @batch_norm {\n  %0 = input {role=param, name=\"x\"} : f32[4,48,48,64]\n  %1 = input {role=param, "    \
    "name=\"w\"} : f32[64]\n"                                                                                     \
    "  %2 = input {role=param, name=\"b\"} : f32[64]\n  %3 = input {role=batch, name=\"dy\"} : f32[4,48,48,64]\n" \
    "  %4 = batch_norm(%0, %1, %2) {eps=0x1p-10, axis=3} : f32[4,48,48,64]\n  %5 = relu(%4) : f32[4,48,48,64]\n"

/* Batch norm and ReLU over channels that lie together: the statistics read x once, and the rest reads and writes it
 * once. Backward reads x and dy for the sums, and again for dx, which it writes. Long rows in few items are as the
 * former. */
static void statistics(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(BATCH_NORM "  output \"y\" %5\n}\n", &diag);
    check_words(g, 3.05);
    tcc_graph_destroy(g);
    g = parse_graph(BATCH_NORM "  %6 = mul(%5, %3) : f32[4,48,48,64]\n  %7 = reduce_sum(%6) {axes=[0, 1, 2, 3]} : "
                               "f32[]\n  output \"loss\" %7\n}\n",
                    &diag);
    tcc_graph *step = run_passes(g, "simplify,autodiff", NULL);
    step->outputs.count--;
    memmove(step->outputs.data, step->outputs.data + 1, sizeof *step->outputs.data * (size_t)step->outputs.count);
    tcc_graph *backward = run_passes(step, "simplify", NULL);
    check_words(backward, 1 + 5.1); /* with the statistics */
    tcc_graph_destroy(backward);
    tcc_graph_destroy(step);
    tcc_graph_destroy(g);
    g = parse_graph("graph @long_rows {\n  %0 = input {name=\"x\"} : f32[2,300000]\n"
                    "  %1 = layer_norm(%0) {eps=0x1p-10, axis=1} : f32[2,300000]\n  output \"y\" %1\n}\n",
                    &diag);
    check_words(g, 3.05);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static void chains(void **state) {
    (void)state;
    check_text_traffic("graph @gelu {\n  %0 = input {name=\"x\"} : f32[96,768]\n  %1 = input {name=\"b\"} : f32[768]\n"
                       "  %2 = broadcast(%1) {dims=[1]} : f32[96,768]\n  %3 = add(%0, %2) : f32[96,768]\n"
                       "  %4 = gelu(%3) : f32[96,768]\n  output \"o\" %4\n}\n",
                       ROWS * ROW_BYTES, 0.01);
}

static void transposes(void **state) {
    (void)state;
    check_text_traffic(
        "graph @transpose {\n  %0 = input {name=\"x\"} : f32[2,200,320]\n  %1 = input {name=\"y\"} : f32[2,320,200]\n"
        "  %2 = transpose(%0) {perm=[0, 2, 1]} : f32[2,320,200]\n  %3 = mul(%1, %2) : f32[2,320,200]\n  output \"o\" "
        "%3\n}\n",
        0, 0.01);
    check_text_traffic("graph @transpose_bf16 {\n  %0 = input {name=\"x\"} : bf16[2,208,320]\n"
                       "  %1 = transpose(%0) {perm=[0, 2, 1]} : bf16[2,320,208]\n  output \"o\" %1\n}\n",
                       0, 0.01);
    check_text_traffic("graph @transpose_cast {\n  %0 = input {name=\"x\"} : f32[208,320]\n"
                       "  %1 = transpose(%0) {perm=[1, 0]} : f32[320,208]\n  %2 = exp(%1) : f32[320,208]\n  %3 = "
                       "cast(%2) : f16[320,208]\n"
                       "  output \"o\" %3\n}\n",
                       0, 0.35); /* writes of 8 bytes */
    check_text_traffic("graph @channels_last {\n  %0 = input {name=\"x\"} : f32[2,24,16,20]\n"
                       "  %1 = transpose(%0) {perm=[0, 2, 3, 1]} : f32[2,16,20,24]\n  output \"o\" %1\n}\n",
                       0, 0.01);
    check_text_traffic("graph @columns {\n  %0 = input {name=\"x\"} : f32[4096,192]\n  %1 = reduce_sum(%0) {axes=[0]} "
                       ": f32[192]\n  output \"o\" %1\n}\n",
                       0, 0.01);
}

static void running_sums(void **state) {
    (void)state;
    check_text_traffic("graph @cumsum {\n  %0 = input {name=\"x\"} : f32[64,3000]\n  %1 = cumsum(%0) {axis=1} : "
                       "f32[64,3000]\n  output \"o\" %1\n}\n",
                       0, 0.01);
    check_text_traffic("graph @cumsum_short {\n  %0 = input {name=\"x\"} : f32[3000,64]\n"
                       "  %1 = cumsum(%0) {axis=1, reverse=true} : f32[3000,64]\n  output \"o\" %1\n}\n",
                       0, 0.01);
    check_text_traffic("graph @linear_scan {\n  %0 = input {name=\"a\"} : f32[64,3000]\n"
                       "  %1 = input {name=\"b\"} : f32[64,3000]\n"
                       "  %2 = linear_scan(%0, %1) {axis=1} : f32[64,3000]\n  output \"o\" %2\n}\n",
                       0, 0.01);
}

/* Rows that a guard lets through whole are read in wide accesses. */
static void gathers(void **state) {
    (void)state;
    check_text_traffic(
        "graph @embedding {\n  %0 = input {name=\"w\"} : f32[200,192]\n  %1 = input {name=\"t\"} : i32[8,64]\n"
        "  %2 = take(%0, %1) : f32[8,64,192]\n  %3 = exp(%2) : f32[8,64,192]\n  output \"o\" %3\n}\n",
        312 * 192 * 4, 0.05);
    check_text_traffic("graph @pool {\n  %0 = input {name=\"x\"} : f32[2,16,32,64]\n"
                       "  %1 = max_pool(%0) {window=[3, 3], stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], "
                       "channels_last=true} : f32[2,8,16,64]\n"
                       "  output \"o\" %1\n}\n",
                       1.25 * 2 * 16 * 32 * 64 * 4, 0.01);
}

/* Nine vectors of x and nine of weights for each vector of y, which caches hold; as for the filter's gradient, whose 16
 * parts are then read an element a sector. */
static void depthwise(void **state) {
    (void)state;
    enum { IMAGES = 2 * 32 * 32 * 64 * 4 };
    check_text_traffic(
        "graph @depthwise {\n  %0 = input {name=\"x\"} : f32[2,32,32,64]\n  %1 = input {name=\"w\"} : f32[64,3,3,1]\n"
        "  %2 = conv(%0, %1) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=64, "
        "channels_last=true} : f32[2,32,32,64]\n"
        "  output \"o\" %2\n}\n",
        17.0 * IMAGES, 0.01);
    check_text_traffic("graph @depthwise_filter {\n  %0 = input {name=\"x\"} : f32[2,32,32,64]\n  %1 = input "
                       "{name=\"dy\"} : f32[2,32,32,64]\n"
                       "  %2 = conv_grad_weight(%0, %1) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], "
                       "groups=64, channels_last=true} : f32[64,3,3,1]\n"
                       "  output \"o\" %2\n}\n",
                       16.0 * IMAGES + 16 * 9 * 64 * 28, 0.05);
}

static void losses(void **state) {
    (void)state;
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph("graph @cross_entropy {\n  %0 = input {role=param, name=\"x\"} : f32[24,2000]\n"
                               "  %1 = input {role=batch, name=\"t\"} : i32[24]\n"
                               "  %2 = cross_entropy(%0, %1) {ignore_index=-1} : f32[]\n  output \"loss\" %2\n}\n",
                               &diag);
    tcc_graph *step = run_passes(g, "simplify,autodiff", NULL);
    check_traffic(step, 0, 0.05);
    tcc_graph_destroy(step);
    tcc_graph_destroy(g);
}

static void updates(void **state) {
    (void)state;
    enum { TENSORS = 12 };
    int64_t sizes[TENSORS];
    for (int i = 0; i < TENSORS; i++) sizes[i] = 1000 + 4096 * i;
    tcc_diag diag = {0};
    tcc_graph *step = adamw_graph(sizes, TENSORS, &diag);
    check_traffic(step, 0, 0.1);
    tcc_graph_destroy(step);
}

int main(void) {
    if (!gpu_available()) return 77;
    if (!sim.get_stats) {
        printf("skipped: only the stand-in driver counts, with warps in lockstep\n");
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),        cmocka_unit_test(norm_backward), cmocka_unit_test(statistics),
        cmocka_unit_test(chains),       cmocka_unit_test(transposes),    cmocka_unit_test(gathers),
        cmocka_unit_test(running_sums), cmocka_unit_test(depthwise),     cmocka_unit_test(losses),
        cmocka_unit_test(updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
