/* SPDX-License-Identifier: BSD-2-Clause */
/* service_thread.h - the service thread. It reads the events of all sockets' ids, since
 * rdma_cm moves a QP when its event is read; it sends keepalives; and it finishes what
 * rclose() left to it. */
#ifndef RSOCKET_SERVICE_THREAD_H
#define RSOCKET_SERVICE_THREAD_H

#include "rsocket/sock.h"

/* Sets *out to the channel of all ids. The first call starts the thread. Returns 0 or
 * -errno. */
int rsock_service(struct rdma_event_channel **out);
/* Makes the thread call tick() for each socket every second, from now on. */
void rsock_service_keep_alive(void);
/* Leaves rs to the thread, with the caller's count, until its kind's is_over(). */
void rsock_service_close(struct rsock *rs);

/* In the child of a fork, whether or not the fork has waited for the service's lock: the
 * child has neither the thread nor the parent's channel. */
void rsock_service_forked(void);

/* One turn of the thread: waits for something to do, ns at most. Returns 0, or -errno if
 * the channel is unusable. */
int rsock_service_turn(int64_t ns);

#endif
