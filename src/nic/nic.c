/* SPDX-License-Identifier: BSD-2-Clause */
/* nic.c - the process's one NIC: put together at the first open, taken apart
 * at the last close, left behind by fork. */
#include "nic/nic.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cm/cm.h"
#include "core/core.h"
#include "core/device.h"
#include "core/event.h"
#include "core/qp.h"
#include "host/host.h"
#include "ib/ib.h"
#include "iwarp/iwarp.h"
#include "link/fault.h"
#include "link/pcap.h"
#include "link/roce.h"
#include "local/local.h"
#include "nic/conn.h"
#include "nic/dump.h"
#include "nic/netdev.h"
#include "nic/nic_own.h"
#include "nic/registry.h"
#include "nic/route.h"
#include "sys/addr.h"
#include "sys/clock.h"
#include "sys/conf.h"
#include "sys/guard.h"
#include "sys/live.h"
#include "sys/log.h"
#include "sys/rand.h"

static pthread_mutex_t nic_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nic *the_nic; /* under nic_lock */

uint64_t nic_now(void)
{
	return clock_ns();
}

struct core *nic_core(struct nic *nic)
{
	return &nic->core;
}

const struct transport *nic_transport(struct nic *nic, const struct device *dev)
{
	(void)nic;
	return device_is_iwarp(dev) ? &iwarp_transport : &ib_transport;
}

struct link *nic_link(struct nic *nic, const struct device *dev)
{
	return device_is_iwarp(dev) ? NULL : nic->link;
}

/* --- making one ---------------------------------------------------------- */

static void on_datagram(void *arg, const struct dgram *d)
{
	struct nic *nic = arg;

	if (d->mad)
		cm_handed(&nic->core, d);
	else
		port_deliver(nic->port, d);
}

static void on_gone(void *arg, uint16_t slot)
{
	struct nic *nic = arg;

	port_peer_gone(nic->port, slot);
	local_gone(nic->core.local, slot);
	if (nic->core.cm)
		cm_gone(&nic->core, slot, clock_ns());
}

static void on_said(void *arg, struct host_said *s)
{
	struct nic *nic = arg;
	struct dump_msg m;

	if (!dump_is(s, &m))
		local_said(nic->core.local, s);
	else if (m.what == DUMP_ASK)
		dump_ask(&nic->dumper, s, clock_ns());
}

static const struct host_ops host_ops = { on_datagram, on_gone, on_said };

/* QPs were promised memory that is not there after all. */
static void on_refused(void *arg, struct qp *qp)
{
	struct nic *nic = arg;

	route_to_wire(nic, qp);
}

static void on_piped(void *arg, const struct dgram *d, uint64_t now)
{
	struct nic *nic = arg;
	struct dgram in = *d;

	in.link = nic->link;
	ib_input(&nic->core, &in, now);
}

static const struct local_ops local_ops = { on_refused, on_piped };

/* What goes out passes fault first, so that a capture shows what the wire
 * carried. */
static int stack_links(struct nic *nic, const struct conf *conf)
{
	struct link *link = port_link(nic->port);
	char why[160];
	int rc;

	if (*conf->pcap) {
		rc = pcap_wrap(&link, link, conf->pcap);
		if (rc) {
			log_error("URNIC_PCAP: cannot write %s: %s", conf->pcap,
				  rc == -EBUSY
					  ? "another process captures into it "
					    "(%p in the name is the process's number)"
					  : strerror(-rc));
			return rc;
		}
	}
	if (*conf->fault) {
		rc = fault_wrap(&link, link, conf->fault, why, sizeof(why));
		if (rc) {
			log_error("URNIC_FAULT: %s", why);
			return rc;
		}
		fault_describe(link, ib_describe);
	}
	rc = roce_wrap(&nic->link, link, conf->udp_port);
	if (rc)
		link->ops->close(link);
	return rc;
}

/* Faults are a wire's, and a capture is of packets. */
static enum local_way way_of(const struct conf *conf, const char **off_why)
{
	static const enum local_way way[] = {
		[CONF_LOCAL_OFF] = LOCAL_OFF,
		[CONF_LOCAL_PIPE] = LOCAL_PIPE,
		[CONF_LOCAL_VM] = LOCAL_VM,
		[CONF_LOCAL_AUTO] = LOCAL_AUTO,
	};

	*off_why = conf->local == CONF_LOCAL_OFF ? "URNIC_LOCAL is off"
		   : *conf->pcap		 ? "URNIC_PCAP is set"
		   : *conf->fault		 ? "URNIC_FAULT is set"
						 : NULL;
	if (*off_why)
		log_info("processes of this host are reached by UDP: %s", *off_why);
	return *off_why ? LOCAL_OFF : way[conf->local];
}

static void on_note(struct core *core)
{
	engine_kick(&container_of(core, struct nic, core)->engine);
}

static size_t refused(struct core *core, uint8_t ip[16], void *quote, size_t max)
{
	struct port *port = container_of(core, struct nic, core)->port;

	return port_refused(port, ip, quote, max);
}

