/* SPDX-License-Identifier: BSD-2-Clause */
/* cq_ex.c - ibv_start_poll() and ibv_next_poll(); see ops.h.  Between them and
 * ibv_end_poll() the entry is in cq->cur, which begins as an ibv_wc. */
#include <errno.h>

#include "check/object.h"
#include "check/ops.h"
#include "check/tell.h"

static struct ibv_cq_ex real; /* as in ops.c */
static struct lock real_lock;

static void look_at_entry(struct ibv_cq_ex *ex)
{
	struct cqe *cur = &cq_of((struct ibv_cq *)ex)->cur;
	struct ibv_wc wc;

	memcpy(&wc, cur, sizeof(wc));
	ops_complete(&wc);
	memcpy(cur, &wc, sizeof(wc));
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct check_cq *cq = object_cq((struct ibv_cq *)ex);
	int rc;

	if (!cq || !ops_begin()) {
		rc = real.start_poll(ex, attr);
		if (!rc)
			ops_unseen();
		return rc;
	}
	if (ops_gone(&cq->o, LIVE_CQ))
		return EINVAL;
	ops_polls(cq);
	ops_end();
	rc = real.start_poll(ex, attr);
	ops_enter();
	if (!rc)
		look_at_entry(ex);
	else
		TELL(empty, cq);
	ops_end();
	return rc;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct check_cq *cq = object_cq((struct ibv_cq *)ex);
	int rc;

	if (!cq || !ops_begin()) {
		rc = real.next_poll(ex);
		if (!rc)
			ops_unseen();
		return rc;
	}
	ops_end();
	rc = real.next_poll(ex);
	ops_enter();
	if (!rc)
		look_at_entry(ex);
	ops_end();
	return rc;
}

/* Fields that mean something only if the completion is no error. */
#define READER(type, field)                                                              \
	static type read_##field(struct ibv_cq_ex *ex)                                   \
	{                                                                                \
		look_at_read(ex, #field);                                                \
		return real.read_##field(ex);                                            \
	}

static void look_at_read(struct ibv_cq_ex *ex, const char *field)
{
	struct check_cq *cq;

	if (ex->status == IBV_WC_SUCCESS || !ops_begin())
		return;
	cq = object_cq((struct ibv_cq *)ex);
	if (cq)
		TELL(reads, cq, field);
	ops_end();
}

READER(enum ibv_wc_opcode, opcode)
READER(uint32_t, byte_len)
READER(__be32, imm_data)
READER(uint32_t, src_qp)
READER(unsigned int, wc_flags)

void ops_of_cq(struct cq *cq)
{
	if (!cq->ex.start_poll)
		return; /* made by ibv_create_cq() */
	lock_take(&real_lock);
	if (!real.start_poll)
		real = cq->ex;
	lock_give(&real_lock);
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = next_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_wc_flags = read_wc_flags;
}
