/* SPDX-License-Identifier: MIT
 * Programs of a few ops each: one schedule at a time, fused and not, against the interpreter. */
#include "bench/kernel_cache.h"
#include "harness/check.h"
#include "harness/compiled.h"
#include "harness/graphs.h"

#include "codegen/emit/emitter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(const char *text) {
    for (int eager = 0; eager < 2; eager++) check_text(text, &(compiled_options){.eager = eager});
}

static void pointwise(void **state) {
    (void)state;
    check("graph @flat {\n"
          "  %0 = input {name=\"x\"} : f32[37,5]\n"
          "  %1 = input {name=\"y\"} : f32[37,5]\n"
          "  %2 = mul(%0, %1) : f32[37,5]\n"
          "  %3 = exp(%2) : f32[37,5]\n"
          "  output \"o\" %3\n"
          "  output \"p\" %2\n"
          "}\n");
    check("graph @bias {\n"
          "  %0 = input {name=\"x\"} : f32[7,33]\n"
          "  %1 = input {name=\"b\"} : f32[33]\n"
          "  %2 = broadcast(%1) {dims=[1]} : f32[7,33]\n"
          "  %3 = add(%0, %2) : f32[7,33]\n"
          "  %4 = tanh(%3) : f32[7,33]\n"
          "  output \"o\" %4\n"
          "}\n");
}

static void views(void **state) {
    (void)state;
    check("graph @heads {\n"
          "  %0 = input {name=\"x\"} : f32[2,5,24]\n"
          "  %1 = reshape(%0) : f32[2,5,4,6]\n"
          "  %2 = transpose(%1) {perm=[0, 2, 1, 3]} : f32[2,4,5,6]\n"
          "  %3 = reshape(%2) : f32[8,30]\n"
          "  %4 = neg(%3) : f32[8,30]\n"
          "  output \"o\" %4\n"
          "}\n");
}

static void transposes(void **state) {
    (void)state;
    check("graph @tiles {\n"
          "  %0 = input {name=\"x\"} : f32[3,37,70]\n"
          "  %1 = input {name=\"y\"} : f32[3,70,37]\n"
          "  %2 = transpose(%0) {perm=[0, 2, 1]} : f32[3,70,37]\n"
          "  %3 = mul(%2, %1) : f32[3,70,37]\n"
          "  output \"o\" %3\n"
          "}\n");
    check("graph @narrow {\n"
          "  %0 = input {name=\"x\"} : u8[33,5]\n"
          "  %1 = transpose(%0) {perm=[1, 0]} : u8[5,33]\n"
          "  output \"o\" %1\n"
          "}\n");
}

/* Blocks of several squares, of which the last ones are parts; of many operands, of fewer squares. */
static void transposes_in_blocks(void **state) {
    (void)state;
    check("graph @blocks {\n"
          "  %0 = input {name=\"x\"} : f32[2,150,203]\n"
          "  %1 = input {name=\"z\"} : bf16[2,150,203]\n"
          "  %2 = cast(%1) : f32[2,150,203]\n"
          "  %3 = sub(%0, %2) : f32[2,150,203]\n"
          "  %4 = transpose(%3) {perm=[0, 2, 1]} : f32[2,203,150]\n"
          "  output \"o\" %4\n"
          "}\n");
    check("graph @many {\n"
          "  %0 = input {name=\"a\"} : f32[133,70]\n"
          "  %1 = input {name=\"b\"} : f32[133,70]\n"
          "  %2 = input {name=\"c\"} : f32[133,70]\n"
          "  %3 = add(%0, %1) : f32[133,70]\n"
          "  %4 = mul(%3, %2) : f32[133,70]\n"
          "  %5 = transpose(%4) {perm=[1, 0]} : f32[70,133]\n"
          "  output \"o\" %5\n"
          "}\n");
}

/* Rows that lie across memory, as the classes of an image's points: a softmax, whose result lies so too. */
static void rows_across_memory(void **state) {
    (void)state;
    check("graph @classes {\n"
          "  %0 = input {name=\"x\"} : f32[2,19,9,37]\n"
          "  %1 = transpose(%0) {perm=[0, 2, 3, 1]} : f32[2,9,37,19]\n"
          "  %2 = reduce_max(%1) {axes=[3]} : f32[2,9,37]\n"
          "  %3 = broadcast(%2) {dims=[0, 1, 2]} : f32[2,9,37,19]\n"
          "  %4 = sub(%1, %3) : f32[2,9,37,19]\n"
          "  %5 = exp(%4) : f32[2,9,37,19]\n"
          "  %6 = reduce_sum(%5) {axes=[3]} : f32[2,9,37]\n"
          "  %7 = broadcast(%6) {dims=[0, 1, 2]} : f32[2,9,37,19]\n"
          "  %8 = div(%5, %7) : f32[2,9,37,19]\n"
          "  output \"sum\" %6\n"
          "  output \"share\" %8\n"
          "}\n");
}

