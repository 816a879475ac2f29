/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire/rdmap.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "wire/be.h"
#include "wire/ddp.h"

enum { SE = 1, INV = 2, IMM = 4, TAGGED = 1, UNTAGGED = 0 };

/* clang-format off */
static const struct rdmap_op ops[16] = {
#define OP(code, label, model, q, len, traits) [code] = { \
	.name = #label, .tagged = (model), .queue = (q), .body = (len), \
	.se = (traits) & SE, .inv = ((traits) & INV) != 0, \
	.imm = ((traits) & IMM) != 0 },
#include "wire/rdmap.def"
#undef OP
};
/* clang-format on */

const struct rdmap_op *rdmap_op(unsigned opcode)
{
	if (opcode >= sizeof(ops) / sizeof(ops[0]) || !ops[opcode].name)
		return NULL;
	return &ops[opcode];
}

/* --- READ and atomics ---------------------------------------------------- */

struct read {
	be32_t sink_stag;
	be64_t sink_to;
	be32_t len, src_stag;
	be64_t src_to;
};

struct atomic {
	be32_t op; /* 28 reserved bits, 4 of operation */
	be32_t id, stag;
	be64_t to, data, mask, compare, compare_mask;
};

struct atomic_response {
	be32_t id;
	be64_t orig;
};

static_assert(sizeof(struct read) == RDMAP_READ_LEN, "RFC 5040");
static_assert(sizeof(struct atomic) == RDMAP_ATOMIC_LEN, "RFC 7306");
static_assert(sizeof(struct atomic_response) == RDMAP_ATOMIC_RESPONSE_LEN, "RFC 7306");

void rdmap_read_build(uint8_t *at, const struct rdmap_read *r)
{
	struct read w = { be32(r->sink_stag), be64(r->sink_to), be32(r->len),
			  be32(r->src_stag), be64(r->src_to) };

	memcpy(at, &w, sizeof(w));
}

void rdmap_read_parse(struct rdmap_read *r, const uint8_t *at)
{
	struct read w;

	memcpy(&w, at, sizeof(w));
	*r = (struct rdmap_read){
		get_be32(w.sink_stag), get_be64(w.sink_to), get_be32(w.len),
		get_be32(w.src_stag),  get_be64(w.src_to),
	};
}

void rdmap_atomic_build(uint8_t *at, const struct rdmap_atomic *a)
{
	struct atomic w = { be32(a->op & 15), be32(a->id),	    be32(a->stag),
			    be64(a->to),      be64(a->data),	    be64(a->mask),
			    be64(a->compare), be64(a->compare_mask) };

	memcpy(at, &w, sizeof(w));
}

void rdmap_atomic_parse(struct rdmap_atomic *a, const uint8_t *at)
{
	struct atomic w;

	memcpy(&w, at, sizeof(w));
	*a = (struct rdmap_atomic){
		(uint8_t)(get_be32(w.op) & 15),
		get_be32(w.id),
		get_be32(w.stag),
		get_be64(w.to),
		get_be64(w.data),
		get_be64(w.mask),
		get_be64(w.compare),
		get_be64(w.compare_mask),
	};
}

void rdmap_atomic_response_build(uint8_t *at, const struct rdmap_atomic_response *r)
{
	struct atomic_response w = { be32(r->id), be64(r->orig) };

	memcpy(at, &w, sizeof(w));
}

void rdmap_atomic_response_parse(struct rdmap_atomic_response *r, const uint8_t *at)
{
	struct atomic_response w;

	memcpy(&w, at, sizeof(w));
	*r = (struct rdmap_atomic_response){ get_be32(w.id), get_be64(w.orig) };
}

/* --- Terminate ----------------------------------------------------------- */

enum { HAS_LEN = 0x80, HAS_DDP = 0x40, HAS_RDMAP = 0x20 }; /* HdrCt: M, D, R bits */

struct term {
	be16_t error;
	uint8_t hdrct, reserved;
};

static_assert(sizeof(struct term) == RDMAP_TERM_LEN, "RFC 5040");

size_t rdmap_term_build(uint8_t *at, const struct rdmap_term *t)
{
	struct term w = {
		.error = be16(t->error),
		.hdrct = (uint8_t)((t->has_len ? HAS_LEN : 0) |
				   (t->has_ddp ? HAS_DDP : 0) |
				   (t->has_rdmap ? HAS_RDMAP : 0)),
	};
	be16_t len = be16(t->segment_len);
	size_t n = sizeof(w);

	assert(!t->has_ddp || t->ddp_len <= DDP_HDR_MAX);
	memcpy(at, &w, sizeof(w));
	if (t->has_len) {
		memcpy(at + n, &len, sizeof(len));
		n += sizeof(len);
	}
	if (t->has_ddp) {
		memcpy(at + n, t->ddp, t->ddp_len);
		n += t->ddp_len;
	}
	if (t->has_rdmap) {
		memcpy(at + n, t->rdmap, RDMAP_READ_LEN);
		n += RDMAP_READ_LEN;
	}
	return n;
}

int rdmap_term_parse(struct rdmap_term *t, const uint8_t *at, size_t n)
{
	struct term w;
	struct ddp d;
	be16_t len;
	int rc;

	if (n < sizeof(w))
		return -EBADMSG;
	memcpy(&w, at, sizeof(w));
	*t = (struct rdmap_term){
		.error = get_be16(w.error),
		.has_len = w.hdrct & HAS_LEN,
		.has_ddp = w.hdrct & HAS_DDP,
		.has_rdmap = w.hdrct & HAS_RDMAP,
	};
	at += sizeof(w);
	n -= sizeof(w);
	if (t->has_len) {
		if (n < sizeof(len))
			return -EBADMSG;
		memcpy(&len, at, sizeof(len));
		t->segment_len = get_be16(len);
		at += sizeof(len);
		n -= sizeof(len);
	}
	if (t->has_ddp) {
		rc = ddp_parse(&d, at, n);
		if (rc < 0)
			return rc;
		t->ddp = at;
		t->ddp_len = (size_t)rc;
		at += rc;
		n -= (size_t)rc;
	}
	if (t->has_rdmap && n < RDMAP_READ_LEN)
		return -EBADMSG;
	t->rdmap = t->has_rdmap ? at : NULL;
	return 0;
}

static const struct {
	uint16_t error;
	const char *text;
} errors[] = {
#define ERROR(layer, etype, code, name, text) { TERM_##name, text },
#include "wire/rdmap_error.def"
#undef ERROR
};

const char *rdmap_error_str(uint16_t error)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].error == error)
			return errors[i].text;
	return "unknown";
}
