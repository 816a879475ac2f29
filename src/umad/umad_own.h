/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_own.h - between the files of umad/. */
#ifndef UMAD_UMAD_OWN_H
#define UMAD_UMAD_OWN_H

#include "fabric/fabric.h"
#include "sys/heap.h"
#include "sys/list.h"
#include "umad/umad.h"

enum { BUCKETS = 64 };

struct agent {
	struct list node;		/* of the port */
	struct umad_file *file;
	uint32_t id, hi_tid;
	struct umad_reg reg;
	uint8_t qpn;
};

/* A request without an answer. */
struct req {
	struct list node;		/* of the file's bucket */
	struct heap_node due;
	struct agent *agent;
	uint64_t tid;
	uint32_t tries;			/* left, after the one that is out */
	struct umad_hdr hdr;
	struct mad_pkt pkt;
};

struct unread {
	struct list node;
	size_t len;
	_Alignas(8) uint8_t msg[];
};

struct uport {
	struct umad *u;
	uint32_t node;
	uint8_t num;
	struct list files, agents;
};

struct umad_file {
	struct list node;		/* of the port */
	struct uport *port;
	void *owner;
	struct agent *agent[UMAD_AGENTS];
	struct list req[BUCKETS];	/* by TID */
	uint32_t reqs;
	struct list unread;
	uint32_t unreads;
	uint64_t lost;			/* messages, for want of room */
};

struct umad {
	struct fabric *f;
	const struct umad_ops *ops;
	void *ctx;
	uint64_t now;
	uint32_t nodes, last_tid;
	struct uport **port;		/* [nodes]: an array for each adapter */
	struct heap due;		/* struct req */
};

/* queue.c: a message for the file; data_len bytes of MAD. */
void queue_message(struct umad_file *file, const struct umad_hdr *hdr,
		   const void *data, size_t data_len);

/* request.c */
void request_free(struct req *r);
struct req *request_find(struct agent *a, const struct mad_hdr *h);
void request_run(struct req *r);		/* its deadline is there */
void requests_drop(struct umad_file *file, const struct agent *a);	/* NULL: all */

#endif
