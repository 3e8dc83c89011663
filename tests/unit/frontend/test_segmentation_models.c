/* SPDX-License-Identifier: MIT
 * Segmentation networks: their parameters and buffers are those of super-gradients' models, name by name. */
#include "frontend/trace.h"
#include "harness/check.h"
#include "traincc/traincc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* -- Networks -- */

static tcc_segmentation pp_liteseg(tcc_trace *t, tcc_tensor x, int variant, int64_t classes) {
    return tcc_pp_liteseg(t, x, &(tcc_pp_liteseg_options){.variant = (char)variant, .classes = classes});
}

static tcc_segmentation stdc_seg(tcc_trace *t, tcc_tensor x, int variant, int64_t classes) {
    return tcc_stdc_seg(t, x, &(tcc_stdc_seg_options){.variant = variant, .classes = classes, .dropout = 0.2});
}

static tcc_segmentation ddrnet(tcc_trace *t, tcc_tensor x, int slim, int64_t classes) {
    return tcc_ddrnet(t, x, &(tcc_ddrnet_options){.slim = slim, .classes = classes});
}

static tcc_segmentation regseg(tcc_trace *t, tcc_tensor x, int unused, int64_t classes) {
    (void)unused;
    return tcc_regseg(t, x, &(tcc_regseg_options){.classes = classes});
}

static tcc_segmentation segformer(tcc_trace *t, tcc_tensor x, int variant, int64_t classes) {
    return tcc_segformer(
        t, x, &(tcc_segformer_options){.variant = variant, .classes = classes, .dropout = 0.1, .drop_path = 0.1});
}

/* Of 19 and of 11 classes: numbers of parameters, how many of these are of heads that only train, and what the hash of
 * all names, kinds and shapes is. B1's is not in any table: its number is the paper's. */
static const struct {
    const char *name;
    tcc_segmentation (*make)(tcc_trace *t, tcc_tensor x, int variant, int64_t classes);
    int variant, params, buffers, heads;
    int64_t numel[2], auxiliary[2];
    uint64_t hash[2];
} networks[] = {
    {"PP-LiteSeg-T",
     pp_liteseg,
     'T',
     151,
     98,
     4,
     {8197056, 8195520},
     {169248, 167968},
     {0xca0457f5af8c69de, 0xfbfe811280b38b0e}},
    {"PP-LiteSeg-B",
     pp_liteseg,
     'B',
     223,
     146,
     4,
     {12412704, 12410912},
     {178464, 177184},
     {0x338a40ed512ae5e8, 0xa79eca0bfb7b7938}},
    {"STDC1-Seg",
     stdc_seg,
     1,
     129,
     82,
     3,
     {9310176, 9307104},
     {1035072, 1034048},
     {0x38d67c36e8d84b88, 0xb35bd34b3b7b3490}},
    {"STDC2-Seg",
     stdc_seg,
     2,
     201,
     130,
     3,
     {13340640, 13337568},
     {1035072, 1034048},
     {0xbdc6d18b2e9e243c, 0x384c289f81410d44}},
    {"DDRNet-23-slim",
     ddrnet,
     1,
     175,
     114,
     2,
     {5734342, 5733302},
     {38355, 37835},
     {0x05b5bdd859ce9068, 0xfcfbc62e8ca7f868}},
    {"DDRNet-23",
     ddrnet,
     0,
     175,
     114,
     2,
     {20299366, 20297302},
     {150419, 149387},
     {0xaad3a8f5607ebdf0, 0x72006b22a4dbe190}},
    {"RegSeg48", regseg, 0, 279, 128, 1, {3334983, 3334463}, {0, 0}, {0xfed1118574d16b74, 0x88d6737109301fa4}},
    {"SegFormer-B0", segformer, 0, 189, 2, 1, {3719027, 3716971}, {0, 0}, {0xab0658f36874244a, 0xc768863600d5995a}},
    {"SegFormer-B1", segformer, 1, 189, 2, 1, {13682131, 13680075}, {0, 0}, {0, 0}},
};
enum { NETWORKS = sizeof networks / sizeof *networks };

