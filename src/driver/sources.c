/* SPDX-License-Identifier: BSD-2-Clause */
/* sources.c - a source of the engine (sys/source.h) for each room that has input.
 *
 * Cancellation is held off around possible cancellation points, because the thread that
 * runs the engine may be one of the program's.
 */
#include "driver/sources.h"

#include "cm/cm.h"
#include "driver/conn.h"
#include "driver/netdev.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "host/host.h"
#include "raw/packet.h"
#include "shm/peers.h"
#include "sys/cancel.h"
#include "verbs/asleep.h"
#include "verbs/core.h"
#include "verbs/order.h"

/* Those that are no part of their room. */
enum which { HOST, INTERFACES, PACKETS };

static struct nic *nic_of(struct source *s, enum which i)
{
	return container_of(s, struct nic, sources.source[i]);
}

/* --- other processes: a writer of a ring kicks by these ----------------- */

static unsigned host_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	(void)now;
	if (s->ready >= 0 || depth == SOURCE_ALL)
		got->news |= host_run(nic_of(s, HOST)->host);
	return 0;
}

static unsigned host_fds(struct source *s, struct source_fd *fd)
{
	*fd = (struct source_fd){ .fd = host_fd(nic_of(s, HOST)->host),
				  .is = SOURCE_KICK };
	return 1;
}

static void host_fork(struct source *s)
{
	host_forked(nic_of(s, HOST)->host);
}

/* --- changes of interfaces ----------------------------------------------- */

static unsigned interface_fds(struct source *s, struct source_fd *fd)
{
	*fd = (struct source_fd){ .fd = netdev_monitor_fd(nic_of(s, INTERFACES)->monitor),
				  .is = SOURCE_CALL };
	return 1;
}

/* The registry's lock is taken before the turn. */
static bool interfaces_changed(struct source *s)
{
	if (netdev_monitor_drain(nic_of(s, INTERFACES)->monitor))
		registry_refresh();
	return false;
}

static void interfaces_forked(struct source *s)
{
	netdev_monitor_forked(nic_of(s, INTERFACES)->monitor);
}

/* --- raw packet QPs ------------------------------------------------------ */

static struct packets *taps_of(struct source *s)
{
	return packets_of(&nic_of(s, PACKETS)->core);
}

static unsigned tap_input(struct source *s, enum source_depth depth,
			  struct source_got *got, uint64_t now)
{
	struct packets *p = taps_of(s);
	const unsigned echoes = packets_echo(p, now);
	int n, was;

	(void)depth;
	if (packets_fd(p) < 0)
		return echoes;
	was = cancel_hold();
	n = packets_input(p, now);
	cancel_let(was);
	got->broken |= n < 0;
	return echoes + (n > 0 ? (unsigned)n : 0);
}

static bool tap_flush(struct source *s)
{
	return packets_have_echo(taps_of(s));
}

static unsigned tap_fds(struct source *s, struct source_fd *fd)
{
	*fd = (struct source_fd){ .fd = packets_fd(taps_of(s)) };
	return 1;
}

static void taps_forked(struct source *s)
{
	packets_forked(taps_of(s));
}

/* --- the table ----------------------------------------------------------- */

/* clang-format off */
static const struct source_ops ops[SOURCES] = {
	[HOST] = { SOURCE_SOCKETS, .input = host_input, .fds = host_fds,
		   .forked = host_fork },
	[INTERFACES] = { SOURCE_SOCKETS, .fds = interface_fds,
			 .outside = interfaces_changed, .forked = interfaces_forked },
	[PACKETS] = { SOURCE_SOCKETS, .input = tap_input, .flush = tap_flush,
		      .fds = tap_fds, .forked = taps_forked },
};
/* clang-format on */

/* The order is that in which input is taken in. Unit tests have neither other processes
 * nor interfaces. */
void sources_open(struct nic *nic)
{
	struct engine *e = &nic->engine;
	struct source *own = nic->sources.source;

	for (int i = 0; i < SOURCES; i++)
		source_init(&own[i], &ops[i]);
	if (nic->host)
		engine_add(e, &own[HOST]);
	links_turned_by(&nic->links, e);
	engine_add(e, conns_source(nic->conns));
	engine_add(e, cm_source(nic->cm));
	engine_add(e, peers_source(peers_of(&nic->core)));
	if (packets_of(&nic->core))
		engine_add(e, &own[PACKETS]);
	if (nic->guest.heard)
		engine_add(e, &nic->guest.source);
	engine_add(e, asleep_source(&nic->core));
	if (order_source(&nic->core))
		engine_add(e, order_source(&nic->core));
	if (nic->monitor)
		engine_add(e, &own[INTERFACES]);
	if (!nic->host)
		return;
	dumper_init(&nic->dumper, &nic->core, nic->cm);
	engine_add(e, &nic->dumper.source);
}
