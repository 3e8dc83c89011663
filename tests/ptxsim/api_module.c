/* SPDX-License-Identifier: MIT
 * Modules: loading PTX text, its variables in device memory, functions and their attributes. */
#include "api.h"

#include <stdio.h>

/* Variables of the global and constant spaces get memory and initial values. */
static bool place_variables(CUmodule m) {
    for (sim_var *v = m->module->vars; v; v = v->next) {
        if ((v->space != SP_GLOBAL && v->space != SP_CONST) || v->size == 0) continue;
        sim_alloc *a = sim_memory_alloc(v->size, true);
        if (!a) return false;
        a->module = m->module;
        v->offset = a->base;
        if (v->init) memcpy(a->data, v->init, v->size);
        memset(a->init, 1, v->size); /* what has no initializer is zero */
        a->read_only = v->space == SP_CONST;
    }
    for (sim_var *v = m->module->vars; v; v = v->next)
        for (int k = 0; k < v->n_references; k++) {
            uint64_t address = v->references[k].var->offset + (uint64_t)v->references[k].add;
            sim_alloc *a = sim_memory_find(v->offset);
            if (a) memcpy(a->data + v->references[k].at, &address, 8);
        }
    return true;
}

static void release_variables(CUmodule m) {
    for (sim_var *v = m->module->vars; v; v = v->next) {
        if ((v->space != SP_GLOBAL && v->space != SP_CONST) || v->size == 0 || v->offset == UINT64_MAX) continue;
        sim_alloc *a = sim_memory_find(v->offset);
        if (a && a->base == v->offset) sim_memory_free(a);
    }
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int count, int *options, void **values) {
    ENTER(true);
    CUresult r = stream_forbid_capture();
    if (r) return api_leave(r);
    if (!module || !image) return api_leave(CUDA_ERROR_INVALID_VALUE);
    *module = NULL;
    jit_log log = jit_open_log(count, options, values);
    if (api_fault(PTXSIM_FAULT_MODULE)) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    const char *text = jit_text_of(image);
    if (!text) return api_leave(CUDA_ERROR_NO_BINARY_FOR_GPU);
    sim_module *parsed;
    r = jit_compile(text, &log, &parsed);
    CUmodule m = r ? NULL : calloc(1, sizeof *m);
    if (!r && !m) r = CUDA_ERROR_OUT_OF_MEMORY;
    if (!r) {
        m->module = parsed, m->context = api_context();
        parsed->id = ++sim.module_ids;
        if (!place_variables(m)) r = CUDA_ERROR_OUT_OF_MEMORY, release_variables(m);
    }
    if (r) {
        sim_module_free(parsed);
        free(m);
        return api_leave(r);
    }
    for (sim_func *f = parsed->funcs; f; f = f->next) f->max_dynamic_shared = 49152 - (int)f->shared_bytes;
    m->alive = true;
    m->next = sim.modules, sim.modules = m;
    *module = m;
    return api_leave(CUDA_SUCCESS);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    return cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

static CUmodule find_module(CUmodule module) {
    for (CUmodule m = sim.modules; m; m = m->next)
        if (m == module && m->alive) return m;
    return NULL;
}

CUresult cuModuleUnload(CUmodule module) {
    CUresult entered = api_enter(true);
    if (entered && entered != sim.sticky) return api_leave(entered);
    if (!find_module(module)) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    stream_complete_all(); /* what runs from the module ends first */
    release_variables(module);
    sim_module_free(module->module);
    module->module = NULL, module->alive = false;
    return api_leave(entered);
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    ENTER(true);
    if (!function || !name || !find_module(module)) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    for (sim_func *f = module->module->funcs; f; f = f->next)
        if (f->kernel && f->defined && strcmp(f->name, name) == 0) {
            *function = (CUfunction)f;
            return api_leave(CUDA_SUCCESS);
        }
    return api_leave(CUDA_ERROR_NOT_FOUND);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes, CUmodule module, const char *name) {
    ENTER(true);
    if (!name || !find_module(module)) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    for (sim_var *v = module->module->vars; v; v = v->next)
        if ((v->space == SP_GLOBAL || v->space == SP_CONST) && strcmp(v->name, name) == 0) {
            if (address) *address = v->offset;
            if (bytes) *bytes = v->size;
            return api_leave(CUDA_SUCCESS);
        }
    return api_leave(CUDA_ERROR_NOT_FOUND);
}

/* A function of a module that is loaded: what has been unloaded must not be used. */
static sim_func *find_function(CUfunction function) {
    for (CUmodule m = sim.modules; m; m = m->next)
        if (m->alive)
            for (sim_func *f = m->module->funcs; f; f = f->next)
                if ((CUfunction)f == function) return f;
    return NULL;
}

static int threads_limit(const sim_func *f) {
    int limit = 1024;
    if (f->max_threads && (int)f->max_threads < limit) limit = (int)f->max_threads;
    if (f->required[0]) limit = (int)(f->required[0] * f->required[1] * f->required[2]);
    while (limit > 32 && (limit + 31) / 32 * 32 * ((f->registers + 7) / 8 * 8) > 65536) limit -= 32;
    return limit;
}

/* The function's, and what a test adds to it. */
static int local_bytes(const sim_func *f) {
    if (sim.spill_from > 1) sim.spill_from--;
    else if (sim.spill_from) return (int)f->local_bytes + sim.spill_bytes;
    return (int)f->local_bytes;
}

CUresult cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    ENTER(true);
    const sim_func *f = find_function(function);
    if (!f) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = threads_limit(f); break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = (int)f->shared_bytes; break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES: *value = local_bytes(f); break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = f->registers; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION: *value = f->module->target; break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *value = sim_set.sm; break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA: *value = 0; break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = f->max_dynamic_shared; break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: *value = -1; break;
    default: return api_leave(CUDA_ERROR_INVALID_VALUE);
    }
    return api_leave(CUDA_SUCCESS);
}

