/* SPDX-License-Identifier: BSD-2-Clause */
/* sim.h - for tests: two NICs with a cable between them, in virtual time; or,
 * for local/, two processes of one host with a pipe.
 *
 * Each has one device, one PD and whatever QPs and CQs the test makes.  What
 * goes over the cable can be seen, and lost, by a tap; a fault link may be put
 * in as well.
 */
#ifndef IB_SIM_H
#define IB_SIM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "core/device.h"
#include "core/event.h"
#include "core/qp.h"
#include "link/batch.h"
#include "link/dgram.h"
#include "wire/ib_pkt.h"

enum { SIM_QPS = 64, SIM_A = 0, SIM_B = 1 };

struct link;
struct xrcd;

struct sim;

struct sim_node {
	struct sim *sim;
	int side;
	struct core core;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
	struct pd *pd;
	struct link *link;
	struct host *host; /* same_host */
	bool stopped;	   /* ... it gets no turn */
	unsigned refused;  /* ... QPs that were sent to the wire */
	struct batch batch;
	/* The QPs whose datagrams are in it, v[first ... first + n). */
	struct sim_part {
		struct qp *qp;
		unsigned first, n;
	} part[BATCH_MAX];
	unsigned parts;
	unsigned nqps;
	struct qp *qps[SIM_QPS];
	uint64_t due[SIM_QPS];
};

/* A packet on the cable, as its sender made it. */
struct sim_packet {
	int side; /* who sent it */
	uint64_t now;
	struct ib_fields f;
	uint32_t payload;
	uint32_t len;	 /* BTH to ICRC */
	unsigned pieces; /* 1: a copy */
	const struct dgram *d;
};

struct sim {
	struct sim_node node[2];
	uint64_t now;
	/* False: the packet is lost.  NULL: all pass. */
	bool (*tap)(void *arg, const struct sim_packet *p);
	void *tap_arg;
	uint64_t take_every; /* a link that is full: of so many sends
			      * one takes a part only; 0: none */
	uint64_t sends;
	bool same_host;
};

/* 0: the default in brackets */
struct sim_conf {
	uint64_t latency;  /* ns [10000] */
	const char *fault; /* link/fault.h [none] */
	bool ipv6;
	bool infiniband;		       /* LIDs instead of IP addresses */
	uint8_t static_rate[2];		       /* enum ibv_rate */
	uint16_t pkey_index;		       /* [0] */
	enum ibv_mtu path_mtu;		       /* of connections [1024] */
	uint32_t netdev_mtu;		       /* [4200] */
	uint8_t timeout, retry_cnt, rnr_retry; /* [14, 7, 7] */
	uint8_t min_rnr_timer;		       /* [12: 640 us] */
	uint8_t rd_atomic;		       /* out and in [16] */
	uint32_t psn[2];		       /* first ones, of A and of B */
	unsigned run_max;		       /* [16] */
	bool same_host;			       /* no cable, and so no tap, no fault */
	bool pipe_only;			       /* ... and no copies between processes */
	bool off[2];			       /* ... this one refuses every pipe */
	bool hide_ids;			       /* IPv4 identifications are not seen, as
						* with a socket */
};

struct sim *sim_open(const struct sim_conf *conf);
void sim_close(struct sim *s);

struct cq *sim_cq(struct sim *s, int side, int cqe);
struct qp *sim_qp(struct sim *s, int side, enum ibv_qp_type type, struct cq *scq,
		  struct cq *rcq, struct srq *srq, const struct ibv_qp_cap *cap);
struct qp *sim_qp_of(struct sim *s, int side, struct ibv_qp_init_attr_ex *attr);
/* INIT to RTS, connected to peer (UD: peer NULL). */
void sim_bring(struct sim *s, struct qp *qp, const struct qp *peer,
	       const struct sim_conf *conf);
/* Two RC, UC or UD QPs with a CQ each, connected. */
struct sim_pair {
	struct qp *qp[2];
	struct cq *cq[2];
};
struct sim_pair sim_pair(struct sim *s, enum ibv_qp_type type,
			 const struct sim_conf *conf);
/* An XRC initiator of node 0, whose sends complete to scq, and a target of node 1, in the
 * domain; connected. */
void sim_xrc(struct sim *s, struct cq *scq, struct xrcd *xrcd,
	     const struct sim_conf *conf, struct qp **from, struct qp **to);
void sim_destroy(struct sim *s, struct qp *qp);
/* same_host: the process of side ends, and its QPs with it. */
void sim_leave(struct sim *s, int side);
void sim_unpair(struct sim *s, const struct sim_pair *p);

struct mr *sim_mr(struct sim *s, int side, void *at, size_t n, int access);
struct ibv_sge sim_sge(const struct mr *mr, size_t off, size_t n);
void sim_send(struct qp *qp, struct ibv_send_wr *wr);
void sim_recv(struct qp *qp, uint64_t wr_id, struct ibv_sge *sge, int n);

/* Put a datagram on the wire: from side to the other. */
void sim_inject(struct sim *s, int side, const struct ib_fields *f, const void *payload,
		uint32_t len);

/* On to the next instant at which something happens, and all of it: what has
 * come in, timers, output.  False: nothing will ever happen any more. */
bool sim_step(struct sim *s);
/* Until nothing happens, or ns have passed.  False: they have. */
bool sim_run(struct sim *s, uint64_t ns);
/* Until cq has a completion, which is taken; false: it has none after ns. */
bool sim_wait(struct sim *s, struct cq *cq, uint64_t ns, struct ibv_wc *wc);
/* The next asynchronous event of that side, or -1. */
int sim_event(struct sim *s, int side);

#endif
