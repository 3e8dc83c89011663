/* SPDX-License-Identifier: MIT
 * Networks as cuDNN is to run them, compiled without a device: which work is left between its calls, and whether the
 * real library takes them all: it plans for a GPU whose properties it is told (cuDNN 9.8 and newer). That needs the
 * library and no driver; with the stand-in, or none, it is skipped. */
#include "bench/models.h"
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/conv_forms.h"
#include "harness/cudnn_planner.h"
#include "harness/passes.h"

#include "codegen/calls.h"
#include "codegen/emit/emitter.h"
#include "frontend/trace.h"
#include "ir/support/alloc.h"
#include "runtime/cuda/cudnn_conv_graph.h"
#include "runtime/cuda/cudnn_probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A convolution of square images, channels last. */
static tcc_cudnn_conv_params conv(tcc_dtype type, int64_t size, int64_t in, int64_t out, int64_t kernel, int64_t stride,
                                  int64_t groups) {
    const int64_t pad = kernel / 2, y = (size + 2 * pad - kernel) / stride + 1, within = in / groups;
    return (tcc_cudnn_conv_params){
        .conv = {.batch = 32,
                 .groups = groups,
                 .in = in,
                 .out = out,
                 .x_size = {1, size, size},
                 .y_size = {1, y, y},
                 .kernel = {1, kernel, kernel},
                 .stride = {1, stride, stride},
                 .dilation = {1, 1, 1},
                 .pad_low = {0, pad, pad},
                 .pad_high = {0, pad, pad},
                 .x_stride = {size * size * in, 1, size * size * in, size * in, in},
                 .y_stride = {y * y * out, 1, y * y * out, y * out, out},
                 .w_stride = {kernel * kernel * within, 1, kernel * kernel * within, kernel * within, within}},
        .type = type,
        .alignment = 16,
        .workspace_bytes = 64 << 20};
}

static int newest(void) { return n_cudnn_planners - 1; }

static tcc_status plan(int device, tcc_diag *d, tcc_cudnn_conv_kind kind, tcc_cudnn_conv_params *p) {
    tcc_cudnn_graph *g = NULL;
    const tcc_status s = tcc_cudnn_conv_plan(&cudnn_planners[device].cudnn, d, kind, p, &g);
    tcc_cudnn_graph_destroy(g);
    return s;
}

static void check_planned(tcc_cudnn_conv_kind kind, const tcc_cudnn_conv_params *p) {
    for (int device = 0; device < n_cudnn_planners; device++) {
        tcc_diag d = {0};
        tcc_cudnn_conv_params q = *p;
        if (plan(device, &d, kind, &q) != TCC_OK)
            fail_msg("%s, convolution %d, type %d, bias %d, relu %d: %s", cudnn_planners[device].name, kind,
                     (int)p->type, (int)p->conv.bias, (int)p->conv.relu, tcc_diag_text(&d));
        assert_in_range(q.workspace_bytes, 0, p->workspace_bytes);
        tcc_diag_clear(&d);
    }
}

static void test_convolutions(void **state) {
    (void)state;
    static const struct {
        tcc_dtype type;
        bool tf32;
    } types[] = {{TCC_F16, false}, {TCC_BF16, false}, {TCC_F32, true}, {TCC_F32, false}};
    if (!cudnn_planners_available()) skip();
    for (int i = 0; i < 4; i++)
        for (int stride = 1; stride <= 2; stride++) {
            tcc_cudnn_conv_params p = conv(types[i].type, 28, 64, 128, 3, stride, 1);
            p.allow_tf32 = types[i].tf32;
            check_planned(TCC_CUDNN_CONV_DATA_GRADIENT, &p);
            check_planned(TCC_CUDNN_CONV_FILTER_GRADIENT, &p);
            check_planned(TCC_CUDNN_CONV_FORWARD, &p);
            p.conv.bias = 1;
            check_planned(TCC_CUDNN_CONV_FORWARD, &p);
            p.conv.relu = 1;
            check_planned(TCC_CUDNN_CONV_FORWARD, &p);
        }
}

