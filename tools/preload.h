/* SPDX-License-Identifier: BSD-2-Clause */
/* preload.h - what the files of liburnic-preload.so and liburnic-map.so share. */
#ifndef TOOLS_PRELOAD_H
#define TOOLS_PRELOAD_H

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>

#define PUBLIC __attribute__((visibility("default")))

/* A function of the C library, looked up at its first use.  Threads that look it up at
 * the same time store the same value. */
struct real {
	const char *name;
	void *_Atomic fn;
};

/* Declares one that liburnic-preload.so looks up in its constructor (preload.c). */
#define REAL(var, of)                                                                    \
	static struct real var __attribute__((section("reals"))) = { .name = (of) }

/* Returns the C library's function, or NULL with errno set if there is none. */
void *preload_next(struct real *r);

#endif
