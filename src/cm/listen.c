/* SPDX-License-Identifier: BSD-2-Clause */
/* listen.c - listeners, and the names by which other processes of the host find them
 * (docs/dev/cm.md). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm/cm_int.h"
#include "cm/iw_int.h"
#include "host/service.h"
#include "net/dgram.h"
#include "sys/log.h"
#include "wire/cm_ip.h"

enum { PORT_FIRST = 32768, PORT_LAST = 60999, PORT_TRIES = 1000, ADDRESSES = 256 };

static void name_ip(char name[NAME_LEN], uint16_t space, const uint8_t ip[16],
		    uint16_t port)
{
	char hex[33];

	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", ip[i]);
	snprintf(name, NAME_LEN, "urnic/cm/%04x/%s/%u", space, hex, port);
}

static void name_any(char name[NAME_LEN], uint16_t space, bool v6, uint16_t port)
{
	snprintf(name, NAME_LEN, "urnic/cm/%04x/any%d/%u", space, v6 ? 6 : 4, port);
}

unsigned service_names(const struct cm_target *from, char name[NAMES_MAX][NAME_LEN])
{
	name_ip(name[0], from->space, from->src_ip, from->src_port);
	name_any(name[1], from->space, !addr_is_v4(from->src_ip), from->src_port);
	return 2;
}

uint64_t cm_id_of_service(const struct cm_service *s)
{
	return cm_service_id(s->space, s->port);
}

/* --- binding ------------------------------------------------------------- */

/* Does a name exist that excludes s? A wildcard of family v6 (else IPv4) excludes each
 * address of that family, and each address the wildcard. */
static bool crossed(struct cm *cm, const struct cm_service *s, bool v6)
{
	char name[NAME_LEN];
	uint8_t ip[ADDRESSES][16];
	unsigned n;

	if (!s->any) {
		name_any(name, s->space, v6, s->port);
		return service_exists(name);
	}
	n = cm->site->addresses(ip, ADDRESSES);
	for (unsigned i = 0; i < n; i++) {
		if (addr_is_v4(ip[i]) == v6)
			continue;
		name_ip(name, s->space, ip[i], s->port);
		if (service_exists(name))
			return true;
	}
	return false;
}

static void let_go(struct cm_listener *l)
{
	for (int i = 0; i < LISTENER_NAMES; i++)
		if (l->name[i])
			service_close(l->name[i]);
	memset(l->name, 0, sizeof(l->name));
}

static void leave_fabric(struct cm_listener *l)
{
	if (l->service.fd && fd_is(l->service.fd, &l->served))
		close(l->service.fd);
	l->service.fd = 0;
}

/* A service registered with the fabric belongs to its process, not to that process's
 * children. */
void listeners_forked(struct cm *cm)
{
	list_for(n, &cm->listeners)
		leave_fabric(container_of(n, struct cm_listener, node));
}

/* Binds the names first and looks for excluding names afterwards: of two processes that
 * bind at the same time, at least one then sees the other. */
static int take_names(struct cm *cm, struct cm_listener *l)
{
	const struct cm_service *s = &l->service;
	bool both = s->any && s->v6 && !s->v6_only, v6 = s->v6;
	char name[NAME_LEN];
	int rc = 0;

	if (!cm->host || s->only_ib)
		return 0;
	for (int i = 0; i < 1 + both && !rc; i++, v6 = !v6) {
		if (s->any)
			name_any(name, s->space, v6, s->port);
		else
			name_ip(name, s->space, s->ip, s->port);
		rc = service_bind(cm->host, name, &l->name[i]);
		if (!rc && crossed(cm, s, v6))
			rc = -EADDRINUSE;
	}
	if (rc)
		let_go(l);
	return rc;
}

static int take_any_port(struct cm *cm, struct cm_listener *l)
{
	enum { PORTS = PORT_LAST - PORT_FIRST + 1 };
	uint64_t start = rand_below(&cm->rng, PORTS);
	int rc = -EADDRINUSE;

	for (uint64_t i = 0; i < PORT_TRIES && rc == -EADDRINUSE; i++) {
		l->service.port = (uint16_t)(PORT_FIRST + (start + i) % PORTS);
		rc = take_names(cm, l);
		if (!rc && l->service.iwarp) {
			rc = iw_bind(l, true);
			if (rc)
				let_go(l);
		}
	}
	return rc;
}

static void listener_free(struct cm_listener *l)
{
	let_go(l);
	leave_fabric(l);
	list_del(&l->node);
	free(l);
}

/* A new listener takes over the port of closed listeners, which remain only for their
 * half-open connections. Returns true if there were any. */
static bool evict_closed(struct cm *cm, const struct cm_service *s)
{
	bool some = false;

	list_for_safe(n, &cm->listeners)
	{
		struct cm_listener *l = container_of(n, struct cm_listener, node);

		if (!l->closed || l->service.space != s->space ||
		    l->service.port != s->port)
			continue;
		for (unsigned i = 0; i < cm->used; i++)
			if (conn_at(cm, i)->via == l)
				conn_at(cm, i)->via = NULL;
		listener_free(l);
		some = true;
	}
	return some;
}

/* Does this process already have the service at the fabric? The fabric refuses what
 * another program has, but not the same service of one program twice. */
