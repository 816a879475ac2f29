/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for tests: two hosts with a communication manager each, a network that can
 * lose, repeat and delay MADs, and programs that record their events; all in virtual
 * time. */
#ifndef CM_FIX_H
#define CM_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm/cm_int.h"
#include "verbs/core.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"
#include "wire/icrc.h"

/* The parts of a MAD's packet: BTH, DETH, MAD, ICRC. */
enum {
	GSI_HDRS = sizeof(struct bth) + sizeof(struct deth),
	GSI_PACKET = GSI_HDRS + MAD_LEN + ICRC_LEN
};

enum {
	FIX_FLIGHT = 512,
	FIX_EVENTS = 64,
	FIX_MS = 1000000,
	FIX_PORT = 7471,
	FIX_SPACE = 0x0106,
	FIX_UDP = 0x0111,
	FIX_HOLD = 100,
	FIX_SLOT = 7,
	FIX_REFUSALS = 64
};

static const uint64_t FIX_S = 1000000000;

struct note {
	enum cm_event_type type;
	int status;
	struct cm_conn *conn;
	struct cm_target from;
	struct cm_param peer;
	uint8_t private[CM_PRIVATE_MAX];
};

/* A program, which owns a connection as an rdma_cm id would. */
struct prog {
	struct cm_owner owner;
	struct fix *f;
	int side;
	bool deaf; /* has no memory for events */
	struct cm_conn *conn;
	unsigned n;
	struct note note[FIX_EVENTS];
};

struct flight {
	uint64_t at;
	int to;
	uint8_t packet[GSI_PACKET], src[16], dst[16];
};

/* A packet that a host has refused. */
struct refusal {
	uint8_t ip[16], quote[GSI_PACKET];
};

struct fix {
	struct core core[2];
	struct cm *cm[2];
	uint64_t now;
	struct prng rng;
	uint32_t loss, again;	/* parts in a million */
	uint64_t delay, jitter; /* ns */
	uint64_t hold;		/* how long a step of a pair may take */
	/* Number of the packet that is lost, or repeated, counted from 0; -1: none. */
	int lose, repeat;
	bool cut;	/* every packet is lost */
	bool one_host;	/* both sides are processes of one host */
	uint8_t mtu[2]; /* enum ibv_mtu of that side's port; 0: as large as can be */
	/* No process runs on that side's host; dead_host: nor, unless 0, on the host
	 * whose address ends with this byte. The kernel there refuses every packet. */
	bool dead[2];
	uint8_t dead_host;
	struct refusal refusal[2][FIX_REFUSALS]; /* refused packets, by sender */
	unsigned refusals[2];
	unsigned sent;
	uint8_t last[2][GSI_PACKET]; /* the last packet of each side */
	unsigned sent_type[CM_TYPES];
	unsigned n;
	struct flight flight[FIX_FLIGHT];
};

struct fix *fix_open(uint64_t seed);
/* All connections must be over and closed; fails if anything is left. */
void fix_close(struct fix *f);
void fix_run(struct fix *f, uint64_t ns);
void fix_ip(int side, uint8_t ip[16]);
/* The link of all hosts; fix_run() delivers what the two of a struct fix send by it. */
extern struct link fix_wire;
/* Lets another cm's QP1 send what waits; returns how many MADs went out by the link. */
unsigned fix_output(struct cm *cm);
/* Gives a MAD, from an address that ends with `from`, to that side's QP1. */
void fix_mad(struct fix *f, int to, uint8_t from, const struct cm_msg *m);
void fix_raw_mad(struct core *core, const uint8_t src[16], const uint8_t dst[16],
		 const uint8_t mad[MAD_LEN], uint64_t now);

static inline struct cm *fix_cm(struct fix *f, int side)
{
	return f->cm[side];
}

struct prog *prog_new(struct fix *f, int side);
void prog_free(struct prog *p); /* closes its connection, too */
struct cm_listener *fix_listen(struct prog *p, uint16_t space, int backlog);
void fix_target(struct cm_target *to, int side, uint16_t space);
void fix_connect(struct prog *p, uint16_t space, uint32_t qpn, const char *private);
/* As fix_connect(), for a QP of another type than RC. */
void fix_connect_as(struct prog *p, enum cm_service_type type, uint16_t space,
		    uint32_t qpn, const char *private);
/* p reads the n-th request that listener l recorded. */
void fix_take(struct prog *p, const struct prog *l, unsigned n);
void fix_accept(struct prog *p, uint32_t qpn, const char *private);
int fix_established(struct prog *p);
int fix_disconnect(struct prog *p);
/* Returns the n-th event of p, checking its type and status. */
const struct note *fix_told(const struct prog *p, unsigned n, enum cm_event_type type,
			    int status);

/* A connection from a (side 0) to b (side 1), which came by listener l. */
struct pair {
	struct prog *l, *a, *b;
	struct cm_listener *listener;
};
struct pair pair_open(struct fix *f);
struct pair pair_accepted(struct fix *f);	  /* the REP is about to go out */
void pair_connect(struct fix *f, struct pair *p); /* both ends established */
void pair_close(struct pair *p);

#endif
