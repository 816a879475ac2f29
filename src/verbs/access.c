/* SPDX-License-Identifier: BSD-2-Clause */
/* access.c - which rights a region may be registered with. */
#include <errno.h>

#include "sys/log.h"
#include "verbs/device.h"
#include "verbs/flush.h"
#include "verbs/like.h"
#include "verbs/mr.h"

static bool has_flush(const struct pd *pd)
{
	const struct device *dev = pd_device(pd);

	return dev && device_has_a19(dev);
}

int mr_check_access(const struct pd *pd, int access)
{
	const int remote_write = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	if ((unsigned)access & ~ACCESS_KNOWN) {
		log_info("memory region refused: access %#x has unknown bits",
			 (unsigned)access);
		return -EINVAL;
	}
	if (access & ACCESS_FLUSH && like_lacks(LIKE_A19, "reg_mr"))
		return -EOPNOTSUPP;
	if (access & IBV_ACCESS_FLUSH_PERSISTENT ||
	    (access & IBV_ACCESS_FLUSH_GLOBAL && !has_flush(pd))) {
		log_info("memory region refused: access %#x: the device does not "
			 "have that FLUSH",
			 (unsigned)access);
		return -EOPNOTSUPP;
	}
	if (access & IBV_ACCESS_ON_DEMAND && like_lacks(LIKE_ODP, "reg_mr"))
		return -EOPNOTSUPP;
	if (access & remote_write && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		log_info("memory region refused: access %#x: remote write and "
			 "atomic need IBV_ACCESS_LOCAL_WRITE",
			 (unsigned)access);
		return -EINVAL;
	}
	return 0;
}
