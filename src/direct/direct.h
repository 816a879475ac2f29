/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.h - reading and writing memory of other processes of the host without their
 * help: what they export (verbs/exports.h), the copies, and how control calls of both
 * sides wait for copies in progress. docs/dev/direct.md is the page to read first. A
 * process or thread is "inside" a region while it may read or write it.
 *
 * Everything is under the turn; what belongs to a QP is under qp->lock too.
 */
#ifndef DIRECT_DIRECT_H
#define DIRECT_DIRECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "direct/unseen.h"
#include "sys/fd.h"
#include "sys/list.h"
#include "verbs/exports.h"
#include "verbs/mr.h"
#include "verbs/room.h"
#include "verbs/sgl.h"

struct core;
struct mkey;
struct qp;
struct swqe;

/* --- this process (direct.c) --------------------------------------------- */

/* This process. NULL: it exports nothing and reaches no other process. */
struct direct {
	struct core *core;
	struct list reaches; /* oldest first */
	struct list left;    /* removed mappings that a thread may still use (map.c) */
	uint64_t made;
	uint64_t patience_ns; /* a process inside for longer counts as stopped */
	uint64_t give_up_ns;  /* longest wait of one call */
	/* The last word whose thread or process a call has given up on (gate.c). */
	struct {
		uint64_t number, word;
		unsigned i;
		uint32_t entries;
	} gave_up;
	int exports_fd; /* of core->exports, or -1 */
	/* Another process maps, or mapped, some of our memory. */
	atomic_bool lent;
};

extern struct room_key direct_key;

static inline struct direct *direct_of(const struct core *core)
{
	return room_get(core, &direct_key);
}

/* exports: this process publishes an export table. Returns 0 or -ENOMEM. */
int direct_open(struct core *core, bool exports);
void direct_close(struct core *core);
void direct_forked(struct core *core);

/* Waits for processes that still use a QP which has just stopped taking requests, or
 * whose rights have changed. Turn not held. Returns 0, or -EBUSY: a process is still
 * inside and may yet write by the QP. */
int direct_fence(struct core *core, uint32_t qpn);

/* --- another process ----------------------------------------------------- */

/* The initiator's word in the memory that two processes share: 0, or the key and QP
 * number that it writes by and a count that makes each value differ from the one
 * before. */
enum { INSIDE_KEY_AT = 32, INSIDE_QPN_AT = 8, INSIDE_COUNT = 0xff, QPN_MASK = 0xffffff };

/* Proof of a process's identity: only that process has these values at this address. */
struct nonce {
	uint64_t at, value[2];
};

/* The page at the nonce's address. */
struct gate_page {
	uint64_t value[2];
	/* Not told: a peer that knows it has read it here, so the kernel lets it read
	 * this process's memory. */
	uint64_t proof[2];
	_Alignas(64) struct gate_counts counts;
};

/* This process's gate for one peer (gate.c). */
struct gate {
	struct gate_page *page; /* NULL: no gate */
	int fd;			/* the page's memfd, or -1 */
	struct fd_id id;
	bool shut; /* the page is replaced by inaccessible memory */
	struct unseen unseen;
};

/* Number of places for regions of a peer that are mapped here (map.c). */
enum { MAPS = 1024 };
struct mapping;

/* Use of such a place: the key, its number of uses, and whether its mapping was asked
 * for, and refused. */
struct use {
	uint32_t key;
	uint16_t times;
	bool asked, refused;
};

