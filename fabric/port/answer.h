/* SPDX-License-Identifier: BSD-2-Clause */
/* answer.h - the type of the function that answers requests on control connections. */
#ifndef FABRIC_PORT_ANSWER_H
#define FABRIC_PORT_ANSWER_H

#include <stddef.h>
#include <stdint.h>

struct fabric;

/* Answers the request `ask`.  Returns a text of *len bytes, which the caller frees, or
 * NULL, which ends the connection. */
typedef char *plug_answer(void *ctx, struct fabric *f, uint64_t now, const char *ask,
			  size_t ask_len, size_t *len);

#endif
