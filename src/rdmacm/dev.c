/* SPDX-License-Identifier: BSD-2-Clause */
/* dev.c - see dev.h. */
#include "rdmacm/dev.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cm/gate.h"
#include "rdmacm/channel.h"
#include "sys/addr.h"
#include "sys/pid.h"

static pthread_mutex_t devs_lock = PTHREAD_MUTEX_INITIALIZER;
/* Under devs_lock: the devices that are listed, in the list's order, then those that are
 * not any more. A cma_dev never moves. */
static struct cma_dev **devs;
static int ndevs, nlisted;
static pid_t opened_by;

/* Moves dev in front of the devices that were not met in the list yet. Returns false if
 * it is not known. */
static bool meet_device(struct ibv_device *dev)
{
	for (int i = nlisted; i < ndevs; i++) {
		struct cma_dev *d = devs[i];

		if (d->ctx->device != dev)
			continue;
		memmove(devs + nlisted + 1, devs + nlisted,
			(size_t)(i - nlisted) * sizeof(struct cma_dev *));
		devs[nlisted++] = d;
		return true;
	}
	return false;
}

static void fill_limits(struct cma_dev *d)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	d->iwarp = d->ctx->device->transport_type == IBV_TRANSPORT_IWARP;
	d->max_resources = d->max_depth = 1;
	if (!ibv_query_device(d->ctx, &attr)) {
		d->max_resources =
			attr.max_qp_rd_atom > 255 ? 255 : (uint8_t)attr.max_qp_rd_atom;
		d->max_depth = attr.max_qp_init_rd_atom > 255
				       ? 255
				       : (uint8_t)attr.max_qp_init_rd_atom;
		d->ack_delay = attr.local_ca_ack_delay;
	}
	d->ib = !ibv_query_port(d->ctx, 1, &port) &&
		port.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

uint8_t cma_dev_mtu(const struct cma_dev *d)
{
	struct ibv_port_attr port;

	return ibv_query_port(d->ctx, 1, &port) ? IBV_MTU_1024 : (uint8_t)port.active_mtu;
}

static int add_device(struct ibv_device *dev)
{
	struct cma_dev **more, *d = calloc(1, sizeof(*d));
	int rc;

	if (!d)
		return -ENOMEM;
	d->ctx = ibv_open_device(dev);
	rc = d->ctx ? 0 : -errno;
	if (rc)
		goto free_dev;
	rc = -ENOSYS;
	if (!cm_gate_knows(d->ctx))
		goto close;
	rc = -ENOMEM;
	d->pd = ibv_alloc_pd(d->ctx);
	if (!d->pd)
		goto close;
	fill_limits(d);
	more = realloc(devs, (size_t)(ndevs + 1) * sizeof(*devs));
	if (!more)
		goto dealloc;
	devs = more;
	devs[ndevs++] = d;
	return 0;

dealloc:
	ibv_dealloc_pd(d->pd);
close:
	ibv_close_device(d->ctx);
free_dev:
	free(d);
	return rc;
}

/* Lists the devices, and opens those that are new. devs_lock is held. */
static int list_devices(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int rc = 0;

	if (!list)
		return -errno;
	nlisted = 0;
	for (int i = 0; list[i]; i++) {
		if (meet_device(list[i]))
			continue;
		rc = add_device(list[i]);
		if (!rc)
			meet_device(list[i]);
	}
	ibv_free_device_list(list);
	return ndevs ? 0 : rc; /* if some open, errors of others do not matter */
}

/* In the child of a fork: a thread that held one of these locks does not exist. */
static void forked_child(void)
{
	pthread_mutex_init(&devs_lock, NULL);
	cma_channels_forked();
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, forked_child);
}

int cma_init(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int rc = 0;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&devs_lock);
	/* In a forked child the parent's contexts are dead. */
	if (opened_by != pid_own()) {
		devs = NULL;
		ndevs = nlisted = 0;
		opened_by = pid_own();
	}
	if (!ndevs)
		rc = list_devices();
	if (!rc && !ndevs)
		rc = -ENODEV;
	pthread_mutex_unlock(&devs_lock);
	return rc;
}