/* Another process (the peer): our access to its memory, and its access to ours. */
struct reach {
	struct list node; /* direct->reaches */
	struct direct *d;
	uint64_t number; /* 1, 2 ...: unique */
	uint16_t slot;
	pid_t pid;
	/* Words in memory shared with the peer: what we are inside (we write it), and
	 * what the peer is inside. NULL: none. */
	_Atomic uint64_t *inside, *theirs;
	/* The peer's access to our memory: */
	bool told; /* the peer has our nonce, so it may be inside */
	bool lent; /* the peer may have mapped some of our memory */
	/* Words of the peer's threads that need no wait: what those threads use is not
	 * our memory any more. */
	uint64_t harmless[EXPORT_THREADS];
	struct gate gate;
	bool parted;	  /* the peer's connection has ended */
	uint64_t left_at; /* when its process was last looked for after that */
	/* Our access to the peer's memory: */
	bool vm;	 /* it can be read and written */
	const char *why; /* why not, or NULL */
	bool shut_out;	 /* the peer has shut its gate, but may give another nonce */
	uint64_t ask_at; /* not asked for another nonce before this time */
	struct nonce nonce;
	uint64_t writes;	       /* number of copies begun */
	const struct exports *exports; /* the peer's export table, or NULL */
	bool registered;	       /* our threads take part in its membarrier(2)
					* calls */
	unsigned looked;	       /* the next place to be looked at (map.c) */
	struct use use[MAPS];
	/* refused mappings, up to REFUSALS_MOST; a place remembers only one of its keys
	 */
	unsigned refusals;
	/* Read without the turn by any thread that is inside: words.h. */
	_Atomic(struct mapping *) map[MAPS];
	/* Differs from that of each other peer, and changes when a mapping is removed or
	 * is bad. */
	_Atomic uint64_t maps_serial;
};

void reach_init(struct reach *r, struct direct *d, uint16_t slot);
/* Ends a peer; the memory with its words is unmapped afterwards. */
void reach_close(struct reach *r);
void reach_forked(struct reach *r);

/* --- our memory, for another (gate.c) ------------------------------------ */

bool gate_open(struct gate *g);		       /* opens the gate unless it is open */
struct nonce gate_nonce(const struct gate *g); /* the nonce to give to the peer */
/* Is it the proof that lies in the page? */
bool gate_is_proved(const struct gate *g, const uint64_t proof[2]);
/* Ends the peer's access to our memory, once a copy in progress has ended. gone: its
 * connection has ended too, which counts as its death where its process cannot be
 * seen. */
void gate_end(struct reach *r, bool gone);
/* The peer's connection has ended, but it may only have closed its descriptors in the
 * middle of a copy. Returns true if no copy is in progress. */
bool gate_left(struct reach *r, uint64_t now);
void gate_close(struct gate *g);
void gate_forked(struct gate *g);
/* Waits until no process writes to the region, which has left the export table.
 * Returns 0, or -EBUSY if a copy in the kernel does not end. */
int gate_wait_key(struct core *core, const struct mkey *mk);
/* Selects processes inside by their word: (word & mask) == want. */
struct insiders {
	uint64_t mask, want;
};

/* As gate_wait_key(), for a key that is taken out of the export table for a moment.
 * Does not wait for threads of `gone` that stay inside, because their mapping is about
 * to lose its pages. Other threads that stay inside give -EBUSY after a short wait:
 * their copies would be repeated after the program may have seen them. */
int gate_wait_others(struct core *core, uint32_t key, const struct insiders *gone);
/* The pages have left the mappings: threads now inside by that key need no wait. */
void gate_is_harmless(struct core *core, uint32_t key);
/* Ends gate_is_harmless() for what is lent by that key from now on. */
void gate_is_lent(struct reach *r, uint32_t key);

/* --- the peer's memory (vm.c) --------------------------------------------- */

/* Checks that the peer's process has its nonce, and so whether its memory may be used.
 * exports_fd: its export table, or -1. */
void reach_handshake(struct reach *r, const struct nonce *nonce, int exports_fd);
void reach_part(struct reach *r);
/* Reads the proof in the peer's page. False: the kernel does not allow it (any more). */
bool reach_prove(struct reach *r, uint64_t proof[2]);

