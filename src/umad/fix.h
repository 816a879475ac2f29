/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - a managed subnet of two adapters for tests of umad: node 1 and node 2,
 * LIDs 2 and 3, behind a switch. */
#ifndef UMAD_FIX_H
#define UMAD_FIX_H

#include "fabric/fix.h"
#include "sys/rand.h"
#include "umad/umad_own.h"

struct ufix {
	struct fix x; /* the subnet, whose packets umad gets */
	struct fabric *f;
	struct umad *u;
	uint64_t now;
	unsigned told; /* times that a file became readable */
	unsigned sent; /* packets that reached an adapter */
	bool deaf;     /* they are lost there */
	uint32_t loss; /* ... or some of them: in a million */
	struct prng rand;
};

enum { UFIX_A = 1, UFIX_B = 2, UFIX_LID_A = 2, UFIX_LID_B = 3 };

void ufix_start(struct ufix *x);
void ufix_end(struct ufix *x);
void ufix_run(struct ufix *x, uint64_t ns); /* later */

struct ufix_msg {
	struct umad_hdr hdr;
	uint8_t mad[MAD_SIZE];
};

/* A message to lid, of that class, method and attribute. */
struct ufix_msg ufix_msg(uint32_t agent, uint16_t lid, uint8_t class, uint8_t method,
			 uint16_t attr, uint64_t tid);

/* Writes it, runs the subnet; what umad_write() says. */
int ufix_write(struct ufix *x, struct umad_file *file, const struct ufix_msg *m);

/* The oldest message of the file, taken; its length, 0: there is none. */
size_t ufix_read(struct umad_file *file, struct ufix_msg *m);

#endif
