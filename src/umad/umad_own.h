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
	struct list node; /* of the port */
	struct umad_file *file;
	uint32_t id, hi_tid;
	struct umad_reg reg;
	uint8_t qpn;
	struct list receiving, received; /* struct rmpp_rx: not done, done */
	uint32_t remembered;
};

/* A long message on its way out; segments are counted from 1. */
struct rmpp_tx {
	size_t len;
	uint32_t segments, pad;	      /* pad: what the last one lacks */
	uint32_t sent, acked, window; /* the last one that is out, that is there,
				       * that may go */
	uint8_t msg[];
};

/* A long message on its way in. */
struct rmpp_rx {
	struct list node;     /* of the agent */
	struct heap_node due; /* it has to be complete; forgotten */
	struct agent *agent;
	uint8_t tid[8], class_to_method[3];
	uint16_t slid;
	uint32_t sqpn;
	uint32_t segment, window; /* the last one that is here, that may come */
	bool done;
	uint8_t *msg; /* [cap], of which len are filled */
	size_t len, cap;
	struct mad_pkt first;
};

/* What was sent and is not over: a request without an answer, or a long message
 * that is not there yet (which may be an answer). */
struct req {
	struct list node; /* of the file's bucket */
	struct heap_node due;
	struct agent *agent;
	uint64_t tid;
	bool answer;
	uint32_t tries; /* left, after the one that is out */
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
	struct list node; /* of the port */
	struct uport *port;
	void *owner;
	struct agent *agent[UMAD_AGENTS];
	struct list req[BUCKETS]; /* by TID */
	uint32_t reqs;
	struct list unread;
	uint32_t unreads;
	size_t unread_bytes;
	uint64_t lost; /* messages, for want of room */
	uint32_t rxs;  /* messages that its agents receive */
	size_t rx_bytes;
};

struct umad {
	struct fabric *f;
	const struct umad_ops *ops;
	void *ctx;
	uint64_t now;
	uint32_t nodes, last_tid;
	struct uport **port;	 /* [nodes]: an array for each adapter */
	struct heap due, rx_due; /* struct req; struct rmpp_rx */
};

/* queue.c: a message for the file; data_len bytes of MAD. */
void queue_message(struct umad_file *file, const struct umad_hdr *hdr, const void *data,
		   size_t data_len);

/* request.c */
struct req *request_keep(struct agent *a, const struct umad_hdr *hdr,
			 const struct mad_pkt *pkt); /* NULL: no room */
int request_due(struct req *r, uint32_t ms);
void request_free(struct req *r);
void request_failed(struct req *r); /* the program is told; freed */
/* What h answers or acknowledges: a request, or an answer that went to lid. */
struct req *request_find(struct agent *a, const struct mad_hdr *h, bool answer,
			 uint16_t lid);
void request_run(struct req *r); /* its deadline is there */
void requests_drop(struct umad_file *file, const struct agent *a);
void send_from(const struct uport *p, const struct mad_pkt *pkt);

void send_back(const struct uport *p, const struct mad_pkt *pkt); /* fabric_answer() */

/* input.c, to the program: len bytes of MAD, which came as pkt. */
void give_message(struct agent *a, const struct mad_pkt *pkt, const uint8_t *msg,
		  size_t len);

/* rmpp_rx.c */
void rmpp_rx_due(struct rmpp_rx *x); /* its deadline is there */

#endif
