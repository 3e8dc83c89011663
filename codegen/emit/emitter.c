/* SPDX-License-Identifier: MIT
 * Kernels, functions, loops and branches. Loops are emitted rotated (tested at the bottom, guarded at the top),
 * because that is the form the back end wants and no pass then has to find it. */
#include "codegen/emit/functions.h"

#include <string.h>

/* --- Kernels */

static unsigned attribute_kind(const char *name) { return LLVMGetEnumAttributeKindForName(name, strlen(name)); }

static void add_attribute(tcc_emitter *e, tcc_emit_value function, unsigned index, const char *name, uint64_t value) {
    LLVMAddAttributeAtIndex(function, index, LLVMCreateEnumAttribute(e->context, attribute_kind(name), value));
}

static void add_text_attribute(tcc_emitter *e, tcc_emit_value function, const char *name, const char *value) {
    LLVMAddAttributeAtIndex(
        function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
        LLVMCreateStringAttribute(e->context, name, (unsigned)strlen(name), value, (unsigned)strlen(value)));
}

/* `no-builtins` and `no-jump-tables` keep the object free of calls and of absolute addresses. */
static void set_attributes(tcc_emitter *e, tcc_emit_value function) {
    const unsigned whole = (unsigned)LLVMAttributeFunctionIndex;
    add_attribute(e, function, whole, "nounwind", 0);
    add_text_attribute(e, function, "no-builtins", "");
    add_text_attribute(e, function, "no-jump-tables", "true");
    add_text_attribute(e, function, "target-cpu", e->target->cpu);
    if (e->target->features[0]) add_text_attribute(e, function, "target-features", e->target->features);
    e->target->functions->set_attributes(e, function);
}

void tcc_emit_kernel_begin(tcc_emitter *e, const char *symbol) {
    e->few_roundings = e->past_caches = false;
    e->target->functions->kernel_begin(e, symbol);
    set_attributes(e, e->function);
}

tcc_emit_value tcc_emit_buffer(tcc_emitter *e, int index) { return e->target->functions->buffer(e, index); }

tcc_emit_value tcc_emit_param(tcc_emitter *e, int index) { return e->target->functions->param(e, index); }

void tcc_emit_kernel_end(tcc_emitter *e) {
    if (e->past_caches) tcc_emit_fence(e);
    LLVMBuildRetVoid(e->builder);
    e->function = NULL;
}

tcc_emit_function tcc_emit_function_begin(tcc_emitter *e, const char *symbol, tcc_emit_type result,
                                          const tcc_emit_type *types, int n_types) {
    tcc_emit_function f = {.saved_function = e->function,
                           .saved_entry = e->entry,
                           .saved_block = e->function ? LLVMGetInsertBlock(e->builder) : NULL};
    f.type = LLVMFunctionType(result, (tcc_emit_type *)types, (unsigned)n_types, false);
    f.function = LLVMAddFunction(e->module, symbol, f.type);
    LLVMSetLinkage(f.function, LLVMInternalLinkage);
    set_attributes(e, f.function);
    add_attribute(e, f.function, (unsigned)LLVMAttributeFunctionIndex, e->target->checks ? "alwaysinline" : "noinline",
                  0);
    e->function = f.function;
    e->entry = LLVMAppendBasicBlockInContext(e->context, f.function, "");
    LLVMPositionBuilderAtEnd(e->builder, e->entry);
    return f;
}

void tcc_emit_function_end(tcc_emitter *e, tcc_emit_function *f, tcc_emit_value result_or_null) {
    if (result_or_null) LLVMBuildRet(e->builder, result_or_null);
    else LLVMBuildRetVoid(e->builder);
    e->function = f->saved_function;
    e->entry = f->saved_entry;
    if (f->saved_block) LLVMPositionBuilderAtEnd(e->builder, f->saved_block);
}

tcc_emit_value tcc_emit_call(tcc_emitter *e, const tcc_emit_function *f, tcc_emit_value *arguments, int n) {
    return LLVMBuildCall2(e->builder, f->type, f->function, arguments, (unsigned)n, "");
}

/* --- Control */

void tcc_emit_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value from, tcc_emit_value to, int64_t step,
                         const tcc_emit_value *initial, int n_carry) {
    tcc_emit_loop_begin_by(e, loop, from, to, tcc_emit_i64(e, step), initial, n_carry);
}

