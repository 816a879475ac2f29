/* SPDX-License-Identifier: BSD-2-Clause */
/* states.c - ibv_modify_qp: every state to every other, with every attribute;
 * every value out of range; and what ibv_query_qp tells. */
#include "errors.h"

/* --- the table of IBTA vol. 1, 11.2.5.2 ---------------------------------- */

/* Typed from the specification's tables of required (R) and optional (o)
 * attributes, a column each, and not from the library's. */
enum { COLUMNS = 19 };
/* clang-format off */
static const int column[COLUMNS] = {
	IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_QKEY, IBV_QP_ACCESS_FLAGS,
	IBV_QP_AV, IBV_QP_PATH_MTU, IBV_QP_DEST_QPN, IBV_QP_RQ_PSN,
	IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER, IBV_QP_SQ_PSN,
	IBV_QP_TIMEOUT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY,
	IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_CUR_STATE, IBV_QP_ALT_PATH,
	IBV_QP_PATH_MIG_STATE, IBV_QP_EN_SQD_ASYNC_NOTIFY,
};
/* clang-format on */

/* clang-format off */
static const struct legal {
	enum ibv_qp_type type;
	enum ibv_qp_state from, to;
	char use[COLUMNS + 1];
} legals[] = {
	/*                          pkey/port/qkey/access  av/mtu/dqpn/rqpsn/rdin/rnrtimer
	 *                          sqpsn/timeout/retry/rnr/rdout  cur/alt/mig/notify */
	{ IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, "RR-R" "------" "-----" "----" },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT,  "oo-o" "------" "-----" "----" },
	{ IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR,   "o--o" "RRRRRR" "-----" "-o--" },
	{ IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS,    "---o" "-----o" "RRRRR" "ooo-" },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS,    "---o" "-----o" "-----" "ooo-" },
	{ IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD,    "----" "------" "-----" "---o" },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS,    "---o" "-----o" "-----" "ooo-" },
	{ IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD,    "oo-o" "o---oo" "-oooo" "-oo-" },
	{ IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT, "RR-R" "------" "-----" "----" },
	{ IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_INIT,  "oo-o" "------" "-----" "----" },
	{ IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR,   "o--o" "RRRR--" "-----" "-o--" },
	{ IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS,    "---o" "------" "R----" "ooo-" },
	{ IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_RTS,    "---o" "------" "-----" "ooo-" },
	{ IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_SQD,    "----" "------" "-----" "---o" },
	{ IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_RTS,    "---o" "------" "-----" "ooo-" },
	{ IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD,    "o--o" "o-----" "-----" "-oo-" },
	{ IBV_QPT_UC, IBV_QPS_SQE, IBV_QPS_RTS,    "---o" "------" "-----" "o---" },
	{ IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, "RRR-" "------" "-----" "----" },
	{ IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT,  "ooo-" "------" "-----" "----" },
	{ IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR,   "o-o-" "------" "-----" "----" },
	{ IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS,    "--o-" "------" "R----" "o---" },
	{ IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS,    "--o-" "------" "-----" "o---" },
	{ IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQD,    "----" "------" "-----" "---o" },
	{ IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_RTS,    "--o-" "------" "-----" "o---" },
	{ IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_SQD,    "o-o-" "------" "-----" "----" },
	{ IBV_QPT_UD, IBV_QPS_SQE, IBV_QPS_RTS,    "--o-" "------" "-----" "o---" },
};
/* clang-format on */

/* Returns the row for a change of state; NULL: the change is forbidden. RESET and ERR
 * take no attributes. */
static const char *legal(enum ibv_qp_type type, enum ibv_qp_state from,
			 enum ibv_qp_state to)
{
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET))
		return "-------------------";
	for (size_t i = 0; i < COUNT(legals); i++)
		if (legals[i].type == type && legals[i].from == from &&
		    legals[i].to == to)
			return legals[i].use;
	return NULL;
}

/* --- bringing a QP into a state ------------------------------------------ */

static struct side *s;

static void spoil_sq(struct ibv_qp *qp)
{
	struct ibv_sge sge = { (uintptr_t)s->buf, 8, 0 };
	struct ibv_send_wr *bad, wr = wr_of(IBV_WR_SEND, &sge, 1);
	struct ibv_ah *ah;

	CHECK((ah = ah_to(s, &s->mine.gid)));
	if (qp->qp_type == IBV_QPT_UD) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp->qp_num;
	}
	CHECK(!ibv_post_send(qp, &wr, &bad));
	expect(s->scq, 1, IBV_WC_LOC_PROT_ERR, V_LOCAL_KEY);
	CHECK(!ibv_destroy_ah(ah));
}

