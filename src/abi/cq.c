/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.c - completion queues. */
#include "verbs/cq.h"
#include "verbs/device.h"

#include "abi/abi.h"
#include "driver/nic.h"
#include "sys/log.h"
#include "verbs/like.h"
#include "verbs/pd.h"

/* RNICs round up (URNIC_LIKE: as that one does), and programs rely on it: ib_send_lat -e
 * asks for one entry, and posts again after a single look for the first completion. So a
 * small CQ gets 4. */
static int at_least(uint32_t asked)
{
	enum { LEAST = 4 };
	const uint32_t cqe = like_depth(LIKE_DEPTH_cqe, asked, caps.max_cqe);

	return cqe && cqe < LEAST ? LEAST : (int)cqe;
}

static int create(struct ibv_context *ibv, struct ibv_pd *in, uint32_t cqe,
		  uint32_t vector, struct ibv_comp_channel *channel, void *cq_context,
		  struct cq **out)
{
	int rc = upset_refuses(UPSET_CREATE_CQ);

	if (rc)
		return rc;
	if (vector >= (uint32_t)ibv->num_comp_vectors) {
		log_info("completion vector %d refused: the device has %d vectors",
			 (int)vector, ibv->num_comp_vectors);
		return -EINVAL;
	}
	if (abi_check("create_cq", LIVE(channel_of, channel), LIVE_CHANNEL, ibv))
		return -EBADF; /* the errno of a closed descriptor */
	return cq_create_in(in ? pd_of(in) : NULL, &abi_of(ibv)->ctx, at_least(cqe),
			    channel ? channel_of(channel) : NULL, cq_context, out);
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *ibv, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int vector)
{
	struct cq *cq;
	int rc;

	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	rc = create(ibv, NULL, (uint32_t)cqe, (uint32_t)vector, channel, cq_context, &cq);
	return abi_leave(rc) ? NULL : (struct ibv_cq *)&cq->ex;
}

/* Returns the parent domain of the CQ, or NULL. */
static struct ibv_pd *parent_of(const struct ibv_cq_init_attr_ex *attr)
{
	return attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain : NULL;
}

static int check_parent(const struct ibv_context *ibv,
			const struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_pd *in = parent_of(attr);
	int rc = abi_check("create_cq_ex", LIVE(pd_of, in), LIVE_PD, ibv);

	if (rc || !(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD))
		return rc;
	return in && pd_of(in)->kind == PD_PARENT ? 0 : -EINVAL;
}

static int check_ex(const struct device_kind *kind,
		    const struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint64_t wc_flags =
		IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
		IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK | IBV_WC_EX_WITH_TM_INFO |
		(kind_qp_types(kind) & 1 << IBV_QPT_RAW_PACKET ? IBV_WC_EX_WITH_CVLAN
							       : 0);
	const uint32_t flags =
		IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

	if (attr->comp_mask & ~known || attr->wc_flags & ~wc_flags)
		return -EOPNOTSUPP;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS && attr->flags & ~flags)
		return -EOPNOTSUPP;
	return 0;
}

struct ibv_cq_ex *abi_create_cq_ex(struct ibv_context *ibv,
				   struct ibv_cq_init_attr_ex *attr)
{
	struct cq *cq;
	int rc;

	if (!GIVEN("create_cq_ex", attr))
		return NULL;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	rc = check_ex(abi_of(ibv)->ctx.dev->kind, attr);
	if (!rc)
		rc = check_parent(ibv, attr);
	if (!rc)
		rc = create(ibv, parent_of(attr), attr->cqe, attr->comp_vector,
			    attr->channel, attr->cq_context, &cq);
	if (abi_leave(rc))
		return NULL;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		cq->ignore_overrun = attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	cq->stamped = attr->wc_flags & (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
					IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
	abi_cq_ex_ops(cq);
	if (checks)
		checks->ready(&cq->live, LIVE_CQ);
	upset_attach_cq(cq);
	return &cq->ex;
}

EXPORT int ibv_resize_cq(struct ibv_cq *ibv, int cqe)
{
	struct ibv_context *ctx = abi_enter_on(LIVE(cq_of, ibv), LIVE_CQ, EINVAL);

	if (!ctx)
		return errno;
	/* Requests posted before may complete as they are sent, and so fill the CQ. */
	nic_flush(abi_of(ctx)->nic);
	return abi_leave(cq_resize(cq_of(ibv), at_least((uint32_t)cqe)));
}

EXPORT int ibv_destroy_cq(struct ibv_cq *ibv)
{
	if (!abi_enter_on(LIVE(cq_of, ibv), LIVE_CQ, ENOENT))
		return errno;
	if (checks)
		checks->destroys(&cq_of(ibv)->live, LIVE_CQ);
	return abi_leave(cq_destroy(cq_of(ibv)));
}

/* Event moderation is not supported: only turning it off succeeds. */
int abi_modify_cq(struct ibv_cq *ibv, struct ibv_modify_cq_attr *attr)
{
	if (!GIVEN("modify_cq", attr))
		return errno;
	if (!abi_enter_on(LIVE(cq_of, ibv), LIVE_CQ, EINVAL))
		return errno;
	if (attr->attr_mask & ~(uint32_t)IBV_CQ_ATTR_MODERATE)
		return abi_leave(-EINVAL);
	if (attr->attr_mask && (attr->moderate.cq_count > 1 || attr->moderate.cq_period))
		return abi_leave(-EOPNOTSUPP);
	return abi_leave(0);
}
