/* SPDX-License-Identifier: BSD-2-Clause */
/* preload.h - what the files of liburnic-preload.so share, and of liburnic-map.so. */
#ifndef TOOLS_PRELOAD_H
#define TOOLS_PRELOAD_H

#include <errno.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>

#define PUBLIC __attribute__((visibility("default")))

/* The C library's own, looked up by its first call: threads that come at once
 * find the same. */
struct real {
	const char *name;
	void *_Atomic fn;
};

/* NULL, with errno set: there is none. */
void *preload_next(struct real *r);

/* The interface below a device of ours; false: it is none. */
bool interface_of(const char *device, char name[IF_NAMESIZE]);

/* Is path /sys/class/infiniband/DEVICE/device/net of a device of ours? */
bool is_net_dir(const char *path, char name[IF_NAMESIZE]);

#endif
