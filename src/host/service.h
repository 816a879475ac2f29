/* SPDX-License-Identifier: BSD-2-Clause */
/* service.h - names under which a process receives datagrams that came to other
 * processes of its host, for rdma_cm's listeners.
 *
 * A name is that of an abstract SOCK_DGRAM socket: the kernel scopes it to the network
 * namespace, gives it to one process only, and removes it with its owner. Datagrams go
 * to host_ops.datagram under the rule for forwarded ones: from processes of this user
 * and of users passed to host_accept_foreign(). As in host.h, calls need the turn and
 * none blocks.
 */
#ifndef HOST_SERVICE_H
#define HOST_SERVICE_H

#include <stdbool.h>

struct dgram;
struct host;
struct service;

/* Takes the name. Returns 0; -EADDRINUSE: another socket has it; -ENAMETOOLONG ... */
int service_bind(struct host *host, const char *name, struct service **out);
void service_close(struct service *s);

/* Sends d to the owner of the name. Returns 0; -ESRCH: nobody has the name; -EAGAIN:
 * dropped. */
int service_send(struct host *host, const char *name, const struct dgram *d);
bool service_exists(const char *name);

#endif
