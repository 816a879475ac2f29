/* SPDX-License-Identifier: BSD-2-Clause */
/* Many connections at once: all are requested before the first is answered; all are up
 * while each carries a word both ways; all end together. */
#include <string.h>
#include <sys/resource.h>

#include "cm.h"

static struct end *ends_of(unsigned n)
{
	struct rlimit files;
	struct end *all = calloc(n, sizeof(*all));

	MUST(all && getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max; /* iWARP needs a socket for each connection */
	MUST(setrlimit(RLIMIT_NOFILE, &files) == 0);
	return all;
}

/* Returns the next event, but skips late events of an earlier connection; counts
 * ends. */
static enum rdma_cm_event_type next(struct rdma_event_channel *ch, struct rdma_cm_id **id)
{
	enum rdma_cm_event_type type;

	do {
		struct rdma_cm_event *ev = cm_event(ch);

		type = ev->event;
		*id = ev->id;
		if (ev->status) {
			fprintf(stderr, "%s, status %d\n", rdma_event_str(type),
				ev->status);
			exit(1);
		}
		MUST(rdma_ack_cm_event(ev) == 0);
	} while (type == RDMA_CM_EVENT_TIMEWAIT_EXIT);
	return type;
}

static void all_are(struct rdma_event_channel *ch, unsigned n,
		    enum rdma_cm_event_type type)
{
	struct rdma_cm_id *id;

	while (n--)
		MUST(next(ch, &id) == type);
}

static void serve_request(struct end *e, struct rdma_cm_id *id)
{
	id->context = e;
	end_make(e, id);
	end_recv(e);
	MUST(rdma_accept(id, NULL) == 0);
}

int at_once_serve(const char *ip, unsigned port, unsigned n)
{
	struct end *all = ends_of(n);
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *listener = cm_listener(ch, ip, port, (int)n), *id;

	puts("listening");
	fflush(stdout);
	for (unsigned asked = 0, stand = 0; stand < n;) {
		if (next(ch, &id) == RDMA_CM_EVENT_CONNECT_REQUEST)
			serve_request(&all[asked++], id);
		else
			stand++;
	}
	for (unsigned i = 0; i < n; i++) {
		end_wait(&all[i], IBV_WC_RECV);
		memcpy(all[i].buf, all[i].buf + MSG, MSG);
		end_send(&all[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		MUST(next(ch, &id) == RDMA_CM_EVENT_DISCONNECTED);
		MUST(rdma_disconnect(id) == 0);
	}
	for (unsigned i = 0; i < n; i++)
		end_break(&all[i]);
	MUST(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(ch);
	free(all);
	return 0;
}

static void prepare(struct rdma_event_channel *ch, struct end *all, const char *ip,
		    unsigned port, unsigned n)
{
	struct sockaddr_storage a = cm_address(ip, port);
	struct rdma_cm_id *id;

	for (unsigned i = 0; i < n; i++) {
		MUST(rdma_create_id(ch, &id, &all[i], RDMA_PS_TCP) == 0);
		MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1000) == 0);
	}
	for (unsigned i = 0; i < n; i++) {
		MUST(next(ch, &id) == RDMA_CM_EVENT_ADDR_RESOLVED);
		MUST(rdma_resolve_route(id, 1000) == 0);
	}
	for (unsigned i = 0; i < n; i++) {
		MUST(next(ch, &id) == RDMA_CM_EVENT_ROUTE_RESOLVED);
		end_make(id->context, id);
		end_recv(id->context);
	}
}

int at_once_ask(const char *ip, unsigned port, unsigned n)
{
	struct end *all = ends_of(n);
	struct rdma_event_channel *ch = cm_channel();

	prepare(ch, all, ip, port, n);
	for (unsigned i = 0; i < n; i++)
		MUST(rdma_connect(all[i].id, NULL) == 0);
	all_are(ch, n, RDMA_CM_EVENT_ESTABLISHED);
	for (unsigned i = 0; i < n; i++) {
		snprintf(all[i].buf, MSG, "word %u", i);
		end_send(&all[i]);
	}
	for (unsigned i = 0; i < n; i++) {
		end_wait(&all[i], IBV_WC_SEND);
		end_wait(&all[i], IBV_WC_RECV);
		MUST(memcmp(all[i].buf, all[i].buf + MSG, MSG) == 0);
	}
	for (unsigned i = 0; i < n; i++)
		MUST(rdma_disconnect(all[i].id) == 0);
	all_are(ch, n, RDMA_CM_EVENT_DISCONNECTED);
	for (unsigned i = 0; i < n; i++)
		end_break(&all[i]);
	printf("%u at once\n", n);
	rdma_destroy_event_channel(ch);
	free(all);
	return 0;
}
