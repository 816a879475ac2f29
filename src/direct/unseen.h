/* SPDX-License-Identifier: BSD-2-Clause */
/* unseen.h - may a peer have written to this process's memory (sys/checks.h)?  Peers that
 * write by process_vm_writev count in their gate's page, and threads that have memory
 * mapped in their own process's export table, both before the first byte.  Who looks has
 * no turn. */
#ifndef DIRECT_UNSEEN_H
#define DIRECT_UNSEEN_H

#include <stdbool.h>

#include "sys/list.h"
#include "verbs/exports.h"

/* Number of a peer's WRITEs that have begun, and that have ended */
struct gate_counts {
	uint64_t begun, ended;
};

/* A peer */
struct unseen {
	struct list node;
	const struct gate_counts *counts; /* in its page; NULL: none */
	bool shut;			  /* they cannot be looked at */
	const struct exports *exports;	  /* if it may map some memory; or NULL */
};

void unseen_add(struct unseen *u);
void unseen_del(struct unseen *u);
void unseen_gate(struct unseen *u, const struct gate_counts *counts, bool shut);
void unseen_exports(struct unseen *u, const struct exports *b);
void unseen_forked(void);

#endif
