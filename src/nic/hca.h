/* SPDX-License-Identifier: BSD-2-Clause */
/* hca.h - an adapter of a fabric as the owner of a port: what its device is filled with.
 * A device has the adapter's first port. */
#ifndef NIC_HCA_H
#define NIC_HCA_H

#include "core/device.h"
#include "plug/plug.h"

enum { HCA_PORT = 1 };

/* What the fabric says, in verbs' terms. */
void hca_fill(struct port *out, const struct plug_port *p);

/* Ask that fabric what its adapter is like, and make a device of it or fill it anew (*dev
 * NULL, or what was made before).  changes: as device_fill() says.  0; -EIO: there is no
 * such adapter, which has been said once, and the device is down; -ENOMEM. */
int hca_look(const char *fabric, const char *hca, const struct identity *id,
	     struct device **dev, unsigned *changes);

#endif
