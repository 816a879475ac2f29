/* SPDX-License-Identifier: BSD-2-Clause */
/* pairs.h - an error between two QPs as a row: what A posts, what is wrong at which end,
 * and what both ends see of it by the text of the specification. */
#ifndef TESTS_PAIRS_H
#define TESTS_PAIRS_H

#include "../errors/errors.h"

/* what is wrong with a key, or with the range that is used with it */
enum key {
	KEY_GOOD,
	KEY_UNKNOWN,
	KEY_GENERATION, /* right index, wrong low byte */
	KEY_STALE,	/* deregistered */
	KEY_EXACT,	/* a region of just 64 bytes; row->off, loff go beyond it */
	KEY_WRAP,	/* the last 8 bytes of the address space */
	KEY_PD,
	KEY_RIGHTS, /* lacks the right that the operation needs, and has all others */
	KEY_READ,   /* for remote reading only */
	KEY_LOCAL,  /* no remote right at all */
};

enum peer { PEER_UP, PEER_RTR, PEER_SQD, PEER_GONE, PEER_RESET, PEER_INIT, PEER_ERR };

/* A's state when it posts */
enum own { OWN_RTS, OWN_RESET, OWN_INIT, OWN_RTR, OWN_SQD, OWN_ERR };

/* the window whose key A uses or invalidates, or that A binds */
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
	WIN_1_OLD, /* bound again since: the key of the earlier bind */
	WIN_1_PD,  /* of another PD, bound by a QP of that PD */
	WIN_2_QP,  /* bound by another QP of the PD */
	WIN_REGION /* the key of a region, not of a window */,
	WIN_NOBODY, /* a key that does not exist */
};

/* what is wrong with a bind that A posts */
enum bind {
	BIND_NONE,
	BIND_GOOD,
	BIND_INDEX,    /* good; the new key has another index than the window's */
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

/* XRC: the SRQ that the request names */
enum xrc { XRC_NONE, XRC_GOOD, XRC_NOBODY, XRC_PLAIN, XRC_DOMAIN };

enum { NONE = 99 };

struct row {
	const char *name, *what, *clause;
	enum ibv_qp_type type; /* 0: RC */
	enum ibv_wr_opcode op;
	uint32_t len;	/* 0: 64; NONE: 0 */
	unsigned count; /* number of requests; 0: 1 */
	unsigned flags; /* IBV_SEND_*, of the request */
	enum key rkey, lkey, recv_key;
	int64_t off, loff; /* added to the remote, the local address */
	unsigned no_right; /* rights that B's qp_access_flags lack */
	unsigned recvs;	   /* number of receives that B posts; 0: 4; NONE: 0 */
	uint32_t recv_len; /* 0: 4096 */
	unsigned late_ms;  /* B posts its receives so many milliseconds late */
	enum peer peer;
	enum own own;
	void (*attr)(struct ibv_qp_attr *attr, bool is_b);
	uint32_t qkey_xor;
	enum win win;
	enum bind bind;
	enum xrc xrc;
	uint16_t pkey_a, pkey_b; /* P_Key indices of A and B; 0: the port's first */
	const char *only;	 /* the only kind of device that has this */
	bool srq;		 /* B's receives are in an SRQ */
	uint32_t limit;		 /* the SRQ's limit */
	bool b_sends;		 /* B has two SENDs waiting, A has no receives */
	bool some;		 /* how many requests succeed depends on timing */
	bool last;		 /* no request is posted behind this one */
	const char *a, *b;	 /* what both ends see */
	/* iWARP: the RFC's section, the Terminate as the log names it, and what both
	 * ends see; NULL: the row does not exist there */
	const char *rfc, *term, *ia, *ib;
};

struct group {
	const char *title;
	const struct row *rows; /* ends with a row without a name */
};
extern const struct group groups[]; /* ends with a group without a title */

/* keys.c: */
/* Returns address and key for len bytes at offset `at` of s's buffer, made invalid as
 * `key` says. needed: the rights that KEY_RIGHTS leaves out. */
struct ibv_sge spoil(struct side *s, enum key key, uint32_t at, uint32_t len, int needed);
/* Opens B's window, whose key takes the place of s->mine's; the QP is connected. */
void window_open(struct side *s, enum win win);
/* Returns the bind that A posts, made invalid as `bind` says. */
struct ibv_send_wr bind_of(struct side *s, enum bind bind);
/* Returns the key that A invalidates at its own end. */
uint32_t own_key(struct side *s, enum win win);
void windows_drop(void);

/* xrc.c: */
/* Opens B's SRQ, and the XRC domain of the QPs. */
struct ibv_srq *xrc_open(struct side *s, enum xrc xrc);
struct ibv_qp *xrc_qp(struct side *s);
void xrc_drop(void);

/* connect.c: iWARP's connections between the sides, in one process or in two. The sides
 * are open; B's has the address. */
void iwarp_open(struct side *a, struct side *b, const char *address);
/* Connects the sides' QPs, which make() creates; NULL: ordinary ones. */
void iwarp_connect(struct ibv_qp *(*make)(struct side *s));
/* For make() to call. Returns NULL with errno set on failure. */
struct ibv_qp *iwarp_qp(struct ibv_qp_init_attr_ex *init);
void iwarp_drop(void);

/* play.c: */
extern bool iwarp; /* the devices are iWARP's */
/* Plays a row, and prints for each side a line of what it saw, in the form of row->a and
 * row->b. */
void play(const struct row *row, const char *want_a, const char *want_b);

#endif
