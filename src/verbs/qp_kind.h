/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_kind.h - what is not the same for all types of queue pairs. A QP keeps the kind of
 * its type. The functions are NULL for a type that has nothing of its own to do. */
#ifndef VERBS_QP_KIND_H
#define VERBS_QP_KIND_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

struct qp;

enum { QP_HAS_PD = 1, QP_SENDS = 2, QP_RECEIVES = 4, QP_HAS_ALL = 7 };

struct qp_kind {
	const char *name;
	bool reliable;	/* acknowledged */
	bool connected; /* to one peer */
	unsigned has;	/* of the objects that ibv_create_qp() names */
	uint32_t attrs; /* IBV_QP_INIT_ATTR_... beside those of all types */
	unsigned flags; /* IBV_QP_CREATE_... beside those of all types */
	/* The last step of a draft (verbs/draft.h): whom it goes to. */
	int (*address)(struct qp *qp, const struct ibv_send_wr *wr);
	/* A QP is made: nobody knows it yet. */
	void (*join)(struct qp *qp, const struct ibv_qp_init_attr_ex *a);
	/* Counts the QP in the objects that it uses (n is 1), or no longer (n is
	 * (unsigned)-1), in place of its CQs and SRQ. */
	void (*use)(struct qp *qp, unsigned n);
	/* The program gives up its handle. True: the QP lives on for others. */
	bool (*leave)(struct qp *qp);
	/* Neither the engine nor a packet will find the QP. Turn held. */
	void (*ended)(struct qp *qp);
};

/* In the files whose functions they have. */
extern const struct qp_kind qp_kind_ud, qp_kind_xrc_send, qp_kind_xrc_recv;

/* A number that is no type has a kind without a name ("?"). */
const struct qp_kind *qp_kind_of(enum ibv_qp_type type);

/* Returns attr with only the fields that comp_mask names and that the QP type uses;
 * the others are not read. */
struct ibv_qp_init_attr_ex qp_proper_attr(const struct ibv_qp_init_attr_ex *attr);
/* Names what attr lacks; NULL: nothing. */
const char *qp_attr_lacks(const struct ibv_qp_init_attr_ex *attr);

#endif
