/* SPDX-License-Identifier: BSD-2-Clause */
/* A server that answers each word, whatever becomes of its other clients; and
 * clients: many connections at once, or one that dies at a step. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include "cm.h"

enum { CROWD_MAX = 1024 };

static struct end *crowd[CROWD_MAX];
static unsigned crowd_n;

/* --- the server ---------------------------------------------------------- */

static void come(struct rdma_cm_id *id)
{
	struct end *e = calloc(1, sizeof(*e));

	MUST(e && crowd_n < CROWD_MAX);
	/* The id knows both addresses. */
	MUST(rdma_get_local_addr(id)->sa_family == rdma_get_peer_addr(id)->sa_family);
	MUST(rdma_get_src_port(id) && rdma_get_dst_port(id));
	end_make(e, id);
	end_recv(e);
	id->context = e;
	crowd[crowd_n++] = e;
	/* The peer that has asked may be gone: no event follows then. */
	if (rdma_accept(id, NULL) == 0)
		return;
	end_break(e);
	free(e);
	crowd_n--;
}

static void go(struct end *e)
{
	for (unsigned i = 0; i < crowd_n; i++)
		if (crowd[i] == e)
			crowd[i] = crowd[--crowd_n];
	end_break(e);
	free(e);
}

static void told(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev = cm_event(ch);
	enum rdma_cm_event_type type = ev->event;
	struct rdma_cm_id *id = ev->id;

	MUST(rdma_ack_cm_event(ev) == 0);
	if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
		come(id);
	else if (type == RDMA_CM_EVENT_DISCONNECTED ||
		 type == RDMA_CM_EVENT_CONNECT_ERROR ||
		 type == RDMA_CM_EVENT_UNREACHABLE || type == RDMA_CM_EVENT_REJECTED)
		go(id->context);
	else
		MUST(type == RDMA_CM_EVENT_ESTABLISHED ||
		     type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

static void answer(struct end *e)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(e->cq, 1, &wc) > 0) {
		if (wc.status || wc.opcode != IBV_WC_RECV)
			continue; /* an event tells what has happened */
		/* The client's message names the port that it connects from. */
		MUST(atoi(e->buf + MSG) == ntohs(rdma_get_dst_port(e->id)));
		memcpy(e->buf, e->buf + MSG, MSG);
		end_recv(e);
		end_send(e);
	}
}

/* Serves until it is killed. Prints a line whenever the last client has gone. */
int crowd_serve(const char *ip, unsigned port)
{
	struct rdma_event_channel *ch = cm_channel();
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	bool empty = false;

	cm_listener(ch, ip, port, 128);
	for (;;) {
		if (!crowd_n && !empty)
			puts("nobody is there");
		fflush(stdout);
		empty = !crowd_n;
		if (poll(&p, 1, crowd_n ? 1 : -1) > 0)
			told(ch);
		for (unsigned i = 0; i < crowd_n; i++)
			answer(crowd[i]);
	}
}

/* --- clients ------------------------------------------------------------- */

static void say(struct end *e)
{
	memset(e->buf, 0, sizeof(e->buf));
	snprintf(e->buf, MSG, "%u", ntohs(rdma_get_src_port(e->id)));
	end_send(e);
}

static void heard(struct end *e)
{
	end_wait(e, IBV_WC_RECV);
	MUST(memcmp(e->buf, e->buf + MSG, MSG) == 0);
}

/* Makes n connections at the same time. */
int crowd_ask(const char *ip, unsigned port, unsigned n)
{
	struct rdma_event_channel *ch = cm_channel();
	struct end *e = calloc(n, sizeof(*e));

	for (unsigned i = 0; i < n; i++) {
		cm_resolved(&e[i], ch, ip, port);
		end_recv(&e[i]);
	}
	for (unsigned i = 0; i < n; i++)
		MUST(rdma_connect(e[i].id, NULL) == 0);
	for (unsigned i = 0; i < n; i++)
		cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	for (unsigned i = 0; i < n; i++)
		say(&e[i]);
	for (unsigned i = 0; i < n; i++)
		heard(&e[i]);
	for (unsigned i = 0; i < n; i++)
		MUST(rdma_disconnect(e[i].id) == 0);
	for (unsigned i = 0; i < n; i++)
		end_break(&e[i]);
	rdma_destroy_event_channel(ch);
	free(e);
	return 0;
}

int crowd_leave(const char *ip, unsigned port, const char *step)
{
	struct rdma_event_channel *ch = cm_channel();
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct end e;

	cm_resolved(&e, ch, ip, port);
	end_recv(&e);
	MUST(rdma_connect(e.id, NULL) == 0);
	die_if(step, "asked");
	MUST(poll(&p, 1, WAIT_MS) == 1);
	die_if(step, "answered");
	cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	die_if(step, "established");
	say(&e);
	die_if(step, "said");
	heard(&e);
	MUST(rdma_disconnect(e.id) == 0);
	die_if(step, "parted");
	return 1;
}
