/* SPDX-License-Identifier: BSD-2-Clause */
/* counters.h - the counters of the IB transport; counter.def names them. */
#ifndef IB_COUNTERS_H
#define IB_COUNTERS_H

enum ib_counter {
#define COUNT(value, name, what) value,
#include "ib/counter.def"
#undef COUNT
	IB_COUNTERS
};

#endif
