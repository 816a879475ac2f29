/* SPDX-License-Identifier: BSD-2-Clause */
/* async.h - an asynchronous event in a queue.  For event.c and async.c. */
#ifndef CORE_ASYNC_H
#define CORE_ASYNC_H

#include <infiniband/verbs.h>

#include "sys/list.h"

struct async {
	struct list node; /* in queue.waiting, then in queue.got */
	enum ibv_event_type type;
	void *element; /* NULL: the port or the device */
};

#endif
