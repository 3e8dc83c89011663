/* SPDX-License-Identifier: MIT
 * Elements of the types that libraries are probed with, on the host. */
#ifndef TCC_RUNTIME_PROBE_VALUES_H
#define TCC_RUNTIME_PROBE_VALUES_H

#include "ir/support/dtype.h"

static inline void tcc_probe_put(void *at, int64_t dtype, int64_t index, double x) {
    switch (dtype) {
    case TCC_F64: ((double *)at)[index] = x; break;
    case TCC_F32: ((float *)at)[index] = (float)x; break;
    case TCC_F16: ((uint16_t *)at)[index] = tcc_f32_to_f16((float)x); break;
    default: ((uint16_t *)at)[index] = tcc_f32_to_bf16((float)x); break;
    }
}

static inline double tcc_probe_get(const void *at, int64_t dtype, int64_t index) {
    switch (dtype) {
    case TCC_F64: return ((const double *)at)[index];
    case TCC_F32: return (double)((const float *)at)[index];
    case TCC_F16: return (double)tcc_f16_to_f32(((const uint16_t *)at)[index]);
    default: return (double)tcc_bf16_to_f32(((const uint16_t *)at)[index]);
    }
}

#endif
