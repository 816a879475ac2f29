/* SPDX-License-Identifier: BSD-2-Clause */
/* service.h - the service thread: it reads the events of all sockets' ids, as that
 * is when rdma_cm moves their QPs; sends keepalives; and ends what rclose() has
 * left to it. */
#ifndef RSOCKET_SERVICE_H
#define RSOCKET_SERVICE_H

#include "rsocket/sock.h"

/* The channel of all ids.  The first call starts the thread.  0 or -errno. */
int rsock_service(struct rdma_event_channel **out);
/* From now on there are sockets with SO_KEEPALIVE: each is ticked every second. */
void rsock_service_keep_alive(void);
/* rs is put when its kind says that it is over: it has the caller's count. */
void rsock_service_close(struct rsock *rs);

/* One turn of the thread: it waits until something is to be done, ns at most.  0,
 * or -errno: nothing will ever come. */
int rsock_service_turn(int64_t ns);

#endif
