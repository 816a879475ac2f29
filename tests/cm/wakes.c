/* SPDX-License-Identifier: BSD-2-Clause */
/* What happened before a program began to wait wakes it: event channels and asynchronous
 * events, whose descriptors the program polls (level and edge triggered) and makes
 * non-blocking. No wait here has time: what is there is there at once. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include "cm.h"

struct source {
	int fd;
	void (*cause)(struct source *s); /* makes one event */
	bool (*take)(struct source *s);	 /* reads one; false: EAGAIN */
	const char *ip;
	unsigned port;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id[8];
	unsigned n;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp[8];
};

/* --- the two kinds of event ------------------------------------------------ */

static void resolve(struct source *s)
{
	struct sockaddr_storage a = cm_address(s->ip, s->port);

	MUST(rdma_create_id(s->ch, &s->id[s->n], NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(s->id[s->n++], NULL, (void *)&a, 1) == 0);
}

static bool take_cm(struct source *s)
{
	struct rdma_cm_event *ev;

	if (rdma_get_cm_event(s->ch, &ev)) {
		MUST(errno == EAGAIN);
		return false;
	}
	MUST(ev->event == RDMA_CM_EVENT_ADDR_RESOLVED);
	MUST(rdma_ack_cm_event(ev) == 0);
	return true;
}

/* A QP with an SRQ that goes to ERR has reached its last WQE. */
static void fail_qp(struct source *s)
{
	struct ibv_qp_init_attr init = { .send_cq = s->cq,
					 .recv_cq = s->cq,
					 .srq = s->srq,
					 .cap = { .max_send_wr = 1, .max_send_sge = 1 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	s->qp[s->n] = ibv_create_qp(s->pd, &init);
	MUST(s->qp[s->n]);
	MUST(ibv_modify_qp(s->qp[s->n], &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				   IBV_QP_ACCESS_FLAGS) == 0);
	attr.qp_state = IBV_QPS_ERR;
	MUST(ibv_modify_qp(s->qp[s->n++], &attr, IBV_QP_STATE) == 0);
}

static bool take_async(struct source *s)
{
	struct ibv_async_event ev;

	if (ibv_get_async_event(s->ctx, &ev)) {
		MUST(errno == EAGAIN);
		return false;
	}
	MUST(ev.event_type == IBV_EVENT_QP_LAST_WQE_REACHED);
	ibv_ack_async_event(&ev);
	return true;
}

/* --- waiting for them ------------------------------------------------------ */

static bool polled(int fd)
{
	return poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) == 1;
}

static bool selected(int fd)
{
	struct timeval none = { 0, 0 };
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	return select(fd + 1, &set, NULL, NULL, &none) == 1;
}

static int watching(int fd, uint32_t how)
{
	struct epoll_event e = { .events = EPOLLIN | how };
	int ep = epoll_create1(0);

	MUST(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) == 0);
	return ep;
}

static bool told(int ep)
{
	struct epoll_event e;

	return epoll_wait(ep, &e, 1, 0) == 1;
}

static void block(int fd, bool yes)
{
	int flags = fcntl(fd, F_GETFL);

	MUST(fcntl(fd, F_SETFL, yes ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0);
}

static void wakes(struct source *s)
{
	int level, edge;

	MUST(!polled(s->fd));
	s->cause(s);
	MUST(polled(s->fd) && selected(s->fd));
	MUST(s->take(s)); /* a blocking call does not block */
	MUST(!polled(s->fd) && !selected(s->fd));
	block(s->fd, false);
	MUST(!s->take(s));

	/* Events that are there before the set is made, and before it is waited on. */
	s->cause(s);
	s->cause(s);
	level = watching(s->fd, 0);
	edge = watching(s->fd, EPOLLET);
	MUST(told(level) && told(level));
	MUST(told(edge) && !told(edge));
	/* A program that reads one only is told of the next that comes. */
	MUST(s->take(s));
	MUST(told(level));
	s->cause(s);
	MUST(told(edge));
	MUST(s->take(s) && s->take(s) && !s->take(s));
	MUST(!told(level) && !told(edge));
	s->cause(s);
	MUST(told(level) && told(edge));
	MUST(s->take(s) && !s->take(s));
	block(s->fd, true);
	s->cause(s);
	MUST(s->take(s));
	MUST(!polled(s->fd));
	close(level);
	close(edge);
}

static void channels(const char *ip, unsigned port)
{
	struct source s = { .cause = resolve, .take = take_cm, .ip = ip, .port = port };

	s.ch = cm_channel();
	s.fd = s.ch->fd;
	wakes(&s);
	while (s.n)
		MUST(rdma_destroy_id(s.id[--s.n]) == 0);
	rdma_destroy_event_channel(s.ch);
}

static void async(void)
{
	struct source s = { .cause = fail_qp, .take = take_async };
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct ibv_context **list = rdma_get_devices(NULL);

	MUST(list && list[0]);
	s.ctx = list[0];
	rdma_free_devices(list);
	s.fd = s.ctx->async_fd;
	s.pd = ibv_alloc_pd(s.ctx);
	MUST(s.pd);
	s.cq = ibv_create_cq(s.ctx, 8, NULL, NULL, 0);
	s.srq = ibv_create_srq(s.pd, &attr);
	MUST(s.cq && s.srq);
	wakes(&s);
	while (s.n)
		MUST(ibv_destroy_qp(s.qp[--s.n]) == 0);
	MUST(ibv_destroy_srq(s.srq) == 0);
	MUST(ibv_destroy_cq(s.cq) == 0);
	MUST(ibv_dealloc_pd(s.pd) == 0);
}

int wakes_at_once(const char *ip, unsigned port)
{
	channels(ip, port);
	async();
	return 0;
}
