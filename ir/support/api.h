/* SPDX-License-Identifier: MIT
 * Marks what the library exports, and makes the headers usable from C++. */
#ifndef TRAINCC_API_H
#define TRAINCC_API_H

#define TCC_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define TCC_API_BEGIN extern "C" {
#define TCC_API_END }
#else
#define TCC_API_BEGIN
#define TCC_API_END
#endif

#endif
