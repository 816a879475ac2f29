/* SPDX-License-Identifier: BSD-2-Clause */
/* umad.h - QP0 and QP1 of a fabric's adapters, shared by programs; does the work of
 * Linux's ib_umad and ib_mad.  A file corresponds to an open /dev/infiniband/umadN.  It
 * has agents, which send requests and get the answers; an agent also gets the unsolicited
 * MADs whose methods it has registered for.  No system call, no clock; times are in ns.
 */
#ifndef FABRIC_UMAD_UMAD_H
#define FABRIC_UMAD_UMAD_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/be.h"

struct fabric;
struct mad_pkt;
struct umad;
struct umad_file;

enum {
	UMAD_AGENTS = 32,	     /* per file, as in Linux */
	UMAD_REQUESTS = 16384,	     /* outstanding requests per file */
	UMAD_UNREAD = 16384,	     /* unread messages per file */
	UMAD_MESSAGE_MAX = 64 << 20, /* bytes of a message, which RMPP carries */
};

/* Precedes each MAD, to and from programs: rdma-core's struct ib_user_mad. */
struct umad_hdr {
	uint32_t agent, status, timeout_ms, retries, length;
	be32_t qpn, qkey;
	be16_t lid;
	uint8_t sl, path_bits, grh, gid_index, hop_limit, tclass;
	uint8_t gid[16];
	be32_t flow_label;
	uint16_t pkey_index;
	uint8_t rsvd[6];
};

enum { UMAD_HDR = 64 };

static_assert(sizeof(struct umad_hdr) == UMAD_HDR, "ib_user_mad");
static_assert(offsetof(struct umad_hdr, qpn) == 20, "ib_user_mad");
static_assert(offsetof(struct umad_hdr, gid) == 36, "ib_user_mad");
static_assert(offsetof(struct umad_hdr, pkey_index) == 56, "ib_user_mad");

struct umad_reg {
	uint8_t class, version, rmpp;
	bool own_rmpp;	     /* the program does RMPP itself (UMAD_USER_RMPP) */
	uint32_t oui;	     /* only of vendor classes 0x30 to 0x4f */
	uint64_t methods[2]; /* bitmap: the methods of unsolicited MADs that it wants */
};

struct umad_ops {
	/* A file that had no unread message now has one.  owner: as of umad_open(). */
	void (*readable)(void *ctx, void *owner);
};

int umad_new(struct umad **out, struct fabric *f, const struct umad_ops *ops, void *ctx);
void umad_free(struct umad *u); /* the caller has closed all files */

/* Opens a file at an adapter's port; owner is passed to readable().  Returns 0; -ENODEV:
 * there is no such adapter or port; -ENOMEM. */
int umad_open(struct umad *u, uint32_t node, uint8_t port, void *owner,
	      struct umad_file **out);
void umad_close(struct umad_file *file);

/* Returns the new agent's number, the lowest that is free in the file.  -EINVAL: another
 * agent at this port has one of the methods, or reg is not valid; -ENOSPC: the file has
 * UMAD_AGENTS agents; -ENOMEM. */
int umad_register(struct umad_file *file, const struct umad_reg *reg);
/* Returns 0, or -EINVAL if the file has no such agent. */
int umad_unregister(struct umad_file *file, uint32_t agent);

/* Sends msg, a struct umad_hdr and a MAD; the packet moves with the next fabric_run().
 * Returns 0; -EINVAL: the message or its agent is not valid, or a request with the same
 * TID is outstanding; -ENOSPC: no memory, or UMAD_REQUESTS are outstanding. */
int umad_write(struct umad_file *file, const void *msg, size_t len, uint64_t now);

/* The oldest unread message, which umad_pop() removes; NULL: there is none. */
const void *umad_peek(const struct umad_file *file, size_t *len);
void umad_pop(struct umad_file *file);

/* Queues msg, which the file has sent, for the file to read, with an error status. */
void umad_refuse(struct umad_file *file, const void *msg, size_t len, uint32_t status);

/* Takes a packet that came to QP0 or QP1 of the port (fabric_ops.deliver). */
void umad_input(struct umad *u, uint32_t node, uint8_t port, const struct mad_pkt *pkt);

/* Repeats requests that are due, and gives up those that have no tries left.  The caller
 * then calls fabric_run(). */
void umad_run(struct umad *u, uint64_t now);
uint64_t umad_next(const struct umad *u); /* when umad_run() has work; NEVER: none */

#endif
