/* SPDX-License-Identifier: BSD-2-Clause */
/* netdev.h - the network interfaces and their addresses, by rtnetlink. */
#ifndef NIC_NETDEV_H
#define NIC_NETDEV_H

#include <stdbool.h>

#include "core/netport.h"

struct netdev_monitor;

/* The interfaces that have an address, loopback last, otherwise as the kernel
 * numbers them, in an array of *n that the caller frees.  Addresses that are
 * tentative or duplicates are left out.  0 or -errno. */
int netdev_list(struct netdev **out, int *n);

/* Tells when interfaces or addresses change. */
int netdev_monitor_open(struct netdev_monitor **out);
void netdev_monitor_close(struct netdev_monitor *m);
int netdev_monitor_fd(const struct netdev_monitor *m);
bool netdev_monitor_drain(struct netdev_monitor *m); /* true: look again */
void netdev_monitor_forked(struct netdev_monitor *m);

#endif
