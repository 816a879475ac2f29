/* SPDX-License-Identifier: BSD-2-Clause */
/* id.c - see id.h. */
#include "rdmacm/id.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/addr.h"
#include "sys/log.h"
#include "sys/rand.h"
#include "sys/sockaddr.h"

/* --- events -------------------------------------------------------------- */

int cma_post(struct cma_id *id, enum rdma_cm_event_type type, int status,
	     struct cma_group *group)
{
	struct cma_event *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->ev = (struct rdma_cm_event){ .id = &id->id, .event = type, .status = status };
	e->group = group;
	return cma_put(&id->source, e);
}

/* Called by the engine, under its turn: only stores the event. */
static bool queue_event(struct cm_owner *owner, const struct cm_event *ev)
{
	struct cma_id *id = container_of(owner, struct cma_id, owner);
	struct cma_event *e = calloc(1, sizeof(*e));

	if (!e)
		return false;
	e->raw = true;
	e->type = ev->type;
	e->ev.id = &id->id;
	e->ev.status = ev->status;
	if (ev->type == CM_EV_REQUEST)
		e->conn = ev->conn;
	if (ev->from)
		e->from = *ev->from;
	if (ev->path)
		e->path = *ev->path;
	if (ev->peer) {
		e->peer = *ev->peer;
		if (e->peer.private_len > CMA_PRIVATE_MAX)
			e->peer.private_len = CMA_PRIVATE_MAX;
		if (e->peer.private_len)
			memcpy(e->private, ev->peer->private, e->peer.private_len);
		e->peer.private = e->private;
	}
	return cma_put(&id->source, e) == 0;
}

void cma_ack_own(struct cma_id *id)
{
	if (!id->id.event)
		return;
	cma_done((struct cma_event *)id->id.event);
	id->id.event = NULL;
}

void cma_stop(struct cma_id *id)
{
	struct list unread;

	list_init(&unread);
	cma_source_stop(&id->source, &unread);
	list_for_safe(n, &unread)
	{
		struct cma_event *e = container_of(n, struct cma_event, node);

		if (e->conn)
			cm_gate_close(id->ctx, e->conn);
		free(e);
	}
}

/* --- making ids ---------------------------------------------------------- */

static enum ibv_qp_type qp_type_of(enum rdma_port_space ps)
{
	return ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB ? IBV_QPT_UD : IBV_QPT_RC;
}

static uint32_t random_psn(void)
{
	return rand_start() & 0xffffff;
}

static int give_channel(struct cma_id *id, struct rdma_event_channel *ch)
{
	struct cma_channel *own = NULL;

	if (!ch) {
		own = cma_channel_new();
		if (!own)
			return -errno;
		ch = &own->ch;
	}
	id->sync = own != NULL;
	id->id.channel = ch;
	cma_source_open(&id->source, (struct cma_channel *)ch);
	return 0;
}

int cma_id_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
	       enum ibv_qp_type type, struct cma_id **out)
{
	struct cma_id *id;
	int rc = cma_init();

	if (rc)
		return rc;
	id = calloc(1, sizeof(*id));
	if (!id)
		return -ENOMEM;
	rc = give_channel(id, ch);
	if (rc) {
		free(id);
		return rc;
	}
	id->id.context = context;
	id->id.ps = ps;
	id->id.qp_type = type;
	id->owner.event = queue_event;
	id->ack_timeout = CMA_ACK_TIMEOUT;
	id->psn = random_psn();
	id->qkey = RDMA_UDP_QKEY;
	list_init(&id->groups);
	live_add(&id->live, LIVE_CM_ID, NULL);
	*out = id;
	return 0;
}

void cma_id_free(struct cma_id *id)
{
	live_del(&id->live);
	if (id->sync)
		cma_channel_free((struct cma_channel *)id->id.channel);
	cma_source_close(&id->source);
	free(id->id.route.path_rec);
	free(id->qp_init);
	free(id->connect);
	free(id);
}

int cma_create(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
	       struct cma_id **out)
{
	if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IB &&
	    ps != RDMA_PS_IPOIB)
		return -EINVAL;
	return cma_id_new(ch, context, ps, qp_type_of(ps), out);
}

/* --- moving to another channel, options ---------------------------------- */

int cma_migrate(struct cma_id *id, struct rdma_event_channel *channel)
{
	struct cma_channel *own = NULL, *old = NULL;

	if (id->sync && !channel)
		return -EINVAL;
	if (!channel) {
		own = cma_channel_new();
		if (!own)
			return -errno;
		channel = &own->ch;
	}
	if (id->sync) {
		old = (struct cma_channel *)id->id.channel;
		cma_ack_own(id);
	}
	cma_source_move(&id->source, (struct cma_channel *)channel);
	id->id.channel = channel;
	id->sync = own != NULL;
	if (old)
		cma_channel_free(old);
	return 0;
}

