/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.h - `urnic dump': a live process writes down its objects for another process
 * of its user.
 *
 * The asker says DUMP_ASK over the connection that any two processes of a host may
 * have (host/host.h).  The process answers with sealed memory that holds the text:
 * so it writes into nothing of the asker's, and waits for nobody.  The text is written
 * in pieces, each in a turn of its own: nobody waits long for that either.
 */
#ifndef NIC_DUMP_H
#define NIC_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cm/cm.h"
#include "host/host.h"
#include "sys/source.h"
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

/* Every object of core, a line or two each, that lives from the beginning to the end;
 * and where it is: what kind, how far. */
struct dump_text {
	struct core *core;
	struct cm *cm; /* or NULL */
	FILE *out;
	unsigned kind;
	uint64_t at;
	struct cm_place place;
	unsigned lines, more; /* of this kind; that were left out */
};
void dump_begin(struct dump_text *d, struct core *core, struct cm *cm, FILE *out);
bool dump_go_on(struct dump_text *d); /* Turn held.  False: that was all */

enum { DUMP_ASKERS = 16 }; /* of one dump */

/* What writes dumps: a source of the engine.  Turn held. */
struct dumper {
	struct source source;
	struct core *core;
	struct cm *cm;
	struct host *host;
	/* The one that is being written; memory is NULL where there is none. */
	struct dump_text text;
	char *memory;
	size_t len;
	uint64_t next; /* when its next piece is written */
	uint16_t asker[DUMP_ASKERS];
	unsigned askers;
};
void dumper_init(struct dumper *d, struct core *core, struct cm *cm, struct host *host);
void dumper_fini(struct dumper *d);
/* s is a DUMP_ASK: a dump begins, or its asker is to have that which has begun.
 * Asked by another user, or by a process that has become one, it says nothing. */
void dump_ask(struct dumper *d, const struct host_said *s, uint64_t now);

/* The asker's side: the text of memory that came with a DUMP_TEXT, with anything but
 * printable characters and newlines as ?, to be freed.  NULL: it is none. */
char *dump_read(int fd, size_t *len);

#endif
