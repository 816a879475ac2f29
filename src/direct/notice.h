/* SPDX-License-Identifier: BSD-2-Clause */
/* notice.h - we are told before the program does something to its memory that private
 * memory would take otherwise than a file's (sys/preloaded.h). */
#ifndef DIRECT_NOTICE_H
#define DIRECT_NOTICE_H

#include <stdbool.h>

struct preload_ops;

/* From now on, for good.  False: the library that would tell is not there, is of another
 * release, or stands behind another one that might not tell it. */
bool notice_start(void);

const struct preload_ops *notice_ops(void); /* for tests */

#endif
