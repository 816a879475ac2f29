/* SPDX-License-Identifier: BSD-2-Clause */
/* counters.h - the counters of the IB transport; counter.def names them. */
#ifndef IB_COUNTERS_H
#define IB_COUNTERS_H

#include <stdint.h>

enum ib_counter {
#define COUNT(value, name, what) value,
#include "ib/counter.def"
#undef COUNT
	IB_COUNTERS
};

/* The counters of the packets of one device's QPs. */
struct ib_counts {
	char device[64]; /* "": no device has these */
	uint64_t n[IB_COUNTERS];
};

#endif