/* A filter's update by a gradient that lies channels last: short rows, as one line where nothing but the gradient lies
 * otherwise (`more` 0), and row by row where something does. */
static void transposed_filters(void **state) {
    (void)state;
    static const char *const types[] = {"f32", "bf16", "f16"};
    static const struct {
        int out, in, kernel;
    } sizes[] = {{3, 4, 9},   {2, 5, 4},   {5, 17, 9},  {2, 64, 9},  {3, 65, 15}, {2, 130, 5},
                 {1, 200, 9}, {70, 33, 7}, {2, 37, 25}, {3, 16, 17}, {1, 70, 31}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int k = 0; k < 6; k++) {
            const int more = k % 2, out = sizes[s].out, in = sizes[s].in, kernel = sizes[s].kernel;
            char text[2048], w[32], g[32];
            snprintf(w, sizeof w, "f32[%d,%d,%d]", out, in, kernel);
            snprintf(g, sizeof g, "%s[%d,%d,%d]", types[k / 2], out, in, kernel);
            snprintf(text, sizeof text,
                     "graph @update {\n"
                     "  %%0 = input {name=\"w\"} : %s\n"
                     "  %%1 = input {name=\"dw\"} : %s[%d,%d,%d]\n"
                     "  %%2 = input {name=\"rate\"} : f32[]\n"
                     "  %%3 = input {name=\"scale\"} : f32[%d]\n"
                     "  %%4 = transpose(%%1) {perm=[0, 2, 1]} : %s\n"
                     "  %%5 = cast(%%4) : %s\n"
                     "  %%6 = broadcast(%%2) {dims=[]} : %s\n"
                     "  %%7 = broadcast(%%3) {dims=[1]} : %s\n"
                     "  %%8 = mul(%%5, %%%d) : %s\n"
                     "  %%9 = sub(%%0, %%8) : %s\n"
                     "  output \"o\" %%9\n"
                     "}\n",
                     w, types[k / 2], out, kernel, in, in, g, w, w, w, more ? 7 : 6, w, w);
            check_text(text, &(compiled_options){0});
        }
}

/* GELU and its slope as %16; or what is made of them as %20, %21. */
static void write_gelu(char *text, size_t size, const char *more) {
    snprintf(text, size,
             "graph @g {\n"
             "  %%0 = input {name=\"x\"} : f32[37,53]\n"
             "  %%1 = constant {values=[0x1.6a09e6p-1]} : f32[37,53]\n"
             "  %%2 = mul(%%0, %%1) : f32[37,53]\n"
             "  %%3 = erf(%%2) : f32[37,53]\n"
             "  %%4 = constant {values=[1]} : f32[37,53]\n"
             "  %%5 = add(%%3, %%4) : f32[37,53]\n"
             "  %%6 = constant {values=[0.5]} : f32[37,53]\n"
             "  %%7 = mul(%%5, %%6) : f32[37,53]\n"
             "  %%8 = mul(%%0, %%7) : f32[37,53]\n"
             "  %%14 = normal_density(%%0) : f32[37,53]\n"
             "  %%15 = mul(%%0, %%14) : f32[37,53]\n"
             "  %%16 = add(%%7, %%15) : f32[37,53]\n"
             "%s"
             "  output \"y\" %%%d\n"
             "  output \"slope\" %%%d\n"
             "}\n",
             more, *more ? 20 : 8, *more ? 21 : 16);
}

