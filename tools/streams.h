/* SPDX-License-Identifier: MIT
 * Standard streams of a program: closed ones are made safe, and what could not be written is told. */
#ifndef TCC_TOOLS_STREAMS_H
#define TCC_TOOLS_STREAMS_H

#include <stdbool.h>

/* At the very start. A standard stream that the caller has closed becomes /dev/null, opened so that using it fails:
 * else the next file that is opened would take its number, and messages would go there. */
void streams_open(void);
/* Whether standard output was closed by the caller, who wants none then. */
bool streams_no_output(void);
/* Draws a line of progress on the terminal that standard output is, in place of the one before; what does not fit on
 * its line is left out. "" wipes it. */
void streams_draw(const char *line);
/* A pipe is read once. Where that is not enough, this copies it to a file without a name, whose path takes the place of
 * *path, which is allocated or lasts; the file stays open until the program ends. False: it has said why not. */
bool streams_keep_pipe(char **path);
/* At the end. Writes out standard output. The exit status: `status`, or 1 with a message where that was 0 and something
 * could not be written. */
int streams_close(const char *program, int status);

#endif
