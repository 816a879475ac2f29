/* SPDX-License-Identifier: BSD-2-Clause */
/* rooms.c - builds a NIC room by room, and takes it apart in reverse order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"
#include "direct/bare.h"
#include "direct/notice.h"
#include "direct/share.h"
#include "driver/adapter.h"
#include "driver/asked.h"
#include "driver/captures.h"
#include "driver/conn.h"
#include "driver/dump.h"
#include "driver/ethernet.h"
#include "driver/netdev.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "driver/route.h"
#include "driver/sources.h"
#include "driver/tally.h"
#include "driver/wraps.h"
#include "driver/xrc.h"
#include "host/host.h"
#include "ib/ib.h"
#include "raw/packet.h"
#include "shm/peers.h"
#include "shm/shm.h"
#include "sys/addr.h"
#include "sys/checks.h"
#include "sys/clock.h"
#include "sys/conf.h"
#include "sys/log.h"
#include "sys/rand.h"
#include "verbs/await.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/netport.h"
#include "verbs/order.h"

/* --- other processes of this host ------------------------------------------ */

static void on_datagram(void *arg, const struct dgram *d)
{
	struct nic *nic = arg;

	if (d->mad)
		cm_forwarded(nic->cm, d);
	else
		ethernet_deliver(nic->ethernet, d);
}

static void on_gone(void *arg, uint16_t slot)
{
	struct nic *nic = arg;

	ethernet_peer_gone(nic->ethernet, slot);
	peers_gone(peers_of(&nic->core), slot);
	captures_gone(nic, slot, clock_ns());
	if (nic->guest.gone)
		nic->guest.gone(nic, slot);
	if (nic->cm)
		cm_gone(nic->cm, slot, clock_ns());
}

static void on_said(void *arg, struct host_said *s)
{
	struct nic *nic = arg;

	switch (s->type) {
	case HOST_PIPE:
	case HOST_MAP:
		peers_said(peers_of(&nic->core), s);
		break;
	case HOST_ASK:
		asked(nic, s, clock_ns());
		break;
	case HOST_XRC:
		if (nic->guest.heard)
			nic->guest.heard(nic, s->slot, s->buf, s->len);
		break;
	case HOST_ANSWER: /* this process asks nobody */
	case HOST_HELLO:
	case HOST_DGRAM:
	case HOST_SERVICE:
	case HOST_TYPES:
		break;
	}
}

static const struct host_ops host_ops = { on_datagram, on_gone, on_said };

static int open_host(struct nic *nic, const struct conf *conf)
{
	(void)conf;
	return host_open(&nic->host, &host_ops, nic);
}

static void close_host(struct nic *nic)
{
	host_close(nic->host);
}

/* --- objects, and the transports' state ------------------------------------- */

static int open_core(struct nic *nic, const struct conf *conf)
{
	int rc = core_init(&nic->core, host_slot(nic->host));

	if (!rc)
		rc = order_open(&nic->core, conf->order);
	if (rc)
		return rc;
	nic->core.round.clock = nic_now;
	nic->core.round.heard = 0;
	nic->core.recv_wait_ns = caps.as_hardware ? 0 : RECV_WAIT_MOST_NS;
	links_init(&nic->links, &nic->core);
	return 0;
}

static void close_core(struct nic *nic)
{
	order_close(&nic->core);
	core_fini(&nic->core);
}

static int open_ib(struct nic *nic, const struct conf *conf)
{
	int rc = ib_open(&nic->core, clock_ns());

	(void)conf;
	if (!rc)
		nic->tally = tally_open(&nic->core);
	return rc;
}

static void close_ib(struct nic *nic)
{
	ib_close(&nic->core);
	tally_close(nic->tally);
}

/* The thread may be asleep without the descriptors that rules need. */
static void on_first_rule(void *arg)
{
	engine_kick(arg);
}

static int open_packets(struct nic *nic, const struct conf *conf)
{
	(void)conf;
	return packets_open(&nic->core, on_first_rule, &nic->engine);
}

static void close_packets(struct nic *nic)
{
	packets_close(&nic->core);
}

static void on_connection(void *arg)
{
	engine_kick(arg);
}

static int open_conns(struct nic *nic, const struct conf *conf)
{
	(void)conf;
	return conns_open(&nic->conns, &nic->core, on_connection, &nic->engine);
}

static void close_conns(struct nic *nic)
{
	conns_close(nic->conns);
}

/* --- the same host ----------------------------------------------------------- */

/* The other process lent no memory after all: the QP uses the wire. */
static void on_refused(void *arg, struct qp *qp)
{
	route_to_wire(arg, qp);
}

