/* SPDX-License-Identifier: BSD-2-Clause */
/* registry.h - the devices that this process has seen.  A device once made
 * stays for the life of the process, since programs keep ibv_device pointers;
 * one whose interface is gone is not listed. */
#ifndef NIC_REGISTRY_H
#define NIC_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

struct core;
struct device;

/* As nic_devices() has it. */
int registry_devices(struct device ***out, int *n);
/* Look at the interfaces again; what has changed becomes events. */
int registry_refresh(void);
/* The events are for the contexts of core; NULL: nothing is open.  The
 * first look finds the change, and it may be the program's own. */
void registry_watch(struct core *core);

/* Is ip an address of this network namespace, on whatever interface? */
bool registry_has_ip(const uint8_t ip[16]);

/* All addresses of this network namespace, at most max; how many. */
unsigned registry_addresses(uint8_t (*ip)[16], unsigned max);

/* The adapter's port is like that now (NULL: down, the fabric has ended); what has
 * changed becomes events. */
struct port;
void registry_hca_port(const struct port *port);
/* The device of URNIC_HCA; NULL: it was not seen yet. */
struct device *registry_hca(void);

/* Around fork: nobody is inside meanwhile. */
void registry_hold(void);
void registry_let_go(void);
void registry_forked(void); /* lets go in the child */

#endif
