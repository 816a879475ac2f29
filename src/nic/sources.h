/* SPDX-License-Identifier: BSD-2-Clause */
/* sources.h - what a NIC's engine turns: the table of its sources. */
#ifndef NIC_SOURCES_H
#define NIC_SOURCES_H

#include "link/dgram.h"
#include "sys/source.h"

enum { SOURCES = 7, WIRE_RX = 64 /* datagrams taken in by one turn */ };

struct nic_sources {
	struct source source[SOURCES];
	struct dgram in[WIRE_RX];
};

struct nic;

/* The engine gets them. */
void sources_open(struct nic *nic);

#endif
