/* SPDX-License-Identifier: BSD-2-Clause */
/* device_testing.h - for tests: the GIDs of a device's port. */
#ifndef VERBS_DEVICE_TESTING_H
#define VERBS_DEVICE_TESTING_H

#include "verbs/device.h"

/* Returns the GID at index; zeroes if the entry is free. */
static inline union ibv_gid device_gid(struct device *dev, int index)
{
	struct gid_entry e = { 0 };

	device_query_gid(dev, 1, index, &e);
	return e.gid;
}

#endif