/* Is ip the IP address that an InfiniBand device has beside its GIDs? */
static bool is_ip_of(struct cma_dev *d, const uint8_t ip[16])
{
	uint8_t own[16];

	if (d->ib)
		cm_gate_ip(d->ctx, own);
	return d->ib && memcmp(own, ip, sizeof(own)) == 0;
}

/* The one GID of an iWARP device is no IP address, so the gate is asked. All of 127/8
 * counts as loopback's address. */
static int iwarp_index(struct cma_dev *d, const uint8_t ip[16])
{
	static const uint8_t lo[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

	if (addr_is_v4(ip) && addr_is_loopback(ip))
		ip = lo;
	return cm_gate_has_ip(d->ctx, ip) ? 0 : -1;
}

static bool is_gid(struct cma_dev *d, int index, const uint8_t ip[16])
{
	union ibv_gid gid;

	return !ibv_query_gid(d->ctx, 1, index, &gid) && !memcmp(gid.raw, ip, 16);
}

/* That of RoCE v2. One of v1 with the same address is just in front of it, or after all
 * of v2. */
static int gid_index(struct cma_dev *d, const uint8_t ip[16])
{
	struct ibv_port_attr port;

	if (d->iwarp)
		return iwarp_index(d, ip);
	if (is_ip_of(d, ip))
		return 0;
	if (ibv_query_port(d->ctx, 1, &port))
		return -1;
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (is_gid(d, i, ip))
			return is_gid(d, i + 1, ip) ? i + 1 : i;
	return -1;
}

/* Finds a device by address. devs_lock is held. */
static int find_place(const uint8_t ip[16], uint32_t ifindex, bool iwarp,
		      struct cma_place *out)
{
	for (int i = 0; i < ndevs; i++) {
		int at;

		if (devs[i]->iwarp != iwarp)
			continue;
		if (ifindex && ibv_get_device_index(devs[i]->ctx->device) != (int)ifindex)
			continue;
		at = gid_index(devs[i], ip);
		if (at < 0)
			continue;
		*out = (struct cma_place){ devs[i], at, { 0 }, ifindex };
		memcpy(out->ip, ip, 16);
		return 0;
	}
	return -ENODEV;
}

/* --- loopback ------------------------------------------------------------ */

/* How well a GID stands for loopback's address; 0: not at all. A link-local one needs an
 * interface, too. */
static int fitness(const uint8_t gid[16], bool v6)
{
	static const uint8_t none[16];

	if (!memcmp(gid, none, 16))
		return 0;
	if (addr_is_link_local(gid))
		return 1;
	return addr_is_v4(gid) == v6 ? 2 : 3;
}

static int fit_gid(struct cma_dev *d, const uint8_t ip[16], struct cma_place *out)
{
	struct ibv_port_attr port;
	union ibv_gid gid;
	int best = 0;

	if (ibv_query_port(d->ctx, 1, &port))
		return -ENODEV;
	for (int i = 0; i < port.gid_tbl_len; i++) {
		int fits = ibv_query_gid(d->ctx, 1, i, &gid)
				   ? 0
				   : fitness(gid.raw, !addr_is_v4(ip));

		if (fits <= best)
			continue;
		best = fits;
		out->index = i;
		memcpy(out->ip, gid.raw, 16);
	}
	if (!best)
		return -ENODEV;				  /* its interface is gone */
	out->index += is_gid(d, out->index + 1, out->ip); /* v2 */
	if (addr_is_link_local(out->ip))
		out->ifindex = (uint32_t)ibv_get_device_index(d->ctx->device);
	return 0;
}

static int serve_loopback(struct cma_dev *d, const uint8_t ip[16], struct cma_place *out)
{
	*out = (struct cma_place){ .dev = d };
	memcpy(out->ip, ip, 16);
	return d->iwarp ? 0 : fit_gid(d, ip, out);
}

static bool is_active(struct cma_dev *d)
{
	struct ibv_port_attr port;

	return !ibv_query_port(d->ctx, 1, &port) && port.state == IBV_PORT_ACTIVE;
}

/* devs_lock is held. */
static int find_loopback(const uint8_t ip[16], bool iwarp, bool active,
			 struct cma_place *out)
{
	for (int i = 0; i < nlisted; i++) {
		struct cma_dev *d = devs[i];

		if (d->iwarp != iwarp || d->ib || (active && !is_active(d)))
			continue;
		if (!serve_loopback(d, ip, out))
			return 0;
	}
	return -ENODEV;
}

/* Lists the devices anew: both ends of a connection must choose alike. */
int cma_loopback(const uint8_t ip[16], enum cma_kind kind, struct cma_place *out)
{
	int rc = -ENODEV;

	pthread_mutex_lock(&devs_lock);
	(void)list_devices();
	for (int active = 1; rc && active >= 0; active--) {
		if (kind != CMA_IWARP)
			rc = find_loopback(ip, false, active, out);
		if (rc && kind != CMA_ROCE)
			rc = find_loopback(ip, true, active, out);
	}
	pthread_mutex_unlock(&devs_lock);
	return rc;
}

/* --- all addresses ------------------------------------------------------- */

static int find_kind(const uint8_t ip[16], uint32_t ifindex, enum cma_kind kind,
		     struct cma_place *out)
{
	int rc = kind == CMA_IWARP ? -ENODEV : find_place(ip, ifindex, false, out);

	return rc && kind != CMA_ROCE ? find_place(ip, ifindex, true, out) : rc;
}

int cma_dev_of(const uint8_t ip[16], uint32_t ifindex, enum cma_kind kind,
	       struct cma_place *out)
{
	int rc;

	pthread_mutex_lock(&devs_lock);
	rc = find_kind(ip, ifindex, kind, out);
	if (rc && !list_devices())
		rc = find_kind(ip, ifindex, kind, out);
	pthread_mutex_unlock(&devs_lock);
	return rc && addr_is_loopback(ip) ? cma_loopback(ip, kind, out) : rc;
}

bool cma_has_kind(enum cma_kind kind)
{
	bool has = false;

	pthread_mutex_lock(&devs_lock);
	for (int i = 0; i < ndevs; i++)
		has |= kind == CMA_ANY || devs[i]->iwarp == (kind == CMA_IWARP);
	pthread_mutex_unlock(&devs_lock);
	return has;
}

struct cma_dev *cma_ib_dev(bool *only)
{
	struct cma_dev *ib = NULL;

	pthread_mutex_lock(&devs_lock);
	for (int i = 0; i < ndevs; i++)
		if (devs[i]->ib)
			ib = devs[i];
	*only = ib && ndevs == 1;
	pthread_mutex_unlock(&devs_lock);
	return ib;
}

bool cma_all_have(const uint8_t ip[16], enum cma_kind kind)
{
	bool all = cma_init() == 0;

	pthread_mutex_lock(&devs_lock);
	for (int i = 0; i < ndevs; i++)
		all &= gid_index(devs[i], ip) >= 0 &&
		       (kind == CMA_ANY || devs[i]->iwarp == (kind == CMA_IWARP));
	pthread_mutex_unlock(&devs_lock);
	return all;
}

int cma_any_dev(struct cma_dev **dev)
{
	int rc = cma_init();

	if (rc)
		return rc;
	pthread_mutex_lock(&devs_lock);
	*dev = devs[0];
	pthread_mutex_unlock(&devs_lock);
	return 0;
}

struct ibv_context *cma_any_ctx(void)
{
	struct ibv_context *ctx;

	pthread_mutex_lock(&devs_lock);
	ctx = ndevs ? devs[0]->ctx : NULL;
	pthread_mutex_unlock(&devs_lock);
	return ctx;
}

struct ibv_context **cma_devices(int *num)
{
	struct ibv_context **list;

	pthread_mutex_lock(&devs_lock);
	list = calloc((size_t)ndevs + 1, sizeof(*list));
	for (int i = 0; list && i < ndevs; i++)
		list[i] = devs[i]->ctx;
	if (list && num)
		*num = ndevs;
	pthread_mutex_unlock(&devs_lock);
	return list;
}

struct ibv_xrcd *cma_dev_xrcd(struct cma_dev *dev)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd;

	pthread_mutex_lock(&devs_lock);
	if (!dev->xrcd)
		dev->xrcd = ibv_open_xrcd(dev->ctx, &attr);
	xrcd = dev->xrcd;
	pthread_mutex_unlock(&devs_lock);
	return xrcd;
}
