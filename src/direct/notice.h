/* SPDX-License-Identifier: BSD-2-Clause */
/* notice.h - we are told before the program does something to its memory that private
 * memory would take otherwise than a file's (sys/preloaded.h). */
#ifndef DIRECT_NOTICE_H
#define DIRECT_NOTICE_H

struct preload_ops;

enum notice {
	NOTICED,	  /* from now on, for good */
	NOTICE_NOT_THERE, /* the library that would tell */
	NOTICE_REFUSED,	  /* it cannot: it is of another release, or not the first one */
};

enum notice notice_start(void);

const struct preload_ops *notice_ops(void); /* for tests */

#endif
