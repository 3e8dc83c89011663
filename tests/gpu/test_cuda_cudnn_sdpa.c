/* SPDX-License-Identifier: MIT
 * Attention by cuDNN: graphs with packed heads, causal rules and all gradients against the interpreter, what stays with
 * our own kernels and why, what is refused, steps that share a call, and every call of the library failing once. On the
 * stand-in; on a GPU with the library the graphs alone. */
#include "harness/check.h"
#include "harness/cuda_call.h"
#include "harness/cudnn_device.h"
#include "harness/graphs.h"

#include "codegen/calls.h"
#include "codegen/emit/emitter.h"
#include "runtime/cuda/cudnn_sdpa.h"

#include <stdio.h>
#include <stdlib.h>

/* --- calls */

enum { BATCH = 2, HEADS = 4, WIDTH = 64, WORKSPACE = 1 << 20, AN_EIGHTH = 0x3e000000, TYPES = 9 };

/* Heads as [batch, heads, rows, width]. */
static tcc_sdpa_params attention(tcc_dtype type, int64_t queries, int64_t keys) {
    tcc_sdpa_params p = {.batch = BATCH,
                         .heads = HEADS,
                         .kv_heads = HEADS,
                         .queries = queries,
                         .keys = keys,
                         .width = WIDTH,
                         .value_width = WIDTH,
                         .type = type,
                         .scale_bits = AN_EIGHTH,
                         .lse = 1,
                         .alignment = 16,
                         .workspace_bytes = WORKSPACE};
    int64_t *const strides[] = {p.q_stride,  p.k_stride,  p.v_stride,  p.o_stride,
                                p.do_stride, p.dq_stride, p.dk_stride, p.dv_stride};
    static const bool by_key[] = {false, true, true, false, false, false, true, true};
    for (int i = 0; i < 8; i++) {
        strides[i][2] = WIDTH;
        strides[i][1] = (by_key[i] ? keys : queries) * WIDTH;
        strides[i][0] = HEADS * strides[i][1];
    }
    return p;
}

static call_shape shape_of(bool backward, const tcc_sdpa_params *p) {
    static const char roles[2][TYPES + 1] = {"qkkql", "qkkqlqqkk"};
    call_shape s = {.entry = backward ? "cudnn.sdpa_backward" : "cudnn.sdpa_forward",
                    .n_params = TCC_SDPA_FORWARD_PARAMS,
                    .n_buffers = backward ? 9 : 5,
                    .n_outputs = backward ? 3 : 2,
                    .workspace_bytes = p->workspace_bytes};
    for (int i = 0; i < s.n_buffers; i++) {
        const char role = roles[backward][i];
        const int64_t rows = p->batch * p->heads * (role == 'k' ? p->keys : p->queries);
        s.types[i] = role == 'l' ? (tcc_type){TCC_F32, 1, {rows}}
                                 : (tcc_type){(tcc_dtype)p->type, 1, {rows * p->width}};
    }
    return s;
}

/* Whether there is a device with the library that takes attention; says why not. */
static bool available(void) {
    tcc_sdpa_params p = attention(TCC_F16, 128, 128);
    const call_shape shape = shape_of(false, &p);
    return call_available(call_program(&shape, (const int64_t *)&p));
}

static void check_refused(bool backward, const tcc_sdpa_params *p, tcc_status expected, const char *words) {
    const call_shape shape = shape_of(backward, p);
    check_call_refused(call_program(&shape, (const int64_t *)p), expected, words);
}

