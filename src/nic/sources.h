/* SPDX-License-Identifier: BSD-2-Clause */
/* sources.h - what a NIC's engine turns: the table of its sources. */
#ifndef NIC_SOURCES_H
#define NIC_SOURCES_H

struct nic;

/* The engine gets them, and the links. */
void sources_open(struct nic *nic);

#endif