void tcc_emit_loop_begin_by(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value from, tcc_emit_value to,
                            tcc_emit_value step, const tcc_emit_value *initial, int n_carry) {
    int64_t first, last;
    bool runs = tcc_emit_is_constant(from, &first) && tcc_emit_is_constant(to, &last) && first < last;
    tcc_emit_block before = LLVMGetInsertBlock(e->builder);
    /* Below 2^31 and one step more is below 2^32. Kernels with a bound on registers use the counter in addresses of
     * their own, in both widths. */
    tcc_emit_value narrow_to = e->shape.shape.blocks ? NULL : tcc_emit_narrow(e, to),
                   narrow_step = tcc_emit_narrow(e, step);
    tcc_emit_value narrow_from = narrow_to && narrow_step ? tcc_emit_narrow(e, tcc_emit_within(e, from, INT32_MAX))
                                                          : NULL;
    loop->narrow = narrow_from;
    if (loop->narrow) {
        from = narrow_from;
        to = narrow_to;
        step = narrow_step;
    }
    loop->to = to;
    loop->step = step;
    loop->n_carry = n_carry;
    loop->once = loop->items = false;
    loop->body = tcc_emit_new_block(e);
    loop->exit = tcc_emit_new_block(e);
    loop->guard = NULL;
    if (runs) {
        LLVMBuildBr(e->builder, loop->body);
    } else {
        loop->guard = before;
        LLVMBuildCondBr(e->builder, tcc_emit_icmp(e, loop->narrow ? TCC_ICMP_ULT : TCC_ICMP_SLT, from, to), loop->body,
                        loop->exit);
    }
    LLVMPositionBuilderAtEnd(e->builder, loop->body);
    loop->counter = LLVMBuildPhi(e->builder, tcc_emit_type_of(from), "");
    LLVMAddIncoming(loop->counter, &from, &before, 1);
    for (int i = 0; i < n_carry; i++) {
        loop->initial[i] = initial[i];
        loop->carry[i] = LLVMBuildPhi(e->builder, tcc_emit_type_of(initial[i]), "");
        LLVMAddIncoming(loop->carry[i], &loop->initial[i], &before, 1);
    }
    if (loop->narrow) loop->index = tcc_emit_zext(e, loop->counter, e->i64);
    else loop->index = e->target->lane_groups ? loop->counter : tcc_emit_anchor(e, loop->counter);
}

void tcc_emit_loop_end(tcc_emitter *e, tcc_emit_loop *loop, const tcc_emit_value *next) {
    if (loop->items && e->shared_reused) tcc_emit_barrier(e);
    tcc_emit_block latch = LLVMGetInsertBlock(e->builder);
    int64_t last, step;
    /* of a loop that carries sums, products with the counter may become steps */
    bool near = loop->n_carry && tcc_emit_is_constant(loop->to, &last) && tcc_emit_is_constant(loop->step, &step) &&
                last <= INT32_MAX / 2 && step <= INT32_MAX / 2;
    tcc_emit_value index = loop->narrow && !near ? LLVMBuildNUWAdd(e->builder, loop->counter, loop->step, "")
                                                 : LLVMBuildNSWAdd(e->builder, loop->counter, loop->step, "");
    tcc_emit_value more = loop->once ? tcc_emit_int(e, e->i1, 0)
                                     : tcc_emit_icmp(e, loop->narrow ? TCC_ICMP_ULT : TCC_ICMP_SLT, index, loop->to);
    LLVMBuildCondBr(e->builder, more, loop->body, loop->exit);
    LLVMAddIncoming(loop->counter, &index, &latch, 1);
    LLVMPositionBuilderAtEnd(e->builder, loop->exit);
    for (int i = 0; i < loop->n_carry; i++) {
        tcc_emit_value value = next[i];
        LLVMAddIncoming(loop->carry[i], &value, &latch, 1);
        tcc_emit_value result = LLVMBuildPhi(e->builder, tcc_emit_type_of(value), "");
        LLVMAddIncoming(result, &value, &latch, 1);
        if (loop->guard) LLVMAddIncoming(result, &loop->initial[i], &loop->guard, 1);
        loop->carry[i] = result;
    }
}

