/* SPDX-License-Identifier: MIT
 * Permission to use tile registers. */
#include "ir/support/tiles.h"

#ifdef __x86_64__
#include <sys/syscall.h>
#include <unistd.h>

bool tcc_tiles_permitted(void) {
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 }; /* <asm/prctl.h> of Linux 5.16 */
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}
#else
bool tcc_tiles_permitted(void) { return false; }
#endif
