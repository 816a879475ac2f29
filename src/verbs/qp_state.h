/* SPDX-License-Identifier: BSD-2-Clause */
/* qp_state.h - which modify_qp calls are legal, and which attributes query_qp reports. */
#ifndef VERBS_QP_STATE_H
#define VERBS_QP_STATE_H

#include <infiniband/verbs.h>

/* The state diagram of a kind of device. iWARP's states are those of RFC 5040's verbs:
 * QPs have no address, and only the connection moves them to RTR and RTS. */
struct qp_arrows;
extern const struct qp_arrows qp_arrows_ib, qp_arrows_iwarp;

/* May a QP of type move from one state to another with the attributes in mask
 * (enum ibv_qp_attr_mask, IBV_QP_STATE aside)?  Returns 0, or -EINVAL: no such
 * transition, an attribute missing, or one that it does not take. */
int qp_check_modify(const struct qp_arrows *arrows, enum ibv_qp_type type,
		    enum ibv_qp_state from, enum ibv_qp_state to, int mask);

/* Writes into text why qp_check_modify() says no, with the names of attributes and states
 * as verbs has them. Returns text. */
enum { QP_WHY_LEN = 800 };
const char *qp_why_not(const struct qp_arrows *arrows, enum ibv_qp_type type,
		       enum ibv_qp_state from, enum ibv_qp_state to, int mask,
		       char text[QP_WHY_LEN]);

/* What verbs calls a state, without IBV_QPS_. */
const char *qp_state_name(enum ibv_qp_state state);

/* Returns the attributes that ibv_query_qp reports for a QP of type in state, as a
 * mask; the others read as zero. */
int qp_query_mask(enum ibv_qp_type type, enum ibv_qp_state state);

#endif
