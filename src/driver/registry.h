/* SPDX-License-Identifier: BSD-2-Clause */
/* registry.h - the devices that this process has seen. Devices live as long as the
 * process, since programs keep ibv_device pointers; one whose interface is gone is not
 * listed. */
#ifndef DRIVER_REGISTRY_H
#define DRIVER_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/lock.h"

struct core;
struct device;

/* See nic_devices(). says: logs, once, why a device is not there; false for those who
 * may want none, as programs that read /sys do. */
int registry_devices(bool says, struct device ***out, int *n);
/* Reads the interfaces again and turns changes into events. Returns 0 or -errno. */
int registry_refresh(void);
/* Sends events to the contexts of core; NULL: none is open. The first call of
 * registry_refresh() after it reports changes that may have been made by the program
 * itself. */
void registry_watch(struct core *core);

/* Is ip an address of any interface in this network namespace? */
bool registry_has_ip(const uint8_t ip[16]);

/* Copies at most max addresses of this network namespace; returns how many. */
unsigned registry_addresses(uint8_t (*ip)[16], unsigned max);

/* The adapter's port is now as described (NULL: down, the fabric has ended); turns
 * changes into events. */
struct port;
void registry_hca_port(const struct port *port);
/* The device of URNIC_HCA; NULL: not seen yet. */
struct device *registry_hca(void);

/* Surround fork(): no other thread uses the registry meanwhile. */
bool registry_hold(enum lock_how how); /* false: not held */
void registry_let_go(void);
void registry_forked(void); /* in the child, in place of registry_let_go() */

#endif