/* A transposed convolution is a data gradient: what doubles an image, with an element more behind it, or less. */
static void test_transposed(void **state) {
    (void)state;
    static const tcc_dtype types[] = {TCC_F16, TCC_BF16, TCC_F32};
    if (!cudnn_planners_available()) skip();
    for (int t = 0; t < 3; t++)
        for (int form = 0; form < 3; form++) {
            tcc_cudnn_conv_params p = conv_2d(56 + (form == 1), 64, 128, form == 2 ? 3 : 2);
            p.type = types[t], p.allow_tf32 = true, p.workspace_bytes = 64 << 20;
            for (int i = 1; i < CONV_SPATIAL; i++) p.conv.stride[i] = 2, p.conv.pad_low[i] = p.conv.pad_high[i] = 0;
            if (form == 2) p.conv.pad_high[2] = 1;
            conv_complete(&p.conv, true);
            check_planned(TCC_CUDNN_CONV_DATA_GRADIENT, &p);
            check_planned(TCC_CUDNN_CONV_FORWARD, &p);
            check_planned(TCC_CUDNN_CONV_FILTER_GRADIENT, &p);
        }
}

static bool plans(int device, tcc_cudnn_conv_kind kind, tcc_cudnn_conv_params *p) {
    tcc_diag d = {0};
    const bool planned = plan(device, &d, kind, p) == TCC_OK;
    tcc_diag_clear(&d);
    return planned;
}

/* The library has further engines for most convolutions. Each is found again by its index and knobs, with the same
 * workspace, and the first is the one that is taken by default. With other knobs there is none. */
static void test_engines_are_found_again(void **state) {
    (void)state;
    enum { MOST = 6 };
    static const tcc_dtype types[] = {TCC_F16, TCC_BF16, TCC_F32};
    int engines = 0, convolutions = 0;
    if (!cudnn_planners_available()) skip();
    for (int t = 0; t < 3; t++)
        for (int kind = TCC_CUDNN_CONV_FORWARD; kind <= TCC_CUDNN_CONV_FILTER_GRADIENT; kind++) {
            const tcc_cudnn_conv_params p = conv(types[t], 28, 64, 128, 3, 1, 1);
            convolutions++;
            for (int rank = 1; rank <= MOST; rank++) {
                tcc_cudnn_conv_params ranked = p, again = p, other = p;
                ranked.by.rank = rank;
                if (!plans(newest(), (tcc_cudnn_conv_kind)kind, &ranked)) break;
                engines++;
                again.by = ranked.by, other.by = ranked.by;
                assert_true(plans(newest(), (tcc_cudnn_conv_kind)kind, &again));
                assert_int_equal(again.workspace_bytes, ranked.workspace_bytes);
                other.by.option ^= 1;
                assert_false(plans(newest(), (tcc_cudnn_conv_kind)kind, &other));
                tcc_cudnn_conv_params usual = p;
                if (rank > 1 || !plans(newest(), (tcc_cudnn_conv_kind)kind, &usual)) continue;
                assert_int_equal(usual.workspace_bytes, ranked.workspace_bytes);
            }
        }
    printf("%d engines for %d convolutions, at most %d each\n", engines, convolutions, MOST);
    assert_true(engines > convolutions);
}

/* The engine that p is planned with; `only`: that one or none. -1: there is none. */
static int64_t engine_of(int device, const tcc_cudnn_conv_params *p, const int64_t *only, bool *keeps_nan) {
    tcc_cudnn_graph *g = NULL;
    tcc_diag d = {0};
    int64_t index = -1, workspace_bytes;
    tcc_cudnn_limits limits = tcc_cudnn_conv_limits(p);
    limits.engine = only;
    assert_ok(tcc_cudnn_graph_create(&cudnn_planners[device].cudnn, &d, &g), &d);
    assert_ok(tcc_cudnn_conv_describe(g, &d, TCC_CUDNN_CONV_FORWARD, p), &d);
    if (tcc_cudnn_graph_finish(g, &d, &limits, &workspace_bytes) == TCC_OK)
        assert_ok(tcc_cudnn_graph_engine(g, &d, &index, keeps_nan), &d);
    tcc_cudnn_graph_destroy(g);
    tcc_diag_clear(&d);
    return index;
}

/* No engine that fuses max(0, x) promises to keep NaN, so each is tried with a small convolution: the library has the
 * same engine for that one. */
