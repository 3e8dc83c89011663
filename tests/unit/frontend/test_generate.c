/* SPDX-License-Identifier: MIT
 * Text from a language model: draws, windows, what is given when, and what is refused. */
#include "frontend/run/sampler.h"
#include "harness/check.h"
#include "harness/files.h"
#include "ir/support/alloc.h"
#include "ir/support/context.h"
#include "traincc/run.h"
#include "traincc/traincc.h"

#include <math.h>
#include <stdlib.h>

/* ---- draws ---- */

enum { DRAWS = 20000 };

static void expect_shares(tcc__sampler s, const double shares[5]) {
    static const float logits[5] = {-2.9957323f, -0.6931472f, -1.2039728f, -INFINITY,
                                    -1.8971200f}; /* 5, 50, 30, 0, 15 % */
    tcc__candidate candidates[5];
    int counts[5] = {0};
    s.candidates = candidates;
    s.state = 7;
    for (int i = 0; i < DRAWS; i++) counts[tcc__sampler_draw(&s, logits, 5)]++;
    for (int i = 0; i < 5; i++) {
        const double share = counts[i] / (double)DRAWS;
        if (fabs(share - shares[i]) > 0.015 || (shares[i] == 0 && counts[i]))
            fail_msg("token %d: %g of the draws, should be %g", i, share, shares[i]);
    }
}

static void draws(void **state) {
    (void)state;
    expect_shares((tcc__sampler){.temperature = 1, .top_p = 1}, (double[]){0.05, 0.5, 0.3, 0, 0.15});
    expect_shares((tcc__sampler){.temperature = 0, .top_p = 1}, (double[]){0, 1, 0, 0, 0});
    expect_shares((tcc__sampler){.temperature = 0.5, .top_p = 1},
                  (double[]){0.0025 / 0.365, 0.25 / 0.365, 0.09 / 0.365, 0, 0.0225 / 0.365});
    expect_shares((tcc__sampler){.temperature = 1, .top_k = 2, .top_p = 1}, (double[]){0, 0.625, 0.375, 0, 0});
    expect_shares((tcc__sampler){.temperature = 1, .top_k = 9, .top_p = 1}, (double[]){0.05, 0.5, 0.3, 0, 0.15});
    expect_shares((tcc__sampler){.temperature = 1, .top_p = 0.75}, (double[]){0, 0.625, 0.375, 0, 0});
    expect_shares((tcc__sampler){.temperature = 1, .top_p = 1e-6}, (double[]){0, 1, 0, 0, 0});
    /* The nucleus is of what the likeliest three leave: 50 and 30 of 95 have 0.84. */
    expect_shares((tcc__sampler){.temperature = 1, .top_k = 3, .top_p = 0.84}, (double[]){0, 0.625, 0.375, 0, 0});
}

/* The k likeliest of many, equal ones by their ids. */
static void likeliest(void **state) {
    (void)state;
    enum { COUNT = 1000 };
    float logits[COUNT];
    tcc__candidate candidates[COUNT];
    for (int i = 0; i < COUNT; i++) logits[i] = (float)(i * 7919 % 97);
    tcc__sampler s = {.temperature = 1e6, .top_p = 1, .top_k = 15, .state = 3, .candidates = candidates};
    bool drawn[COUNT] = {false};
    for (int i = 0; i < 2000; i++) drawn[tcc__sampler_draw(&s, logits, COUNT)] = true;
    int kept = 0, last = 0;
    for (int i = 0; i < COUNT; i++) {
        if (drawn[i]) {
            kept++;
            assert_true(logits[i] >= 95);
        }
        if (drawn[i] && logits[i] == 95) last = i;
    }
    assert_int_equal(kept, 15);
    for (int i = 0; i < last; i++) assert_true(drawn[i] || logits[i] < 95);
    logits[5] = NAN;
    assert_int_equal(tcc__sampler_draw(&s, logits, COUNT), -1);
    logits[5] = INFINITY;
    assert_int_equal(tcc__sampler_draw(&s, logits, COUNT), -1);
}

/* ---- a model ---- */

enum { CONTEXT = 80 };

typedef struct fixture {
    tcc_context *cx;
    tcc_dataset *data;
    tcc_model *model;
    int64_t vocab;
} fixture;

static void gpt(tcc_trace *t, void *user) {
    const fixture *f = user;
    const tcc_gpt_options o = {.layers = 1, .heads = 2, .width = 16, .context = CONTEXT, .vocab = f->vocab};
    const tcc_tensor tokens = tcc_input(t, "x");
    const bool writes = tcc_has_input(t, "at");
    tcc_output(t, "logits", writes ? tcc_gpt_next(t, tokens, tcc_input(t, "at"), &o) : tcc_gpt(t, tokens, &o));
}

