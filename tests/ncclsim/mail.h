/* SPDX-License-Identifier: MIT
 * Messages of the stand-in's ranks: files of a folder, each there as a whole or not at all. */
#ifndef NCCLSIM_MAIL_H
#define NCCLSIM_MAIL_H

#include <stdbool.h>
#include <stddef.h>

enum { MAIL_NAME = 64 };

/* A new folder; false: there can be none. Those that killed processes have left are removed. */
bool mail_open(char *folder, size_t size);
bool mail_send(const char *folder, const char *name, const void *head, size_t head_bytes, const void *data,
               size_t bytes);
/* The message, owned by the caller; NULL: it is not there yet. */
void *mail_receive(const char *folder, const char *name, size_t *bytes);
bool mail_is_there(const char *folder, const char *name);
void mail_remove(const char *folder, const char *name);
/* With all messages. */
void mail_close(const char *folder);

#endif
