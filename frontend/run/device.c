/* SPDX-License-Identifier: MIT
 * Which device a name means on this machine, and opening it. */
#include "frontend/run/model.h"

#include "runtime/cpus.h"
#include "runtime/cpu/device.h"
#include "runtime/cuda/device.h"
#include "runtime/cuda/library.h"
#include "runtime/comm/comm.h"

#include <limits.h>
#include <stdlib.h>

typedef enum device_kind { DEVICE_CPU, DEVICE_CUDA, DEVICE_AUTO } device_kind;

/* NULL is "cpu". `ordinal`: -1 where the name has none. */
static tcc_status parse_name(tcc_diag *diag, const char *name, device_kind *kind, int *ordinal) {
    *kind = DEVICE_CPU;
    *ordinal = -1;
    if (!name || !strcmp(name, "cpu")) return TCC_OK;
    *kind = strcmp(name, "auto") ? DEVICE_CUDA : DEVICE_AUTO;
    if (*kind == DEVICE_AUTO || !strcmp(name, "cuda")) return TCC_OK;
    if (!strncmp(name, "cuda:", 5) && name[5] >= '0' && name[5] <= '9') {
        char *end;
        long number = strtol(name + 5, &end, 10);
        *ordinal = number <= INT_MAX ? (int)number : INT_MAX;
        if (!*end) return TCC_OK;
    }
    return tcc_error(diag, TCC_EINVAL, TCC_NOWHERE, "device \"%s\": must be cpu, cuda, cuda:N or auto", name);
}

/* The CUDA device that is meant: its number, -1 for the CPU; its line is added to `text`, or why it is the CPU. Where
 * the name has no number, it is that of the rank on this machine; NULL: there are no ranks. */
static tcc_status resolve(tcc_context *cx, const char *name, const tcc_comm *comm, int *ordinal, int *sm,
                          tcc_strbuf *text) {
    device_kind kind;
    int devices = 0;
    TCC_TRY(parse_name(&cx->diag, name, &kind, ordinal));
    if (kind == DEVICE_CPU) return TCC_OK;
    if (*ordinal < 0 && comm && tcc_device_cuda_count(cx, &devices) == TCC_OK && devices > 1)
        *ordinal = tcc_comm_local_rank(comm); /* else a launcher may have given each its own */
    tcc_diag_clear(&cx->diag);                /* whoever asks for a device next says it, too */
    tcc_status status = tcc_device_cuda_probe(cx, *ordinal, ordinal, sm, text);
    if (status == TCC_OK || kind == DEVICE_CUDA || status == TCC_ENOMEM) return status;
    const char *why = tcc_diag_words(&cx->diag);
    tcc_strbuf_addn(text, why, strcspn(why, ";\n")); /* without the advice: nobody asked for CUDA */
    tcc_diag_clear(&cx->diag);
    *ordinal = -1;
    return TCC_OK;
}

tcc_status tcc_find_device(tcc_context *cx, const char *name, char **device, char **text) {
    tcc_diag_begin(&cx->diag);
    int ordinal, sm, threads;
    tcc_strbuf line = {0}, found = {0};
    *device = *text = NULL;
    tcc_status status = resolve(cx, name, NULL, &ordinal, &sm, &line);
    if (status == TCC_OK && ordinal < 0) {
        tcc_cpus cpus;
        tcc_cpus_get(&cpus);
        status = tcc_cpus_threads(&cx->diag, &cpus, &threads);
        char *why = tcc_strbuf_take(&line);
        if (status == TCC_OK)
            tcc_strbuf_printf(&line, "cpu: %d thread%s%s%s", threads, threads == 1 ? "" : "s", why ? "; " : "",
                              why ? why : "");
        tcc__free(why);
    }
    if (status == TCC_OK) {
        if (ordinal < 0) tcc_strbuf_add(&found, "cpu");
        else tcc_strbuf_printf(&found, "cuda:%d", ordinal);
        if (line.length && line.text[line.length - 1] == '\n') line.text[--line.length] = 0;
        *device = tcc_strbuf_take(&found);
        *text = tcc_strbuf_take(&line);
        if (!*device || !*text) status = tcc_enomem(&cx->diag);
    }
    if (status != TCC_OK) {
        tcc_strbuf_free(&line);
        tcc__free(*device);
        tcc__free(*text);
        *device = *text = NULL;
    }
    return status;
}

