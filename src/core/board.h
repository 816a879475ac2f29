/* SPDX-License-Identifier: BSD-2-Clause */
/* board.h - what this NIC publishes to other processes of its host and user:
 * who may reach which memory by which QP, and where it lies.
 *
 * Many readers, in other processes, who map it read-only.  An entry's version is odd
 * while it changes.
 */
#ifndef CORE_BOARD_H
#define CORE_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

struct mkey;

enum {
	BOARD_MRS = 1 << 16, /* later keys are not published: their
			      * regions are reached through the pipe */
	BOARD_THREADS = 64,
};

/* What a thread of this process touches now, by itself and without the turn:
 * direct/words.h. */
struct board_thread {
	_Alignas(64) _Atomic uint64_t inside;
};

/* Where this process has these very words, which no other has: a process that has
 * something else there is another program. */
struct board_life {
	uint64_t at, id[2];
};

struct board_mr {
	_Atomic uint32_t version;
	uint32_t key;	 /* 0: nothing is here */
	uint32_t pd;	 /* its handle */
	uint32_t access; /* enum ibv_access_flags */
	uint64_t base, length, host;
};

struct board_qp {
	_Atomic uint32_t version;
	uint32_t open;		   /* requests are taken */
	uint32_t pd, access;	   /* qp_access_flags */
	uint32_t dest_qp;	   /* from this QP alone */
	uint32_t path;		   /* local/'s */
	uint32_t reads;		   /* max_dest_rd_atomic */
	_Atomic uint32_t executed; /* all before this PSN; changes by itself */
};

struct board {
	_Alignas(64) struct board_life life;
	struct board_thread thread[BOARD_THREADS];
	struct board_qp qp[QPN_INDICES];
	struct board_mr mr[BOARD_MRS];
};

/* Each entry has one writer at a time: who registers, or the holder of the turn.
 * Nothing if core has no board. */
void board_put_mr(struct core *core, const struct mkey *mk);
void board_del_mr(struct core *core, uint32_t key);
void board_put_qp(struct core *core, uint32_t qpn, const struct board_qp *e);

/* All requests before psn have been executed: what they wrote is seen before. */
void board_set_executed(struct core *core, uint32_t qpn, uint32_t psn);

/* A consistent copy of an entry; false: it is changing.  The one where key has its
 * place may be another key's. */
bool board_get_mr(const struct board *b, uint32_t key, struct board_mr *out);
bool board_get_qp(const struct board *b, uint32_t qpn, struct board_qp *out);
/* It changes whenever the entry does. */
const _Atomic uint32_t *board_mr_version(const struct board *b, uint32_t key);
const _Atomic uint32_t *board_qp_version(const struct board *b, uint32_t qpn);
uint32_t board_get_executed(const struct board *b, uint32_t qpn);

#endif
