/* SPDX-License-Identifier: BSD-2-Clause */
#include "driver/registry.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver/hca.h"
#include "driver/netdev.h"
#include "driver/pick.h"
#include "sys/cancel.h"
#include "sys/conf.h"
#include "sys/ident.h"
#include "sys/inside.h"
#include "sys/list.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/like.h"
#include "verbs/netport.h"

static struct lock registry_lock;
static struct list all GUARDED_BY(registry_lock) = { &all, &all };
static_assert(DEVICE_KINDS == 3, "one kind stands on no interface: KIND_IB");
/* URNIC_HCA's device, not in `all`; NULL until it was seen */
static struct device *hca GUARDED_BY(registry_lock);
/* the adapter was there at the last look */
static bool hca_here GUARDED_BY(registry_lock);
/* the loopback interface whose device is not listed while others are; 0: none */
static uint32_t left_out GUARDED_BY(registry_lock);
/* changes become events of its contexts; may be NULL */
static struct core *watcher GUARDED_BY(registry_lock);

/* The host's addresses at the last look, including those of interfaces that
 * URNIC_DEVICES hides, so that both ends of a connection see the same. Protected by a
 * lock of its own, the innermost: callers hold the turn, under which neither the
 * registry's lock is taken nor the kernel asked. */
static struct lock ips_lock;
static uint8_t (*ips)[16] GUARDED_BY(ips_lock);
static unsigned nips GUARDED_BY(ips_lock);

/* At the first look, logs why there is no device, and which names in URNIC_DEVICES match
 * no interface. Not later, when an interface may only have gone. */
static void say_unknown(const struct netdev *net, int n)
{
	const char *list = conf_get()->devices;
	char unknown[400], names[400];
	static bool looked;

	if (looked)
		return;
	looked = true;
	if (!n)
		log_warn("there is no RDMA device: no network interface has an address "
			 "(ip link set lo up?)");
	if (!n || !pick_unknown(list, net, n, unknown, sizeof(unknown)))
		return;
	pick_names(net, n, names, sizeof(names));
	if (pick_some(list, net, n))
		log_warn("URNIC_DEVICES (urnic run -d) names %s: no interface with an "
			 "address has that name.  There are: %s",
			 unknown, names);
	else
		log_error("URNIC_DEVICES (urnic run -d) names %s: no interface with an "
			  "address has that name, so there is no device.  There are: "
			  "%s",
			  unknown, names);
}

/* The interfaces found by one look. */
struct look {
	struct netdev *net;
	int n;
};

static bool is_here(const struct look *look, uint32_t ifindex)
{
	for (int i = 0; i < look->n; i++)
		if (look->net[i].ifindex == ifindex)
			return true;
	return false;
}

/* Finds the device of interface net. A renamed interface keeps its index and its device.
 * One that was deleted and made again has another index; its device is found by name. */
static struct device *find_device(const struct look *look, const struct netdev *net,
				  const struct device_kind *kind) REQUIRES(registry_lock)
{
	struct device *named = NULL;
	const struct netdev *was;

	list_for(n, &all)
	{
		struct device *dev = container_of(n, struct device, node);

		if (dev->kind != kind)
			continue;
		was = &net_device_of(dev)->net;
		if (was->ifindex == net->ifindex)
			return dev;
		if (!strcmp(was->name, net->name) && !is_here(look, was->ifindex))
			named = dev;
	}
	return named;
}

static void raise_changes(struct device *dev, unsigned what) REQUIRES(registry_lock)
{
	struct core *core = watcher;

	if (!core || !what)
		return;
	lock_take(&core->lock);
	list_for(n, &core->contexts)
	{
		struct context *ctx = container_of(n, struct context, node);

		if (ctx->dev != dev || ctx->dead)
			continue;
		for (unsigned bit = 1; bit < PORT_CHANGES; bit <<= 1)
			if (what & bit)
				async_raise(ctx, port_event((enum port_change)bit), NULL);
	}
	lock_give(&core->lock);
}

static bool is_taken(const char *name) REQUIRES(registry_lock)
{
	list_for(n, &all) if (!strcmp(container_of(n, struct device, node)->ibv.name,
				      name)) return true;
	return false;
}

/* Names the device; adds the interface's index if a renamed device has the name. */
static void name_device(struct identity *id, const struct netdev *net,
			const struct device_kind *kind) REQUIRES(registry_lock)
{
	size_t len;

	if (!*id->name)
		snprintf(id->name, sizeof(id->name), "%s_%s", kind->prefix, net->name);
	len = strlen(id->name);
	if (is_taken(id->name))
		snprintf(id->name + len, sizeof(id->name) - len, "_%u", net->ifindex);
}

