/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_own.h - declarations shared by the files of umad/. */
#ifndef UMAD_UMAD_OWN_H
#define UMAD_UMAD_OWN_H

#include "fabric/fabric.h"
#include "sys/heap.h"
#include "sys/list.h"
#include "umad/umad.h"

enum { BUCKETS = 64 };

struct agent {
	struct list node; /* in the port's list */
	struct umad_file *file;
	uint32_t id, hi_tid;
	struct umad_reg reg;
	uint8_t qpn;
	/* struct rmpp_rx: incomplete ones, complete ones */
	struct list receiving, received;
	uint32_t remembered;
};

/* A long message being sent; segments are counted from 1. */
struct rmpp_tx {
	size_t len;
	uint32_t segments, pad; /* pad: bytes that the last segment lacks */
	/* last segment: sent, acknowledged, allowed by the window */
	uint32_t sent, acked, window;
	uint8_t msg[];
};

/* A long message being received. */
struct rmpp_rx {
	struct list node; /* in the agent's list */
	/* when it must be complete or, if complete, is forgotten */
	struct heap_node due;
	struct agent *agent;
	uint8_t tid[8], class_to_method[3];
	uint16_t slid;
	uint32_t sqpn;
	uint32_t segment, window; /* last segment: received, allowed by the window */
	bool done;
	uint8_t *msg; /* [cap], the first len bytes are filled */
	size_t len, cap;
	struct mad_pkt first;
};

/* A message sent and not finished: a request without an answer, or a long message
 * (perhaps an answer) that is not yet acknowledged. */
struct req {
	struct list node; /* in the file's bucket */
	struct heap_node due;
	struct agent *agent;
	uint64_t tid;
	bool answer;
	uint32_t tries; /* tries left after the current one */
	struct umad_hdr hdr;
	struct mad_pkt pkt;
	struct rmpp_tx *tx; /* NULL: a single MAD */
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
	struct list node; /* in the port's list */
	struct uport *port;
	void *owner;
	struct agent *agent[UMAD_AGENTS];
	struct list req[BUCKETS]; /* hashed by TID */
	uint32_t reqs;
	struct list unread;
	uint32_t unreads;
	size_t unread_bytes;
	uint64_t lost; /* messages lost for lack of room */
	uint32_t rxs;  /* messages that its agents are receiving */
	size_t rx_bytes;
};

struct umad {
	struct fabric *f;
	const struct umad_ops *ops;
	void *ctx;
	uint64_t now;
	uint32_t nodes, last_tid;
	struct uport **port;	 /* [nodes]: an array of ports for each adapter */
	struct heap due, rx_due; /* of struct req; of struct rmpp_rx */
};

/* queue.c: queues a message for the file; data: data_len bytes of MAD. */
void queue_message(struct umad_file *file, const struct umad_hdr *hdr, const void *data,
		   size_t data_len);

/* request.c; request_keep() returns NULL if there is no room. */
struct req *request_keep(struct agent *a, const struct umad_hdr *hdr,
			 const struct mad_pkt *pkt);
int request_due(struct req *r, uint32_t ms);
void request_free(struct req *r);
void request_failed(struct req *r); /* tells the program, and frees r */
/* Finds what h answers or acknowledges: a request, or an answer sent to lid. */
struct req *request_find(struct agent *a, const struct mad_hdr *h, bool answer,
			 uint16_t lid);
void request_run(struct req *r); /* r's deadline has come */
void requests_drop(struct umad_file *file, const struct agent *a);
void send_from(const struct uport *p, const struct mad_pkt *pkt);

/* sends by fabric_answer() */
void send_back(const struct uport *p, const struct mad_pkt *pkt);

/* input.c: passes len bytes of MAD, received as pkt, to the program. */
void give_message(struct agent *a, const struct mad_pkt *pkt, const uint8_t *msg,
		  size_t len);

/* rmpp_rx.c */
void rmpp_rx_due(struct rmpp_rx *x); /* its deadline has come */

#endif
