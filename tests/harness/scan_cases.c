/* SPDX-License-Identifier: MIT
 * See the header. */
#include "harness/scan_cases.h"
#include "harness/check.h"
#include "harness/graphs.h"

#include <stdio.h>
#include <string.h>

/* 2^24 at both ends of each line, ones between: the first of them alone is large, whichever way the sum goes. */
static void check_long(graph_check *check, const char *type, int axis, bool reverse, double tolerance) {
    char text[1024];
    tcc_diag diag = {0};
    snprintf(text, sizeof text,
             "graph @s {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = abs(%%0) : %s\n  %%2 = cumsum(%%1) {axis=%d%s} : "
             "%s\n  %%3 = neg(%%2) : %s\n  output \"o\" %%3\n}\n",
             type, type, axis, reverse ? ", reverse=true" : "", type, type);
    tcc_graph *g = parse_graph(text, &diag);
    tcc_value x;
    assert_ok(tcc_value_create(&g->inputs.data[0]->type, &x, &diag), &diag);
    int64_t inner = 1, extent = x.type.dims[axis];
    for (int i = axis + 1; i < x.type.rank; i++) inner *= x.type.dims[i];
    for (int64_t i = 0, n = tcc_type_numel(&x.type); i < n; i++) {
        const int64_t at = i / inner % extent;
        x.f[i] = at == 0 || at == extent - 1 ? 16777216 : 1;
    }
    for (int eager = 0; eager < 2; eager++)
        check(g, &(compiled_options){.inputs = &x, .tolerance = tolerance, .eager = eager});
    tcc_value_free(&x);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

void running_sums_of_long_lines(graph_check *check) {
    static const struct {
        const char *type;
        int axis;
    } shapes[] = {{"f32[4000]", 0}, {"f32[3,1003]", 1}, {"f32[2,1000]", 1}, {"f32[2100,5]", 0}, {"f32[2,700,33]", 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int reverse = 0; reverse < 2; reverse++) check_long(check, shapes[i].type, shapes[i].axis, reverse, 1e-7);
}

void running_sums_of_equal_values(graph_check *check) {
    for (int reverse = 0; reverse < 2; reverse++) {
        char text[1024];
        tcc_diag diag = {0};
        snprintf(text, sizeof text,
                 "graph @s {\n  %%0 = input {name=\"x\"} : f32[3,1]\n  %%1 = broadcast(%%0) {dims=[0, 1]} : "
                 "f32[3,69]\n  %%2 = cumsum(%%1) {axis=1%s} : f32[3,69]\n  %%3 = cos(%%2) : f32[3,69]\n"
                 "  %%4 = constant {values=[1]} : i32[69,5]\n  %%5 = cumsum(%%4) {axis=0%s} : i32[69,5]\n"
                 "  %%6 = mul(%%5, %%5) : i32[69,5]\n  output \"o\" %%3\n  output \"p\" %%6\n}\n",
                 reverse ? ", reverse=true" : "", reverse ? ", reverse=true" : "");
        tcc_graph *g = parse_graph(text, &diag);
        check(g, &(compiled_options){.tolerance = 1e-5});
        check(g, &(compiled_options){.tolerance = 1e-5, .eager = true});
        tcc_graph_destroy(g);
        tcc_diag_clear(&diag);
    }
}

/* The shape of an input along `axis` of one, two or three dims. */
static void shape_of(char *text, size_t size, const char *type, int axis, int width) {
    static const char *const forms[] = {"%s[%d,5]", "%s[2,%d,3]", "%s[2,3,%d]"};
    snprintf(text, size, forms[axis], type, width);
}

static void check_linear(graph_check *check, const char *type, int axis, bool reverse,
                         const compiled_options *options) {
    char text[2048], attrs[64];
    snprintf(attrs, sizeof attrs, "{axis=%d%s}", axis, reverse ? ", reverse=true" : "");
    snprintf(
        text, sizeof text,
        "graph @s {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = input {name=\"y\"} : %s\n  %%2 = mul(%%0, %%1) : %s\n"
        "  %%3 = linear_scan(%%0, %%2) %s : %s\n  %%4 = sub(%%3, %%1) : %s\n  %%5 = linear_scan(%%1, %%4) %s : %s\n"
        "  %%6 = linear_scan(%%0) %s : %s\n  %%7 = add(%%6, %%1) : %s\n"
        "  output \"o\" %%4\n  output \"p\" %%5\n  output \"q\" %%7\n}\n",
        type, type, type, attrs, type, type, attrs, type, attrs, type, type);
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    check(g, options);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

void linear_scans(graph_check *check) {
    static const int widths[] = {1, 2, 3, 17, 63, 65, 1000};
    static const char *const types[] = {"f32", "bf16", "f16", "f64", "i32", "i64", "u8"};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int axis = 0; axis < 3; axis++) {
                char type[64];
                shape_of(type, sizeof type, types[t], axis, widths[w]);
                check_linear(check, type, axis, (w + t + (size_t)axis) % 2,
                             &(compiled_options){.seed = w + t, .low = -1, .high = 1, .eager = (w + t) % 3 == 0});
            }
}

/* Lines that hold `rest` but at three places, counted from where a line begins. */
static const struct {
    int at[3];
    double value[3], rest;
    bool infinite;
} lines[] = {
    {{4, 4, 4}, {0}, 1e30, false},                                  /* 0, and products that f64 does not hold */
    {{3, 5, 20}, {1e30, 1e-30, -1e25}, 0.75, false},                /* beyond f32's range and back */
    {{7, 30, 31}, {__builtin_nan(""), 0, 2}, -1, false},            /* NaN stays */
    {{2, 3, 33}, {__builtin_inf(), 0.5, -0.25}, 1.25, true},        /* infinite */
    {{2, 6, 33}, {0, -__builtin_inf(), 1}, 0.5, true},              /* 0 times infinity */
    {{0, 15, 16}, {-__builtin_inf(), 0, __builtin_inf()}, 1, true}, /* in the first place */
};
enum { LINES = sizeof lines / sizeof *lines };

static void fill(tcc_value *v, int axis, bool reverse, bool infinite, int shift) {
    const int64_t inner = axis ? 1 : LINES, width = v->type.dims[axis];
    for (int64_t e = 0, n = tcc_type_numel(&v->type); e < n; e++) {
        const int64_t line = ((axis ? e / width : e % inner) + shift) % LINES, place = e / inner % width,
                      at = reverse ? width - 1 - place : place;
        const bool plain = lines[line].infinite && !infinite;
        v->f[e] = plain ? 0.5 : lines[line].rest;
        for (int k = 0; k < 3 && !plain; k++)
            if (lines[line].at[k] == at) v->f[e] = lines[line].value[k];
    }
}

void linear_scans_of_special_values(graph_check *check, bool infinite) {
    static const int widths[] = {7, 40, 1000};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (int axis = 0; axis < 2; axis++)
            for (int reverse = 0; reverse < 2; reverse++) {
                char text[1024], type[64];
                snprintf(type, sizeof type, axis ? "f32[%d,%d]" : "f32[%2$d,%1$d]", LINES, widths[w]);
                snprintf(text, sizeof text,
                         "graph @s {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = input {name=\"y\"} : %s\n"
                         "  %%2 = linear_scan(%%0) {axis=%d%s} : %s\n  %%3 = linear_scan(%%0, %%1) {axis=%d%s} : %s\n"
                         "  output \"o\" %%2\n  output \"p\" %%3\n}\n",
                         type, type, axis, reverse ? ", reverse=true" : "", type, axis, reverse ? ", reverse=true" : "",
                         type);
                tcc_diag diag = {0};
                tcc_graph *g = parse_graph(text, &diag);
                tcc_value inputs[2];
                for (int i = 0; i < 2; i++) {
                    assert_ok(tcc_value_create(&g->inputs.data[i]->type, &inputs[i], &diag), &diag);
                    fill(&inputs[i], axis, reverse, infinite, 3 * i);
                }
                check(g, &(compiled_options){.inputs = inputs, .eager = true});
                for (int i = 0; i < 2; i++) tcc_value_free(&inputs[i]);
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

tcc_graph *results_both_ways(const char *dtype, int width, bool reverse, tcc_diag *diag) {
    char text[4096], type[64], part[64], one[64], line[64];
    const char *way = reverse ? ", reverse=true" : "", *back = reverse ? "" : ", reverse=true";
    const char *earlier = reverse ? "lo=[0, 0, 0], hi=[0, 0, 1]" : "lo=[0, 0, 1], hi=[0, 0, 0]",
               *later = reverse ? "lo=[0, 0, 1], hi=[0, 0, 0]" : "lo=[0, 0, 0], hi=[0, 0, 1]";
    const int first = reverse, last = !reverse, end = reverse ? 0 : width - 1;
    snprintf(type, sizeof type, "%s[2,5,%d]", dtype, width);
    snprintf(part, sizeof part, "%s[2,5,%d]", dtype, width - 1);
    snprintf(one, sizeof one, "%s[2,5,1]", dtype);
    snprintf(line, sizeof line, "%s[2,5]", dtype);
    snprintf(text, sizeof text,
             "graph @s {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = input {name=\"y\"} : %s\n"
             "  %%2 = linear_scan(%%0, %%1) {axis=2%s} : %s\n"
             /* the result of the element before, and of the next one */
             "  %%3 = slice(%%2) {limit=[2, 5, %d], start=[0, 0, %d], stride=[1, 1, 1]} : %s\n"
             "  %%4 = pad(%%3) {%s, interior=[0, 0, 0], value=0x1p+1} : %s\n"
             "  %%5 = sub(%%2, %%0) : %s\n"
             "  %%6 = slice(%%5) {limit=[2, 5, %d], start=[0, 0, %d], stride=[1, 1, 1]} : %s\n"
             "  %%7 = pad(%%6) {%s, interior=[0, 0, 0]} : %s\n"
             "  %%8 = mul(%%7, %%0) : %s\n  %%9 = cumsum(%%8) {axis=2%s} : %s\n  %%10 = mul(%%9, %%4) : %s\n"
             "  %%11 = slice(%%2) {limit=[2, 5, %d], start=[0, 0, %d], stride=[1, 1, 1]} : %s\n"
             "  %%12 = reshape(%%11) : %s\n  %%13 = neg(%%12) : %s\n"
             "  output \"o\" %%10\n  output \"p\" %%2\n  output \"end\" %%13\n}\n",
             type, type, way, type, width - last, first, part, earlier, type, type, width - first, last, part, later,
             type, type, back, type, type, end + 1, end, one, line, line);
    return parse_graph(text, diag);
}

/* What is one step further in lines of two elements is a number's coordinate: the other element. */
static void steps_of_pairs(graph_check *check, bool reverse) {
    char text[1024];
    const char *way = reverse ? ", reverse=true" : "", *back = reverse ? "" : ", reverse=true";
    snprintf(text, sizeof text,
             "graph @s {\n  %%0 = input {name=\"x\"} : f32[70,2]\n  %%1 = linear_scan(%%0) {axis=1%s} : f32[70,2]\n"
             "  %%2 = slice(%%1) {limit=[70, %d], start=[0, %d], stride=[1, 1]} : f32[70,1]\n"
             "  %%3 = pad(%%2) {lo=[0, %d], hi=[0, %d], interior=[0, 0], value=1} : f32[70,2]\n"
             "  %%4 = cumsum(%%0) {axis=1%s} : f32[70,2]\n  %%5 = mul(%%4, %%3) : f32[70,2]\n"
             "  output \"o\" %%5\n  output \"p\" %%1\n}\n",
             way, reverse + 1, reverse, !reverse, reverse, back);
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    check(g, &(compiled_options){.seed = 3});
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

void running_results_both_ways(graph_check *check) {
    static const int widths[] = {2, 3, 7, 16, 60, 128, 257, 400, 500, 512, 1022, 1024, 1500, 2048};
    static const char *const types[] = {"f32", "bf16", "f64", "i32", "i64"};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            tcc_diag diag = {0};
            tcc_graph *g = results_both_ways(types[t], widths[w], (w + t) % 2, &diag);
            check(g, &(compiled_options){
                         .seed = w + t, .low = -0.25, .high = 0.25, .tolerance = types[t][0] == 'b' ? 0.02 : 4e-5});
            tcc_graph_destroy(g);
            tcc_diag_clear(&diag);
        }
    for (int reverse = 0; reverse < 2; reverse++) steps_of_pairs(check, reverse);
}

void running_results_of_bytes(graph_check *check) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph("graph @s {\n  %0 = input {name=\"x\"} : u8[3,300]\n"
                               "  %1 = cumsum(%0) {axis=1} : u8[3,300]\n  %2 = cast(%1) : i32[3,300]\n"
                               "  output \"o\" %2\n}\n",
                               &diag);
    check(g, &(compiled_options){.seed = 1});
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

/* Values of few kinds, so that many are equal, and zeros of both signs, which are the largest. */
static void fill_few(tcc_value *v, uint64_t seed) {
    static const double few[] = {0, -0.0, -1, -1, -2, -3, -1.5, -0.25};
    for (int64_t e = 0, n = tcc_type_numel(&v->type); e < n; e++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const unsigned kind = (unsigned)(seed >> 33);
        if (!v->f) v->i[e] = kind % 9 + (v->type.dtype == TCC_U8 ? 120 : -4);
        else v->f[e] = kind % 397 == 5 ? __builtin_nan("") : few[kind % 8] - (double)(e % 7) / 4;
    }
}

/* The maxima show the sign of zeros by 1 divided by them, which stays finite. */
static tcc_graph *maxima_along(const char *dtype, int axis, int width, bool reverse, tcc_diag *diag) {
    char text[2048], type[64], flag[64], place[64], attrs[64];
    shape_of(type, sizeof type, dtype, axis, width);
    shape_of(flag, sizeof flag, "bool", axis, width);
    shape_of(place, sizeof place, "i32", axis, width);
    snprintf(attrs, sizeof attrs, "{axis=%d%s}", axis, reverse ? ", reverse=true" : "");
    int length = snprintf(text, sizeof text,
                          "graph @s {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = cummax(%%0) %s : %s\n"
                          "  %%2 = eq(%%0, %%1) : %s\n  %%3 = iota {axis=%d} : %s\n"
                          "  %%4 = constant {values=[-1]} : %s\n  %%5 = select(%%2, %%3, %%4) : %s\n"
                          "  %%6 = cummax(%%5) %s : %s\n  %%7 = cumsum(%%3, %%2) %s : %s\n",
                          type, attrs, type, flag, axis, place, place, place, attrs, place, attrs, place);
    const bool floats = strchr("fb", *dtype);
    if (floats)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "  %%8 = constant {values=[1]} : %s\n  %%9 = div(%%8, %%1) : %s\n"
                           "  %%10 = constant {values=[8]} : %s\n  %%11 = min(%%9, %%10) : %s\n"
                           "  %%12 = neg(%%10) : %s\n  %%13 = max(%%11, %%12) : %s\n  output \"sign\" %%13\n",
                           type, type, type, type, type, type);
    snprintf(text + length, sizeof text - (size_t)length,
             "  output \"y\" %%1\n  output \"place\" %%6\n  output \"runs\" %%7\n}\n");
    return parse_graph(text, diag);
}

void running_maxima(graph_check *check) {
    static const int widths[] = {1, 2, 3, 17, 63, 65, 1000};
    static const char *const types[] = {"f32", "bf16", "f16", "f64", "i32", "i64", "u8"};
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int axis = 0; axis < 3; axis++) {
                tcc_diag diag = {0};
                tcc_graph *g = maxima_along(types[t], axis, widths[w], (w + t + (size_t)axis) % 2, &diag);
                tcc_value x;
                assert_ok(tcc_value_create(&g->inputs.data[0]->type, &x, &diag), &diag);
                fill_few(&x, w * 100 + t * 10 + (size_t)axis);
                check(g, &(compiled_options){.inputs = &x, .tolerance = 0.01, .eager = (w + t) % 3 == 0});
                tcc_value_free(&x);
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}

void running_sums_of_runs(graph_check *check) {
    static const char *const types[] = {"f32", "bf16", "f64", "i32", "u8"};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int axis = 0; axis < 2; axis++)
            for (int reverse = 0; reverse < 2; reverse++) {
                char text[1024], type[64], flag[64];
                snprintf(type, sizeof type, axis ? "%s[5,700]" : "%s[700,5]", types[t]);
                snprintf(flag, sizeof flag, axis ? "bool[5,700]" : "bool[700,5]");
                snprintf(text, sizeof text,
                         "graph @s {\n  %%0 = input {name=\"x\"} : %s\n  %%1 = input {name=\"on\"} : %s\n"
                         "  %%2 = cumsum(%%0, %%1) {axis=%d%s} : %s\n  output \"o\" %%2\n}\n",
                         type, flag, axis, reverse ? ", reverse=true" : "", type);
                tcc_diag diag = {0};
                tcc_graph *g = parse_graph(text, &diag);
                tcc_value inputs[2];
                for (int i = 0; i < 2; i++)
                    assert_ok(tcc_value_create(&g->inputs.data[i]->type, &inputs[i], &diag), &diag);
                for (int64_t e = 0; e < 3500; e++) {
                    inputs[1].i[e] = e % 11 != 4 && e % 170 != 0;
                    if (!inputs[0].f) inputs[0].i[e] = e % 9;
                    else inputs[0].f[e] = e % 333 == 150 ? __builtin_inf() : (double)(e % 9) / 8;
                }
                check(g, &(compiled_options){.inputs = inputs, .eager = axis != reverse});
                for (int i = 0; i < 2; i++) tcc_value_free(&inputs[i]);
                tcc_graph_destroy(g);
                tcc_diag_clear(&diag);
            }
}
