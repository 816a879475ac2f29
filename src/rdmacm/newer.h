/* SPDX-License-Identifier: BSD-2-Clause */
/* newer.h - <rdma/rdma_cma.h>, and what urnic uses of later releases of rdma-core than
 * 39; see sys/newer.h. */
#ifndef RDMACM_NEWER_H
#define RDMACM_NEWER_H

#include <assert.h>
#include <rdma/rdma_cma.h>

#ifndef HAVE_RDMA_CM_EVENT_USER
#define RDMA_CM_EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define RDMA_CM_EVENT_ADDRINFO_ERROR	((enum rdma_cm_event_type)17)
#define RDMA_CM_EVENT_USER		((enum rdma_cm_event_type)18)
#endif

#ifndef RAI_SA
#define RAI_SA	0x10 /* rdma_resolve_addrinfo(): asks the subnet's SA for a service */
#define RAI_DNS 0x20 /* ... as rdma_getaddrinfo(), which is the default */
#endif

static_assert(RDMA_CM_EVENT_ADDRINFO_RESOLVED == 16 &&
		      RDMA_CM_EVENT_ADDRINFO_ERROR == 17 && RDMA_CM_EVENT_USER == 18 &&
		      RAI_SA == 0x10 && RAI_DNS == 0x20,
	      "rdma_cm");

#endif
