/* SPDX-License-Identifier: BSD-2-Clause */
/* nic_own.h - the NIC itself, for nic.c and drive.c. */
#ifndef NIC_NIC_OWN_H
#define NIC_NIC_OWN_H

#include "core/core.h"
#include "nic/engine.h"
#include "nic/nic.h"

struct nic {
	struct core core;
	struct engine engine;
	unsigned users;
};

#endif
