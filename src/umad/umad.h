/* SPDX-License-Identifier: BSD-2-Clause */
/* umad.h - QP0 and QP1 of a fabric's adapters, shared by programs: what ib_umad and
 * ib_mad do in Linux. A file corresponds to an open /dev/infiniband/umadN. It has
 * agents, which send requests and get answers; an agent also gets unsolicited MADs that
 * it registered for. No system call, no clock. */
#ifndef UMAD_UMAD_H
#define UMAD_UMAD_H

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
	UMAD_REQUESTS = 16384,	     /* unanswered requests per file */
	UMAD_UNREAD = 16384,	     /* unread messages per file */
	UMAD_MESSAGE_MAX = 64 << 20, /* bytes of a message, by RMPP */
};

/* Header of each MAD, both ways: struct ib_user_mad of rdma-core. */
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
	bool own_rmpp;	     /* the program does RMPP by itself (UMAD_USER_RMPP) */
	uint32_t oui;	     /* for classes 0x30 to 0x4f */
	uint64_t methods[2]; /* bitmap of unsolicited methods; 0: none */
};

struct umad_ops {
	/* A message came for a file that had none. */
	void (*readable)(void *ctx, void *owner);
};

int umad_new(struct umad **out, struct fabric *f, const struct umad_ops *ops, void *ctx);
void umad_free(struct umad *u); /* all files must be closed */

/* Opens a port for MADs; owner is the caller's own. Returns 0; -ENODEV: no adapter has
 * such a port; -ENOMEM. */
int umad_open(struct umad *u, uint32_t node, uint8_t port, void *owner,
	      struct umad_file **out);
void umad_close(struct umad_file *file);

/* Registers an agent. Returns its number in the file, the lowest free one; -EINVAL:
 * another agent at this port has one of the methods, or reg is inconsistent; -ENOSPC:
 * the file has UMAD_AGENTS already. */
int umad_register(struct umad_file *file, const struct umad_reg *reg);
int umad_unregister(struct umad_file *file, uint32_t agent); /* returns 0 or -EINVAL */

/* Sends msg, a struct umad_hdr and a MAD, with the fabric's next run. Returns 0;
 * -EINVAL: bad message or agent, or its TID is in use; -ENOSPC. */
int umad_write(struct umad_file *file, const void *msg, size_t len, uint64_t now);

/* Returns the oldest message and leaves it in the file; NULL: there is none. */
const void *umad_peek(const struct umad_file *file, size_t *len);
void umad_pop(struct umad_file *file);

/* Returns msg to the file's own reader, with that status. */
void umad_refuse(struct umad_file *file, const void *msg, size_t len, uint32_t status);

/* for fabric_ops.deliver */
void umad_input(struct umad *u, uint32_t node, uint8_t port, const struct mad_pkt *pkt);

/* Does what is due: resends, and gives requests up. fabric_run() must follow. */
void umad_run(struct umad *u, uint64_t now);
uint64_t umad_next(const struct umad *u);

#endif
