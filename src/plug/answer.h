/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.h - how a fabric answers requests about itself. */
#ifndef PLUG_ANSWER_H
#define PLUG_ANSWER_H

#include <stddef.h>
#include <stdint.h>

struct fabric;

/* Answers a request of a control connection with a text of *len bytes, which the caller
 * frees; NULL ends the connection. */
typedef char *plug_answer(void *ctx, struct fabric *f, uint64_t now, const char *ask,
			  size_t ask_len, size_t *len);

#endif
