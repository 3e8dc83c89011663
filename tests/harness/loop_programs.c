/* SPDX-License-Identifier: MIT */
#include "harness/loop_programs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program {
    const char *name;
    tcc_tensor (*build)(struct program *p, tcc_tensor x);
    int rank, turns;
    int64_t dims[3];
    uint64_t random;
} program;

static int64_t below(program *p, int64_t n) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((p->random >> 33) % (uint64_t)n);
}

/* -- Turns that read the last one's value at other indices -- */

static tcc_tensor shifted(tcc_tensor y, int axis, int64_t by) {
    const int64_t n = tcc_dim(y, axis);
    return tcc_pad(tcc_slice(y, axis, 0, n - by), axis, by, 0, 0);
}

static tcc_tensor smooth(program *p, tcc_tensor y) {
    const int64_t most = below(p, 5);
    for (int i = 0; i < p->turns; i++) {
        const int64_t by = (int64_t)1 << (i % (most + 1));
        y = tcc_add(tcc_scale(y, 0.9), tcc_scale(shifted(y, 1, by), 0.1));
    }
    return y;
}

static tcc_tensor heat(program *p, tcc_tensor u) {
    const bool around = below(p, 2);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor left = around ? tcc_roll(u, 1, 1) : shifted(u, 1, 1), right = tcc_roll(u, 1, -1);
        u = tcc_add(u, tcc_scale(tcc_add(tcc_add(left, right), tcc_scale(u, -2)), 0.1));
    }
    return u;
}

static tcc_tensor narrow(program *p, tcc_tensor u) {
    for (int i = 0; i < p->turns && tcc_dim(u, 1) > 4; i++) {
        const int64_t n = tcc_dim(u, 1);
        u = tcc_add(tcc_slice(u, 1, 0, n - 1), tcc_scale(tcc_slice(u, 1, 1, n), 0.5));
    }
    return u;
}

static tcc_tensor mirror(program *p, tcc_tensor y) {
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor other = i % 3 == 2 ? tcc_roll(y, 1, 1 + below(p, 8)) : tcc_flip(y, i % 2);
        y = tcc_add(tcc_tanh(y), tcc_scale(other, 0.5));
    }
    return y;
}

static tcc_tensor permute(program *p, tcc_tensor y) {
    const int64_t n = tcc_dim(y, 1), step = 1 + 2 * below(p, 8);
    tcc_tensor at = tcc_iota(y.trace, 0, TCC_I32, TCC_DIMS(n));
    at = tcc_rem(tcc_scale(at, (double)step), tcc_full_like(at, (double)n));
    for (int i = 0; i < p->turns; i++) y = tcc_add(tcc_scale(y, 0.5), tcc_mul(tcc_take(y, at, 1), tcc_sigmoid(y)));
    return y;
}

static tcc_tensor queue(program *p, tcc_tensor y) {
    for (int i = 0; i < p->turns; i++) {
        const int64_t n = tcc_dim(y, 1);
        tcc_tensor next = tcc_mul(tcc_slice(y, 1, n - 1, n), tcc_tanh(tcc_slice(y, 1, 0, 1)));
        y = tcc_concat(((tcc_tensor[]){tcc_slice(y, 1, 1, n), next}), 2, 1);
    }
    return y;
}

static tcc_tensor products(program *p, tcc_tensor x) {
    tcc_tensor y = tcc_cumprod(x, 1);
    if (below(p, 2)) y = tcc_cumprod(tcc_add_scalar(tcc_tanh(y), 1), 1);
    return y;
}

static tcc_tensor product(program *p, tcc_tensor x) {
    (void)p;
    return tcc_prod(x, TCC_DIMS(1));
}

static tcc_tensor extremes(program *p, tcc_tensor x) {
    (void)p;
    return tcc_mul(tcc_cummax(x, 1, NULL), tcc_cumsum(x, 1));
}

/* -- Turns whose value several others read -- */

static tcc_tensor ode(program *p, tcc_tensor y) {
    const double h = 0.05;
    const bool net = below(p, 2);
    for (int i = 0; i < p->turns; i++) {
        tcc_tensor k[4], at = y;
        for (int s = 0; s < 4; s++) {
            k[s] = net ? tcc_tanh(tcc_linear(at, "field", tcc_dim(y, 1))) : tcc_mul(at, tcc_add_scalar(tcc_neg(at), 1));
            at = tcc_add(y, tcc_scale(k[s], s == 2 ? h : h / 2));
        }
        tcc_tensor sum = tcc_add(tcc_add(k[0], k[3]), tcc_scale(tcc_add(k[1], k[2]), 2));
        y = tcc_add(y, tcc_scale(sum, h / 6));
    }
    return y;
}

static tcc_tensor logistic(program *p, tcc_tensor y) {
    for (int i = 0; i < p->turns; i++) y = tcc_mul(tcc_scale(y, 3.2), tcc_add_scalar(tcc_neg(y), 1));
    return y;
}

static tcc_tensor frame(tcc_tensor x, int64_t t) {
    return tcc_reshape(tcc_slice(x, 0, t, t + 1), TCC_DIMS(tcc_dim(x, 1), tcc_dim(x, 2)));
}

static tcc_tensor linear_recurrence(program *p, tcc_tensor x) {
    tcc_tensor h = tcc_scale(frame(x, 0), 0.5), sum = h;
    for (int64_t t = 1; t < tcc_dim(x, 0); t++) {
        h = tcc_add(tcc_mul(h, tcc_sigmoid(frame(x, t))), frame(x, t));
        if (t % 2) sum = tcc_add(sum, h);
    }
    return below(p, 2) ? tcc_add(sum, h) : h;
}

