/* SPDX-License-Identifier: MIT
 * Tile registers (AMX): the kernel lets a process use them only after it has asked. Whoever makes code with tiles asks,
 * so as not to make it in vain, and so does the device that loads such code. */
#ifndef TCC_IR_SUPPORT_TILES_H
#define TCC_IR_SUPPORT_TILES_H

#include <stdbool.h>

/* Asks for all threads of the process, those that run already included. False: the kernel does not let us, or there are
 * none. May be called any number of times. */
bool tcc_tiles_permitted(void);

#endif