/* Some in full, of 19 classes. */
static const struct {
    const char *network, *name, *type;
} known[] = {
    {"PP-LiteSeg-T", "encoder.backbone.stages.block_s8.0.conv_list.1.0.seq.conv.weight", "f32[128,1,3,3]"},
    {"PP-LiteSeg-T", "encoder.context_module.branches.2.1.seq.bn.running_var", "f32[128]"},
    {"PP-LiteSeg-B", "decoder.up_stages.1.conv_atten.0.seq.conv.weight", "f32[2,4,3,3]"},
    {"PP-LiteSeg-B", "aux_heads.2.0.seg_head.2.weight", "f32[19,64,1,1]"},
    {"STDC1-Seg", "cp.context_embedding.context_embedding.1.seq.conv.weight", "f32[128,1024,1,1]"},
    {"STDC1-Seg", "ffm.attention_block.1.seq.conv.weight", "f32[64,256,1,1]"},
    {"STDC2-Seg", "cp.backbone.stages.block_s16.4.conv_list.3.seq.bn.weight", "f32[64]"},
    {"STDC2-Seg", "detail_head8.0.seg_head.2.weight", "f32[1,64,1,1]"},
    {"DDRNet-23", "_backbone.layer3.0.0.shortcut.0.weight", "f32[256,128,1,1]"},
    {"DDRNet-23", "spp.branches.4.process.2.weight", "f32[128,128,3,3]"},
    {"DDRNet-23-slim", "_backbone.stem.0.0.bias", "f32[32]"},
    {"RegSeg48", "backbone.stages.2.DBlock_in256_out256_d[1, 4]_gw16_s1_se4#3.d_block_path.1.convs.1.weight",
     "f32[128,16,3,3]"},
    {"RegSeg48", "backbone.stages.0.DBlock_in32_out48_d[1]_gw16_s2_se4#0.d_block_path.4.se_block.1.bias", "f32[8]"},
    {"SegFormer-B0", "_backbone.block2.1.attn.sr.weight", "f32[64,64,4,4]"},
    {"SegFormer-B0", "_backbone.block3.0.mlp.dwconv.weight", "f32[640,1,3,3]"},
    {"SegFormer-B1", "decode_head.linear_fuse.seq.conv.weight", "f32[256,1024,1,1]"},
};

/* -- Their traces -- */

typedef struct traced {
    tcc_diag diag;
    tcc_store store;
    tcc_graph *graph;
    tcc_segmentation heads;
} traced;

static void check_head(const traced *s, tcc_tensor x, int64_t channels, int64_t height, int64_t width) {
    const tcc_type want = {TCC_F32, 4, {2, channels, height, width}};
    if (!x.node) fail_msg("%s", tcc_diag_text(&s->diag));
    assert_string_equal(tcc_type_text(&x.node->type), tcc_type_text(&want));
}

static void trace(traced *s, int network, bool training, int64_t classes, int64_t height, int64_t width) {
    tcc_trace t;
    *s = (traced){.store = {.seed = 1}};
    assert_ok(tcc_trace_begin(&t, networks[network].name, &s->store, training, NULL, 0, &s->diag), &s->diag);
    tcc_tensor x = tcc_constant(&t, 0, TCC_F32, TCC_DIMS(2, 3, height, width));
    s->heads = networks[network].make(&t, x, networks[network].variant, classes);
    for (int i = 0; i < s->heads.count; i++) check_head(s, s->heads.logits[i], classes, height, width);
    if (s->heads.has_detail) check_head(s, s->heads.detail, 1, height, width);
    const char *const names[] = {"main", "first", "second", "third"};
    for (int i = 0; i < s->heads.count; i++) tcc_output(&t, names[i], s->heads.logits[i]);
    assert_ok(tcc_trace_end(&t, &s->graph), &s->diag);
}

static void done(traced *s) {
    tcc_graph_destroy(s->graph);
    tcc_store_free(&s->store);
    tcc_diag_clear(&s->diag);
}