static void test_refused(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    tcc_sdpa_params p = attention(TCC_F16, 128, 128), odd = attention(TCC_F16, 128, 192), wrong = p,
                    later = attention(TCC_BF16, 100, 200);
    check_refused(true, &odd, TCC_EUNSUPPORTED,
                  "gradients of attention by cudnn can be NaN unless 128 divides the numbers of queries and keys");
    check_refused(true, &odd, TCC_EUNSUPPORTED,
                  "for cudnn.sdpa_backward of 2 x 4 heads, 128 queries and 192 keys of width 64, values of width 64");
    wrong.type = TCC_F32;
    check_refused(false, &wrong, TCC_EFORMAT, "cudnn.sdpa_forward: type must be f16 or bf16");
    wrong = later;
    wrong.causal = 1, wrong.keys = 99;
    check_refused(false, &wrong, TCC_EFORMAT, "the first queries see no key");
    later.causal = 1;
    setenv("CUDNNSIM_VERSION", "90501", 1);
    check_refused(
        false, &later, TCC_EUNSUPPORTED,
        "before cudnn 9.6, causal attention to earlier keys wants numbers of queries and keys that 64 divides");
    setenv("CUDNNSIM_VERSION", "91001", 1);
    check_refused(false, &p, TCC_EUNSUPPORTED, "attention of cudnn 9.10.0 and 9.10.1 is wrong");
    unsetenv("CUDNNSIM_VERSION");
    dnn.refuse(~0u);
    check_refused(false, &p, TCC_EUNSUPPORTED, "cudnn has no engine for it: of 6 proposed");
    dnn.refuse(0);
    p.workspace_bytes = 4000; /* sums of 1024 queries */
    check_refused(true, &p, TCC_EUNSUPPORTED, "sums take 4096 bytes of workspace, of 4000");
    setenv("TCC_LIBRARIES", "none", 1);
    check_refused(false, &odd, TCC_EUNSUPPORTED, "cudnn: switched off by TCC_LIBRARIES");
    unsetenv("TCC_LIBRARIES");
}

static void test_failures(void **state) {
    (void)state;
    skip_without(dnn.inject, STAND_IN_FAILS);
    const tcc_sdpa_params p = attention(TCC_F16, 128, 128);
    for (int backward = 0; backward < 2; backward++) {
        const call_shape shape = shape_of(backward, &p);
        const cudnn_failures all = cudnn_fail_each_call(&shape, (const int64_t *)&p, 5000,
                                                        ": CUDNN_STATUS_EXECUTION_FAILED", TCC_EDEVICE);
        assert_true(all.failed >= 150 && all.done == 0);
    }
}

/* Calls with equal params are one: for codegen's question, for the program, and for all its steps. */
static void test_calls_are_shared(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    if (!available()) skip();
    rig c;
    cudnnsim_counts before, after;
    tcc_sdpa_params p = attention(TCC_F16, 128, 128), asked = p, other = p;
    const call_shape shape = shape_of(false, &p);
    assert_ok(rig_start(&c, call_program(&shape, (const int64_t *)&p)), &c.cx.diag);
    dnn.get_counts(&before);
    assert_true(c.device->ops->takes_call(c.device, &c.cx, shape.entry, (int64_t *)&asked));
    assert_true(asked.workspace_bytes < p.workspace_bytes);
    const int64_t lowered = asked.workspace_bytes;
    assert_true(c.device->ops->takes_call(c.device, &c.cx, shape.entry, (int64_t *)&asked));
    assert_int_equal(asked.workspace_bytes, lowered);
    dnn.get_counts(&after);
    assert_int_equal(after.made, before.made);
    other.causal = 1;
    assert_true(c.device->ops->takes_call(c.device, &c.cx, shape.entry, (int64_t *)&other));
    dnn.get_counts(&after);
    assert_true(after.made > before.made);
    rig_stop(&c);
}

/* --- graphs */

typedef struct packed {
    const char *type;
    int queries, keys;
    const char *attrs; /* "scale=0.125, causal=true" */
    bool lse, gradients;
} packed;

/* Appends slice, reshape and transpose of a part of %`from`, [BATCH, rows, parts * HEADS * WIDTH], as heads; `n`: the
 * next number. */
static int add_heads(char *text, const char *type, int from, int rows, int parts, int part, int n) {
    char *to = text + strlen(text);
    if (parts > 1) {
        to += sprintf(
            to, "  %%%d = slice(%%%d) {start=[0, 0, %d], limit=[%d, %d, %d], stride=[1, 1, 1]} : %s[%d,%d,%d]\n", n,
            from, part * HEADS * WIDTH, BATCH, rows, (part + 1) * HEADS * WIDTH, type, BATCH, rows, HEADS * WIDTH);
        from = n++;
    }
    to += sprintf(to, "  %%%d = reshape(%%%d) : %s[%d,%d,%d,%d]\n", n, from, type, BATCH, rows, HEADS, WIDTH);
    sprintf(to, "  %%%d = transpose(%%%d) {perm=[0, 2, 1, 3]} : %s[%d,%d,%d,%d]\n", n + 1, n, type, BATCH, HEADS, rows,
            WIDTH);
    return n + 2;
}