static bool is_served(const struct cm *cm, const struct cm_service *s)
{
	list_for(n, &cm->listeners)
	{
		const struct cm_listener *l = container_of(n, struct cm_listener, node);

		if (!l->closed && l->service.fd && l->service.space == s->space &&
		    l->service.port == s->port)
			return true;
	}
	return false;
}

int cm_bind(struct cm *cm, struct cm_service *s, struct cm_listener **out)
{
	struct cm_listener *l = calloc(1, sizeof(*l));
	int rc;

	if (!l)
		return -ENOMEM;
	l->cm = cm;
	l->service = *s;
	l->tcp.fd = -1;
	if (s->fd && is_served(cm, s)) {
		free(l);
		return -EADDRINUSE;
	}
	rc = s->port ? take_names(cm, l) : take_any_port(cm, l);
	if (rc == -EADDRINUSE && s->port && evict_closed(cm, s))
		rc = take_names(cm, l);
	if (rc) {
		free(l);
		return rc;
	}
	if (s->fd)
		(void)fd_identify(s->fd, &l->served);
	list_add_tail(&cm->listeners, &l->node);
	s->port = l->service.port;
	*out = l;
	return 0;
}

/* Each listener has a few connections of its own (l->share). The rest of its backlog
 * comes from a pool that all listeners share, as far as there is memory. */
void listeners_refill(struct cm *cm)
{
	(void)conn_reserve(cm, cm->reserved + (cm->listening ? CM_BACKLOG_MAX : 0));
}

struct conn *listener_take(struct cm_listener *l)
{
	struct cm *cm = l->cm;

	if (l->pending >= l->backlog ||
	    (l->pending >= l->share && conn_spare(cm) <= cm->reserved))
		return NULL;
	return conn_new(cm);
}

/* A TCP program that has the port keeps only iWARP out; a service that is not iWARP's
 * alone still listens. */
static int listen_tcp(struct cm_listener *l, bool datagram)
{
	int rc;

	if (!l->service.iwarp || datagram)
		return 0;
	rc = iw_listen(l);
	if (!rc || l->service.only_iwarp)
		return rc;
	log_warn("port %u is not served by iWARP: %s", l->service.port, strerror(-rc));
	return 0;
}

int cm_listen(struct cm *cm, struct cm_listener *l, int backlog, bool datagram,
	      struct cm_owner *owner)
{
	unsigned n = backlog > 0 && backlog < CM_BACKLOG_MAX ? (unsigned)backlog
							     : CM_BACKLOG_MAX;
	int rc;

	if (l->owner)
		return -EINVAL;
	l->share = n < LISTENER_SHARE ? n : LISTENER_SHARE;
	if (conn_reserve(cm, cm->reserved + l->share))
		return -ENOMEM;
	l->backlog = n;
	rc = listen_tcp(l, datagram);
	if (rc) {
		l->backlog = l->share = 0;
		return rc;
	}
	cm->reserved += l->share;
	cm->listening++;
	listeners_refill(cm);
	l->datagram = datagram;
	l->owner = owner;
	return 0;
}

bool cm_needs_port(const struct cm_listener *l)
{
	return !l->service.only_iwarp && !l->service.only_ib;
}

void cm_unbind(struct cm *cm, struct cm_listener *l)
{
	for (unsigned i = 0; i < cm->used; i++)
		if (conn_at(cm, i)->listener == l)
			conn_at(cm, i)->listener = NULL;
	iw_unlisten(l);
	cm->reserved -= l->share;
	cm->listening -= l->owner != NULL;
	l->owner = NULL;
	l->closed = true;
	if (!l->half)
		listener_free(l);
}

/* Until the peer of a half-open connection certainly has its answer, it may repeat the
 * REQ, and another process of this host may get it. That process finds this one by the
 * name. */
void via_set(struct conn *c, struct cm_listener *l)
{
	c->via = l;
	l->half++;
}

void via_clear(struct conn *c)
{
	struct cm_listener *l = c->via;

	c->via = NULL;
	if (--l->half == 0 && l->closed)
		listener_free(l);
}

void listeners_free(struct cm *cm)
{
	list_for_safe(n, &cm->listeners)
		listener_free(container_of(n, struct cm_listener, node));
}

/* --- finding the listener of a request ----------------------------------- */

/* How well a listener fits a request: 2: its address, 1: its wildcard, 0: not at all. */
static int rank_listener(const struct cm_listener *l, const struct cm_target *from)
{
	const struct cm_service *s = &l->service;
	bool v6 = !addr_is_v4(from->src_ip);

	if (s->space != from->space || s->port != from->src_port || s->only_iwarp)
		return 0;
	if (from->native && !s->native)
		return 0;
	if (s->any)
		return s->native || s->v6 == v6 || (s->v6 && !s->v6_only);
	return memcmp(s->ip, s->native ? from->route.src : from->src_ip, 16) ? 0 : 2;
}

struct cm_listener *find_listener(struct cm *cm, const struct cm_target *from,
				  bool datagram)
{
	struct cm_listener *best = NULL;
	int best_fit = 0;

	list_for(n, &cm->listeners)
	{
		struct cm_listener *l = container_of(n, struct cm_listener, node);
		int fit = rank_listener(l, from);

		if (!l->owner || l->datagram != datagram || fit <= best_fit)
			continue;
		best = l;
		best_fit = fit;
	}
	return best;
}
