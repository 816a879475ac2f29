/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmacm.h - what the shells of librdmacm.so.1 share: how a call begins and ends.
 *
 * The rooms behind them return 0 or -errno. Here that becomes what rdma_cm and sockets
 * promise: -1 and errno. */
#ifndef ABI_RDMACM_H
#define ABI_RDMACM_H

#include <errno.h>
#include <sys/types.h>

#include "sys/held.h"

#define EXPORT __attribute__((visibility("default")))

/* Converts 0 or a count, or -errno, to what programs get. */
static inline ssize_t cma_result(ssize_t rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/* Ends a call that began with held_begin(); returns the program's result for rc. */
static inline int cma_end(int rc)
{
	held_end();
	return (int)cma_result(rc);
}

#endif