void tcc_emit_items_begin(tcc_emitter *e, tcc_emit_loop *loop) {
    e->target->functions->items_begin(e, loop);
    loop->items = true;
}

void tcc_emit_if_begin(tcc_emitter *e, tcc_emit_if *branch, tcc_emit_value condition) {
    tcc_emit_block then = tcc_emit_new_block(e);
    branch->otherwise = tcc_emit_new_block(e);
    branch->join = tcc_emit_new_block(e);
    branch->has_else = false;
    branch->then_end = NULL;
    LLVMBuildCondBr(e->builder, condition, then, branch->otherwise);
    LLVMPositionBuilderAtEnd(e->builder, then);
}

void tcc_emit_if_else(tcc_emitter *e, tcc_emit_if *branch) {
    LLVMBuildBr(e->builder, branch->join);
    LLVMPositionBuilderAtEnd(e->builder, branch->otherwise);
    branch->has_else = true;
}

tcc_emit_value tcc_emit_if_value(tcc_emitter *e, tcc_emit_if *branch, tcc_emit_value value, tcc_emit_value other) {
    tcc_emit_value result = LLVMBuildPhi(e->builder, tcc_emit_type_of(value), "");
    LLVMAddIncoming(result, &value, &branch->then_end, 1);
    LLVMAddIncoming(result, &other, &branch->otherwise, 1);
    return result;
}

void tcc_emit_if_end(tcc_emitter *e, tcc_emit_if *branch) {
    if (!branch->has_else) branch->then_end = LLVMGetInsertBlock(e->builder);
    LLVMBuildBr(e->builder, branch->join);
    if (!branch->has_else) {
        LLVMPositionBuilderAtEnd(e->builder, branch->otherwise);
        LLVMBuildBr(e->builder, branch->join);
    }
    LLVMPositionBuilderAtEnd(e->builder, branch->join);
}

/* --- Lane groups. On the host shapes are zeroed: a group is one thread, and nothing is shared. */

int tcc_shape_items(tcc_thread_shape shape) {
    return shape.threads / (shape.group * (shape.split > 1 ? shape.split : 1));
}

int tcc_emit_group_lanes(const tcc_emitter *e, int lanes) {
    return e->shape.shape.group ? lanes * e->shape.shape.group : lanes;
}

void tcc_emit_lane_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value from, tcc_emit_value to, int lanes,
                              const tcc_emit_value *initial, int n_carry) {
    if (e->shape.shape.group > 1) from = tcc_emit_add(e, from, tcc_emit_mul(e, e->thread, tcc_emit_i64(e, lanes)));
    tcc_emit_loop_begin(e, loop, from, to, tcc_emit_group_lanes(e, lanes), initial, n_carry);
    /* Steps of the thread's places in all buffers would take two registers each. */
    if (e->shape.shape.group > 1 && !loop->narrow) loop->index = tcc_emit_anchor(e, loop->counter);
}

void tcc_emit_split_loop_begin(tcc_emitter *e, tcc_emit_loop *loop, tcc_emit_value from, tcc_emit_value to,
                               const tcc_emit_value *initial, int n_carry) {
    if (e->split) from = tcc_emit_add(e, from, e->split);
    tcc_emit_loop_begin(e, loop, from, to, e->split ? e->shape.shape.split : 1, initial, n_carry);
}

tcc_emit_value tcc_emit_tail_mask(tcc_emitter *e, int lanes, tcc_emit_value to, tcc_emit_value index) {
    return e->target->functions->tail_mask(e, lanes, to, index);
}

tcc_emit_value tcc_emit_vectors_end(tcc_emitter *e, tcc_emit_value to, int lanes) {
    return e->target->functions->vectors_end(e, to, lanes);
}

void tcc_emit_leader_begin(tcc_emitter *e, tcc_emit_if *branch, bool lanes) {
    tcc_emit_value index = lanes ? e->split : e->shape.shape.group > 1 ? e->thread : NULL;
    branch->join = NULL;
    if (index) tcc_emit_if_begin(e, branch, tcc_emit_icmp(e, TCC_ICMP_EQ, index, tcc_emit_i64(e, 0)));
}

void tcc_emit_leader_end(tcc_emitter *e, tcc_emit_if *branch) {
    if (branch->join) tcc_emit_if_end(e, branch);
}