/* Parses the identity, which conf has checked already, without the name. */
static int read_identity(struct ident *ident, struct identity *id)
{
	char why[160];
	int rc = ident_parse(conf_get()->identity, ident, why, sizeof(why));

	if (rc)
		return rc;
	*id = identity_of(ident);
	/* Programs read the version of devices of a vendor whom they know. */
	if (*like_spec() && id->vendor_id == IDENT_VENDOR)
		snprintf(id->fw_ver, sizeof(id->fw_ver), "%.24s (like %.24s)",
			 ident->fw_ver, like_spec());
	return 0;
}

/* Makes a device. The name of the identity is for the kind that every interface gets. */
static int add_device(const struct netdev *net, const struct device_kind *kind)
	REQUIRES(registry_lock)
{
	static int made;
	struct ident ident;
	struct identity id;
	struct device *dev;
	int rc = read_identity(&ident, &id);

	if (rc)
		return rc;
	if (!kind->named)
		ident_name(&ident, net->name, made, id.name);
	name_device(&id, net, kind);
	rc = device_create(kind, net, &id, &dev);
	if (rc)
		return rc;
	made += !kind->named;
	list_add_tail(&all, &dev->node);
	return 0;
}

static void update(struct device *dev, const struct netdev *net) REQUIRES(registry_lock)
{
	const struct netdev *was = &net_device_of(dev)->net;

	if (strcmp(was->name, net->name))
		log_info("interface %s is called %s now; device %s stays its device",
			 was->name, net->name, dev->ibv.name);
	else if (was->ifindex != net->ifindex)
		log_info("interface %s was made anew; device %s is its device", net->name,
			 dev->ibv.name);
	raise_changes(dev, device_update(dev, net));
}

/* The interface of dev is gone: its port goes down and loses its addresses. */
static void withdraw(struct device *dev) REQUIRES(registry_lock)
{
	raise_changes(dev, device_update(dev, NULL));
}

static int note_addresses(const struct netdev *net, int n)
{
	uint8_t(*now)[16], (*old)[16];
	unsigned count = 0, at = 0;

	for (int i = 0; i < n; i++)
		count += net[i].naddrs;
	now = calloc(count + 1u, sizeof(*now));
	if (!now)
		return -ENOMEM;
	for (int i = 0; i < n; i++)
		for (unsigned j = 0; j < net[i].naddrs; j++)
			memcpy(now[at++], net[i].addr[j].ip, 16);
	lock_take(&ips_lock);
	old = ips;
	ips = now;
	nips = count;
	lock_give(&ips_lock);
	free(old);
	return 0;
}

/* Should interface i get a device of this kind? A program at an adapter has only that,
 * and what it names. */
static bool is_wanted(const struct look *look, int i, const struct device_kind *kind)
{
	const struct conf *conf = conf_get();

	return (!conf->hca[0] || conf->devices[0]) &&
	       pick_device(conf->devices, look->net, look->n, i, kind);
}

/* Says which GIDs the devices get, as the configuration has it. */
static void choose_gids(const struct look *look)
{
	const struct conf *conf = conf_get();

	for (int i = 0; i < look->n; i++) {
		look->net[i].v1 = conf->link == CONF_LINK_RAW;
		look->net[i].one_gid = conf->one_gid;
	}
}

static int add_or_update(const struct look *look) REQUIRES(registry_lock)
{
	const struct netdev *out =
		pick_left_out(conf_get()->devices, look->net, look->n, &device_roce);
	int rc = 0;

	left_out = out ? out->ifindex : 0;
	for (int i = 0; i < NETDEV_KINDS * look->n && !rc; i++) {
		const struct netdev *net = &look->net[i % look->n];
		const struct device_kind *kind = netdev_kinds[i / look->n];
		struct device *dev = find_device(look, net, kind);

		if (dev)
			update(dev, net);
		else if (is_wanted(look, i % look->n, kind))
			rc = add_device(net, kind);
	}
	return rc;
}

/* Updates the adapter's device. While a NIC is open the fabric itself sends the changes,
 * in order (adapter.c). */
static int look_at_hca(bool says) REQUIRES(registry_lock)
{
	const struct conf *conf = conf_get();
	struct ident ident;
	struct identity id;
	unsigned changes;
	int rc = read_identity(&ident, &id);

	if (hca_here && watcher)
		return 0;
	hca_here = false;
	if (rc || !conf->hca[0])
		return rc;
	rc = hca_look(conf->fabric, conf->hca, &id, says, &hca, &changes);
	if (rc)
		return rc == -EIO ? 0 : rc;
	hca_here = true;
	raise_changes(hca, changes);
	return 0;
}

void registry_hca_port(const struct port *port)
{
	struct port down;

	lock_take(&registry_lock);
	if (hca) {
		down = hca->port;
		down.active = false;
		down.state = IBV_PORT_DOWN;
		down.phys_state = 0;
		raise_changes(hca, device_fill(hca, port ? port : &down));
	}
	lock_give(&registry_lock);
}

