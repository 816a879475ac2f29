/* SPDX-License-Identifier: BSD-2-Clause */
/* sources.h - the table of sources that a NIC's engine runs. */
#ifndef DRIVER_SOURCES_H
#define DRIVER_SOURCES_H

struct nic;

/* Adds nic's sources and links to its engine. */
void sources_open(struct nic *nic);

#endif