static void bring(struct ibv_qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = self_attr(s, qp->qp_num);

	qp_to(qp, &a, IBV_QPS_RESET);
	for (int i = IBV_QPS_INIT; i <= (int)to && i <= IBV_QPS_RTS; i++)
		qp_to(qp, &a, (enum ibv_qp_state)i);
	if (to == IBV_QPS_SQD || to == IBV_QPS_ERR)
		qp_to(qp, &a, to);
	if (to == IBV_QPS_SQE)
		spoil_sq(qp);
	CHECK(state_of(qp) == to);
}

static struct ibv_qp_attr good(struct ibv_qp *qp, enum ibv_qp_state from,
			       enum ibv_qp_state to)
{
	struct ibv_qp_attr a = self_attr(s, qp->qp_num);

	a.qp_state = to;
	a.cur_qp_state = from;
	a.path_mig_state = IBV_MIG_MIGRATED;
	return a;
}

static void try(struct ibv_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, int mask,
		int want)
{
	struct ibv_qp_attr a = good(qp, from, to);
	int got;

	if (state_of(qp) != from)
		bring(qp, from);
	errno = 0;
	got = ibv_modify_qp(qp, &a, mask | IBV_QP_STATE);
	if (got != want || (want && errno != want) ||
	    state_of(qp) != (want ? from : to)) {
		say("type %d, state %d to %d, mask 0x%x: %d, not %d; state %d",
		    qp->qp_type, from, to, (unsigned)mask, got, want, state_of(qp));
		broken(__FILE__, __LINE__, "the table is kept");
	}
	if (!want)
		bring(qp, from);
}

static void one_arrow(struct ibv_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	const char *use = legal(qp->qp_type, from, to);
	int required = 0, optional = 0;

	for (int c = 0; use && c < COLUMNS; c++) {
		required |= use[c] == 'R' ? column[c] : 0;
		optional |= use[c] == 'o' ? column[c] : 0;
	}
	if (!use) {
		try(qp, from, to, 0, EINVAL);
		for (int c = 0; c < COLUMNS; c++)
			try(qp, from, to, column[c], EINVAL);
		return;
	}
	try(qp, from, to, required, 0);
	try(qp, from, to, required | (optional & ~IBV_QP_ALT_PATH), 0);
	for (int c = 0; c < COLUMNS; c++) {
		int want = use[c] == '-' ? EINVAL : 0;

		if (use[c] == 'R')
			try(qp, from, to, required & ~column[c], EINVAL);
		/* The alternate path is legal, but not supported. */
		else
			try(qp, from, to, required | column[c],
			    want			   ? want
			    : column[c] == IBV_QP_ALT_PATH ? EOPNOTSUPP
							   : 0);
	}
	/* An attribute that these QP types do not have. */
	try(qp, from, to, required | IBV_QP_CAP, EINVAL);
	try(qp, from, to, required | IBV_QP_RATE_LIMIT, EINVAL);
	try(qp, from, to, required | 1 << 30, EINVAL);
}

static void matrix(enum ibv_qp_type type)
{
	struct ibv_qp *qp;

	s = side(false);
	s->qp = qp = qp_make(s, type);
	for (int from = IBV_QPS_RESET; from <= IBV_QPS_ERR; from++) {
		if (type == IBV_QPT_RC && from == IBV_QPS_SQE)
			continue; /* RC has no such state */
		for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR + 2; to++)
			one_arrow(qp, (enum ibv_qp_state)from, (enum ibv_qp_state)to);
		try(qp, (enum ibv_qp_state)from, (enum ibv_qp_state) - 1, 0, EINVAL);
	}
	log_must("modify_qp refused: RESET to RTS: from RESET");
	qp_drop(s);
}

static void matrix_rc(void)
{
	matrix(IBV_QPT_RC);
}

static void matrix_uc(void)
{
	matrix(IBV_QPT_UC);
}

static void matrix_ud(void)
{
	matrix(IBV_QPT_UD);
}

/* --- values -------------------------------------------------------------- */

static int step_mask(enum ibv_qp_state to)
{
	return to == IBV_QPS_INIT ? TO_INIT : to == IBV_QPS_RTR ? TO_RTR : TO_RTS;
}

