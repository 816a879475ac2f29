/* SPDX-License-Identifier: BSD-2-Clause */
/* adapter.c - see adapter.h. The fabric is another process. When it ends, the port goes
 * down and sent packets are lost until the program opens its device anew. */
#include "driver/adapter.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cm/cm.h"
#include "driver/hca.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "driver/wraps.h"
#include "host/host.h"
#include "net/adapter.h"
#include "net/adapter_ring.h"
#include "net/lid.h"
#include "sys/conf.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "verbs/device.h"

enum { AT_ONCE = 64 };

struct adapter {
	struct nic_link nl;
	struct link *inner; /* the link that nl.link wraps */
	struct adapter_shared *shared;
	int fd;
	struct fd_id id;
	uint16_t slot;
	struct cm *cm;
	uint32_t reregisters; /* reregister count in the last news about the port */
	atomic_bool asked;    /* it has changed: memberships are asked for again */
	atomic_bool gone;     /* the fabric has ended */
};

static struct adapter *adapter_of(struct source *s)
{
	return container_of(s, struct adapter, nl.source);
}

static bool carries(const struct nic_link *l, const struct device *dev)
{
	(void)l;
	switch (dev->kind->id) {
	case KIND_IB:
		return true;
	case KIND_ROCE:
	case KIND_IWARP:
		break;
	}
	return false;
}

/* Joins or leaves a multicast group. The subnet manager keeps the groups: switches
 * deliver packets of groups that were joined there. */
static int join(struct nic_link *l, const struct device *dev, const uint8_t gid[16],
		bool in)
{
	(void)l;
	(void)dev;
	(void)gid;
	(void)in;
	return 0;
}

static unsigned fds(struct source *s, struct source_fd *fd)
{
	const struct adapter *a = adapter_of(s);

	if (atomic_load(&a->gone))
		return 0;
	*fd = (struct source_fd){ .fd = a->fd, .is = SOURCE_KICK, .stream = true };
	return 1;
}

/* The program may have closed the descriptor and reused its number. */
static bool is_ours(const struct adapter *a)
{
	return fd_is(a->fd, &a->id);
}

static void forked(struct source *s)
{
	if (is_ours(adapter_of(s)))
		close(adapter_of(s)->fd);
}

/* Every packet may be of a WRITE, for which the program need not poll. */
static unsigned input(struct source *s, enum source_depth depth, struct source_got *got,
		      uint64_t now)
{
	struct adapter *a = adapter_of(s);
	const unsigned n = links_input(s, depth, got, now);

	if (atomic_load_explicit(&a->asked, memory_order_relaxed) &&
	    atomic_exchange(&a->asked, false))
		cm_reregister(a->cm, now);
	if (adapter_link_has(a->inner))
		source_set(s, 0);
	got->one_sided |= n > 0;
	return n;
}

static bool sleeps(struct source *s, bool does)
{
	struct adapter *a = adapter_of(s);

	adapter_link_sleeps(a->inner, does);
	source_set(s, a->nl.link->ops->deadline(a->nl.link));
	return does && adapter_link_has(a->inner);
}

static void lost(struct adapter *a)
{
	if (atomic_exchange(&a->gone, true))
		return;
	log_error("the fabric has ended: the port of its adapter is down; "
		  "start the fabric again and open the device anew");
	adapter_link_cut(a->inner);
	registry_hca_port(NULL);
}

/* The descriptor stays open, because another thread may be kicking by it. A kick needs no
 * turn, as its ring may be left to threads that poll. */
static bool outside(struct source *s)
{
	struct adapter *a = adapter_of(s);
	struct plug_port news;
	struct port port;

	if (!is_ours(a)) {
		lost(a);
		return false;
	}
	for (unsigned i = 0; i < AT_ONCE; i++) { /* the rest is read in the next turn */
		int rc = plug_news(a->fd, &news);

		if (rc == -EWOULDBLOCK)
			break;
		if (rc < 0) {
			lost(a);
			break;
		}
		if (rc == 0)
			continue; /* a kick carries nothing */
		hca_fill(&port, &news);
		registry_hca_port(&port);
		if (a->reregisters != port.reregisters)
			atomic_store(&a->asked, true);
		a->reregisters = port.reregisters;
	}
	return atomic_load(&a->asked);
}

