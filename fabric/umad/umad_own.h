/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_own.h - what the files of fabric/umad/ share. */
#ifndef FABRIC_UMAD_UMAD_OWN_H
#define FABRIC_UMAD_UMAD_OWN_H

#include "fabric/fabric.h"
#include "fabric/umad/umad.h"
#include "sys/heap.h"
#include "sys/list.h"

enum { BUCKETS = 64 };

struct agent {
	struct list node; /* in the port's list */
	struct umad_file *file;
	uint32_t id, hi_tid;
	struct umad_reg reg;
	uint8_t qpn;
	struct list receiving, received; /* struct rmpp_rx: incomplete; complete */
	uint32_t remembered;		 /* length of `received` */
};

/* A long message that is being sent; segments are counted from 1. */
struct rmpp_tx {
	size_t len;
	uint32_t segments, pad;	      /* pad: bytes of the last segment without data */
	uint32_t sent, acked, window; /* the last segment that has been sent, that has
				       * been acknowledged, that may be sent */
	uint8_t msg[];
};

/* A long message that is being received. */
struct rmpp_rx {
	struct list node;     /* agent.receiving or received */
	struct heap_node due; /* when it is given up; if done: when it is forgotten */
	struct agent *agent;
	uint8_t tid[8], class_to_method[3];
	uint16_t slid;
	uint32_t sqpn;
	uint32_t segment, window; /* the last segment received, the last that may come */
	bool done;
	uint8_t *msg; /* [cap] bytes, of which len are filled */
	size_t len, cap;
	struct mad_pkt first;
};

/* A transaction under way: a request without an answer yet, or a long message (a request
 * or an answer) that the receiver has not acknowledged in full. */
struct req {
	struct list node; /* umad_file.req */
	struct heap_node due;
	struct agent *agent;
	uint64_t tid;
	bool answer;	/* the message is itself an answer */
	uint32_t tries; /* how often it may still be sent again */
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
	struct list req[BUCKETS]; /* hash table of struct req by TID */
	uint32_t reqs;
	struct list unread;
	uint32_t unreads;
	size_t unread_bytes;
	uint64_t lost;	 /* messages dropped because there was no room to queue them */
	uint32_t rxs;	 /* incomplete long messages of all its agents */
	size_t rx_bytes; /* their memory */
};

struct umad {
	struct fabric *f;
	const struct umad_ops *ops;
	void *ctx;
	uint64_t now;
	uint32_t nodes, last_tid;
	struct uport **port;	 /* [nodes]: NULL, or an array of the adapter's ports */
	struct heap due, rx_due; /* struct req; struct rmpp_rx */
};

/* queue.c: queues a message with data_len bytes of MAD for the file to read. */
void queue_message(struct umad_file *file, const struct umad_hdr *hdr, const void *data,
		   size_t data_len);

/* request.c */
/* Makes the struct req of a message that is being sent; NULL: no room. */
struct req *request_keep(struct agent *a, const struct umad_hdr *hdr,
			 const struct mad_pkt *pkt);
/* Sets r's timer to ms milliseconds from now.  Returns 0 or -ENOMEM. */
int request_due(struct req *r, uint32_t ms);
void request_free(struct req *r);
/* Tells the program that r has timed out, and frees r. */
void request_failed(struct req *r);
/* Finds the outstanding transaction of a with h's TID and class.  answer: looks for an
 * answer that was sent to `lid`; otherwise for a request, and lid is ignored. */
struct req *request_find(struct agent *a, const struct mad_hdr *h, bool answer,
			 uint16_t lid);
void request_run(struct req *r); /* r's timer has run out */
/* Frees all of the agent's transactions. */
void requests_drop(struct umad_file *file, const struct agent *a);
void send_from(const struct uport *p, const struct mad_pkt *pkt);

/* sends by fabric_answer() */
void send_back(const struct uport *p, const struct mad_pkt *pkt);

/* input.c: gives the program a message of len bytes, whose (first) packet was pkt.  Ends
 * the request that the message answers. */
void give_message(struct agent *a, const struct mad_pkt *pkt, const uint8_t *msg,
		  size_t len);

/* rmpp_rx.c */
void rmpp_rx_due(struct rmpp_rx *x); /* x's timer has run out */

#endif