static void bad_values(void)
{
	struct ibv_qp_attr a, before, after;
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;

	s = side(false);
	s->qp = qp = qp_make(s, IBV_QPT_RC);
	s->mine.qpn = qp->qp_num;

#define SPOIL(from, to, re, ...)                                                         \
	do {                                                                             \
		bring(qp, IBV_QPS_##from);                                               \
		a = good(qp, IBV_QPS_##from, IBV_QPS_##to);                              \
		CHECK(!ibv_query_qp(qp, &before, -1, &init));                            \
		__VA_ARGS__;                                                             \
		log_mark();                                                              \
		REFUSED(EINVAL, ibv_modify_qp(qp, &a, step_mask(IBV_QPS_##to)));         \
		log_must(re);                                                            \
		CHECK(!ibv_query_qp(qp, &after, -1, &init));                             \
		CHECK(!memcmp(&before, &after, sizeof(after)));                          \
	} while (0)
#define NUMBER(from, to, field, value)                                                   \
	SPOIL(from, to, "%A: modify_qp refused: .* to .*: " #field, a.field = value)
#define AV(re, ...) SPOIL(INIT, RTR, "address .*refused: " re, __VA_ARGS__)

	NUMBER(RESET, INIT, port_num, 0);
	NUMBER(RESET, INIT, port_num, 2);
	NUMBER(RESET, INIT, port_num, 255);
	NUMBER(RESET, INIT, pkey_index, 1);
	NUMBER(RESET, INIT, pkey_index, 65535);
	NUMBER(RESET, INIT, qp_access_flags, 1u << 12);
	NUMBER(RESET, INIT, qp_access_flags, 1u << 31);
	NUMBER(INIT, RTR, path_mtu, (enum ibv_mtu)0);
	NUMBER(INIT, RTR, path_mtu, (enum ibv_mtu)6);
	NUMBER(INIT, RTR, path_mtu, (enum ibv_mtu) - 1);
	NUMBER(INIT, RTR, dest_qp_num, 1 << 24);
	NUMBER(INIT, RTR, dest_qp_num, UINT32_MAX);
	NUMBER(INIT, RTR, max_dest_rd_atomic, 129);
	NUMBER(INIT, RTR, max_dest_rd_atomic, 255);
	NUMBER(INIT, RTR, min_rnr_timer, 32);
	NUMBER(RTR, RTS, timeout, 32);
	NUMBER(RTR, RTS, retry_cnt, 8);
	NUMBER(RTR, RTS, rnr_retry, 8);
	NUMBER(RTR, RTS, max_rd_atomic, 129);
	NUMBER(RTR, RTS, max_rd_atomic, 255);
	AV("RoCE needs a GRH", a.ah_attr.is_global = 0);
	AV("no such port", a.ah_attr.port_num = 0);
	AV("no such port", a.ah_attr.port_num = 2);
	AV(".*service level", a.ah_attr.sl = 16);
	AV(".*destination GID is zero", memset(&a.ah_attr.grh.dgid, 0, 16));
	AV(".*no GID at sgid_index", a.ah_attr.grh.sgid_index = 127);
	AV(".*no GID at sgid_index", a.ah_attr.grh.sgid_index = 255);
	AV(".*different IP versions", memset(&a.ah_attr.grh.dgid, 0xfd, 16));
#undef AV
#undef NUMBER
#undef SPOIL
	qp_drop(s);
}

/* --- query --------------------------------------------------------------- */

static void query(void)
{
	static const enum ibv_qp_state states[] = {
		IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
		IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR,
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct ibv_qp *qp;

	s = side(false);
	s->qp = qp = qp_make(s, IBV_QPT_RC);
	for (size_t i = 0; i < COUNT(states); i++) {
		bool init_on = states[i] >= IBV_QPS_INIT,
		     rtr_on = states[i] >= IBV_QPS_RTR;

		bring(qp, states[i]);
		memset(&a, 0xee, sizeof(a));
		memset(&init, 0xee, sizeof(init));
		CHECK(!ibv_query_qp(qp, &a, -1, &init));
		CHECK(a.qp_state == states[i] && a.cur_qp_state == states[i]);
		CHECK(a.cap.max_send_wr >= 16 && a.cap.max_inline_data >= 64);
		CHECK(!memcmp(&a.cap, &init.cap, sizeof(a.cap)));
		CHECK(init.qp_type == IBV_QPT_RC && init.send_cq == s->scq &&
		      init.recv_cq == s->rcq && !init.srq && !init.sq_sig_all);
		CHECK(a.port_num == (init_on ? 1 : 0));
		CHECK(a.qp_access_flags == (init_on ? ALL_ACCESS : 0));
		CHECK(a.qkey == 0 && a.pkey_index == 0);
		if (states[i] == IBV_QPS_ERR)
			continue;
		CHECK(a.dest_qp_num == (rtr_on ? qp->qp_num : 0));
		CHECK(a.path_mtu == (rtr_on ? IBV_MTU_1024 : (enum ibv_mtu)0));
		CHECK(a.ah_attr.is_global == (rtr_on ? 1 : 0));
		CHECK(a.max_dest_rd_atomic == (rtr_on ? 8 : 0));
		CHECK(a.timeout == (states[i] >= IBV_QPS_RTS ? 14 : 0));
		CHECK(a.rnr_retry == (states[i] >= IBV_QPS_RTS ? 7 : 0));
		if (rtr_on)
			CHECK(!memcmp(&a.ah_attr.grh.dgid, &s->mine.gid, 16));
	}
	qp_drop(s);
}

const struct local_row state_rows[] = {
	{ "modify_matrix_rc", matrix_rc },   { "modify_matrix_uc", matrix_uc },
	{ "modify_matrix_ud", matrix_ud },   { "modify_bad_values", bad_values },
	{ "query_qp_in_each_state", query }, { NULL, NULL },
};
