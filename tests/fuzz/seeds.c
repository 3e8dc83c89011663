/* SPDX-License-Identifier: MIT
 * Writes what the fuzzers of files begin from that this library writes itself, so that it always has the present
 * format: the body of a plan and of a stored program, as DIR/fuzz_plan and DIR/fuzz_program. */
#include "harness/sample_program.h"

#include "ir/support/alloc.h"
#include "ir/support/diag.h"
#include "runtime/program_file.h"
#include "runtime/stream.h"
#include "traincc/traincc.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 1;
}

/* The bytes behind a file's header, as DIR/`target`/made, which another fuzzer's run may be reading. */
static bool write_body(const char *dir, const char *target, const void *bytes, size_t size) {
    enum { HEADER = TCC_STREAM_HEADER_BYTES };
    char path[2048], fresh[2100];
    snprintf(path, sizeof path, "%s/%s", dir, target);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s/made", dir, target);
    snprintf(fresh, sizeof fresh, "%s/%s.%ld", dir, target, (long)getpid());
    FILE *f = size > HEADER ? fopen(fresh, "wb") : NULL;
    bool ok = f && fwrite((const char *)bytes + HEADER, 1, size - HEADER, f) == size - HEADER;
    if (f && fclose(f)) ok = false;
    ok = ok && !rename(fresh, path);
    if (!ok) perror(path);
    return ok;
}

static bool write_program(const char *dir) {
    tcc_diag d = {0};
    void *bytes = NULL;
    int64_t size = 0;
    tcc_program *p = sample_program();
    bool ok = tcc_program_encode(&d, p, &bytes, &size) == TCC_OK &&
              write_body(dir, "fuzz_program", bytes, (size_t)size);
    tcc__free(bytes);
    tcc_program_destroy(p);
    tcc_diag_clear(&d);
    return ok;
}

static void net(tcc_trace *t, void *user) {
    (void)user;
    tcc_loss(t, tcc_cross_entropy(tcc_linear(tcc_input(t, "x"), "fc", 3), tcc_input(t, "y")));
}

static bool write_plan(const char *dir) {
    const char *saved = "made.plan";
    const tcc_array batch[] = {
        {.name = "x", .dtype = TCC_F32, .rank = 2, .dims = {4, 8}, .data = (float[4 * 8]){1, 2, 3}},
        {.name = "y", .dtype = TCC_I32, .rank = 1, .dims = {4}, .data = (int32_t[4]){0, 1, 2, 0}},
    };
    static char bytes[1 << 20];
    size_t size = 0;
    tcc_context *cx = NULL;
    tcc_model *m = NULL;
    const tcc_model_options options = {.size = sizeof options, .device = "cpu"};
    bool ok = tcc_context_create(&cx) == TCC_OK && tcc_model_create(cx, net, NULL, &options, &m) == TCC_OK &&
              tcc_model_compile(m, true, batch, 2) == TCC_OK && tcc_model_save_plan(m, "made", saved) == TCC_OK;
    if (!ok && cx) fprintf(stderr, "%s\n", tcc_context_error(cx));
    FILE *f = ok ? fopen(saved, "rb") : NULL;
    if (f) size = fread(bytes, 1, sizeof bytes, f), fclose(f);
    tcc_model_destroy(m);
    tcc_context_destroy(cx);
    return ok && size < sizeof bytes && write_body(dir, "fuzz_plan", bytes, size);
}

int main(int argc, char **argv) {
    if (argc != 2) return fail("usage: fuzz_seeds DIR");
    mkdir(argv[1], 0777);
    return write_program(argv[1]) && write_plan(argv[1]) ? 0 : fail("no seeds");
}