static void check_relu_engine(int device, tcc_cudnn_conv_params p) {
    tcc_cudnn_conv_params small;
    bool keeps_nan = false, small_keeps_nan;
    p.conv.bias = p.conv.relu = 1;
    const int64_t engine = engine_of(device, &p, NULL, &keeps_nan);
    if (engine < 0 || keeps_nan) return; /* our own kernel does it, or nothing has to be tried */
    tcc__cudnn_probe_params(&p, &small);
    const int64_t tried = engine_of(device, &small, &engine, &small_keeps_nan);
    if (tried != engine)
        fail_msg("%s, type %d, %lld x %lld to %lld by %lld, stride %lld: engine %lld is none for the small one",
                 cudnn_planners[device].name, (int)p.type, (long long)p.conv.x_size[1], (long long)p.conv.in,
                 (long long)p.conv.out, (long long)p.conv.kernel[1], (long long)p.conv.stride[1], (long long)engine);
}

static void test_relu_engines(void **state) {
    (void)state;
    static const tcc_dtype types[] = {TCC_F16, TCC_BF16, TCC_F32, TCC_F32};
    static const struct {
        int64_t size, in, out;
        int kernel;
    } shapes[] = {{28, 64, 128, 3}, {56, 256, 64, 1}, {14, 512, 512, 3}};
    if (!cudnn_planners_available()) skip();
    for (int device = 0; device < n_cudnn_planners; device++)
        for (int t = 0; t < 4; t++) {
            tcc_cudnn_conv_params p;
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
                p = conv(types[t], shapes[i].size, shapes[i].in, shapes[i].out, shapes[i].kernel, 1, 1);
                p.allow_tf32 = t == 2;
                check_relu_engine(device, p);
            }
            for (int i = 0; i < 32; i++) { /* few channels have engines of their own */
                p = conv(types[t], 12, 8 << (i & 3), 8 << (i >> 2 & 3), i & 16 ? 3 : 1, 1, 1);
                p.allow_tf32 = t == 2;
                check_relu_engine(device, p);
            }
        }
}

/* What test_cuda_cudnn runs on a GPU. */
static void test_forms(void **state) {
    (void)state;
    if (!cudnn_planners_available()) skip();
    for (int i = 0; i < CONV_FORMS; i++)
        for (int kind = TCC_CUDNN_CONV_FORWARD; kind <= TCC_CUDNN_CONV_FILTER_GRADIENT; kind++) {
            const tcc_cudnn_conv_params p = conv_form(i);
            check_planned((tcc_cudnn_conv_kind)kind, &p);
        }
}

/* A variant pack is taken, with workspace and without; the run itself wants a device. */
static void test_packs(void **state) {
    (void)state;
    static const tcc_cuda_address addresses[] = {0x10000, 0x20000, 0x30000, 0x40000};
    if (!cudnn_planners_available()) skip();
    for (int i = 0; i < 2; i++) {
        tcc_cudnn_graph *g;
        tcc_diag d = {0};
        tcc_cudnn_conv_params p = conv(i ? TCC_F32 : TCC_F16, 28, 64, 128, 3, 1, 1);
        const tcc_cudnn_limits limits = tcc_cudnn_conv_limits(&p);
        assert_ok(tcc_cudnn_graph_create(&cudnn_planners[0].cudnn, &d, &g), &d);
        assert_ok(tcc_cudnn_conv_describe(g, &d, TCC_CUDNN_CONV_FORWARD, &p), &d);
        assert_ok(tcc_cudnn_graph_finish(g, &d, &limits, &p.workspace_bytes), &d);
        assert_error(tcc_cudnn_graph_run(g, &d, addresses, 0x50040), TCC_EUNSUPPORTED, &d,
                     "cudnnBackendExecute: CUDNN_STATUS_BAD_PARAM");
        tcc_cudnn_graph_destroy(g);
        tcc_diag_clear(&d);
    }
}

static void check_refused(tcc_cudnn_conv_kind kind, tcc_cudnn_conv_params p, const char *words) {
    tcc_diag d = {0};
    assert_error(plan(newest(), &d, kind, &p), TCC_EUNSUPPORTED, &d, words);
    tcc_diag_clear(&d);
}

static void test_refusals(void **state) {
    (void)state;
    if (!cudnn_planners_available()) skip();
    tcc_cudnn_conv_params p = conv(TCC_F16, 28, 64, 128, 3, 1, 1);
    p.alignment = 3;
    check_refused(TCC_CUDNN_CONV_FORWARD, p, "cudnnBackendFinalize: CUDNN_STATUS_BAD_PARAM");
    check_refused(TCC_CUDNN_CONV_FORWARD, p, "for a descriptor of type 17");
    check_refused(TCC_CUDNN_CONV_FORWARD, conv(TCC_I64, 28, 64, 128, 3, 1, 1),
                  "cudnn has no engine for it: of 0 proposed");
}

