/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_spec.h - what faults are asked for: fault.h has the grammar. */
#ifndef LINK_FAULT_SPEC_H
#define LINK_FAULT_SPEC_H

#include <stddef.h>
#include <stdint.h>

enum { FAULT_TX, FAULT_RX, FAULT_DIRS };
enum { FAULT_NTH_MAX = 16 };

struct fault_rules {
	uint32_t drop, dup, reorder, delay, corrupt; /* in a million */
	uint64_t delay_ns;
	uint64_t nth[FAULT_NTH_MAX]; /* from 1; 0: none */
};

struct fault_spec {
	struct fault_rules rules[FAULT_DIRS];
	uint64_t seed;
};

/* 0; or -EINVAL, and err says which part of spec is wrong and why. */
int fault_parse(struct fault_spec *out, const char *spec, char *err, size_t errlen);

/* As it, for a link of InfiniBand, which keeps order and doubles nothing: dup, reorder
 * and a delay of some are refused. */
int fault_parse_ordered(struct fault_spec *out, const char *spec, char *err,
			size_t errlen);

#endif
