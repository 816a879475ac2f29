/* SPDX-License-Identifier: BSD-2-Clause */
/* fix_verbs.c - fake verbs; see fix.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/fix.h"

#undef ibv_query_port

static const struct {
	const char *name, *gid[FIX_GIDS];
	bool iwarp;
} known[FIX_DEVICES + 1] = {
	{ "roce_eth0", { "::ffff:192.0.2.1", "2001:db8::1", "fe80::1" }, false },
	{ "roce_lo", { "::ffff:127.0.0.1", "::1" }, false },
	{ "iwarp_eth0", { "::ffff:192.0.2.1", "::ffff:127.0.0.1" }, true },
	{ "ib_node0", { "fe80::5" }, false },
};
enum { FABRIC = FIX_DEVICES };
static struct ibv_device devices[FIX_DEVICES + 1];
static struct verbs_context contexts[FIX_DEVICES + 1];

static void *make_object(size_t size)
{
	void *p = fix.fail && !--fix.fail ? NULL : calloc(1, size);

	if (p)
		fix.made++;
	else
		errno = ENOMEM;
	return p;
}

static int unmake(void *p)
{
	if (fix.busy)
		return EBUSY;
	free(p);
	fix.made--;
	return 0;
}

static bool has_gid(const struct ibv_device *dev, int i, uint8_t ip[16])
{
	const char *text = i < FIX_GIDS ? known[dev - devices].gid[i] : NULL;

	if (fix.v6_local && dev == devices && i == 1)
		return false;
	return text && !fix.bare && !(fix.iwarp_alone && dev == devices) &&
	       inet_pton(AF_INET6, text, ip) == 1;
}

/* --- XRC ------------------------------------------------------------- */

/* A device's domain lasts as long as the process. */
static struct ibv_xrcd *open_xrcd(struct ibv_context *ctx,
				  struct ibv_xrcd_init_attr *attr)
{
	static struct ibv_xrcd xrcds[FIX_DEVICES + 1];
	struct ibv_xrcd *xrcd = &xrcds[ctx->device - devices];

	assert_int_equal(attr->comp_mask,
			 IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS);
	assert_int_equal(attr->fd, -1);
	fix_say("xrcd");
	if (fix.fail && !--fix.fail) {
		errno = ENOMEM;
		return NULL;
	}
	xrcd->context = ctx;
	return xrcd;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *ctx,
				   struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = make_object(sizeof(*qp));

	assert_int_equal(attr->qp_type, IBV_QPT_XRC_RECV);
	assert_true(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD);
	fix.xrcd = attr->xrcd;
	if (qp)
		*qp = (struct ibv_qp){ .context = ctx, .qp_type = attr->qp_type };
	return qp;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *ctx,
				     struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq = make_object(sizeof(*srq));

	assert_int_equal(attr->srq_type, IBV_SRQT_XRC);
	assert_int_equal(attr->comp_mask, IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
						  IBV_SRQ_INIT_ATTR_XRCD |
						  IBV_SRQ_INIT_ATTR_CQ);
	fix.xrcd = attr->xrcd;
	fix.cq = attr->cq;
	if (srq)
		*srq = (struct ibv_srq){ .context = ctx, .pd = attr->pd };
	return srq;
}

/* --- devices ------------------------------------------------------ */

struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list = calloc(FIX_DEVICES + 2, sizeof(*list));
	unsigned n = 0;

	(void)num;
	for (unsigned i = 0; list && i <= FABRIC; i++) {
		if (i < FABRIC ? i >= fix.devices : !fix.fabric)
			continue;
		devices[i].transport_type =
			known[i].iwarp ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
		strcpy(devices[i].name, known[i].name);
		list[n++] = &devices[i];
	}
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	struct verbs_context *v = &contexts[dev - devices];

	*v = (struct verbs_context){
		.sz = sizeof(*v),
		.create_qp_ex = create_qp_ex,
		.create_srq_ex = create_srq_ex,
		.open_xrcd = open_xrcd,
		.context = { .device = dev, .abi_compat = __VERBS_ABI_IS_EXTENDED },
	};
	return &v->context;
}

int ibv_close_device(struct ibv_context *ctx)
{
	(void)ctx;
	return 0;
}

__be64 ibv_get_device_guid(struct ibv_device *dev)
{
	return (__be64)(dev - devices + 1);
}

int ibv_get_device_index(struct ibv_device *dev)
{
	return dev == &devices[1] ? 1 : 2;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){ .max_qp_rd_atom = 16,
					  .max_qp_init_rd_atom = 300,
					  .local_ca_ack_delay = 15 };
	return 0;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port,
		   struct _compat_ibv_port_attr *compat)
{
	struct ibv_port_attr *attr = (struct ibv_port_attr *)compat;

	(void)port;
	attr->link_layer = ctx == &contexts[FABRIC].context ? IBV_LINK_LAYER_INFINIBAND
							    : IBV_LINK_LAYER_ETHERNET;
	attr->gid_tbl_len = fix.v1_gids ? 2 * FIX_GIDS : FIX_GIDS;
	attr->state =
		fix.down && ctx->device == devices ? IBV_PORT_DOWN : IBV_PORT_ACTIVE;
	attr->active_mtu = IBV_MTU_1024;
	return 0;
}

int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	(void)port;
	return has_gid(ctx->device, fix.v1_gids ? index / 2 : index, gid->raw) ? 0 : -1;
}

int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	(void)ctx;
	(void)port;
	*pkey = 0xffff;
	return index ? -1 : 0;
}

int ibv_get_pkey_index(struct ibv_context *ctx, uint8_t port, __be16 pkey)
{
	(void)ctx;
	(void)port;
	return pkey == 0xffff ? 0 : -1;
}

/* A device's PD lasts as long as the process. */
struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	static struct ibv_pd pds[FIX_DEVICES + 1];

	struct ibv_pd *pd = &pds[ctx->device - devices];

	pd->context = ctx;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	(void)pd;
	return 0;
}

/* --- queues ------------------------------------------------------- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	(void)ctx;
	return make_object(sizeof(struct ibv_comp_channel));
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	return unmake(ch);
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *ch, int vector)
{
	struct ibv_cq *cq = make_object(sizeof(*cq));

	(void)vector;
	if (cq)
		*cq = (struct ibv_cq){ .context = ctx,
				       .channel = ch,
				       .cq_context = cq_context,
				       .cqe = cqe };
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	return unmake(cq);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = make_object(sizeof(*qp));

	if (qp)
		*qp = (struct ibv_qp){ .context = pd->context,
				       .pd = pd,
				       .send_cq = attr->send_cq,
				       .recv_cq = attr->recv_cq,
				       .srq = attr->srq,
				       .qp_type = attr->qp_type,
				       .qp_num = 77 };
	return qp;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	return unmake(qp);
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	static const char *const name[] = { "RESET", "INIT", "RTR", "RTS",
					    "SQD",   "SQE",  "ERR" };

	assert_true(mask & IBV_QP_STATE);
	if (fix.fail && !--fix.fail)
		return ENOMEM;
	fix_say("%s", name[attr->qp_state]);
	qp->state = attr->qp_state;
	fix.attr = *attr;
	fix.mask = mask;
	return 0;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = make_object(sizeof(*srq));

	(void)attr;
	if (srq)
		srq->pd = pd;
	return srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	return unmake(srq);
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	if (fix.fail && !--fix.fail) {
		errno = ENOMEM;
		return ENOMEM;
	}
	fix_say("attach_mcast");
	return 0;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp;
	(void)gid;
	(void)lid;
	fix_say("detach_mcast");
	return 0;
}
