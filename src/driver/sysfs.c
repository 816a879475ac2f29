/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs.c - see sysfs.h. */
#include "driver/sysfs.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver/hca.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "driver/tally.h"
#include "fabric/port/plug.h"
#include "sys/conf.h"
#include "verbs/netport.h"

enum { PORTS_MAX = 254 }; /* an adapter has no more */
enum { STATE_DOWN = 1, STATE_ACTIVE = 4, PHYS_DISABLED = 3, PHYS_UP = 5 };

static const char classes[] = "class/infiniband";

void sysfs_begin(struct sysfs *s, const char *root, bool live)
{
	struct tree *t = &s->t;
	size_t was;

	s->umads = 0;
	tree_begin(t, root, live);
	if (live)
		return;
	tree_leave(t, tree_enter_path(t, classes));
	was = tree_enter_path(t, "class/infiniband_verbs");
	tree_file(t, "abi_version", "6");
	tree_leave(t, was);
	was = tree_enter_path(t, "class/infiniband_mad");
	tree_file(t, "abi_version", "5");
	tree_leave(t, was);
}

int sysfs_end(struct sysfs *s)
{
	return tree_end(&s->t);
}

/* --- a port ------------------------------------------------------------------ */

static void put_guid(struct tree *t, const char *name, uint64_t guid)
{
	const uint64_t g = be64toh(guid);

	tree_file(t, name, "%04x:%04x:%04x:%04x", (unsigned)(g >> 48),
		  (unsigned)(g >> 32 & 0xffff), (unsigned)(g >> 16 & 0xffff),
		  (unsigned)(g & 0xffff));
}

static void put_gid(struct tree *t, const char *name, const union ibv_gid *gid)
{
	char text[40];
	int n = 0;

	for (int i = 0; i < 16; i += 2)
		n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%02x%02x",
			      i ? ":" : "", gid->raw[i], gid->raw[i + 1]);
	tree_file(t, name, "%s", text);
}

/* Linux's names and rates of a lane; in tenths of Gb/s. */
static const struct {
	uint8_t speed;
	const char *name;
	unsigned rate;
} speeds[] = {
	{ 1, "SDR", 25 },   { 2, "DDR", 50 },	{ 4, "QDR", 100 },  { 8, "FDR10", 100 },
	{ 16, "FDR", 140 }, { 32, "EDR", 250 }, { 64, "HDR", 500 }, { 128, "NDR", 1000 },
};

static unsigned lanes_of(uint8_t width)
{
	return width == 2 ? 4 : width == 4 ? 8 : width == 8 ? 12 : width == 16 ? 2 : 1;
}

static void put_rate(struct tree *t, const struct port *p, bool up)
{
	unsigned i = 0, lanes = up ? lanes_of(p->width) : 1, rate;

	while (up && i + 1 < sizeof(speeds) / sizeof(*speeds) &&
	       speeds[i].speed != p->speed)
		i++;
	rate = speeds[i].rate * lanes;
	tree_file(t, "rate", "%u%s Gb/sec (%uX %s)", rate / 10, rate % 10 ? ".5" : "",
		  lanes, speeds[i].name);
}

static const char *name_in(const char *const *names, unsigned n, unsigned i)
{
	return i < n ? names[i] : "<unknown>";
}

