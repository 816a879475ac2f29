/* SPDX-License-Identifier: BSD-2-Clause */
/* alike.h - compares words without regard to case, underscores and punctuation. */
#ifndef TOOLS_ALIKE_H
#define TOOLS_ALIKE_H

#include <stdbool.h>
#include <stddef.h>

/* Copies the letters and digits of from in lower case, with one space for each run of
 * other characters between them; a minus sign before a number stays.  Cut off at size. */
void words_plain(char *to, size_t size, const char *from);

/* If text begins with the whole words of head, returns what follows; otherwise NULL. */
const char *words_after(const char *text, const char *head);

/* As words_after(), but head may be anywhere in text. */
const char *words_within(const char *text, const char *head);

#endif