static void open_fixture(void **state, bool bytes, fixture *f) {
    tcc_dataset_info info;
    assert_int_equal(tcc_context_create(&f->cx), TCC_OK);
    tcc_strbuf text = {0};
    for (int i = 0; i < 40; i++) tcc_strbuf_add(&text, "héllo wörld 𝄞!\n");
    tcc_data_options o = {.size = sizeof o,
                          .kind = "text",
                          .path = test_write_text(state, "text", text.text),
                          .context = CONTEXT,
                          .val_split = -1,
                          .bytes = bytes};
    tcc_strbuf_free(&text);
    assert_ok(tcc_dataset_open(f->cx, &o, &f->data), &f->cx->diag);
    tcc_dataset_get_info(f->data, &info);
    f->vocab = info.classes;
    tcc_model_options how = {.size = sizeof how, .device = "cpu", .seed = 5};
    assert_ok(tcc_model_create(f->cx, gpt, f, &how, &f->model), &f->cx->diag);
}

static void close_fixture(fixture *f) {
    tcc_model_destroy(f->model);
    tcc_dataset_close(f->data);
    tcc_context_destroy(f->cx);
}

typedef struct written {
    char text[8192];
    size_t length;
    int pieces, most; /* most: pieces after which it ends; 0: never */
    bool whole;       /* each piece is UTF-8 by itself */
} written;

static bool is_whole(const char *text, size_t length) {
    for (size_t i = 0; i < length;) {
        const unsigned char c = (unsigned char)text[i];
        const size_t n = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
        if (!n || i + n > length) return false;
        i += n;
    }
    return true;
}

static bool take(void *user, const char *text, size_t length) {
    written *w = user;
    assert_true(length > 0 && w->length + length < sizeof w->text);
    memcpy(w->text + w->length, text, length);
    w->text[w->length += length] = '\0';
    w->whole = w->whole && is_whole(text, length);
    return ++w->pieces != w->most;
}

static written write_text(const fixture *f, tcc_generate_options o, int64_t *count) {
    written w = {.whole = true, .most = count ? (int)*count : 0};
    o.size = sizeof o;
    if (!o.prompt) o.prompt = "hé";
    assert_ok(tcc_generate(f->cx, f->model, f->data, &o, take, &w, count), &f->cx->diag);
    return w;
}

/* What is given is the text of the tokens; the same seed gives the same, also past the context. */
static void the_same_text(void **state) {
    fixture f;
    open_fixture(state, false, &f);
    int64_t count = 0;
    const written a = write_text(&f, (tcc_generate_options){.length = 150, .temperature = 1, .seed = 3}, &count),
                  b = write_text(&f, (tcc_generate_options){.length = 150, .temperature = 1, .seed = 3}, NULL),
                  other = write_text(&f, (tcc_generate_options){.length = 150, .temperature = 1, .seed = 4}, NULL);
    assert_int_equal(count, 150);
    assert_int_equal(a.pieces, 150);
    assert_true(a.whole);
    assert_string_equal(a.text, b.text);
    assert_string_not_equal(a.text, other.text);
    const written greedy = write_text(&f, (tcc_generate_options){.length = 30}, NULL),
                  one = write_text(&f, (tcc_generate_options){.length = 30, .temperature = 2, .top_k = 1}, NULL);
    assert_string_equal(greedy.text, one.text);
    count = 7; /* the caller ends it */
    const written ended = write_text(&f, (tcc_generate_options){.temperature = 1, .seed = 3}, &count);
    assert_int_equal(count, 7);
    assert_memory_equal(ended.text, a.text, ended.length);
    close_fixture(&f);
}

/* A text begins anew with what was written, so windows do not change what follows. */
static void goes_on(void **state) {
    fixture f;
    open_fixture(state, false, &f);
    const written whole = write_text(&f, (tcc_generate_options){.length = 74}, NULL);
    for (int cut = 60; cut < 70; cut += 3) { /* around the length of the first window */
        char prompt[512] = "hé";
        const written first = write_text(&f, (tcc_generate_options){.length = cut}, NULL);
        strcat(prompt, first.text);
        const written rest = write_text(&f, (tcc_generate_options){.prompt = prompt, .length = 74 - cut}, NULL);
        assert_string_equal(rest.text, whole.text + first.length);
    }
    close_fixture(&f);
}

/* With bytes as tokens a character comes when it is whole, and what never becomes one at the end. */
static void whole_characters(void **state) {
    fixture f;
    open_fixture(state, true, &f);
    const written w = write_text(&f, (tcc_generate_options){.length = 2000, .temperature = 1, .seed = 1}, NULL);
    assert_int_equal(w.length, 2000);
    assert_true(w.pieces < 2000); /* some were held back */
    close_fixture(&f);
}

static void stops(void **state) {
    fixture f;
    open_fixture(state, false, &f);
    const written all = write_text(&f, (tcc_generate_options){.length = 200, .temperature = 1, .seed = 9}, NULL);
    for (size_t at = 20; at < 120; at += 33) {
        size_t from = at;
        while (((unsigned char)all.text[from] & 0xC0) == 0x80) from++;
        char stop[16] = {0};
        memcpy(stop, all.text + from, 6);
        const char *first = strstr(all.text, stop);
        const written w =
            write_text(&f, (tcc_generate_options){.length = 200, .temperature = 1, .seed = 9, .stop = stop}, NULL);
        assert_int_equal(w.length, first - all.text);
        assert_memory_equal(w.text, all.text, w.length);
    }
    const written none =
        write_text(&f, (tcc_generate_options){.length = 200, .temperature = 1, .seed = 9, .stop = "never"}, NULL);
    assert_string_equal(none.text, all.text);
    close_fixture(&f);
}

