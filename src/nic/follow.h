/* SPDX-License-Identifier: BSD-2-Clause */
/* follow.h - a thread that goes where its messages come in.
 *
 * Who waits for small messages one by one is best on the processor on which they
 * arrive: to interrupt another one takes longer than all the rest, above all in
 * a virtual machine.  Linux brings it there when it wakes it, but not one that
 * has used more than its share just before (it has been waiting for a processor,
 * to Linux, all the time that it slept: DELAY_DEQUEUE, from 6.12 on): that one
 * stays where it is for as long as it is woken at short intervals.  So it sets its
 * affinity to that one and back to what it was: a change that somebody else makes
 * in between is undone, and later on it is a set of its own, not one that grows
 * with the container's. */
#ifndef NIC_FOLLOW_H
#define NIC_FOLLOW_H

#include <stdbool.h>

/* One per thread; zeroed at first. */
struct follow {
	unsigned wakes; /* since it last looked */
	unsigned away;	/* looks in a row at which it was elsewhere */
	unsigned every; /* it looks after so many; 0: as at first */
	bool off;
};

/* The calling thread was woken by fd, a TCP socket, for a small message. */
void follow(struct follow *f, int fd);

#endif
