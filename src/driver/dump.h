/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.h - `urnic dump': a live process writes down its objects for another process of
 * its user.
 *
 * The asker sends HOST_DUMP_ASK over the connection that any two processes of a host may
 * have (host/host.h). The process answers with HOST_DUMP_TEXT: an error, or 0 and the
 * text, in sealed memory, so it writes into no memory of the asker's and waits for no
 * one. It writes the text in pieces, each in a turn of its own, so no other thread waits
 * long.
 *
 * Values in the text have names (sys/mark.h). So one format string is both the line that
 * people read and the object that programs read.
 */
#ifndef DRIVER_DUMP_H
#define DRIVER_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cm/cm.h"
#include "host/host.h"
#include "sys/source.h"
#include "sys/turn.h"

struct core;

/* A dump in progress: every object of core that lives throughout, a line or two each,
 * and the position reached (kind of object, index). */
struct dump_text {
	struct core *core;
	struct cm *cm; /* may be NULL */
	FILE *out;
	unsigned kind;
	uint64_t at;
	struct cm_place place;
	unsigned lines, more; /* of the current kind: lines written, objects left out */
};
void dump_begin(struct dump_text *d, struct core *core, struct cm *cm, FILE *out);
/* Writes the next piece. Returns false when the dump is complete. The turn must be
 * held. */
bool dump_go_on(struct dump_text *d);

enum { DUMP_ASKERS = 16 }; /* processes that may ask for one dump */

/* Writes dumps; a source of the engine. The turn must be held. */
struct dumper {
	struct source source;
	struct core *core;
	struct cm *cm;
	struct host *host;
	/* The dump in progress; memory is NULL if there is none. */
	struct dump_text text;
	char *memory;
	size_t len;
	uint16_t asker[DUMP_ASKERS];
	unsigned askers;
};
void dumper_init(struct dumper *d, struct core *core, struct cm *cm, struct host *host);
void dumper_fini(struct dumper *d);
/* Handles HOST_DUMP_ASK message s: begins a dump, or sends its sender the one in
 * progress. A sender of another user, or one that has changed its user, gets no answer.
 */
void dump_ask(struct dumper *d, const struct host_said *s, uint64_t now);

/* For the asker: returns the text of a HOST_DUMP_TEXT, to be freed. Characters other than
 * newline that are not printable become ?. NULL: there is none, *error says why. */
char *dump_read(const struct host_said *s, int *error, size_t *len);

#endif
