/* SPDX-License-Identifier: MIT
 * Names and texts of the status codes, from status.def. */
#include "status.h"

const char *tcc_status_name(tcc_status s) {
    switch (s) {
#define TCC_STATUS(id, value, text) \
    case TCC_##id: return #id;
#include "status.def"
#undef TCC_STATUS
    }
    return "unknown status";
}

const char *tcc_status_text(tcc_status s) {
    switch (s) {
#define TCC_STATUS(id, value, text) \
    case TCC_##id: return text;
#include "status.def"
#undef TCC_STATUS
    }
    return "unknown status";
}
