/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.h - an id and its own address: device, name, port.  0 or -errno. */
#ifndef RDMACM_BIND_H
#define RDMACM_BIND_H

#include <sys/socket.h>

#include "rdmacm/id.h"

/* Which devices can id have? */
enum cma_kind cma_kind_of(const struct cma_id *id);
bool cma_is_any(const struct sockaddr *a);
int cma_bind(struct cma_id *id, const struct sockaddr *a);
int cma_bind_any(struct cma_id *id);
/* Of its partition; of Ethernet, the default one. */
uint16_t cma_pkey(const struct cma_id *id);
/* To the first address of an adapter. */
int cma_bind_ib(struct cma_id *id, struct cma_dev *ib);
int cma_bind_dev(struct cma_id *id, const uint8_t ip[16], uint32_t ifindex,
		 enum cma_kind kind);
/* The name of the service, that nobody else may have. */
int cma_take_name(struct cma_id *id);
void cma_set_src_port(struct cma_id *id, uint16_t port);
/* One that a client may have. */
uint16_t cma_any_port(void);
/* Which of our addresses does the kernel reach dst from?  src: as far as it is known,
 * completed here. */
int cma_find_source(const struct sockaddr *dst, struct sockaddr_storage *src);

#endif
