/* SPDX-License-Identifier: MIT
 * A graph for each schedule, and values of its parameters beside those that are chosen. */
#include "harness/choice_cases.h"
#include "harness/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const choice_case choice_cases[] = {
    {.name = "flat",
     .text = "graph @flat {\n"
             "  %0 = input {name=\"x\"} : f32[5003]\n"
             "  %1 = exp(%0) : f32[5003]\n"
             "  %2 = add(%0, %1) : f32[5003]\n"
             "  output \"y\" %2\n"
             "}\n",
     .host = {"lanes=1", "lanes=32,points=64", "lanes=4,points=16777216"},
     .gpu = {"lanes=1,group=64,points=64", "lanes=2,group=512,points=1024", "group=8,-points"}},
    {.name = "nest",
     .text = "graph @nest {\n"
             "  %0 = input {name=\"x\"} : f32[37,52]\n"
             "  %1 = input {name=\"w\"} : f32[52]\n"
             "  %2 = broadcast(%1) {dims=[1]} : f32[37,52]\n"
             "  %3 = mul(%0, %2) : f32[37,52]\n"
             "  output \"y\" %3\n"
             "}\n",
     .host = {"lanes=1,points=7", "lanes=4,points=8"},
     .gpu = {"lanes=2,group=4,points=24", "threads=64", "lanes=1,group=64,-threads,-points"}},
    {.name = "phases", /* of a stride, one by one where they make no vector that is stored at once */
     .text = "graph @phases {\n"
             "  %0 = input {name=\"dy\"} : f32[2,3,8,45]\n"
             "  %1 = avg_pool_grad(%0) {window=[1, 3], stride=[1, 3], pad_lo=[0, 0], pad_hi=[0, 0]} : "
             "f32[2,3,8,135]\n"
             "  output \"y\" %1\n"
             "}\n",
     .host = {"lanes=1", "lanes=32"}},
    {.name = "turn",
     .text = "graph @turn {\n"
             "  %0 = input {name=\"x\"} : f32[3,72,100]\n"
             "  %1 = transpose(%0) {perm=[0, 2, 1]} : f32[3,100,72]\n"
             "  %2 = exp(%1) : f32[3,100,72]\n"
             "  output \"y\" %2\n"
             "}\n",
     .host = {"lanes=4,lines=5", "lines=400"},
     .gpu = {"side=32", "lanes=2,side=32", "lanes=1,side=32"}},
    {.name = "softmax",
     .text = "graph @softmax {\n"
             "  %0 = input {name=\"x\"} : f32[40,300]\n"
             "  %1 = softmax(%0) {axis=1} : f32[40,300]\n"
             "  output \"y\" %1\n"
             "}\n",
     .host = {"kept=0,lines=1", "lanes=1", "lanes=32,lines=40", "parts=4,-kept"},
     .gpu = {"group=128,-threads,-steps", "kept=0,steps=0", "group=64,-threads,steps=0", "threads=32",
             "lanes="
             "1,-steps",
             "kept=1,-steps", "parts=4,-kept,-steps"}},
    {.name = "norm",
     .text = "graph @norm {\n"
             "  %0 = input {name=\"x\"} : f32[40,3000]\n"
             "  %1 = input {name=\"w\"} : f32[3000]\n"
             "  %2 = input {name=\"b\"} : f32[3000]\n"
             "  %3 = layer_norm(%0, %1, %2) {eps=0x1p-10, axis=1} : f32[40,3000]\n"
             "  output \"y\" %3\n"
             "}\n",
     .host = {"sweeps=1,-kept", "kept=1", "lanes=4,lines=9", "sweeps=1,parts=5,-kept"},
     .gpu = {"sweeps=1,-kept,-steps", "group=1024,-steps", "group=256,steps=0", "kept=0,steps=0,group=32",
             "sweeps=1,parts=5,-kept,-steps"}},
    {.name = "total",
     .text = "graph @total {\n"
             "  %0 = input {name=\"x\"} : f32[300,1000]\n"
             "  %1 = mul(%0, %0) : f32[300,1000]\n"
             "  %2 = reduce_sum(%1) {axes=[0, 1]} : f32[]\n"
             "  output \"y\" %2\n"
             "}\n",
     .host = {"parts=1,-lines,-lanes_1", "parts=300", "lanes=1", "lanes_1=1"},
     .gpu = {"parts=1,-lanes_1,-group_1,-steps_1,-threads_1", "parts=300,-steps_1", "lanes=1,lanes_1=1,-steps_1",
             "group=32"}},
    {.name = "columns",
     .text = "graph @columns {\n"
             "  %0 = input {name=\"x\"} : f32[300,40]\n"
             "  %1 = exp(%0) : f32[300,40]\n"
             "  %2 = reduce_sum(%1) {axes=[0]} : f32[40]\n"
             "  %3 = broadcast(%2) {dims=[1]} : f32[300,40]\n"
             "  %4 = div(%1, %3) : f32[300,40]\n"
             "  output \"e\" %1\n"
             "  output \"y\" %4\n"
             "}\n",
     .host = {"lanes=4,lines=1", "parts=3"},
     .gpu = {"parts=1,-lanes_1,-group_1,-split_1", "split=2,split_1=1", "group=8,lanes=2", "split=1,group=4"}},
    {.name = "scan_rows",
     .text = "graph @scan_rows {\n"
             "  %0 = input {name=\"x\"} : f32[12,300]\n"
             "  %1 = cumsum(%0) {axis=1} : f32[12,300]\n"
             "  output \"y\" %1\n"
             "}\n",
     .host = {"lanes=1", "lanes=4,lines=5", "lines=1"},
     .gpu = {"group=1", "group=16", "lanes=1,group=512", "lanes=2,group=32"}},
    {.name = "linear_scan_rows",
     .text = "graph @linear_scan_rows {\n"
             "  %0 = input {name=\"x\"} : f32[12,300]\n"
             "  %1 = input {name=\"y\"} : f32[12,300]\n"
             "  %2 = linear_scan(%0, %1) {axis=1} : f32[12,300]\n"
             "  output \"y\" %2\n"
             "}\n",
     .host = {"lanes=1", "lanes=4,lines=5", "lines=1"},
     .gpu = {"group=1", "group=16", "lanes=1,group=512", "lanes=2,group=32"}},
    {.name = "scan_columns",
     .text = "graph @scan_columns {\n"
             "  %0 = input {name=\"x\"} : f32[30,4,300]\n"
             "  %1 = cumsum(%0) {axis=0, reverse=true} : f32[30,4,300]\n"
             "  output \"y\" %1\n"
             "}\n",
     .host = {"lanes=32,lines=7", "lanes=1"},
     .gpu = {"lanes=1,group=32", "group=8"}},
    {.name = "across",
     .text = "graph @across {\n"
             "  %0 = input {name=\"x\"} : f32[600,70]\n"
             "  %1 = input {name=\"d\"} : f32[600,70]\n"
             "  %2 = mul(%0, %1) : f32[600,70]\n"
             "  %3 = reduce_sum(%2) {axes=[1]} : f32[600]\n"
             "  %4 = broadcast(%3) {dims=[0]} : f32[600,70]\n"
             "  %5 = sub(%2, %4) : f32[600,70]\n"
             "  %6 = reduce_sum(%5) {axes=[0]} : f32[70]\n"
             "  output \"y\" %5\n"
             "  output \"c\" %6\n"
             "}\n",
     .host = {"slice=7", "kept=1,lanes=4", "lanes=1,lanes_1=4,lines_1=3"},
     .gpu = {"slice=7", "split=1", "group=16,split=2,-steps", "steps=0,kept=0,-split", "lanes=1,-steps",
             "group=64,-steps,-split"}},
    {.name = "scatter",
     .text = "graph @scatter {\n"
             "  %0 = input {name=\"x\"} : f32[30,200]\n"
             "  %1 = input {name=\"i\"} : i32[40]\n"
             "  %2 = input {name=\"u\"} : f32[40,200]\n"
             "  %3 = scatter_add(%0, %1, %2) : f32[30,200]\n"
             "  output \"y\" %3\n"
             "}\n",
     .host = {"lanes_1=1", "lanes=4,points=12"},
     .gpu = {"lanes_1=1,steps_1=3", "steps_1=2", "lanes=1,group=32,points=32"}},
    {.name = "scatter_narrow",
     .tolerance = 2e-2,
     .text = "graph @scatter_narrow {\n"
             "  %0 = input {name=\"x\"} : f16[30,200]\n"
             "  %1 = input {name=\"i\"} : i32[40]\n"
             "  %2 = input {name=\"u\"} : f16[40,200]\n"
             "  %3 = scatter_add(%0, %1, %2) : f16[30,200]\n"
             "  output \"y\" %3\n"
             "}\n",
     .host = {"lanes_1=4,lanes_3=8", "lanes=1,points=77,lanes_3=1"},
     .gpu = {"lanes_1=2,steps_1=4"}},
    {.name = "attention",
     .text = "graph @attention {\n"
             "  %0 = input {name=\"q\"} : f32[2,300,24]\n"
             "  %1 = input {name=\"k\"} : f32[2,600,24]\n"
             "  %2 = input {name=\"v\"} : f32[2,600,24]\n"
             "  %3 = sdpa(%0, %1, %2) {scale=0.25} : f32[2,300,24]\n"
             "  output \"o\" %3\n"
             "}\n",
     .host = {"rows=3,queries=33", "keys=64", "keys=528,queries=16", "queries=300"},
     .gpu = {"rows=32", "columns=32", "rows=32,columns=32"}},
    {.name = "attention_back",
     .text = "graph @attention_back {\n"
             "  %0 = input {name=\"q\"} : f32[1,70,24]\n"
             "  %1 = input {name=\"k\"} : f32[1,100,24]\n"
             "  %2 = input {name=\"v\"} : f32[1,100,24]\n"
             "  %3 = input {name=\"d\"} : f32[1,70,24]\n"
             "  %4 = sdpa(%0, %1, %2) {scale=0.25} : f32[1,70,24]\n"
             "  %5 = sdpa_lse(%0, %1) {scale=0.25} : f32[1,70]\n"
             "  %6 = sdpa_grad_q(%0, %1, %2, %4, %5, %3) {scale=0.25} : f32[1,70,24]\n"
             "  %7 = sdpa_grad_k(%0, %1, %2, %4, %5, %3) {scale=0.25} : f32[1,100,24]\n"
             "  %8 = sdpa_grad_v(%0, %1, %2, %4, %5, %3) {scale=0.25} : f32[1,100,24]\n"
             "  output \"dq\" %6\n"
             "  output \"dk\" %7\n"
             "  output \"dv\" %8\n"
             "}\n",
     .host = {"rows=4,queries=16", "keys=80,queries=24", "rows=1,queries=1"},
     .gpu = {"rows=32,columns=32,rows_1=32", "columns=32", "rows_1=32"}},
    {.name = "conv",
     .text = "graph @conv {\n"
             "  %0 = input {name=\"x\"} : f32[2,12,12,32]\n"
             "  %1 = input {name=\"w\"} : f32[64,3,3,32]\n"
             "  %2 = conv(%0, %1) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=1, "
             "channels_last=true} "
             ": f32[2,12,12,64]\n"
             "  output \"y\" %2\n"
             "}\n",
     .host = {"width=32,vectors=2", "block_k=16,rows=1,tiles=9", "rows=2,tiles=6"},
     .gpu = {"tile_m=64,tile_n=64,-split_k"}},
    {.name = "conv_weight",
     .text = "graph @conv_weight {\n"
             "  %0 = input {name=\"x\"} : f32[4,12,12,32]\n"
             "  %1 = input {name=\"d\"} : f32[4,12,12,64]\n"
             "  %2 = conv_grad_weight(%0, %1) "
             "{stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], groups=1, "
             "channels_last=true} : f32[64,3,3,32]\n"
             "  output \"y\" %2\n"
             "}\n",
     .host = {0},
     .gpu = {"tile_m=64,tile_n=32,-split_k"}},
    {.name = "depthwise",
     .text = "graph @depthwise {\n"
             "  %0 = input {name=\"x\"} : f32[20,8,8,32]\n"
             "  %1 = input {name=\"dy\"} : f32[20,8,8,32]\n"
             "  %2 = conv_grad_weight(%0, %1) {stride=[1, 1], pad_lo=[1, 1], pad_hi=[1, 1], dilation=[1, 1], "
             "groups=32, "
             "channels_last=true} : f32[32,3,3,1]\n"
             "  output \"dw\" %2\n"
             "}\n",
     .host = {"part_rows=2,-parts_at_once", "part_rows=1,parts_at_once=16", "parts_at_once=4"},
     .gpu = {"part_rows=2,-parts_at_once", "part_rows=1,parts_at_once=16"}},
    {.name = "product",
     .text = "graph @product {\n"
             "  %0 = input {name=\"x\"} : f32[60,700]\n"
             "  %1 = input {name=\"w\"} : f32[700,96]\n"
             "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f32[60,96]\n"
             "  output \"y\" %2\n"
             "}\n",
     .host = {"rows=1,tiles=60", "rows=3,tiles=1", "vectors=1,panels=1", "vectors=2,panels=2,tiles=1",
              "block_k=104,blocks_of_k=1", "block_k=72,blocks_of_k=3"},
     .gpu = {"tile_m=64,tile_n=32", "tile_m=128,tile_n=128,split_k=704", "split_k=16", "split_k=704"}},
    {.name = "product_narrow",
     .tolerance = 2e-2,
     .text = "graph @product_narrow {\n"
             "  %0 = input {name=\"x\"} : f16[96,704]\n"
             "  %1 = input {name=\"w\"} : f16[704,96]\n"
             "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : f16[96,96]\n"
             "  output \"y\" %2\n"
             "}\n",
     .host = {"rows=1,-tiles", "block_k=704"},
     .gpu = {"tile_m=128,tile_n=64", "split_k=32", "split_k=704"}},
    {.name = "product_bf16",
     .tolerance = 2e-2,
     .text = "graph @product_bf16 {\n"
             "  %0 = input {name=\"x\"} : bf16[96,704]\n"
             "  %1 = input {name=\"w\"} : bf16[704,96]\n"
             "  %2 = dot(%0, %1) {contract_a=[1], contract_b=[0]} : bf16[96,96]\n"
             "  output \"y\" %2\n"
             "}\n",
     .host = {"k_at_once=1,-rows,-vectors,-tiles,-panels,-block_k", "rows=1,-tiles", "vectors=1,-panels"},
     .gpu = {"tile_m=128,tile_n=64"}},
    {.name = "attention_narrow",
     .tolerance = 2e-2,
     .text = "graph @attention_narrow {\n"
             "  %0 = input {name=\"q\"} : bf16[2,100,32]\n"
             "  %1 = input {name=\"k\"} : bf16[2,160,32]\n"
             "  %2 = input {name=\"v\"} : bf16[2,160,32]\n"
             "  %3 = sdpa(%0, %1, %2) {scale=0.25} : bf16[2,100,32]\n"
             "  output \"o\" %3\n"
             "}\n",
     .host = {"k_at_once=1,-rows,-keys,-queries", "keys=64,queries=32", "keys=32", "queries=96"},
     .gpu = {"rows=32", "columns=32", "rows=32,columns=32"}},
    {.name = "attention_narrow_back",
     .tolerance = 3e-2,
     .text = "graph @attention_narrow_back {\n"
             "  %0 = input {name=\"q\"} : bf16[1,70,24]\n"
             "  %1 = input {name=\"k\"} : bf16[1,100,24]\n"
             "  %2 = input {name=\"v\"} : bf16[1,100,24]\n"
             "  %3 = input {name=\"d\"} : bf16[1,70,24]\n"
             "  %4 = sdpa(%0, %1, %2) {scale=0.25, causal=true} : bf16[1,70,24]\n"
             "  %5 = sdpa_lse(%0, %1) {scale=0.25, causal=true} : f32[1,70]\n"
             "  %6 = sdpa_grad_q(%0, %1, %2, %4, %5, %3) {scale=0.25, causal=true} : bf16[1,70,24]\n"
             "  %7 = sdpa_grad_k(%0, %1, %2, %4, %5, %3) {scale=0.25, causal=true} : bf16[1,100,24]\n"
             "  %8 = sdpa_grad_v(%0, %1, %2, %4, %5, %3) {scale=0.25, causal=true} : bf16[1,100,24]\n"
             "  output \"dq\" %6\n"
             "  output \"dk\" %7\n"
             "  output \"dv\" %8\n"
             "}\n",
     .host = {"k_at_once=1,-rows,-keys,-queries", "keys=64,queries=32", "keys=64,queries=64", "queries=32"},
     .gpu = {"columns=32"}},
    {.name = "behind_parts",
     .text = "graph @behind_parts {\n"
             "  %0 = input {name=\"x\"} : f64[2,16384]\n"
             "  %1 = exp(%0) : f64[2,16384]\n"
             "  %2 = reduce_sum(%1) {axes=[1]} : f64[2]\n"
             "  %3 = broadcast(%2) {dims=[0]} : f64[2,16384]\n"
             "  %4 = div(%1, %3) : f64[2,16384]\n"
             "  output \"e\" %1\n"
             "  output \"y\" %4\n"
             "}\n",
     .host = {"lanes=4,lines=1", "lanes=32"},
     .gpu = {"parts=1,-steps,-group,-lanes_1,-group_1,-split_1,-lanes_2,-group_2,-points_2", "lanes_2=1,-points_2"}},
    {.name = "whole_rows",
     .text = "graph @whole_rows {\n"
             "  %0 = input {name=\"x\"} : f32[2,16384]\n"
             "  %1 = exp(%0) : f32[2,16384]\n"
             "  %2 = reduce_sum(%1) {axes=[1]} : f32[2]\n"
             "  %3 = broadcast(%2) {dims=[0]} : f32[2,16384]\n"
             "  %4 = div(%1, %3) : f32[2,16384]\n"
             "  output \"e\" %1\n"
             "  output \"y\" %4\n"
             "}\n",
     .gpu = {"parts=2,-kept,-steps,-group", "parts=4,-kept,-steps,-group"}},
    {.name = "woven",
     .text = "graph @woven {\n"
             "  %0 = input {name=\"x\"} : f32[7,198]\n"
             "  %1 = input {name=\"d\"} : f32[7,66]\n"
             "  %2 = slice(%0) {start=[0,0], limit=[7,66], stride=[1,1]} : f32[7,66]\n"
             "  %3 = slice(%0) {start=[0,66], limit=[7,132], stride=[1,1]} : f32[7,66]\n"
             "  %4 = mul(%2, %3) : f32[7,66]\n"
             "  %5 = mul(%1, %3) : f32[7,66]\n"
             "  %6 = exp(%4) : f32[7,66]\n"
             "  %7 = concat(%5, %6, %1) {axis=1} : f32[7,198]\n"
             "  %8 = reshape(%4) : f32[462]\n"
             "  output \"y\" %8\n"
             "  output \"dx\" %7\n"
             "}\n",
     .host = {"lanes=1", "lanes=4,points=64"},
     .gpu = {"lanes=1", "lanes=2,group=4,points=24"}},
    {.name = "woven_columns",
     .text = "graph @woven_columns {\n"
             "  %0 = input {name=\"x\"} : bf16[5,3,40]\n"
             "  %1 = input {name=\"d\"} : bf16[5,3,40]\n"
             "  %2 = mul(%0, %1) : bf16[5,3,40]\n"
             "  %3 = add(%2, %1) : bf16[5,3,40]\n"
             "  %4 = concat(%3, %2) {axis=0} : bf16[10,3,40]\n"
             "  %5 = concat(%2, %0) {axis=1} : bf16[5,6,40]\n"
             "  output \"y\" %3\n"
             "  output \"a\" %4\n"
             "  output \"b\" %5\n"
             "}\n",
     .host = {"lanes=1"},
     .gpu = {"lanes=1", "lanes=2,group=4,points=32"}},
};
const int n_choice_cases = sizeof choice_cases / sizeof choice_cases[0];

