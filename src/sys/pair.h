/* SPDX-License-Identifier: BSD-2-Clause */
/* pair.h - texts of key=value: lists, which commas divide, and lines of a file. */
#ifndef SYS_PAIR_H
#define SYS_PAIR_H

/* The key of the first item of *at, which ends at sep or with the text; *at is what comes
 * behind it, NULL after the last.  *value: what follows the '=', NULL if there is none.
 * Both are cut out of the text, without the blanks around them. */
char *pair_next(char **at, char sep, char **value);

#endif
