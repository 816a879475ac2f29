/* SPDX-License-Identifier: BSD-2-Clause */
/* order_spec.h - which orders that verbs allow a program is to see (URNIC_ORDER);
 * verbs/order.h does it.
 *
 *	spec = item *( "," item )
 *
 *	write=P		a WRITE's last byte is there first, then the rest from its end on;
 *			packet by packet
 *	delay=TIME[:P]	a completion comes TIME later; without P each one
 *	swap=P		a completion waits until one of another QP has gone first
 *	one		a poll finds one completion at most
 *	seed=N		of the draws [1]
 *
 * P is a probability from 0 to 1, TIME is 100us, 5ms, 1s; 1 s at most. */
#ifndef SYS_ORDER_SPEC_H
#define SYS_ORDER_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct order_spec {
	uint32_t write, delay, swap; /* in a million */
	uint64_t delay_ns;
	bool one;
	uint64_t seed;
};

/* Returns 0, or -EINVAL with the wrong item in err.  "": nothing is out of order. */
int order_parse(const char *text, struct order_spec *out, char *err, size_t size);

#endif
