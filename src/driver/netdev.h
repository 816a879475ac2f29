/* SPDX-License-Identifier: BSD-2-Clause */
/* netdev.h - lists the network interfaces and their addresses, by rtnetlink. */
#ifndef DRIVER_NETDEV_H
#define DRIVER_NETDEV_H

#include <stdbool.h>

#include "verbs/netport.h"

struct netdev_monitor;

/* Lists the interfaces that have an address, loopback last, otherwise in the kernel's
 * order, in an array of *n that the caller frees. Tentative and duplicate addresses are
 * left out. Returns 0 or -errno. */
int netdev_list(struct netdev **out, int *n);

/* Opens a monitor of changes to interfaces and addresses. Returns 0 or -errno. */
int netdev_monitor_open(struct netdev_monitor **out);
void netdev_monitor_close(struct netdev_monitor *m);
int netdev_monitor_fd(const struct netdev_monitor *m);
bool netdev_monitor_drain(struct netdev_monitor *m); /* true: something changed */
void netdev_monitor_forked(struct netdev_monitor *m);

#endif
