/* SPDX-License-Identifier: BSD-2-Clause */
/* errors.h - what the rows stand on: two sides, each with a context, a
 * bystander QP that must never be harmed, and the log that must explain.
 *
 * In one process there are both sides; in two, each plays one, and sync()
 * keeps them in step.
 */
#ifndef TESTS_ERRORS_H
#define TESTS_ERRORS_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(cond)                                                                      \
	do {                                                                             \
		if (!(cond))                                                             \
			broken(__FILE__, __LINE__, #cond);                               \
	} while (0)

/* A call that must be refused with this errno, returned and set. */
#define REFUSED(code, call)                                                              \
	do {                                                                             \
		int refused_rc_;                                                         \
		errno = 0;                                                               \
		refused_rc_ = (call);                                                    \
		if (refused_rc_ != (code))                                               \
			broken_rc(__FILE__, __LINE__, #call, refused_rc_, code);         \
	} while (0)

/* A pointer verb that must be refused. */
#define REFUSED_PTR(code, call)                                                          \
	do {                                                                             \
		errno = 0;                                                               \
		if ((call) != NULL || errno != (code))                                   \
			broken_rc(__FILE__, __LINE__, #call, errno, code);               \
	} while (0)

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum {
	QKEY = 0x11223344,
	BUF = 256 << 10,
	TARGET_AT = 64 << 10, /* what the peer may reach by default */
	TARGET_LEN = 8192,
	RECV_AT = 128 << 10, /* receives, RECV_STEP each */
	RECV_STEP = 8192,
	BY_AT = 192 << 10, /* the bystander's */
	EXTRAS = 16,
	/* an ACK timeout of 2.1 s: its eight tries are longer than any end waits, so a
	 * peer that a busy machine gives no processor for a while is not given up (at 14,
	 * 67 ms, that is after half a second) */
	UNHURRIED = 19,
};

/* vendor_err, as `urnic explain` has it; typed again here on purpose */
enum {
	V_NONE,
	V_FLUSHED,
	V_LOCAL_KEY,
	V_LOCAL_FAULT,
	V_LOCAL_LENGTH,
	V_TIMEOUT,
	V_SEQUENCE,
	V_RNR,
	V_REM_INVALID,
	V_REM_ACCESS,
	V_REM_OPERATION,
	V_BAD_RESPONSE,
	V_TOO_LONG,
	V_REQ_INVALID,
	V_REQ_ACCESS,
	V_BIND,
	V_CQ_OVERRUN,
	V_LINK,
	V_INVALIDATE,
	V_NIC_LOST,
	V_LOCAL_OPERATION,
};

/* what a side tells the other */
struct info {
	uint32_t qpn, by_qpn, rkey, by_rkey;
	uint64_t addr, by_addr;
	uint16_t lid;	  /* InfiniBand */
	uint16_t port;	  /* iWARP: where B listens; network byte order */
	uint32_t srqn[2]; /* XRC: one that is good, one that is not */
	union ibv_gid gid;
};

struct side {
	bool is_b; /* the one that answers */
	struct ibv_context *ctx;
	struct ibv_pd *pd, *pd2;
	struct ibv_cq *scq, *rcq; /* of the QP under test */
	struct ibv_cq *by_cq;
	struct ibv_mr *mr; /* all of buf, all rights */
	struct ibv_mr *extra[EXTRAS];
	unsigned extras;
	struct ibv_qp *qp, *by_qp;
	uint8_t *buf;
	uint8_t gid_index;
	struct info mine, theirs;
};

enum {
	ALL_ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
		     IBV_ACCESS_MW_BIND,
	/* of modify_qp's steps: what is required */
	TO_INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	TO_INIT_UD = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
	TO_RTR_UC = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		    IBV_QP_RQ_PSN,
	TO_RTR = TO_RTR_UC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	TO_RTS_UC = IBV_QP_STATE | IBV_QP_SQ_PSN,
	TO_RTS = TO_RTS_UC | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC,
};

/* sides.c: */
extern struct sides {
	struct side side[2];
	int sock; /* two processes: the other; or -1 */
	bool b;	  /* two processes: which we are */
} sides;
/* port NULL: both are here; else host NULL: this is B, and waits for A. */
void sides_meet(const char *host, const char *port);
void sides_open(const char *device, int gid_index);
uint64_t now_ms(void);
bool in_two(void);	   /* two processes? */
bool plays(bool b);	   /* is that side here? */
struct side *side(bool b); /* it must be here */
/* For each side that is here. */
void each(void (*fn)(struct side *s));
void sync_sides(void); /* a barrier; infos are exchanged */
/* names: up to NULL; none is all. */
bool is_wanted(const char *name, char **names);

/* Each program's own: */
_Noreturn void broken(const char *file, int line, const char *what);
_Noreturn void broken_rc(const char *file, int line, const char *call, int got, int want);
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* errors.c: */
void log_mark(void); /* what follows is looked at */
/* Does a line written since the mark match?  %A and %B in re stand for the
 * QP numbers of the sides.  Always true where there is no log. */
bool log_has(const char *re);
void log_must(const char *re); /* else the program ends */

/* side.c: */
void side_open(struct side *s, const char *device, int gid_index);
void side_open_on(struct side *s, struct ibv_context *ctx, int gid_index);
void side_close(struct side *s);
struct ibv_qp *qp_make(struct side *s, enum ibv_qp_type type);
struct ibv_qp_attr qp_attr(const struct side *s, const struct info *peer);
void qp_to(struct ibv_qp *qp, const struct ibv_qp_attr *a, enum ibv_qp_state to);
void qp_drop(struct side *s);
enum ibv_qp_state state_of(struct ibv_qp *qp);
struct ibv_ah *ah_to(struct side *s, const union ibv_gid *gid);
struct ibv_mr *extra_mr(struct side *s, struct ibv_mr *mr); /* dropped later */
void drop_extras(struct side *s);
bool poll_one(struct ibv_cq *cq, struct ibv_wc *wc, unsigned ms);
/* The next completion, within 10 s, with these. */
struct ibv_wc expect(struct ibv_cq *cq, uint64_t wr_id, int status, unsigned verr);
void expect_none(struct ibv_cq *cq);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr);
int post_recv(struct side *s, uint64_t wr_id, uint32_t length);
struct ibv_sge local(const struct side *s, uint32_t at, uint32_t length);
/* The next async event that is about a QP, CQ or SRQ, acknowledged; -1: none
 * within ms. */
int next_event(struct side *s, void **about, unsigned ms);
void expect_event(struct side *s, int type, const void *about);
void expect_no_event(struct side *s);
/* Both sides' bystanders still work, both ways. */
void bystanders(void);

/* A pair of QPs between side a and itself, for rows of one process. */
struct duo {
	struct side *s;
	struct ibv_qp *a, *b;
	struct ibv_cq *acq, *bcq; /* all of a, all of b */
};
struct duo duo_make(enum ibv_qp_type type, int acqe, int bcqe, struct ibv_srq *srq);
struct ibv_qp *duo_qp(struct side *s, struct ibv_cq *cq, enum ibv_qp_type type,
		      struct ibv_srq *srq);
void duo_up(struct duo *d); /* both RTS, connected */
void duo_drop(struct duo *d);
struct ibv_qp_attr self_attr(const struct side *s, uint32_t peer_qpn);
struct ibv_send_wr wr_of(enum ibv_wr_opcode op, struct ibv_sge *sge, uint64_t id);

/* Rows that need one process only; then those that go over the wire. */
struct local_row {
	const char *name;
	void (*run)(void);
};
extern const struct local_row post_rows[], builder_rows[], state_rows[], event_rows[],
	queue_rows[], call_rows[], window_rows[], stale_rows[];

/* wire_rows.c, wire_run.c: */
unsigned wire_count(void);
const char *wire_name(unsigned i);
void wire_run(unsigned i);

#endif
