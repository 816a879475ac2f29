/* SPDX-License-Identifier: BSD-2-Clause */
/* suppress.h - the reports that the user does not want: a file of lines CHECK:PATTERN. */
#ifndef CHECK_SUPPRESS_H
#define CHECK_SUPPRESS_H

#include <stdbool.h>

#include "check/check.h"

enum { SUPPRESS_ERR = 512 };

/* Forgets what was read, and reads a file; "": none. `urnic run' does so, too, before it
 * starts a program. Returns 0, or -errno with the file, the line and the reason in err.
 */
int suppress_read(const char *file, char err[SUPPRESS_ERR]);

bool suppress_has(enum check check, check_trace where);

#endif
