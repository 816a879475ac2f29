/* SPDX-License-Identifier: BSD-2-Clause */
/* dev.h - the devices as rdma_cm uses them. Each is opened once, at the first use of the
 * library, and stays open. Functions that return int return 0 or -errno. */
#ifndef RDMACM_DEV_H
#define RDMACM_DEV_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct cma_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd;     /* for ids whose program has none */
	struct ibv_xrcd *xrcd; /* the same; NULL until cma_dev_xrcd() */
	bool iwarp;
	bool ib; /* InfiniBand, at an adapter of a fabric */
	uint8_t max_resources, max_depth;
	uint8_t ack_delay; /* local_ca_ack_delay: an exponent of 4.096 us */
};

/* Returns the port's MTU, an enum ibv_mtu, which may change at any time. */
uint8_t cma_dev_mtu(const struct cma_dev *d);

/* The kinds of device that a caller accepts. */
enum cma_kind { CMA_ANY, CMA_ROCE, CMA_IWARP };

/* Opens the devices. -ENOSYS: another libibverbs has opened them; -ENODEV: there are
 * none. */
int cma_init(void);
/* Where routes of this host begin: a device, and one of its addresses. */
struct cma_place {
	struct cma_dev *dev;
	int index;	  /* of the address in the GID table; iWARP's one GID is none */
	uint8_t ip[16];	  /* the address that packets have: with RoCE, the GID */
	uint32_t ifindex; /* the interface, if ip is link-local; or as asked for */
};

/* Finds the device with the address ip (on interface ifindex, unless that is 0), RoCE
 * before iWARP; if none has it and ip is loopback's, as cma_loopback() does. Returns 0 or
 * -ENODEV. */
int cma_dev_of(const uint8_t ip[16], uint32_t ifindex, enum cma_kind kind,
	       struct cma_place *out);
/* Finds the device that serves loopback's address ip: as with the kernel's rdma_cm, the
 * first that is listed and active, else the first, a GID of which then stands for ip.
 * (Loopback's own device is the last of the list; programs such as libfabric leave it
 * out. iWARP has no such GIDs: TCP goes to ip.) Returns 0 or -ENODEV. */
int cma_loopback(const uint8_t ip[16], enum cma_kind kind, struct cma_place *out);
bool cma_has_kind(enum cma_kind kind);
/* Returns the device at an adapter of a fabric, or NULL. *only: there is no other
 * device. */
struct cma_dev *cma_ib_dev(bool *only);
/* Is each device of that kind, and does each have the address ip? */
bool cma_all_have(const uint8_t ip[16], enum cma_kind kind);
int cma_any_dev(struct cma_dev **dev);
/* Returns the context of an open device, which stands for the process's NIC, or NULL. */
struct ibv_context *cma_any_ctx(void);
/* Returns the device's own XRC domain, which it opens at the first call, or NULL with
 * errno set. */
struct ibv_xrcd *cma_dev_xrcd(struct cma_dev *dev);
/* Returns the devices' contexts, NULL after the last, for the program to free; or NULL if
 * there is no memory. */
struct ibv_context **cma_devices(int *num);

#endif
