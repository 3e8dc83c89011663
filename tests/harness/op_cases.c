/* SPDX-License-Identifier: MIT
 * Every element-by-element op over element types and shapes with tails, and views of views, windows and contractions in
 * forms that random graphs seldom make. */
#include "harness/op_cases.h"
#include "harness/check.h"
#include "harness/graphs.h"

#include "codegen/body/body.h"

#include <stdio.h>

static graph_check *check_graph;

static void check_one(const char *text, const compiled_options *options) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    check_graph(g, options);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

static const char *const shapes[] = {"[]", "[1]", "[7]", "[16]", "[67]", "[3,35]", "[2,1,9]", "[2,3,1,5,4]"};

/* Inputs that keep each op within its domain and off its jumps. */
typedef struct domain {
    tcc_op op;
    double low, high, tolerance;
} domain;

/* clang-format off */
static const domain domains[] = {
    {TCC_OP_LOG, 0.01, 5, 0},   {TCC_OP_LOG1P, -0.9, 5, 0},   {TCC_OP_SQRT, 0, 5, 0},   {TCC_OP_RSQRT, 0.05, 5, 0},
    {TCC_OP_POW, 0.1, 3, 0},    {TCC_OP_REM, -9, 9, 1e-4},    {TCC_OP_EXP, -9, 4, 0},   {TCC_OP_SIN, -50, 50, 0},
    {TCC_OP_COS, -50, 50, 0},   {TCC_OP_TANH, -5, 5, 0},      {TCC_OP_SIGMOID, -9, 9, 0}, {TCC_OP_ERF, -4, 4, 0},
    {TCC_OP_FLOOR, -9, 9, 0},   {TCC_OP_CEIL, -9, 9, 0},      {TCC_OP_ROUND, -9, 9, 0}, {TCC_OP_EXPM1, -3, 3, 0},
    {TCC_OP_DIV, 0.1, 3, 0},    {TCC_OP_GELU_TANH, -5, 5, 0}, {TCC_OP_GELU_TANH_GRAD, -5, 5, 0},
    {TCC_OP_NORMAL_DENSITY, -9, 9, 0}, {TCC_OP_ATAN, -9, 9, 0},
};
/* clang-format on */

static bool takes(tcc_op op, tcc_dtype dtype) {
    bool is_float = tcc_dtype_is_float(dtype);
    switch (op) {
    case TCC_OP_AND:
    case TCC_OP_OR:
    case TCC_OP_XOR:
    case TCC_OP_NOT: return !is_float;
    case TCC_OP_SHIFT_LEFT:
    case TCC_OP_SHIFT_RIGHT: return !is_float && dtype != TCC_BOOL;
    case TCC_OP_NEG:
    case TCC_OP_ABS:
    case TCC_OP_SIGN:
    case TCC_OP_ADD:
    case TCC_OP_SUB:
    case TCC_OP_MUL:
    case TCC_OP_DIV:
    case TCC_OP_REM: return dtype != TCC_BOOL;
    case TCC_OP_MAX:
    case TCC_OP_MIN:
    case TCC_OP_LT:
    case TCC_OP_LE:
    case TCC_OP_GT:
    case TCC_OP_GE: return dtype != TCC_BOOL;
    case TCC_OP_SELECT:
    case TCC_OP_EQ:
    case TCC_OP_NE: return true;
    default: return is_float;
    }
}

