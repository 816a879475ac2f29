/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.h - binds an id to an address: device, service name, port. Functions that return
 * int return 0 or -errno. */
#ifndef RDMACM_BIND_H
#define RDMACM_BIND_H

#include <sys/socket.h>

#include "rdmacm/id.h"

/* Which kinds of device can the id have? */
enum cma_kind cma_kind_of(const struct cma_id *id);
bool cma_is_any(const struct sockaddr *a);
int cma_bind(struct cma_id *id, const struct sockaddr *a);
int cma_bind_any(struct cma_id *id);
/* Returns the P_Key of id's partition; on Ethernet the default P_Key. */
uint16_t cma_pkey(const struct cma_id *id);
/* Binds id to the first GID of an adapter. */
int cma_bind_ib(struct cma_id *id, struct cma_dev *ib);
/* Gives id the device of cma_dev_of(), and the beginning of its route. */
int cma_bind_dev(struct cma_id *id, const uint8_t ip[16], uint32_t ifindex,
		 enum cma_kind kind);
/* The same with the device of cma_loopback(). */
int cma_bind_loopback(struct cma_id *id, const uint8_t ip[16], enum cma_kind kind);
/* Takes the name of id's service on this host, which no other process may have then. */
int cma_take_name(struct cma_id *id);
void cma_set_src_port(struct cma_id *id, uint16_t port);
/* Returns a random port of those that clients use. */
uint16_t cma_any_port(void);
/* Finds the address of ours from which the kernel reaches dst. A source address and port
 * that src already has are used; src is completed. Returns 0 or -errno. */
int cma_find_source(const struct sockaddr *dst, struct sockaddr_storage *src);

#endif
