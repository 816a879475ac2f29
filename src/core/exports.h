/* SPDX-License-Identifier: BSD-2-Clause */
/* exports.h - what this NIC publishes to other processes of its host and user:
 * who may reach which memory by which QP, and where it lies.
 *
 * Many readers, in other processes, who map it read-only.  An entry's version is odd
 * while it changes.
 */
#ifndef CORE_EXPORTS_H
#define CORE_EXPORTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"

struct mkey;

enum {
	EXPORT_MRS = 1 << 16, /* later keys are not published: their
			       * regions are reached through the pipe */
	EXPORT_THREADS = 64,
};

/* What a thread of this process touches now, by itself and without the turn:
 * direct/words.h. */
struct export_thread {
	_Alignas(64) _Atomic uint64_t inside;
};

/* Where this process has these very words, which no other has: a process that has
 * something else there is another program. */
struct export_life {
	uint64_t at, id[2];
};

struct exported_mr {
	_Atomic uint32_t version;
	uint32_t key;	 /* 0: nothing is here */
	uint32_t pd;	 /* its handle */
	uint32_t access; /* enum ibv_access_flags */
	uint64_t base, length, host;
};

struct exported_qp {
	_Atomic uint32_t version;
	uint32_t open;		   /* requests are taken */
	uint32_t pd, access;	   /* qp_access_flags */
	uint32_t dest_qp;	   /* from this QP alone */
	uint32_t path;		   /* local/'s */
	uint32_t reads;		   /* max_dest_rd_atomic */
	_Atomic uint32_t executed; /* all before this PSN; changes by itself */
};

struct exports {
	_Alignas(64) struct export_life life;
	/* So often memory was taken away from somebody who did not leave it. */
	_Atomic uint32_t torn;
	struct export_thread thread[EXPORT_THREADS];
	struct exported_qp qp[QPN_INDICES];
	struct exported_mr mr[EXPORT_MRS];
};

/* Each entry has one writer at a time: who registers, or the holder of the turn.
 * Nothing if core has no export table. */
void exports_put_mr(struct core *core, const struct mkey *mk);
void exports_del_mr(struct core *core, uint32_t key);
void exports_put_qp(struct core *core, uint32_t qpn, const struct exported_qp *e);

/* All requests before psn have been executed: what they wrote is seen before. */
void exports_set_executed(struct core *core, uint32_t qpn, uint32_t psn);

/* A consistent copy of an entry; false: it is changing.  The one where key has its
 * place may be another key's. */
bool exports_get_mr(const struct exports *b, uint32_t key, struct exported_mr *out);
bool exports_get_qp(const struct exports *b, uint32_t qpn, struct exported_qp *out);
/* It changes whenever the entry does. */
const _Atomic uint32_t *exports_mr_version(const struct exports *b, uint32_t key);
const _Atomic uint32_t *exports_qp_version(const struct exports *b, uint32_t qpn);
uint32_t exports_get_executed(const struct exports *b, uint32_t qpn);

#endif