static void check_op(tcc_op op, tcc_dtype dtype, const char *shape) {
    const tcc_op_info *info = tcc_op_get_info(op);
    const char *type = tcc_dtype_text(dtype), *result = info->flags & TCC_FLAG_COMPARE ? "bool" : type;
    tcc_strbuf text = {0};
    tcc_strbuf_add(&text, "graph @op {\n");
    int first = op == TCC_OP_SELECT;
    if (first) tcc_strbuf_printf(&text, "  %%0 = input {name=\"c\"} : bool%s\n", shape);
    for (int i = first; i < info->least; i++)
        tcc_strbuf_printf(&text, "  %%%d = input {name=\"x%d\"} : %s%s\n", i, i, type, shape);
    tcc_strbuf_printf(&text, "  %%%d = %s(%%0", info->least, info->text);
    for (int i = 1; i < info->least; i++) tcc_strbuf_printf(&text, ", %%%d", i);
    tcc_strbuf_printf(&text, ") : %s%s\n  output \"o\" %%%d\n}\n", result, shape, info->least);
    compiled_options options = {.low = -3, .high = 3, .limit = 5, .seed = (uint64_t)op};
    for (size_t d = 0; d < sizeof domains / sizeof *domains; d++)
        if (domains[d].op == op)
            options.low = domains[d].low, options.high = domains[d].high, options.tolerance = domains[d].tolerance;
    check_one(text.text, &options);
    tcc_strbuf_free(&text);
}

static void point_ops(tcc_dtype dtype) {
    for (int op = 0; op < TCC_OP_COUNT; op++) {
        const tcc_op_info *info = tcc_op_get_info((tcc_op)op);
        if (info->fusion != TCC_FUSION_POINT) continue;
        assert_true(info->cost > 0 || op == TCC_OP_IOTA);
        if (info->least == 0 || op == TCC_OP_CAST || info->attrs == TCC_ATTR_CLASS_rng || !takes((tcc_op)op, dtype))
            continue;
        check_op((tcc_op)op, dtype, shapes[(op + (int)dtype) % (int)(sizeof shapes / sizeof *shapes)]);
    }
}

static void point_ops_f32(void **state) {
    (void)state;
    point_ops(TCC_F32);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) check_op(TCC_OP_MUL, TCC_F32, shapes[s]);
}
static void point_ops_f64(void **state) { (void)state, point_ops(TCC_F64); }
static void point_ops_bf16(void **state) { (void)state, point_ops(TCC_BF16); }
static void point_ops_of_integers(void **state) {
    (void)state;
    point_ops(TCC_I64);
    point_ops(TCC_I32);
    point_ops(TCC_U8);
    point_ops(TCC_BOOL);
}

static void casts(void **state) {
    (void)state;
    for (int from = 0; from < TCC_DTYPE_COUNT; from++)
        for (int to = 0; to < TCC_DTYPE_COUNT; to++) {
            char text[256];
            snprintf(text, sizeof text,
                     "graph @cast {\n  %%0 = input {name=\"x\"} : %s[37]\n  %%1 = cast(%%0) : %s[37]\n  output \"o\" "
                     "%%1\n}\n",
                     tcc_dtype_text((tcc_dtype)from), tcc_dtype_text((tcc_dtype)to));
            check_one(text, &(compiled_options){.low = -300, .high = 300, .limit = 200});
        }
}

