/* SPDX-License-Identifier: MIT
 * Reading TCC_LIBRARIES. */
#include "runtime/wanted.h"

#include "ir/support/strbuf.h"

#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"cublaslt", "cudnn", "cudnn.batch_norm", "nccl"};
enum { NAMES = sizeof names / sizeof *names };

/* Whether the list has `name`, or with `parts` something of it, "name.part". */
static bool listed(const char *name, bool parts) {
    const char *text = getenv("TCC_LIBRARIES");
    const size_t n = strlen(name);
    for (const char *p = text ? text : ""; *p;) {
        size_t length = strcspn(p, ",");
        if (length >= n && !memcmp(name, p, n) && (length == n || (parts && p[n] == '.'))) return true;
        p += length + (p[length] == ',');
    }
    return false;
}

bool tcc_library_wanted(const char *name) {
    const char *text = getenv("TCC_LIBRARIES");
    return !text || !*text || listed(name, true);
}

bool tcc_libraries_prefer(const char *name) { return listed(name, false); }

static bool is_name(const char *word, size_t length) {
    for (int i = 0; i < NAMES; i++)
        if (strlen(names[i]) == length && !memcmp(names[i], word, length)) return true;
    return false;
}

tcc_status tcc_libraries_check_wanted(tcc_diag *d) {
    const char *text = getenv("TCC_LIBRARIES");
    if (!text || !strcmp(text, "none")) return TCC_OK;
    for (const char *p = text; *p;) {
        size_t length = strcspn(p, ",");
        if (!is_name(p, length)) {
            tcc_strbuf all = {0};
            for (int i = 0; i < NAMES; i++) tcc_strbuf_printf(&all, "%s%s", i ? ", " : "", names[i]);
            tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                      "TCC_LIBRARIES: unknown library '%.*s'; expected none, or a list of: %s", (int)length, p,
                      all.text ? all.text : "");
            tcc_strbuf_free(&all);
            return TCC_EINVAL;
        }
        p += length + (p[length] == ',');
    }
    return TCC_OK;
}
