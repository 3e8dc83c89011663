/* SPDX-License-Identifier: MIT
 * Paths in recipes. */
#ifndef TCC_TOOLS_RECIPE_PATHS_H
#define TCC_TOOLS_RECIPE_PATHS_H

#include "recipe_yaml.h"

/* A path as it is written: "~" and "~name" at its begin are home folders, ${NAME} is a variable of the environment. A
 * relative one that is not there from here, but from the folder of the file `beside`, is that; NULL: of no file. From
 * malloc; NULL, and `problem` says why: an empty path, a variable that is not set. */
char *recipe_path_read(const char *text, const char *beside, char problem[RECIPE_PROBLEM_MAX]);

/* The same place from anywhere. From malloc; NULL when memory is short. */
char *recipe_path_absolute(const char *path);

#endif
