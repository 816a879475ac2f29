/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.h - XRC domains shared by several processes (docs/dev/xrc.md): what verbs and ib
 * ask of other processes of this host. */
#ifndef DRIVER_XRC_H
#define DRIVER_XRC_H

#include <stddef.h>
#include <stdint.h>

struct nic;
struct source;

int xrc_open(struct nic *nic); /* returns 0 or -ENOMEM */
void xrc_close(struct nic *nic);
struct source *xrc_source(struct nic *nic);
/* Events, turn held: a message from another process of this user; that process has
 * ended. */
void xrc_heard(struct nic *nic, uint16_t slot, const void *buf, size_t len);
void xrc_gone(struct nic *nic, uint16_t slot);

#endif