static void on_piped(void *arg, const struct dgram *d, uint64_t now)
{
	struct nic *nic = arg;
	struct dgram in = *d;

	in.link = ethernet_link(nic->ethernet);
	ib_input(&nic->core, &in, now);
}

static void on_sooner(void *arg)
{
	struct nic *nic = arg;

	engine_kick(&nic->engine);
}

static const struct peers_ops peers_ops = {
	.refused = on_refused,
	.datagram = on_piped,
	.sooner = on_sooner,
};

/* Returns why processes of this host must not use shared memory; NULL: they may. */
static const char *local_is_off(const struct conf *conf)
{
	return conf->local == CONF_LOCAL_OFF ? "URNIC_LOCAL is off" : wraps_why(conf);
}

/* Without notices a program would come to know that its memory stays a file's. */
static void share_with_threads(enum notice notice)
{
	const char *why = NULL;
	int rc;

	if (notice != NOTICED)
		why = "liburnic-map.so is not loaded";
	else if (!notice_beside_threads())
		why = "another library stands before liburnic-map.so, or this libc "
		      "lacks a function that it watches";
	else if (bare_calls())
		why = "the program has Go's runtime, whose system calls are not seen";
	else if ((rc = share_beside_threads()))
		why = strerror(-rc);
	if (!why)
		log_info("private memory is shared with other processes beside running "
			 "threads, by userfaultfd");
	else
		log_info("private memory is not shared with other processes beside "
			 "running threads: %s",
			 why);
}

/* Starts to share private memory, if the program will not notice: liburnic-map.so reports
 * what it does to such memory. `map' shares it without that library, too, and then the
 * program may notice (docs/dev/direct.md). Returns NULL, or why private memory stays so.
 */
static const char *share_private(struct core *core, const struct conf *conf)
{
	const enum conf_local way = conf->local;
	enum notice notice;

	if (way != CONF_LOCAL_AUTO && way != CONF_LOCAL_MAP)
		return "URNIC_LOCAL is neither auto nor map";
	notice = notice_start();
	if (notice == NOTICE_REFUSED)
		return "liburnic-map.so is of another release, or another "
		       "preloaded library comes before it";
	if (notice == NOTICE_SANITIZED)
		return "the program has a sanitizer, which would report our copies";
	if (notice == NOTICE_NOT_THERE && way == CONF_LOCAL_AUTO)
		return "liburnic-map.so is not loaded (`urnic run' loads it)";
	share_start(core, notice == NOTICED);
	if (conf->map_threads)
		share_with_threads(notice);
	return NULL;
}

/* Must all that peers do here come by the ring, where it is seen (docs/dev/races.md)? */
static bool watches_writes(const struct conf *conf)
{
	char wrong[CHECK_WORD];
	uint64_t set;

	return !checks_parse(conf->check, &set, wrong) &&
	       set & (check_bit(CHECK_ONE_SIDED_RACE) | check_bit(CHECK_BUFFER_TOUCHED));
}

static int open_local(struct nic *nic, const struct conf *conf)
{
	static const enum local_way way[] = {
		[CONF_LOCAL_OFF] = LOCAL_OFF,  [CONF_LOCAL_PIPE] = LOCAL_PIPE,
		[CONF_LOCAL_VM] = LOCAL_VM,    [CONF_LOCAL_AUTO] = LOCAL_AUTO,
		[CONF_LOCAL_MAP] = LOCAL_AUTO,
	};
	const char *why = local_is_off(conf), *why_private;
	enum local_way best = why ? LOCAL_OFF : way[conf->local];
	int rc;

	if (why)
		log_info("processes of this host are reached by UDP: %s", why);
	if (best > LOCAL_PIPE && watches_writes(conf)) {
		best = LOCAL_PIPE;
		log_info(
			"processes of this host do not reach each other's memory: "
			"URNIC_CHECK has one-sided-race or buffer-touched, which look at what "
			"peers do");
	}
	rc = peers_open(&nic->core, nic->host, best, why, &peers_ops, nic);
	if (rc || why || !nic->core.exports)
		return rc;
	why_private = share_private(&nic->core, conf);
	if (why_private)
		log_info("private memory is not shared with other processes: %s",
			 why_private);
	return 0;
}

static void close_local(struct nic *nic)
{
	share_stop(&nic->core);
	peers_close(&nic->core);
}

/* --- connection management --------------------------------------------------- */

static void on_note(struct core *core)
{
	engine_kick(&container_of(core, struct nic, core)->engine);
}

static size_t refused(struct core *core, uint8_t ip[16], void *quote, size_t max)
{
	struct nic *nic = container_of(core, struct nic, core);

	return ethernet_refused(nic->ethernet, ip, quote, max);
}

