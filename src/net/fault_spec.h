/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_spec.h - parses the description of faults; fault.h has the grammar, and
 * fault_key.def the keys. */
#ifndef NET_FAULT_SPEC_H
#define NET_FAULT_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/fault_event.h"

enum { FAULT_TX, FAULT_RX, FAULT_DIRS };
enum { FAULT_NTH_MAX = 16, FAULT_GROUPS_MAX = 8, FAULT_EVENTS_MAX = 256 };
/* Longest text, events included. */
enum { FAULT_TEXT_MAX = 16000 };

/* What befalls the packets of one direction. Probabilities are per million datagrams. */
struct fault_rules {
	uint32_t drop, dup, reorder, delay, corrupt, ecn;
	uint64_t delay_ns, jitter_ns; /* at most jitter_ns more or less */
	/* datagrams to drop, counted from 1; 0 ends the list */
	uint64_t nth[FAULT_NTH_MAX];
	/* The model of Gilbert and Elliott: from the good state to the bad one, and back,
	 * and what is lost in each. to_bad 0: no bursts. */
	struct {
		uint32_t to_bad, to_good, lost_bad, lost_good;
	} burst;
	uint64_t rate, queue; /* bits a second, 0: no limit; bytes */
};

/* Packets of these kinds: bits of a set. */
enum fault_op {
	FAULT_SEND = 1 << 0,
	FAULT_WRITE = 1 << 1,
	FAULT_READ = 1 << 2,
	FAULT_RESPONSE = 1 << 3, /* of a READ or an atomic */
	FAULT_ATOMIC = 1 << 4,
	FAULT_FLUSH = 1 << 5,
	FAULT_ACK = 1 << 6,
	FAULT_NAK = 1 << 7,
	FAULT_RNR = 1 << 8,
	FAULT_CNP = 1 << 9,
	FAULT_MAD = 1 << 10, /* to QP 1 */
};

/* Faults, and the packets and times that they are for. */
struct fault_group {
	struct fault_rules rules[FAULT_DIRS];
	bool has_qp, has_ip, has_lid;
	uint32_t qp;
	uint8_t ip[16]; /* or a GID */
	uint16_t lid;
	uint16_t ops;		 /* 0: all */
	uint64_t at, len, every; /* ns; len 0: without end; every 0: once */
};

struct fault_spec {
	unsigned groups; /* at least 1 */
	struct fault_group group[FAULT_GROUPS_MAX];
	unsigned events;
	struct fault_event event[FAULT_EVENTS_MAX];
	uint64_t seed;
};

/* Returns 0, or -EINVAL with the wrong part of spec and the reason in err. May read a
 * file (events=); fault_parse_closed() refuses that, for a text of another process. */
int fault_parse(struct fault_spec *out, const char *spec, char *err, size_t errlen);
int fault_parse_closed(struct fault_spec *out, const char *spec, char *err,
		       size_t errlen);

/* Returns 0, or -EINVAL if out has faults that an InfiniBand link cannot have, as it
 * keeps order and duplicates nothing: dup, reorder and a delay with a probability. */
int fault_check_ordered(const struct fault_spec *spec, const char *text, char *err,
			size_t errlen);

/* fault_parse() and fault_check_ordered(). */
int fault_parse_ordered(struct fault_spec *out, const char *spec, char *err,
			size_t errlen);

/* Does spec do anything? */
bool fault_is_any(const struct fault_spec *spec);

/* Writes spec with each events=FILE replaced by what is in the file, or with the file's
 * path from the root. Returns 0; -EINVAL with the reason in err; -E2BIG. */
enum fault_files { FAULT_FILES_IN, FAULT_FILES_ABSOLUTE };
int fault_rewrite(char *to, size_t size, const char *spec, enum fault_files how,
		  char *err, size_t errlen);

/* A row of the table of keys, for help; NULL after the last. */
struct fault_key {
	const char *name, *value, *text;
};
const struct fault_key *fault_key(unsigned i);

#endif