/* Numbers halfway between two of a narrow type, and just above and below: rounded once, from f64 and from integers. */
static void casts_of_halfway_numbers(void **state) {
    (void)state;
    for (int brain = 0; brain < 2; brain++) {
        char text[1200];
        const char *type = brain ? "bf16" : "f16", *least = brain ? "128" : "1024";
        snprintf(text, sizeof text,
                 "graph @halfway {\n"
                 "  %%0 = input {name=\"x\"} : i32[128,3]\n"
                 "  %%1 = constant {values=[%s]} : i32[128,3]\n"
                 "  %%2 = add(%%0, %%1) : i32[128,3]\n"
                 "  %%3 = iota {axis=1} : i32[128,3]\n"
                 "  %%4 = cast(%%3) : f64[128,3]\n"
                 "  %%5 = constant {values=[-1]} : f64[128,3]\n"
                 "  %%6 = add(%%4, %%5) : f64[128,3]\n"
                 "  %%7 = constant {values=[0x1p-33]} : f64[128,3]\n"
                 "  %%8 = mul(%%6, %%7) : f64[128,3]\n"
                 "  %%9 = constant {values=[0.5]} : f64[128,3]\n"
                 "  %%10 = add(%%8, %%9) : f64[128,3]\n"
                 "  %%11 = cast(%%2) : f64[128,3]\n"
                 "  %%12 = add(%%10, %%11) : f64[128,3]\n"
                 "  %%13 = round(%%12) : f64[128,3]\n"
                 "  %%14 = neg(%%12) : f64[128,3]\n"
                 "  %%15 = cast(%%14) : %s[128,3]\n"
                 "  %%16 = cast(%%15) : f64[128,3]\n"
                 "  %%17 = add(%%16, %%13) : f64[128,3]\n"
                 "  %%18 = constant {values=[0x1p33]} : f64[128,3]\n"
                 "  %%19 = mul(%%12, %%18) : f64[128,3]\n"
                 "  %%20 = cast(%%19) : i64[128,3]\n"
                 "  %%21 = cast(%%20) : %s[128,3]\n"
                 "  %%22 = cast(%%21) : f64[128,3]\n"
                 "  %%23 = mul(%%13, %%18) : f64[128,3]\n"
                 "  %%24 = eq(%%22, %%23) : bool[128,3]\n"
                 "  output \"none\" %%17\n"
                 "  output \"equal\" %%24\n"
                 "}\n",
                 least, type, type);
        check_one(text, &(compiled_options){.limit = 126, .tolerance = 1e-12});
    }
}

static void check_both(const char *text) {
    for (int eager = 0; eager < 2; eager++)
        check_one(text, &(compiled_options){.eager = eager, .low = -2, .high = 2, .tolerance = 1e-4});
}

static void random_draws(void **state) {
    (void)state;
    check_both("graph @draws {\n"
               "  %0 = input {role=rng, name=\"key\"} : i64[2]\n"
               "  %1 = rng_bits(%0) {id=3} : i32[5,7]\n"
               "  %2 = rng_uniform(%0) {id=4} : f32[70]\n"
               "  %3 = rng_normal(%0) {id=5} : f32[6,11]\n"
               "  %4 = transpose(%3) {perm=[1, 0]} : f32[11,6]\n"
               "  output \"bits\" %1\n"
               "  output \"uniform\" %2\n"
               "  output \"normal\" %4\n"
               "}\n");
}

static void views_of_views(void **state) {
    (void)state;
    check_both("graph @views {\n"
               "  %0 = input {name=\"x\"} : f32[6,10]\n"
               "  %1 = slice(%0) {start=[1, 0], limit=[6, 9], stride=[2, 3]} : f32[3,3]\n"
               "  %2 = flip(%1) {axes=[1]} : f32[3,3]\n"
               "  %3 = pad(%2) {value=2, lo=[1, 0], hi=[0, 2], interior=[1, 0]} : f32[6,5]\n"
               "  %4 = reshape(%3) : f32[5,6]\n"
               "  %5 = concat(%4, %4) {axis=0} : f32[10,6]\n"
               "  %6 = transpose(%5) {perm=[1, 0]} : f32[6,10]\n"
               "  %7 = add(%6, %0) : f32[6,10]\n"
               "  output \"o\" %7\n"
               "}\n");
    check_both("graph @padded_reshape {\n"
               "  %0 = input {name=\"x\"} : f32[4,6]\n"
               "  %1 = pad(%0) {value=0, lo=[0, 1], hi=[0, 1], interior=[0, 0]} : f32[4,8]\n"
               "  %2 = reshape(%1) : f32[2,16]\n"
               "  %3 = exp(%2) : f32[2,16]\n"
               "  %4 = reduce_sum(%3) {axes=[1]} : f32[2]\n"
               "  output \"o\" %3\n"
               "  output \"s\" %4\n"
               "}\n");
}

