/* SPDX-License-Identifier: MIT
 * A training recipe: what a YAML file and the command line ask for, checked. */
#ifndef TCC_TOOLS_TRAIN_RECIPE_H
#define TCC_TOOLS_TRAIN_RECIPE_H

#include "recipe_groups.h"
#include "recipe_pairs.h"

#include <traincc/model.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { RECIPE_LIST_MAX = 16, RECIPE_ERROR_MAX = 1024 };

typedef struct recipe_list {
    int count;
    double v[RECIPE_LIST_MAX];
} recipe_list;

/* Of recipe.def: no bound that matters; networks that give a class for each pixel. */
#define UNBOUNDED 9e15
#define PIXEL_MODELS "pp-liteseg-t|pp-liteseg-b|stdc1|stdc2|ddrnet-23|ddrnet-23-slim|regseg|segformer-b0|segformer-b1"

/* On the command line; in the file, but it does not go with what the command line chooses. */
enum { RECIPE_OVERRIDDEN = -1, RECIPE_LEFT_OUT = -2 };

/* What a key's value is kept as, by the types of recipe.def. */
typedef char *recipe_STRING, *recipe_PATH, *recipe_CHOICE, *recipe_BUDGET, *recipe_WEIGHTS;
typedef int64_t recipe_INTEGER;
typedef double recipe_NUMBER;
typedef bool recipe_FLAG;
typedef recipe_list recipe_LIST, recipe_WHOLES;
typedef unsigned recipe_NAMES; /* a bit for each choice */
typedef recipe_patterns recipe_PATTERNS;
typedef recipe_groups recipe_GROUPS;
typedef recipe_pairs recipe_PAIRS;

#define RECIPE_SECTION(name)
#define RECIPE_END(name)
#define RECIPE_KEY(...) 1 +
enum {
    RECIPE_KEY_COUNT =
#include "recipe.def"
        0
};

/* One field a key, in structs as its path says: training.early_stopping.patience. Strings are owned. */
typedef struct recipe {
    char *file;                  /* for messages */
    int given[RECIPE_KEY_COUNT]; /* by key: its line in the file; RECIPE_OVERRIDDEN, _LEFT_OUT; 0: it has its default */
#define RECIPE_SECTION(name) struct {
#define RECIPE_END(name) \
    }                    \
    name;
#define RECIPE_KEY(in, name, type, ...) recipe_##type name;
#include "recipe.def"
} recipe;

/* Fills in the defaults. False when memory is short. */
bool recipe_init(recipe *r);
void recipe_free(recipe *r);
/* Reads a recipe's text; `file` names it in messages. On failure `error` has the message, with the line and the nearest
 * key. */
bool recipe_parse(recipe *r, const char *text, size_t length, const char *file, char error[RECIPE_ERROR_MAX]);
/* Applies "training.max_steps=100". */
bool recipe_override(recipe *r, const char *assignment, char error[RECIPE_ERROR_MAX]);
/* Fills in the defaults that depend on other keys. Checks that go across keys: something is asked for twice, is
 * missing, or does not apply to what was chosen. */
bool recipe_check(recipe *r, char error[RECIPE_ERROR_MAX]);
/* The keys in order, from 0; NULL past the end. */
const char *recipe_key(int index);
/* What it may be, as complete.h has it: "a|b|c"; ":files"; NULL: there is no list. */
const char *recipe_key_values(int index);
/* Whether `value` is one of "a|b|c". */
bool recipe_is_choice(const char *choices, const char *value);
/* What a CHOICE key was set to; NULL for one that has no value. */
const char *recipe_choice(const recipe *r, int index);
/* Prints the key's value as in YAML; false where it has none. */
bool recipe_print_value(const recipe *r, int index, FILE *out);
/* Prints a line "key: value" if it has one and applies, before it the line of its section where that is not `section`,
 * which begins as "". */
void recipe_print_key(const recipe *r, int index, char section[64], FILE *out);
/* Samples of a training step: a batch for each micro-batch. */
int64_t recipe_step_samples(const recipe *r);
tcc_optimizer_kind recipe_optimizer(const recipe *r);
/* The shortest text that reads back as the same number: 0.1, not 0.10000000000000001. */
void recipe_print_number(double v, FILE *out);
/* A text in quotes, as YAML reads it. */
void recipe_print_quoted(const char *s, FILE *out);
/* Whether a GPU is to replay steps as CUDA graphs. */
bool recipe_replays(const recipe *r);
/* The resolved recipe as YAML, every key with its value. False when writing failed. */
bool recipe_print(const recipe *r, FILE *out);

#endif