static tcc_tensor cells(program *p, tcc_tensor x) {
    if (below(p, 2)) return tcc_gru(x, "cell", tcc_dim(x, 2)).h;
    tcc_tensor h = tcc_scale(frame(x, 0), 0);
    for (int64_t t = 0; t < tcc_dim(x, 0); t++)
        h = tcc_tanh(tcc_add(tcc_linear(h, "hidden", tcc_dim(x, 2)), frame(x, t)));
    return h;
}

static tcc_tensor ctc(program *p, tcc_tensor x) {
    const int64_t frames = tcc_dim(x, 0), n = tcc_dim(x, 1), labels = 1 + frames / 5;
    (void)p;
    tcc_tensor text = tcc_iota(x.trace, 1, TCC_I32, TCC_DIMS(n, labels)), ones = tcc_add_scalar(tcc_scale(text, 0), 1);
    tcc_tensor of_frames = tcc_add_scalar(tcc_iota(x.trace, 0, TCC_I32, TCC_DIMS(n)), (double)(frames - n));
    tcc_tensor of_labels = tcc_add_scalar(tcc_scale(of_frames, 0), (double)labels);
    return tcc_ctc_loss(tcc_log_softmax(x, -1), ones, of_frames, of_labels);
}

static const struct {
    const char *name;
    tcc_tensor (*build)(program *p, tcc_tensor x);
    int rank;
} kinds[] = {
    {"smooth", smooth, 2},     {"heat", heat, 2},         {"narrow", narrow, 2},
    {"mirror", mirror, 2},     {"permute", permute, 2},   {"queue", queue, 2},
    {"products", products, 2}, {"product", product, 2},   {"extremes", extremes, 2},
    {"ode", ode, 2},           {"logistic", logistic, 2}, {"linear recurrence", linear_recurrence, 3},
    {"cells", cells, 3},       {"ctc", ctc, 3},
};

/* -- Compiling -- */

static program make(uint64_t seed, int most_turns) {
    const uint64_t n = sizeof kinds / sizeof kinds[0];
    program p = {kinds[seed % n].name, kinds[seed % n].build, kinds[seed % n].rank, 1, {0}, 0};
    p.random = seed * 0x9E3779B97F4A7C15u + 1;
    for (int i = 0; i < 5; i++) below(&p, 2);
    for (int i = 0, digits = 1 + (int)below(&p, 3); i < digits; i++) p.turns = 10 * p.turns + (int)below(&p, 10);
    if (p.turns > most_turns) p.turns = 10 + (int)below(&p, most_turns - 9);
    if (p.rank == 3) {
        p.dims[0] = p.turns, p.dims[1] = 1 + below(&p, 8), p.dims[2] = (int64_t)4 << below(&p, 4);
        return p;
    }
    p.dims[0] = (int64_t)1 << below(&p, 7);
    p.dims[1] = ((int64_t)32 << below(&p, 8)) + below(&p, 2);
    return p;
}

static void build(tcc_trace *t, void *user) {
    program p = *(const program *)user;
    tcc_tensor y = p.build(&p, tcc_input(t, "x"));
    tcc_loss(t, tcc_mean(tcc_square(y), TCC_ALL));
}

/* Adds what the launches in the graph's text say. */
static void read_work(const char *text, loop_work *out) {
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        double bytes, flop, ns;
        const char *at = line, *end = strchr(line, '\n');
        out->nodes += !strncmp(line, "  %", 3);
        if (strncmp(line, "    launch ", 11)) continue;
        for (const char *next = at; (next = strstr(next, " bytes ")) && (!end || next < end); next++) at = next;
        if (sscanf(at, " bytes %lf flop %lf ns %lf", &bytes, &flop, &ns) != 3) continue;
        out->bytes += bytes, out->flop += flop, out->ns += ns;
    }
}

tcc_status loop_program_compile(tcc_context *cx, uint64_t seed, int most_turns, tcc_mode mode, const char **name,
                                loop_work *out) {
    program p = make(seed, most_turns);
    tcc_array x = {.name = "x", .dtype = TCC_F32, .rank = p.rank};
    const tcc_model_options options = {
        .size = sizeof options, .compile_only = true, .keep_input_gradients = true, .mode = mode};
    tcc_model *m = NULL;
    tcc_program_info info;
    char *text = NULL;
    int64_t numel = 1;
    *name = p.name;
    *out = (loop_work){0};
    for (int i = 0; i < p.rank; i++) x.dims[i] = p.dims[i], numel *= p.dims[i];
    float *zeros = calloc((size_t)numel, sizeof *zeros);
    x.data = zeros;
    tcc_status status = zeros ? tcc_model_create(cx, build, &p, &options, &m) : TCC_ENOMEM;
    if (status == TCC_OK) status = tcc_model_compile(m, true, &x, 1);
    if (status == TCC_OK) status = tcc_model_report(m, "tir", &text);
    if (status == TCC_OK) status = tcc_model_info(m, &info);
    if (status == TCC_OK) read_work(text, out), out->compile_seconds = info.compile_seconds;
    tcc_string_free(text);
    tcc_model_destroy(m);
    free(zeros);
    return status;
}

const char *loop_work_judge(const loop_work *eager, const loop_work *fused) {
    static const double bytes_a_flop = 0.4; /* traffic that takes as long: fuse_cost.c */
    static char text[160];
    const double more = fused->flop - 1.5 * eager->flop, saved = eager->bytes - fused->bytes;
    if (more > 0 && bytes_a_flop * more > saved)
        snprintf(text, sizeof text, "%.3g operations instead of %.3g, to save %.3g bytes", fused->flop, eager->flop,
                 saved);
    else if (fused->ns > eager->ns)
        snprintf(text, sizeof text, "predicted %.0f us, eager's %.0f", fused->ns / 1e3, eager->ns / 1e3);
    else return NULL;
    return text;
}
