/* SPDX-License-Identifier: BSD-2-Clause */
/* checks.h - what `urnic run --check' looks for (checks.def), and what other rooms tell
 * src/check.  Without a check, checks is NULL, and nobody calls anything. */
#ifndef SYS_CHECKS_H
#define SYS_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "sys/live_kind.h"

enum check {
#define CHECK(name, ...) CHECK_##name,
#include "sys/checks.def"
#undef CHECK
	CHECKS
};

_Static_assert(CHECKS <= 64, "a set of checks is a word");

/* Among the default checks; among all; only by its name. */
enum check_list { CHECK_DEFAULT, CHECK_ALL, CHECK_NAMED };

struct check_row {
	const char *name; /* as the user writes it: sq-overflow */
	enum check_list list;
	const char *what, *remedy, *example;
};

extern const struct check_row check_rows[CHECKS];

static inline uint64_t check_bit(enum check check)
{
	return (uint64_t)1 << check;
}

/* Returns the check with this name, of n bytes; CHECKS: there is none. */
enum check check_named(const char *name, size_t n);

/* Reads a list: "default", "all" (of those that are not CHECK_NAMED), "off" or "", and
 * names, each of which may have "-" in front to leave that check out; separated by
 * commas.  Returns 0, or -EINVAL with the first wrong word in wrong. */
enum { CHECK_WORD = 64 };
int checks_parse(const char *list, uint64_t *set, char wrong[CHECK_WORD]);

struct ibv_qp_attr;

enum { CHECK_DENIED_BY_QP = -1 }; /* the QP's qp_access_flags */

/* A part of a WRITE, READ or atomic of a process of this host that goes by the ring. */
struct check_access {
	const void *host;   /* the bytes here, */
	uint64_t va, len;   /* and as the request names them */
	uint64_t posted;    /* before that time (sys/clock.h); 0: not known */
	uint32_t rkey, qpn; /* of the peer's queue pair */
	pid_t pid;	    /* 0: not known */
	int how;	    /* IBV_ACCESS_REMOTE_WRITE, _READ or _ATOMIC */
};

/* How an end of a connection was set up. */
struct check_end {
	uint32_t sq_psn, rq_psn;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t rd_atomic, dest_rd_atomic;
	uint8_t sends; /* is in RTS: sq_psn and rd_atomic are known */
	/* When it was in RESET last, and went to RTR (CLOCK_MONOTONIC) */
	uint64_t reset_at, rtr_at;
};

/* Queue pairs tell their peers in other processes of the host of it, at RTS. */
extern bool checks_ends;

/* Requests in a ring say when they were posted, and their target tells of them. */
extern bool checks_time;

/* What peers may have done to this process's memory without a call of wrote(). */
struct check_unseen {
	uint64_t times; /* another number if a peer may have written anything since */
	bool now;	/* one may be writing, but to memory that it maps */
	bool lent;	/* one may map memory that lets peers write */
};

/* NULL: all that peers write is told of. Takes no lock that the caller may have. */
extern struct check_unseen (*checks_unseen)(void);

/* Calls that other rooms make, off the way of messages.  An object is named by its struct
 * live, which is its first member.  No function changes errno. */
struct check_hooks {
	/* An object enters sys/live.c's table and leaves it.  Called with locks held. */
	void (*made)(struct live *l, enum live_kind kind);
	void (*gone)(const struct live *l, enum live_kind kind);
	/* ibv_rereg_mr() has succeeded. */
	void (*changed)(const struct live *mr);
	/* A queue pair, CQ or SRQ can be used from now on; `made' came before. */
	void (*ready)(struct live *l, enum live_kind kind);
	/* The program calls a verb that destroys; `gone' follows if it succeeds. */
	void (*destroys)(struct live *l, enum live_kind kind);
	/* A verb names an object that is not there, maybe to destroy it. l may point
	 * anywhere. */
	void (*missing)(const struct live *l, enum live_kind kind, bool destroys);
	/* ibv_modify_qp() has succeeded. */
	void (*modified)(struct live *l, const struct ibv_qp_attr *attr, int mask);
	/* ibv_get_cq_event() is about to wait; an event was got; n were acknowledged. */
	void (*waits)(struct live *channel);
	void (*got)(struct live *cq);
	void (*acked)(struct live *cq, unsigned n);
	/* A peer's WRITE or atomic is about to change memory of this process, or (done)
	 * has done so. The turn is held. */
	void (*wrote)(const void *host, uint64_t len, bool done);
	/* A request is about to be executed, once. The turn and its QP's lock are held.
	 */
	void (*reaches)(const struct check_access *a);
	/* How was QP qpn set up? False: it is not known. Its peer in another process,
	 * which has the number `peer', has told of itself. Both are called with the
	 * QP's lock held. */
	bool (*end)(uint32_t qpn, struct check_end *its);
	void (*meets)(uint32_t qpn, uint32_t peer, const struct check_end *its);
	/* QP qpn may not reach len bytes at va by this key with these rights: why is an
	 * enum mr_why, or CHECK_DENIED_BY_QP. remote: a peer has asked. Called with the
	 * QP's lock held. */
	void (*denied)(uint32_t qpn, bool remote, uint32_t key, uint64_t va, uint64_t len,
		       int access, int why);
	/* A message has come to QP qpn, and finds no receive. Called with its lock held.
	 */
	void (*starves)(uint32_t qpn);
	/* In place of free(): memory that a program may still name. */
	void (*keep)(void *object);
};

extern const struct check_hooks *checks;

#endif
