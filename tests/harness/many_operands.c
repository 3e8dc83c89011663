/* SPDX-License-Identifier: MIT
 * Networks with hundreds of operands of one kind. */
#include "harness/many_operands.h"
#include "harness/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { WIDTH = 3, MOST = 400, MOST_KERNELS = 80 };

#define OK(cx, call)                                                            \
    do {                                                                        \
        if ((call) != TCC_OK) fail_msg("%s: %s", #call, tcc_context_error(cx)); \
    } while (0)

static const tcc_init normal = {.kind = TCC_INIT_NORMAL, .b = 1};

static tcc_tensor table(tcc_trace *t, int n) { return tcc_param(t, "p", normal, TCC_DIMS(n, WIDTH)); }

static tcc_tensor row(tcc_tensor p, int i) { return tcc_slice(p, 0, i, i + 1); }

/* Weights that differ, and are exact. */
static double weight(int i) { return 1 + (double)(i % 7) / 8; }

static tcc_tensor sum_of_squares(tcc_tensor x) { return tcc_sum(tcc_mul(x, x), TCC_ALL); }

/* -- The networks; `user` is the number of operands -- */

static void rows(tcc_trace *t, void *user) {
    const int n = *(int *)user;
    tcc_tensor p = table(t, n), parts[MOST];
    for (int i = 0; i < n; i++) parts[i] = tcc_scale(row(p, i), weight(i));
    tcc_loss(t, sum_of_squares(tcc_concat(parts, n, 0)));
}

/* The same, each row a matrix of one row, concatenated by eights and then all along an axis of its own. */
static void nested(tcc_trace *t, void *user) {
    const int n = *(int *)user;
    tcc_tensor p = table(t, n), eight[8], parts[MOST / 8 + 1];
    int count = 0, groups = 0;
    for (int i = 0; i < n; i++) {
        eight[count++] = tcc_reshape(tcc_scale(row(p, i), weight(i)), TCC_DIMS(1, 1, WIDTH));
        if (count < 8 && i + 1 < n) continue;
        parts[groups++] = tcc_concat(eight, count, 1);
        count = 0;
    }
    tcc_loss(t, sum_of_squares(tcc_concat(parts, groups, 1)));
}

/* Windows of three rows overlap, and the whole is used as well. */
static void windows(tcc_trace *t, void *user) {
    const int n = *(int *)user;
    tcc_tensor p = table(t, n), parts[MOST];
    for (int i = 0; i + 3 <= n; i++) parts[i] = tcc_slice(p, 0, i, i + 3);
    tcc_loss(t, tcc_add(sum_of_squares(tcc_concat(parts, n - 2, 0)), sum_of_squares(p)));
}

/* A recurrent network that reads a row at each step, and whose states are all used. */
static void recurrent(tcc_trace *t, void *user) {
    const int n = *(int *)user;
    tcc_tensor p = table(t, n), w = tcc_param(t, "w", normal, TCC_DIMS(WIDTH, WIDTH)), states[MOST];
    tcc_tensor h = tcc_input(t, "x");
    for (int i = 0; i < n; i++) states[i] = h = tcc_tanh(tcc_add(tcc_matmul(h, tcc_scale(w, 0.3)), row(p, i)));
    tcc_loss(t, tcc_mean(tcc_mul(tcc_concat(states, n, 0), tcc_concat(states, n, 0)), TCC_ALL));
}

/* -- What is expected -- */

/* d loss / d p[i][.] is factor * p[i][.] */
static double factor_of_row(int i) { return 2 * weight(i) * weight(i); }

static int covering(int i, int n) { /* windows that hold row i */
    int first = i - 2 > 0 ? i - 2 : 0, last = i < n - 3 ? i : n - 3;
    return last - first + 1;
}

static float x[2 * WIDTH] = {0.1f, -0.2f, 0.3f, 0.4f, -0.5f, 0.6f};

/* Loss and the gradient of "p" of the recurrent network, in double. */
static double recurrence(const float *p, const float *w, int n, double *gradient) {
    static double h[MOST + 1][2][WIDTH];
    double loss = 0, count = (double)n * 2 * WIDTH, dh[2][WIDTH] = {{0}};
    for (int r = 0; r < 2; r++)
        for (int c = 0; c < WIDTH; c++) h[0][r][c] = x[r * WIDTH + c];
    for (int i = 0; i < n; i++)
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < WIDTH; c++) {
                double sum = p[i * WIDTH + c];
                for (int k = 0; k < WIDTH; k++) sum += h[i][r][k] * 0.3 * w[k * WIDTH + c];
                h[i + 1][r][c] = tanh(sum);
                loss += h[i + 1][r][c] * h[i + 1][r][c] / count;
            }
    for (int i = n - 1; i >= 0; i--) {
        double before[2][WIDTH] = {{0}};
        for (int c = 0; c < WIDTH; c++) gradient[i * WIDTH + c] = 0;
        for (int r = 0; r < 2; r++)
            for (int c = 0; c < WIDTH; c++) {
                const double y = h[i + 1][r][c], d = (dh[r][c] + 2 * y / count) * (1 - y * y);
                gradient[i * WIDTH + c] += d;
                for (int k = 0; k < WIDTH; k++) before[r][k] += d * 0.3 * w[k * WIDTH + c];
            }
        memcpy(dh, before, sizeof dh);
    }
    return loss;
}