/* The kernels of a graph, compiled for a CPU, as assembly; to be freed. */
static char *assembly_for(const char *cpu, const char *text) {
    tcc_llvm_target target;
    tcc_diag diag = {0};
    tcc_context cx = {0};
    tcc_graph *g = parse_graph(text, &diag), *graph;
    tcc_program *program;
    assert_int_equal(tcc_llvm_target_host(cpu, &diag, &target), TCC_OK);
    target.quick = false; /* what is looked at is what LLVM makes of them */
    compiled_build(g, &(compiled_options){.dump_dir = "."}, &target, &cx, &graph, &program);
    char *assembly = calloc(1, 1 << 20);
    FILE *f = fopen("g.module00.s", "r");
    assert_non_null(f);
    assert_true(fread(assembly, 1, (1 << 20) - 1, f) > 0);
    fclose(f);
    tcc_program_destroy(program);
    tcc_graph_destroy(graph);
    tcc_graph_destroy(g);
    tcc_llvm_target_clear(&target);
    return assembly;
}

static char *assembly_of(const char *text) { return assembly_for("znver4", text); }

static int count_of(const char *text, const char *instruction) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, instruction)); at++) count++;
    return count;
}

static bool has_instruction(const char *text, const char *name) {
    char *assembly = assembly_of(text);
    const bool has = strstr(assembly, name) != NULL;
    free(assembly);
    return has;
}

/* Where an instruction looks erf up, the density comes with it: no exponential, and not a table more than erf has. */
static void slope_of_gelu(void **state) {
    (void)state;
    static const char *const cpus[] = {"znver4", "x86-64-v3"};
    char both[2048];
    write_gelu(both, sizeof both, "");
    for (int eager = 0; eager < 2; eager++)
        check_text(both, &(compiled_options){.eager = eager, .low = -9, .high = 9, .tolerance = 4e-7});
    skip_without(ON_X86_64, "it looks at instructions of x86-64");
    for (int i = 0; i < 2; i++) {
        char *of_both = assembly_for(cpus[i], both),
             *of_erf = assembly_for(cpus[i], "graph @g {\n"
                                             "  %0 = input {name=\"x\"} : f32[37,53]\n"
                                             "  %1 = erf(%0) : f32[37,53]\n"
                                             "  output \"erf\" %1\n"
                                             "}\n");
        assert_int_equal(count_of(of_both, "vpslld"), 0); /* which makes powers of two */
        assert_true(count_of(of_erf, "vpermps") > 0);
        assert_int_equal(count_of(of_both, "vpermps"), count_of(of_erf, "vpermps"));
        free(of_both), free(of_erf);
    }
}

/* Whether the line from `line` to `end` is of that instruction. */
static bool has_on_line(const char *line, const char *end, const char *instruction) {
    const char *at = strstr(line, instruction);
    return at && end && at < end;
}

/* The sums of a product stay in registers, whatever constants its epilogue needs, with `columns` of them. */
static void check_sums(int columns) {
    char of_37_53[4096], product[1024];
    tcc_strbuf text = {0};
    snprintf(product, sizeof product,
             "  %%17 = input {name=\"dy\"} : f32[768,128]\n"
             "  %%18 = input {name=\"w\"} : f32[128,%d]\n"
             "  %%19 = dot(%%17, %%18) {contract_a=[1], contract_b=[0]} : f32[37,53]\n"
             "  %%20 = add(%%19, %%8) : f32[37,53]\n"
             "  %%21 = mul(%%19, %%16) : f32[37,53]\n",
             columns);
    write_gelu(of_37_53, sizeof of_37_53, product);
    for (char *from = of_37_53, *at; from; from = at ? at + strlen("37,53") : NULL) {
        at = strstr(from, "37,53");
        tcc_strbuf_printf(&text, "%.*s", at ? (int)(at - from) : -1, from);
        if (at) tcc_strbuf_printf(&text, "768,%d", columns); /* whole tiles, several blocks */
    }
    char *assembly = assembly_of(text.text);
    assert_non_null(strstr(assembly, "vfmadd231ps"));
    /* of blocks of products: the epilogue, which looks up tables, has four vectors at once and not enough registers */
    int spills = 0, of_block = 0, products = 0, tables = 0;
    for (const char *line = assembly; line; line = strchr(line + 1, '\n')) {
        const char *end = strchr(line + 1, '\n'), *zmm = strstr(line, "%zmm"), *stack = strstr(line, "(%rsp)");
        if (line[1] == '.' || !end) {
            spills += products && !tables ? of_block : 0;
            of_block = products = tables = 0;
        }
        of_block += zmm && stack && zmm < end && stack < end;
        products += has_on_line(line, end, "vfmadd231ps");
        tables += has_on_line(line, end, "vpermps");
    }
    assert_int_equal(spills, 0);
    free(assembly);
    tcc_strbuf_free(&text);
}