static void windows(void **state) {
    (void)state;
    check_both(
        "graph @pools {\n"
        "  %0 = input {name=\"x\"} : f32[2,3,9,8]\n"
        "  %1 = max_pool(%0) {window=[3, 2], stride=[2, 2], pad_lo=[1, 0], pad_hi=[1, 0]} : f32[2,3,5,4]\n"
        "  %2 = avg_pool(%0) {window=[3, 2], stride=[2, 2], pad_lo=[1, 0], pad_hi=[1, 0]} : f32[2,3,5,4]\n"
        "  %5 = max_pool_place(%0) {window=[3, 2], stride=[2, 2], pad_lo=[1, 0], pad_hi=[1, 0]} : i32[2,3,5,4]\n"
        "  %3 = max_pool_grad(%5, %2) {window=[3, 2], stride=[2, 2], pad_lo=[1, 0], pad_hi=[1, 0]} : f32[2,3,9,8]\n"
        "  %4 = avg_pool_grad(%1) {window=[3, 2], stride=[2, 2], pad_lo=[1, 0], pad_hi=[1, 0]} : f32[2,3,9,8]\n"
        "  output \"a\" %1\n"
        "  output \"b\" %2\n"
        "  output \"c\" %3\n"
        "  output \"d\" %4\n"
        "}\n");
    /* Channels last, windows that overlap, and such of padding and -inf alone. */
    check_both("graph @pools_last {\n"
               "  %0 = input {name=\"x\"} : f32[2,9,8,19]\n"
               "  %1 = constant {values=[-inf]} : f32[2,9,8,19]\n"
               "  %2 = constant {values=[1]} : f32[2,9,8,19]\n"
               "  %3 = gt(%0, %2) : bool[2,9,8,19]\n"
               "  %4 = select(%3, %0, %1) : f32[2,9,8,19]\n"
               "  %5 = max_pool_place(%4) {window=[3, 3], stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], "
               "channels_last=true} : i32[2,5,4,19]\n"
               "  %6 = slice(%0) {start=[0, 2, 2, 0], limit=[2, 7, 6, 19], stride=[1, 1, 1, 1]} : f32[2,5,4,19]\n"
               "  %7 = max_pool_grad(%5, %6) {window=[3, 3], stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1], "
               "channels_last=true} : f32[2,9,8,19]\n"
               "  output \"a\" %5\n"
               "  output \"b\" %7\n"
               "}\n");
    /* Positions that a stride steps over are vectors of their own, and stored interleaved: two and three of them, with
     * a part of a vector at the end of a row. */
    check_both("graph @phases {\n"
               "  %0 = input {name=\"x\"} : f32[2,3,8,70]\n"
               "  %1 = input {name=\"dy\"} : f32[2,3,4,35]\n"
               "  %2 = input {name=\"dz\"} : f32[2,3,8,24]\n"
               "  %3 = input {name=\"dw\"} : bf16[2,3,4,35]\n"
               "  %4 = max_pool_place(%0) {window=[3, 3], stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1]} : "
               "i32[2,3,4,35]\n"
               "  %5 = max_pool_grad(%4, %1) {window=[3, 3], stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1]} : "
               "f32[2,3,8,70]\n"
               "  %6 = avg_pool_grad(%2) {window=[1, 3], stride=[1, 3], pad_lo=[0, 0], pad_hi=[0, 0]} : f32[2,3,8,72]\n"
               "  %7 = max_pool_place(%0) {window=[2, 2], stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0]} : "
               "i32[2,3,4,35]\n"
               "  %8 = max_pool_grad(%7, %3) {window=[2, 2], stride=[2, 2], pad_lo=[0, 0], pad_hi=[0, 0]} : "
               "bf16[2,3,8,70]\n"
               "  %9 = cast(%4) : u8[2,3,4,35]\n"
               "  %10 = max_pool_grad(%9, %1) {window=[3, 3], stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1]} : "
               "f32[2,3,8,70]\n"
               "  output \"a\" %4\n"
               "  output \"b\" %5\n"
               "  output \"c\" %6\n"
               "  output \"d\" %8\n"
               "  output \"e\" %10\n"
               "}\n");
    check_both("graph @resizes {\n"
               "  %0 = input {name=\"x\"} : f32[2,5,6,17]\n"
               "  %1 = resize_bilinear(%0) {channels_last=true} : f32[2,8,3,17]\n"
               "  %2 = resize_bilinear(%0) {align_corners=true, channels_last=true} : f32[2,8,3,17]\n"
               "  %3 = resize_bilinear_grad(%1) {channels_last=true} : f32[2,5,6,17]\n"
               "  %4 = resize_nearest(%0) {channels_last=true} : f32[2,8,3,17]\n"
               "  %5 = resize_nearest_grad(%4) {align_corners=true, channels_last=true} : f32[2,5,6,17]\n"
               "  %6 = adaptive_avg_pool(%0) {channels_last=true} : f32[2,3,4,17]\n"
               "  %7 = adaptive_avg_pool_grad(%6) {channels_last=true} : f32[2,5,6,17]\n"
               "  output \"a\" %1\n"
               "  output \"b\" %2\n"
               "  output \"c\" %3\n"
               "  output \"d\" %5\n"
               "  output \"e\" %7\n"
               "}\n");
}

