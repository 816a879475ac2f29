/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_modify.c - modifying and querying queue pairs (IBTA vol. 1, 11.2.5). */
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "sys/guard.h"
#include "sys/log.h"
#include "verbs/complete.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/like.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/qp_kind.h"
#include "verbs/qp_state.h"
#include "verbs/transport.h"
#include "verbs/wr_op.h"

/* The members of ibv_qp_attr that each mask bit stands for. */
/* clang-format off */
static const struct field { int bit; size_t at, size; } fields[] = {
#define F(bit, member) { IBV_QP_##bit, offsetof(struct ibv_qp_attr, member), \
			 sizeof(((struct ibv_qp_attr *)0)->member) },
	F(EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify)
	F(ACCESS_FLAGS, qp_access_flags)
	F(PKEY_INDEX, pkey_index)
	F(PORT, port_num)
	F(QKEY, qkey)
	F(AV, ah_attr)
	F(PATH_MTU, path_mtu)
	F(TIMEOUT, timeout)
	F(RETRY_CNT, retry_cnt)
	F(RNR_RETRY, rnr_retry)
	F(RQ_PSN, rq_psn)
	F(MAX_QP_RD_ATOMIC, max_rd_atomic)
	F(MIN_RNR_TIMER, min_rnr_timer)
	F(SQ_PSN, sq_psn)
	F(MAX_DEST_RD_ATOMIC, max_dest_rd_atomic)
	F(PATH_MIG_STATE, path_mig_state)
	F(DEST_QPN, dest_qp_num)
	F(RATE_LIMIT, rate_limit)
#undef F
};
/* clang-format on */

static void copy_fields(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
		const struct field *f = &fields[i];

		if (mask & f->bit)
			memcpy((char *)to + f->at, (const char *)from + f->at, f->size);
	}
}

/* --- values -------------------------------------------------------------- */

enum { PSN_MASK = 0xffffff };

/* Logs why a change of qp to that state is refused. */
__attribute__((format(printf, 3, 4))) static void refuse(const struct qp *qp,
							 enum ibv_qp_state to,
							 const char *fmt, ...)
{
	char why[QP_WHY_LEN];
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	log_info("QP 0x%06x: modify_qp refused: %s to %s: %s", qp->qpn,
		 qp_state_name(qp->state), qp_state_name(to), why);
}

/* Numbers that have a least and a greatest value. */
static int check_numbers(const struct qp *qp, enum ibv_qp_state to,
			 const struct ibv_qp_attr *a, int mask)
{
	const unsigned pkeys = mask & IBV_QP_PKEY_INDEX ? device_pkeys(qp->dev) : 0;
	/* clang-format off */
	const struct { int bit; const char *name; uint32_t value, min, max;
		       enum like_limit like; } v[] = {
		{ IBV_QP_PORT, "port_num", a->port_num, 1, 1, LIKE_LIMITS },
		{ IBV_QP_PKEY_INDEX, "pkey_index", a->pkey_index, 0, pkeys ? pkeys - 1 : 0, LIKE_LIMITS },
		{ IBV_QP_DEST_QPN, "dest_qp_num", a->dest_qp_num, 0, 0xffffff, LIKE_LIMITS },
		{ IBV_QP_PATH_MTU, "path_mtu (enum ibv_mtu)", a->path_mtu,
		  IBV_MTU_256, IBV_MTU_4096, LIKE_LIMITS },
		{ IBV_QP_TIMEOUT, "timeout", a->timeout, 0, 31, LIKE_LIMITS },
		{ IBV_QP_RETRY_CNT, "retry_cnt", a->retry_cnt, 0, 7, LIKE_LIMITS },
		{ IBV_QP_RNR_RETRY, "rnr_retry", a->rnr_retry, 0, 7, LIKE_LIMITS },
		{ IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", a->min_rnr_timer, 0, 31, LIKE_LIMITS },
		{ IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", a->max_rd_atomic,
		  0, caps.max_rd_atomic, LIKE_max_qp_init_rd_atom },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic",
		  a->max_dest_rd_atomic, 0, caps.max_dest_rd_atomic,
		  LIKE_max_qp_rd_atom },
	};
	/* clang-format on */
	char whose[LIKE_TEXT];

	if (mask & IBV_QP_PORT)
		device_tell_port(qp->dev, a->port_num);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		if (mask & v[i].bit && (v[i].value < v[i].min || v[i].value > v[i].max)) {
			refuse(qp, to, "%s %u (0x%x) is not within %u to %u%s", v[i].name,
			       v[i].value, v[i].value, v[i].min, v[i].max,
			       v[i].like == LIKE_LIMITS
				       ? ""
				       : like_limit_text(v[i].like, whose));
			return -EINVAL;
		}
	return 0;
}

