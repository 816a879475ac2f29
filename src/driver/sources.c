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
#include "driver/xrc.h"
#include "host/host.h"
#include "local/local.h"
#include "raw/packet.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "verbs/asleep.h"
#include "verbs/core.h"

/* In the order in which input is taken in, behind that of the links (driver/links.h). */
enum which { CONNS, CM, RINGS, HOST, INTERFACES, PACKETS, XRC, ASLEEP };

static struct nic *nic_of(struct source *s, enum which i)
{
	return container_of(s, struct nic, sources.source[i]);
}

/* Descriptors that are always slept on, because what they announce is no input. */
static unsigned call_fd(struct source_fd *fd, int n)
{
	*fd = (struct source_fd){ .fd = n, .always = true };
	return 1;
}

static unsigned input_fd(struct source_fd *fd, int n)
{
	*fd = (struct source_fd){ .fd = n, .input = true };
	return 1;
}

/* --- connections of iWARP ------------------------------------------------ */

static void on_conns(struct source *s, struct source_got *got, uint64_t now)
{
	struct conns *conns = nic_of(s, CONNS)->conns;
	int was;

	if (conns_fd(conns) < 0)
		return;
	was = cancel_hold();
	got->n += conns_input(conns, now) > 0;
	cancel_let(was);
}

static bool hear_conns(struct source *s)
{
	conns_hear(nic_of(s, CONNS)->conns);
	return false;
}

static unsigned conns_fds(struct source *s, struct source_fd *fd)
{
	const struct conns *conns = nic_of(s, CONNS)->conns;
	unsigned n = input_fd(fd, conns_fd(conns));

	for (unsigned i = 0; i < CONNS_FEW; i++)
		fd[n++] = (struct source_fd){ .fd = conns_socket(conns, i),
					      .input = true,
					      .stream = true };
	return n;
}

static void conns_rang(struct source *s, int fd)
{
	conns_told(nic_of(s, CONNS)->conns, fd);
}

static void conns_fork(struct source *s)
{
	conns_forked(nic_of(s, CONNS)->conns);
}

/* --- connection management ----------------------------------------------- */

static void on_cm(struct source *s, struct source_got *got, uint64_t now)
{
	struct cm *cm = nic_of(s, CM)->cm;
	int was;

	if (cm_fd(cm) < 0)
		return;
	was = cancel_hold();
	got->n += cm_input(cm, now);
	cancel_let(was);
}

static bool hear_cm(struct source *s)
{
	cm_hear(nic_of(s, CM)->cm);
	return false;
}

static uint64_t on_cm_deadline(struct source *s, uint64_t now)
{
	(void)now;
	return cm_deadline(nic_of(s, CM)->cm);
}

/* Tells programs what has happened, by a write to their descriptors. */
static void on_cm_run(struct source *s, uint64_t now)
{
	int was = cancel_hold();

	cm_run(nic_of(s, CM)->cm, now);
	cancel_let(was);
}

static unsigned cm_fds(struct source *s, struct source_fd *fd)
{
	return call_fd(fd, cm_fd(nic_of(s, CM)->cm));
}

static void cm_fork(struct source *s)
{
	cm_forked(nic_of(s, CM)->cm);
}

/* --- rings of this host -------------------------------------------------- */

static struct local *rings_of(struct source *s)
{
	return local_of(&nic_of(s, RINGS)->core);
}

static void rings_input(struct source *s, struct source_got *got, uint64_t now)
{
	struct local_got local = local_input(rings_of(s), now);

	got->n += local.records;
	got->one_sided |= local.one_sided;
}

static bool rings_quiet(const struct source *s)
{
	const struct nic *nic = container_of(s, struct nic, sources.source[RINGS]);

	return local_is_quiet(local_of(&nic->core));
}

static bool rings_hear(struct source *s)
{
	local_hear(rings_of(s));
	return false;
}

static uint64_t rings_deadline(struct source *s, uint64_t now)
{
	return local_deadline(rings_of(s), now);
}

static bool rings_flush(struct source *s)
{
	return local_flush(rings_of(s));
}

static bool rings_hot(struct source *s)
{
	return local_is_hot(rings_of(s));
}

static void rings_watched(struct source *s)
{
	local_rest(rings_of(s));
}

static void rings_left(struct source *s)
{
	local_leave(rings_of(s));
}

static void rings_forked(struct source *s)
{
	local_forked(&nic_of(s, RINGS)->core);
}

/* --- other processes: a writer of a ring kicks by these ----------------- */

