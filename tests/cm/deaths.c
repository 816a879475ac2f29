/* SPDX-License-Identifier: BSD-2-Clause */
/* A server that dies at a given step, and the events that its client gets. */
#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "cm.h"

int deaths_serve(const char *ip, unsigned port, const char *step)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_event *ev;
	struct end e;

	cm_listener(ch, ip, port, 16);
	puts("listening");
	fflush(stdout);
	ev = cm_expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	die_if(step, "requested");
	end_make(&e, ev->id);
	rdma_ack_cm_event(ev);
	MUST(rdma_accept(e.id, NULL) == 0);
	die_if(step, "accepted");
	cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	die_if(step, "established");
	if (!strcmp(step, "exit"))
		return 0;
	cm_ack(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	die_if(step, "disconnected");
	return 0;
}

/* Prints the events from the connect to the end. */
int deaths_ask(const char *ip, unsigned port, const char *step)
{
	struct rdma_event_channel *ch = cm_channel();
	struct end e;
	bool over = false;

	cm_resolved(&e, ch, ip, port);
	if (!strcmp(step, "never"))
		printf("QP 0x%x of 0x%llx\n", e.id->qp->qp_num,
		       (unsigned long long)be64toh(
			       ibv_get_device_guid(e.id->verbs->device)));
	MUST(rdma_connect(e.id, NULL) == 0);
	while (!over) {
		struct rdma_cm_event *ev = cm_event(ch);

		printf("%s %d\n", rdma_event_str(ev->event), ev->status);
		fflush(stdout);
		over = ev->event != RDMA_CM_EVENT_ESTABLISHED;
		rdma_ack_cm_event(ev);
		if (!over && !strcmp(step, "disconnected"))
			MUST(rdma_disconnect(e.id) == 0);
	}
	end_break(&e);
	rdma_destroy_event_channel(ch);
	return 0;
}
