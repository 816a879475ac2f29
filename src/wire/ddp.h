/* SPDX-License-Identifier: BSD-2-Clause */
/* ddp.h - DDP segments (RFC 5041, 4): tagged (placed by STag and offset) and untagged
 * (placed by queue, message number and offset). */
#ifndef WIRE_DDP_H
#define WIRE_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	DDP_VERSION = 1,
	DDP_TAGGED_LEN = 14,
	DDP_UNTAGGED_LEN = 18,
	DDP_HDR_MAX = DDP_UNTAGGED_LEN,
};

/* A segment's header as values. */
struct ddp {
	bool tagged, last;
	uint8_t version;
	uint8_t ulp;   /* RsvdULP: RDMAP's control byte */
	uint32_t stag; /* tagged */
	uint64_t to;
	uint32_t ulp_word; /* untagged: the other four bytes of RsvdULP */
	uint32_t qn, msn, mo;
};

/* Writes at most DDP_HDR_MAX bytes; returns their number. */
size_t ddp_build(uint8_t *at, const struct ddp *d);
/* Returns the header's length; -EBADMSG: the ULPDU of n bytes is shorter.  The version is
 * not checked. */
int ddp_parse(struct ddp *d, const uint8_t *at, size_t n);

#endif
