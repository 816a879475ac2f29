/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.h - memory of other processes of the host, without their help: what they
 * show of it (core/exports.h), how it is read and written, and how their and our
 * control calls wait for who does so.  docs/direct.md is the page to read first.
 *
 * Everything is under the turn, what is of a QP under qp->lock too.
 */
#ifndef DIRECT_DIRECT_H
#define DIRECT_DIRECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/exports.h"
#include "core/mr.h"
#include "core/room.h"
#include "core/sgl.h"
#include "sys/fd.h"
#include "sys/list.h"

struct core;
struct mkey;
struct qp;
struct swqe;

/* --- this process (direct.c) --------------------------------------------- */

/* NULL: nothing of this process is shown, nor is another reached. */
struct direct {
	struct core *core;
	struct list reaches; /* oldest first */
	struct list left;    /* mappings that a thread may still use (map.c) */
	uint64_t made;
	uint64_t patience_ns; /* who is inside for so long is stopped, it seems */
	uint64_t give_up_ns;  /* for so long the kernel may copy, or a thread of ours */
	int exports_fd;	      /* of core->exports; or -1 */
	/* Some memory of this process is, or was, mapped by another. */
	atomic_bool lent;
};

extern struct room_key direct_key;

static inline struct direct *direct_of(const struct core *core)
{
	return room_get(core, &direct_key);
}

/* exports: this process shows what may be reached.  0 or -ENOMEM. */
int direct_open(struct core *core, bool exports);
void direct_close(struct core *core);
void direct_forked(struct core *core);

/* A QP that has just stopped taking requests, or whose rights have changed, is
 * still used by a process that looked before: wait until it has ended.  Turn not
 * held.  0, or -EBUSY: it has not, and what it does by that QP may still come. */
int direct_fence(struct core *core, uint32_t qpn);

/* --- another process ----------------------------------------------------- */

/* What is written to, in the word that two processes share, or 0: key, QP number,
 * and how often, so that each time differs from the one before. */
enum { INSIDE_KEY_AT = 32, INSIDE_QPN_AT = 8, INSIDE_COUNT = 0xff, QPN_MASK = 0xffffff };

/* Where the same can be read in a process's memory: it is that process. */
struct nonce {
	uint64_t at, value[2];
};

/* What lies there. */
struct gate_page {
	uint64_t value[2];
	/* The other's WRITEs, counted as each begins and as it ends. */
	_Alignas(64) uint64_t begun;
	uint64_t ended;
};

/* This process's page for one other (gate.c). */
struct gate {
	struct gate_page *page; /* NULL: there is none */
	int fd;			/* its memory's, or -1 */
	struct fd_id id;
	bool shut; /* something else lies there */
};

/* Regions of another process that lie here, too (map.c). */
enum { MAPS = 64 };
struct mapping;

/* Of such a place: what was used, and whether it was asked for. */
struct use {
	uint32_t key;
	uint8_t times;
	bool asked;
};

/* Another process: its memory for us, and ours for it. */
struct reach {
	struct list node; /* direct->reaches */
	struct direct *d;
	uint64_t number; /* 1, 2 ...: no two have the same */
	uint16_t slot;
	pid_t pid;
	/* Words of the memory that both have mapped: what we write to, what it
	 * does.  NULL: there is none. */
	_Atomic uint64_t *inside, *theirs;
	/* Ours: */
	bool told; /* it knows where it lies, and so may be inside */
	bool lent; /* ... and may have mapped some of it */
	/* Words of its threads that need not be waited for: what they use is ours no
	 * more. */
	uint64_t harmless[EXPORT_THREADS];
	struct gate gate;
	bool parted;	  /* its connection has ended */
	uint64_t left_at; /* ... when its process was last looked for */
	/* Its own: */
	bool vm;	 /* can be read and written */
	const char *why; /* ... not; or NULL */
	bool shut_out;	 /* ... no more, but it may give another nonce */
	uint64_t ask_at; /* ... for which it is asked no earlier */
	struct nonce nonce;
	uint64_t writes;	       /* so many copies were begun */
	const struct exports *exports; /* or NULL */
	bool registered;	       /* our threads pass its barriers */
	struct use use[MAPS];
	/* Read by any thread that is inside: words.h. */
	_Atomic(struct mapping *) map[MAPS];
};

void reach_init(struct reach *r, struct direct *d, uint16_t slot);
/* ... and the memory that holds the words goes, too. */
void reach_close(struct reach *r);
void reach_forked(struct reach *r);

