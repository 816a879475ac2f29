/* SPDX-License-Identifier: BSD-2-Clause */
/* mark.h - reads text in which values have names, as "pd {handle=7}: used by {users=3}
 * objects".  People read it without the marks, programs take the values.  A value has no
 * } in it. */
#ifndef SYS_MARK_H
#define SYS_MARK_H

#include <stdbool.h>
#include <stddef.h>

/* Leaves nothing but the value of each {name=value} in text.  Returns the length. */
size_t mark_drop(char *text);

/* Takes the next value of line *at, which it cuts to pieces.  Returns false when there is
 * none. */
bool mark_next(char **at, const char **name, const char **value);

#endif
