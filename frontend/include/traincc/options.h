/* SPDX-License-Identifier: MIT
 * How macros take options and lists, in C and in C++.
 *
 * In C and in C++20 options are designated initializers behind the arguments, in C++20 in the order of the struct:
 * tcc_linear(x, "fc1", 128, .no_bias = true). C++17 has none: there options are values in that order, or a struct of
 * one's own is given to the function: tcc_linear_at(x, "fc1", 128, &options, TCC_HERE). */
#ifndef TRAINCC_OPTIONS_H
#define TRAINCC_OPTIONS_H

#include <stdint.h>

/* An option that is not given is zero: so a member says in C++, that no compiler warns of it. */
#ifdef __cplusplus
#include <initializer_list>
#define TCC_OR_ZERO \
    {}
#else
#define TCC_OR_ZERO
#endif

/* The last argument of a function and its options, a `type` whose first member is its size. A macro with options ends
 * in "..." behind the argument before: so there always is one for the dots, as C11 and C++17 ask. */
#define TCC_WITH_OPTIONS(type, ...) TCC_FIRST_(__VA_ARGS__, ), TCC_OPTIONS_OF_(type, TCC_REST_(__VA_ARGS__, ))
#define TCC_FIRST_(first, ...) first
#define TCC_REST_(first, ...) __VA_ARGS__

#ifndef __cplusplus
#define TCC_OPTIONS_OF_(type, ...) \
    &(type) { .size = sizeof(type), __VA_ARGS__ }
#else
#define TCC_OPTIONS_OF_(type, ...) &static_cast<const type &>(type{TCC_SIZE_ sizeof(type), __VA_ARGS__})
#if __cplusplus >= 202002L
#define TCC_SIZE_ .size =
#else
#define TCC_SIZE_
#endif
#endif

/* A list of extents or axes: tcc_reshape(x, TCC_DIMS(32, -1)). */
#ifndef __cplusplus
#define TCC_DIMS(...) \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]) { __VA_ARGS__ }
#else
#define TCC_DIMS(...)                                                     \
    static_cast<int>(std::initializer_list<int64_t>{__VA_ARGS__}.size()), \
        std::initializer_list<int64_t>{__VA_ARGS__}.begin()
#endif

/* The user's place. */
#ifndef __cplusplus
#define TCC_HERE ((tcc_loc){__FILE__, __LINE__})
#else
#define TCC_HERE (tcc_loc{__FILE__, __LINE__})
#endif

#endif
