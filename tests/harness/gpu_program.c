/* SPDX-License-Identifier: MIT
 * Programs for a GPU run through the driver's API, and compared with the interpreter. */
#include "harness/gpu_program.h"
#include "harness/evaluate.h"
#include "codegen/emit/emitter.h"
#include "harness/check.h"
#include "harness/cuda_device.h"
#include "harness/gradcheck.h"
#include "harness/graphs.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE_SHARED = 48 * 1024, ATTRIBUTE_DYNAMIC_SHARED = 8 };

/* The entry points of the driver that a program needs, by the names it exports. */
static struct driver {
    void *handle;
    int (*init)(unsigned), (*get_device)(int *, int), (*retain)(void **, int), (*set_current)(void *),
        (*synchronize)(void);
    int (*load)(void **, const void *), (*unload)(void *), (*function)(void **, void *, const char *),
        (*attribute)(void *, int, int);
    int (*alloc)(uint64_t *, size_t), (*release)(uint64_t), (*to_device)(uint64_t, const void *, size_t),
        (*from_device)(void *, uint64_t, size_t);
    int (*copy)(uint64_t, uint64_t, size_t), (*error_text)(int, const char **);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                  void **);
} driver;

static void check_call(int result, const char *what) {
    const char *text = NULL;
    if (!result) return;
    if (driver.error_text) driver.error_text(result, &text);
    fail_msg("%s: %s (%d)\n%s", what, text ? text : "?", result, sim.last_report ? sim.last_report() : "");
}

static bool take_device(void) {
    int device;
    void *context;
    if (driver.init(0) || driver.get_device(&device, 0)) return false;
    check_call(driver.retain(&context, device), "cuDevicePrimaryCtxRetain");
    check_call(driver.set_current(context), "cuCtxSetCurrent");
    return true;
}

bool gpu_available(void) {
    static const struct {
        const char *name;
        size_t at;
    } names[] = {
        {"cuInit", offsetof(struct driver, init)},
        {"cuDeviceGet", offsetof(struct driver, get_device)},
        {"cuDevicePrimaryCtxRetain", offsetof(struct driver, retain)},
        {"cuCtxSetCurrent", offsetof(struct driver, set_current)},
        {"cuCtxSynchronize", offsetof(struct driver, synchronize)},
        {"cuModuleLoadData", offsetof(struct driver, load)},
        {"cuModuleUnload", offsetof(struct driver, unload)},
        {"cuModuleGetFunction", offsetof(struct driver, function)},
        {"cuFuncSetAttribute", offsetof(struct driver, attribute)},
        {"cuMemAlloc_v2", offsetof(struct driver, alloc)},
        {"cuMemFree_v2", offsetof(struct driver, release)},
        {"cuMemcpyHtoD_v2", offsetof(struct driver, to_device)},
        {"cuMemcpyDtoH_v2", offsetof(struct driver, from_device)},
        {"cuMemcpyDtoD_v2", offsetof(struct driver, copy)},
        {"cuGetErrorString", offsetof(struct driver, error_text)},
        {"cuLaunchKernel", offsetof(struct driver, launch)},
    };
    if (driver.launch) return true;
    setenv("PTXSIM_MEMORY_MIB", "256", 0);
    driver.handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver.handle) {
        printf("skipped: %s\n", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *entry = dlsym(driver.handle, names[i].name);
        if (!entry) fail_msg("libcuda.so.1 has no %s", names[i].name);
        memcpy((char *)&driver + names[i].at, &entry, sizeof entry);
    }
    if (!take_device()) {
        printf("skipped: no GPU\n");
        return false;
    }
    stand_in_find();
    return true;
}

bool gpu_become(int sm) {
    char number[16], arch[16];
    if (!sim.restart) return false;
    snprintf(number, sizeof number, "%d", sm);
    snprintf(arch, sizeof arch, "sm_%d", sm);
    setenv("PTXSIM_SM", number, 1);
    setenv("TCC_TEST_ARCH", arch, 1);
    sim.restart();
    return take_device();
}

static uint64_t device_alloc(int64_t bytes) {
    uint64_t address;
    check_call(driver.alloc(&address, (size_t)(bytes ? bytes : 1)), "cuMemAlloc");
    return address;
}

