/* SPDX-License-Identifier: BSD-2-Clause */
/* pair.h - parses key=value texts: comma-separated lists, and lines of a file. */
#ifndef SYS_PAIR_H
#define SYS_PAIR_H

/* Cuts the first item off *at, which ends at sep or at the end of the text.  Returns its
 * key; *value is what follows the '=', NULL if there is none.  *at becomes the rest, NULL
 * after the last item.  Blanks around key and value are cut off, too. */
char *pair_next(char **at, char sep, char **value);

#endif
