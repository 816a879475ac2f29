/* SPDX-License-Identifier: BSD-2-Clause */
/* faults.h - faults of the wire (net/fault.h) around the links of a NIC: from the start
 * (URNIC_FAULT), and as `urnic fault' asks while it runs. For wraps.c and asked.c.
 *
 * A link for which none were asked at the start has no fault link; the first `urnic
 * fault' puts one between it and the outermost link, which stays, and passes everything
 * on when the faults are cleared. While there are faults, QPs that begin use the wire
 * (peers_avoid()). All calls need the turn.
 */
#ifndef DRIVER_FAULTS_H
#define DRIVER_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct asker;
struct link;
struct nic;

enum { FAULT_LINKS = 4 };

struct faults {
	unsigned n;
	struct fault_place {
		struct link *outer, **inner; /* inner: where outer keeps its own */
		struct link *fault;	     /* NULL: none yet */
		struct link *capture;	     /* of captures.c; NULL: none yet */
		bool ordered;
	} at[FAULT_LINKS];
	char *text; /* the faults that act; NULL: none */
};

/* Puts faults around *link, which may be a capture. Returns 0, or -errno after logging
 * why. */
int faults_put(struct nic *nic, const char *spec, struct link **link, bool ordered,
	       bool captured);

/* Are some of these of the wire? */
bool faults_need_wire(const char *spec);

/* Makes known that outer, which is complete, keeps its inner link in *inner. spec: the
 * faults that *inner was given by faults_put(), or "". captured: it, or what the faults
 * are around, is a capture. */
void faults_know(struct nic *nic, struct link *outer, struct link **inner, bool ordered,
		 const char *spec, bool captured);

/* Answers ASK_FAULT: text of "show", "clear", or "set " and the faults. Returns 0: it has
 * answered, or -errno, which is the answer. */
int faults_ask(struct nic *nic, const struct asker *by, const uint8_t *text, size_t len,
	       uint64_t now);

/* Nobody asks any more. */
void faults_close(struct nic *nic);

#endif
