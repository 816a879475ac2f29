/* SPDX-License-Identifier: BSD-2-Clause */
/* ethernet.c - see ethernet.h. */
#include "driver/ethernet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "cm/cm.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/port.h"
#include "driver/registry.h"
#include "driver/wraps.h"
#include "host/host.h"
#include "net/raw.h"
#include "net/roce.h"
#include "sys/addr.h"
#include "sys/conf.h"
#include "sys/log.h"
#include "verbs/device.h"
#include "verbs/netport.h"

struct ethernet {
	struct nic_link nl;
	struct nic *nic;
	struct port *port;
	struct link *raw; /* URNIC_LINK=raw; NULL: UDP only */
};

static struct ethernet *eth_of(struct nic_link *l)
{
	return container_of(l, struct ethernet, nl);
}

static struct ethernet *eth_of_source(struct source *s)
{
	return container_of(s, struct ethernet, nl.source);
}

static bool eth_carries(const struct nic_link *l, const struct device *dev)
{
	(void)l;
	switch (dev->kind->id) {
	case KIND_ROCE:
		return true;
	case KIND_IB:
	case KIND_IWARP:
		break;
	}
	return false;
}

static int family_of(const uint8_t *gid)
{
	return addr_is_v4(gid) ? AF_INET : AF_INET6;
}

static bool has_to_bind(const struct port *port, const uint8_t *gid)
{
	if (gid)
		return port_is_closed(port, family_of(gid));
	return port_is_closed(port, AF_INET) || port_is_closed(port, AF_INET6);
}

static int bind_families(struct port *port, const uint8_t *gid)
{
	int rc;

	if (gid)
		return port_bind(port, family_of(gid));
	rc = port_bind(port, AF_INET);
	if (rc)
		return rc;
	rc = port_bind(port, AF_INET6);
	return rc == -EAFNOSUPPORT ? 0 : rc; /* IPv6 is disabled */
}

/* Receives dev's packets by a packet socket, except on lo: what the kernel sends there
 * does not leave it. */
static int cover(struct ethernet *eth, const struct device *dev)
{
	int rc = 0;

	if (dev && !container_of(dev, struct net_device, dev)->net.loopback)
		rc = raw_cover(eth->raw, dev->number);
	raw_share(eth->raw, port_rx_fd(eth->port, AF_INET));
	raw_share(eth->raw, port_rx_fd(eth->port, AF_INET6));
	if (rc == -ENOSPC)
		log_warn(
			"%s: too many interfaces for packet sockets: its packets come by "
			"UDP",
			container_of(dev, struct net_device, dev)->net.name);
	return rc == -ENOSPC ? 0 : rc;
}

/* The engine's thread is woken only if it has to sleep on one more socket: each
 * connection comes here, and nearly all find the port bound. */
static int eth_listen(struct nic_link *l, const struct device *dev, const uint8_t *gid)
{
	struct ethernet *eth = eth_of(l);
	const bool more = has_to_bind(eth->port, gid);
	int rc = bind_families(eth->port, gid);

	if (!rc && eth->raw)
		rc = cover(eth, dev);
	roce_leaves_from(l->link, port_sport(eth->port));
	if (more)
		engine_kick(&eth->nic->engine);
	return rc;
}

static void eth_ask(struct nic_link *l)
{
	roce_is_told(l->link, port_ask_port(eth_of(l)->port));
}

static int eth_join(struct nic_link *l, const struct device *dev, const uint8_t gid[16],
		    bool join)
{
	struct ethernet *eth = eth_of(l);
	int rc = port_join(eth->port, gid, dev->number, join);

	engine_kick(&eth->nic->engine);
	return rc;
}

/* Before the port is bound, a look is no system call. */
static unsigned eth_input(struct source *s, enum source_depth depth,
			  struct source_got *got, uint64_t now)
{
	struct ethernet *eth = eth_of_source(s);

	return port_is_idle(eth->port) ? links_take_in(&eth->nl, got, now)
				       : links_input(s, depth, got, now);
}

static unsigned eth_fds(struct source *s, struct source_fd *fd)
{
	const struct ethernet *eth = eth_of_source(s);

	fd[0] = (struct source_fd){ .fd = port_fd(eth->port), .is = SOURCE_CALL };
	fd[1] = (struct source_fd){ .fd = port_rx_fd(eth->port, AF_INET) };
	fd[2] = (struct source_fd){ .fd = port_rx_fd(eth->port, AF_INET6) };
	fd[3] = (struct source_fd){ .fd = eth->raw ? raw_rx_fd(eth->raw) : -1 };
	return 4;
}