/* --- our memory, for another (gate.c) ------------------------------------ */

bool gate_open(struct gate *g);		       /* if it is not */
struct nonce gate_nonce(const struct gate *g); /* what the other is told */
/* It reaches our memory no more, once a copy that has begun has ended.  gone: its
 * connection has ended, too, which is its death where its process cannot be seen. */
void gate_end(struct reach *r, bool gone);
/* Its connection has ended.  It has closed its descriptors, perhaps, in the middle
 * of a copy; true: none is under way. */
bool gate_left(struct reach *r, uint64_t now);
void gate_close(struct gate *g);
void gate_forked(struct gate *g);
/* Nobody writes to the region of key, which is in the export table no more, when this
 * returns 0.  -EBUSY: somebody may, for the kernel does not come to an end. */
int gate_wait_key(struct core *core, const struct mkey *mk);
/* Of processes that are inside: those whose word is want, as far as mask goes. */
struct insiders {
	uint64_t mask, want;
};

/* The same for a key that is not in the export table for a moment, but threads that stay
 * inside for long are let alone: their mapping is about to lose what it has.  Others than
 * gone's would do again what the program may have seen: so -EBUSY, and without a long
 * wait. */
int gate_wait_others(struct core *core, uint32_t key, const struct insiders *gone);
/* It has: nobody waits for those that are inside by that key now. */
void gate_is_harmless(struct core *core, uint32_t key);
/* What is lent by that key from now on is not. */
void gate_is_lent(struct reach *r, uint32_t key);

/* --- its memory (vm.c) --------------------------------------------------- */

/* Its process is who its nonce says: may its memory be touched?  exports_fd: its
 * export table, or -1. */
void reach_handshake(struct reach *r, const struct nonce *nonce, int exports_fd);
void reach_part(struct reach *r);

/* By which QP of ours its memory is to be reached.  qp is locked. */
struct by {
	struct reach *r;
	struct qp *qp;
	uint32_t path; /* of its requests, as the other's export table has it */
};

/* ... and where: all that a work request names. */
struct range {
	uint64_t va;
	uint32_t key, len;
};

/* Bytes [off, off + len) of the range are written from, or read into, the same of
 * span.  False: not all, or not allowed for certain: let the other judge. */
bool reach_write(const struct by *by, const struct range *to, const struct span *span,
		 uint32_t off, uint32_t len);
bool reach_read(const struct by *by, const struct range *from, const struct span *span,
		uint32_t off, uint32_t len);
/* Would it, as things are? */
bool reach_may(const struct by *by, const struct range *to, bool read);
/* Has the other executed all of the QP's requests before psn?  Its export table says so
 * before its ACK comes. */
bool reach_executed(const struct by *by, uint32_t psn);

/* --- memory that is shared already (map.c, lend.c) ----------------------- */

/* A region was used by a copy or a message.  True: it is time to ask whether it can be
 * mapped. */
bool reach_used(struct reach *r, uint32_t key);

/* What a process lends of a region: the file that has it, and which part. */
struct lent {
	uint32_t key, version; /* of the region, of its entry in the export table */
	uint64_t lo, hi;       /* where the part lies in its memory */
	uint64_t offset;       /* of lo, in the file */
};

/* Which file has the region, ours, for the other to map: a descriptor, or -1. */
int reach_lend(struct reach *r, uint32_t key, struct lent *out);
/* The other lends what it was asked for.  False: it cannot be used. */
bool reach_map(struct reach *r, const struct lent *lent, int fd);

/* What a QP remembers: the other's entry of it in the export table, ... */
struct allowed {
	bool known;
	uint32_t version, pd, access;
	struct mr_found ours; /* the region of an SGE */
};

enum reach_did {
	REACH_NOT,   /* nothing, or not all: another way, please */
	REACH_DONE,  /* all of it */
	REACH_FAULT, /* an atomic, but its result has found no memory */
	REACH_LOST,  /* an atomic, perhaps: its region was taken away under it */
};

/* The WRITE, READ or atomic w, whose SGEs are given, is done by this thread on what
 * is mapped.  qp->lock is held, not the turn. */
enum reach_did reach_at_once(struct by by, struct allowed *a, const struct swqe *w,
			     const struct ibv_sge *sge);
/* As reach_executed(), but without the turn. */
bool reach_executed_now(const struct by *by, uint32_t key, uint32_t psn);

#endif
