/* SPDX-License-Identifier: BSD-2-Clause */
/* pairs.h - an error between two QPs as a row: what A posts, what is wrong at which end,
 * and what both ends see of it by the text of the specification. */
#ifndef TESTS_PAIRS_H
#define TESTS_PAIRS_H

#include "../errors/errors.h"

/* what a key, or the range that goes with it, has wrong */
enum key {
	KEY_GOOD,
	KEY_UNKNOWN,
	KEY_GENERATION, /* right index, wrong low byte */
	KEY_STALE,	/* deregistered */
	KEY_EXACT,	/* a region of just 64 bytes; row->off, loff go beyond it */
	KEY_WRAP,	/* the last 8 bytes of the address space */
	KEY_PD,
	KEY_RIGHTS, /* lacks what the operation needs, has all else */
	KEY_READ,   /* for remote reading only */
	KEY_LOCAL,  /* no remote right at all */
};

enum peer { PEER_UP, PEER_RTR, PEER_SQD, PEER_GONE, PEER_RESET, PEER_INIT, PEER_ERR };

/* A's state when it posts */
enum own { OWN_RTS, OWN_RESET, OWN_INIT, OWN_RTR, OWN_SQD, OWN_ERR };

/* a window: whose key A uses or invalidates, or that A binds */
enum win {
	WIN_NONE,
	WIN_1,	       /* type 1, good */
	WIN_2,	       /* type 2, good */
	WIN_1_UNBOUND, /* never bound */
	WIN_2_UNBOUND,
	WIN_1_TAKEN,  /* bound with length 0 afterwards */
	WIN_2_TAKEN,  /* invalidated by its owner */
	WIN_1_RIGHTS, /* bound for reading only */
	WIN_2_RIGHTS,
	WIN_1_OLD, /* bound again since: the key from before */
	WIN_1_PD,  /* of another PD, bound by a QP of that PD */
	WIN_2_QP,  /* bound by another QP of the PD */
	WIN_REGION /* no window but a region's key */,
	WIN_NOBODY, /* no key of anybody */
};

/* what is wrong with a bind that A posts */
enum bind {
	BIND_NONE,
	BIND_GOOD,
	BIND_NO_MW,    /* region without IBV_ACCESS_MW_BIND */
	BIND_NO_WRITE, /* region without local write, window for remote writing */
	BIND_LONG,     /* a byte longer than the region */
	BIND_BELOW,    /* begins a byte before the region */
	BIND_WRAP,
	BIND_ZERO, /* type 2, no length */
	BIND_PD,   /* region of another PD */
	BIND_WIN_PD,
	BIND_TWICE,
};

/* XRC: what SRQ the request names */
enum xrc { XRC_NONE, XRC_GOOD, XRC_NOBODY, XRC_PLAIN, XRC_DOMAIN };

enum { NONE = 99 };

struct row {
	const char *name, *what, *clause;
	enum ibv_qp_type type; /* 0: RC */
	enum ibv_wr_opcode op;
	uint32_t len;	/* 0: 64; NONE: 0 */
	unsigned count; /* of requests; 0: 1 */
	unsigned flags; /* IBV_SEND_*, of the request */
	enum key rkey, lkey, recv_key;
	int64_t off, loff; /* added to the remote, the local address */
	unsigned no_right; /* taken out of B's qp_access_flags */
	unsigned recvs;	   /* that B posts; 0: 4; NONE: 0 */
	uint32_t recv_len; /* 0: 4096 */
	unsigned late_ms;  /* B posts its receives so late */
	enum peer peer;
	enum own own;
	void (*attr)(struct ibv_qp_attr *attr, bool is_b);
	uint32_t qkey_xor;
	enum win win;
	enum bind bind;
	enum xrc xrc;
	uint16_t pkey_a, pkey_b; /* 0: the port's first */
	const char *only;	 /* the device that has such a thing */
	bool srq;		 /* B's receives are an SRQ's */
	uint32_t limit;		 /* of the SRQ */
	bool b_sends;		 /* B has two SENDs waiting, A has no receives */
	bool some;		 /* how many succeed is left to chance */
	bool last;		 /* nothing is posted behind */
	const char *a, *b;	 /* what both ends see */
	/* iWARP: the section of an RFC, the Terminate, as the log has it, and what both
	 * ends see; NULL: not there */
	const char *rfc, *term, *ia, *ib;
};

struct group {
	const char *title;
	const struct row *rows; /* up to one without a name */
};
extern const struct group groups[]; /* up to one without a title */

/* keys.c: */
/* addr and key for len bytes at offset at of s's buffer, spoiled; needed are the rights
 * that KEY_RIGHTS lacks. */
struct ibv_sge spoil(struct side *s, enum key key, uint32_t at, uint32_t len, int needed);
/* B's window in place of what s->mine has; the QP is up. */
void window_open(struct side *s, enum win win);
/* A's: what a bind that is spoiled posts. */
struct ibv_send_wr bind_of(struct side *s, enum bind bind);
/* The key that A invalidates at its own end. */
uint32_t own_key(struct side *s, enum win win);
void windows_drop(void);

/* xrc.c: */
/* B's SRQ, and the domain of the QPs. */
struct ibv_srq *xrc_open(struct side *s, enum xrc xrc);
struct ibv_qp *xrc_qp(struct side *s);
void xrc_drop(void);

/* connect.c: iWARP's connections, between the sides of one process or of two.  The sides
 * are opened; B's has the address. */
void iwarp_open(struct side *a, struct side *b, const char *address);
/* The sides have QPs that are connected, by make() or plain ones. */
void iwarp_connect(struct ibv_qp *(*make)(struct side *s));
/* What make() calls.  NULL and errno. */
struct ibv_qp *iwarp_qp(struct ibv_qp_init_attr_ex *init);
void iwarp_drop(void);

/* play.c: */
extern bool iwarp; /* the devices are iWARP's */
/* Runs it; what was seen is a line a side, as row->a and b are. */
void play(const struct row *row, const char *want_a, const char *want_b);

#endif