/* --- networks --- */

typedef struct asked {
    int device; /* -1: whatever is asked for is taken */
    int calls, taken;
} asked;

static bool answer(void *user, const char *name, int64_t *params) {
    static const char *const names[] = {"cudnn.conv_forward", "cudnn.conv_data_gradient", "cudnn.conv_filter_gradient"};
    asked *a = user;
    for (int kind = 0; kind < 3; kind++) {
        if (strcmp(name, names[kind])) continue;
        tcc_cudnn_conv_params *p = (tcc_cudnn_conv_params *)params;
        tcc_diag d = {0};
        const bool taken = a->device < 0 || plan(a->device, &d, (tcc_cudnn_conv_kind)kind, p) == TCC_OK;
        if (!taken && !strstr(tcc_diag_text(&d), " bytes of workspace or more"))
            fail_msg("%s: %s", name, tcc_diag_text(&d));
        if (a->device < 0) p->workspace_bytes = 0;
        tcc_diag_clear(&d);
        a->calls++;
        a->taken += taken;
        return taken;
    }
    return false;
}

#define TO_LAYOUT "autodiff,train-step,decompose,simplify,layout,simplify"

/* A step of training, as the pipeline makes it; it takes over `g`. */
static void compile_step(tcc_graph *g, const tcc_amp_spec *amp, bool tf32, asked *a, tcc_graph **planned,
                         tcc_program **program) {
    tcc_context cx;
    tcc_llvm_target target;
    assert_ok(tcc_context_init(&cx), &cx.diag);
    assert_ok(tcc_llvm_target_cuda("sm_90", NULL, &cx.diag, &target), &cx.diag);
    tcc_graph *step =
        run_passes(g, amp ? "amp,simplify," TO_LAYOUT : "simplify," TO_LAYOUT,
                   &(tcc_pass_options){.amp = amp, .train = true, .spec = {.optimizer = TCC_SGD, .n_groups = 1}});
    const compiled_options options = {.takes_call = answer, .takes_call_user = a, .tf32 = tf32, .prefer = "cudnn"};
    compiled_build(step, &options, &target, &cx, planned, program);
    tcc_graph_destroy(g);
    tcc_graph_destroy(step);
    tcc_llvm_target_clear(&target);
    tcc_context_clear(&cx);
}

static void compile_network(const char *model, int scale, bool tf32, asked *a, tcc_graph **planned,
                            tcc_program **program) {
    tcc_diag d = {0};
    compile_step(model_graph(model, scale, &d), NULL, tf32, a, planned, program);
    tcc_diag_clear(&d);
}

static bool reads_only_inputs(const tcc_program *p, const tcc_step *s) {
    for (int i = 0; i < s->n_instances; i++) /* the result is the last buffer of work that only moves */
        for (int k = 0; k + 1 < p->kernels[s->kernel].n_buffers; k++)
            if (s->instances[i].buffers[k].space != TCC_SPACE_BINDING) return false;
    return true;
}

/* Nothing moves between convolutions: only images on the way in and weights change their layout, in their own steps;
 * the optimizer reads gradients of weights in theirs. `moves`: values that move, however many a launch takes; `inside`:
 * launches that move a gradient where the channels-last part ends. */
static void check_moves(const char *model, int scale, int calls, int moves, int inside) {
    asked a = {.device = -1};
    tcc_graph *planned;
    tcc_program *p;
    compile_network(model, scale, false, &a, &planned, &p);
    int found_calls = 0, found_moves = 0, found_inside = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const tcc_step *s = &p->steps[i];
        const bool moves_only = s->kind == TCC_STEP_COPY ||
                                (s->kind == TCC_STEP_KERNEL &&
                                 (!strcmp(s->label, "transpose") || !strcmp(s->label, "reshape")));
        found_calls += s->kind == TCC_STEP_LIBRARY;
        found_moves += !moves_only ? 0 : s->kind == TCC_STEP_COPY ? 1 : s->n_instances;
        found_inside += moves_only && (s->kind == TCC_STEP_COPY || !reads_only_inputs(p, s));
    }
    if (found_calls != calls || found_moves != moves || found_inside != inside) {
        tcc_strbuf list = {0};
        tcc_program_print_steps(&list, p);
        print_message("%s", list.text);
        fail_msg("%s: %d calls, %d moves, %d of them inside", model, found_calls, found_moves, found_inside);
    }
    tcc_program_destroy(p);
    tcc_graph_destroy(planned);
}

