/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.h - what a fabric says to those that ask it about itself. */
#ifndef PLUG_ANSWER_H
#define PLUG_ANSWER_H

#include <stddef.h>
#include <stdint.h>

struct fabric;

/* What the fabric answers to a request of a control connection: a text of *len bytes, to
 * be freed; NULL ends the connection. */
typedef char *plug_answer(void *ctx, struct fabric *f, uint64_t now, const char *ask,
			  size_t ask_len, size_t *len);

#endif
