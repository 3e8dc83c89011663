/* SPDX-License-Identifier: MIT
 * Instruction sets of this CPU, within TCC_CPU. */
#include "ir/support/cpu.h"
#include "ir/support/tiles.h"

#include <stdlib.h>
#include <string.h>

/* Sets by LLVM's name and the compiler's: TCC_FEATURE("LLVM", "gcc and clang"). */
#define TCC_X86_FEATURES(TCC_FEATURE)                 \
    TCC_FEATURE("sse3", "sse3")                       \
    TCC_FEATURE("ssse3", "ssse3")                     \
    TCC_FEATURE("sse4.1", "sse4.1")                   \
    TCC_FEATURE("sse4.2", "sse4.2")                   \
    TCC_FEATURE("popcnt", "popcnt")                   \
    TCC_FEATURE("avx", "avx")                         \
    TCC_FEATURE("avx2", "avx2")                       \
    TCC_FEATURE("fma", "fma")                         \
    TCC_FEATURE("f16c", "f16c")                       \
    TCC_FEATURE("lzcnt", "lzcnt")                     \
    TCC_FEATURE("movbe", "movbe")                     \
    TCC_FEATURE("bmi", "bmi")                         \
    TCC_FEATURE("bmi2", "bmi2")                       \
    TCC_FEATURE("avx512f", "avx512f")                 \
    TCC_FEATURE("avx512cd", "avx512cd")               \
    TCC_FEATURE("avx512bw", "avx512bw")               \
    TCC_FEATURE("avx512dq", "avx512dq")               \
    TCC_FEATURE("avx512vl", "avx512vl")               \
    TCC_FEATURE("avx512ifma", "avx512ifma")           \
    TCC_FEATURE("avx512vbmi", "avx512vbmi")           \
    TCC_FEATURE("avx512vbmi2", "avx512vbmi2")         \
    TCC_FEATURE("avx512vnni", "avx512vnni")           \
    TCC_FEATURE("avx512bitalg", "avx512bitalg")       \
    TCC_FEATURE("avx512vpopcntdq", "avx512vpopcntdq") \
    TCC_FEATURE("avx512bf16", "avx512bf16")

static const struct {
    const char *name, *features;
} levels[] = {{"x86-64-v2", TCC_CPU_V2}, {"x86-64-v3", TCC_CPU_V3}, {"x86-64-v4", TCC_CPU_V4}};
enum { LEVELS = sizeof levels / sizeof *levels };

static size_t length_of(const char *feature) { return strcspn(feature, ","); }

static const char *next(const char *feature) {
    feature += length_of(feature);
    return feature + (*feature == ',');
}

static bool lists(const char *features, const char *name, size_t length) {
    for (const char *p = features; p && *p; p = next(p))
        if (*p == '+' && length_of(p) == length + 1 && !memcmp(p + 1, name, length)) return true;
    return false;
}

bool tcc_cpu_lists(const char *features, const char *name) { return lists(features, name, strlen(name)); }

/* -- The machine -- */

static bool machine_has(const char *name, size_t length, bool *known) {
    *known = true;
#if defined __x86_64__
    static const char tiles[] = "amx-bf16"; /* not there before the process has asked for them */
    if (length == sizeof tiles - 1 && !memcmp(name, tiles, length)) return tcc_tiles_permitted();
    __builtin_cpu_init();
#define TCC_FEATURE(llvm, compiler) \
    if (length == sizeof llvm - 1 && !memcmp(name, llvm, length)) return __builtin_cpu_supports(compiler);
    TCC_X86_FEATURES(TCC_FEATURE)
#undef TCC_FEATURE
#else
    (void)name;
    (void)length;
#endif
    *known = false;
    return true;
}

#if defined __x86_64__
static const char *machine_lacks(const char *features) {
    bool known;
    for (const char *p = features; *p; p = next(p))
        if (*p == '+' && !machine_has(p + 1, length_of(p + 1), &known)) return p + 1;
    return NULL;
}
#endif

/* -- TCC_CPU -- */

/* Its level, LEVELS where there is none. */
static int wanted(void) {
    const char *text = getenv("TCC_CPU");
    int i = 0;
    while (i < LEVELS && (!text || strcmp(text, levels[i].name) != 0)) i++;
    return i;
}

tcc_status tcc_cpu_wanted(tcc_diag *d, const char **level) {
    const char *text = getenv("TCC_CPU");
    const int i = wanted();
    *level = i < LEVELS ? levels[i].name : NULL;
    if (!*level) {
        if (!text || !*text || !strcmp(text, "native")) return TCC_OK;
        return tcc_error(d, TCC_EINVAL, TCC_NOWHERE,
                         "TCC_CPU: unknown level '%s'; expected x86-64-v2, x86-64-v3, x86-64-v4 or native", text);
    }
#if defined __x86_64__
    const char *lacking = machine_lacks(levels[i].features);
    if (!lacking) return TCC_OK;
    return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "TCC_CPU: %s is more than this CPU has: it lacks %.*s", *level,
                     (int)length_of(lacking), lacking);
#else
    return tcc_error(d, TCC_EUNSUPPORTED, TCC_NOWHERE, "TCC_CPU: %s is a level of x86-64, which this CPU is not",
                     *level);
#endif
}

static bool has(const char *name, size_t length) {
    bool known;
    const bool there = machine_has(name, length, &known);
    const int level = known ? wanted() : LEVELS;
    return there && (level == LEVELS || lists(levels[level].features, name, length));
}

bool tcc_cpu_has(const char *name) { return has(name, strlen(name)); }

const char *tcc_cpu_lacks(const char *features) {
    for (const char *p = features; *p; p = next(p))
        if (*p == '+' && !has(p + 1, length_of(p + 1))) return p + 1;
    return NULL;
}

const char *tcc_cpu_level(void) {
    const char *level = NULL;
#if defined __x86_64__
    for (int i = 0; i < LEVELS && !tcc_cpu_lacks(levels[i].features); i++) level = levels[i].name;
#endif
    return level;
}
