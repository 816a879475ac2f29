/* SPDX-License-Identifier: BSD-2-Clause */
/* errors.h - the set-up of the rows: two sides, each with a context and a bystander QP
 * that no row may harm; and the log, which must explain each error.
 *
 * Both sides are in one process, or each in a process of its own; then sync_sides() keeps
 * the two processes in step.
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

/* A call that must return this errno, and set it. */
#define REFUSED(code, call)                                                              \
	do {                                                                             \
		int refused_rc_;                                                         \
		errno = 0;                                                               \
		refused_rc_ = (call);                                                    \
		if (refused_rc_ != (code))                                               \
			broken_rc(__FILE__, __LINE__, #call, refused_rc_, code);         \
	} while (0)

/* A verb that must return NULL, and set this errno. */
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
	TARGET_AT = 64 << 10, /* offset of the bytes that the peer may reach by default */
	TARGET_LEN = 8192,
	RECV_AT = 128 << 10, /* offset of receives, RECV_STEP bytes apart */
	RECV_STEP = 8192,
	BY_AT = 192 << 10, /* offset of the bystander's bytes */
	EXTRAS = 16,
	/* an ACK timeout of 2.1 s: its eight tries are longer than any end waits, so a
	 * peer that a busy machine gives no processor for a while is not given up (at 14,
	 * 67 ms, that is after half a second) */
	UNHURRIED = 19,
};

/* The values of vendor_err; repeated here on purpose, so that a change is noticed. */
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

/* What each side tells the other. */
struct info {
	uint32_t qpn, by_qpn, rkey, by_rkey;
	uint64_t addr, by_addr;
	uint16_t lid;	  /* InfiniBand */
	uint16_t port;	  /* iWARP: where B listens; network byte order */
	uint32_t srqn[2]; /* XRC: a valid SRQ number and an invalid one */
	union ibv_gid gid;
};

struct side {
	bool is_b; /* side B answers requests */
	struct ibv_context *ctx;
	struct ibv_pd *pd, *pd2;
	struct ibv_cq *scq, *rcq; /* the CQs of the QP under test */
	struct ibv_cq *by_cq;
	struct ibv_mr *mr; /* all of buf, with all rights */
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
	/* the attributes that each step of ibv_modify_qp requires */
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
	int sock; /* two processes: to the other process; one: -1 */
	bool b;	  /* two processes: this one plays side B */
} sides;
/* port NULL: both sides are in this process; otherwise host NULL: this process is B and
 * waits for A. */
void sides_meet(const char *host, const char *port);
void sides_open(const char *device, int gid_index);
uint64_t now_ms(void);
bool in_two(void);	   /* is each side in a process of its own? */
bool plays(bool b);	   /* is the side in this process? */
struct side *side(bool b); /* the side, which must be in this process */
/* Calls fn for each side in this process. */
void each(void (*fn)(struct side *s));
void sync_sides(void); /* a barrier; the sides also exchange their infos */
/* Is name in names, which a NULL ends?  An empty list means all. */
bool is_wanted(const char *name, char **names);

/* Each program defines these: */
_Noreturn void broken(const char *file, int line, const char *what);
_Noreturn void broken_rc(const char *file, int line, const char *call, int got, int want);
void say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* errors.c: */
void log_mark(void); /* log_has() looks at lines written after this */
/* Does a line written since the mark match?  %A and %B in re stand for the
 * QP numbers of the sides.  Always true where there is no log. */
bool log_has(const char *re);
void log_must(const char *re); /* ends the program if no line matches */

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
struct ibv_mr *extra_mr(struct side *s, struct ibv_mr *mr); /* drop_extras() frees it */
void drop_extras(struct side *s);
bool poll_one(struct ibv_cq *cq, struct ibv_wc *wc, unsigned ms);
/* Waits up to 10 s for the next completion, and checks these fields. */
struct ibv_wc expect(struct ibv_cq *cq, uint64_t wr_id, int status, unsigned verr);
void expect_none(struct ibv_cq *cq);
int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr);
int post_recv(struct side *s, uint64_t wr_id, uint32_t length);
struct ibv_sge local(const struct side *s, uint32_t at, uint32_t length);
/* Takes and acknowledges the next async event about a QP, CQ or SRQ; returns its type, or
 * -1 if none comes within ms. */
int next_event(struct side *s, void **about, unsigned ms);
void expect_event(struct side *s, int type, const void *about);
void expect_no_event(struct side *s);
/* Checks that the bystander QPs of both sides still work, in both directions. */
void bystanders(void);

/* A pair of QPs between side a and itself, for rows of one process. */
struct duo {
	struct side *s;
	struct ibv_qp *a, *b;
	/* The CQ of both queues of a, and that of both queues of b. */
	struct ibv_cq *acq, *bcq;
};
struct duo duo_make(enum ibv_qp_type type, int acqe, int bcqe, struct ibv_srq *srq);
struct ibv_qp *duo_qp(struct side *s, struct ibv_cq *cq, enum ibv_qp_type type,
		      struct ibv_srq *srq);
void duo_up(struct duo *d); /* moves both QPs to RTS, connected */
void duo_drop(struct duo *d);
struct ibv_qp_attr self_attr(const struct side *s, uint32_t peer_qpn);
struct ibv_send_wr wr_of(enum ibv_wr_opcode op, struct ibv_sge *sge, uint64_t id);

/* Rows that need one process only; the other rows go over the wire. */
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
