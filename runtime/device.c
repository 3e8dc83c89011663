/* SPDX-License-Identifier: MIT
 * What all devices share. */
#include "runtime/device.h"

void tcc_device_destroy(tcc_device *device) {
    if (device) device->ops->destroy(device);
}

tcc_status tcc_device_check_fetch(tcc_diag *d, int64_t made, int64_t ticket, int64_t size_bytes) {
    if (size_bytes >= 0 && size_bytes <= TCC_FETCH_BYTES && ticket >= 0 && ticket < made &&
        made - ticket <= TCC_FETCHES)
        return TCC_OK;
    return tcc_error(d, TCC_ENOTFOUND, TCC_NOWHERE,
                     "fetched result %lld of %lld bytes is not among those kept, the last %d of %lld, of %d bytes",
                     (long long)ticket, (long long)size_bytes, TCC_FETCHES, (long long)made, TCC_FETCH_BYTES);
}
