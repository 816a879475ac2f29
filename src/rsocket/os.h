/* SPDX-License-Identifier: BSD-2-Clause */
/* os.h - what rsockets take from outside, and unit tests have fakes of: the clock,
 * sleeping and starting a thread (os_fix.c, with a virtual clock); and three functions of
 * this librdmacm that <rdma/rdma_cma.h> does not offer, which abi/rsocket.c provides
 * (cm_fix.c, verbs_fix.c). */
#ifndef RSOCKET_OS_H
#define RSOCKET_OS_H

#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>

/* --- time and threads ---------------------------------------------------- */

#define RSOCK_MS      UINT64_C(1000000) /* in ns */
#define RSOCK_S	      UINT64_C(1000000000)
#define RSOCK_FOREVER INT64_C(-1)

uint64_t rsock_now(void); /* ns, monotonic */
/* As poll(2), but with the limit in ns (RSOCK_FOREVER: none). Returns how many
 * descriptors are ready, or -errno. */
int rsock_sleep(struct pollfd *fds, nfds_t n, int64_t ns);
/* Starts a detached thread with all signals blocked but SIGSEGV and SIGBUS. Returns 0 or
 * -errno. */
int rsock_thread(void *(*run)(void *), void *arg);

/* Returns the ns from now to end, or 0 if end is past. */
static inline int64_t rsock_left(uint64_t end)
{
	uint64_t now = rsock_now();

	return now < end ? (int64_t)(end - now) : 0;
}

/* --- rdma_cm ------------------------------------------------------------- */

/* The device port by which datagrams from one of this host's addresses go out. */
struct rsock_port {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t sgid_index;
	uint8_t gid[16]; /* the address, or what stands for loopback's */
	uint32_t mtu;	 /* bytes */
};

/* After this call no event of id moves its QP any more, so the QP can be destroyed. */
void rsock_rdma_stop(struct rdma_cm_id *id);
/* Completes *from with the local address that the kernel's routes choose for `to`; a part
 * that is set stays. Returns 0 or -errno. */
int rsock_rdma_source(const struct sockaddr *to, struct sockaddr_storage *from);
/* Finds the RoCE device with this address, or for loopback's (on interface ifindex,
 * unless that is 0). Returns 0 or -errno. */
int rsock_rdma_port(const uint8_t ip[16], uint32_t ifindex, struct rsock_port *out);

#endif
