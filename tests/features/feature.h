/* SPDX-License-Identifier: BSD-2-Clause */
/* feature.h - tests of optional features: that a device behaves as its capabilities say,
 * and what both ends of a feature see. */
#ifndef TESTS_FEATURE_H
#define TESTS_FEATURE_H

#include "../errors/errors.h"
#include "sys/newer.h"

/* Runs the following statement for the side, if it is in this process. */
#define ON_A(s) for (struct side *s = plays(false) ? side(false) : NULL; s; s = NULL)
#define ON_B(s) for (struct side *s = plays(true) ? side(true) : NULL; s; s = NULL)

/* The calls of x that older headers lack. */
static inline struct newer_qp_ex newer(const struct ibv_qp_ex *x)
{
	struct newer_qp_ex all;

	memcpy(&all, x, sizeof(all));
	return all;
}

struct feature {
	const char *name;
	void (*run)(void);
	bool verbs_connect; /* uses what iWARP lacks: raw packet QPs, FLUSH, UD */
};
extern const struct feature caps_rows[], memory_rows[], queue_rows_ex[], spread_rows[],
	flush_rows[], built_rows[], places_rows[], claims_rows[];

/* features.c: */
bool is_iwarp(void);
void left_out(const char *why);

/* ends.c: both call these */
/* Make and connect the QPs, and exchange infos. */
void up(void);
void up_with(struct ibv_qp *(*make)(struct side *s));
/* For make(): makes an RC QP; ops: a mask of IBV_QP_EX_WITH_...  Returns NULL with errno
 * set on failure. */
struct ibv_qp *end_qp(struct side *s, struct ibv_pd *pd, struct ibv_cq *rcq,
		      uint64_t ops);
void down(void);
/* Rights that QPs grant in addition to ALL_ACCESS. */
extern unsigned more_rights;
void again(void); /* after a failure */

/* Posts one request at A; returns the status of its completion. */
enum ibv_wc_status one(struct side *s, enum ibv_wr_opcode op, struct ibv_sge sge,
		       uint64_t addr, uint32_t rkey);
/* A WRITEs 72 bytes to addr at B, does two FetchAdds on the last 8 of them, and READs the
 * first 64 back; all results are checked. */
void exchange(struct side *s, uint64_t addr, uint32_t rkey);
void written_is_right(const void *at);

/* A READs 64 bytes; returns the status. */
enum ibv_wc_status read_64(struct side *s, uint64_t addr, uint32_t rkey);

#endif