static int check_values(const struct qp *qp, enum ibv_qp_state to,
			const struct ibv_qp_attr *a, int mask)
{
	/* A QP has one path: no alternate path and no automatic migration. */
	if (mask & IBV_QP_ALT_PATH ||
	    (mask & IBV_QP_PATH_MIG_STATE && a->path_mig_state != IBV_MIG_MIGRATED)) {
		refuse(qp, to, "%s is not supported: a QP has one path",
		       mask & IBV_QP_ALT_PATH ? "IBV_QP_ALT_PATH"
					      : "a path_mig_state but IBV_MIG_MIGRATED");
		return -EOPNOTSUPP;
	}
	if (mask & IBV_QP_CUR_STATE && a->cur_qp_state != qp->state) {
		refuse(qp, to, "cur_qp_state %u is %s, which is not the QP's state",
		       a->cur_qp_state, qp_state_name(a->cur_qp_state));
		return -EINVAL;
	}
	if (mask & IBV_QP_ACCESS_FLAGS && a->qp_access_flags & ~ACCESS_KNOWN) {
		refuse(qp, to, "qp_access_flags %u (0x%x) has flags besides 0x%x",
		       a->qp_access_flags, a->qp_access_flags, ACCESS_KNOWN);
		return -EINVAL;
	}
	return check_numbers(qp, to, a, mask);
}

/* --- modify -------------------------------------------------------------- */

static void reset(struct qp *qp, enum ibv_qp_state from, uint64_t now) REQUIRES(qp->lock)
{
	qp_clear(qp);
	memset(&qp->attr, 0, sizeof(qp->attr));
	memset(&qp->path, 0, sizeof(qp->path));
	qp_set_state(qp, IBV_QPS_RESET);
	qp->transport->enter(qp, from, now); /* cannot be refused */
	qp_forget_cqes(qp);
	qp_free_places(qp);
}

/* Returns the path MTU for a QP that goes to RTR. A program that asks for more than
 * the port carries does so on both hosts, and both then use their port's MTU. Within a
 * host any MTU works. */
static uint32_t path_mtu(const struct qp *qp)
{
	struct device *dev = qp->dev;
	enum ibv_mtu port = device_port(dev).active_mtu, path = qp->attr.path_mtu;

	if (!qp->kind->connected)
		return mtu_bytes(port);
	if (path <= port || qp->same_host)
		return mtu_bytes(path);
	if (!atomic_exchange(&dev->mtu_told, true))
		log_warn("%s: a program asked for path MTU %u, but its port carries no "
			 "more than %u, which is used; if the peer's port carries more, "
			 "give both the same MTU (ip link set ... mtu ...)",
			 dev->ibv.name, mtu_bytes(path), mtu_bytes(port));
	return mtu_bytes(port);
}

static int modify_wholly(struct qp *qp, const struct ibv_qp_attr *attr, int mask,
			 const struct path *path, uint64_t now) REQUIRES(qp->lock)
{
	const enum ibv_qp_state from = qp->state;
	const enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	const struct ibv_qp_attr old_attr = qp->attr;
	const struct path old_path = qp->path;
	const bool draining = qp->sqd.draining, notify = qp->sqd.notify;
	int rc;

	copy_fields(&qp->attr, attr, mask);
	qp->attr.rq_psn &= PSN_MASK;
	qp->attr.sq_psn &= PSN_MASK;
	if (mask & IBV_QP_AV)
		qp->path = *path;
	qp->path.pkey_index = qp->attr.pkey_index;
	qp->path.mtu = to == IBV_QPS_RTR ? path_mtu(qp) : old_path.mtu;
	if (to == IBV_QPS_SQD && from != IBV_QPS_SQD) {
		qp->sqd.draining = true;
		qp->sqd.notify =
			mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify;
		if (!(mask & IBV_QP_EN_SQD_ASYNC_NOTIFY))
			qp->attr.en_sqd_async_notify = 0;
	}
	qp_set_state(qp, to);
	rc = qp->transport->enter(qp, from, now);
	if (rc) {
		qp_set_state(qp, from);
		qp->attr = old_attr;
		qp->path = old_path;
		qp->sqd.draining = draining;
		qp->sqd.notify = notify;
	}
	return rc;
}

