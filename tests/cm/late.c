/* SPDX-License-Identifier: BSD-2-Clause */
/* A server that posts each receive only when it is about to wait for the message, and
 * with rnr_retry_count 0: the client's message is often there before. */
#include "cm.h"

static struct rdma_conn_param no_retries(void)
{
	return (struct rdma_conn_param){ .retry_count = 7, .rnr_retry_count = 0 };
}

int late_serve(const char *ip, unsigned port, unsigned n)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *listener = cm_listener(ch, ip, port, 1);
	struct rdma_conn_param p = no_retries();
	struct rdma_cm_event *ev;
	struct end e = { 0 };

	puts("listening");
	fflush(stdout);
	ev = cm_expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	end_make(&e, ev->id);
	MUST(rdma_accept(ev->id, &p) == 0);
	MUST(rdma_ack_cm_event(ev) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	while (n--) {
		end_recv(&e);
		end_wait(&e, IBV_WC_RECV);
	}
	cm_ack(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	end_break(&e);
	MUST(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(ch);
	return 0;
}

int late_ask(const char *ip, unsigned port, unsigned n)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_conn_param p = no_retries();
	struct end e = { 0 };

	cm_resolved(&e, ch, ip, port);
	MUST(rdma_connect(e.id, &p) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	for (unsigned i = 0; i < n; i++) {
		end_send(&e);
		end_wait(&e, IBV_WC_SEND);
	}
	MUST(rdma_disconnect(e.id) == 0);
	cm_ack(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	end_break(&e);
	rdma_destroy_event_channel(ch);
	printf("%u late\n", n);
	return 0;
}