static int set_id_option(struct cma_id *id, int name, const void *val, size_t len)
{
	switch (name) {
	case RDMA_OPTION_ID_TOS:
		if (len != sizeof(uint8_t))
			return -EINVAL;
		memcpy(&id->tos, val, 1);
		id->to.route.tclass = id->tos;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		if (len != sizeof(uint8_t) || *(const uint8_t *)val > 31)
			return -EINVAL;
		memcpy(&id->ack_timeout, val, 1);
		id->ack_said = true;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		if (len != sizeof(int) || id->state > CMA_BOUND)
			return -EINVAL;
		id->reuse = *(const int *)val != 0;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (len != sizeof(int) || id->state != CMA_NEW)
			return -EINVAL;
		id->afonly = *(const int *)val != 0;
		return 0;
	default:
		return -ENOSYS;
	}
}

int cma_set_option(struct cma_id *id, int level, int name, const void *val, size_t len)
{
	if (len && !val)
		return -EFAULT;
	if (level == RDMA_OPTION_ID)
		return set_id_option(id, name, val, len);
	return -ENOSYS; /* RDMA_OPTION_IB_PATH is cma_set_path() */
}

int cma_set_ece(struct cma_id *id, const struct ibv_ece *ece)
{
	if (id->id.qp || !ece || !ece->vendor_id || ece->comp_mask)
		return -EINVAL;
	id->ece = *ece;
	return 0;
}

int cma_get_ece(const struct cma_id *id, struct ibv_ece *ece)
{
	if (id->id.qp || !ece)
		return -EINVAL;
	*ece = id->peer_ece;
	ece->comp_mask = 0;
	return 0;
}

/* --- calls that are refused ---------------------------------------------- */

/* Why the thread's call is refused; NULL: only errno says it. */
static __thread const char *reason;

int cma_refuse(const char *why)
{
	reason = why;
	return -EINVAL;
}

int cma_not_now(const struct cma_id *id)
{
	static const char *const state[] = {
		[CMA_NEW] = "the id is new: rdma_bind_addr, or rdma_resolve_addr and its "
			    "event, come first",
		[CMA_BOUND] = "the id is bound, and its peer's address not resolved",
		[CMA_ADDR] = "the id's address is resolved: rdma_resolve_route and its "
			     "event come next",
		[CMA_QUERY] = "the id waits for the event of rdma_resolve_route",
		[CMA_ROUTE] = "the id's route is resolved: rdma_connect comes next",
		[CMA_CONNECT] = "the id is connected, or about to be",
		[CMA_REQUEST] =
			"the id is a request: rdma_accept or rdma_reject answers it",
		[CMA_LISTEN] = "the id listens",
	};

	return cma_refuse(state[id->state]);
}

static const char *why(int rc)
{
	switch (-rc) {
	case EADDRINUSE:
		return "another id, of this or another process, has that port: end it, "
		       "choose another port, or set RDMA_OPTION_ID_REUSEADDR";
	case EADDRNOTAVAIL:
		return "this host has no such address: ip addr shows those that it has";
	case ENODEV:
		return "no RDMA device has that address, or there is none: urnic devices "
		       "lists them";
	case ENETUNREACH:
	case EHOSTUNREACH:
		return "no route leads to that address: ip route get shows it; is an "
		       "interface down?";
	case EACCES:
		return "the kernel forbids it, as for a broadcast address";
	case EAFNOSUPPORT:
		return "the address is neither of IPv4 or IPv6 nor AF_IB, or the host has "
		       "not that family";
	case EPROTONOSUPPORT:
		return "the service ID is of another port space than the id's";
	case ENOSYS:
		return "urnic has no such option, or another libibverbs has opened the "
		       "devices: start the program by urnic run";
	case EIO:
		return "the device is lost, or a parent process opened it: open it again";
	case EINVAL:
		return "an argument is invalid, or the id is in no state for this call";
	default:
		return NULL;
	}
}

void cma_say_refused(const struct cma_id *id, const char *call, const struct sockaddr *a,
		     int rc)
{
	const char *what = reason ? reason : why(rc);
	char ip[INET6_ADDRSTRLEN], where[INET6_ADDRSTRLEN + 40] = "";
	uint8_t addr[16];

	reason = NULL;
	if (log_level < LOG_INFO)
		return;
	if (!a && id && id->id.route.addr.dst_addr.sa_family)
		a = &id->id.route.addr.dst_addr;
	else if (!a && id)
		a = &id->id.route.addr.src_addr;
	if (a && sockaddr_len(a)) {
		sockaddr_ip(a, addr);
		snprintf(where, sizeof(where), " (%s, port %u)", addr_text(addr, ip),
			 sockaddr_port(a));
	}
	log_info("rdma_cm: %s%s refused: %s%s%s", call, where, strerror(-rc),
		 what ? ": " : "", what ? what : "");
}
