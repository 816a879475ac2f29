/* SPDX-License-Identifier: BSD-2-Clause */
/* service.h - names under which a process takes datagrams that came to others
 * of its host: rdma_cm's listeners.
 *
 * A name is that of an abstract SOCK_DGRAM socket: the kernel scopes it to the
 * network namespace, gives it to one process only, and removes it with its
 * owner.  What comes in goes where all that is forwarded goes (host_ops.
 * datagram), under the same rule: from processes of this user, and of those
 * that host_accept_foreign() named.  As for host.h: turn held, none blocks.
 */
#ifndef HOST_SERVICE_H
#define HOST_SERVICE_H

#include <stdbool.h>

struct dgram;
struct host;
struct service;

/* Own the name.  0; -EADDRINUSE: another socket has it; -ENAMETOOLONG ... */
int service_bind(struct host *host, const char *name, struct service **out);
void service_close(struct service *s);

/* Send d to the owner.  0, -ESRCH: nobody has the name; -EAGAIN: dropped. */
int service_send(struct host *host, const char *name, const struct dgram *d);
bool service_exists(const char *name);

#endif