/* -- One step -- */

static void check_net(const char *name, tcc_model_fn net, const char *device, tcc_mode mode, int n) {
    tcc_context *cx;
    tcc_model *m;
    tcc_array batch = {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {2, WIDTH}, .data = x}, p, w, gradient;
    const tcc_model_options o = {.size = sizeof o, .device = device, .mode = mode, .seed = 5, .keep_gradients = true};
    tcc_program_info info;
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, &n, &o, &m));
    tcc_model_set_lr(m, 0);
    OK(cx, tcc_model_train(m, &batch, 1));
    OK(cx, tcc_model_info(m, &info));
    if (n > MOST_KERNELS && info.kernels > MOST_KERNELS) fail_msg("%s of %d: %d kernels", name, n, info.kernels);
    OK(cx, tcc_model_gradient(m, "p", &gradient));
    assert_true(tcc_model_find_param(m, "p", &p));
    const float *values = p.data, *got = gradient.data;
    static double expected[MOST * WIDTH];
    double loss = 0;
    if (net == recurrent) {
        assert_true(tcc_model_find_param(m, "w", &w));
        loss = recurrence(values, w.data, n, expected);
    }
    for (int i = 0; net != recurrent && i < n * WIDTH; i++) {
        const double factor = net == windows ? 2 * (covering(i / WIDTH, n) + 1) : factor_of_row(i / WIDTH);
        expected[i] = factor * values[i];
        loss += factor / 2 * values[i] * values[i];
    }
    if (!(fabs(tcc_model_loss(m) - loss) <= 1e-5 * loss))
        fail_msg("%s of %d: loss %.9g, not %.9g", name, n, tcc_model_loss(m), loss);
    for (int i = 0; i < n * WIDTH; i++)
        if (!(fabs(got[i] - expected[i]) <= 1e-5 * fabs(expected[i]) + 1e-7))
            fail_msg("%s of %d: gradient %d is %.9g, not %.9g", name, n, i, got[i], expected[i]);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

void check_many_operands(const char *device, tcc_mode mode, int n) {
    assert_true(n <= MOST);
    check_net("rows", rows, device, mode, n);
    check_net("nested concats", nested, device, mode, n);
    check_net("windows", windows, device, mode, n);
    check_net("a recurrent network", recurrent, device, mode, n);
}

/* -- Thirty of each -- */

enum { THIRTY = 30, HEAD = 4 };

