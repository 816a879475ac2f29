/* SPDX-License-Identifier: BSD-2-Clause */
/* umad.h - QP0 and QP1 of a fabric's adapters, shared by programs: what ib_umad
 * and ib_mad do in Linux.  A file is what an open /dev/infiniband/umadN is: it
 * has agents, which send requests and get answers, and are given what nobody
 * asked for if they registered for it.  No system call, no clock.
 */
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
	UMAD_AGENTS = 32,	     /* of a file, as in Linux */
	UMAD_REQUESTS = 16384,	     /* of a file, without an answer */
	UMAD_UNREAD = 16384,	     /* messages of a file that wait */
	UMAD_MESSAGE_MAX = 64 << 20, /* bytes of one, by RMPP */
};

/* In front of each MAD, both ways: struct ib_user_mad of rdma-core. */
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
	uint32_t oui;	     /* of classes 0x30 to 0x4f */
	uint64_t methods[2]; /* that nobody asked for; 0: none */
};

struct umad_ops {
	/* A message came for a file that had none. */
	void (*readable)(void *ctx, void *owner);
};

int umad_new(struct umad **out, struct fabric *f, const struct umad_ops *ops, void *ctx);
void umad_free(struct umad *u); /* all files are closed */

/* owner: the caller's own.  0, -ENODEV: no adapter has such a port, -ENOMEM. */
int umad_open(struct umad *u, uint32_t node, uint8_t port, void *owner,
	      struct umad_file **out);
void umad_close(struct umad_file *file);

/* The agent's number in its file, the lowest that is free; -EINVAL: somebody at
 * this port has one of the methods, or what is asked for makes no sense;
 * -ENOSPC: there are UMAD_AGENTS. */
int umad_register(struct umad_file *file, const struct umad_reg *reg);
int umad_unregister(struct umad_file *file, uint32_t agent); /* or -EINVAL */

/* msg: a struct umad_hdr and a MAD.  Goes into the fabric with its next run.  0;
 * -EINVAL: the message, its agent, or a TID that is out; -ENOSPC. */
int umad_write(struct umad_file *file, const void *msg, size_t len, uint64_t now);

/* The oldest message, which stays; NULL: there is none. */
const void *umad_peek(const struct umad_file *file, size_t *len);
void umad_pop(struct umad_file *file);

/* To be read by the file itself: a message that came back with that status. */
void umad_refuse(struct umad_file *file, const void *msg, size_t len, uint32_t status);

/* fabric_ops.deliver */
void umad_input(struct umad *u, uint32_t node, uint8_t port, const struct mad_pkt *pkt);

/* Sends again, gives up: what is due.  fabric_run() is to follow. */
void umad_run(struct umad *u, uint64_t now);
uint64_t umad_next(const struct umad *u);

#endif
