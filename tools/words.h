/* SPDX-License-Identifier: BSD-2-Clause */
/* words.h - words as people write them: case, underscores and punctuation make
 * no difference. */
#ifndef TOOLS_WORDS_H
#define TOOLS_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* Letters and digits of from in lower case, a space for each run of others
 * between them, and a minus before a number; cut at size. */
void words_plain(char *to, size_t size, const char *from);

/* What follows head, as whole words, at the start of text; or NULL. */
const char *words_after(const char *text, const char *head);

/* The same for head anywhere in text. */
const char *words_within(const char *text, const char *head);

/* How many letters differ: inserted, left out or others. */
unsigned words_distance(const char *a, const char *b);

#endif