/* With an epilogue of several vectors at once, and of one. */
static void sums_are_not_spilled(void **state) {
    (void)state;
    skip_without(ON_X86_64, "it looks at instructions of x86-64");
    check_sums(512);
    check_sums(520);
}

/* The sum of `op` of `parts` rows of x. */
static char *sum_of(const char *op, int operands, const char *dtype, int parts) {
    tcc_strbuf b = {0};
    tcc_strbuf_printf(&b, "graph @g {\n  %%0 = input {name=\"x\"} : %s[%d,37]\n", dtype, parts);
    int next = 1, sum = 0;
    for (int i = 0; i < parts; i++) {
        tcc_strbuf_printf(&b, "  %%%d = slice(%%0) {start=[%d, 0], limit=[%d, 37], stride=[1, 1]} : %s[1,37]\n", next,
                          i, i + 1, dtype);
        tcc_strbuf_printf(&b, operands == 1 ? "  %%%d = %s(%%%d) : %s[1,37]\n" : "  %%%d = %s(%%%d, %%1) : %s[1,37]\n",
                          next + 1, op, next, dtype);
        next += 2;
        if (i) tcc_strbuf_printf(&b, "  %%%d = add(%%%d, %%%d) : %s[1,37]\n", next, sum, next - 1, dtype);
        sum = i ? next++ : next - 1;
    }
    tcc_strbuf_printf(&b, "  output \"y\" %%%d\n}\n", sum);
    return b.text;
}

/* The products of a contraction are no values of the graph: each is added to its sum in one instruction. */
static void depthwise_adds_products_at_once(void **state) {
    (void)state;
    static const char *const dtypes[] = {"f32", "bf16"};
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph @g {\n"
                 "  %%0 = input {name=\"x\"} : %s[2,14,14,32]\n"
                 "  %%1 = input {name=\"w\"} : %s[32,3,3,1]\n"
                 "  %%2 = conv(%%0, %%1) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=32, "
                 "channels_last=true} : %s[2,14,14,32]\n"
                 "  output \"y\" %%2\n"
                 "}\n",
                 dtypes[i], dtypes[i], dtypes[i]);
        check_text(text, &(compiled_options){.tolerance = i ? 3e-2 : 1e-5});
        if (!ON_X86_64) continue;
        char *assembly = assembly_of(text);
        assert_true(count_of(assembly, "vfmadd") > 0);
        assert_int_equal(count_of(assembly, "vmulps"), 0);
        free(assembly);
    }
}

/* What a kernel has often and is long is a function of the module. */
static void long_functions_are_called(void **state) {
    (void)state;
    static const char *const ops[] = {"exp", "log", "sin", "cos", "tanh", "sigmoid", "erf", "log1p", "pow"};
    static const char *const dtypes[] = {"f32", "f64", "f16", "bf16"};
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
            char *text = sum_of(ops[i], 1 + !strcmp(ops[i], "pow"), dtypes[d], 9);
            const double tolerance = d == 0 ? 2e-6 : d == 1 ? 1e-12 : d == 2 ? 4e-3 : 3e-2;
            check_text(text, &(compiled_options){.low = 0.1, .high = 2, .tolerance = tolerance});
            free(text);
        }
    skip_without(ON_X86_64, "it looks at instructions of x86-64");
    for (int parts = 7; parts <= 9; parts += 2) {
        char *text = sum_of("sin", 1, "f32", parts);
        assert_int_equal(has_instruction(text, "tcc_sin.f32"), parts == 9);
        free(text);
    }
}

/* The sum of `parts` draws of n elements each. */
static char *sum_of_draws(const char *op, int parts, int n) {
    const char *const dtype = strcmp(op, "rng_bits") ? "f32" : "i32";
    tcc_strbuf b = {0};
    tcc_strbuf_add(&b, "graph @g {\n  %0 = constant {values=[7, 9]} : i64[2]\n");
    int next = 1, sum = 0;
    for (int i = 0; i < parts; i++) {
        tcc_strbuf_printf(&b, "  %%%d = %s(%%0) {id=%d} : %s[%d]\n", next++, op, 3 * i, dtype, n);
        if (i) tcc_strbuf_printf(&b, "  %%%d = add(%%%d, %%%d) : %s[%d]\n", next, sum, next - 1, dtype, n), next++;
        sum = next - 1;
    }
    tcc_strbuf_printf(&b, "  output \"y\" %%%d\n}\n", sum);
    return b.text;
}

