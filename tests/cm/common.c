/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cm.h"

void die_if(const char *step, const char *now)
{
	if (!strcmp(step, now))
		kill(getpid(), SIGKILL);
}

struct sockaddr_storage cm_address(const char *ip, unsigned port)
{
	struct sockaddr_storage a = { 0 };
	struct sockaddr_in *in = (void *)&a;
	struct sockaddr_in6 *in6 = (void *)&a;

	if (inet_pton(AF_INET, ip, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
	} else {
		MUST(inet_pton(AF_INET6, ip, &in6->sin6_addr) == 1);
		in6->sin6_family = AF_INET6;
	}
	in->sin_port = htons((uint16_t)port);
	return a;
}

struct rdma_event_channel *cm_channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	MUST(ch);
	return ch;
}

bool cm_sleeps_inside;

struct rdma_cm_event *cm_event(struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	if (!cm_sleeps_inside)
		MUST(poll(&p, 1, WAIT_MS) == 1);
	MUST(rdma_get_cm_event(ch, &ev) == 0);
	return ev;
}

struct rdma_cm_event *cm_expect(struct rdma_event_channel *ch,
				enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *ev = cm_event(ch);

	/* Skips the timewait exits of earlier connections. */
	while (ev->event == RDMA_CM_EVENT_TIMEWAIT_EXIT && type != ev->event) {
		rdma_ack_cm_event(ev);
		ev = cm_event(ch);
	}
	if (ev->event != type || (status != 1 && ev->status != status)) {
		fprintf(stderr, "wanted %s, %d: got %s, %d\n", rdma_event_str(type),
			status, rdma_event_str(ev->event), ev->status);
		exit(1);
	}
	return ev;
}

void cm_ack(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status)
{
	MUST(rdma_ack_cm_event(cm_expect(ch, type, status)) == 0);
}

void end_make(struct end *e, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4,
			 .max_recv_wr = 4,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};

	e->id = id;
	e->seen = 0;
	e->cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	MUST(e->cq);
	attr.send_cq = attr.recv_cq = e->cq;
	MUST(rdma_create_qp(id, id->pd, &attr) == 0);
	e->mr = ibv_reg_mr(id->pd, e->buf, sizeof(e->buf), IBV_ACCESS_LOCAL_WRITE);
	MUST(e->mr);
}

void end_break(struct end *e)
{
	rdma_destroy_qp(e->id);
	MUST(ibv_dereg_mr(e->mr) == 0);
	MUST(ibv_destroy_cq(e->cq) == 0);
	MUST(rdma_destroy_id(e->id) == 0);
}

void end_recv(struct end *e)
{
	MUST(rdma_post_recv(e->id, NULL, e->buf + MSG, MSG, e->mr) == 0);
}

void end_send(struct end *e)
{
	MUST(rdma_post_send(e->id, NULL, e->buf, MSG, e->mr, IBV_SEND_SIGNALED) == 0);
}

void end_wait(struct end *e, enum ibv_wc_opcode opcode)
{
	unsigned want = opcode == IBV_WC_RECV ? 2 : 1;
	struct ibv_wc wc;

	while (!(e->seen & want)) {
		int n = ibv_poll_cq(e->cq, 1, &wc);

		MUST(n >= 0);
		if (n == 0)
			continue;
		if (wc.status != IBV_WC_SUCCESS) {
			fprintf(stderr, "completion: %s\n", ibv_wc_status_str(wc.status));
			exit(1);
		}
		e->seen |= wc.opcode == IBV_WC_RECV ? 2 : 1;
	}
	e->seen &= ~want;
}

struct rdma_cm_id *cm_listener(struct rdma_event_channel *ch, const char *ip,
			       unsigned port, int backlog)
{
	struct sockaddr_storage a = cm_address(ip, port);
	struct rdma_cm_id *id;

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_bind_addr(id, (struct sockaddr *)&a) == 0);
	MUST(rdma_listen(id, backlog) == 0);
	return id;
}

void cm_resolved(struct end *e, struct rdma_event_channel *ch, const char *ip,
		 unsigned port)
{
	struct sockaddr_storage a = cm_address(ip, port);
	struct rdma_cm_id *id;

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1000) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(id->verbs);
	MUST(rdma_resolve_route(id, 1000) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	end_make(e, id);
}