/* Heads back as [BATCH, rows, HEADS * WIDTH]. */
static int add_merged(char *text, const char *type, int from, int rows, int n) {
    sprintf(text + strlen(text),
            "  %%%d = transpose(%%%d) {perm=[0, 2, 1, 3]} : %s[%d,%d,%d,%d]\n  %%%d = reshape(%%%d) : %s[%d,%d,%d]\n",
            n, from, type, BATCH, rows, HEADS, WIDTH, n + 1, n, type, BATCH, rows, HEADS * WIDTH);
    return n + 2;
}

/* Attention as a layer has it: q, k and v side by side, or q apart where there are more keys; the gradients again side
 * by side. */
static void write_layer(const packed *s, char *text) {
    const bool apart = s->queries != s->keys;
    sprintf(text,
            "graph @layer {\n  %%0 = input {name=\"q\"} : %s[%d,%d,%d]\n  %%1 = input {name=\"kv\"} : %s[%d,%d,%d]\n  "
            "%%2 = input {name=\"do\"} : %s[%d,%d,%d]\n",
            s->type, BATCH, s->queries, HEADS * WIDTH, s->type, BATCH, s->keys, 3 * HEADS * WIDTH, s->type, BATCH,
            s->queries, HEADS * WIDTH);
    int n = 3;
    const int q = (n = add_heads(text, s->type, apart ? 0 : 1, s->queries, apart ? 1 : 3, 0, n)) - 1,
              k = (n = add_heads(text, s->type, 1, s->keys, 3, 1, n)) - 1;
    const int v = (n = add_heads(text, s->type, 1, s->keys, 3, 2, n)) - 1, o = n++;
    sprintf(text + strlen(text), "  %%%d = sdpa(%%%d, %%%d, %%%d) {%s} : %s[%d,%d,%d,%d]\n", o, q, k, v, s->attrs,
            s->type, BATCH, HEADS, s->queries, WIDTH);
    const int merged = (n = add_merged(text, s->type, o, s->queries, n)) - 1;
    char outputs[256];
    int used = sprintf(outputs, "  output \"o\" %%%d\n", merged);
    if (s->lse) {
        const int lse = n++;
        sprintf(text + strlen(text), "  %%%d = sdpa_lse(%%%d, %%%d) {%s} : f32[%d,%d,%d]\n", lse, q, k, s->attrs, BATCH,
                HEADS, s->queries);
        if (!s->gradients) sprintf(outputs + used, "  output \"lse\" %%%d\n", lse);
        if (s->gradients) {
            const int d_o = (n = add_heads(text, s->type, 2, s->queries, 1, 0, n)) - 1;
            static const char names[] = "qkv";
            int d[3];
            for (int i = 0; i < 3; i++) {
                const int rows = i ? s->keys : s->queries, gradient = n++;
                sprintf(text + strlen(text),
                        "  %%%d = sdpa_grad_%c(%%%d, %%%d, %%%d, %%%d, %%%d, %%%d) {%s} : %s[%d,%d,%d,%d]\n", gradient,
                        names[i], q, k, v, o, lse, d_o, s->attrs, s->type, BATCH, HEADS, rows, WIDTH);
                d[i] = (n = add_merged(text, s->type, gradient, rows, n)) - 1;
            }
            if (apart) {
                for (int i = 0; i < 3; i++) used += sprintf(outputs + used, "  output \"d%c\" %%%d\n", names[i], d[i]);
            } else {
                sprintf(text + strlen(text), "  %%%d = concat(%%%d, %%%d, %%%d) {axis=2} : %s[%d,%d,%d]\n", n, d[0],
                        d[1], d[2], s->type, BATCH, s->queries, 3 * HEADS * WIDTH);
                sprintf(outputs + used, "  output \"d\" %%%d\n", n);
            }
        }
    }
    strcat(text, outputs);
    strcat(text, "}\n");
}

