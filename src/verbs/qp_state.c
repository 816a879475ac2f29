/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_state.c - the QP state diagram and the attributes of its arrows. IBTA vol. 1,
 * 10.3 (states) and the Modify QP attribute tables of 11.2.
 *
 * Two arrows have no rows because they exist from every state and take no attributes:
 * any state may go to RESET, and any state but RESET to ERR.
 */
#include "verbs/qp_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include "verbs/qp_kind.h"

#define PKEY   IBV_QP_PKEY_INDEX
#define PORT   IBV_QP_PORT
#define QKEY   IBV_QP_QKEY
#define ACCESS IBV_QP_ACCESS_FLAGS
#define AV     IBV_QP_AV
#define MTU    IBV_QP_PATH_MTU
#define DQPN   IBV_QP_DEST_QPN
#define RQPSN  IBV_QP_RQ_PSN
#define SQPSN  IBV_QP_SQ_PSN
#define RD_IN  IBV_QP_MAX_DEST_RD_ATOMIC
#define RD_OUT IBV_QP_MAX_QP_RD_ATOMIC
#define RNR_TM IBV_QP_MIN_RNR_TIMER
#define TMO    IBV_QP_TIMEOUT
#define RETRY  IBV_QP_RETRY_CNT
#define RNR_RT IBV_QP_RNR_RETRY
#define CUR    IBV_QP_CUR_STATE
#define ALT    IBV_QP_ALT_PATH
#define MIG    IBV_QP_PATH_MIG_STATE
#define NOTIFY IBV_QP_EN_SQD_ASYNC_NOTIFY
#define RATE   IBV_QP_RATE_LIMIT

struct arrow {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	int required, optional;
};

