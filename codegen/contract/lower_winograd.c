/* SPDX-License-Identifier: MIT
 * Which convolutions are computed by Winograd's algorithm, and their launches. */
#include "codegen/contract/epilogue.h"
#include "codegen/contract/conv.h"
#include "codegen/schedule/operand.h"
#include "codegen/contract/winograd.h"

enum {
    LEAST_CHANNELS = 16, /* with fewer the transforms cost more than the products save */
    LEAST_TILES = 32,    /* a filter is transformed once for all of them */
};

static bool in_memory(const tcc_lowering *l, const tcc_node *n) {
    return n->type.dtype == l->group->hero->type.dtype && !tcc_group_has(l->group, n) && n->op != TCC_OP_CONSTANT;
}

static bool suits(const tcc_lowering *l, const tcc_attrs_conv *conv, const tcc_node *x, const tcc_node *w,
                  const tcc_node *y) {
    const tcc_dtype type = l->group->hero->type.dtype;
    if (!conv->channels_last || conv->groups != 1 || x->type.rank != 4 || w->type.dtype != type ||
        (type != TCC_F32 && type != TCC_F16 && type != TCC_BF16))
        return false;
    for (int i = 0; i < 2; i++) {
        bool fits = w->type.dims[1 + i] == 3 && conv->stride.v[i] == 1 && conv->dilation.v[i] == 1 &&
                    conv->pad_lo.v[i] <= 2;
        if (!fits || x->type.dims[1 + i] % 2 || y->type.dims[1 + i] % 2) return false;
    }
    const tcc_node *const nodes[] = {x, y, w};
    for (int i = 0; i < 3; i++)
        if (nodes[i] != l->group->hero && i < 2 && !in_memory(l, nodes[i]) &&
            (i || w != l->group->hero || !tcc_group_has(l->group, x)))
            return false; /* the image may be computed for the filter's gradient */
    int64_t ci = x->type.dims[3], co = y->type.dims[3];
    if (ci < LEAST_CHANNELS || co < LEAST_CHANNELS || ci % l->target->lanes || co % l->target->lanes) return false;
    return y->type.dims[0] * y->type.dims[1] * y->type.dims[2] >= 4 * LEAST_TILES;
}

static void describe(const char *schedule, const tcc_winograd *w, tcc_strbuf *out) {
    tcc_strbuf_printf(out, "%s of %s by %d", schedule, tcc_dtype_text(w->type), (int)w->multiply);
    tcc_strbuf_printf(out, " winograd %lld %lldx%lldx%lld pad %lld,%lld to %lldx%lld tiles, %lld channels",
                      (long long)w->images, (long long)w->rows, (long long)w->columns, (long long)w->channels,
                      (long long)w->pad[0], (long long)w->pad[1], (long long)w->tile_rows, (long long)w->tile_columns,
                      (long long)w->out_channels);
    tcc_strbuf_printf(out, " filter %lld,%lld,%lld,%lld%s lanes %llx", (long long)w->filter_in,
                      (long long)w->filter_out, (long long)w->filter_tap[0], (long long)w->filter_tap[1],
                      w->turned ? " turned" : "", (unsigned long long)w->lane_loops);
    tcc_strbuf_printf(out, " width %lld tile %dx%d block %lldx%lldx%lld parts %lld", (long long)w->width,
                      w->tile_height, w->vectors, (long long)w->block_tiles, (long long)w->block_k,
                      (long long)w->block_rows, (long long)w->splits);
    if (w->prologue) tcc_computed_key(w->prologue, out);
}

/* The epilogue, over the result's dims. False: it cannot be expressed. */
static tcc_status create_epilogue(tcc_lowering *l, tcc_winograd *w, int n_dims, const int64_t *dims, bool *made) {
    tcc_diag quiet = {0}, *loud = l->diag;
    l->diag = &quiet;
    tcc_status status = tcc_epilogue_create(l, l->group->hero, n_dims, dims, &w->epilogue);
    l->diag = loud;
    *made = status == TCC_OK;
    if (*made) w->epilogue.body->diag = loud;
    else if (status != TCC_EUNSUPPORTED) tcc_error(loud, status, TCC_NOWHERE, "%s", tcc_diag_text(&quiet));
    tcc_diag_clear(&quiet);
    w->lane_loops = UINT64_C(1) << (n_dims - 1);
    return status == TCC_EUNSUPPORTED ? TCC_OK : status;
}