/* Larger, smaller, of one element, where some elements have no reader, and along one dim alone. */
static void cubic_images(void **state) {
    (void)state;
    check_both("graph @cubic {\n"
               "  %0 = input {name=\"x\"} : f32[2,5,6,17]\n"
               "  %1 = input {name=\"y\"} : f32[2,3,1,23]\n"
               "  %2 = input {name=\"z\"} : f16[3,2,9,4]\n"
               "  %3 = resize_bicubic(%0) {channels_last=true} : f32[2,8,3,17]\n"
               "  %4 = resize_bicubic(%0) {align_corners=true} : f32[2,5,13,35]\n"
               "  %5 = resize_bicubic_grad(%4) {align_corners=true} : f32[2,5,6,17]\n"
               "  %6 = resize_bicubic_grad(%3) {channels_last=true} : f32[2,5,6,17]\n"
               "  %7 = resize_bicubic(%1) : f32[2,3,4,3]\n"
               "  %8 = resize_bicubic_grad(%7) : f32[2,3,1,23]\n"
               "  %9 = resize_bicubic(%2) : f16[3,2,9,11]\n"
               "  %10 = resize_bicubic_grad(%2) {align_corners=true} : f16[3,2,2,1]\n"
               "  output \"a\" %3\n"
               "  output \"b\" %4\n"
               "  output \"c\" %5\n"
               "  output \"d\" %6\n"
               "  output \"e\" %7\n"
               "  output \"f\" %8\n"
               "  output \"g\" %9\n"
               "  output \"h\" %10\n"
               "}\n");
}

/* On a GPU one launch stores many of them: strided ones of an image with a border, and those of an exponential. */
static void views_side_by_side(void **state) {
    enum { WINDOW = 3, PARTS = WINDOW * WINDOW, MANY = 18 };
    char text[4096], parts[512];
    int n = snprintf(text, sizeof text,
                     "graph @views {\n"
                     "  %%0 = input {name=\"x\"} : f32[2,3,9,13]\n"
                     "  %%1 = input {name=\"y\"} : bf16[5,23]\n"
                     "  %%2 = pad(%%0) {lo=[0, 0, 1, 2], hi=[0, 0, 1, 2], interior=[0, 0, 0, 0]} : f32[2,3,11,17]\n"
                     "  %%3 = exp(%%1) : bf16[5,23]\n");
    int p = 0;
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        const int row = i / WINDOW, column = i % WINDOW;
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "  %%%d = slice(%%2) {start=[0, 0, %d, %d], limit=[2, 3, %d, %d], stride=[1, 1, 2, 3]} : "
                      "f32[2,3,5,5]\n  %%%d = reshape(%%%d) : f32[2,3,1,25]\n",
                      4 + 2 * i, row, column, row + 9, column + 13, 5 + 2 * i, 4 + 2 * i);
        p += snprintf(parts + p, sizeof parts - (size_t)p, "%s%%%d", i ? ", " : "", 5 + 2 * i);
    }
    n += snprintf(text + n, sizeof text - (size_t)n, "  %%22 = concat(%s) {axis=2} : f32[2,3,9,25]\n", parts);
    for (int i = p = 0; i < MANY; i++) {
        if (i < 7)
            n += snprintf(text + n, sizeof text - (size_t)n,
                          "  %%%d = slice(%%3) {start=[0, %d], limit=[5, %d], stride=[1, 1]} : bf16[5,17]\n", 23 + i, i,
                          i + 17);
        p += snprintf(parts + p, sizeof parts - (size_t)p, "%s%%%d", i ? ", " : "", 23 + i % 7);
    }
    snprintf(text + n, sizeof text - (size_t)n,
             "  %%30 = concat(%s) {axis=0} : bf16[90,17]\n"
             "  output \"window\" %%22\n  output \"many\" %%30\n}\n",
             parts);
    check_both(text);
}