struct device *registry_hca(void)
{
	struct device *dev;

	lock_take(&registry_lock);
	dev = hca;
	lock_give(&registry_lock);
	return dev;
}

/* A signal handler must not fork in the middle of a change. */
static void lock_registry(sigset_t *was) ACQUIRES(registry_lock)
{
	signals_hold(was);
	lock_take(&registry_lock);
	if (conf_get())
		like_begin(conf_get()->like); /* before the first device */
}

static void unlock_registry(const sigset_t *was) RELEASES(registry_lock)
{
	lock_give(&registry_lock);
	signals_let(was);
}

static int refresh(bool says) REQUIRES(registry_lock)
{
	struct look look;
	int rc;

	if (!conf_get())
		return -EINVAL;
	rc = netdev_list(&look.net, &look.n);
	if (rc)
		return rc;
	choose_gids(&look);
	rc = note_addresses(look.net, look.n);
	if (!rc)
		rc = add_or_update(&look);
	if (says)
		say_unknown(look.net, look.n);
	list_for(node, &all)
	{
		struct net_device *nd =
			net_device_of(container_of(node, struct device, node));

		if (nd->present && !is_here(&look, nd->net.ifindex))
			withdraw(&nd->dev);
	}
	free(look.net);
	return rc;
}

NO_TSA bool registry_hold(enum lock_how how)
{
	return lock_get(&registry_lock, how);
}

NO_TSA void registry_let_go(void)
{
	lock_give(&registry_lock);
}

/* Devices change under registry_lock only, so a thread that held a device's own lock at
 * the fork was only reading. */
NO_TSA void registry_forked(void)
{
	if (hca)
		lock_init(&hca->lock);
	list_for(n, &all) lock_init(&container_of(n, struct device, node)->lock);
	watcher = NULL;
	lock_init(&ips_lock);
	lock_init(&registry_lock);
}

void registry_watch(struct core *core)
{
	lock_take(&registry_lock);
	watcher = core;
	lock_give(&registry_lock);
}

bool registry_has_ip(const uint8_t ip[16])
{
	bool found = false;

	lock_take(&ips_lock);
	for (unsigned i = 0; i < nips && !found; i++)
		found = memcmp(ips[i], ip, 16) == 0;
	lock_give(&ips_lock);
	return found;
}

unsigned registry_addresses(uint8_t (*ip)[16], unsigned max)
{
	unsigned n;

	lock_take(&ips_lock);
	n = nips < max ? nips : max;
	if (n)
		memcpy(ip, ips, n * sizeof(*ip));
	lock_give(&ips_lock);
	return n;
}

int registry_refresh(void)
{
	sigset_t was;
	int rc;

	lock_registry(&was);
	rc = refresh(true);
	unlock_registry(&was);
	return rc;
}

static int place_of(const struct device *dev)
{
	int i = 0;

	while (i < NETDEV_KINDS && netdev_kinds[i] != dev->kind)
		i++;
	return i;
}

/* Sorts by kind, Ethernet before loopback, then in the kernel's order. */
static int by_use(const void *a, const void *b)
{
	struct net_device *x = net_device_of(*(struct device *const *)a);
	struct net_device *y = net_device_of(*(struct device *const *)b);

	if (x->dev.kind != y->dev.kind)
		return place_of(&x->dev) - place_of(&y->dev);
	if (x->net.loopback != y->net.loopback)
		return x->net.loopback ? 1 : -1;
	return (x->net.ifindex > y->net.ifindex) - (x->net.ifindex < y->net.ifindex);
}

/* Loopback's device stays when another comes, as a program may have opened it. */
static bool is_listed(struct device *dev) REQUIRES(registry_lock)
{
	const struct net_device *nd = net_device_of(dev);

	return nd->present && (dev->kind->named || nd->net.ifindex != left_out);
}

int registry_devices(bool says, struct device ***out, int *n)
{
	struct device **v;
	size_t count = 0, first;
	sigset_t was;
	int rc;

	lock_registry(&was);
	rc = refresh(says);
	if (!rc)
		rc = look_at_hca(says);
	if (rc)
		goto unlock;
	list_for(node, &all) count++;
	v = calloc(count + 2, sizeof(struct device *));
	if (!v) {
		rc = -ENOMEM;
		goto unlock;
	}
	v[0] = hca;
	first = hca_here;
	count = first;
	list_for(node, &all)
	{
		struct device *dev = container_of(node, struct device, node);

		if (is_listed(dev))
			v[count++] = dev;
	}
	qsort(v + first, count - first, sizeof(struct device *), by_use);
	*out = v;
	*n = (int)count;
unlock:
	unlock_registry(&was);
	return rc;
}
