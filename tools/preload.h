/* SPDX-License-Identifier: BSD-2-Clause */
/* preload.h - what the files of liburnic-preload.so and liburnic-map.so share. */
#ifndef TOOLS_PRELOAD_H
#define TOOLS_PRELOAD_H

#include <errno.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>

#define PUBLIC __attribute__((visibility("default")))

/* A function of the C library, looked up at its first use.  Threads that look it up at
 * the same time store the same value. */
struct real {
	const char *name;
	void *_Atomic fn;
};

/* Returns the C library's function, or NULL with errno set if there is none. */
void *preload_next(struct real *r);

/* Finds the network interface of an urnic device; false: device is none of urnic's. */
bool interface_of(const char *device, char name[IF_NAMESIZE]);

/* Is path /sys/class/infiniband/DEVICE/device/net of an urnic device?  name: its
 * interface. */
bool is_net_dir(const char *path, char name[IF_NAMESIZE]);

#endif
