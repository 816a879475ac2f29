/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_fix.h - for unit tests: a loop of which one end has faults. */
#ifndef NET_FAULT_FIX_H
#define NET_FAULT_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "net/fault.h"
#include "net/link_testing.h"
#include "net/loop.h"

enum { N = 2000, MS = 1000000 };

struct pair {
	struct link *faulty, *plain;
};

static inline struct pair join(const char *spec, const struct loop_conf *conf)
{
	static const struct loop_conf wide = { .depth = 4 * N };
	struct pair p;
	char err[160] = "";

	assert_int_equal(loop_pair(&p.faulty, &p.plain, conf ? conf : &wide), 0);
	if (fault_wrap(&p.faulty, p.faulty, spec, err, sizeof(err)))
		fail_msg("%s", err);
	return p;
}

static inline void part(struct pair p)
{
	p.faulty->ops->close(p.faulty);
	p.plain->ops->close(p.plain);
}

#endif
