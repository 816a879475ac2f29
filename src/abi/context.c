/* SPDX-License-Identifier: BSD-2-Clause */
/* context.c - opening and closing a device. */
#include <stdlib.h>
#include <sys/socket.h>

#include "abi/abi.h"
#include "core/core.h"
#include "core/device.h"
#include "core/qp.h"
#include "nic/nic.h"
#include "sys/log.h"

static void set_ops(struct verbs_context *v)
{
	struct ibv_context_ops *ops = &v->context.ops;

	abi_ops_none(v);
	ops->alloc_mw = abi_alloc_mw;
	ops->bind_mw = abi_bind_mw;
	ops->dealloc_mw = abi_dealloc_mw;
	ops->poll_cq = abi_poll_cq;
	ops->req_notify_cq = abi_req_notify_cq;
	ops->post_srq_recv = abi_post_srq_recv;
	ops->post_send = abi_post_send;
	ops->post_recv = abi_post_recv;
	v->query_port = abi_query_port;
	v->query_device_ex = abi_query_device_ex;
	v->query_rt_values = abi_query_rt_values;
	v->create_cq_ex = abi_create_cq_ex;
	v->modify_cq = abi_modify_cq;
	v->create_qp_ex = abi_create_qp_ex;
	v->create_srq_ex = abi_create_srq_ex;
	v->get_srq_num = abi_get_srq_num;
	v->alloc_td = abi_alloc_td;
	v->dealloc_td = abi_dealloc_td;
	v->alloc_parent_domain = abi_alloc_parent_domain;
	v->alloc_dm = abi_alloc_dm;
	v->free_dm = abi_free_dm;
	v->reg_dm_mr = abi_reg_dm_mr;
	v->alloc_null_mr = abi_alloc_null_mr;
	v->advise_mr = abi_advise_mr;
}

/* A file of its own, by which ibv_import_device() knows the context, and which is
 * never readable. */
static int make_cmd(void)
{
	int fd = fd_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd_raise(fd);
}

/* The part that programs see. */
static int fill(struct abi_context *a, struct ibv_device *dev, int cmd_fd)
{
	struct ibv_context *ibv = &a->verbs.context;
	int rc, fd;

	rc = event_queue_init(&a->ctx.async);
	if (rc)
		return rc;
	fd = cmd_fd < 0 ? make_cmd() : cmd_fd;
	rc = fd < 0 ? fd : fd_identify(fd, &a->file);
	if (rc) {
		event_queue_fini(&a->ctx.async);
		return rc;
	}
	set_ops(&a->verbs);
	a->verbs.sz = sizeof(a->verbs);
	a->pid = getpid();
	ibv->device = dev;
	ibv->cmd_fd = fd;
	ibv->async_fd = a->ctx.async.fd;
	ibv->num_comp_vectors = 1;
	ibv->abi_compat = (void *)UINTPTR_MAX;
	pthread_mutex_init(&ibv->mutex, NULL);
	return 0;
}

static void attach(struct abi_context *a, struct device *dev)
{
	struct core *core = nic_core(a->nic);

	a->transport = nic_transport(a->nic, dev);
	a->ctx.core = core;
	a->ctx.dev = dev;
	a->ctx.link = nic_link(a->nic, dev);
	a->ctx.ibv = &a->verbs.context;
	lock_take(&core->lock);
	dev->core = core;
	list_add_tail(&core->contexts, &a->ctx.node);
	lock_give(&core->lock);
	live_add(&a->live, LIVE_CONTEXT, &a->verbs.context);
}

int abi_open_context(struct ibv_device *ibv, int cmd_fd, struct abi_context **out)
{
	struct abi_context *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return -ENOMEM;
	rc = nic_open(&a->nic);
	if (rc)
		goto free_context;
	rc = fill(a, ibv, cmd_fd);
	if (rc)
		goto close_nic;
	attach(a, device_of(ibv));
	*out = a;
	return 0;

close_nic:
	nic_close(a->nic);
free_context:
	free(a);
	return rc;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	struct abi_context *a;
	int rc;

	if (!dev) {
		errno = EINVAL;
		return NULL;
	}
	abi_begin();
	abi_hold();
	rc = abi_open_context(dev, -1, &a);
	return abi_leave(rc) ? NULL : &a->verbs.context;
}

/* How many QPs are left; they fall silent, as if destroyed. */
static unsigned silence(struct abi_context *a)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct core *core = a->ctx.core;
	unsigned left = 0;

	for (size_t i = 0; i < QPN_INDICES; i++) {
		struct qp *qp;

		lock_take(&core->lock);
		qp = core->qps[i];
		lock_give(&core->lock);
		if (!qp || qp->ctx != &a->ctx)
			continue;
		qp_modify(qp, &reset, IBV_QP_STATE, nic_now());
		left++;
	}
	return left;
}

/* With a context all that it has goes: stale pointers are told from live ones. */
EXPORT int ibv_close_device(struct ibv_context *ibv)
{
	struct abi_context *a = abi_of(ibv);
	const void *self;
	struct core *core;
	unsigned left;

	if (!live_find(LIVE(abi_of, ibv), LIVE_CONTEXT, &self))
		return abi_result(-EBADF);
	if (abi_forked(ibv))
		return abi_result(-EIO);
	abi_begin();
	abi_hold();
	live_del(&a->live);
	core = a->ctx.core;
	lock_take(&core->lock);
	list_del(&a->ctx.node);
	lock_give(&core->lock);
	nic_flush(a->nic);
	left = silence(a);
	if (left) {
		log_info("%s: closed with %u QPs left: their memory stays",
			 ibv->device->name, left);
		a->ctx.dead = true;
		return abi_leave(0);
	}
	live_forget(ibv);
	event_queue_fini(&a->ctx.async);
	if (fd_is(ibv->cmd_fd, &a->file))
		close(ibv->cmd_fd);
	pthread_mutex_destroy(&ibv->mutex);
	nic_close(a->nic);
	free(a);
	return abi_leave(0);
}
