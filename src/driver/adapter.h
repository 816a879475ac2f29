/* SPDX-License-Identifier: BSD-2-Clause */
/* adapter.h - the NIC's link to a simulated fabric, used if URNIC_HCA names an adapter
 * of the fabric. Inside driver/ only. */
#ifndef DRIVER_ADAPTER_H
#define DRIVER_ADAPTER_H

struct adapter;
struct nic;

/* Adds the link to nic's links. *out is NULL if this process has no adapter. Returns 0,
 * or -errno from plug_attach(). */
int adapter_open(struct adapter **out, struct nic *nic);
void adapter_close(struct adapter *a); /* a may be NULL */

#endif