static void enlarged_images(void **state) {
    (void)state;
    check_both("graph @enlarged {\n"
               "  %0 = input {name=\"x\"} : f32[2,3,2,19]\n"
               "  %1 = input {name=\"y\"} : f32[2,3,3,1,2]\n"
               "  %2 = resize_bilinear(%0) {channels_last=true} : f32[2,12,17,19]\n"
               "  %3 = resize_bilinear(%0) {align_corners=true, channels_last=true} : f32[2,13,2,19]\n"
               "  %4 = resize_bilinear_grad(%2) {channels_last=true} : f32[2,3,2,19]\n"
               "  %5 = resize_bilinear_grad(%2) {align_corners=true, channels_last=true} : f32[2,1,4,19]\n"
               "  %6 = resize_bilinear(%1) : f32[2,3,14,5,2]\n"
               "  %7 = resize_bilinear_grad(%6) : f32[2,3,3,1,2]\n"
               "  %8 = input {name=\"z\"} : f16[2,3,2,19]\n"
               "  %9 = cast(%8) : f32[2,3,2,19]\n"
               "  %10 = resize_bilinear(%9) {channels_last=true} : f32[2,12,2,19]\n"
               "  %11 = cast(%8) : f32[2,3,2,19]\n"
               "  %12 = max_pool(%11) {window=[2, 2], stride=[1, 1], pad_lo=[0, 0], pad_hi=[0, 0], channels_last=true} "
               ": f32[2,2,1,19]\n"
               "  %13 = resize_bilinear_grad(%9) {channels_last=true} : f32[2,3,1,19]\n"
               "  output \"a\" %2\n"
               "  output \"b\" %3\n"
               "  output \"c\" %4\n"
               "  output \"d\" %5\n"
               "  output \"e\" %6\n"
               "  output \"f\" %7\n"
               "  output \"g\" %10\n"
               "  output \"h\" %12\n"
               "  output \"i\" %13\n"
               "}\n");
}

