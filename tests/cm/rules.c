/* SPDX-License-Identifier: BSD-2-Clause */
/* The promises of rdma_cm(7) and its calls' man pages, in one process. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "cm.h"

static int bind_to(struct rdma_event_channel *ch, const char *ip, unsigned port,
		   enum rdma_port_space ps, struct rdma_cm_id **id)
{
	struct sockaddr_storage a = cm_address(ip, port);

	MUST(rdma_create_id(ch, id, NULL, ps) == 0);
	return rdma_bind_addr(*id, (struct sockaddr *)&a);
}

static void ports(const char *ip, unsigned port)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *a, *b, *c;
	int on = 1;

	MUST(bind_to(ch, ip, port, RDMA_PS_TCP, &a) == 0);
	MUST(ntohs(rdma_get_src_port(a)) == port);
	MUST(bind_to(ch, ip, port, RDMA_PS_TCP, &b) == -1 && errno == EADDRINUSE);
	rdma_destroy_id(b);
	/* Another port space has ports of its own. */
	MUST(bind_to(ch, ip, port, RDMA_PS_UDP, &b) == 0);
	rdma_destroy_id(b);
	MUST(bind_to(ch, strchr(ip, ':') ? "::" : "0.0.0.0", port, RDMA_PS_TCP, &b) ==
		     -1 &&
	     errno == EADDRINUSE);
	rdma_destroy_id(b);
	MUST(rdma_listen(a, 0) == 0);
	MUST(rdma_listen(a, 0) == -1 && errno == EINVAL);
	rdma_destroy_id(a);
	/* The port is free again. Port 0 chooses one that is free. */
	MUST(bind_to(ch, ip, port, RDMA_PS_TCP, &a) == 0);
	MUST(bind_to(ch, ip, 0, RDMA_PS_TCP, &b) == 0);
	MUST(rdma_get_src_port(b) != 0 && rdma_get_src_port(b) != rdma_get_src_port(a));
	/* With REUSEADDR a second id may bind to the port, but not listen. */
	MUST(rdma_create_id(ch, &c, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_set_option(c, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
			     sizeof(on)) == 0);
	struct sockaddr_storage addr = cm_address(ip, port);
	MUST(rdma_bind_addr(c, (struct sockaddr *)&addr) == 0);
	MUST(rdma_listen(c, 1) == -1 && errno == EADDRINUSE);
	rdma_destroy_id(c);
	rdma_destroy_id(b);
	rdma_destroy_id(a);
	MUST(bind_to(ch, "203.0.113.1", port, RDMA_PS_TCP, &a) == -1 &&
	     errno == EADDRNOTAVAIL);
	rdma_destroy_id(a);
	MUST(bind_to(ch, "2001:db8::1", port, RDMA_PS_TCP, &a) == -1 &&
	     errno == EADDRNOTAVAIL);
	rdma_destroy_id(a);
	rdma_destroy_event_channel(ch);
}

static void states(const char *ip, unsigned port)
{
	struct rdma_event_channel *ch = cm_channel();
	struct sockaddr_storage a = cm_address(ip, port);
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	MUST(rdma_create_id(ch, &id, (void *)7, RDMA_PS_TCP) == 0);
	MUST(id->context == (void *)7 && id->channel == ch && id->ps == RDMA_PS_TCP);
	MUST(rdma_bind_addr(id, NULL) == -1 && errno == EINVAL);
	MUST(rdma_resolve_addr(id, NULL, NULL, 1) == -1 && errno == EINVAL);
	MUST(rdma_connect(id, NULL) == -1 && errno == EINVAL);
	MUST(rdma_accept(id, NULL) == -1 && errno == EINVAL);
	MUST(rdma_resolve_route(id, 1) == -1 && errno == EINVAL);
	MUST(rdma_disconnect(id) == -1 && errno == EINVAL);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1) == 0);
	ev = cm_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(ev->id == id && !ev->listen_id);
	rdma_ack_cm_event(ev);
	MUST(id->verbs && id->pd && id->port_num == 1);
	MUST(rdma_get_local_addr(id)->sa_family == a.ss_family);
	MUST(ntohs(rdma_get_dst_port(id)) == port && rdma_get_src_port(id));
	MUST(rdma_connect(id, NULL) == -1 && errno == EINVAL);
	rdma_destroy_id(id);
	/* Events that were not read go with their id. */
	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1) == 0);
	rdma_destroy_id(id);
	MUST(poll(&(struct pollfd){ .fd = ch->fd, .events = POLLIN }, 1, 0) == 0);
	/* No route (in a namespace without a default route), or a source that is not
	 * this host's: the call fails at once, and another address may be tried. */
	struct sockaddr_storage none = cm_address("203.0.113.1", port);

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&none, 1) == -1 &&
	     errno == ENETUNREACH);
	if (a.ss_family == AF_INET)
		MUST(rdma_resolve_addr(id, (struct sockaddr *)&none,
				       (struct sockaddr *)&a, 1) == -1 &&
		     errno == EADDRNOTAVAIL);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 1) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	rdma_destroy_id(id);
	/* No event waits: EAGAIN if the channel is nonblocking. */
	MUST(fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK) == 0);
	MUST(rdma_get_cm_event(ch, &ev) == -1 && errno == EAGAIN);
	rdma_destroy_event_channel(ch);
}

