/* SPDX-License-Identifier: MIT
 * The cache: compiled programs, their kernels and measured choices that models keep on disk, in one file, from run to
 * run. It is in $TCC_CACHE_DIR, else $XDG_CACHE_HOME/traincc, else ~/.cache/traincc; TCC_CACHE_DISABLE=1 switches it
 * off, and TCC_CACHE_MAX=500MB limits its size (2 GiB). Models use it by themselves; here it is looked at and moved. */
#ifndef TRAINCC_CACHE_H
#define TRAINCC_CACHE_H

#include "traincc/context.h"

TCC_API_BEGIN

/* A text about the cache, to be freed with tcc_string_free. `what`:
 *     "stat"  how much there is, by kind
 *     "list"  a line for each entry: kind, key, last use, size, time to make it, and what its key is made of
 *     "why"   why the entry whose key begins with `key` was made anew (NULL: the newest program): what differs from the
 *             nearest one that was there before
 * Errors: TCC_EINVAL (no such report), TCC_ENOTFOUND (no such entry), TCC_EUNSUPPORTED (switched off, or not ours alone
 * to write), TCC_EIO, TCC_EFORMAT (damaged), TCC_ENOMEM. */
TCC_API tcc_status tcc_cache_report(tcc_context *cx, const char *what, const char *key, char **text);
/* Writes all of it to a new file. */
TCC_API tcc_status tcc_cache_export(tcc_context *cx, const char *path);
/* Takes entries over from an exported file: those that this version has made for this machine's CPU or first usable
 * GPU. Others, and damaged ones, are refused; *text, to be freed with tcc_string_free, says how many and why. What is
 * taken will be executed: import only from where you would run programs from. */
TCC_API tcc_status tcc_cache_import(tcc_context *cx, const char *path, char **text);
/* Removes all of it, damaged or not. */
TCC_API tcc_status tcc_cache_clear(tcc_context *cx);

TCC_API_END
#endif