static tcc_status add_launch(tcc_lowering *l, const tcc_winograd *w, const char *schedule, tcc_kernel_emit emit,
                             int64_t items, double flop, const tcc_plan_buffer *lead, int n_lead, bool with_epilogue) {
    tcc_plan_launch *launch = tcc_lowering_add(l);
    if (!launch) return TCC_ENOMEM;
    launch->items = items;
    double each = flop / (double)items;
    launch->grain = each >= 1e6 ? 1 : (int64_t)(1e6 / (each + 1)) + 1;
    launch->flop = flop;
    launch->kernel.schedule = schedule;
    launch->kernel.emit = emit;
    launch->kernel.data = w;
    launch->kernel.transposes = emit == tcc_winograd_emit_filter && w->filter_in == 1 && w->type == TCC_F32;
    if (w->multiply == TCC_CONTRACT_PAIRS) launch->multiply_adds = l->target->hw.fma_bf16_pairs;
    const tcc_body *body = with_epilogue ? w->epilogue.body : NULL;
    TCC_TRY(tcc_lowering_set_buffers(l, launch, lead, n_lead, body));
    tcc_strbuf text = {0};
    describe(schedule, w, &text);
    tcc_status status = text.failed ? tcc_enomem(l->diag) : TCC_OK;
    if (status == TCC_OK && body) status = tcc_lowering_key(l, launch, body, -1, "%s", text.text);
    else if (status == TCC_OK && !(launch->kernel.key = tcc_arena_strdup(l->arena, text.text)))
        status = tcc_enomem(l->diag);
    tcc_strbuf_free(&text);
    return status;
}

static tcc_status lower_forward(tcc_lowering *l, const tcc_winograd *like, const tcc_node *image,
                                const tcc_node *filter, bool *done) {
    tcc_winograd *w = TCC_ARENA_NEW(l->arena, tcc_winograd);
    if (!w) return tcc_enomem(l->diag);
    *w = *like;
    const int64_t dims[] = {w->images, w->tile_rows, 2, w->tile_columns, 2, w->out_channels};
    TCC_TRY(create_epilogue(l, w, 6, dims, done));
    if (!*done) return TCC_OK;
    TCC_TRY(tcc_winograd_plan_forward(l->target, &l->params, w));
    tcc_plan_buffer buffers[] = {{.node = filter, .temporary = -1}, {.written = true}};
    if (!in_memory(l, filter)) {
        buffers[0] = (tcc_plan_buffer){0};
        TCC_TRY(tcc_operand_copy(l, filter, w->type, NULL, NULL, NULL, &buffers[0].temporary));
    }
    buffers[1].temporary = tcc_lowering_temporary(l, 4 * tcc_winograd_filter_words(w));
    if (buffers[1].temporary < 0) return TCC_ENOMEM;
    double weights = (double)w->channels * (double)w->out_channels;
    TCC_TRY(add_launch(l, w, "filter", tcc_winograd_emit_filter, tcc_winograd_filter_items(l->target, w), 28 * weights,
                       buffers, 2, false));
    buffers[0] = (tcc_plan_buffer){.node = image, .temporary = -1};
    buffers[1].written = false;
    double flop = (double)w->tiles *
                  (2.0 * TCC_WINOGRAD_POINTS * weights + 32 * (double)w->channels + 24 * (double)w->out_channels);
    TCC_TRY(add_launch(l, w, "winograd", tcc_winograd_emit_forward, w->items, flop, buffers, 2, true));
    l->launches.data[l->launches.count - 1].kernel.scratch_bytes = w->scratch_bytes;
    return TCC_OK;
}

