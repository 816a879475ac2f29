/* SPDX-License-Identifier: BSD-2-Clause */
/* context.c - opening and closing a device. */
#include <stdlib.h>
#include <string.h>

#include "abi/abi.h"
#include "check/attach.h"
#include "driver/nic.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/order.h"

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
	v->open_qp = abi_open_qp;
	v->create_wq = abi_create_wq;
	v->modify_wq = abi_modify_wq;
	v->destroy_wq = abi_destroy_wq;
	v->create_rwq_ind_table = abi_create_rwq_ind_table;
	v->destroy_rwq_ind_table = abi_destroy_rwq_ind_table;
	v->modify_qp_rate_limit = abi_modify_qp_rate_limit;
	v->ibv_create_flow = abi_create_flow;
	v->ibv_destroy_flow = abi_destroy_flow;
	v->create_counters = abi_create_counters;
	v->attach_counters_point_flow = abi_attach_counters_point_flow;
	v->read_counters = abi_read_counters;
	v->destroy_counters = abi_destroy_counters;
	v->create_srq_ex = abi_create_srq_ex;
	v->get_srq_num = abi_get_srq_num;
	v->post_srq_ops = abi_post_srq_ops;
	v->open_xrcd = abi_open_xrcd;
	v->close_xrcd = abi_close_xrcd;
	v->alloc_td = abi_alloc_td;
	v->dealloc_td = abi_dealloc_td;
	v->alloc_parent_domain = abi_alloc_parent_domain;
	v->alloc_dm = abi_alloc_dm;
	v->free_dm = abi_free_dm;
	v->reg_dm_mr = abi_reg_dm_mr;
	v->alloc_null_mr = abi_alloc_null_mr;
	v->advise_mr = abi_advise_mr;
}

/* Fills in the part of the context that programs see. */
static int fill_context(struct abi_context *a, struct ibv_device *dev, int cmd_fd)
{
	struct ibv_context *ibv = &a->ctx.verbs.context;
	int rc;

	set_ops(&a->ctx.verbs);
	if (order_one(nic_core(a->nic)))
		a->ctx.verbs.context.ops.poll_cq = abi_poll_cq_one;
	rc = check_attach(&a->ctx.verbs);
	if (!rc)
		rc = event_queue_init(&a->ctx.async);
	if (rc)
		return rc;
	abi_poll_like(ibv);
	a->ctx.verbs.sz = sizeof(a->ctx.verbs);
	a->ctx.pid = pid_own();
	ibv->device = dev;
	ibv->cmd_fd = cmd_fd;
	ibv->async_fd = a->ctx.async.fd;
	ibv->num_comp_vectors = 1;
	ibv->abi_compat = (void *)UINTPTR_MAX;
	pthread_mutex_init(&ibv->mutex, NULL);
	return 0;
}

static void attach_device(struct abi_context *a, struct device *dev)
{
	struct core *core = nic_core(a->nic);

	a->transport = nic_transport(a->nic, dev);
	a->ctx.core = core;
	a->ctx.dev = dev;
	a->ctx.link = nic_link(a->nic, dev);
	a->ctx.ibv = &a->ctx.verbs.context;
	lock_take(&core->lock);
	dev->core = core;
	list_add_tail(&core->contexts, &a->ctx.node);
	upset_attach(&a->ctx);
	lock_give(&core->lock);
	(void)device_say(dev);
	live_add(&a->ctx.live, LIVE_CONTEXT, &a->ctx.verbs.context);
}

int abi_open_context(struct nic *nic, struct ibv_device *dev, struct abi_file *file,
		     int cmd_fd, struct abi_context **out)
{
	struct abi_context *a = calloc(1, sizeof(*a));
	int rc;

	if (!a)
		return -ENOMEM;
	a->nic = nic;
	a->file = file;
	rc = fill_context(a, dev, cmd_fd);
	if (rc) {
		free(a);
		return rc;
	}
	attach_device(a, device_of(dev));
	*out = a;
	return 0;
}

/* Returns what the user can do about rc. */
static const char *cure_of(int rc)
{
	switch (rc) {
	case -EMFILE:
		return "; the limit of this process is ulimit -n: a device takes about 17 "
		       "descriptors, and some more for each process of this host";
	case -ENFILE:
		return "; the limit of this machine is sysctl fs.file-max";
	case -EAGAIN:
		return "; threads are limited by ulimit -u, and in a container by its "
		       "pids.max: a device takes one";
	default:
		return "; urnic doctor may know why";
	}
}

void abi_say_unusable(const char *what, int rc)
{
	/* The reason was logged already: a wrong configuration, or all slots taken. */
	if (!rc || rc == -EINVAL || rc == -EADDRINUSE)
		return;
	log_error("%s cannot be opened: %s%s", what, strerror(-rc), cure_of(rc));
}

static int open_device(struct ibv_device *dev, struct abi_context **out)
{
	struct abi_file *file;
	struct nic *nic;
	int fd, rc;

	rc = nic_open(&nic);
	if (rc)
		return rc;
	rc = file_make(&file, &fd);
	if (rc)
		goto close_nic;
	rc = abi_open_context(nic, dev, file, fd, out);
	if (!rc)
		return 0;
	close(fd);
	file_leave(nic_core(nic), file);
close_nic:
	nic_close(nic);
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
	if (!abi_alone())
		return NULL;
	inside_begin();
	abi_hold();
	rc = open_device(dev, &a);
	abi_say_unusable(dev->name, rc);
	return abi_leave(rc) ? NULL : &a->ctx.verbs.context;
}

EXPORT int ibv_close_device(struct ibv_context *ibv)
{
	struct abi_context *a;
	const void *self;
	struct core *core;

	if (!abi_alone())
		return EDEADLK;
	if (!live_find(LIVE(context_of, ibv), LIVE_CONTEXT, &self))
		return abi_result(-EBADF);
	a = abi_of(ibv);
	if (abi_forked(ibv))
		return abi_result(-EIO);
	inside_begin();
	abi_hold();
	live_del(&a->ctx.live);
	core = a->ctx.core;
	lock_take(&core->lock);
	list_del(&a->ctx.node);
	lock_give(&core->lock);
	file_close(a);
	return abi_leave(0);
}
