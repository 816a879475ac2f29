/* SPDX-License-Identifier: BSD-2-Clause */
/* devices.c - the list of devices, and questions about a device that is not open. */
#include <stdlib.h>

#include "abi/abi.h"
#include "driver/nic.h"
#include "verbs/device.h"

EXPORT struct ibv_device **(ibv_get_device_list)(int *num)
{
	struct device **devs = NULL;
	struct ibv_device **list;
	int n = 0, rc;

	if (num)
		*num = 0;
	if (!abi_alone())
		return NULL;
	inside_begin();
	abi_hold();
	rc = nic_devices(&devs, &n);
	abi_say_unusable("the list of devices", rc);
	if (abi_leave(rc))
		return NULL;
	list = calloc((size_t)n + 1, sizeof(struct ibv_device *));
	if (list) {
		for (int i = 0; i < n; i++)
			list[i] = &devs[i]->ibv;
		if (num)
			*num = n;
	} else {
		errno = ENOMEM;
	}
	free(devs);
	return list;
}

/* Frees only the list: the devices exist as long as the process. */
EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *dev)
{
	return GIVEN("get_device_name", dev) ? dev->name : NULL;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *dev)
{
	return GIVEN("get_device_guid", dev) ? device_of(dev)->guid : 0;
}

EXPORT int ibv_get_device_index(struct ibv_device *dev)
{
	return GIVEN("get_device_index", dev) ? (int)device_of(dev)->number : -1;
}
