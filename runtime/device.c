/* SPDX-License-Identifier: MIT
 * What all devices share. */
#include "device.h"

void tcc_device_destroy(tcc_device *device) {
    if (device) device->ops->destroy(device);
}
