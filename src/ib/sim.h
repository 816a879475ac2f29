/* SPDX-License-Identifier: BSD-2-Clause */
/* sim.h - for tests: two NICs with a cable between them, in virtual time; or, for
 * shm/, two processes of one host with a pipe.
 *
 * Each node has one device, one PD and the QPs and CQs that the test makes.  A tap can
 * see and lose what goes over the cable; a fault link may be put in as well. */
#ifndef IB_SIM_H
#define IB_SIM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/batch.h"
#include "net/dgram.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/qp.h"
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
	struct host *host; /* same_host only */
	bool stopped;	   /* same_host: this node gets no turn */
	unsigned refused;  /* same_host: QPs that were sent to the wire */
	struct batch batch;
	/* The QPs whose datagrams are in the batch, v[first ... first + n). */
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
	int side; /* sender: SIM_A or SIM_B */
	uint64_t now;
	struct ib_fields f;
	uint32_t payload;
	uint32_t len; /* BTH to ICRC */
	const struct dgram *d;
};

struct sim {
	struct sim_node node[2];
	uint64_t now;
	/* Returns false to lose the packet.  NULL: all packets pass. */
	bool (*tap)(void *arg, const struct sim_packet *p);
	void *tap_arg;
	/* a full link: one send in so many takes only half of the batch, or all but the
	 * last; 0: never */
	uint64_t take_every;
	bool take_but_last;
	uint64_t sends;
	bool same_host;
};

/* 0 stands for the default in brackets. */
struct sim_conf {
	uint64_t latency;  /* ns [10000] */
	const char *fault; /* net/fault.h [none] */
	bool ipv6;
	bool infiniband;		       /* LIDs instead of IP addresses */
	uint8_t static_rate[2];		       /* enum ibv_rate */
	uint16_t pkey_index;		       /* [0] */
	enum ibv_mtu path_mtu;		       /* of connections [1024] */
	uint32_t netdev_mtu;		       /* [4200] */
	uint8_t timeout, retry_cnt, rnr_retry; /* [14, 7, 7] */
	uint8_t min_rnr_timer;		       /* [12: 640 us] */
	uint8_t rd_atomic;		       /* out and in [16] */
	uint64_t late;	  /* ns that a message waits for its receive [RNR at once] */
	uint32_t psn[2];  /* first PSNs of A and of B */
	unsigned run_max; /* [16] */
	/* Two processes of one host: no cable, so no tap and no fault */
	bool same_host;
	/* same_host: no copies between processes */
	bool pipe_only;
	/* same_host: this node refuses every pipe */
	bool off[2];
	/* The receiver sees no IPv4 identifications, as with a socket */
	bool hide_ids;
};

struct sim *sim_open(const struct sim_conf *conf);
void sim_close(struct sim *s);

struct cq *sim_cq(struct sim *s, int side, int cqe);
struct qp *sim_qp(struct sim *s, int side, enum ibv_qp_type type, struct cq *scq,
		  struct cq *rcq, struct srq *srq, const struct ibv_qp_cap *cap);
struct qp *sim_qp_of(struct sim *s, int side, struct ibv_qp_init_attr_ex *attr);
/* Takes the QP from INIT to RTS, connected to peer (NULL for UD). */
void sim_bring(struct sim *s, struct qp *qp, const struct qp *peer,
	       const struct sim_conf *conf);
/* Two RC, UC or UD QPs with a CQ each, connected. */
struct sim_pair {
	struct qp *qp[2];
	struct cq *cq[2];
};
struct sim_pair sim_pair(struct sim *s, enum ibv_qp_type type,
			 const struct sim_conf *conf);
/* Makes an XRC initiator on node 0, whose sends complete to scq, and a target on node 1
 * in the domain xrcd, and connects them. */
void sim_xrc(struct sim *s, struct cq *scq, struct xrcd *xrcd,
	     const struct sim_conf *conf, struct qp **from, struct qp **to);
void sim_destroy(struct sim *s, struct qp *qp);
/* same_host: the process of this side ends, and its QPs with it. */
void sim_leave(struct sim *s, int side);
/* same_host: two new processes in place of those that have left, with the same devices,
 * protection domains, and memory keys of regions that were deregistered. */
void sim_enter(struct sim *s, const struct sim_conf *conf);
void sim_unpair(struct sim *s, const struct sim_pair *p);

struct mr *sim_mr(struct sim *s, int side, void *at, size_t n, int access);
struct ibv_sge sim_sge(const struct mr *mr, size_t off, size_t n);
void sim_send(struct qp *qp, struct ibv_send_wr *wr);
void sim_recv(struct qp *qp, uint64_t wr_id, struct ibv_sge *sge, int n);

/* Puts a datagram on the wire, from side to the other. */
void sim_inject(struct sim *s, int side, const struct ib_fields *f, const void *payload,
		uint32_t len);

/* Goes to the next instant at which something happens, and does all of it: input,
 * timers, output.  Returns false if nothing will ever happen again. */
bool sim_step(struct sim *s);
/* Runs until nothing more happens (returns true), or ns have passed (false). */
bool sim_run(struct sim *s, uint64_t ns);
/* Runs until cq has a completion, and polls it.  Returns false if there is none after
 * ns. */
bool sim_wait(struct sim *s, struct cq *cq, uint64_t ns, struct ibv_wc *wc);
/* The next asynchronous event of that side, or -1. */
int sim_event(struct sim *s, int side);

#endif
