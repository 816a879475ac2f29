/* SPDX-License-Identifier: BSD-2-Clause */
/* rdmap.h - RDMAP messages (RFC 5040, 4; RFC 7306, 5 to 8): the control byte in DDP's
 * header, and the headers that some messages have before or instead of payload. */
#ifndef WIRE_RDMAP_H
#define WIRE_RDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RDMAP_VERSION = 1,
	RDMAP_QUEUES = 4,
	RDMAP_READ_LEN = 28,
	RDMAP_IMM_LEN = 8,
	RDMAP_ATOMIC_LEN = 52,
	RDMAP_ATOMIC_RESPONSE_LEN = 12,
	RDMAP_TERM_LEN = 4, /* a Terminate without headers */
	RDMAP_TERM_MAX = 4 + 2 + 18 + RDMAP_READ_LEN,
	RDMAP_BODY_MAX = RDMAP_TERM_MAX,
};

enum rdmap_opcode {
#define OP(code, name, model, queue, body, traits) RDMAP_##name = code,
#include "wire/rdmap.def"
#undef OP
};

struct rdmap_op {
	const char *name;
	bool tagged;
	/* Solicited event; with an STag to invalidate; immediate data */
	bool se, inv, imm;
	uint8_t queue;
	uint8_t body; /* length of its fixed body; 0: payload of any length */
};

/* NULL: the opcode is reserved. */
const struct rdmap_op *rdmap_op(unsigned opcode);

static inline uint8_t rdmap_control(enum rdmap_opcode op)
{
	return (uint8_t)(RDMAP_VERSION << 6 | (unsigned)op);
}

static inline unsigned rdmap_version(uint8_t control)
{
	return control >> 6;
}

static inline unsigned rdmap_opcode(uint8_t control)
{
	return control & 15;
}

/* RFC 5040, 4.4 */
struct rdmap_read {
	uint32_t sink_stag;
	uint64_t sink_to;
	uint32_t len;
	uint32_t src_stag;
	uint64_t src_to;
};

enum rdmap_atomic_op { RDMAP_FETCH_ADD = 0, RDMAP_CMP_SWAP = 2 };

/* RFC 7306, 5.2 */
struct rdmap_atomic {
	uint8_t op; /* 4 bits; enum rdmap_atomic_op */
	uint32_t id;
	uint32_t stag;
	uint64_t to;
	uint64_t data, mask; /* value to add or swap in */
	uint64_t compare, compare_mask;
};

struct rdmap_atomic_response {
	uint32_t id;
	uint64_t orig;
};

/* Each function reads or writes exactly RDMAP_*_LEN bytes. */
void rdmap_read_build(uint8_t *at, const struct rdmap_read *r);
void rdmap_read_parse(struct rdmap_read *r, const uint8_t *at);
void rdmap_atomic_build(uint8_t *at, const struct rdmap_atomic *a);
void rdmap_atomic_parse(struct rdmap_atomic *a, const uint8_t *at);
void rdmap_atomic_response_build(uint8_t *at, const struct rdmap_atomic_response *r);
void rdmap_atomic_response_parse(struct rdmap_atomic_response *r, const uint8_t *at);

/* --- Terminate (RFC 5040, 4.8) ------------------------------------------- */

enum rdmap_layer { TERM_RDMAP = 0, TERM_DDP = 1, TERM_LLP = 2 };

enum rdmap_etype {
	TERM_CATASTROPHIC = 0, /* RDMAP and DDP; its only code is 0 */
	TERM_PROTECTION = 1,   /* RDMAP */
	TERM_OPERATION = 2,
	TERM_TAGGED = 1, /* DDP */
	TERM_UNTAGGED = 2,
	TERM_MPA = 0, /* LLP */
};

/* layer << 12 | etype << 8 | code: the error in a Terminate. */
enum rdmap_error {
#define ERROR(layer, etype, code, name, text)                                            \
	TERM_##name = (layer) << 12 | (etype) << 8 | (code),
#include "wire/rdmap_error.def"
#undef ERROR
};

struct rdmap_term {
	uint16_t error; /* enum rdmap_error, or an unknown value */
	/* What the Terminate says about the segment it refuses: */
	bool has_len, has_ddp, has_rdmap;
	uint16_t segment_len; /* length of the DDP segment */
	const uint8_t *ddp;   /* the DDP segment's header */
	size_t ddp_len;
	const uint8_t *rdmap; /* the READ request's RDMAP_READ_LEN bytes */
};

/* Writes at most RDMAP_TERM_MAX bytes; returns their number. */
size_t rdmap_term_build(uint8_t *at, const struct rdmap_term *t);
/* *t points into at.  Returns 0; -EBADMSG: shorter than its flags say. */
int rdmap_term_parse(struct rdmap_term *t, const uint8_t *at, size_t n);

static inline enum rdmap_layer rdmap_layer(uint16_t error)
{
	return (enum rdmap_layer)(error >> 12);
}

static inline unsigned rdmap_etype(uint16_t error)
{
	return error >> 8 & 15;
}

const char *rdmap_error_str(uint16_t error); /* "DDP: invalid STag", ... */

#endif