tcc_status tcc__model_open_device(tcc_model *m, const char *name, int *sm) {
    tcc_context *cx = m->cx;
    int ordinal = -1;
    *sm = 0;
    tcc_strbuf text = {0};
    const tcc_comm *comm = m->options.comm && !tcc_comm_is_planned(m->options.comm) ? m->options.comm : NULL;
    tcc_status status = resolve(cx, name, comm, &ordinal, sm, &text);
    if (status == TCC_OK && ordinal >= 0) {
        snprintf(m->device_name, sizeof m->device_name, "cuda:%d", ordinal);
        status = tcc_device_cuda_create(cx, ordinal, &m->device);
    } else if (status == TCC_OK) {
        *sm = 0;
        snprintf(m->device_name, sizeof m->device_name, "cpu");
        status = tcc_device_cpu_create(cx, 0, &m->device);
    }
    if (status == TCC_OK && name && !strcmp(name, "auto"))
        tcc_logf(cx, TCC_LOG_DEVICE, "auto takes %s: %.*s", m->device_name,
                 (int)strcspn(text.text ? text.text : "", "\n"), text.text ? text.text : "");
    tcc_strbuf_free(&text);
    return status == TCC_OK ? tcc_nvtx_open(&cx->diag, &m->nvtx) : status;
}

tcc_status tcc__model_check_device(tcc_model *m, const char *name) {
    int ordinal = -1, sm;
    char meant[sizeof m->device_name] = "cpu";
    tcc_strbuf text = {0};
    if (!name || !m->device) return TCC_OK; /* with options.arch a device is ignored */
    const tcc_status status = resolve(m->cx, name, m->options.comm, &ordinal, &sm, &text);
    tcc_strbuf_free(&text);
    if (status != TCC_OK) return status;
    if (ordinal >= 0) snprintf(meant, sizeof meant, "cuda:%d", ordinal);
    if (!strcmp(meant, m->device_name)) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EINVAL, TCC_NOWHERE,
                     "share: the parameters are on the device %s, and device \"%s\" is another", m->device_name, name);
}

tcc_status tcc__model_need_device(tcc_model *m) {
    if (m->device) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                     "the model was made for the architecture %s, not for a device: it cannot run", m->arch);
}

tcc_status tcc__model_can_run(tcc_model *m) {
    TCC_TRY(tcc__model_need_device(m));
    if (!m->options.compile_only) return TCC_OK;
    return tcc_error(&m->cx->diag, TCC_EUNSUPPORTED, TCC_NOWHERE,
                     "the model was made with compile_only: it cannot run");
}

const char *tcc_model_device(const tcc_model *m) { return m->device_name; }

/* -- For a person -- */

static tcc_status describe_cpu(tcc_context *cx, tcc_strbuf *text) {
    tcc_device *device;
    TCC_TRY(tcc_device_cpu_create(cx, 0, &device));
    device->ops->describe(device, text);
    tcc_device_destroy(device);
    return TCC_OK;
}

/* A line a device and one a library, or why there is none. */
static void describe_cuda(tcc_context *cx, tcc_strbuf *text) {
    int usable;
    if (tcc_device_cuda_list(cx, &usable, text) != TCC_OK)
        tcc_strbuf_printf(text, "cuda: %s\n", tcc_diag_words(&cx->diag));
    tcc_diag_clear(&cx->diag);
    if (usable) tcc_cuda_libraries_describe(text);
    else tcc_strbuf_add(text, "everything runs on the CPU\n");
}

tcc_status tcc_describe_devices(tcc_context *cx, char **out) {
    tcc_diag_begin(&cx->diag);
    tcc_strbuf text = {0};
    *out = NULL;
    tcc_status status = describe_cpu(cx, &text);
    if (status == TCC_OK) {
        describe_cuda(cx, &text);
        *out = tcc_strbuf_take(&text);
        if (!*out) status = tcc_enomem(&cx->diag);
    }
    tcc_strbuf_free(&text);
    return status;
}
