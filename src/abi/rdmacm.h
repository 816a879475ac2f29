/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmacm.h - what the shells of librdmacm.so.1 share: how a call begins and ends.
 *
 * Inside, calls answer 0 or -errno.  Here that becomes what rdma_cm and sockets
 * promise: -1 and errno. */
#ifndef ABI_RDMACM_H
#define ABI_RDMACM_H

#include <errno.h>
#include <sys/types.h>

#include "sys/held.h"

#define EXPORT __attribute__((visibility("default")))

/* 0, a count or -errno, as programs see it. */
static inline ssize_t cma_result(ssize_t rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* A call that held_begin() began ends with rc. */
static inline int cma_end(int rc)
{
	held_end();
	return (int)cma_result(rc);
}

#endif