static const struct cm_site by_host = {
	registry_has_ip, registry_addresses, on_note, refused, true,
}, by_wire = {
	registry_has_ip, registry_addresses, on_note, refused, false,
};

static void on_connection(void *arg)
{
	engine_kick(arg);
}

static int open_transports(struct nic *nic, enum local_way way, const char *off_why)
{
	struct core *core = &nic->core;
	struct engine *e = &nic->engine;
	int rc = ib_open(core, clock_ns());

	if (rc)
		return rc;
	rc = conns_open(&nic->conns, core, on_connection, e);
	if (rc)
		goto close_ib;
	rc = local_open(core, nic->host, way, off_why, &local_ops, nic);
	if (rc)
		goto close_conns;
	rc = cm_open(core, nic->host, way == LOCAL_OFF ? &by_wire : &by_host,
		     rand_start());
	if (rc)
		goto close_local;
	return 0;

close_local:
	local_close(core);
close_conns:
	conns_close(nic->conns);
close_ib:
	ib_close(core);
	return rc;
}

static void close_transports(struct nic *nic)
{
	cm_close(&nic->core);
	local_close(&nic->core);
	conns_close(nic->conns);
	ib_close(&nic->core);
}

static int nic_start(struct nic *nic, const struct conf *conf)
{
	struct engine *e = &nic->engine;
	enum local_way way;
	const char *off_why;
	int rc;

	way = way_of(conf, &off_why);
	rc = host_open(&nic->host, &host_ops, nic);
	if (rc)
		return rc;
	rc = core_init(&nic->core, host_slot(nic->host));
	if (rc)
		goto close_host;
	e->core = &nic->core;
	nic->core.clock = nic_now;
	nic->core.heard = 0;
	rc = open_transports(nic, way, off_why);
	if (rc)
		goto fini_core;
	rc = port_open(&nic->port, nic->host, conf->udp_port, conf->share);
	if (rc)
		goto close_transports;
	rc = stack_links(nic, conf);
	if (rc)
		goto close_port;
	rc = cm_use_link(&nic->core, NULL, nic->link, &ib_transport, conf->udp_port);
	if (rc)
		goto close_link;
	rc = netdev_monitor_open(&nic->monitor);
	if (rc)
		goto close_link;
	heap_init(&e->timers);
	rc = heap_reserve(&e->timers, 1); /* QP1's; others reserve their own */
	if (rc)
		goto fini_heap;
	nic->core.timers = &e->timers;
	sources_open(nic);
	rc = engine_thread_start(e);
	if (rc)
		goto fini_heap;
	registry_watch(&nic->core);
	(void)registry_refresh(); /* what the monitor was too late for */
	return 0;

fini_heap:
	nic->core.timers = NULL;
	heap_fini(&e->timers);
	netdev_monitor_close(nic->monitor);
close_link:
	nic->link->ops->close(nic->link);
close_port:
	port_close(nic->port);
close_transports:
	close_transports(nic);
fini_core:
	core_fini(&nic->core);
close_host:
	host_close(nic->host);
	return rc;
}

/* A socket that is closed takes along what waits in it, which may be others':
 * theirs is handed on first.  Turn held, or nobody left to take it. */
static void hand_on(struct nic *nic)
{
	enum { ROUNDS = 64 };
	struct link *link = nic->link;

	for (int i = 0; i < ROUNDS; i++)
		if (link->ops->recv(link, nic->sources.in, WIRE_RX, clock_ns()) <= 0)
			return;
}

static void log_counters(struct core *core)
{
	ib_log_counters(core);
	local_log_counters(core);
	cm_log_counters(core->cm);
}

static void nic_stop(struct nic *nic)
{
	struct engine *e = &nic->engine;

	registry_watch(NULL);
	engine_thread_stop(e);
	netdev_monitor_close(nic->monitor);
	dumper_fini(&nic->dumper);
	hand_on(nic);
	log_counters(&nic->core);
	nic->link->ops->close(nic->link);
	port_close(nic->port);
	nic->core.timers = NULL;
	heap_fini(&e->timers);
	close_transports(nic);
	host_close(nic->host);
	core_fini(&nic->core);
	free(nic);
}

/* --- fork ---------------------------------------------------------------- */

/* Nobody else holds a lock of ours while the process is copied. */
NO_TSA static void before_fork(void)
{
	pthread_mutex_lock(&nic_lock);
	registry_hold();
	guard_hold();
	if (the_nic) {
		turn_take(&the_nic->core.turn);
		lock_take(&the_nic->core.lock);
	}
	live_hold();
}

NO_TSA static void fork_parent(void)
{
	live_let_go();
	if (the_nic) {
		lock_give(&the_nic->core.lock);
		turn_give(&the_nic->core.turn);
	}
	guard_let_go();
	registry_let_go();
	pthread_mutex_unlock(&nic_lock);
}

static void close_all(struct engine *e)
{
	engine_close_fds(e);
	for (struct source *const *s = e->all.v; *s; s++)
		if ((*s)->ops->forked)
			(*s)->ops->forked(*s);
	pcap_forked();
}

/* The child has the NIC's memory and descriptors but not its thread: names
 * and port would outlive their owner.  Its contexts answer EIO from now on; a
 * fresh open makes a NIC of its own. */