static void reductions(void **state) {
    (void)state;
    check_both("graph @batch_statistics {\n"
               "  %0 = input {name=\"x\"} : f32[4,6,6,40]\n"
               "  %1 = input {name=\"w\"} : f32[40]\n"
               "  %2 = input {name=\"b\"} : f32[40]\n"
               "  %3 = batch_norm(%0, %1, %2) {eps=0x1p-10, axis=3} : f32[4,6,6,40]\n"
               "  output \"o\" %3\n"
               "}\n");
    check_both("graph @in_pieces {\n"
               "  %0 = input {name=\"x\"} : f32[16,20,20,16]\n"
               "  %1 = batch_norm(%0) {eps=0x1p-10, axis=3} : f32[16,20,20,16]\n"
               "  %2 = mul(%1, %0) : f32[16,20,20,16]\n"
               "  %3 = constant {values=[0x1p-6]} : f32[16,20,20,16]\n"
               "  %4 = mul(%2, %3) : f32[16,20,20,16]\n"
               "  %5 = reduce_sum(%4) {axes=[0, 1, 2, 3]} : f32[]\n"
               "  output \"o\" %1\n"
               "  output \"s\" %5\n"
               "}\n");
    /* as many rows as columns: what one launch stores must not be what the next one reads */
    check_both("graph @rows_and_columns {\n"
               "  %0 = input {name=\"x\"} : f32[32,32]\n"
               "  %1 = input {name=\"y\"} : f32[32,32]\n"
               "  %2 = input {name=\"d\"} : f32[8,32]\n"
               "  %3 = mul(%2, %2) : f32[8,32]\n"
               "  %4 = reduce_sum(%3) {axes=[0]} : f32[32]\n"
               "  %5 = mul(%0, %1) : f32[32,32]\n"
               "  %6 = reduce_sum(%5) {axes=[1]} : f32[32]\n"
               "  %7 = reduce_sum(%5) {axes=[0]} : f32[32]\n"
               "  %8 = exp(%4) : f32[32]\n"
               "  %9 = mul(%8, %7) : f32[32]\n"
               "  %10 = flip(%6) {axes=[0]} : f32[32]\n"
               "  output \"rows\" %10\n"
               "  output \"columns\" %9\n"
               "}\n");
    /* sums down columns that are all alike: one value, though lanes are columns */
    check_both("graph @sums_of_equal_columns {\n"
               "  %0 = input {name=\"x\"} : f32[5]\n"
               "  %1 = broadcast(%0) {dims=[0]} : f32[5,40]\n"
               "  %2 = cumsum(%1) {axis=0} : f32[5,40]\n"
               "  %3 = constant {values=[0.75]} : f32[5,40]\n"
               "  %4 = mul(%2, %3) : f32[5,40]\n"
               "  %5 = input {name=\"y\"} : f64[5]\n"
               "  %6 = broadcast(%5) {dims=[0]} : f64[5,40]\n"
               "  %7 = cumsum(%6) {axis=0, reverse=true} : f64[5,40]\n"
               "  %8 = constant {values=[0.75]} : f64[5,40]\n"
               "  %9 = mul(%7, %8) : f64[5,40]\n"
               "  %10 = cast(%9) : f32[5,40]\n"
               "  output \"a\" %4\n"
               "  output \"b\" %10\n"
               "}\n");
    check_both("graph @loss {\n"
               "  %0 = input {name=\"x\"} : f32[3,11,65]\n"
               "  %1 = input {name=\"t\"} : i32[3,11]\n"
               "  %2 = cross_entropy(%0, %1) {ignore_index=-1, label_smoothing=0x1p-4} : f32[]\n"
               "  output \"o\" %2\n"
               "}\n");
}

/* Sums of so many elements that, rounded after each, they would stop at 256. */
static void sums_of_narrow_floats(void **state) {
    (void)state;
    static const tcc_dtype narrow[] = {TCC_F16, TCC_BF16};
    for (int i = 0; i < 2; i++)
        for (int eager = 0; eager < 2; eager++) {
            tcc_strbuf text = {0};
            const char *t = tcc_dtype_text(narrow[i]);
            tcc_strbuf_printf(&text,
                              "graph @sums {\n"
                              "  %%0 = input {name=\"x\"} : %s[2,900]\n"
                              "  %%1 = input {name=\"i\"} : i32[900]\n"
                              "  %%2 = input {name=\"j\"} : i32[2,900]\n"
                              "  %%3 = constant {values=[0.5]} : %s[2,2]\n"
                              "  %%4 = scatter_add(%%3, %%1, %%0) {axis=1} : %s[2,2]\n"
                              "  %%5 = scatter_add_along(%%3, %%2, %%0) {axis=1} : %s[2,2]\n",
                              t, t, t, t);
            tcc_strbuf_printf(&text,
                              "  %%6 = cumsum(%%0) {axis=1} : %s[2,900]\n"
                              "  %%7 = reduce_sum(%%0) {axes=[1]} : %s[2]\n"
                              "  output \"s\" %%4\n"
                              "  output \"a\" %%5\n"
                              "  output \"c\" %%6\n"
                              "  output \"r\" %%7\n"
                              "}\n",
                              t, t);
            check_one(text.text, &(compiled_options){.eager = eager, .low = 0.5, .high = 1.5, .limit = 1});
            tcc_strbuf_free(&text);
        }
}

