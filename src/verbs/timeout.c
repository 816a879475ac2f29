/* SPDX-License-Identifier: BSD-2-Clause */
/* timeout.c - see timeout.h. */
#include "verbs/timeout.h"

#include "verbs/qp.h"

/* With shorter timeouts the scheduler's delays on a busy host would use up the
 * retries. */
enum { TIMEOUT_MIN_NS = 4000000 };

/* Encoding of the RNR NAK timer field, in units of 10 us. */
/* clang-format off */
static const uint32_t rnr_10us[32] = {
	65536,     1,     2,     3,     4,     6,     8,    12,
	   16,    24,    32,    48,    64,    96,   128,   192,
	  256,   384,   512,   768,  1024,  1536,  2048,  3072,
	 4096,  6144,  8192, 12288, 16384, 24576, 32768, 49152,
};
/* clang-format on */

uint64_t rnr_timer_ns(unsigned code)
{
	return rnr_10us[code & 31] * UINT64_C(10000);
}

uint64_t ack_timeout_ns(const struct qp *qp)
{
	unsigned code = qp->attr.timeout & 31;
	uint64_t ns = 4096ull << code;

	if (code == 0)
		return 0;
	return ns < TIMEOUT_MIN_NS ? TIMEOUT_MIN_NS : ns;
}
