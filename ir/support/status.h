/* SPDX-License-Identifier: MIT
 * Status codes: 0 is success, errors are negative. The public header repeats this enum's name, so that a user's code
 * and ours speak of one type. */
#ifndef TCC_SUPPORT_STATUS_H
#define TCC_SUPPORT_STATUS_H

#include "api.h"

TCC_API_BEGIN

typedef enum tcc_status {
#define TCC_STATUS(id, value, text) TCC_##id = value,
#include "status.def"
#undef TCC_STATUS
} tcc_status;

/* "ESHAPE" for TCC_ESHAPE; "unknown status" for a value outside the table. Static string. */
TCC_API const char *tcc_status_name(tcc_status s);
/* "shapes do not agree" for TCC_ESHAPE. Static string. */
TCC_API const char *tcc_status_text(tcc_status s);

/* Return early with any error of a call. */
#define TCC_TRY(call)                                  \
    do {                                               \
        tcc_status try_status_ = (call);               \
        if (try_status_ != TCC_OK) return try_status_; \
    } while (0)

TCC_API_END
#endif
