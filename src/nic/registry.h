/* SPDX-License-Identifier: BSD-2-Clause */
/* registry.h - the devices that this process has seen.  A device once made
 * stays for the life of the process, since programs keep ibv_device pointers;
 * one whose interface is gone is not listed. */
#ifndef NIC_REGISTRY_H
#define NIC_REGISTRY_H

struct core;

/* Look at the interfaces again.  core: raise the events for what changed on
 * its devices; NULL: nothing is open. */
int registry_refresh(struct core *core);

/* nic.c: from now on forks leave no lock taken. */
void watch_forks(void);

/* Around fork: nobody is inside meanwhile. */
void registry_hold(void);
void registry_let_go(void);
void registry_forked(void);		/* lets go in the child */

#endif
