/* SPDX-License-Identifier: BSD-2-Clause */
/* alloc.h - memory for threads of the program that hold the turn.
 *
 * A handler may interrupt a post or a poll, and call fork(), which waits for malloc()'s
 * locks: if they are the interrupted thread's, for ever.  So signals are held meanwhile.
 * Two system calls each: not for what happens with each message. */
#ifndef SYS_ALLOC_H
#define SYS_ALLOC_H

#include <stddef.h>

/* Zeroed memory, or NULL. */
void *turn_alloc(size_t size);
/* Frees what turn_alloc() or malloc() has returned. */
void turn_free(void *p);

#endif
