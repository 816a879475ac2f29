/* SPDX-License-Identifier: BSD-2-Clause */
/* adapter.h - the link of a NIC to a fabric, where URNIC_HCA names an adapter.  Inside
 * nic/ only. */
#ifndef NIC_ADAPTER_H
#define NIC_ADAPTER_H

struct adapter;
struct nic;

/* One more of nic's links; *out NULL: this process stands at no adapter.  0 or -errno,
 * as plug_attach() has it. */
int adapter_open(struct adapter **out, struct nic *nic);
void adapter_close(struct adapter *a); /* or NULL */

#endif
