/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections one after the other, each asked for as soon as the one before stands: the
 * server sees the events of both in the order of the client's calls. */
#include "cm.h"

static void all_end(struct rdma_event_channel *ch, unsigned n)
{
	while (n) {
		struct rdma_cm_event *ev = cm_event(ch);

		if (ev->event == RDMA_CM_EVENT_DISCONNECTED)
			n--;
		else
			MUST(ev->event == RDMA_CM_EVENT_TIMEWAIT_EXIT);
		MUST(rdma_ack_cm_event(ev) == 0);
	}
}

static void end_all(struct rdma_event_channel *ch, struct end *all, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		MUST(rdma_disconnect(all[i].id) == 0);
	all_end(ch, n);
	for (unsigned i = 0; i < n; i++)
		end_break(&all[i]);
	free(all);
}

int in_turn_serve(const char *ip, unsigned port, unsigned n)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *listener = cm_listener(ch, ip, port, (int)n);
	struct end *all = calloc(n, sizeof(*all));

	MUST(all);
	puts("listening");
	fflush(stdout);
	for (unsigned i = 0; i < n; i++) {
		struct rdma_cm_event *ev =
			cm_expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

		end_make(&all[i], ev->id);
		MUST(rdma_ack_cm_event(ev) == 0);
		MUST(rdma_accept(all[i].id, NULL) == 0);
		cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	}
	end_all(ch, all, n);
	MUST(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(ch);
	return 0;
}

int in_turn_ask(const char *ip, unsigned port, unsigned n)
{
	struct rdma_event_channel *ch = cm_channel();
	struct end *all = calloc(n, sizeof(*all));

	MUST(all);
	for (unsigned i = 0; i < n; i++)
		cm_resolved(&all[i], ch, ip, port);
	for (unsigned i = 0; i < n; i++) {
		MUST(rdma_connect(all[i].id, NULL) == 0);
		cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	}
	end_all(ch, all, n);
	rdma_destroy_event_channel(ch);
	return 0;
}
