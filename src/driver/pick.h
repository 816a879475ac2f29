/* SPDX-License-Identifier: BSD-2-Clause */
/* pick.h - decides which interfaces get a device by the list of URNIC_DEVICES, which
 * names interfaces (eth0) and devices (iwarp_eth0), separated by commas or spaces. */
#ifndef DRIVER_PICK_H
#define DRIVER_PICK_H

#include <stdbool.h>
#include <stddef.h>

#include "verbs/netport.h"

/* Is name in the list? */
bool pick_has(const char *list, const char *name);

/* Does the list give interface i of the n a device of that kind? An empty list, or an
 * interface's name, selects only the kinds that need not be named (docs/dev/cm.md says
 * why). An empty list leaves loopback's device out where another interface runs: no other
 * host can reach it, and a program that takes every device (UCX) would offer it to its
 * peers all the same. */
bool pick_device(const char *list, const struct netdev *net, int n, int i,
		 const struct device_kind *kind);

/* Returns the loopback interface whose device of that kind an empty list leaves out, or
 * NULL. */
const struct netdev *pick_left_out(const char *list, const struct netdev *net, int n,
				   const struct device_kind *kind);

/* Does the list give a device to any of the n interfaces? */
bool pick_some(const char *list, const struct netdev *net, int n);

/* Writes the names in the list that match none of the n interfaces and no device of
 * theirs, comma-separated, cut at size. Returns how many. */
int pick_unknown(const char *list, const struct netdev *net, int n, char *out,
		 size_t size);

/* Writes the interfaces' names, comma-separated, cut at size. */
void pick_names(const struct netdev *net, int n, char *out, size_t size);

#endif
