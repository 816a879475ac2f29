/* SPDX-License-Identifier: BSD-2-Clause */
/* exports.h - the table that this NIC publishes to other processes of its host and
 * user: which memory may be reached through which QP, and where it lies.
 *
 * The readers are other processes, which map the table read-only. An entry's version
 * is odd while the entry changes.
 */
#ifndef VERBS_EXPORTS_H
#define VERBS_EXPORTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/core.h"

struct mkey;

enum {
	EXPORT_MRS = 1 << 16, /* regions with higher key indices are
			       * reached through the pipe */
	EXPORT_THREADS = 64,
};

/* What a thread of this process touches now without the turn: direct/words.h. */
struct export_thread {
	_Alignas(64) _Atomic uint64_t inside;
	/* How often the thread has entered: `inside` alone has the same value again
	 * after 256 times. */
	_Atomic uint32_t entries;
};

/* An address at which only this process has these words. A reader that finds other
 * words there is looking at another program. */
struct export_life {
	uint64_t at, id[2];
};

struct exported_mr {
	_Atomic uint32_t version;
	uint32_t key;	 /* 0: unused entry */
	uint32_t pd;	 /* the PD's handle */
	uint32_t access; /* enum ibv_access_flags */
	uint64_t base, length, host;
};

struct exported_qp {
	_Atomic uint32_t version;
	uint32_t open;	     /* the QP takes requests */
	uint32_t pd, access; /* qp_access_flags */
	uint32_t dest_qp;    /* the only QP it takes requests from */
	uint32_t path;	     /* as shm/ numbers it */
	uint32_t reads;	     /* max_dest_rd_atomic */
};

struct exports {
	_Alignas(64) struct export_life life;
	/* How often memory was taken away while a thread still used it. */
	_Atomic uint32_t torn;
	/* The lines of `thread' from here on were never used. */
	_Atomic uint32_t lines;
	struct export_thread thread[EXPORT_THREADS];
	struct exported_qp qp[QPN_INDICES];
	struct exported_mr mr[EXPORT_MRS];
};

/* An entry has one writer at a time: the thread that registers, or the turn's holder.
 * These calls do nothing if core has no export table. */
void exports_put_mr(struct core *core, const struct mkey *mk);
void exports_del_mr(struct core *core, uint32_t key);
void exports_put_qp(struct core *core, uint32_t qpn, const struct exported_qp *e);
/* Copies an entry consistently; false: it is changing. The entry at key's place may
 * belong to another key. */
bool exports_get_mr(const struct exports *b, uint32_t key, struct exported_mr *out);
bool exports_get_qp(const struct exports *b, uint32_t qpn, struct exported_qp *out);
/* The entry's version, which changes whenever the entry does. */
const _Atomic uint32_t *exports_mr_version(const struct exports *b, uint32_t key);
const _Atomic uint32_t *exports_qp_version(const struct exports *b, uint32_t qpn);

#endif