/* clang-format off */
static const struct arrow arrows[] = {
#define A(type, from, to, required, optional) \
	{ IBV_QPT_##type, IBV_QPS_##from, IBV_QPS_##to, required, optional },
	/*  from   to    required                           optional */
	A(RC, RESET, INIT, PKEY|PORT|ACCESS,                0)
	A(RC, INIT,  INIT, 0,                               PKEY|PORT|ACCESS)
	A(RC, INIT,  RTR,  AV|MTU|DQPN|RQPSN|RD_IN|RNR_TM,  PKEY|ACCESS|ALT)
	A(RC, RTR,   RTS,  SQPSN|TMO|RETRY|RNR_RT|RD_OUT,   CUR|ACCESS|RNR_TM|ALT|MIG)
	A(RC, RTS,   RTS,  0,                               CUR|ACCESS|RNR_TM|ALT|MIG)
	A(RC, RTS,   SQD,  0,                               NOTIFY)
	A(RC, SQD,   RTS,  0,                               CUR|ACCESS|RNR_TM|ALT|MIG)
	A(RC, SQD,   SQD,  0,                               PKEY|PORT|ACCESS|AV|TMO|RETRY|RNR_RT|
							    RD_IN|RD_OUT|RNR_TM|ALT|MIG)
	/* Each half of XRC also accepts the other half's attributes, since perftest
	 * gives both the same. */
	A(XRC_SEND, RESET, INIT, PKEY|PORT|ACCESS,          0)
	A(XRC_SEND, INIT,  INIT, 0,                         PKEY|PORT|ACCESS)
	A(XRC_SEND, INIT,  RTR,  AV|MTU|DQPN|RQPSN,         PKEY|ACCESS|ALT|RD_IN|RNR_TM)
	A(XRC_SEND, RTR,   RTS,  SQPSN|TMO|RETRY|RNR_RT|RD_OUT, CUR|ACCESS|ALT|MIG)
	A(XRC_SEND, RTS,   RTS,  0,                         CUR|ACCESS|ALT|MIG)
	A(XRC_SEND, RTS,   SQD,  0,                         NOTIFY)
	A(XRC_SEND, SQD,   RTS,  0,                         CUR|ACCESS|ALT|MIG)
	A(XRC_SEND, SQD,   SQD,  0,                         PKEY|PORT|ACCESS|AV|TMO|RETRY|RNR_RT|
							    RD_OUT|ALT|MIG)
	A(XRC_RECV, RESET, INIT, PKEY|PORT|ACCESS,          0)
	A(XRC_RECV, INIT,  INIT, 0,                         PKEY|PORT|ACCESS)
	A(XRC_RECV, INIT,  RTR,  AV|MTU|DQPN|RQPSN|RD_IN|RNR_TM, PKEY|ACCESS|ALT)
	A(XRC_RECV, RTR,   RTS,  SQPSN|TMO,                 CUR|ACCESS|RNR_TM|ALT|MIG|
							    RETRY|RNR_RT|RD_OUT)
	A(XRC_RECV, RTS,   RTS,  0,                         CUR|ACCESS|RNR_TM|ALT|MIG)
	A(XRC_RECV, RTS,   SQD,  0,                         NOTIFY)
	A(XRC_RECV, SQD,   RTS,  0,                         CUR|ACCESS|RNR_TM|ALT|MIG)
	A(XRC_RECV, SQD,   SQD,  0,                         PKEY|PORT|ACCESS|AV|TMO|RD_IN|RNR_TM|
							    ALT|MIG)
	A(UC, RESET, INIT, PKEY|PORT|ACCESS,                0)
	A(UC, INIT,  INIT, 0,                               PKEY|PORT|ACCESS)
	A(UC, INIT,  RTR,  AV|MTU|DQPN|RQPSN,               PKEY|ACCESS|ALT)
	A(UC, RTR,   RTS,  SQPSN,                           CUR|ACCESS|ALT|MIG)
	A(UC, RTS,   RTS,  0,                               CUR|ACCESS|ALT|MIG)
	A(UC, RTS,   SQD,  0,                               NOTIFY)
	A(UC, SQD,   RTS,  0,                               CUR|ACCESS|ALT|MIG)
	A(UC, SQD,   SQD,  0,                               PKEY|ACCESS|AV|ALT|MIG)
	A(UC, SQE,   RTS,  0,                               CUR|ACCESS)
	A(UD, RESET, INIT, PKEY|PORT|QKEY,                  0)
	A(UD, INIT,  INIT, 0,                               PKEY|PORT|QKEY)
	A(UD, INIT,  RTR,  0,                               PKEY|QKEY)
	A(UD, RTR,   RTS,  SQPSN,                           CUR|QKEY)
	A(UD, RTS,   RTS,  0,                               CUR|QKEY)
	A(UD, RTS,   SQD,  0,                               NOTIFY)
	A(UD, SQD,   RTS,  0,                               CUR|QKEY)
	A(UD, SQD,   SQD,  0,                               PKEY|QKEY)
	A(UD, SQE,   RTS,  0,                               CUR|QKEY)
	/* As in Linux. */
	A(RAW_PACKET, RESET, INIT, PORT,                    0)
	A(RAW_PACKET, INIT,  INIT, 0,                       PORT)
	A(RAW_PACKET, INIT,  RTR,  0,                       0)
	A(RAW_PACKET, RTR,   RTS,  0,                       RATE)
	A(RAW_PACKET, RTS,   RTS,  0,                       RATE)
#undef A
};
/* clang-format on */

/* iWARP: SQD is RDMAP's closing state. No arrow leads to RTR, and the transport
 * refuses RTS without a connection. */
/* clang-format off */
static const struct arrow iwarp_arrows[] = {
#define A(type, from, to, required, optional) \
	{ IBV_QPT_##type, IBV_QPS_##from, IBV_QPS_##to, required, optional },
	/*  from   to    required  optional */
	A(RC, RESET, INIT, 0,      PKEY|PORT|ACCESS)
	A(RC, INIT,  INIT, 0,      PKEY|PORT|ACCESS)
	A(RC, INIT,  RTS,  0,      ACCESS|RD_IN|RD_OUT)
	A(RC, RTS,   RTS,  0,      CUR|ACCESS)
	A(RC, RTS,   SQD,  0,      NOTIFY)
	A(RC, SQD,   SQD,  0,      CUR|ACCESS)
#undef A
};
/* clang-format on */

struct qp_arrows {
	const struct arrow *v;
	size_t n;
};

const struct qp_arrows qp_arrows_ib = { arrows, sizeof(arrows) / sizeof(arrows[0]) };
const struct qp_arrows qp_arrows_iwarp = {
	iwarp_arrows, sizeof(iwarp_arrows) / sizeof(iwarp_arrows[0])
};

static const struct arrow *find_arrow(const struct qp_arrows *all, enum ibv_qp_type type,
				      enum ibv_qp_state from, enum ibv_qp_state to)
{
	static const struct arrow bare; /* to RESET or ERR: see above */

	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return &bare;
	for (const struct arrow *a = all->v; a < all->v + all->n; a++)
		if (a->type == type && a->from == from && a->to == to)
			return a;
	return NULL;
}

int qp_check_modify(const struct qp_arrows *all, enum ibv_qp_type type,
		    enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	const struct arrow *a;

	mask &= ~IBV_QP_STATE;
	a = find_arrow(all, type, from, to);
	if (!a || (mask & a->required) != a->required ||
	    mask & ~(a->required | a->optional))
		return -EINVAL;
	return 0;
}

/* --- what is wrong, in words --------------------------------------------- */

const char *qp_state_name(enum ibv_qp_state state)
{
	static const char *const name[] = {
		[IBV_QPS_RESET] = "RESET", [IBV_QPS_INIT] = "INIT", [IBV_QPS_RTR] = "RTR",
		[IBV_QPS_RTS] = "RTS",	   [IBV_QPS_SQD] = "SQD",   [IBV_QPS_SQE] = "SQE",
		[IBV_QPS_ERR] = "ERR",
	};

	return state <= IBV_QPS_ERR ? name[state] : "no state";
}

/* clang-format off */
static const struct { int bit; const char *name; } attrs[] = {
#define N(name) { IBV_QP_##name, "IBV_QP_" #name },
	N(CUR_STATE) N(EN_SQD_ASYNC_NOTIFY) N(ACCESS_FLAGS) N(PKEY_INDEX) N(PORT) N(QKEY)
	N(AV) N(PATH_MTU) N(TIMEOUT) N(RETRY_CNT) N(RNR_RETRY) N(RQ_PSN)
	N(MAX_QP_RD_ATOMIC) N(ALT_PATH) N(MIN_RNR_TIMER) N(SQ_PSN) N(MAX_DEST_RD_ATOMIC)
	N(PATH_MIG_STATE) N(CAP) N(DEST_QPN) N(RATE_LIMIT)
#undef N
};
/* clang-format on */

struct text {
	char *at, *end;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *fmt,
						      ...)
{
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(t->at, (size_t)(t->end - t->at), fmt, args);
	va_end(args);
	if (n > 0)
		t->at = n < t->end - t->at ? t->at + n : t->end - 1;
}

static void add_attrs(struct text *t, const char *verb, int mask)
{
	const char *before = verb;

	for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
		if (!(mask & attrs[i].bit))
			continue;
		add(t, "%s %s", before, attrs[i].name);
		mask &= ~attrs[i].bit;
		before = ",";
	}
	if (mask)
		add(t, "%s 0x%x, which is unknown", before, (unsigned)mask);
}

static void add_ways(struct text *t, const struct qp_arrows *all, enum ibv_qp_type type,
		     enum ibv_qp_state from)
{
	const char *before = "";

	add(t, "from %s a QP of type %s goes to ", qp_state_name(from),
	    qp_kind_of(type)->name);
	for (enum ibv_qp_state to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
		if (!find_arrow(all, type, from, to))
			continue;
		add(t, "%s%s", before, qp_state_name(to));
		before = ", ";
	}
}

const char *qp_why_not(const struct qp_arrows *all, enum ibv_qp_type type,
		       enum ibv_qp_state from, enum ibv_qp_state to, int mask,
		       char text[QP_WHY_LEN])
{
	const struct arrow *a = find_arrow(all, type, from, to);
	struct text t = { text, text + QP_WHY_LEN };
	int missing, extra;

	*text = '\0';
	mask &= ~IBV_QP_STATE;
	if (!a) {
		add_ways(&t, all, type, from);
		return text;
	}
	missing = a->required & ~mask;
	extra = mask & ~(a->required | a->optional);
	if (missing)
		add_attrs(&t, "this change needs", missing);
	if (extra)
		add_attrs(&t,
			  missing ? "; it does not take" : "this change does not take",
			  extra);
	return text;
}

/* Returns how far a QP in this state has advanced; it has the attributes of the arrows
 * up to there. SQE and ERR keep those of RTS. */
static int level(enum ibv_qp_state state)
{
	switch (state) {
	case IBV_QPS_RESET:
		return 0;
	case IBV_QPS_INIT:
		return 1;
	case IBV_QPS_RTR:
		return 2;
	case IBV_QPS_RTS:
	case IBV_QPS_SQE:
	case IBV_QPS_ERR:
		return 3;
	case IBV_QPS_SQD:
		return 4;
	case IBV_QPS_UNKNOWN:
		return -1;
	}
	return -1;
}

int qp_query_mask(enum ibv_qp_type type, enum ibv_qp_state state)
{
	int mask = IBV_QP_STATE | IBV_QP_CAP;

	for (size_t i = 0; i < sizeof(arrows) / sizeof(arrows[0]); i++) {
		const struct arrow *a = &arrows[i];

		if (a->type == type && level(a->to) <= level(state))
			mask |= a->required | a->optional;
	}
	return mask | CUR;
}
