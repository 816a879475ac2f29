/* SPDX-License-Identifier: BSD-2-Clause */
/* dev.h - the devices, as rdma_cm sees them: each is opened once, when the library is
 * first used, and stays open.  0 or -errno. */
#ifndef RDMACM_DEV_H
#define RDMACM_DEV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct cma_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd; /* for ids whose program brings none */
	bool iwarp;
	bool ib; /* at an adapter of a fabric */
	uint8_t max_resources, max_depth;
	enum ibv_mtu mtu;
};

/* Which devices will do. */
enum cma_kind { CMA_ANY, CMA_ROCE, CMA_IWARP };

/* -ENOSYS: this process has another libibverbs. */
int cma_init(void);
/* The device with the address ip (of interface ifindex, if not 0): RoCE before
 * iWARP. */
int cma_dev_of(const uint8_t ip[16], uint32_t ifindex, enum cma_kind kind,
	       struct cma_dev **dev, int *index);
bool cma_has_kind(enum cma_kind kind);
/* The one at an adapter of a fabric; NULL: there is none.  only: there is no other. */
struct cma_dev *cma_ib_dev(bool *only);
/* Is each device of that kind, and has it that address? */
bool cma_all_have(const uint8_t ip[16], enum cma_kind kind);
int cma_any_dev(struct cma_dev **dev);
/* An address of a device that is not loopback, of that family.  -ENODEV. */
int cma_some_ip(bool v6, uint8_t ip[16]);
bool cma_ip_is_loopback(const uint8_t ip[16]);
/* Their contexts, NULL after the last, for the program to free.  NULL: errno. */
struct ibv_context **cma_devices(int *num);

#endif
