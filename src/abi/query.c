/* SPDX-License-Identifier: BSD-2-Clause */
/* query.c - attributes and abilities of a device and its port. */
#include <endian.h>
#include <string.h>

#include "abi/abi.h"
#include "driver/nic.h"
#include "verbs/device.h"

static struct device *dev_of(struct ibv_context *ibv)
{
	return abi_of(ibv)->ctx.dev;
}

EXPORT int ibv_query_device(struct ibv_context *ibv, struct ibv_device_attr *attr)
{
	struct ibv_device_attr_ex ex;
	int rc;

	if (!GIVEN("query_device", attr))
		return errno;
	if (!abi_enter_child(ibv))
		return errno;
	rc = device_query(dev_of(ibv), &ex, sizeof(ex));
	if (!rc)
		*attr = ex.orig_attr;
	return abi_leave(rc);
}

int abi_query_device_ex(struct ibv_context *ibv,
			const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t len)
{
	if (input && input->comp_mask)
		return abi_result(-EINVAL);
	if (!GIVEN("query_device_ex", attr))
		return errno;
	if (!abi_enter_child(ibv))
		return errno;
	return abi_leave(device_query(dev_of(ibv), attr, len));
}

/* A caller of this symbol has the old struct, which ends before the field flags. */
EXPORT int(ibv_query_port)(struct ibv_context *ibv, uint8_t port,
			   struct _compat_ibv_port_attr *compat)
{
	enum { OLD_SIZE = offsetof(struct ibv_port_attr, flags) };
	struct ibv_port_attr attr;
	int rc;

	if (!GIVEN("query_port", compat))
		return errno;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return errno;
	rc = device_query_port(dev_of(ibv), port, &attr, sizeof(attr));
	if (!rc)
		memcpy(compat, &attr, OLD_SIZE);
	return abi_leave(rc);
}

int abi_query_port(struct ibv_context *ibv, uint8_t port, struct ibv_port_attr *attr,
		   size_t len)
{
	if (!GIVEN("query_port", attr))
		return errno;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return errno;
	return abi_leave(device_query_port(dev_of(ibv), port, attr, len));
}

/* The raw clock counts nanoseconds, all in tv_nsec, and is the clock of completion
 * timestamps: hca_core_clock is 1 GHz. */
int abi_query_rt_values(struct ibv_context *ibv, struct ibv_values_ex *values)
{
	uint32_t got = 0;

	if (!GIVEN("query_rt_values", values))
		return errno;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return errno;
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = (long)nic_now();
		got = IBV_VALUES_MASK_RAW_CLOCK;
	}
	values->comp_mask = got;
	return abi_leave(0);
}

/* Unlike other verbs, the calls for P_Keys and ibv_query_gid() return -1. */
EXPORT int ibv_query_pkey(struct ibv_context *ibv, uint8_t port, int index, __be16 *pkey)
{
	uint16_t at;
	int rc;

	if (!GIVEN("query_pkey", pkey))
		return -1;
	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return -1;
	rc = device_query_pkey(dev_of(ibv), port, index, &at);
	if (!rc)
		*pkey = htobe16(at);
	return abi_leave(rc) ? -1 : 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *ibv, uint8_t port, __be16 pkey)
{
	__be16 at;

	for (int i = 0; !ibv_query_pkey(ibv, port, i, &at); i++)
		if (at == pkey)
			return i;
	return -1;
}
