/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.h - XRC domains shared by several processes (docs/dev/xrc.md): what verbs and ib
 * ask of other processes of this host, and their messages (nic->guest). */
#ifndef DRIVER_XRC_H
#define DRIVER_XRC_H

struct conf;
struct nic;

/* A row of driver/rooms.c, after ib's. */
int xrc_open(struct nic *nic, const struct conf *conf);
void xrc_close(struct nic *nic);

#endif
