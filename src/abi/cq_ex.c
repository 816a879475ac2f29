/* SPDX-License-Identifier: BSD-2-Clause */
/* cq_ex.c - reads completions field by field, from ibv_start_poll() to ibv_end_poll().
 *
 * Meanwhile a copy of the entry is in cq->cur, and the lock cq->reader keeps other
 * threads away from it. A thread that is reading already (in a signal handler, or one CQ
 * while reading another) only tries to take a reader lock, since it may hold the same
 * one. */

#include "abi/abi.h"
#include "driver/nic.h"
#include "sys/clock.h"
#include "verbs/cq.h"
#include "verbs/like.h"
#include "verbs/order.h"

static __thread int reading __attribute__((tls_model("initial-exec")));

static struct cq *cq_of_ex(struct ibv_cq_ex *ex)
{
	return container_of(ex, struct cq, ex);
}

static int next_entry(struct cq *cq, bool drive)
{
	struct cqe *cur = &cq->cur;

	if (!abi_enter(cq->ex.context))
		return EIO;
	if (!cq_pop(cq, cur)) {
		if (drive)
			nic_poll(abi_of(cq->ex.context)->nic);
		if (!drive || !cq_pop(cq, cur)) {
			abi_end();
			return ENOENT;
		}
	}
	if (drive)
		nic_polled(abi_of(cq->ex.context)->nic);
	cq->ex.wr_id = cur->wr_id;
	cq->ex.status = cur->status;
	abi_end();
	return 0;
}

/* `reading` is set for longer than the lock is held, so that a signal handler always
 * finds it. */
NO_TSA static bool take_reader(struct cq *cq)
{
	const bool first = !reading++;

	atomic_signal_fence(memory_order_seq_cst);
	if (first)
		lock_take(&cq->reader);
	else if (!lock_try(&cq->reader))
		reading--;
	else
		return true;
	return first;
}

NO_TSA static void give_reader(struct cq *cq)
{
	lock_give(&cq->reader);
	atomic_signal_fence(memory_order_seq_cst);
	reading--;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr) NO_TSA
{
	struct cq *cq = cq_of_ex(ex);
	int rc;

	if (attr->comp_mask)
		return EINVAL;
	if (inside_calls) /* in a signal handler: see abi.h */
		return ENOENT;
	/* A dead context's lock may be held by a thread that does not exist after the
	 * fork. */
	if (abi_of(ex->context)->ctx.dead) {
		errno = EIO;
		return EIO;
	}
	if (!take_reader(cq))
		return ENOENT;
	rc = next_entry(cq, true);
	if (rc)
		give_reader(cq);
	return rc;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	return next_entry(cq_of_ex(ex), false);
}

/* URNIC_ORDER: one completion a poll. */
static int next_none(struct ibv_cq_ex *ex)
{
	(void)ex;
	return ENOENT;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct cq *cq = cq_of_ex(ex);

	if (cq->owed)
		cq_polled(cq);
	give_reader(cq);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	const struct cqe *cur = &cq_of_ex(ex)->cur;

	return like_vendor_err((enum ibv_wc_status)cur->status, cur->vendor_err);
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.imm;
}

static uint16_t read_cvlan(struct ibv_cq_ex *ex)
{
	const struct cqe *cur = &cq_of_ex(ex)->cur;

	return cur->flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV) ? 0
								: (uint16_t)cur->cvlan;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.src_qp;
}

static unsigned read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	const struct cqe *cur = &cq_of_ex(ex)->cur;

	/* tm_priv shares the field */
	return cur->flags & IBV_WC_TM_MATCH ? 0 : cur->slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.now;
}

/* Returns the time of day less the adapter's time. All completions of a CQ are told with
 * the same difference, so that they keep their order: each reading of the two clocks
 * gives a slightly different one. Only when somebody sets the clock it is replaced. A
 * reading during which the thread did not run for a while is of no use. */
static uint64_t time_of_day(struct cq *cq)
{
	enum { SET = 1000000 }; /* ns */
	uint64_t before, now;

	do {
		before = nic_now();
		now = clock_read(CLOCK_REALTIME) - before;
	} while (nic_now() - before > SET / 2);
	if (now - cq->time_of_day + SET > 2 * SET)
		cq->time_of_day = now;
	return cq->time_of_day;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	return cq_of_ex(ex)->cur.now + time_of_day(cq_of_ex(ex));
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	const struct cqe *cur = &cq_of_ex(ex)->cur;

	info->tag = cur->flags & IBV_WC_TM_MATCH ? cur->tm_tag : 0;
	info->priv = cur->flags & IBV_WC_TM_MATCH ? cur->tm_priv : 0;
}

void abi_cq_ex_ops(struct cq *cq)
{
	struct ibv_cq_ex *ex = &cq->ex;

	lock_init(&cq->reader);
	ex->start_poll = start_poll;
	ex->next_poll = order_one(cq->core) ? next_none : next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
	ex->read_cvlan = read_cvlan;
	ex->read_completion_ts = read_completion_ts;
	ex->read_completion_wallclock_ns = read_completion_wallclock_ns;
	ex->read_tm_info = read_tm_info;
}