static void many_draws_are_called(void **state) {
    (void)state;
    static const char *const ops[] = {"rng_bits", "rng_uniform", "rng_normal"};
    for (int i = 0; i < 3; i++)
        for (int n = 5; n <= 101; n += 48) {
            char *text = sum_of_draws(ops[i], 9, n);
            check_text(text, &(compiled_options){.tolerance = 1e-5});
            free(text);
        }
    skip_without(ON_X86_64, "it looks at instructions of x86-64");
    for (int parts = 7; parts <= 9; parts += 2) {
        char *text = sum_of_draws("rng_normal", parts, 100);
        assert_int_equal(has_instruction(text, "tcc_rng_normal."), parts == 9);
        free(text);
    }
}

/* What an epilogue loads and stores is fetched while the sums are made, where there are enough of them; or for a later
 * tile, where there are enough of those. */
static void epilogues_are_fetched(void **state) {
    (void)state;
    static const struct {
        const char *type;
        int rows, k;
        bool fetched;
    } all[] = {{"f32", 50, 32, false}, {"f32", 700, 32, true}, {"f32", 50, 256, true}, {"bf16", 20, 96, true}};
    for (int i = 0; i < 4; i++) {
        char text[512];
        snprintf(text, sizeof text,
                 "graph @g {\n"
                 "  %%0 = input {name=\"a\"} : %s[%d,%d]\n"
                 "  %%1 = input {name=\"b\"} : %s[%d,70]\n"
                 "  %%2 = input {name=\"c\"} : %s[%d,70]\n"
                 "  %%3 = dot(%%0, %%1) {contract_a=[1], contract_b=[0]} : %s[%d,70]\n"
                 "  %%4 = mul(%%3, %%2) : %s[%d,70]\n"
                 "  output \"o\" %%4\n"
                 "}\n",
                 all[i].type, all[i].rows, all[i].k, all[i].type, all[i].k, all[i].type, all[i].rows, all[i].type,
                 all[i].rows, all[i].type, all[i].rows);
        check_text(text, &(compiled_options){.tolerance = all[i].type[0] == 'b' ? 0.1 : 1e-4});
        if (ON_X86_64) assert_int_equal(has_instruction(text, "prefetchw"), all[i].fetched);
    }
}

/* They share a function, so they lie in as few modules as hold them. */
static void transposes_share_a_module(void **state) {
    (void)state;
    tcc_strbuf text = {0};
    tcc_strbuf_add(&text, "graph @many {\n");
    for (int i = 0; i < 12; i++) {
        const int m = 40 + i;
        tcc_strbuf_printf(&text, "  %%%d = input {name=\"x%d\"} : f32[%d,50]\n", 2 * i, i, m);
        if (i % 3) tcc_strbuf_printf(&text, "  %%%d = reduce_sum(%%%d) {axes=[0]} : f32[50]\n", 2 * i + 1, 2 * i);
        else tcc_strbuf_printf(&text, "  %%%d = transpose(%%%d) {perm=[1, 0]} : f32[50,%d]\n", 2 * i + 1, 2 * i, m);
    }
    for (int i = 0; i < 12; i++) tcc_strbuf_printf(&text, "  output \"o%d\" %%%d\n", i, 2 * i + 1);
    tcc_strbuf_add(&text, "}\n");
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text.text, &diag);
    kernel_cache_off = true; /* where a kernel lies is asked */
    compiled *c = compiled_create(g, &(compiled_options){0});
    kernel_cache_off = false;
    const tcc_program *p = c->program;
    int module = -1, tiles = 0;
    for (int i = 0; i < p->n_kernels; i++) {
        if (strcmp(p->kernels[i].schedule, "tile")) continue;
        if (module < 0) module = p->kernels[i].module;
        assert_int_equal(p->kernels[i].module, module);
        tiles++;
    }
    assert_int_equal(tiles, 4);
    assert_true(p->n_modules >= 2);
    compiled_destroy(c);
    tcc_graph_destroy(g);
    tcc_strbuf_free(&text);
}

