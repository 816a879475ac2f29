/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.h - `urnic dump': a live process writes down its objects for another process
 * of its user.
 *
 * The asker says DUMP_ASK over the connection that any two processes of a host may
 * have (host/host.h).  The process answers with sealed memory that holds the text:
 * so it writes into nothing of the asker's, and waits for nobody.
 */
#ifndef NIC_DUMP_H
#define NIC_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "host/host.h"
#include "sys/turn.h"

struct core;

enum dump_what { DUMP_ASK = 1, DUMP_TEXT = 2 };

struct dump_msg {
	uint8_t magic[8];
	uint8_t what, zero[3];
	int32_t error; /* of DUMP_TEXT: 0, or -errno: no memory came along */
};

void dump_put(struct dump_msg *m, enum dump_what what, int error);
/* Is this a message of dumps, and not of local/? */
bool dump_is(const struct host_said *s, struct dump_msg *out);

/* Every object of core, a line or two each. */
void dump_write(struct core *core, FILE *out);

/* Answers s, a DUMP_ASK.  Asked by another user it says nothing.  Turn held. */
void dump_answer(struct core *core, struct host *host, const struct host_said *s);

/* The asker's side: the text of memory that came with a DUMP_TEXT, with anything but
 * printable characters and newlines as ?, to be freed.  NULL: it is none. */
char *dump_read(int fd, size_t *len);

#endif
