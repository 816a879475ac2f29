/* SPDX-License-Identifier: BSD-2-Clause */
/* newer.h - events and flags of rdma_cm that Debian 12's <rdma/rdma_cma.h> does not have;
 * the numbers are rdma-core's. Macros, so that headers that have them do no harm. */
#ifndef RDMACM_NEWER_H
#define RDMACM_NEWER_H

#include <rdma/rdma_cma.h>

#define RDMA_CM_EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define RDMA_CM_EVENT_ADDRINFO_ERROR	((enum rdma_cm_event_type)17)
#define RDMA_CM_EVENT_USER		((enum rdma_cm_event_type)18)

#define RAI_SA	0x10 /* rdma_resolve_addrinfo(): asks the subnet's SA for a service */
#define RAI_DNS 0x20 /* ... as rdma_getaddrinfo(), which is the default */

#endif