static void test_moves(void **state) {
    (void)state;
    check_moves("cnn", 8, 3, 4, 1);      /* images, two weights, and the gradient of what is flattened */
    check_moves("resnet", 8, 57, 21, 0); /* images, and the weights of each convolution */
}

static void test_networks(void **state) {
    (void)state;
    if (!cudnn_planners_available()) skip();
    for (int device = 0; device < n_cudnn_planners; device++)
        for (int tf32 = 0; tf32 < 2; tf32++) {
            asked a = {.device = device};
            tcc_graph *planned;
            tcc_program *p;
            compile_network("resnet", 8, tf32, &a, &planned, &p);
            /* each form is asked about once; in f32 without tensor cores some would copy more than they gain */
            if (a.calls < 20 || (tf32 ? a.taken < a.calls : 4 * a.taken < 3 * a.calls))
                fail_msg("%s, tf32 %d: %d of %d calls are taken", cudnn_planners[device].name, tf32, a.taken, a.calls);
            tcc_program_destroy(p);
            tcc_graph_destroy(planned);
        }
}

static tcc_graph *segmentation_graph(const bench_model *m) {
    tcc_diag d = {0};
    tcc_store store = {0};
    tcc_trace t = {0};
    tcc_graph *g = NULL;
    const tcc_array batch[] = {
        {.name = "x", .dtype = TCC_F32, .rank = 4, .dims = {m->batch, 3, m->crop[0], m->crop[1]}},
        {.name = "y", .dtype = TCC_I32, .rank = 3, .dims = {m->batch, m->crop[0], m->crop[1]}}};
    assert_ok(tcc_trace_begin(&t, m->name, &store, true, batch, 2, &d), &d);
    bench_model_build(&t, (void *)m);
    assert_ok(tcc_trace_end(&t, &g), &d);
    tcc_store_free(&store);
    return g;
}

/* Networks at the size that they are trained with, in bf16: each convolution that is offered to the library is one that
 * it plans. For the suite's time two of the five; TCC_TEST_EVERY_NETWORK has all. */
static void test_segmentation(void **state) {
    (void)state;
    if (!cudnn_planners_available()) skip();
    const tcc_amp_spec amp = {.low = TCC_BF16};
    for (int i = 0; i < n_bench_models; i++) {
        const char *name = bench_models[i].name;
        if (!bench_models[i].crop[0]) continue;
        if (!getenv("TCC_TEST_EVERY_NETWORK") && strcmp(name, "pp_liteseg_t") != 0 && strcmp(name, "segformer_b0") != 0)
            continue;
        asked a = {.device = newest()};
        tcc_graph *planned;
        tcc_program *p;
        int convolutions = 0, own = 0, called = 0;
        compile_step(segmentation_graph(&bench_models[i]), &amp, false, &a, &planned, &p);
        for (int id = 0; id < planned->nodes.count; id++) {
            const tcc_op op = planned->nodes.data[id]->op;
            convolutions += op == TCC_OP_CONV || op == TCC_OP_CONV_GRAD_INPUT || op == TCC_OP_CONV_GRAD_WEIGHT;
        }
        for (int k = 0; k < p->n_steps; k++) {
            const bool here = strstr(p->steps[k].label, "conv") != NULL;
            called += here && p->steps[k].kind == TCC_STEP_LIBRARY;
            own += here && p->steps[k].kind != TCC_STEP_LIBRARY;
        }
        printf("%s: %d convolutions and gradients; cuDNN plans %d of %d forms; %d calls, %d kernels of ours\n", name,
               convolutions, a.taken, a.calls, called, own);
        assert_true(a.calls > 10);
        assert_int_equal(a.taken, a.calls);
        tcc_program_destroy(p);
        tcc_graph_destroy(planned);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_convolutions),
                                       cmocka_unit_test(test_transposed),
                                       cmocka_unit_test(test_engines_are_found_again),
                                       cmocka_unit_test(test_relu_engines),
                                       cmocka_unit_test(test_forms),
                                       cmocka_unit_test(test_packs),
                                       cmocka_unit_test(test_refusals),
                                       cmocka_unit_test(test_moves),
                                       cmocka_unit_test(test_networks),
                                       cmocka_unit_test(test_segmentation)};
    return cmocka_run_group_tests(tests, cudnn_planners_open, cudnn_planners_close);
}