static tcc_tensor heads(tcc_trace *t, tcc_tensor p) {
    tcc_tensor parts[THIRTY], q = tcc_reshape(p, TCC_DIMS(THIRTY, 1, HEAD, HEAD));
    for (int i = 0; i < THIRTY; i++) {
        tcc_tensor one = tcc_slice(q, 0, i, i + 1);
        parts[i] = tcc_attention(one, one, tcc_scale(one, weight(i)), NULL);
    }
    (void)t;
    return sum_of_squares(tcc_concat(parts, THIRTY, 1));
}

static void thirty(tcc_trace *t, void *user) {
    (void)user;
    tcc_tensor p = tcc_param(t, "p", normal, TCC_DIMS(THIRTY, HEAD * HEAD)), loss = heads(t, p);
    tcc_tensor sum = row(p, 0), product = row(p, 0), scattered = tcc_constant(t, 0, TCC_F32, TCC_DIMS(5, 16));
    tcc_tensor padded = tcc_pad(row(p, 0), 0, 0, THIRTY - 1, 0), rows[THIRTY], means[THIRTY];
    for (int i = 0; i < THIRTY; i++) {
        tcc_tensor one = row(p, i), index = tcc_literal(t, ((double[]){i % 5}), TCC_I32, TCC_DIMS(1));
        sum = tcc_add(sum, tcc_scale(one, weight(i)));
        product = tcc_mul(product, tcc_add_scalar(tcc_scale(one, 0.01), 1));
        scattered = tcc_scatter_add(scattered, index, one, 0);
        padded = tcc_add(padded, tcc_pad(one, 0, i, THIRTY - 1 - i, 0));
        rows[i] = tcc_take(p, index, 0);
        means[i] = tcc_mean(tcc_exp(tcc_scale(one, 0.1)), TCC_ALL);
        loss = tcc_add(loss, means[i]);
        char name[16];
        snprintf(name, sizeof name, "out%d", i);
        tcc_output(t, name, tcc_add(one, sum));
    }
    loss = tcc_add(loss, tcc_add(sum_of_squares(sum), sum_of_squares(product)));
    loss = tcc_add(loss, tcc_add(sum_of_squares(scattered), sum_of_squares(padded)));
    tcc_loss(t, tcc_add(loss, sum_of_squares(tcc_concat(rows, THIRTY, 0))));
}

/* One kernel sums rows and columns of forty blocks added up, each of which lies somewhere in zeros. */
static void blocks(tcc_trace *t, void *user) {
    enum { SIDE = 48, BLOCKS = 40 };
    (void)user;
    tcc_tensor p = tcc_param(t, "p", normal, TCC_DIMS(SIDE, SIDE)), sum = p;
    for (int i = 0; i < BLOCKS; i++) {
        const int top = 1 + i, left = 1 + 7 * i % 40;
        tcc_tensor block = tcc_slice(tcc_slice(p, 0, i, i + 5), 1, i, i + 6);
        block = tcc_pad(block, 0, top, SIDE - 5 - top, 0);
        sum = tcc_add(sum, tcc_pad(block, 1, left, SIDE - 6 - left, 0));
    }
    tcc_tensor columns = tcc_sum(sum, TCC_DIMS(0)), rows = tcc_sum(tcc_mul(sum, sum), TCC_DIMS(1));
    tcc_loss(t, tcc_add(sum_of_squares(columns), tcc_sum(rows, TCC_ALL)));
}

static void verify(tcc_model_fn net, const char *device, tcc_mode mode) {
    tcc_context *cx;
    tcc_model *m;
    const tcc_model_options o = {.size = sizeof o, .device = device, .mode = mode, .seed = 5};
    OK(cx, tcc_context_create(&cx));
    OK(cx, tcc_model_create(cx, net, NULL, &o, &m));
    OK(cx, tcc_model_verify(m, NULL, 0, 0, NULL));
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
}

void check_thirty_of_each(const char *device, tcc_mode mode) { verify(thirty, device, mode); }

void check_forty_blocks(const char *device, tcc_mode mode) { verify(blocks, device, mode); }