static tcc_status lower_filter_gradient(tcc_lowering *l, const tcc_winograd *like, const tcc_node *image,
                                        const tcc_node *dy, bool *done) {
    tcc_winograd *w = TCC_ARENA_NEW(l->arena, tcc_winograd);
    if (!w) return tcc_enomem(l->diag);
    *w = *like;
    const int64_t dims[] = {w->out_channels, 3, 3, w->channels};
    if (!in_memory(l, image)) {
        tcc_prologue *prologue;
        TCC_TRY(tcc_computed_create(l, image, &prologue));
        if (!(w->prologue = prologue)) return TCC_OK;
    }
    TCC_TRY(create_epilogue(l, w, 4, dims, done));
    if (!*done) return TCC_OK;
    TCC_TRY(tcc_winograd_plan_filter(l->target, &l->params, w));
    double weights = (double)w->channels * (double)w->out_channels, splits = (double)w->splits;
    int workspace = tcc_lowering_temporary(l, 4 * w->splits * 9 * w->channels * w->out_channels);
    if (workspace < 0) return TCC_ENOMEM;
    tcc_plan_buffer buffers[TCC_GROUP_MAX_ACCESSES + 2] = {{.node = image, .temporary = -1}};
    const int n = w->prologue ? tcc_prologue_buffers(w->prologue, buffers) : 1;
    buffers[n] = (tcc_plan_buffer){.node = dy, .temporary = -1};
    buffers[n + 1] = (tcc_plan_buffer){.temporary = workspace, .written = true};
    double flop = (double)w->tiles *
                  (2.0 * TCC_WINOGRAD_POINTS * weights + 32 * (double)w->channels + 16 * (double)w->out_channels);
    TCC_TRY(add_launch(l, w, "winograd", tcc_winograd_emit_gradient, w->items, flop + 24 * splits * weights, buffers,
                       n + 2, false));
    l->launches.data[l->launches.count - 1].kernel.scratch_bytes = w->scratch_bytes;
    if (w->prologue) tcc_computed_set_bytes(l, w->prologue, &l->launches.data[l->launches.count - 1]);
    buffers[n + 1].written = false;
    TCC_TRY(add_launch(l, w, "combine", tcc_winograd_emit_sum, w->out_channels, 9 * splits * weights, buffers + n + 1,
                       1, true));
    l->launches.data[l->launches.count - 1].kernel.scratch_bytes = 4 * w->channels;
    return TCC_OK;
}

tcc_status tcc_lower_winograd(tcc_lowering *l) {
    const tcc_node *hero = l->group->hero;
    const tcc_attrs_conv *conv = &hero->attrs->conv;
    if (hero->op == TCC_OP_DOT) return TCC_OK;
    const tcc_conv c = tcc_conv_read(hero);
    const tcc_node *x = c.x, *w = c.w, *y = c.y;
    bool done;
    if (!suits(l, conv, x, w, y)) return TCC_OK;
    int64_t ci = x->type.dims[3], co = y->type.dims[3];
    bool to_input = hero == x;
    const tcc_node *image = to_input ? y : x, *result = to_input ? x : y;
    tcc_winograd d = {.type = hero->type.dtype,
                      .images = x->type.dims[0],
                      .rows = image->type.dims[1],
                      .columns = image->type.dims[2],
                      .channels = to_input ? co : ci,
                      .out_channels = to_input ? ci : co,
                      .tile_rows = result->type.dims[1] / 2,
                      .tile_columns = result->type.dims[2] / 2,
                      .filter_in = to_input ? 9 * ci : 1,
                      .filter_out = to_input ? 1 : 9 * ci,
                      .filter_tap = {3 * ci, ci},
                      .turned = to_input};
    for (int i = 0; i < 2; i++) d.pad[i] = to_input ? 2 - conv->pad_lo.v[i] : conv->pad_lo.v[i];
    return hero == w ? lower_filter_gradient(l, &d, x, y, &done) : lower_forward(l, &d, image, w, &done);
}
