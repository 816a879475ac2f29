/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.h - `urnic dump': a live process writes down its objects for another process of
 * its user.
 *
 * It writes the text in pieces, each in a turn of its own, so no other thread waits
 * long. How it is asked and answers: driver/asked.h.
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
#include "driver/asker.h"
#include "sys/source.h"
#include "sys/turn.h"

struct core;

enum { DUMP_HELD = 64 };

/* A dump in progress: every object of core that lives throughout, a line or two each,
 * and the position reached (kind of object, index). */
struct dump_text {
	struct core *core;
	struct cm *cm; /* may be NULL */
	FILE *out;
	uint32_t kinds; /* 1 << enum dump_kind: what is wanted */
	unsigned kind;
	uint64_t at;
	/* Objects of the kind that are locked for longer: looked at again. */
	const void *held[DUMP_HELD];
	unsigned nheld, again; /* rounds of looking again */
	struct cm_place place;
	unsigned lines, more; /* of the current kind: lines written, objects left out */
};
void dump_begin(struct dump_text *d, struct core *core, struct cm *cm, uint32_t kinds,
		FILE *out);
/* Writes the next piece. Returns false when the dump is complete. The turn must be
 * held. */
bool dump_go_on(struct dump_text *d);

enum { DUMP_ASKERS = 64 }; /* processes that may wait for a dump */

/* Who asks while a dump is being written gets the next one, which has all that exists
 * now. */
struct dump_asker {
	struct asker by;
	uint32_t kinds;
	bool served; /* by the dump in progress */
};

/* Writes dumps; a source of the engine. The turn must be held. */
struct dumper {
	struct source source;
	struct core *core;
	struct cm *cm;
	/* The dump in progress; memory is NULL if there is none. */
	struct dump_text text;
	char *memory;
	size_t len;
	struct dump_asker asker[DUMP_ASKERS];
	unsigned askers;
};
void dumper_init(struct dumper *d, struct core *core, struct cm *cm);
void dumper_fini(struct dumper *d);
/* The asker gets a dump of these kinds of object, and maybe others. Of one that asks
 * again before it is answered, the last question counts. Returns 0: it will be answered;
 * or -errno. */
int dump_ask(struct dumper *d, const struct asker *by, uint32_t kinds, uint64_t now);

#endif