static void joined(void **state) {
    (void)state;
    check("graph @heads {\n"
          "  %0 = input {name=\"q\"} : f32[2,3,5,8]\n"
          "  %1 = input {name=\"k\"} : f32[2,3,5,8]\n"
          "  %2 = transpose(%0) {perm=[0, 2, 1, 3]} : f32[2,5,3,8]\n"
          "  %3 = reshape(%2) : f32[2,5,24]\n"
          "  %4 = transpose(%1) {perm=[0, 2, 1, 3]} : f32[2,5,3,8]\n"
          "  %5 = reshape(%4) : f32[2,5,24]\n"
          "  %6 = concat(%3, %5) {axis=2} : f32[2,5,48]\n"
          "  output \"o\" %6\n"
          "}\n");
}

/* A bias and a weight that one step updates: its items can be shared by threads, whichever stands first. A bias of no
 * whole vectors has a kernel of its own, with masks. */
static void small_and_large_share_a_step(void **state) {
    (void)state;
    static const char update[] = "graph @update {\n"
                                 "  %%0 = input {role=state, name=\"first\"} : f32[%d]\n"
                                 "  %%1 = input {role=state, name=\"second\"} : f32[%d]\n"
                                 "  %%2 = mul(%%0, %%0) : f32[%d]\n"
                                 "  %%3 = mul(%%1, %%1) : f32[%d]\n"
                                 "  output \"first\" %%2 alias %%0\n"
                                 "  output \"second\" %%3 alias %%1\n"
                                 "}\n";
    for (int odd = 0; odd < 2; odd++)
        for (int order = 0; order < 2; order++) {
            char text[sizeof update + 40];
            tcc_diag diag = {0};
            const int small = odd ? 10 : 64, first = order ? 400000 : small, second = order ? small : 400000;
            snprintf(text, sizeof text, update, first, second, first, second);
            tcc_graph *g = parse_graph(text, &diag);
            compiled *c = compiled_create(g, &(compiled_options){0});
            assert_int_equal(c->program->n_steps, 1 + odd);
            const tcc_step *step = &c->program->steps[0];
            assert_int_equal(step->n_instances, 2 - odd);
            if (!odd) assert_true(step->instances[0].items + step->instances[1].items >= 4 * step->grain);
            compiled_destroy(c);
            tcc_graph_destroy(g);
        }
}

static void rows(void **state) {
    (void)state;
    check("graph @softmax {\n"
          "  %0 = input {name=\"x\"} : f32[9,70]\n"
          "  %1 = softmax(%0) {axis=1} : f32[9,70]\n"
          "  output \"o\" %1\n"
          "}\n");
    check("graph @norm {\n"
          "  %0 = input {name=\"x\"} : f32[6,48]\n"
          "  %1 = input {name=\"w\"} : f32[48]\n"
          "  %2 = input {name=\"b\"} : f32[48]\n"
          "  %3 = layer_norm(%0, %1, %2) {eps=0x1p-17, axis=1} : f32[6,48]\n"
          "  output \"o\" %3\n"
          "}\n");
}

static void columns(void **state) {
    (void)state;
    check("graph @columns {\n"
          "  %0 = input {name=\"x\"} : f32[50,37]\n"
          "  %1 = reduce_sum(%0) {axes=[0]} : f32[37]\n"
          "  %2 = reduce_max(%0) {axes=[0]} : f32[37]\n"
          "  output \"o\" %1\n"
          "  output \"m\" %2\n"
          "}\n");
    check("graph @pieces {\n"
          "  %0 = input {name=\"x\"} : f32[3000,40]\n"
          "  %1 = reduce_sum(%0) {axes=[0]} : f32[40]\n"
          "  %2 = reduce_sum(%0) {axes=[0, 1]} : f32[]\n"
          "  output \"o\" %1\n"
          "  output \"all\" %2\n"
          "}\n");
    check("graph @between {\n"
          "  %0 = input {name=\"x\"} : f32[4,6,5,3]\n"
          "  %1 = reduce_sum(%0) {axes=[0, 2]} : f32[6,3]\n"
          "  %2 = reduce_min(%0) {axes=[0, 2, 3]} : f32[6]\n"
          "  %3 = argmax(%0) {axis=2} : i32[4,6,3]\n"
          "  %4 = argmax(%0) {axis=3} : i32[4,6,5]\n"
          "  output \"a\" %1\n"
          "  output \"b\" %2\n"
          "  output \"c\" %3\n"
          "  output \"d\" %4\n"
          "}\n");
}

