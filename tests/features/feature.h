/* SPDX-License-Identifier: BSD-2-Clause */
/* feature.h - what a device may have or not: that it is as its capabilities say, and
 * what two ends that use it see. */
#ifndef TESTS_FEATURE_H
#define TESTS_FEATURE_H

#include "../errors/errors.h"

/* The side, if it is in this process. */
#define ON_A(s) for (struct side *s = plays(false) ? side(false) : NULL; s; s = NULL)
#define ON_B(s) for (struct side *s = plays(true) ? side(true) : NULL; s; s = NULL)

/* FLUSH, which headers have from rdma-core 45 on. */
enum {
	QP_WITH_FLUSH = 1 << 11,      /* IBV_QP_EX_WITH_FLUSH */
	ACCESS_FLUSH_GLOBAL = 1 << 8, /* IBV_ACCESS_FLUSH_... */
	ACCESS_FLUSH_PERSISTENT = 1 << 9,
	FLUSH_GLOBAL = 1 << 0, /* IBV_FLUSH_... */
	FLUSH_PERSISTENT = 1 << 1,
};

struct feature {
	const char *name;
	void (*run)(void);
	bool verbs_connect; /* of what iWARP has not: raw packet QPs, FLUSH, UD */
};
extern const struct feature caps_rows[], memory_rows[], queue_rows_ex[], spread_rows[],
	flush_rows[], built_rows[], claims_rows[];

/* features.c: */
bool is_iwarp(void);
void left_out(const char *why);

/* ends.c: both call these */
/* The QPs are connected, and infos exchanged. */
void up(void);
void up_with(struct ibv_qp *(*make)(struct side *s));
/* What make() calls: an RC QP; ops is of IBV_QP_EX_WITH_...  NULL and errno. */
struct ibv_qp *end_qp(struct side *s, struct ibv_pd *pd, struct ibv_cq *rcq,
		      uint64_t ops);
void down(void);
/* Beside ALL_ACCESS: the rights that QPs grant. */
extern unsigned more_rights;
void again(void); /* after a failure */

/* A's: the status of one request of length bytes, by its completion. */
enum ibv_wc_status one(struct side *s, enum ibv_wr_opcode op, struct ibv_sge sge,
		       uint64_t addr, uint32_t rkey);
/* A exchanges 64 bytes with what B's info names: WRITE, READ and, if it is to, FetchAdd.
 * addr is of 64 bytes, then 8. */
void exchange(struct side *s, uint64_t addr, uint32_t rkey);
void written_is_right(const void *at);

/* A's READ of 64 bytes. */
enum ibv_wc_status read_64(struct side *s, uint64_t addr, uint32_t rkey);

#endif
