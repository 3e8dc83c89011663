/* SPDX-License-Identifier: MIT
 * The switches of training in combinations. */
#ifndef TCC_TESTS_HARNESS_SWITCHES_H
#define TCC_TESTS_HARNESS_SWITCHES_H

/* Trains a small model with each row of a table in which every two values of every two switches meet - micro-batches,
 * averages, precision, what is computed again, mode, device, optimizer, clipping - and compares its losses, and those
 * of evaluating with averages, with what the eager mode computes in f32 on whole batches on the CPU. */
void check_switches(const char *const *devices, int n_devices);

#endif