static unsigned host_fds(struct source *s, struct source_fd *fd)
{
	*fd = (struct source_fd){ host_fd(nic_of(s, HOST)->host), true, true, false };
	return 1;
}

static bool host_hear(struct source *s)
{
	return host_run(nic_of(s, HOST)->host);
}

static void host_rang(struct source *s, int fd)
{
	(void)fd;
	(void)host_run(nic_of(s, HOST)->host);
}

static void host_fork(struct source *s)
{
	host_forked(nic_of(s, HOST)->host);
}

/* --- changes of interfaces ----------------------------------------------- */

static unsigned interface_fds(struct source *s, struct source_fd *fd)
{
	return call_fd(fd, netdev_monitor_fd(nic_of(s, INTERFACES)->monitor));
}

static void interfaces_told(struct source *s)
{
	if (netdev_monitor_drain(nic_of(s, INTERFACES)->monitor))
		registry_refresh();
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

static void on_packets(struct source *s, struct source_got *got, uint64_t now)
{
	struct packets *p = taps_of(s);
	int n, was;

	got->n += packets_echo(p, now);
	if (packets_fd(p) < 0)
		return;
	was = cancel_hold();
	n = packets_input(p, now);
	cancel_let(was);
	if (n < 0)
		got->broken = true;
	else
		got->n += (unsigned)n;
}

static bool packets_flush(struct source *s)
{
	return packets_have_echo(taps_of(s));
}

static unsigned packet_fds(struct source *s, struct source_fd *fd)
{
	return input_fd(fd, packets_fd(taps_of(s)));
}

static void packets_fork(struct source *s)
{
	packets_forked(taps_of(s));
}

/* --- XRC between processes ------------------------------------------------ */

static uint64_t xrc_deadline(struct source *s, uint64_t now)
{
	return xrc_next(nic_of(s, XRC), now);
}

static void xrc_run(struct source *s, uint64_t now)
{
	xrc_run_all(nic_of(s, XRC), now);
}

/* --- threads that wait in vain --------------------------------------------- */

static uint64_t sleepers_deadline(struct source *s, uint64_t now)
{
	(void)now;
	return asleep_deadline(&nic_of(s, ASLEEP)->core);
}

static void look_at_sleepers(struct source *s, uint64_t now)
{
	asleep_look(&nic_of(s, ASLEEP)->core, now);
}

/* --- the table ----------------------------------------------------------- */

/* clang-format off */
static const struct source_ops ops[SOURCES] = {
	[CONNS] = { SOURCE_SOCKETS, .input = on_conns, .hear = hear_conns,
		    .fds = conns_fds, .rang = conns_rang, .forked = conns_fork },
	[CM] = { SOURCE_SOCKETS, .input = on_cm, .hear = hear_cm, .run = on_cm_run,
		 .deadline = on_cm_deadline, .fds = cm_fds, .forked = cm_fork },
	[RINGS] = { SOURCE_RINGS, .input = rings_input, .quiet = rings_quiet,
		    .hear = rings_hear,
		    .deadline = rings_deadline,
		    .flush = rings_flush, .hot = rings_hot, .watched = rings_watched, .left = rings_left,
		    .forked = rings_forked },
	[HOST] = { SOURCE_RINGS, .hear = host_hear, .fds = host_fds, .rang = host_rang,
		   .forked = host_fork },
	[PACKETS] = { SOURCE_SOCKETS, .input = on_packets, .flush = packets_flush,
		      .fds = packet_fds, .forked = packets_fork },
	[XRC] = { SOURCE_SOCKETS, .run = xrc_run, .deadline = xrc_deadline },
	[ASLEEP] = { SOURCE_SOCKETS, .run = look_at_sleepers,
		     .deadline = sleepers_deadline },
	[INTERFACES] = { SOURCE_SOCKETS, .fds = interface_fds, .told = interfaces_told,
			 .forked = interfaces_forked },
};
/* clang-format on */

void sources_open(struct nic *nic)
{
	links_turned_by(&nic->links, &nic->engine);
	for (int i = 0; i < SOURCES; i++) {
		struct source *s = &nic->sources.source[i];

		*s = (struct source){ .ops = &ops[i], .rang = -1 };
		/* Unit tests have neither other processes nor interfaces. */
		if ((i != HOST || nic->host) && (i != INTERFACES || nic->monitor) &&
		    (i != XRC || nic->xrc) && (i != PACKETS || packets_of(&nic->core)))
			engine_add(&nic->engine, s);
	}
	if (!nic->host)
		return;
	dumper_init(&nic->dumper, &nic->core, nic->cm, nic->host);
	engine_add(&nic->engine, &nic->dumper.source);
}
