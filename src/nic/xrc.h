/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.h - XRC domains whose processes are several (docs/xrc.md): what core and ib ask of
 * the host. */
#ifndef NIC_XRC_H
#define NIC_XRC_H

struct nic;

void xrc_open(struct nic *nic);

#endif