static int64_t count(const tcc_store *store, tcc_role role, int *entries) {
    int64_t numel = 0;
    *entries = 0;
    for (int i = 0; i < store->entries.count; i++)
        if (store->entries.data[i].role == role) ++*entries, numel += tcc_type_numel(&store->entries.data[i].type);
    return numel;
}

/* The sum of FNV-1a of "NAME param 64x3x3x3" of each: the order does not matter. */
static uint64_t hash(const tcc_store *store) {
    uint64_t sum = 0;
    for (int i = 0; i < store->entries.count; i++) {
        char text[512];
        const tcc_stored *e = &store->entries.data[i];
        int n = snprintf(text, sizeof text, "%s %s ", e->name, e->role == TCC_ROLE_PARAM ? "param" : "buffer");
        for (int d = 0; d < e->type.rank; d++)
            n += snprintf(text + n, sizeof text - (size_t)n, d ? "x%" PRId64 : "%" PRId64, e->type.dims[d]);
        uint64_t h = UINT64_C(0xcbf29ce484222325);
        for (const char *c = text; *c; c++) h = (h ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
        sum += h;
    }
    return sum;
}

static void parameters_are_those_of_the_public_models(void **state) {
    (void)state;
    for (int i = 0; i < NETWORKS; i++)
        for (int few = 0; few < 2; few++) {
            traced s;
            int params, buffers;
            trace(&s, i, true, few ? 11 : 19, 64, 96);
            const int64_t numel = count(&s.store, TCC_ROLE_PARAM, &params);
            count(&s.store, TCC_ROLE_STATE, &buffers);
            print_message("%s: %d parameters of %" PRId64 " numbers\n", networks[i].name, params, numel);
            assert_int_equal(numel, networks[i].numel[few]);
            assert_int_equal(params, networks[i].params);
            assert_int_equal(buffers, networks[i].buffers);
            assert_int_equal(s.heads.count, networks[i].heads);
            assert_int_equal(s.heads.has_detail, networks[i].make == stdc_seg);
            if (networks[i].hash[few] && hash(&s.store) != networks[i].hash[few]) {
                for (int k = 0; k < s.store.entries.count; k++)
                    print_message("%s %s\n", s.store.entries.data[k].name,
                                  tcc_type_text(&s.store.entries.data[k].type));
                fail_msg("%s: names or shapes differ", networks[i].name);
            }
            for (size_t k = 0; !few && k < sizeof known / sizeof *known; k++) {
                if (strcmp(known[k].network, networks[i].name)) continue;
                const int at = tcc_store_find(&s.store, known[k].name);
                if (at < 0) fail_msg("%s has no %s", networks[i].name, known[k].name);
                assert_string_equal(tcc_type_text(&s.store.entries.data[at].type), known[k].type);
            }
            done(&s);
        }
}

/* Evaluation has the main head alone, and no parameter of others. */
static void heads_that_help_only_train(void **state) {
    (void)state;
    for (int i = 0; i < NETWORKS; i++) {
        traced s;
        int params;
        trace(&s, i, false, 19, 64, 96);
        assert_int_equal(s.heads.count, 1);
        assert_false(s.heads.has_detail);
        assert_int_equal(count(&s.store, TCC_ROLE_PARAM, &params), networks[i].numel[0] - networks[i].auxiliary[0]);
        done(&s);
    }
}

/* The smallest images, and sizes that not all take. */
static void sizes(void **state) {
    (void)state;
    static const int64_t least[] = {32, 32, 32, 32, 8, 8, 16, 29, 29};
    for (int i = 0; i < NETWORKS; i++)
        for (int k = 0; k < 3; k++) {
            traced s;
            trace(&s, i, true, 3, least[i] * (k + 1), least[i] * (3 - k));
            done(&s);
        }
    traced s;
    trace(&s, 4, true, 11, 720, 960);
    done(&s);
    trace(&s, 6, true, 11, 720, 960);
    done(&s);
    trace(&s, 7, true, 11, 701, 333);
    done(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_those_of_the_public_models),
        cmocka_unit_test(heads_that_help_only_train),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
