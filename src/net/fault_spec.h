/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_spec.h - parses the description of faults; fault.h has the grammar. */
#ifndef NET_FAULT_SPEC_H
#define NET_FAULT_SPEC_H

#include <stddef.h>
#include <stdint.h>

enum { FAULT_TX, FAULT_RX, FAULT_DIRS };
enum { FAULT_NTH_MAX = 16 };

struct fault_rules {
	uint32_t drop, dup, reorder, delay, corrupt; /* per million datagrams */
	uint64_t delay_ns;
	/* datagrams to drop, counted from 1; 0 ends the list */
	uint64_t nth[FAULT_NTH_MAX];
};

struct fault_spec {
	struct fault_rules rules[FAULT_DIRS];
	uint64_t seed;
};

/* Returns 0, or -EINVAL with the wrong part of spec and the reason in err. */
int fault_parse(struct fault_spec *out, const char *spec, char *err, size_t errlen);

/* Like fault_parse(), for an InfiniBand link, which keeps order and duplicates nothing:
 * dup, reorder and a delay with a probability are refused. */
int fault_parse_ordered(struct fault_spec *out, const char *spec, char *err,
			size_t errlen);

#endif