static uint8_t port_mtu(struct core *core, const uint8_t ip[16], uint32_t ifindex)
{
	uint8_t mtu = 0;

	lock_take(&core->lock);
	list_for(n, &core->contexts)
	{
		struct device *dev = container_of(n, struct context, node)->dev;

		if (dev->kind->datagrams && device_has_ip(dev, ip) &&
		    (!ifindex || !addr_is_link_local(ip) || dev->number == ifindex))
			mtu = (uint8_t)device_port(dev).active_mtu;
	}
	lock_give(&core->lock);
	return mtu;
}

static int open_cm(struct nic *nic, const struct conf *conf)
{
	static struct cm_site site = {
		.same_host = registry_has_ip,
		.addresses = registry_addresses,
		.kick = on_note,
		.refused = refused,
		.mtu = port_mtu,
		.lost = nic_lost,
		.leave = nic_leave,
		.open_port = nic_open_port,
		.await = nic_await,
		.find = nic_find,
		.serve = nic_serve,
	};

	site.by_host = !wraps_why(conf); /* a process has one NIC at a time */
	return cm_open(&nic->cm, &nic->core, nic->host, &site, rand_start());
}

static void close_cm(struct nic *nic)
{
	struct cm *cm = nic->cm;

	nic->cm = NULL; /* other processes may leave meanwhile */
	cm_close(cm);
}

/* --- links and interfaces ---------------------------------------------------- */

static int open_ethernet(struct nic *nic, const struct conf *conf)
{
	return ethernet_open(&nic->ethernet, nic, conf);
}

static void close_ethernet(struct nic *nic)
{
	ethernet_close(nic->ethernet);
	wraps_close(nic);
}

static int open_adapter(struct nic *nic, const struct conf *conf)
{
	(void)conf;
	return adapter_open(&nic->adapter, nic);
}

static void close_adapter(struct nic *nic)
{
	adapter_close(nic->adapter);
}

static int open_monitor(struct nic *nic, const struct conf *conf)
{
	(void)conf;
	return netdev_monitor_open(&nic->monitor);
}

static void close_monitor(struct nic *nic)
{
	netdev_monitor_close(nic->monitor);
}

/* --- what turns them --------------------------------------------------------- */

static int open_engine(struct nic *nic, const struct conf *conf)
{
	struct engine *e = &nic->engine;
	int rc;

	(void)conf;
	e->core = &nic->core;
	heap_init(&e->timers);
	nic->core.timers = &e->timers;
	sources_open(nic);
	rc = engine_thread_start(e);
	if (!rc)
		return 0;
	nic->core.timers = NULL;
	heap_fini(&e->timers);
	return rc;
}

/* The thread has ended before. */
static void close_engine(struct nic *nic)
{
	dumper_fini(&nic->dumper);
	nic->core.timers = NULL;
	heap_fini(&nic->engine.timers);
}

/* --- all of them, from the bottom up ------------------------------------------ */

static const struct room {
	int (*open)(struct nic *nic, const struct conf *conf); /* returns 0 or -errno */
	void (*close)(struct nic *nic);
} rooms[] = {
	/* clang-format off */
	{ open_host, close_host },
	{ open_core, close_core },
	{ open_ib, close_ib },
	{ xrc_open, xrc_close },
	{ open_packets, close_packets },
	{ open_conns, close_conns },
	{ open_local, close_local },
	{ open_cm, close_cm },
	{ open_ethernet, close_ethernet },
	{ open_adapter, close_adapter },
	{ open_monitor, close_monitor },
	{ open_engine, close_engine },
	/* clang-format on */
};

enum { ROOMS = sizeof(rooms) / sizeof(*rooms) };

static void close_from(struct nic *nic, unsigned n)
{
	while (n > 0)
		rooms[--n].close(nic);
}

int nic_start(struct nic *nic, const struct conf *conf)
{
	for (unsigned i = 0; i < ROOMS; i++) {
		int rc = rooms[i].open(nic, conf);

		if (rc) {
			close_from(nic, i);
			return rc;
		}
	}
	registry_watch(&nic->core);
	(void)registry_refresh(); /* what changed before the monitor was open */
	return 0;
}

void nic_log_counters(struct nic *nic)
{
	ib_log_counters(&nic->core);
	peers_log_counters(&nic->core);
	cm_log_counters(nic->cm);
	ethernet_log_counters(nic->ethernet);
}

void nic_stop(struct nic *nic)
{
	registry_watch(NULL);
	nic_wait_stop(nic, NULL);
	engine_thread_stop(&nic->engine);
	links_forward(&nic->links);
	nic_log_counters(nic);
	close_from(nic, ROOMS);
	free(nic);
}
