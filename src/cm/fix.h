/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for tests: two hosts, their communication managers, a network that
 * can lose, repeat and delay MADs, and programs that note what they are told;
 * all in virtual time. */
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
#include "core/core.h"
#include "link/batch.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"
#include "wire/icrc.h"

/* A MAD as it leaves: BTH, DETH, MAD, ICRC. */
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

/* What an id would be. */
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

/* What a host has refused. */
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
	/* Which one of those sent is lost, repeated: from 0; -1: none. */
	int lose, repeat;
	bool cut;      /* all is lost */
	bool one_host; /* both sides are processes of it */
	/* No process runs on that side's host, or (not 0) on the one that has this
	 * last byte in its address: its kernel refuses what comes. */
	bool dead[2];
	uint8_t dead_host;
	struct refusal refusal[2][FIX_REFUSALS]; /* of what that side has sent */
	unsigned refusals[2];
	unsigned sent;
	uint8_t last[2][GSI_PACKET]; /* of a side's */
	unsigned sent_type[CM_TYPES];
	unsigned n;
	struct flight flight[FIX_FLIGHT];
};

struct fix *fix_open(uint64_t seed);
/* All connections are over and closed: nothing may be left. */
void fix_close(struct fix *f);
void fix_run(struct fix *f, uint64_t ns);
void fix_ip(int side, uint8_t ip[16]);
/* A link that carries nothing: what would go by it is taken out of the batch. */
extern struct link fix_wire;
/* What core's QP1 has to send goes into the batch, as the link would get it. */
void fix_output(struct core *core, struct batch *b, uint64_t now);
/* Of an address that ends with `from`, a MAD comes to that side's QP1. */
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
/* The request that listener l noted as its n-th becomes p's. */
void fix_own(struct prog *p, const struct prog *l, unsigned n);
void fix_accept(struct prog *p, uint32_t qpn, const char *private);
int fix_established(struct prog *p);
int fix_disconnect(struct prog *p);
/* The n-th thing that p was told. */
const struct note *fix_told(const struct prog *p, unsigned n, enum cm_event_type type,
			    int status);

/* A connection of side 0's a to side 1's b, by way of listener l. */
struct pair {
	struct prog *l, *a, *b;
	struct cm_listener *listener;
};
struct pair pair_open(struct fix *f);
struct pair pair_accepted(struct fix *f);	  /* the REP is about to go out */
void pair_connect(struct fix *f, struct pair *p); /* established, both */
void pair_close(struct pair *p);

#endif