static void check_layer(packed s, int calls, int steps) {
    char text[8192];
    write_layer(&s, text);
    check_graph_on_cuda(text, &(compiled_options){.tolerance = !strcmp(s.type, "bf16") ? 3e-2 : 4e-3}, calls, steps);
}

static void test_layers(void **state) {
    (void)state;
    if (!available()) skip();
    /* a third step: o is wanted in two orders */
    check_layer((packed){"f16", 128, 128, "scale=0.125, causal=true", true, true}, 2, 3);
    check_layer((packed){"bf16", 128, 256, "scale=0.125, causal=true", true, true}, 2, 3);
    check_layer((packed){"bf16", 128, 128, "scale=0.1", true, true}, 2, 3);
    check_layer((packed){"f16", 128, 128, "scale=0.125", false, false}, 1, 1);
    check_layer((packed){"f16", 100, 180, "scale=0.25, causal=true", true, false}, 1, 1);
}

/* Heads that share keys: two of each, all of them, and of one batch. */
static void test_shared_keys(void **state) {
    (void)state;
    if (!available()) skip();
    static const attention_graph all[] = {
        {"2,2,2,", 128, 128, WIDTH, WIDTH, "scale=0.125, causal=true", .type = "f16", .shared = "2,2,1,"},
        {"3,4,", 128, 256, WIDTH, WIDTH, "scale=0.125, causal=true", .type = "bf16", .shared = "3,1,"},
        {"1,2,4,", 128, 128, WIDTH, WIDTH, "scale=0.1", .type = "bf16", .shared = "1,2,1,"},
        {"4,3,", 128, 128, WIDTH, WIDTH, "scale=0.1", .type = "f16", .shared = "4,1,"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[4096];
        attention_graph_text(text, sizeof text, &all[i]);
        const bool wide = !strcmp(all[i].type, "f16");
        check_graph_on_cuda(text, &(compiled_options){.tolerance = wide ? 4e-3 : 3e-2}, 2, 2);
    }
}

/* Keys that were repeated in front are read as shared ones; but each head wants a gradient, which the library does not
 * give. */
static void test_repeated_keys(void **state) {
    (void)state;
    if (!available()) skip();
#define TYPE " : f16[2,4,128,64]\n"
    check_graph_on_cuda(
        "graph @repeated {\n  %0 = input {name=\"q\"}" TYPE "  %1 = input {name=\"k\"} : f16[2,1,128,64]\n"
        "  %2 = input {name=\"v\"} : f16[2,1,128,64]\n  %3 = input {name=\"do\"}" TYPE
        "  %4 = broadcast(%1) {dims=[0, 1, 2, 3]}" TYPE "  %5 = broadcast(%2) {dims=[0, 1, 2, 3]}" TYPE
        "  %6 = sdpa(%0, %4, %5) {scale=0.125}" TYPE "  %7 = sdpa_lse(%0, %4) {scale=0.125} : f32[2,4,128]\n"
        "  %8 = sdpa_grad_q(%0, %4, %5, %6, %7, %3) {scale=0.125}" TYPE
        "  %9 = sdpa_grad_k(%0, %4, %5, %6, %7, %3) {scale=0.125}" TYPE
        "  %10 = sdpa_grad_v(%0, %4, %5, %6, %7, %3) {scale=0.125}" TYPE
        "  output \"o\" %6\n  output \"dq\" %8\n  output \"dk\" %9\n  output \"dv\" %10\n}\n",
        &(compiled_options){.tolerance = 4e-3}, 1, 3);
#undef TYPE
}

/* The gradients are our own kernels' where the library's may be wrong; the forward pass remains the library's. */
static void test_layer_in_part(void **state) {
    (void)state;
    skip_without(dnn.refuse, STAND_IN_REFUSES);
    if (!available()) skip();
    check_layer((packed){"f16", 96, 192, "scale=0.125, causal=true", true, true}, 1, 4);
    dnn.refuse(~0u);
    check_layer((packed){"f16", 100, 180, "scale=0.25, causal=true", true, false}, 0, 1);
}

/* --- what is not asked for */

static int asked;

static bool take_all(void *user, const char *name, int64_t *params) {
    (void)user;
    (void)name;
    (void)params;
    asked++;
    return true;
}

/* Compiled for a library that takes every call, of which it is asked for so many: `words` say why ours does the rest.
 */
static void check_own(const char *text, const char *arch, int calls, const char *words) {
    tcc_context cx = {0};
    assert_ok(tcc_context_init(&cx), &cx.diag);
    tcc_strbuf logged = {0};
    keep_log(&cx, TCC_LOG_FUSION, &logged);
    asked = 0;
    tcc_graph *g = parse_graph(text, &cx.diag), *planned;
    tcc_llvm_target target;
    tcc_program *program;
    assert_ok(tcc_llvm_target_cuda(arch, NULL, &cx.diag, &target), &cx.diag);
    compiled_build(g, &(compiled_options){.takes_call = take_all}, &target, &cx, &planned, &program);
    assert_int_equal(asked, calls);
    if (!logged.text || !strstr(logged.text, words)) fail_msg("the log says \"%s\", not \"%s\"", logged.text, words);
    tcc_strbuf_free(&logged);
    tcc_program_destroy(program);
    tcc_llvm_target_clear(&target);
    tcc_graph_destroy(g);
    tcc_graph_destroy(planned);
    tcc_context_clear(&cx);
}

static void check_own_sdpa(const char *dims_q, const char *dims_k, const char *type, const char *mask, const char *arch,
                           const char *words) {
    char text[2048], operand[128] = "";
    if (mask) snprintf(operand, sizeof operand, "  %%3 = input {name=\"m\"} : %s[%s]\n", type, mask);
    snprintf(text, sizeof text,
             "graph @a {\n  %%0 = input {name=\"q\"} : %s[%s]\n  %%1 = input {name=\"k\"} : %s[%s]\n  %%2 = input "
             "{name=\"v\"} : %s[%s]\n%s  %%%d = sdpa(%%0, %%1, %%2%s) "
             "{scale=0.125} : %s[%s]\n  output \"o\" %%%d\n}\n",
             type, dims_q, type, dims_k, type, dims_k, operand, mask ? 4 : 3, mask ? ", %3" : "", type, dims_q,
             mask ? 4 : 3);
    check_own(text, arch, 0, words);
}

static void test_not_asked(void **state) {
    (void)state;
    check_own_sdpa("2,4,128,64", "2,4,128,64", "f32", NULL, "sm_80",
                   "our own kernel for attention of 2 x 4 heads, 128 queries, 128 keys: it is not of f16 or bf16");
    check_own_sdpa("2,4,128,64", "2,4,128,64", "f16", NULL, "sm_75",
                   "it is not of f16 or bf16"); /* there it is computed in f32 */
    check_own_sdpa("2,4,128,64", "2,4,128,64", "f16", "2,4,128,128", "sm_80",
                   "a query whose mask hides all keys would not give 0");
    check_own_sdpa("2,2,4,128,64", "2,2,4,128,64", "bf16", NULL, "sm_80",
                   "more batch dims than a batch, heads, and heads that share keys");
    check_own_sdpa("2,4,64,64", "2,4,64,64", "bf16", NULL, "sm_80", "it is small");
    char text[8192];
    attention_graph_text(
        text, sizeof text,
        &(attention_graph){"2,4,", 128, 128, 64, 64, "scale=0.125", .p = 0.2, .type = "f16", .forward = true});
    check_own(text, "sm_80", 0, "its dropout would draw other random numbers");
    /* the gradient by v alone */
    const packed later = {"f16", 128, 256, "scale=0.125", true, true};
    write_layer(&later, text);
    char *dq = strstr(text, "  output \"dq\""), *dv = strstr(text, "  output \"dv\"");
    memmove(dq, dv, strlen(dv) + 1);
    check_own(text, "sm_80", 1,
              "our own kernel for gradients of attention of 2 x 4 heads, 128 queries, 256 keys: not all of its "
              "gradients are wanted");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CUDNN_TEST(test_refused),     CUDNN_TEST(test_failures),      CUDNN_TEST(test_calls_are_shared),
        CUDNN_TEST(test_layers),      CUDNN_TEST(test_layer_in_part), CUDNN_TEST(test_not_asked),
        CUDNN_TEST(test_shared_keys), CUDNN_TEST(test_repeated_keys),
    };
    return cmocka_run_group_tests(tests, cudnn_set_up, NULL);
}