NO_TSA static void fork_child(void)
{
	struct nic *nic = the_nic;

	live_let_go();
	if (nic) {
		struct engine *e = &nic->engine;

		if (!engine_lost(e))
			close_all(e);
		list_for(n, &nic->core.contexts) container_of(n, struct context, node)
			->dead = true;
		nic->core.dead = true;
		atomic_store(&e->broken, true);
		e->started = false;
		the_nic = NULL;
		lock_give(&nic->core.lock);
		turn_give(&nic->core.turn);
	}
	guard_let_go();
	registry_forked();
	pthread_mutex_unlock(&nic_lock);
}

static void watch_once(void)
{
	pthread_atfork(before_fork, fork_parent, fork_child);
}

void watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_once);
}

/* --- using it ------------------------------------------------------------ */

static bool notice_loss(struct engine *e, const char *what)
{
	if (!engine_lost(e))
		return false;
	turn_take(&e->core->turn);
	engine_break(e, what);
	turn_give(&e->core->turn);
	return true;
}

int nic_open(struct nic **out)
{
	const struct conf *conf = conf_get();
	struct nic *nic;
	int rc = 0;

	if (!conf)
		return -EINVAL;
	watch_forks();
	pthread_mutex_lock(&nic_lock);
	nic = the_nic;
	if (!nic || notice_loss(&nic->engine, "opening")) {
		nic = calloc(1, sizeof(*nic));
		rc = nic ? nic_start(nic, conf) : -ENOMEM;
		if (rc) {
			free(nic);
			goto unlock;
		}
		the_nic = nic;
	}
	nic->users++;
	*out = nic;
unlock:
	pthread_mutex_unlock(&nic_lock);
	return rc;
}

/* All under the lock: a fork waits, lest its child keep descriptors that it
 * does not know of. */
void nic_close(struct nic *nic)
{
	bool last;

	pthread_mutex_lock(&nic_lock);
	last = --nic->users == 0;
	if (last && nic == the_nic)
		the_nic = NULL;
	/* What was lost or forked is not ours to take apart. */
	if (last && !nic->core.dead && !notice_loss(&nic->engine, "closing"))
		nic_stop(nic);
	pthread_mutex_unlock(&nic_lock);
}

/* Everybody whom the program is connected to is told, in portions; a link that
 * stays full ends it. */
static void say_goodbye(struct nic *nic)
{
	enum { ROUNDS = 400 };
	const struct timespec moment = { 0, 100000 };

	(void)engine_flush(&nic->engine, clock_ns()); /* data before DREQs */
	for (int i = 0; i < ROUNDS; i++) {
		bool more = cm_leave(&nic->core, clock_ns());

		(void)engine_flush(&nic->engine, clock_ns());
		if (!more)
			return;
		if (nic->link->full_until > clock_ns())
			nanosleep(&moment, NULL);
	}
}

/* The same when a program ends with its QPs still there.  It may end inside a
 * call of ours, so it does not wait for the turn for ever. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	struct nic *nic = the_nic;

	for (int i = 0; nic && i < 1000; i++) {
		if (!turn_try(&nic->core.turn)) {
			sched_yield();
			continue;
		}
		nic->core.leaving = true;
		pcap_leave();
		say_goodbye(nic);
		if (!atomic_load(&nic->engine.broken))
			hand_on(nic);
		log_counters(&nic->core);
		turn_give(&nic->core.turn);
		break;
	}
}

int nic_route(struct nic *nic, struct qp *qp, const uint8_t *dgid, uint32_t dest_qp)
{
	int rc;

	turn_take(&nic->core.turn);
	rc = route(nic, qp, dgid, dest_qp);
	turn_give(&nic->core.turn);
	return rc;
}

bool nic_is_here(struct nic *nic, struct device *dev, const uint8_t ip[16])
{
	(void)nic;
	return is_here(dev, ip);
}

int nic_listen(struct nic *nic, const uint8_t *ip)
{
	struct port *port = nic->port;
	int rc;

	turn_take(&nic->core.turn);
	if (ip) {
		rc = port_bind(port, addr_is_v4(ip) ? AF_INET : AF_INET6);
	} else {
		rc = port_bind(port, AF_INET);
		if (!rc) {
			rc = port_bind(port, AF_INET6);
			if (rc == -EAFNOSUPPORT)
				rc = 0; /* IPv6 is off */
		}
	}
	roce_leaves_from(nic->link, port_sport(port));
	turn_give(&nic->core.turn);
	engine_kick(&nic->engine); /* it has one more socket to watch */
	return rc;
}

void nic_ask(struct nic *nic)
{
	turn_take(&nic->core.turn);
	roce_is_told(nic->link, port_ask_port(nic->port));
	turn_give(&nic->core.turn);
}

int nic_join(struct nic *nic, struct device *dev, const union ibv_gid *gid, bool join)
{
	int rc;

	turn_take(&nic->core.turn);
	rc = port_join(nic->port, gid->raw, dev->port.number, join);
	turn_give(&nic->core.turn);
	engine_kick(&nic->engine);
	return rc;
}