void check_choice_cases(graph_check *check, bool gpu) {
    for (int i = 0; i < n_choice_cases; i++) {
        const choice_case *c = &choice_cases[i];
        const char *const *edits = gpu ? c->gpu : c->host;
        tcc_diag diag = {0};
        tcc_graph *g;
        assert_ok(tcc_graph_parse(c->text, strlen(c->text), c->name, &diag, &g), &diag);
        for (int k = 0; k < MOST_CHOICE_EDITS && edits[k]; k++) {
            const compiled_options options = {.simplify = true,
                                              .edits = edits[k],
                                              .limit = 29,
                                              .tolerance = c->tolerance,
                                              .seed = (uint64_t)(i * MOST_CHOICE_EDITS + k)};
            if (getenv("TCC_TEST_VERBOSE")) fprintf(stderr, "%s: %s\n", c->name, edits[k]);
            check(g, &options);
        }
        tcc_graph_destroy(g);
    }
}

void check_choice_variations(graph_check *check, int least) {
    int checked = 0;
    for (int i = 0; i < n_choice_cases; i++) {
        const choice_case *c = &choice_cases[i];
        tcc_diag diag = {0};
        tcc_graph *g;
        assert_ok(tcc_graph_parse(c->text, strlen(c->text), c->name, &diag, &g), &diag);
        for (int k = 1, all = 1; k <= all; k++, checked++) {
            const compiled_options options = {.simplify = true,
                                              .variation = k,
                                              .variations = &all,
                                              .limit = 29,
                                              .tolerance = c->tolerance,
                                              .seed = (uint64_t)i};
            if (getenv("TCC_TEST_VERBOSE")) fprintf(stderr, "%s\n", c->name);
            check(g, &options);
        }
        tcc_graph_destroy(g);
    }
    if (checked < least) fail_msg("there are %d variations", checked);
}
