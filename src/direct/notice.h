/* SPDX-License-Identifier: BSD-2-Clause */
/* notice.h - notice from the preloaded library (sys/preloaded.h) before the program
 * does something to its memory that private pages and a file's pages react to
 * differently. */
#ifndef DIRECT_NOTICE_H
#define DIRECT_NOTICE_H

#include <stdbool.h>

struct preload_ops;

enum notice {
	NOTICED,	  /* notices come from now on, for good */
	NOTICE_NOT_THERE, /* the library is not loaded */
	NOTICE_REFUSED,	  /* the library is of another release, or not loaded first */
	NOTICE_SANITIZED, /* a sanitizer has functions of its own before libc's */
};

enum notice notice_start(void);
/* NOTICED: do notices come of all that other threads may do while memory becomes a
 * file's? */
bool notice_beside_threads(void);

const struct preload_ops *notice_ops(void); /* for tests */

#endif