gpu_program *gpu_program_create(const tcc_graph *g, const compiled_options *options, const char *arch) {
    gpu_program *p = calloc(1, sizeof *p);
    assert_ok(tcc_context_init(&p->cx), &p->cx.diag);
    tcc_llvm_target target;
    assert_ok(tcc_llvm_target_cuda(arch, options->hardware, &p->cx.diag, &target), &p->cx.diag);
    if (options->most_narrow) target.most_narrow = options->most_narrow;
    compiled_build(g, options, &target, &p->cx, &p->graph, &p->program);
    tcc_llvm_target_clear(&target);
    const tcc_program *program = p->program;
    p->modules = calloc((size_t)program->n_modules + 1, sizeof *p->modules);
    p->functions = calloc((size_t)program->n_kernels + 1, sizeof *p->functions);
    p->table_functions = calloc((size_t)program->n_kernels + 1, sizeof *p->table_functions);
    p->bindings = calloc((size_t)program->n_bindings + 1, sizeof *p->bindings);
    for (int i = 0; i < program->n_modules; i++)
        check_call(driver.load(&p->modules[i], program->modules[i].code), "cuModuleLoadData");
    for (int i = 0; i < program->n_kernels; i++) {
        const tcc_kernel *k = &program->kernels[i];
        char symbol[128];
        snprintf(symbol, sizeof symbol, "%s_table", k->symbol);
        check_call(driver.function(&p->functions[i], p->modules[k->module], k->symbol), k->symbol);
        if (k->table) check_call(driver.function(&p->table_functions[i], p->modules[k->module], symbol), symbol);
        if (k->scratch_bytes <= LARGE_SHARED) continue;
        check_call(driver.attribute(p->functions[i], ATTRIBUTE_DYNAMIC_SHARED, (int)k->scratch_bytes), k->symbol);
        if (k->table)
            check_call(driver.attribute(p->table_functions[i], ATTRIBUTE_DYNAMIC_SHARED, (int)k->scratch_bytes),
                       symbol);
    }
    p->arena = device_alloc(program->arena_bytes);
    p->constants = device_alloc(program->constants_bytes);
    if (program->constants_bytes)
        check_call(driver.to_device(p->constants, program->constants, (size_t)program->constants_bytes),
                   "cuMemcpyHtoD");
    for (int i = 0; i < program->n_bindings; i++)
        p->bindings[i] = device_alloc(tcc_type_bytes(&program->bindings[i].type));
    return p;
}

void gpu_program_destroy(gpu_program *p) {
    for (int i = 0; i < p->program->n_modules; i++) check_call(driver.unload(p->modules[i]), "cuModuleUnload");
    for (int i = 0; i < p->program->n_bindings; i++) check_call(driver.release(p->bindings[i]), "cuMemFree");
    check_call(driver.release(p->arena), "cuMemFree");
    check_call(driver.release(p->constants), "cuMemFree");
    free(p->modules);
    free(p->functions);
    free(p->table_functions);
    free(p->bindings);
    tcc_program_destroy(p->program);
    tcc_graph_destroy(p->graph);
    tcc_context_clear(&p->cx);
    free(p);
}

/* The arena and the outputs, where a run writes before it reads. */
static void poison(gpu_program *p) {
    for (int i = -1; i < p->program->n_bindings; i++) {
        const size_t bytes = (size_t)(i < 0 ? p->program->arena_bytes : tcc_type_bytes(&p->program->bindings[i].type));
        if (!bytes || (i >= 0 && p->program->bindings[i].role != TCC_ROLE_OUTPUT)) continue;
        void *pattern = malloc(bytes);
        memset(pattern, 0xff, bytes);
        check_call(driver.to_device(i < 0 ? p->arena : p->bindings[i], pattern, bytes), "cuMemcpyHtoD");
        free(pattern);
    }
}

void gpu_program_upload(gpu_program *p, int binding, const void *from) {
    size_t bytes = (size_t)tcc_type_bytes(&p->program->bindings[binding].type);
    if (bytes) check_call(driver.to_device(p->bindings[binding], from, bytes), "cuMemcpyHtoD");
}

void gpu_program_download(gpu_program *p, int binding, void *to) {
    size_t bytes = (size_t)tcc_type_bytes(&p->program->bindings[binding].type);
    if (bytes) check_call(driver.from_device(to, p->bindings[binding], bytes), "cuMemcpyDtoH");
}

static uint64_t address_of(const gpu_program *p, const tcc_buffer *b) {
    uint64_t base = b->space == TCC_SPACE_ARENA   ? p->arena
                    : b->space == TCC_SPACE_CONST ? p->constants
                                                  : p->bindings[b->binding];
    return base + (uint64_t)b->offset_bytes;
}