/* Sines of arguments of many turns, remainders of large quotients; what tends to 1 gets there. Some arguments are
 * small, beside others in the same vector that are not. */
static void functions_of_far_arguments(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "f64", "bf16"};
    for (int i = 0; i < 3; i++)
        for (double high = 1e6; high < 1e37; high *= 1e6) {
            const char *t = types[i];
            tcc_strbuf text = {0};
            tcc_strbuf_printf(&text,
                              "graph @far {\n  %%0 = input {name=\"x\"} : %s[40]\n  %%1 = sin(%%0) : %s[40]\n"
                              "  %%2 = cos(%%0) : %s[40]\n  %%3 = input {name=\"y\"} : %s[40]\n  %%4 = constant "
                              "{values=[0x1p-%d]} : %s[40]\n  %%5 = mul(%%3, %%4) : %s[40]\n"
                              "  %%6 = rem(%%0, %%5) : %s[40]\n  output \"s\" %%1\n  output \"c\" %%2\n"
                              "  output \"r\" %%6\n",
                              t, t, t, t, i == 1 ? 600 : 70, t, t, t);
            tcc_strbuf_printf(&text,
                              "  %%7 = iota {axis=0} : %s[40]\n  %%8 = constant {values=[20]} : %s[40]\n"
                              "  %%9 = lt(%%7, %%8) : bool[40]\n  %%10 = select(%%9, %%0, %%7) : %s[40]\n"
                              "  %%11 = cos(%%10) : %s[40]\n  %%12 = erf(%%0) : %s[40]\n  output \"m\" %%11\n"
                              "  output \"e\" %%12\n}\n",
                              t, t, t, t, t);
            check_one(text.text, &(compiled_options){.low = -high, .high = high});
            tcc_strbuf_free(&text);
        }
}

/* NaN in data: what is compared is that both sides have it in the same places. */
static void values_that_are_not_numbers(void **state) {
    (void)state;
    check_one("graph @nan {\n"
              "  %0 = input {name=\"x\"} : f32[4,37]\n"
              "  %1 = log(%0) : f32[4,37]\n"
              "  %2 = reduce_max(%1) {axes=[1]} : f32[4]\n"
              "  %3 = reduce_min(%1) {axes=[0]} : f32[37]\n"
              "  %4 = argmax(%1) {axis=1} : i32[4]\n"
              "  %5 = max(%1, %0) : f32[4,37]\n"
              "  %6 = argmax(%1) {axis=0} : i32[37]\n"
              "  output \"a\" %2\n"
              "  output \"b\" %3\n"
              "  output \"c\" %4\n"
              "  output \"d\" %5\n"
              "  output \"e\" %6\n"
              "}\n",
              &(compiled_options){.low = -0.3, .high = 8});
}

int op_cases_run(graph_check *check) {
    check_graph = check;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(point_ops_f32),
        cmocka_unit_test(point_ops_f64),
        cmocka_unit_test(point_ops_bf16),
        cmocka_unit_test(point_ops_of_integers),
        cmocka_unit_test(casts),
        cmocka_unit_test(casts_of_halfway_numbers),
        cmocka_unit_test(random_draws),
        cmocka_unit_test(views_of_views),
        cmocka_unit_test(windows),
        cmocka_unit_test(cubic_images),
        cmocka_unit_test(views_side_by_side),
        cmocka_unit_test(enlarged_images),
        cmocka_unit_test(reductions),
        cmocka_unit_test(sums_of_narrow_floats),
        cmocka_unit_test(functions_of_far_arguments),
        cmocka_unit_test(values_that_are_not_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