static void contractions(void **state) {
    (void)state;
    check("graph @dot {\n"
          "  %0 = input {name=\"x\"} : f32[13,20]\n"
          "  %1 = input {name=\"w\"} : f32[20,18]\n"
          "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f32[13,18]\n"
          "  %3 = tanh(%2) : f32[13,18]\n"
          "  output \"o\" %3\n"
          "}\n");
}

static void scans_and_scatters(void **state) {
    (void)state;
    check("graph @scan {\n"
          "  %0 = input {name=\"x\"} : f32[5,7,18]\n"
          "  %1 = cumsum(%0) {axis=1} : f32[5,7,18]\n"
          "  %2 = cumsum(%0) {axis=2, reverse=true} : f32[5,7,18]\n"
          "  output \"a\" %1\n"
          "  output \"b\" %2\n"
          "}\n");
    check("graph @scatter {\n"
          "  %0 = input {name=\"table\"} : f32[9,21]\n"
          "  %1 = input {name=\"i\"} : i32[3,5]\n"
          "  %2 = input {name=\"u\"} : f32[3,5,21]\n"
          "  %3 = scatter_add(%0, %1, %2) {axis=0} : f32[9,21]\n"
          "  %4 = take(%0, %1) {axis=0} : f32[3,5,21]\n"
          "  output \"a\" %3\n"
          "  output \"b\" %4\n"
          "}\n");
}

static void states_and_constants(void **state) {
    (void)state;
    check("graph @state {\n"
          "  %0 = input {role=state, name=\"m\"} : f32[100]\n"
          "  %1 = input {name=\"g\"} : f32[100]\n"
          "  %2 = constant {values=[3]} : f32[4]\n"
          "  %3 = constant {values=[1, 2, 3, 4]} : f32[4]\n"
          "  %4 = add(%0, %1) : f32[100]\n"
          "  output \"m.next\" %4 alias %0\n"
          "  output \"c\" %2\n"
          "  output \"d\" %3\n"
          "  output \"g.again\" %1\n"
          "}\n");
}

/* Where only some lanes are inside the padding, the key is still one for all. */
static void draws_behind_padding(void **state) {
    (void)state;
    check("graph @draws {\n"
          "  %0 = input {role=rng, name=\"key\"} : i64[2]\n"
          "  %1 = rng_normal(%0) : f32[3,17,1,1]\n"
          "  %2 = pad(%1) {lo=[0, 2, 3, 0], hi=[0, 0, 3, 0], interior=[0, 0, 0, 0]} : f32[3,19,7,1]\n"
          "  %3 = reshape(%2) : f32[399,1]\n"
          "  %4 = input {name=\"u\"} : f32[3,1]\n"
          "  %5 = input {name=\"i\"} : i64[3,1]\n"
          "  %6 = scatter_add_along(%3, %5, %4) : f32[399,1]\n"
          "  output \"a\" %6\n"
          "}\n");
}

/* The logarithm of a softmax over rows of a product that lies in other dims, the last one `last`. It
 * reads what the contraction has stored, and a table is stored for the rows that are taken from it: in its place. */
static void check_log_softmax(const char *dims, int last, const char *rows, const char *kept, int axis) {
    char text[2048], restored[64] = "0";
    int contracted = 0;
    for (const char *c = dims; *c; c++) contracted += *c == ',';
    for (int i = 1; i < axis; i++) sprintf(restored + strlen(restored), ", %d", i);
    snprintf(text, sizeof text,
             "graph @log_softmax {\n"
             "  %%0 = input {name=\"x\"} : f32[%s]\n"
             "  %%1 = input {name=\"w\"} : f32[%d,%d]\n"
             "  %%2 = dot(%%0, %%1) {contract_a=[%d], contract_b=[0]} : f32[%s]\n"
             "  %%3 = reshape(%%2) : f32[%s]\n"
             "  %%4 = reduce_max(%%3) {axes=[%d]} : f32[%s]\n"
             "  %%5 = broadcast(%%4) {dims=[%s]} : f32[%s]\n"
             "  %%6 = sub(%%3, %%5) : f32[%s]\n"
             "  %%7 = exp(%%6) : f32[%s]\n"
             "  %%8 = reduce_sum(%%7) {axes=[%d]} : f32[%s]\n"
             "  %%9 = log(%%8) : f32[%s]\n"
             "  %%10 = broadcast(%%9) {dims=[%s]} : f32[%s]\n"
             "  %%11 = sub(%%6, %%10) : f32[%s]\n"
             "  %%12 = reshape(%%11) : f32[%s]\n"
             "  %%13 = input {name=\"i\"} : i32[5]\n"
             "  %%14 = take(%%12, %%13) {axis=0} : f32[5%s]\n"
             "  output \"o\" %%14\n"
             "}\n",
             dims, last, last, contracted, dims, rows, axis, kept, restored, rows, rows, rows, axis, kept, kept,
             restored, rows, rows, dims, strchr(dims, ','));
    check(text);
}