static void launch(gpu_program *p, void *function, const tcc_kernel *k, int64_t blocks, void **params) {
    enum { OUT_OF_RESOURCES = 701 };
    if (!blocks) return;
    const int result = driver.launch(function, (unsigned)blocks, 1, 1, (unsigned)k->threads, 1, 1,
                                     (unsigned)k->scratch_bytes, NULL, params, NULL);
    if (p->may_be_too_large && result == OUT_OF_RESOURCES) p->too_large = true;
    else check_call(result, k->symbol);
}

static int64_t blocks_of(const tcc_kernel *k, const tcc_instance *t) {
    return (t->items + k->items_a_block - 1) / k->items_a_block;
}

static void run_one(gpu_program *p, const tcc_kernel *k, void *function, const tcc_instance *t) {
    enum { MOST = 512 };
    uint64_t values[MOST];
    void *params[MOST];
    int n = 0;
    for (int i = 0; i < k->n_buffers; i++) values[n++] = address_of(p, &t->buffers[i]);
    for (int i = 0; i < k->n_params; i++) values[n++] = (uint64_t)t->params[i];
    values[n++] = (uint64_t)t->items;
    for (int i = 0; i < n; i++) params[i] = &values[i];
    int64_t blocks = blocks_of(k, t);
    if (p->most_blocks && blocks > p->most_blocks) blocks = p->most_blocks;
    launch(p, function, k, blocks, params);
}

static void run_table(gpu_program *p, const tcc_kernel *k, void *function, const tcc_step *step) {
    size_t words = 2 + (size_t)k->n_buffers + (size_t)k->n_params, n = (size_t)step->n_instances;
    uint64_t *table = calloc(words * (n + 1), sizeof *table), count = n;
    int64_t blocks = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t *row = table + i * words;
        const tcc_instance *t = &step->instances[i];
        *row++ = (uint64_t)blocks;
        *row++ = (uint64_t)t->items;
        for (int b = 0; b < k->n_buffers; b++) *row++ = address_of(p, &t->buffers[b]);
        for (int a = 0; a < k->n_params; a++) *row++ = (uint64_t)t->params[a];
        blocks += blocks_of(k, t);
    }
    table[n * words] = (uint64_t)blocks;
    uint64_t address = device_alloc((int64_t)(words * (n + 1) * sizeof *table));
    check_call(driver.to_device(address, table, words * (n + 1) * sizeof *table), "cuMemcpyHtoD");
    void *params[] = {&address, &count};
    launch(p, function, k, blocks, params);
    check_call(driver.release(address), "cuMemFree");
    free(table);
}

void gpu_program_run(gpu_program *p) {
    for (int i = 0; i < p->program->n_steps && !p->too_large; i++) {
        const tcc_step *step = &p->program->steps[i];
        if (step->kind == TCC_STEP_COPY) {
            check_call(driver.copy(address_of(p, &step->to), address_of(p, &step->from), (size_t)step->to.size_bytes),
                       "cuMemcpyDtoD");
            continue;
        }
        assert_int_equal(step->kind, TCC_STEP_KERNEL);
        const tcc_kernel *k = &p->program->kernels[step->kernel];
        if (step->n_instances > 1) run_table(p, k, p->table_functions[step->kernel], step);
        else run_one(p, k, p->functions[step->kernel], &step->instances[0]);
    }
    check_call(driver.synchronize(), "cuCtxSynchronize");
}

/* --- Comparison */

static const char *test_arch(void) {
    const char *arch = getenv("TCC_TEST_ARCH");
    return arch ? arch : "sm_90";
}

static void upload_inputs(gpu_program *p, const tcc_graph *g, const tcc_value *inputs) {
    for (int i = 0; i < g->inputs.count; i++) {
        void *packed = malloc((size_t)tcc_type_bytes(&g->inputs.data[i]->type) + 1);
        value_store(&inputs[i], packed);
        gpu_program_upload(p, i, packed);
        free(packed);
    }
}

void run_gpu(const tcc_graph *g, const tcc_value *inputs, const compiled_options *options, void **outputs) {
    gpu_program *p = gpu_program_create(g, options, test_arch());
    upload_inputs(p, g, inputs);
    gpu_program_run(p);
    for (int i = 0; i < g->outputs.count; i++) {
        outputs[i] = malloc((size_t)tcc_type_bytes(&g->outputs.data[i].node->type) + 1);
        gpu_program_download(p, compiled_output_binding(p->graph, i), outputs[i]);
    }
    gpu_program_destroy(p);
}

