/* SPDX-License-Identifier: BSD-2-Clause */
/* pick.h - which interfaces get a device: the list of URNIC_DEVICES, with commas or
 * spaces between the names of interfaces (eth0) and of devices (iwarp_eth0). */
#ifndef NIC_PICK_H
#define NIC_PICK_H

#include <stdbool.h>
#include <stddef.h>

#include "core/netport.h"

/* Is name in the list? */
bool pick_has(const char *list, const char *name);

/* Does the list give net a device of that kind?  An empty list and the name of an
 * interface give those of kinds that need not be named: docs/cm.md says why. */
bool pick_device(const char *list, const struct netdev *net,
		 const struct device_kind *kind);

/* Does it give one to any of the n interfaces? */
bool pick_some(const char *list, const struct netdev *net, int n);

/* The names in the list that none of the n interfaces has or gives to a device, with
 * commas, cut at size.  How many. */
int pick_unknown(const char *list, const struct netdev *net, int n, char *out,
		 size_t size);

/* The names of the interfaces, with commas, cut at size. */
void pick_names(const struct netdev *net, int n, char *out, size_t size);

#endif