/* Logs, once, the usual first mistake with iWARP. */
static void say_iwarp(const struct qp *qp)
{
	static atomic_bool said;

	if (!atomic_exchange(&said, true))
		log_warn("%s: the program connects a QP itself, as RoCE allows; a "
			 "QP of an iWARP device is connected by rdma_cm alone: "
			 "start both ends so that they use rdma_cm (perftest: -R), "
			 "or use a RoCE device",
			 qp->dev->ibv.name);
}

int qp_modify_held(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now)
{
	const enum ibv_qp_state from = qp->state;
	const enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	const struct device_kind *kind = qp->dev->kind;
	struct path path = { 0 };
	char why[QP_WHY_LEN];
	int rc;

	if (qp->ctx->dead && to != IBV_QPS_RESET) /* a dead context's QP may still go
						   * to RESET, to be destroyed */
		return -EIO;
	rc = qp_check_modify(kind->arrows, qp->type, from, to, mask);
	if (rc) {
		refuse(qp, to, "%s",
		       qp_why_not(kind->arrows, qp->type, from, to, mask, why));
		if (kind->cm_only && to == IBV_QPS_RTR)
			say_iwarp(qp);
		return rc;
	}
	rc = check_values(qp, to, attr, mask);
	if (!rc && mask & IBV_QP_AV)
		rc = path_resolve(qp->ctx, &attr->ah_attr, &path);
	if (rc)
		return rc;
	if (to == IBV_QPS_RESET) {
		reset(qp, from, now);
		return 0;
	}
	if (to == IBV_QPS_ERR) {
		qp_set_state(qp, to);
		qp->transport->enter(qp, from, now); /* cannot be refused */
		qp_flush(qp, now);
		return 0;
	}
	return modify_wholly(qp, attr, mask, &path, now);
}

/* The state in the program's struct ibv_qp changes only where the program itself modifies
 * it or asks for it (ibv_query_qp() with IBV_QP_STATE). A QP that fails by itself does
 * not show there (UCX asserts RTS when it posts), nor does what another process does to
 * it. */
int qp_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask, uint64_t now)
{
	int rc;

	/* Armed before peers can reach memory through this QP. */
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR)
		guard_arm();
	turn_take(&qp->core->turn);
	lock_take(&qp->lock);
	rc = qp_modify_held(qp, attr, mask, now);
	if (!rc && mask & IBV_QP_STATE)
		qp->ex.qp_base.state = attr->qp_state;
	lock_give(&qp->lock);
	turn_give(&qp->core->turn);
	return rc;
}

/* --- query --------------------------------------------------------------- */

/* RDMAP's idle state is verbs' INIT, so a new QP of an RNIC is shown in INIT. */
static enum ibv_qp_state shown_state(const struct qp *qp)
{
	return qp->wr_type == WR_TYPE_IWARP && qp->state == IBV_QPS_RESET ? IBV_QPS_INIT
									  : qp->state;
}

int qp_query(struct qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init)
{
	if (qp->ctx->dead)
		return -EIO;
	memset(attr, 0, sizeof(*attr));
	lock_take(&qp->lock);
	copy_fields(attr, &qp->attr, qp_query_mask(qp->type, qp->state));
	attr->qp_state = attr->cur_qp_state = shown_state(qp);
	attr->cap = qp->init.cap;
	attr->sq_draining = qp->sqd.draining;
	*init = qp->init;
	lock_give(&qp->lock);
	return 0;
}