/* A source port given to rdma_resolve_addr() belongs to the id until it is destroyed. */
int source_port(const char *ip, unsigned port)
{
	struct rdma_event_channel *ch = cm_channel();
	struct sockaddr_storage from = cm_address(ip, port),
				to = cm_address(ip, port + 1);
	struct rdma_cm_id *a, *b;
	int on = 1;

	MUST(rdma_create_id(ch, &a, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_create_id(ch, &b, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(a, (void *)&from, (void *)&to, 1) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(ntohs(rdma_get_src_port(a)) == port);
	MUST(rdma_resolve_addr(b, (void *)&from, (void *)&to, 1) == -1 &&
	     errno == EADDRINUSE);
	MUST(rdma_bind_addr(b, (void *)&from) == -1 && errno == EADDRINUSE);
	MUST(rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
			     sizeof(on)) == 0);
	MUST(rdma_resolve_addr(b, (void *)&from, (void *)&to, 1) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	rdma_destroy_id(b);
	/* Free again with its id, for clients and servers. */
	rdma_destroy_id(a);
	MUST(rdma_create_id(ch, &a, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(a, (void *)&from, (void *)&to, 1) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	rdma_destroy_id(a);
	MUST(bind_to(ch, ip, port, RDMA_PS_TCP, &a) == 0);
	MUST(rdma_create_id(ch, &b, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(b, (void *)&from, (void *)&to, 1) == -1 &&
	     errno == EADDRINUSE);
	rdma_destroy_id(b);
	rdma_destroy_id(a);
	rdma_destroy_event_channel(ch);
	return 0;
}

/* Unread events move with an id that moves to another channel. */
static void moving(const char *ip, unsigned port)
{
	struct rdma_event_channel *a = cm_channel(), *b = cm_channel();
	struct sockaddr_storage to = cm_address(ip, port);
	struct pollfd p;
	struct rdma_cm_id *id;

	MUST(rdma_create_id(a, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1) == 0);
	MUST(rdma_migrate_id(id, b) == 0 && id->channel == b);
	cm_ack(b, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	p = (struct pollfd){ .fd = a->fd, .events = POLLIN };
	MUST(poll(&p, 1, 0) == 0);
	/* The id moves to no channel: its calls wait from now on. */
	MUST(rdma_migrate_id(id, NULL) == 0);
	MUST(rdma_resolve_route(id, 1) == 0);
	MUST(id->event && id->event->event == RDMA_CM_EVENT_ROUTE_RESOLVED);
	MUST(rdma_migrate_id(id, a) == 0 && !id->event);
	rdma_destroy_id(id);
	p = (struct pollfd){ .fd = b->fd, .events = POLLIN };
	MUST(poll(&p, 1, 0) == 0);
	rdma_destroy_event_channel(a);
	rdma_destroy_event_channel(b);
}

/* Both ends are in this process; a listener rejects, and then accepts. */
static bool is_loopback(const char *ip)
{
	return !strncmp(ip, "127.", 4) || !strcmp(ip, "::1");
}

static bool has_others(void)
{
	struct ibv_context **list = rdma_get_devices(NULL);
	bool some = false;

	MUST(list);
	for (int i = 0; list[i]; i++)
		some |= !strstr(ibv_get_device_name(list[i]->device), "_lo");
	rdma_free_devices(list);
	return some;
}

static void words(const char *ip, unsigned port)
{
	struct rdma_conn_param p = { .private_data = "please",
				     .private_data_len = 7,
				     .responder_resources = 3,
				     .initiator_depth = 2,
				     .retry_count = 5,
				     .rnr_retry_count = 4 };
	struct rdma_event_channel *sch = cm_channel(), *cch = cm_channel();
	struct rdma_cm_id *listener = cm_listener(sch, ip, port, 16);
	struct rdma_cm_event *ev;
	struct end c, s;

	cm_resolved(&c, cch, ip, port);
	MUST(rdma_connect(c.id, &p) == 0);
	ev = cm_expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	MUST(ev->listen_id == listener && ev->id != listener);
	MUST(ev->param.conn.private_data_len == 56);
	MUST(!memcmp(ev->param.conn.private_data, "please", 7));
	MUST(ev->param.conn.responder_resources == 2);
	MUST(ev->param.conn.initiator_depth == 3);
	MUST(ev->param.conn.retry_count == 5 && ev->param.conn.rnr_retry_count == 4);
	MUST(ev->param.conn.qp_num == c.id->qp->qp_num);
	MUST(rdma_get_src_port(ev->id) == rdma_get_dst_port(c.id));
	MUST(rdma_get_dst_port(ev->id) == rdma_get_src_port(c.id));
	MUST(ev->id->verbs == c.id->verbs);
	/* A listener that is bound to an address has a device before a request comes.
	 * Loopback is an exception if there are other devices, as in Linux. */
	MUST(listener->verbs ? listener->verbs == c.id->verbs && listener->pd
			     : is_loopback(ip) && has_others());
	MUST(rdma_reject(ev->id, "no", 3) == 0);
	s.id = ev->id;
	rdma_ack_cm_event(ev);
	rdma_destroy_id(s.id);
	ev = cm_expect(cch, RDMA_CM_EVENT_REJECTED, 28);
	MUST(!memcmp(ev->param.conn.private_data, "no", 3));
	rdma_ack_cm_event(ev);
	end_break(&c);

	cm_resolved(&c, cch, ip, port);
	MUST(rdma_connect(c.id, &p) == 0);
	ev = cm_expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	end_make(&s, ev->id);
	rdma_ack_cm_event(ev);
	p.private_data = "yes";
	p.private_data_len = 4;
	p.responder_resources = p.initiator_depth = 1;
	MUST(rdma_accept(s.id, &p) == 0);
	ev = cm_expect(cch, RDMA_CM_EVENT_ESTABLISHED, 0);
	MUST(!memcmp(ev->param.conn.private_data, "yes", 4));
	MUST(ev->param.conn.responder_resources == 1);
	rdma_ack_cm_event(ev);
	cm_ack(sch, RDMA_CM_EVENT_ESTABLISHED, 0);
	MUST(rdma_accept(s.id, &p) == -1 && errno == EINVAL);
	/* Its channel is not read; destroying the id ends the connection. */
	end_break(&s);
	cm_ack(cch, RDMA_CM_EVENT_DISCONNECTED, 0);
	MUST(rdma_disconnect(c.id) == 0);
	cm_ack(cch, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	end_break(&c);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

/* A client gives up, another comes: the server hears of the first one's end by its accept
 * alone, as with Linux. Meanwhile the event of the request has been acknowledged, or
 * not. */
static void given_up(const char *ip, unsigned port, bool acked)
{
	struct rdma_event_channel *sch = cm_channel(), *cch = cm_channel();
	struct rdma_cm_id *listener = cm_listener(sch, ip, port, 16);
	struct rdma_conn_param p = { .responder_resources = 1, .initiator_depth = 1 };
	struct rdma_cm_event *ev;
	struct end c;
	struct rdma_cm_id *s[2];

	cm_resolved(&c, cch, ip, port);
	MUST(rdma_connect(c.id, &p) == 0);
	ev = cm_expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	s[0] = ev->id;
	if (acked)
		rdma_ack_cm_event(ev);
	end_break(&c);
	cm_resolved(&c, cch, ip, port);
	MUST(rdma_connect(c.id, &p) == 0);
	if (!acked)
		rdma_ack_cm_event(ev);
	ev = cm_expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	s[1] = ev->id;
	rdma_ack_cm_event(ev);
	p.qp_num = c.id->qp->qp_num;
	MUST(rdma_accept(s[0], &p) == -1 && errno == EINVAL);
	MUST(rdma_destroy_id(s[0]) == 0);
	MUST(rdma_accept(s[1], &p) == 0);
	cm_ack(cch, RDMA_CM_EVENT_ESTABLISHED, 0);
	cm_ack(sch, RDMA_CM_EVENT_ESTABLISHED, 0);
	end_break(&c);
	ev = cm_expect(sch, RDMA_CM_EVENT_DISCONNECTED, 0);
	MUST(ev->id == s[1]);
	rdma_ack_cm_event(ev);
	MUST(rdma_destroy_id(s[1]) == 0);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

/* The program makes its own QP: it gets the response and calls rdma_establish(). Both
 * ends name the vendor's options that they want; the answer is of the same vendor. */
static void own_qp(const char *ip, unsigned port)
{
	struct rdma_event_channel *sch = cm_channel(), *cch = cm_channel();
	struct rdma_cm_id *listener = cm_listener(sch, ip, port, 16), *id;
	struct rdma_conn_param p = { .responder_resources = 1,
				     .initiator_depth = 1,
				     .retry_count = 7,
				     .rnr_retry_count = 7 };
	struct ibv_ece ece = { .vendor_id = 0x123456, .options = 0x89abcdef };
	struct rdma_cm_event *ev;
	struct ibv_qp *qp;
	struct end c, s;

	cm_resolved(&c, cch, ip, port);
	id = c.id;
	qp = id->qp;
	id->qp = NULL;
	p.qp_num = qp->qp_num;
	MUST(rdma_set_local_ece(id, &ece) == 0);
	MUST(rdma_connect(id, &p) == 0);
	ev = cm_expect(sch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	MUST(ev->param.conn.qp_num == qp->qp_num);
	ece = (struct ibv_ece){ .comp_mask = 1 };
	MUST(rdma_get_remote_ece(ev->id, &ece) == 0 && !ece.comp_mask);
	MUST(ece.vendor_id == 0x123456 && ece.options == 0x89abcdef);
	ece = (struct ibv_ece){ .vendor_id = 0x654321, .options = 0x01000002 };
	MUST(rdma_set_local_ece(ev->id, &ece) == 0);
	end_make(&s, ev->id);
	rdma_ack_cm_event(ev);
	end_recv(&s);
	MUST(rdma_accept(s.id, NULL) == 0);
	cm_ack(cch, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	MUST(rdma_get_remote_ece(id, &ece) == 0);
	MUST(ece.vendor_id == 0x123456 && ece.options == 0x01000002);
	for (enum ibv_qp_state state = IBV_QPS_RTR; state <= IBV_QPS_RTS; state++) {
		struct ibv_qp_attr a = { .qp_state = state };
		int mask;

		MUST(rdma_init_qp_attr(id, &a, &mask) == 0);
		MUST(ibv_modify_qp(qp, &a, mask) == 0);
	}
	MUST(rdma_establish(id) == 0);
	MUST(rdma_establish(id) == -1 && errno == EINVAL);
	cm_ack(sch, RDMA_CM_EVENT_ESTABLISHED, 0);
	id->qp = qp;
	end_send(&c);
	end_wait(&c, IBV_WC_SEND);
	end_wait(&s, IBV_WC_RECV);
	end_break(&c);
	end_break(&s);
	rdma_destroy_id(listener);
	rdma_destroy_event_channel(sch);
	rdma_destroy_event_channel(cch);
}

/* The addresses are of the family that the program asks for. */
static void families(void)
{
	static const int family[] = { AF_INET, AF_INET6 };

	for (int i = 0; i < 2; i++) {
		struct rdma_addrinfo *r,
			hints = { .ai_flags = RAI_PASSIVE, .ai_family = family[i] };

		MUST(rdma_getaddrinfo(NULL, "7174", &hints, &r) == 0);
		MUST(r->ai_family == family[i]);
		rdma_freeaddrinfo(r);
	}
}

/* Without a node name the addresses are those in the hints, even if there is only
 * one. */
static void hints(const char *ip, unsigned port)
{
	struct sockaddr_storage a = cm_address(ip, port);
	struct rdma_addrinfo *r, h = { .ai_family = a.ss_family };

	MUST(rdma_getaddrinfo(NULL, NULL, NULL, &r) == -1 && errno == EINVAL);
	h.ai_src_addr = (struct sockaddr *)&a;
	h.ai_src_len = sizeof(a);
	for (int i = 0; i < 2; i++) {
		MUST(rdma_getaddrinfo(NULL, NULL, &h, &r) == 0);
		MUST(r->ai_src_len == sizeof(a) &&
		     !memcmp(r->ai_src_addr, &a, sizeof(a)));
		MUST(i ? r->ai_dst_len == sizeof(a) : !r->ai_dst_addr && !r->ai_dst_len);
		rdma_freeaddrinfo(r);
		h.ai_dst_addr = h.ai_src_addr;
		h.ai_dst_len = h.ai_src_len;
	}
	h.ai_src_len++;
	MUST(rdma_getaddrinfo(NULL, NULL, &h, &r) == -1 && errno == EINVAL);
}

int rules(const char *ip, unsigned port)
{
	ports(ip, port);
	states(ip, port);
	moving(ip, port);
	words(ip, port);
	given_up(ip, port, true);
	given_up(ip, port, false);
	own_qp(ip, port);
	families();
	hints(ip, port);
	return 0;
}

int hold(const char *ip, unsigned port)
{
	cm_listener(cm_channel(), ip, port, 16);
	puts("listening");
	fflush(stdout);
	pause();
	return 0;
}

/* Another process has the port: the bind is refused. */
int refused(const char *ip, unsigned port)
{
	struct rdma_cm_id *id;
	int rc = bind_to(cm_channel(), ip, port, RDMA_PS_TCP, &id);

	puts(rc ? errno == EADDRINUSE ? "EADDRINUSE" : "another error" : "bound");
	return 0;
}
