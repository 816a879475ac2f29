/* SPDX-License-Identifier: BSD-2-Clause */
/* file.c - what a command descriptor stands for, and the end of the objects of its
 * contexts. The kernel destroys a file's objects when its last descriptor is closed;
 * until then they can be imported.
 *
 * Objects that no other context can name end with their context: queues, their
 * channels, address handles, imports. Keys, the memory behind them, and domains end
 * with the file. */
#include <stdlib.h>
#include <sys/socket.h>

#include "abi/abi.h"
#include "driver/nic.h"
#include "raw/packet.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/dm.h"
#include "verbs/mr.h"
#include "verbs/path.h"
#include "verbs/qp.h"
#include "verbs/rq.h"
#include "verbs/shared.h"
#include "verbs/xrc.h"

int file_make(struct abi_file **out, int *fd)
{
	struct abi_file *file = calloc(1, sizeof(*file));
	int rc;

	if (!file)
		return -ENOMEM;
	*fd = fd_raise(fd_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	rc = *fd < 0 ? -errno : fd_identify(*fd, &file->id);
	if (rc) {
		if (*fd >= 0)
			close(*fd);
		free(file);
		return rc;
	}
	file->contexts = 1;
	*out = file;
	return 0;
}

struct abi_file *file_find(struct core *core, const struct fd_id *id,
			   struct ibv_device **dev)
{
	struct abi_file *found = NULL;

	lock_take(&core->lock);
	list_for(n, &core->contexts)
	{
		struct ibv_context *ibv = container_of(n, struct context, node)->ibv;

		if (fd_same(&abi_of(ibv)->file->id, id)) {
			found = abi_of(ibv)->file;
			*dev = ibv->device;
		}
	}
	if (found)
		found->contexts++;
	lock_give(&core->lock);
	return found;
}

/* --- the end of objects ---------------------------------------------------- */

/* Ends an object. Returns false if the object stays. */
typedef bool end_fn(struct live *l);

static bool end_qp(struct live *l)
{
	struct qp *qp = container_of(l, struct qp, live);
	struct nic *nic = abi_of(qp->ctx->ibv)->nic;
	union ibv_gid gid;

	while (mcast_leave(qp, &gid))
		nic_join(nic, qp->dev, &gid, false);
	return !abi_end_qp(nic, qp);
}

static bool end_cq(struct live *l)
{
	struct cq *cq = container_of(l, struct cq, live);

	cq_ack_all(cq);
	return !cq_destroy(cq);
}

static bool end_srq(struct live *l)
{
	return !srq_destroy(container_of(l, struct srq, live));
}

static bool end_wq_table(struct live *l)
{
	return !wq_table_destroy(container_of(l, struct wq_table, live));
}

static bool end_wq(struct live *l)
{
	return !wq_destroy(container_of(l, struct wq, live));
}

static bool end_channel(struct live *l)
{
	return !channel_destroy(container_of(l, struct channel, live));
}

static bool end_ah(struct live *l)
{
	return !ah_destroy(container_of(l, struct ah, live));
}

static bool forget_allocators(struct live *l)
{
	pd_forget_allocators(container_of(l, struct pd, live));
	return false;
}

static bool unimport_mr(struct live *l)
{
	struct mr *mr = container_of(l, struct mr, live);
	bool imported = mr->imported;

	if (imported)
		mr_unimport(mr);
	return imported;
}

static bool unimport_dm(struct live *l)
{
	struct dm *dm = container_of(l, struct dm, live);
	bool imported = dm->of;

	if (imported)
		dm_unimport(dm);
	return imported;
}

static bool unimport_pd(struct live *l)
{
	struct pd *pd = container_of(l, struct pd, live);
	bool imported = pd->kind == PD_IMPORTED;

	if (imported)
		pd_unimport(pd);
	return imported;
}

static bool end_flow(struct live *l)
{
	flow_destroy(container_of(l, struct flow, live));
	return true;
}

static bool end_counters(struct live *l)
{
	return !counters_destroy(container_of(l, struct counters, live));
}

static bool end_mw(struct live *l)
{
	return !mw_dealloc(container_of(l, struct mw, live));
}

static bool end_mr(struct live *l)
{
	return !mr_dereg(container_of(l, struct mr, live));
}

static bool end_dm(struct live *l)
{
	return !dm_free(container_of(l, struct dm, live));
}

static bool end_parent(struct live *l)
{
	struct pd *pd = container_of(l, struct pd, live);

	return pd->kind == PD_PARENT && !pd_free(pd);
}

static bool end_pd(struct live *l)
{
	return !pd_free(container_of(l, struct pd, live));
}

static bool end_td(struct live *l)
{
	return !td_free(container_of(l, struct td, live));
}

static bool end_xrcd(struct live *l)
{
	return !xrcd_close(container_of(l, struct xrcd, live));
}

/* The order matters: objects come before those that they use. */
static const struct step {
	enum live_kind kind;
	end_fn *end;
} with_context[] = {
	{ LIVE_PD, forget_allocators },
	{ LIVE_FLOW, end_flow },
	{ LIVE_COUNTERS, end_counters },
	{ LIVE_QP, end_qp },
	{ LIVE_WQ_TABLE, end_wq_table },
	{ LIVE_WQ, end_wq },
	{ LIVE_SRQ, end_srq },
	{ LIVE_XRCD, end_xrcd },
	{ LIVE_CQ, end_cq },
	{ LIVE_CHANNEL, end_channel },
	{ LIVE_AH, end_ah },
	{ LIVE_MR, unimport_mr },
	{ LIVE_DM, unimport_dm },
	{ LIVE_PD, unimport_pd },
}, with_file[] = {
	{ LIVE_MW, end_mw },
	{ LIVE_MR, end_mr },
	{ LIVE_DM, end_dm },
	{ LIVE_PD, end_parent },
	{ LIVE_PD, end_pd },
	{ LIVE_TD, end_td },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void end_objects(struct live *of[LIVE_KINDS], const struct step *step,
			size_t steps)
{
	for (; steps--; step++) {
		struct live **at = &of[step->kind];

		while (*at) {
			struct live *next = (*at)->next;

			if (step->end(*at))
				*at = next;
			else
				at = &(*at)->next;
		}
	}
}

/* --- the end of contexts --------------------------------------------------- */

static void leave_objects(struct abi_file *file, struct live *of[LIVE_KINDS])
{
	for (int kind = 0; kind < LIVE_KINDS; kind++) {
		struct live **at = &of[kind];

		while (*at)
			at = &(*at)->next;
		*at = file->left[kind];
		file->left[kind] = of[kind];
	}
}

/* A context with queues left is not freed: posts and polls, which look nothing up, find
 * it dead, and the NIC still there. */
static void free_context(struct abi_context *a)
{
	if (a->ctx.stays) {
		log_info("%s: the device was closed with queues left: a little of "
			 "the context's memory stays allocated",
			 a->ctx.verbs.context.device->name);
		return;
	}
	nic_close(a->nic);
	pthread_mutex_destroy(&a->ctx.verbs.context.mutex);
	free(a);
}

static void end_file(struct abi_file *file)
{
	end_objects(file->left, with_file, COUNT(with_file));
	for (int kind = 0; kind < LIVE_KINDS; kind++)
		if (file->left[kind])
			return; /* a peer is copying to or from a region, which stays */
	for (struct abi_context *a = file->closed, *next; a; a = next) {
		next = a->next;
		free_context(a);
	}
	free(file);
}

void file_leave(struct core *core, struct abi_file *file)
{
	bool last;

	lock_take(&core->lock);
	last = --file->contexts == 0;
	lock_give(&core->lock);
	if (last)
		end_file(file);
}

void file_close(struct abi_context *a)
{
	struct live *own[LIVE_KINDS] = { NULL };
	struct core *core = a->ctx.core;
	int fd = a->ctx.verbs.context.cmd_fd;

	nic_flush(a->nic);
	live_take(&a->ctx.verbs.context, own);
	a->ctx.stays = own[LIVE_QP] || own[LIVE_CQ] || own[LIVE_SRQ] ||
		       own[LIVE_CHANNEL] || own[LIVE_WQ];
	if (a->ctx.stays)
		a->ctx.dead = true;
	async_ack_all(&a->ctx);
	end_objects(own, with_context, COUNT(with_context));
	shared_forget_context(&a->ctx);
	event_queue_fini(&a->ctx.async);
	if (fd_is(fd, &a->file->id))
		close(fd);
	lock_take(&core->lock);
	leave_objects(a->file, own);
	a->next = a->file->closed;
	a->file->closed = a;
	lock_give(&core->lock);
	file_leave(core, a->file);
}