/* The local QP by which a peer's memory is reached. qp is locked. */
struct by {
	struct reach *r;
	struct qp *qp;
	uint32_t path; /* path of the QP's requests, as in the peer's export table */
};

/* The remote range that a work request names. */
struct range {
	uint64_t va;
	uint32_t key, len;
};

/* Write or read bytes [off, off + len) of the range, from or to the same bytes of
 * span. False: not all was copied, or the export table does not certainly allow it;
 * send the request as records then, and let the peer judge. */
bool reach_write(const struct by *by, const struct range *to, const struct span *span,
		 uint32_t off, uint32_t len);
bool reach_read(const struct by *by, const struct range *from, const struct span *span,
		uint32_t off, uint32_t len);

/* --- memory that is shared already (map.c, lend.c) ----------------------- */

/* Counts a use of a region by a request. True: it is time to ask the peer to
 * lend it. */
bool reach_used(struct reach *r, uint32_t key);

/* The peer does not lend the region, or what it lends cannot be mapped. */
void reach_is_refused(struct reach *r, uint32_t key);

/* What a process lends of a region: a part of a file. */
struct lent {
	uint32_t key, version; /* version: of its entry in the export table */
	uint64_t lo, hi;       /* the part's addresses in the lending process */
	uint64_t offset;       /* offset of lo in the file */
};

/* Finds the file of our region for the peer to map. Returns a descriptor, by which the
 * peer gets no right that the region does not give; or -1. */
int reach_lend(struct reach *r, uint32_t key, struct lent *out);
/* Maps what the peer lent. False: it cannot be used. */
bool reach_map(struct reach *r, const struct lent *lent, int fd);

/* A region of the peer that was looked at, and the QP by which it is reached. Valid while
 * the mapping exists (serial is reach->maps_serial) and while neither entry in the peer's
 * export table has changed: *mr_now is mr_version, and *qp_now is qp_version. */
struct reached {
	uint32_t key;	 /* 0: none */
	uint32_t rights; /* those that the region and the QP have in common */
	uint32_t mr_version, qp_version;
	const _Atomic uint32_t *mr_now, *qp_now;
	uint64_t serial;
	uint64_t va, length; /* the range as requests name it */
	uint8_t *at;	     /* address of va in this process */
	struct mapping *m;
};

/* What a QP remembers between requests. */
struct allowed {
	/* The remote QP's entry in the peer's export table. */
	bool known;
	uint32_t version, pd, access;
	struct reached far;
	struct mr_found ours; /* the local region of an SGE */
};

/* A stay inside a region of another process, for one request after the other. */
struct visit {
	struct by by;
	struct allowed *allowed;
	/* The thread's word (direct/words.h), which names allowed->far.key. NULL: not
	 * inside, and allowed->far may be another region. */
	_Atomic uint64_t *word;
	uint32_t done; /* bytes copied of a request: REACH_SOME */
};

/* Inside: looks at everything anew. False: the region is not mapped, or not for this
 * QP. */
bool visit_look(struct visit *v, uint32_t key);

static inline void visit_end(struct visit *v)
{
	if (v->word)
		atomic_store_explicit(v->word, 0, memory_order_release);
	v->word = NULL;
}

enum reach_did {
	REACH_NOT,   /* not done, or not all: use another way */
	REACH_DONE,  /* all done */
	REACH_SOME,  /* the first v->done bytes are done; leave the rest to the engine */
	REACH_FAULT, /* the atomic was done, but its result cannot be stored */
	REACH_LOST,  /* the atomic may be lost: its region was taken away meanwhile */
};

/* Executes the WRITE, READ or atomic wr of len bytes in this thread, on mapped memory.
 * qp->lock is held, the turn is not. May begin the visit, which the caller ends. */
enum reach_did reach_at_once(struct visit *v, const struct ibv_send_wr *wr, uint32_t len);
/* Is the region mapped here?  Also without the turn. */
bool reach_is_mapped(const struct by *by, uint32_t key);

#endif