static void refuses(void **state) {
    fixture f;
    open_fixture(state, false, &f);
    char longest[CONTEXT + 2];
    memset(longest, 'h', sizeof longest);
    longest[CONTEXT + 1] = '\0';
    const struct {
        tcc_generate_options o;
        const char *says;
    } cases[] = {{{.prompt = ""}, "the prompt is empty"},
                 {{0}, "the prompt is empty"},
                 {{.prompt = "hox"}, "character 'x' (U+0078) at byte 2 does not occur in the data"},
                 {{.prompt = "ho\xff"}, "the text is not UTF-8 at byte 2"},
                 {{.prompt = longest}, "the prompt has 81 tokens; it must have from 1 to 80, the model's context"},
                 {{.prompt = "h", .temperature = -1}, "temperature is -1"},
                 {{.prompt = "h", .temperature = NAN}, "temperature is nan"},
                 {{.prompt = "h", .top_p = 1.5}, "top_p is 1.5"},
                 {{.prompt = "h", .top_k = -1}, "top_k is -1"},
                 {{.prompt = "h", .length = -3}, "length is -3"},
                 {{.prompt = "h", .stop = ""}, "stop is empty"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tcc_generate_options o = cases[i].o;
        written w = {0};
        o.size = sizeof o;
        assert_error(tcc_generate(f.cx, f.model, f.data, &o, take, &w, NULL), TCC_EINVAL, &f.cx->diag, cases[i].says);
        assert_int_equal(w.length, 0);
    }
    longest[CONTEXT] = '\0';
    write_text(&f, (tcc_generate_options){.prompt = longest, .length = 3}, NULL);
    tcc_array p;
    assert_true(tcc_model_param(f.model, 0, &p));
    for (int64_t i = 0; i < p.dims[0] * p.dims[1]; i++) ((float *)p.data)[i] = NAN;
    tcc_generate_options o = {.size = sizeof o, .prompt = "h"};
    written w = {0};
    assert_error(tcc_generate(f.cx, f.model, f.data, &o, take, &w, NULL), TCC_EINVAL, &f.cx->diag, "infinite or NaN");
    close_fixture(&f);
}

static void out_of_memory(void **state) {
    fixture f;
    open_fixture(state, false, &f);
    write_text(&f, (tcc_generate_options){.length = 80}, NULL); /* programs are there */
    int64_t n = 0;
    for (tcc_status status = TCC_ENOMEM; status != TCC_OK; n++) {
        tcc_generate_options o = {.size = sizeof o, .prompt = "hé", .length = 80, .temperature = 1, .top_p = 0.9};
        written w = {0};
        tcc__alloc_fail_at(n);
        status = tcc_generate(f.cx, f.model, f.data, &o, take, &w, NULL);
        tcc__alloc_fail_at(-1);
        if (status != TCC_OK) assert_int_equal(status, TCC_ENOMEM);
    }
    assert_true(n > 5);
    close_fixture(&f);
}

/* The logits behind one token are those of all at its place. */
static void one_place(void **state) {
    fixture f;
    open_fixture(state, false, &f);
    int32_t x[2 * CONTEXT], at[2] = {79, 11};
    for (int i = 0; i < 2 * CONTEXT; i++) x[i] = (int32_t)(i * 5 % f.vocab);
    const tcc_array batch[2] = {{.name = "x", .dtype = TCC_I32, .rank = 2, .dims = {2, CONTEXT}, .data = x},
                                {.name = "at", .dtype = TCC_I32, .rank = 1, .dims = {2}, .data = at}};
    tcc_array all, one;
    assert_ok(tcc_model_evaluate(f.model, batch, 1), &f.cx->diag);
    assert_ok(tcc_model_output(f.model, "logits", &all), &f.cx->diag);
    float expected[2][64];
    for (int b = 0; b < 2; b++)
        memcpy(expected[b], (float *)all.data + (b * CONTEXT + at[b]) * f.vocab, (size_t)f.vocab * sizeof(float));
    assert_ok(tcc_model_evaluate(f.model, batch, 2), &f.cx->diag);
    assert_ok(tcc_model_output(f.model, "logits", &one), &f.cx->diag);
    assert_true(one.rank == 2 && one.dims[0] == 2 && one.dims[1] == f.vocab);
    for (int b = 0; b < 2; b++)
        for (int64_t i = 0; i < f.vocab; i++)
            assert_true(fabsf(((float *)one.data)[b * f.vocab + i] - expected[b][i]) < 1e-5f);
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(draws), cmocka_unit_test(likeliest),   FOLDER_TEST(the_same_text),
        FOLDER_TEST(goes_on),    FOLDER_TEST(whole_characters), FOLDER_TEST(stops),
        FOLDER_TEST(refuses),    FOLDER_TEST(out_of_memory),    FOLDER_TEST(one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
