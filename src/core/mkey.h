/* SPDX-License-Identifier: BSD-2-Clause */
/* mkey.h - memory keys and their table.  Calls are for mr.c, mw.c and exports.c;
 * everybody else goes through mr_check().
 *
 * All 32 bits of a key are drawn: who knows some can neither guess others nor
 * those of another process.  It costs the table's reader nothing, as the indices
 * of a page are used in a drawn order and only the page's number is another.
 * Of an index the generations follow in drawn odd steps, so that each comes
 * before one comes again; the last 8 bits of a window's are also the program's.
 *
 * Entries are read without a lock by the holder of the turn, so pages of the
 * table never move and live as long as the core.
 */
#ifndef CORE_MKEY_H
#define CORE_MKEY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/fd.h"

struct core;
struct pd;

/* What a key stands for.  Ranges are [base, base + length) as the wire and
 * SGEs name them; host is where base lies in this process. */
struct mkey {
	uint32_t key;
	bool valid; /* false: invalidated, or a type 2
		     * window that is not bound */
	bool is_mw;
	bool is_null;	     /* base and host say nothing */
	_Atomic bool moving; /* it changes now */
	int access;	     /* enum ibv_access_flags */
	struct pd *pd;
	uint64_t base, length;
	uint8_t *host;
	uint32_t qpn;	     /* type 2 window: bound to; else 0 */
	struct mkey *region; /* window: the region behind it */
	/* Region: the file that other processes have mapped to reach it, or none; there
	 * are more.  Turn. */
	struct fd_id lent;
	bool lent_more;
	_Atomic unsigned windows; /* region: windows bound to it */
#define WINDOWS_NONE (1u << 31)	  /* ... and none can be any more */
};

/* So many indices rest before one of them is used again; together with the
 * generation a stale key stays dead for 256 times as many registrations. */
enum { MKEY_REST = 4096 };

/* Give mk a key and publish it: it must be filled.  0 or -ENOMEM. */
int mkey_add(struct core *core, struct mkey *mk);

/* The key stops working for those who look it up from now on.  Who has looked it up
 * before may use it until the turn that is under way has ended: turn_pass(). */
void mkey_del(struct core *core, struct mkey *mk);

/* Is there a place for key in the export table: is it of the first 65,536? */
bool mkey_is_exported(const struct core *core, uint32_t key);

/* What key stands for, valid or not, or NULL.  Turn held. */
struct mkey *mkey_find(struct core *core, uint32_t key);

#endif