static void put_state(struct tree *t, const struct port *p)
{
	static const char *const states[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE" };
	static const char *const physical[] = { "<unknown>",
						"Sleep",
						"Polling",
						"Disabled",
						"PortConfigurationTraining",
						"LinkUp",
						"LinkErrorRecovery" };
	unsigned state = p->state ? p->state : p->active ? STATE_ACTIVE : STATE_DOWN;
	unsigned phys = p->phys_state ? p->phys_state
			: p->active   ? PHYS_UP
				      : PHYS_DISABLED;

	tree_file(t, "state", "%u: %s", state, name_in(states, 5, state));
	tree_file(t, "phys_state", "%u: %s", phys, name_in(physical, 7, phys));
	put_rate(t, p, phys == PHYS_UP);
}

static void put_gids(struct tree *t, const struct port *p)
{
	size_t was = tree_enter(t, "gids");
	char name[12];

	for (unsigned i = 0; i < p->gids; i++) {
		snprintf(name, sizeof(name), "%u", i);
		put_gid(t, name, &p->gid[i].gid);
	}
	tree_leave(t, was);
}

/* Linux answers EINVAL for an entry that is not used: that has no file
 * (tools/preload_sysfs.c makes up the error). */
static void put_gid_attrs(struct tree *t, const struct sysfs_dev *d, const struct port *p)
{
	size_t attrs = tree_enter(t, "gid_attrs"), was;
	char name[12];

	was = tree_enter(t, "types");
	for (unsigned i = 0; i < p->gids; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (p->gid[i].used)
			tree_file(t, name, "%s",
				  d->netdev && !d->iwarp && !gid_is_v1(&p->gid[i])
					  ? "RoCE v2"
					  : "IB/RoCE v1");
	}
	tree_leave(t, was);
	was = tree_enter(t, "ndevs");
	for (unsigned i = 0; d->netdev && i < p->gids; i++) {
		snprintf(name, sizeof(name), "%u", i);
		if (p->gid[i].used)
			tree_file(t, name, "%s", d->netdev);
	}
	tree_leave(t, was);
	tree_leave(t, attrs);
}

static void put_pkeys(struct tree *t, const struct port *p)
{
	size_t was = tree_enter(t, "pkeys");
	char name[12];

	for (unsigned i = 0; i < p->pkeys; i++) {
		snprintf(name, sizeof(name), "%u", i);
		tree_file(t, name, "0x%04x", p->pkey[i]);
	}
	tree_leave(t, was);
}

static void put_fixed(struct tree *t, const struct sysfs_dev *d, const struct port *p)
{
	tree_file(t, "lid", "0x%x", p->lid);
	tree_file(t, "lid_mask_count", "%u", p->lmc);
	tree_file(t, "sm_lid", "0x%x", p->sm_lid);
	tree_file(t, "sm_sl", "%u", p->sm_sl);
	tree_file(t, "cap_mask", "0x%08x", p->cap_flags);
	tree_file(t, "link_layer",
		  p->link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
	put_state(t, p);
	put_gids(t, p);
	put_gid_attrs(t, d, p);
	put_pkeys(t, p);
}

static void put_port(struct tree *t, const struct sysfs_dev *d, unsigned num)
{
	char name[12];
	size_t port, was;

	snprintf(name, sizeof(name), "%u", num);
	port = tree_enter(t, name);
	if (!t->live)
		put_fixed(t, d, &d->port[num - 1]);
	for (int hw = 0; hw < 2 && d->counters; hw++) {
		was = tree_enter(t, hw ? "hw_counters" : "counters");
		d->counters(t, d, num, hw);
		tree_leave(t, was);
	}
	tree_leave(t, port);
}

/* --- a device ---------------------------------------------------------------- */

/* Makes class/CLASS/NAME, a link to the device's folder below its PCI function. */
static void put_class(struct tree *t, const char *class, const char *name,
		      const char *pci)
{
	char target[PATH_MAX + 200];
	size_t was = tree_enter(t, "class"), in = tree_enter(t, class);

	snprintf(target, sizeof(target), "../../%s/%s/%s", pci, class, name);
	tree_link(t, name, target);
	tree_leave(t, in);
	tree_leave(t, was);
}

/* Links the present folder to the PCI function two folders above. */
static void put_device_link(struct tree *t, const char *pci)
{
	char target[NAME_MAX + 20];

	snprintf(target, sizeof(target), "../../../%.*s", NAME_MAX,
		 strrchr(pci, '/') + 1);
	tree_link(t, "device", target);
}

static void put_device(struct tree *t, const struct sysfs_dev *d, const char *pci)
{
	size_t class = tree_enter(t, "infiniband"), was = tree_enter(t, d->name), ports;

	if (!t->live) {
		put_device_link(t, pci);
		tree_file(t, "node_type", "%s", d->iwarp ? "4: RNIC" : "1: CA");
		tree_file(t, "fw_ver", "%s", d->id.fw_ver);
		tree_file(t, "hw_rev", "0x%X", d->id.hw_ver);
		tree_file(t, "hca_type", "urnic");
		tree_file(t, "board_id", "urnic");
		tree_file(t, "node_desc", "%s", d->desc);
		put_guid(t, "node_guid", d->guid);
		put_guid(t, "sys_image_guid", d->sys_guid);
	}
	ports = tree_enter(t, "ports");
	for (unsigned i = 1; i <= d->ports; i++)
		put_port(t, d, i);
	tree_leave(t, ports);
	tree_leave(t, was);
	tree_leave(t, class);
}

static void put_uverbs(struct tree *t, const struct sysfs_dev *d, const char *pci)
{
	size_t class = tree_enter(t, "infiniband_verbs"), was = tree_enter(t, d->uverbs);

	put_device_link(t, pci);
	tree_file(t, "ibdev", "%s", d->name);
	tree_file(t, "abi_version", "1");
	tree_file(t, "dev", "231:%d",
		  192 + atoi(d->uverbs + strcspn(d->uverbs, "0123456789")));
	tree_leave(t, was);
	tree_leave(t, class);
}

/* Writes which umad and issm belong to each port. */
static void put_umads(struct sysfs *s, const struct sysfs_dev *d, const char *pci)
{
	static const char *const kinds[] = { "umad", "issm" };
	struct tree *t = &s->t;
	char name[20];
	size_t was, at, class;

	for (unsigned i = 0; i < 2 * d->ports; i++) {
		snprintf(name, sizeof(name), "%s%u", kinds[i % 2], s->umads + i / 2);
		was = tree_enter_path(t, pci);
		class = tree_enter(t, "infiniband_mad");
		at = tree_enter(t, name);
		put_device_link(t, pci);
		tree_file(t, "ibdev", "%s", d->name);
		tree_file(t, "port", "%u", i / 2 + 1);
		tree_leave(t, at);
		tree_leave(t, class);
		tree_leave(t, was);
		put_class(t, "infiniband_mad", name, pci);
	}
	s->umads += d->ports;
}

/* Makes class/net/IF/device, a link to the PCI function. */
static void put_netdev_link(struct tree *t, const struct sysfs_dev *d, const char *pci)
{
	char target[PATH_MAX + 20];
	size_t was = tree_enter_path(t, "class/net"), at = tree_enter(t, d->netdev);

	snprintf(target, sizeof(target), "../../../%s", pci);
	tree_link(t, "device", target);
	tree_leave(t, at);
	tree_leave(t, was);
}

void sysfs_put(struct sysfs *s, const struct sysfs_dev *d)
{
	struct tree *t = &s->t;
	char pci[PATH_MAX];
	size_t was;

	sysfs_pci_path(d, pci);
	was = tree_enter_path(t, pci);
	put_device(t, d, pci);
	if (!t->live) {
		sysfs_pci_put(t, d, pci);
		if (d->uverbs)
			put_uverbs(t, d, pci);
	}
	tree_leave(t, was);
	if (t->live)
		return;
	put_class(t, "infiniband", d->name, pci);
	if (d->uverbs)
		put_class(t, "infiniband_verbs", d->uverbs, pci);
	sysfs_pci_ways(t, pci);
	if (d->netdev)
		put_netdev_link(t, d, pci);
	else
		put_umads(s, d, pci);
}

/* --- where devices come from ------------------------------------------------- */

/* Writes the numbers of the member "counters" of the fabric's answer, a JSON object whose
 * names are those of Linux. */
static void put_answer(struct tree *t, const char *text)
{
	const char *at = strstr(text, "\"counters\"");
	char name[64];
	long long value;
	int n;

	at = at ? strchr(at, '{') : NULL;
	if (!at) {
		t->rc = t->rc ? t->rc : -EBADMSG;
		return;
	}
	for (at++; sscanf(at, " \"%63[^\"]\" : %lld%n", name, &value, &n) == 2;
	     at += *at == ',') {
		tree_file(t, name, "%lld", value);
		at += n;
	}
	if (*at != '}' && !t->rc)
		t->rc = -EBADMSG;
}

static void put_fabric_counters(struct tree *t, const struct sysfs_dev *d, unsigned port,
				bool hw)
{
	char ask[200], *text = NULL, *whole;
	int fd, rc;
	size_t len = 0;

	if (t->rc || hw)
		return;
	snprintf(ask, sizeof(ask),
		 "{\"ask\":\"counters\",\"node\":\"%.100s\",\"port\":%u}", d->node, port);
	fd = plug_control(d->fabric);
	rc = fd < 0 ? fd : plug_tell(fd, ask, &text, &len);
	if (fd >= 0)
		close(fd);
	whole = rc ? NULL : strndup(text, len);
	if (whole)
		put_answer(t, whole);
	else
		t->rc = rc ? rc : -ENOMEM;
	free(whole);
	free(text);
}

int sysfs_put_adapter(struct sysfs *s, const char *fabric, const char *hca,
		      const struct identity *id, unsigned index, const char *uverbs)
{
	char node[24];
	struct plug_ca ca;
	struct sysfs_dev d;
	struct port *port;
	int rc = plug_ca(fabric, hca, &ca);

	if (rc)
		return rc;
	if (ca.ports > PORTS_MAX)
		return -EBADMSG;
	port = calloc(ca.ports ? ca.ports : 1, sizeof(*port));
	if (!port)
		return -ENOMEM;
	for (unsigned i = 0; i < ca.ports && !rc; i++) {
		struct plug_port p;

		rc = plug_port(fabric, hca, i + 1, &p);
		if (!rc)
			hca_fill(&port[i], &p);
	}
	snprintf(node, sizeof(node), "0x%016llx", (unsigned long long)ca.guid);
	d = (struct sysfs_dev){ .name = ca.name,
				.desc = ca.desc,
				.uverbs = uverbs,
				.id = *id,
				.guid = htobe64(ca.guid),
				.sys_guid = htobe64(ca.sys_guid),
				.index = index,
				.ports = ca.ports,
				.port = port,
				.counters = put_fabric_counters,
				.fabric = fabric,
				.node = node };
	if (!rc)
		sysfs_put(s, &d);
	free(port);
	return rc;
}

/* The files of a RoCE port. Those of hw_counters have the names of mlx5's; counters/ has
 * data in words of four bytes. Packets through memory do not cross the port. */
static const struct {
	const char *name;
	bool hw;
	unsigned divisor;
	enum ib_counter of[2]; /* the sum of two; the second may be the first, once */
} files[] = {
	/* clang-format off */
	{ "port_xmit_data",            false, 4, { IB_TX_BYTES, IB_TX_BYTES } },
	{ "port_rcv_data",             false, 4, { IB_RX_BYTES, IB_RX_BYTES } },
	{ "port_xmit_packets",         false, 1, { IB_TX, IB_TX } },
	{ "port_rcv_packets",          false, 1, { IB_RX, IB_RX } },
	{ "out_of_sequence",           true,  1, { IB_RX_OUT_OF_ORDER, IB_RX_OUT_OF_ORDER } },
	{ "duplicate_request",         true,  1, { IB_RX_DUPLICATE, IB_RX_DUPLICATE } },
	{ "packet_seq_err",            true,  1, { IB_RX_NAK, IB_RX_NAK } },
	{ "local_ack_timeout_err",     true,  1, { IB_TX_TIMEOUT, IB_TX_TIMEOUT } },
	{ "out_of_buffer",             true,  1, { IB_TX_RNR, IB_RX_UD_DROPPED } },
	{ "rnr_nak_retry_err",         true,  1, { IB_RX_RNR, IB_RX_RNR } },
	{ "rp_cnp_handled",            true,  1, { IB_RX_CNP, IB_RX_CNP } },
	/* clang-format on */
};

static void put_roce_counters(struct tree *t, const struct sysfs_dev *d, unsigned port,
			      bool hw)
{
	(void)port;
	for (unsigned i = 0; i < sizeof(files) / sizeof(*files); i++) {
		const enum ib_counter *of = files[i].of;
		uint64_t n = d->sum[of[0]] + (of[1] != of[0] ? d->sum[of[1]] : 0);

		if (files[i].hw == hw)
			tree_file(t, files[i].name, "%" PRIu64, n / files[i].divisor);
	}
}

/* The counters of RoCE devices as they were last read. */
struct sums {
	unsigned n;
	struct tally_sum of[];
};

static struct sums *sums;

static const uint64_t *sum_of(const char *device)
{
	static const uint64_t none[IB_COUNTERS];

	for (unsigned i = 0; sums && i < sums->n; i++)
		if (!strcmp(sums->of[i].device, device))
			return sums->of[i].sum;
	return none;
}

/* Names of devices last as long as the process. */
static int read_sums(struct device *const *dev, unsigned n)
{
	struct sums *now = calloc(1, sizeof(*now) + n * sizeof(now->of[0])), *old = sums;

	if (!now)
		return -ENOMEM;
	now->n = n;
	for (unsigned i = 0; i < n; i++)
		now->of[i].device = dev[i]->ibv.name;
	tally_add_up(now->of, n);
	sums = now;
	free(old);
	return 0;
}

/* A thread of the parent may have been about to free them: they are left alone. */
void sysfs_forked(void)
{
	static struct sums *parents;

	parents = sums;
	(void)parents;
	sums = NULL;
}

/* iWARP's packets are TCP's, which nobody counts by device. */
static sysfs_counters *counters_of(const struct device *dev)
{
	switch (dev->kind->id) {
	case KIND_ROCE:
		return put_roce_counters;
	case KIND_IWARP:
	case KIND_IB: /* the fabric's */
		break;
	}
	return NULL;
}

static void put_net_device(struct sysfs *s, struct device *dev)
{
	const struct port port = device_port(dev);
	const struct netdev *net = &net_device_of(dev)->net;
	char host[64] = "", desc[160];

	gethostname(host, sizeof(host) - 1);
	snprintf(desc, sizeof(desc), "%s %s", host, dev->ibv.name);
	sysfs_put(s, &(struct sysfs_dev){ .name = dev->ibv.name,
					  .desc = desc,
					  .uverbs = dev->ibv.dev_name,
					  .netdev = net->name,
					  .id = dev->id,
					  .iwarp = dev->kind->node_type == IBV_NODE_RNIC,
					  .guid = dev->guid,
					  .sys_guid = dev->guid,
					  .index = net->ifindex,
					  .ports = 1,
					  .port = &port,
					  .counters = counters_of(dev),
					  .sum = sum_of(dev->ibv.name) });
}

int sysfs_write(const char *root, unsigned what, char where[PATH_MAX])
{
	const struct conf *conf = conf_get();
	struct device **dev = NULL;
	struct sysfs *s = malloc(sizeof(*s));
	int n = 0, rc, end;

	*where = '\0';
	nic_watch_forks();
	rc = s ? conf ? registry_devices(false, &dev, &n) : -EINVAL : -ENOMEM;
	if (!rc && what & SYSFS_COUNTERS)
		rc = read_sums(dev, (unsigned)n);
	if (rc) {
		free(dev);
		free(s);
		return rc;
	}
	sysfs_begin(s, root, !(what & SYSFS_TREE));
	for (int i = 0; i < n && !rc; i++) {
		if (device_on_netdev(dev[i]))
			put_net_device(s, dev[i]);
		else
			rc = sysfs_put_adapter(s, conf->fabric, conf->hca, &dev[i]->id,
					       (unsigned)i, dev[i]->ibv.dev_name);
	}
	end = sysfs_end(s);
	if (end)
		snprintf(where, PATH_MAX, "%s", s->t.path);
	free(dev);
	free(s);
	return end ? end : rc;
}
