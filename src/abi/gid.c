/* SPDX-License-Identifier: BSD-2-Clause */
/* gid.c - the calls that read the GID table. */
#include <string.h>

#include "abi/abi.h"
#include "abi/symver.h"
#include "verbs/device.h"

/* As in rdma-core's private header. */
enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
	IBV_GID_TYPE_SYSFS_ROCE_V2,
};

int ibv_query_gid_type(struct ibv_context *ibv, uint8_t port, unsigned index,
		       enum ibv_gid_type_sysfs *type);

static int entry_at(struct ibv_context *ibv, uint32_t port, uint32_t index,
		    struct gid_entry *e)
{
	if (port > UINT8_MAX || index > INT32_MAX)
		return -EINVAL;
	return device_query_gid(abi_of(ibv)->ctx.dev, (uint8_t)port, (int)index, e);
}

EXPORT int ibv_query_gid(struct ibv_context *ibv, uint8_t port, int index,
			 union ibv_gid *gid)
{
	struct gid_entry e;
	int rc;

	if (!GIVEN("query_gid", gid))
		return -1;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return -1;
	rc = entry_at(ibv, port, (uint32_t)index, &e);
	if (!rc)
		*gid = e.gid; /* a free entry is all zero */
	return abi_leave(rc) ? -1 : 0;
}

/* GIDs other than RoCE's are of InfiniBand's type, as Linux has no type for iWARP. */
static enum ibv_gid_type type_of(struct ibv_context *ibv, const struct gid_entry *e)
{
	const struct device *dev = abi_of(ibv)->ctx.dev;

	if (!device_needs_grh(dev) || dev->kind->mac_gid)
		return IBV_GID_TYPE_IB;
	return gid_is_v1(e) ? IBV_GID_TYPE_ROCE_V1 : IBV_GID_TYPE_ROCE_V2;
}

static int describe_gid(struct ibv_context *ibv, uint32_t port, uint32_t index,
			struct ibv_gid_entry *out)
{
	struct gid_entry e;
	int rc;

	rc = entry_at(ibv, port, index, &e);
	if (rc)
		return rc;
	if (!e.used)
		return -ENODATA;
	*out = (struct ibv_gid_entry){
		.gid = e.gid,
		.gid_index = index,
		.port_num = port,
		.gid_type = type_of(ibv, &e),
		.ndev_ifindex = e.ifindex,
	};
	return 0;
}

/* An older caller gets fewer bytes; a newer caller gets zeroes after ours. */
static void put_entry(void *to, size_t size, const struct ibv_gid_entry *e)
{
	memset(to, 0, size);
	memcpy(to, e, size < sizeof(*e) ? size : sizeof(*e));
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *ibv, uint32_t port, uint32_t index,
			     struct ibv_gid_entry *entry, uint32_t flags,
			     size_t entry_size)
{
	struct ibv_gid_entry e;
	int rc;

	if (flags)
		return abi_result(-EOPNOTSUPP);
	if (!GIVEN("query_gid_ex", entry))
		return errno;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return errno;
	rc = describe_gid(ibv, port, index, &e);
	if (!rc)
		put_entry(entry, entry_size, &e);
	return abi_leave(rc);
}

/* Returns every used entry of every port; the number of them, or -errno: -EINVAL if there
 * are more than max. */
EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *ibv,
				    struct ibv_gid_entry *entries, size_t max,
				    uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry e;
	size_t n = 0;
	uint32_t end;
	int rc = 0;

	if (flags)
		return -abi_result(-EOPNOTSUPP);
	if (!GIVEN("query_gid_table", entries))
		return -errno;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return -errno;
	end = (uint32_t)device_gids(abi_of(ibv)->ctx.dev);
	for (uint32_t i = 0; i < end && !rc; i++) {
		rc = describe_gid(ibv, 1, i, &e);
		if (rc == -ENODATA)
			rc = 0;
		else if (!rc && n == max)
			rc = -EINVAL;
		else if (!rc)
			put_entry((char *)entries + n++ * entry_size, entry_size, &e);
	}
	rc = abi_leave(rc);
	return rc ? -rc : (ssize_t)n;
}

EXPORT int ibv_query_gid_type(struct ibv_context *ibv, uint8_t port, unsigned index,
			      enum ibv_gid_type_sysfs *type)
{
	struct gid_entry e;
	int rc;

	if (!GIVEN("query_gid_type", type))
		return -1;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return -1;
	rc = entry_at(ibv, port, index, &e);
	if (!rc)
		*type = type_of(ibv, &e) == IBV_GID_TYPE_ROCE_V2
				? IBV_GID_TYPE_SYSFS_ROCE_V2
				: IBV_GID_TYPE_SYSFS_IB_ROCE_V1;
	return abi_leave(rc) ? -1 : 0;
}

PRIVATE_SYMBOL(ibv_query_gid_type, ibv_query_gid_type)