static const struct nic_link_ops adapter_ops = {
	.carries = carries,
	.join = join,
};

static const struct source_ops source_ops = {
	SOURCE_RINGS, .input = input,	  .sleeps = sleeps,
	.fds = fds,   .outside = outside, .forked = forked,
};

static void kick(void *arg)
{
	struct adapter *a = arg;

	if (!atomic_load(&a->gone) && is_ours(a))
		(void)plug_kick(a->fd);
}

static int map(struct adapter *a, int memory)
{
	void *at = mmap(NULL, sizeof(*a->shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			memory, 0);

	close(memory);
	if (at == MAP_FAILED)
		return -errno;
	madvise(at, sizeof(*a->shared), MADV_DONTFORK);
	a->shared = at;
	return 0;
}

static int stack_links(struct adapter *a, struct nic *nic)
{
	struct link *link;
	int rc = adapter_link(&a->inner, a->shared, kick, a);

	if (rc)
		return rc;
	link = a->inner;
	rc = wraps_put(nic, conf_get(), &link, true);
	if (!rc)
		rc = lid_wrap(&a->nl.link, link);
	if (rc) {
		link->ops->close(link);
		return rc;
	}
	rc = cm_use_link(nic->cm, registry_hca(), a->nl.link, 0);
	if (rc)
		a->nl.link->ops->close(a->nl.link);
	return rc;
}

/* Returns rc; logs it if it means that the fabric gave no answer. */
static int say_silence(int rc)
{
	if (rc < 0 && rc != -EHOSTUNREACH && rc != -EADDRINUSE)
		log_warn("rdma_cm cannot ask fabric %s for addresses: %s",
			 conf_get()->fabric, plug_why(rc));
	return rc;
}

int nic_find(struct core *core, const uint8_t ip[16], uint8_t gid[16])
{
	const struct conf *conf = conf_get();

	return nic_of_core(core)->adapter ? say_silence(plug_find(conf->fabric, conf->hca,
								  HCA_PORT, ip, gid))
					  : -ENODEV;
}

int nic_serve(struct core *core, uint64_t service)
{
	const struct nic *nic = nic_of_core(core);
	const struct conf *conf = conf_get();

	return nic->adapter ? say_silence(plug_service(conf->fabric, conf->hca, HCA_PORT,
						       nic->adapter->slot, service))
			    : -ENODEV;
}

int adapter_open(struct adapter **out, struct nic *nic)
{
	const struct conf *conf = conf_get();
	struct adapter *a;
	int memory, rc;

	*out = NULL;
	if (!conf->hca[0])
		return 0;
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->nl.ops = &adapter_ops;
	a->slot = host_slot(nic->host);
	a->cm = nic->cm;
	a->fd = plug_attach(conf->fabric, conf->hca, HCA_PORT, a->slot, &memory);
	rc = a->fd < 0 ? a->fd : map(a, memory);
	if (a->fd >= 0)
		(void)fd_identify(a->fd, &a->id);
	if (!rc)
		rc = stack_links(a, nic);
	if (rc) {
		log_error("adapter %s of fabric %s cannot be opened: %s", conf->hca,
			  conf->fabric, strerror(-rc));
		if (a->shared)
			munmap(a->shared, sizeof(*a->shared));
		if (a->fd >= 0)
			close(a->fd);
		free(a);
		return rc;
	}
	links_add(&nic->links, &a->nl, &source_ops);
	wraps_know(nic, conf_get(), a->nl.link, lid_inner(a->nl.link), true);
	*out = a;
	return 0;
}

void adapter_close(struct adapter *a)
{
	if (!a)
		return;
	links_remove(&a->nl);
	a->nl.link->ops->close(a->nl.link);
	munmap(a->shared, sizeof(*a->shared));
	if (is_ours(a))
		close(a->fd);
	free(a);
}
