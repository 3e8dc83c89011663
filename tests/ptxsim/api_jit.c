/* SPDX-License-Identifier: MIT
 * The compiler in the driver: PTX to what a module is made of, and, by way of the linker, to machine code. */
#include "api.h"

#include <stdio.h>

jit_log jit_open_log(unsigned int count, int *options, void **values) {
    jit_log log = {0};
    for (unsigned k = 0; k < count; k++) {
        if (options[k] == CU_JIT_ERROR_LOG_BUFFER) log.text = values[k];
        if (options[k] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
            log.size = (size_t)(uintptr_t)values[k], log.used = &values[k];
        if (options[k] == CU_JIT_INFO_LOG_BUFFER && values[k]) *(char *)values[k] = 0;
        if (options[k] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) values[k] = (void *)0;
    }
    if (log.text && log.size) log.text[0] = 0;
    return log;
}

static void say(jit_log *log, const char *error) {
    if (*error) {
        if (log->text && log->size) snprintf(log->text, log->size, "%s", error);
        sim_report("module: %s", error);
    }
    if (log->used) *log->used = (void *)(uintptr_t)(log->text && log->size ? strlen(log->text) + 1 : 0);
}

CUresult jit_compile(const char *text, jit_log *log, sim_module **out) {
    char error[512] = "";
    CUresult r = CUDA_SUCCESS;
    *out = sim_module_parse(text, sim_set.sm, error, sizeof error);
    if (!*out) r = strstr(error, "this is no PTX") ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_INVALID_PTX;
    else if ((*out)->version >
             sim_set.driver / 1000 * 10 + sim_set.driver % 1000 / 10 - 40) { /* CUDA 12.8 knows PTX 8.7, and so on */
        snprintf(error, sizeof error, "PTX version %d.%d is newer than this driver", (*out)->version / 10,
                 (*out)->version % 10);
        r = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    }
    say(log, r ? error : "");
    if (!r) return CUDA_SUCCESS;
    sim_module_free(*out);
    *out = NULL;
    return r;
}

/* Machine code of this stand-in is the PTX with a head that says for what it was compiled. */
typedef struct machine_head {
    char mark[8];
    int sm, reserved;
} machine_head;
static const char machine_mark[8] = "\x7fPTXSIM";

const char *jit_text_of(const void *image) {
    const machine_head *head = image;
    if (*(const char *)image != 0x7f && *(const char *)image != 0x50) return image; /* not ELF, no fat binary */
    return strcmp(image, machine_mark) || head->sm != sim_set.sm ? NULL : (const char *)(head + 1);
}

/* -- The linker -- */

struct CUlinkState_st {
    jit_log log;
    char *text, *machine;
};

CUresult cuLinkCreate_v2(unsigned int count, int *options, void **values, CUlinkState *link) {
    ENTER(true);
    if (!link) return api_leave(CUDA_ERROR_INVALID_VALUE);
    if (!(*link = calloc(1, sizeof **link))) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    (*link)->log = jit_open_log(count, options, values);
    sim.links++;
    return api_leave(CUDA_SUCCESS);
}

/* One input, which must be PTX. */
CUresult cuLinkAddData_v2(CUlinkState link, int type, void *data, size_t size, const char *name, unsigned int count,
                          int *options, void **values) {
    sim_module *parsed;
    ENTER(true);
    (void)name, (void)count, (void)options, (void)values;
    if (!link || link->text || type != CU_JIT_INPUT_PTX || !data || !size || ((char *)data)[size - 1])
        return api_leave(CUDA_ERROR_INVALID_VALUE);
    const CUresult r = jit_compile(data, &link->log, &parsed);
    sim_module_free(parsed);
    if (!r && !(link->text = strdup(data))) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    return api_leave(r);
}

CUresult cuLinkComplete(CUlinkState link, void **machine, size_t *size) {
    ENTER(true);
    if (!link || !link->text || link->machine || !machine) return api_leave(CUDA_ERROR_INVALID_VALUE);
    const size_t bytes = sizeof(machine_head) + strlen(link->text) + 1;
    if (!(link->machine = malloc(bytes))) return api_leave(CUDA_ERROR_OUT_OF_MEMORY);
    machine_head head = {.sm = sim_set.sm};
    memcpy(head.mark, machine_mark, sizeof head.mark);
    memcpy(link->machine, &head, sizeof head);
    strcpy(link->machine + sizeof head, link->text);
    *machine = link->machine;
    if (size) *size = bytes;
    return api_leave(CUDA_SUCCESS);
}

CUresult cuLinkDestroy(CUlinkState link) {
    CUresult entered = api_enter(true);
    if (entered && entered != sim.sticky) return api_leave(entered);
    if (!link) return api_leave(CUDA_ERROR_INVALID_HANDLE);
    say(&link->log, ""); /* what the options point to lives as long as the link */
    free(link->text);
    free(link->machine);
    free(link);
    sim.links--;
    return api_leave(entered);
}
