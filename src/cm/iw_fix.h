/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_fix.h - for tests of iWARP's connections: two NICs, real TCP over loopback in
 * virtual time, programs that record their events, and peers that a test plays by
 * hand. */
#ifndef CM_IW_FIX_H
#define CM_IW_FIX_H

#include "cm/iw_int.h"
#include "iwarp/sim.h"
#include "net/dgram.h"

enum { FX_NOTES = 32, FX_SPACE = 0x0106 };

struct iw_told {
	enum cm_event_type type;
	int status;
	struct cm_conn *conn;
	struct cm_target from;
	struct cm_param peer;
	char data[64];
};

/* A program, which owns a connection as an rdma_cm id would. */
struct iw_prog {
	struct cm_owner owner;
	unsigned n;
	struct iw_told told[FX_NOTES];
};

/* NIC 0 connects, NIC 1 listens. */
extern struct iw_fix {
	struct sim *s;
	struct sim_pair p;
	struct cm *cm[2];
	struct cm_service service;
	uint16_t src_port; /* source port to connect from; 0: any */
	struct cm_listener *l;
	struct iw_prog listener, prog[2];
	struct cm_conn *conn[2];
} fx;

extern const uint8_t fx_here[16];

int fx_begin(void **state);
int fx_end(void **state); /* fails if anything is left */
/* The name makes scripts/check-spec-map count f as a test that is run. */
#define cmocka_unit_test_fx(f) cmocka_unit_test_setup_teardown(f, fx_begin, fx_end)

void fx_run(uint64_t ns);
void fx_wait_kernel(void); /* a step of a loop that waits for what the kernel does */
void fx_wait(const struct iw_prog *p, unsigned n); /* until p has n events */
/* Returns the i-th event of p, checking its type and status. */
const struct iw_told *fx_told(const struct iw_prog *p, unsigned i,
			      enum cm_event_type type, int status);

void fx_listen(int backlog);
struct cm_param fx_param(int side, const char *data);
void fx_ask(uint16_t port, const char *data);
void fx_take(unsigned i);	 /* prog[1] reads request i */
int fx_accept(const char *data); /* 0 or -errno */
void fx_connect(void);		 /* fx_ask() to fx_accept(), both ends */

/* --- a peer that the test plays: blocking sockets ------------------------ */

int fx_raw_connect(void); /* to the listener */
int fx_raw_listen(uint16_t *port);
/* Takes the connection and its request; returns the revision that it asks for. */
int fx_raw_accept(int l, int *fd);
void fx_raw_hello(int fd, bool reply, uint8_t flags, uint8_t revision);
bool fx_raw_ended(int fd); /* has the other end hung up? */
void fx_raw_wait_end(int fd);
void fx_raw_wait_rejected(int fd); /* ... until the other end rejects and hangs up */
uint16_t fx_raw_port(int fd);	   /* the socket's own port */

#endif
