/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - a subnet for tests of umad: two adapters, nodes 1 and 2 with LIDs 2 and 3, at
 * one switch, configured as by a subnet manager. */
#ifndef FABRIC_UMAD_FIX_H
#define FABRIC_UMAD_FIX_H

#include "fabric/fix.h"
#include "fabric/umad/umad_own.h"
#include "sys/rand.h"

struct ufix {
	struct fix x; /* the subnet */
	struct fabric *f;
	struct umad *u;
	uint64_t now;
	unsigned told; /* how often a file became readable */
	unsigned sent; /* packets that reached an adapter */
	bool deaf;     /* packets that reach an adapter are lost there */
	uint32_t loss; /* of a million packets, so many are lost there */
	struct prng rand;
};

enum { UFIX_A = 1, UFIX_B = 2, UFIX_LID_A = 2, UFIX_LID_B = 3 };

void ufix_start(struct ufix *x);
void ufix_end(struct ufix *x);
void ufix_run(struct ufix *x, uint64_t ns); /* moves the clock on, and runs the subnet */

struct ufix_msg {
	struct umad_hdr hdr;
	uint8_t mad[MAD_SIZE];
};

/* Makes a message to lid. */
struct ufix_msg ufix_msg(uint32_t agent, uint16_t lid, uint8_t class, uint8_t method,
			 uint16_t attr, uint64_t tid);

/* Writes m and runs the subnet; returns umad_write()'s result. */
int ufix_write(struct ufix *x, struct umad_file *file, const struct ufix_msg *m);

/* Takes the file's oldest message; returns its length, 0: there is none. */
size_t ufix_read(struct umad_file *file, struct ufix_msg *m);

#endif
