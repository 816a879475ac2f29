/* SPDX-License-Identifier: BSD-2-Clause */
/* hca.h - an adapter of a fabric as the owner of a port; fills in its device, which has
 * the adapter's first port. */
#ifndef DRIVER_HCA_H
#define DRIVER_HCA_H

#include "fabric/port/plug.h"
#include "verbs/device.h"

enum { HCA_PORT = 1 };

/* Fills *out from the fabric's description p, in the terms of verbs. */
void hca_fill(struct port *out, const struct plug_port *p);

/* Asks the fabric about its adapter and makes a device of it, or updates *dev (NULL:
 * make one). changes: see device_fill(). Returns 0; -EIO if there is no such adapter,
 * which is logged once if says, and the device is down; -ENOMEM. */
int hca_look(const char *fabric, const char *hca, const struct identity *id, bool says,
	     struct device **dev, unsigned *changes);

#endif
