/* SPDX-License-Identifier: BSD-2-Clause */
/* near.h - which name did the user mean? */
#ifndef SYS_NEAR_H
#define SYS_NEAR_H

/* The number of letters to insert, remove or change to turn a into b, in any case. */
unsigned near_distance(const char *a, const char *b);

/* The name of the i-th row of a table, NULL after the last. */
typedef const char *near_name(unsigned i);

/* The name that is nearest to word, if it is near enough to be meant; NULL otherwise. */
const char *near_find(const char *word, near_name *name);

/* Writes "; did you mean NAME?" for the end of a message, or nothing. */
enum { NEAR_HINT = 64 };
void near_hint(char to[NEAR_HINT], const char *word, near_name *name);

#endif