void check_gpu(const tcc_graph *g, const compiled_options *options) {
    tcc_value *inputs = random_inputs(g, options), *expected = expected_outputs(g, inputs, options);
    gpu_program *p = gpu_program_create(g, options, test_arch());
    void **first = calloc((size_t)g->outputs.count + 1, sizeof *first);
    p->may_be_too_large = options->variation;
    for (int round = 0; round < 2 && !p->too_large; round++) {
        p->most_blocks = round ? 2 : 0;
        if (round) poison(p); /* in the first the stand-in itself knows what nobody has written */
        upload_inputs(p, g, inputs);
        gpu_program_run(p);
        for (int i = 0; i < g->outputs.count && !p->too_large; i++) {
            const tcc_output *output = &p->graph->outputs.data[i];
            size_t bytes = (size_t)tcc_type_bytes(&output->node->type);
            void *got = calloc(1, bytes + 1);
            gpu_program_download(p, compiled_output_binding(p->graph, i), got);
            if (round == 0) {
                compiled_compare(output, got, &expected[i], options);
                first[i] = got;
                continue;
            }
            if (memcmp(first[i], got, bytes)) fail_msg("output %s: two runs differ", output->name);
            free(got);
        }
    }
    for (int i = 0; i < g->outputs.count; i++) free(first[i]);
    free(first);
    gpu_program_destroy(p);
    free_values(inputs, g->inputs.count);
    free_values(expected, g->outputs.count);
}

void check_gpu_text(const char *text, const compiled_options *options) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    check_gpu(g, options);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
}

int gpu_steps_of_text(const char *text, const compiled_options *options) {
    tcc_diag diag = {0};
    tcc_graph *g = parse_graph(text, &diag);
    gpu_program *p = gpu_program_create(g, options, "sm_90");
    const int steps = p->program->n_steps;
    gpu_program_destroy(p);
    tcc_graph_destroy(g);
    tcc_diag_clear(&diag);
    return steps;
}

/* --- ptxas */

static const char *find_ptxas(void) {
    static const char *const known[] = {"/usr/local/cuda/bin/ptxas", "/usr/bin/ptxas", "/usr/local/bin/ptxas"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!access(known[i], X_OK)) return known[i];
    return NULL;
}

/* Bytes that a kernel may spill: named after its schedule, as in "reduce_7". */
static long may_spill(const gpu_spill *known, const char *kernel, const char *arch) {
    for (; known->schedule; known++) {
        size_t length = strlen(known->schedule);
        bool there = !known->arch || !strcmp(known->arch, arch);
        if (there && !strncmp(kernel, known->schedule, length) && kernel[length] == '_') return known->bytes;
    }
    return 0;
}

long gpu_assemble_but(const tcc_program *program, const char *arch, const gpu_spill *known) {
    const char *ptxas = find_ptxas();
    static bool said;
    if (!ptxas) {
        if (!said) printf("no ptxas: modules are not assembled\n");
        said = true;
        return -1;
    }
    long worst = 0;
    for (int i = 0; i < program->n_modules; i++) {
        char ptx[64], command[512], line[512], kernel[520] = "?\n";
        snprintf(ptx, sizeof ptx, "module%d.ptx", i);
        FILE *f = fopen(ptx, "w");
        assert_non_null(f);
        fputs(program->modules[i].code, f);
        fclose(f);
        snprintf(command, sizeof command, "%s -v -arch=%s -o /dev/null %s 2>&1", ptxas, arch, ptx);
        f = popen(command, "r");
        assert_non_null(f);
        char *said_all = NULL;
        size_t length = 0;
        FILE *kept = open_memstream(&said_all, &length);
        while (fgets(line, sizeof line, f)) {
            long stores;
            const char *spill = strstr(line, "bytes stack frame, ");
            if (!strncmp(line, "ptxas info    : Function properties for ", 40))
                snprintf(kernel, sizeof kernel, "%s", line + 40);
            fputs(line, kept);
            if (!spill || sscanf(spill, "bytes stack frame, %ld bytes spill stores", &stores) != 1 || !stores) continue;
            printf("%ld bytes spilled for %s by %s", stores, arch, kernel);
            if (stores > may_spill(known, kernel, arch) && stores > worst) worst = stores;
        }
        fclose(kept);
        if (pclose(f)) fail_msg("ptxas -arch=%s %s:\n%s", arch, ptx, said_all);
        if (worst || getenv("TCC_TEST_VERBOSE")) printf("ptxas -arch=%s %s:\n%s", arch, ptx, said_all);
        free(said_all);
        unlink(ptx);
    }
    return worst;
}

long gpu_assemble(const tcc_program *program, const char *arch) {
    return gpu_assemble_but(program, arch, &(gpu_spill){0});
}
