/* SPDX-License-Identifier: BSD-2-Clause */
/* counters.h - what happens to the packets of RoCE, and to messages in their place
 * between processes of one host; counter.def names them. */
#ifndef VERBS_COUNTERS_H
#define VERBS_COUNTERS_H

#include <stdint.h>

enum ib_counter {
#define COUNT(value, name, what) value,
#include "verbs/counter.def"
#undef COUNT
	IB_COUNTERS
};

/* The counters of the packets of one device's QPs. */
struct ib_counts {
	char device[64]; /* "": no device has these */
	uint64_t n[IB_COUNTERS];
};

#endif