CUresult cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    ENTER(true);
    sim_func *f = find_function(function);
    if (!f) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) return api_leave(CUDA_SUCCESS);
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value + (int)f->shared_bytes > sim_set.shared_kib * 1024)
        return api_leave(CUDA_ERROR_INVALID_VALUE);
    f->max_dynamic_shared = value;
    return api_leave(CUDA_SUCCESS);
}

/* --- launches and occupancy */

CUresult launch_work(CUfunction function, const unsigned grid[3], const unsigned block[3], unsigned shared,
                     void **params, void **extra, sim_work *work) {
    sim_func *f = find_function(function);
    memset(work, 0, sizeof *work);
    if (!f) return CUDA_ERROR_INVALID_HANDLE;
    uint64_t threads = (uint64_t)block[0] * block[1] * block[2];
    if (!grid[0] || !grid[1] || !grid[2] || grid[0] > 2147483647u || grid[1] > 65535 || grid[2] > 65535 || !threads ||
        block[0] > 1024 || block[1] > 1024 || block[2] > 64 || threads > 1024) {
        sim_report("launch of %s: grid (%u,%u,%u) of blocks (%u,%u,%u) is beyond what the device can have", f->name,
                   grid[0], grid[1], grid[2], block[0], block[1], block[2]);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (f->required[0] && memcmp(f->required, block, sizeof f->required) != 0) {
        sim_report("launch of %s: blocks of (%u,%u,%u), but .reqntid says (%u,%u,%u)", f->name, block[0], block[1],
                   block[2], f->required[0], f->required[1], f->required[2]);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (f->max_threads && threads > f->max_threads) {
        sim_report("launch of %s: %u threads a block, but .maxntid says %u", f->name, (unsigned)threads,
                   f->max_threads);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((int)threads > threads_limit(f)) {
        sim_report("launch of %s: %u threads with %d registers each are more than a block can have", f->name,
                   (unsigned)threads, f->registers);
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    }
    if (shared > (unsigned)f->max_dynamic_shared || f->shared_bytes + shared > (uint64_t)sim_set.shared_kib * 1024) {
        sim_report("launch of %s: %u bytes of dynamic shared memory on top of %u, but only %d are allowed "
                   "(cuFuncSetAttribute)",
                   f->name, shared, (unsigned)f->shared_bytes, f->max_dynamic_shared);
        return CUDA_ERROR_INVALID_VALUE;
    }
    work->kind = WORK_LAUNCH, work->func = f, work->shared = shared;
    memcpy(work->grid, grid, sizeof work->grid), memcpy(work->block, block, sizeof work->block);
    work->params = calloc(1, f->param_bytes + 16);
    if (!work->params) return CUDA_ERROR_OUT_OF_MEMORY;
    if (params && extra) return CUDA_ERROR_INVALID_VALUE;
    if (params) {
        for (int k = 0; k < f->n_params; k++) {
            if (!params[k]) return CUDA_ERROR_INVALID_VALUE;
            memcpy(work->params + f->params[k]->offset, params[k], f->params[k]->size);
        }
    } else if (extra) {
        const void *buffer = NULL;
        size_t size = 0;
        for (int k = 0; extra[k] != CU_LAUNCH_PARAM_END; k += 2) {
            if (extra[k] == CU_LAUNCH_PARAM_BUFFER_POINTER) buffer = extra[k + 1];
            if (extra[k] == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *(size_t *)extra[k + 1];
        }
        if (!buffer || size < f->param_bytes) return CUDA_ERROR_INVALID_VALUE;
        memcpy(work->params, buffer, f->param_bytes);
    } else if (f->n_params) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                        unsigned bz, unsigned shared, CUstream stream, void **params, void **extra) {
    ENTER(true);
    CUstream s = stream_find(stream);
    sim_work work;
    if (!s) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    if (api_fault(PTXSIM_FAULT_LAUNCH)) return api_leave(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    CUresult r = launch_work(function, (unsigned[]){gx, gy, gz}, (unsigned[]){bx, by, bz}, shared, params, extra,
                             &work);
    if (r) {
        work_clear(&work);
        return api_leave(r);
    }
    return api_leave(stream_enqueue(s, &work, NULL, 0, NULL));
}

CUresult cuLaunchHostFunc(CUstream stream, void (*function)(void *), void *user) {
    ENTER(true);
    CUstream s = stream_find(stream);
    if (!s || !function) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    sim_work work = {.kind = WORK_HOST, .function = function, .user = user};
    return api_leave(stream_enqueue(s, &work, NULL, 0, NULL));
}

CUresult launch_blocks(const sim_func *f, int threads, size_t shared, int *blocks) {
    if (threads <= 0) return CUDA_ERROR_INVALID_VALUE;
    const sim_profile *p = sim_set.profile;
    int warps = (threads + 31) / 32, n = p->warps / warps;
    size_t reserved = (size_t)(p->shared_kib - p->block_shared_kib) * 1024;
    int registers = warps * 32 * ((f->registers + 7) / 8 * 8);
    size_t memory = ((size_t)f->shared_bytes + shared + reserved + 127) / 128 * 128,
           all = (size_t)sim_set.shared_kib * 1024 + reserved;
    if (n > p->blocks) n = p->blocks;
    if (n > 65536 / registers) n = 65536 / registers;
    if (memory && (size_t)n > all / memory) n = (int)(all / memory);
    if (threads > threads_limit(f)) n = 0;
    *blocks = n;
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function, int threads,
                                                              size_t shared, unsigned int flags) {
    ENTER(true);
    (void)flags;
    const sim_func *f = find_function(function);
    return api_leave(f ? launch_blocks(f, threads, shared, blocks) : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads, size_t shared) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function, size_t (*shared_of)(int),
                                          size_t shared, int limit) {
    ENTER(true);
    const sim_func *f = find_function(function);
    if (!f) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    int best = 0, best_threads = 0;
    for (int threads = threads_limit(f) / 32 * 32; threads >= 32; threads -= 32) {
        int n = 0;
        if (limit > 0 && threads > limit) continue;
        launch_blocks(f, threads, shared_of ? shared_of(threads) : shared, &n);
        if (n * threads > best * best_threads) best = n, best_threads = threads;
    }
    if (grid) *grid = best * sim_set.sm_count;
    if (block) *block = best_threads;
    return api_leave(CUDA_SUCCESS);
}