static void eth_forward(struct nic_link *l, struct dgram *v, unsigned n, uint64_t now)
{
	port_forward(eth_of(l)->port, v, n, now);
}

static void eth_forked(struct source *s)
{
	const struct ethernet *eth = eth_of_source(s);

	port_forked(eth->port);
	if (eth->raw)
		raw_forked(eth->raw);
	wraps_forked();
}

static const struct nic_link_ops eth_ops = {
	.carries = eth_carries,
	.listen = eth_listen,
	.ask = eth_ask,
	.join = eth_join,
	.forward = eth_forward,
};

static const struct source_ops eth_source_ops = {
	SOURCE_SOCKETS,
	.input = eth_input,
	.fds = eth_fds,
	.forked = eth_forked,
};

void ethernet_deliver(struct ethernet *eth, const struct dgram *d)
{
	port_deliver(eth->port, d);
	source_sooner(&eth->nl.source, 0);
}

void ethernet_peer_gone(struct ethernet *eth, uint16_t slot)
{
	port_peer_gone(eth->port, slot);
	source_sooner(&eth->nl.source, 0);
}

size_t ethernet_refused(struct ethernet *eth, uint8_t ip[16], void *quote, size_t max)
{
	return port_refused(eth->port, ip, quote, max);
}

void ethernet_log_counters(const struct ethernet *eth)
{
	const struct raw_stats *s;

	if (!eth->raw)
		return;
	s = raw_stats(eth->raw);
	log_info("packet sockets: rx %llu, not ours %llu, by UDP as well %llu; tx %llu, "
		 "by UDP instead %llu",
		 (unsigned long long)s->rx, (unsigned long long)s->rx_dropped,
		 (unsigned long long)s->rx_twice, (unsigned long long)s->tx,
		 (unsigned long long)s->tx_by_udp);
}

struct link *ethernet_link(struct ethernet *eth)
{
	return eth->nl.link;
}

static int wrap_raw(struct ethernet *eth, const struct conf *conf)
{
	const struct raw_conf raw = {
		.port = conf->udp_port,
		.slot = host_slot(eth->nic->host),
		.is_ours = registry_has_ip,
	};
	int rc = raw_wrap(&eth->raw, port_link(eth->port), &raw);

	port_keep_apart(eth->port); /* raw_share() */
	if (rc == -EPERM)
		log_error(
			"URNIC_LINK=raw: packet sockets need CAP_NET_RAW in this network "
			"namespace: run as root, in `unshare -Urn' or in a container "
			"that has it, or without URNIC_LINK");
	else if (rc)
		log_error("URNIC_LINK=raw: no packet sockets: %s", strerror(-rc));
	return rc;
}

static int stack_links(struct ethernet *eth, const struct conf *conf)
{
	struct link *link = port_link(eth->port);
	int rc;

	if (conf->link == CONF_LINK_RAW) {
		rc = wrap_raw(eth, conf);
		if (rc)
			return rc;
		link = eth->raw;
	}
	rc = wraps_put(eth->nic, conf, &link, false);
	if (!rc)
		rc = roce_wrap(&eth->nl.link, link, conf->udp_port);
	if (rc)
		link->ops->close(link);
	return rc;
}

int ethernet_open(struct ethernet **out, struct nic *nic, const struct conf *conf)
{
	struct ethernet *eth = calloc(1, sizeof(*eth));
	int rc;

	if (!eth)
		return -ENOMEM;
	eth->nic = nic;
	eth->nl.ops = &eth_ops;
	rc = port_open(&eth->port, nic->host, conf->udp_port, conf->share);
	if (rc)
		goto free_eth;
	rc = stack_links(eth, conf);
	if (rc)
		goto close_port;
	rc = cm_use_link(nic->cm, NULL, eth->nl.link, conf->udp_port);
	if (rc)
		goto close_link;
	links_add(&nic->links, &eth->nl, &eth_source_ops);
	wraps_know(nic, conf, eth->nl.link, roce_inner(eth->nl.link), false);
	*out = eth;
	return 0;

close_link:
	eth->nl.link->ops->close(eth->nl.link);
close_port:
	wraps_close(nic);
	port_close(eth->port);
free_eth:
	free(eth);
	return rc;
}

void ethernet_close(struct ethernet *eth)
{
	links_remove(&eth->nl);
	eth->nl.link->ops->close(eth->nl.link);
	port_close(eth->port);
	free(eth);
}
