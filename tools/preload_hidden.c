/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_hidden.c - functions of libc that start threads by themselves: liburnic is told
 * before these, too (preload_process.c). */
#include "preload_told.h"

#include <signal.h>
#include <time.h>

static bool begins_thread(const struct sigevent *e)
{
	return e && e->sigev_notify == SIGEV_THREAD;
}

/* Declared here, since <aio.h> and <mqueue.h> declare some with other argument types. */
PUBLIC int timer_create(clockid_t clock, struct sigevent *e, timer_t *t);
PUBLIC int mq_notify(int queue, const struct sigevent *e);
PUBLIC int aio_read(void *cb);
PUBLIC int aio_read64(void *cb);
PUBLIC int aio_write(void *cb);
PUBLIC int aio_write64(void *cb);
PUBLIC int aio_fsync(int op, void *cb);
PUBLIC int aio_fsync64(int op, void *cb);
PUBLIC int lio_listio(int mode, void *list, int n, void *e);
PUBLIC int lio_listio64(int mode, void *list, int n, void *e);
PUBLIC int getaddrinfo_a(int mode, void *list, int n, void *e);

int timer_create(clockid_t clock, struct sigevent *e, timer_t *t)
{
	int (*fn)(clockid_t, struct sigevent *, timer_t *);

	if (begins_thread(e))
		before_thread();
	*(void **)&fn = libcs(CALLED_timer_create);
	return fn ? fn(clock, e, t) : -1;
}

int mq_notify(int queue, const struct sigevent *e)
{
	int (*fn)(int, const struct sigevent *);

	if (begins_thread(e))
		before_thread();
	*(void **)&fn = libcs(CALLED_mq_notify);
	return fn ? fn(queue, e) : -1;
}

static int by_thread(enum called call, void *cb)
{
	int (*fn)(void *);

	before_thread();
	*(void **)&fn = libcs(call);
	return fn ? fn(cb) : -1;
}

int aio_read(void *cb)
{
	return by_thread(CALLED_aio_read, cb);
}

int aio_read64(void *cb)
{
	return by_thread(CALLED_aio_read64, cb);
}

int aio_write(void *cb)
{
	return by_thread(CALLED_aio_write, cb);
}

int aio_write64(void *cb)
{
	return by_thread(CALLED_aio_write64, cb);
}

static int sync_by_thread(enum called call, int op, void *cb)
{
	int (*fn)(int, void *);

	before_thread();
	*(void **)&fn = libcs(call);
	return fn ? fn(op, cb) : -1;
}

int aio_fsync(int op, void *cb)
{
	return sync_by_thread(CALLED_aio_fsync, op, cb);
}

int aio_fsync64(int op, void *cb)
{
	return sync_by_thread(CALLED_aio_fsync64, op, cb);
}

static int list_by_thread(enum called call, int mode, void *list, int n, void *e,
			  int none)
{
	int (*fn)(int, void *, int, void *);

	before_thread();
	*(void **)&fn = libcs(call);
	return fn ? fn(mode, list, n, e) : none;
}

int lio_listio(int mode, void *list, int n, void *e)
{
	return list_by_thread(CALLED_lio_listio, mode, list, n, e, -1);
}

int lio_listio64(int mode, void *list, int n, void *e)
{
	return list_by_thread(CALLED_lio_listio64, mode, list, n, e, -1);
}

enum { EAI_SYSTEM_ = -11 }; /* <netdb.h> declares getaddrinfo_a() otherwise */

int getaddrinfo_a(int mode, void *list, int n, void *e)
{
	return list_by_thread(CALLED_getaddrinfo_a, mode, list, n, e, EAI_SYSTEM_);
}