/* The dims of a stored reshape and those of the rows may have no common factors: each element still gets its own row's
 * maximum and sum, made before the row is written over. */
static void reduced_rows_in_other_dims(void **state) {
    (void)state;
    check_log_softmax("34,13", 13, "13,34", "13", 1);
    check_log_softmax("2,1,13", 13, "13,2", "13", 1);
    check_log_softmax("1,2,13", 13, "13,2", "13", 1);
    check_log_softmax("2,13,1", 1, "13,2", "13", 1);
    check_log_softmax("2,13", 13, "13,1,2", "13,1", 2);
    check_log_softmax("2,13", 13, "1,13,2", "1,13", 2);
    check_log_softmax("15,1,77", 77, "35,33", "35", 1);
    check_log_softmax("15,77", 77, "7,1,5,33", "7,1,5", 3);
    check_log_softmax("6,35", 35, "5,42", "5", 1);
    check_log_softmax("3,1,1,70", 70, "1,5,42", "1,5", 2);
    check_log_softmax("1,221", 221, "17,13", "17", 1);
    check_log_softmax("221,1", 1, "17,13", "17", 1);
    check_log_softmax("13,17", 17, "1,221", "1", 1);
}

/* Slices of what was padded in which nothing but padding is left: the value in memory is not read. */
static void padding_alone(void **state) {
    (void)state;
    check_text("graph @interior {\n"
               "  %0 = input {name=\"x\"} : f32[1,3]\n"
               "  %1 = add(%0, %0) : f32[1,3]\n"
               "  %2 = pad(%1) {lo=[3, 2], hi=[0, 3], interior=[1, 0]} : f32[4,8]\n"
               "  %3 = slice(%2) {start=[2, 6], limit=[3, 8], stride=[1, 1]} : f32[1,2]\n"
               "  %4 = pad(%3) {value=1, lo=[0, 0], hi=[1, 0], interior=[0, 0]} : f32[2,2]\n"
               "  output \"y\" %4\n  output \"x2\" %1\n}\n",
               &(compiled_options){.tolerance = 1e-6});
    check_text("graph @behind {\n"
               "  %0 = input {name=\"x\"} : f32[3,9,3,5]\n"
               "  %1 = reduce_max(%0) {axes=[3]} : f32[3,9,3]\n"
               "  %2 = pad(%1) {lo=[0, 0, 2], hi=[1, 0, 1], interior=[0, 0, 0]} : f32[4,9,6]\n"
               "  %3 = mul(%2, %2) : f32[4,9,6]\n"
               "  %4 = slice(%3) {start=[3, 2, 0], limit=[4, 9, 6], stride=[1, 3, 1]} : f32[1,3,6]\n"
               "  output \"y\" %4\n}\n",
               &(compiled_options){.tolerance = 1e-6});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointwise),
        cmocka_unit_test(views),
        cmocka_unit_test(transposes),
        cmocka_unit_test(transposes_in_blocks),
        cmocka_unit_test(rows_across_memory),
        cmocka_unit_test(transposed_filters),
        cmocka_unit_test(slope_of_gelu),
        cmocka_unit_test(sums_are_not_spilled),
        cmocka_unit_test(depthwise_adds_products_at_once),
        cmocka_unit_test(long_functions_are_called),
        cmocka_unit_test(many_draws_are_called),
        cmocka_unit_test(epilogues_are_fetched),
        cmocka_unit_test(transposes_share_a_module),
        cmocka_unit_test(joined),
        cmocka_unit_test(small_and_large_share_a_step),
        cmocka_unit_test(rows),
        cmocka_unit_test(columns),
        cmocka_unit_test(contractions),
        cmocka_unit_test(scans_and_scatters),
        cmocka_unit_test(states_and_constants),
        cmocka_unit_test(draws_behind_padding),
        cmocka_unit_test(padding_alone),
        cmocka_unit_test(reduced_rows_in_other_dims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
