/* SPDX-License-Identifier: BSD-2-Clause */
/* rows.h - what most rows have in common: what both ends see. */
#ifndef TESTS_PAIRS_ROWS_H
#define TESTS_PAIRS_ROWS_H

#include "pairs.h"
#include "sys/newer.h"

#define WRITE	  .op = IBV_WR_RDMA_WRITE
#define WRITE_IMM .op = IBV_WR_RDMA_WRITE_WITH_IMM
#define READ	  .op = IBV_WR_RDMA_READ
#define SEND	  .op = IBV_WR_SEND
#define SEND_IMM  .op = IBV_WR_SEND_WITH_IMM
#define SEND_INV  .op = IBV_WR_SEND_WITH_INV
#define CMP_SWAP  .op = IBV_WR_ATOMIC_CMP_AND_SWP
#define FETCH_ADD .op = IBV_WR_ATOMIC_FETCH_AND_ADD
#define ATOMIC_WR .op = IBV_WR_ATOMIC_WRITE
#define FLUSH	  .op = IBV_WR_FLUSH
#define UC	  .type = IBV_QPT_UC
#define UD	  .type = IBV_QPT_UD

/* One good SEND goes ahead, and two follow. */
#define A_WELL	"OK*4, -, RTS"
#define WRITTEN .a = A_WELL, .b = "-, OK*3, RTS changed"
#define NOTHING .a = A_WELL, .b = "-, OK*3, RTS"
#define FETCHED .a = A_WELL " changed", .b = "-, OK*3, RTS"
#define SWAPPED .a = A_WELL " changed", .b = "-, OK*3, RTS changed"
#define SENT	.a = A_WELL, .b = "-, OK*4, RTS"
/* The request is refused with a NAK, and takes no receive. */
#define A_NAK(status)	 "OK " status " FLUSH*2, FLUSH*2, ERR"
#define B_REFUSED(event) "-, OK FLUSH*3, ERR " event
#define NO_ACCESS	 .a = A_NAK("REM_ACCESS"), .b = B_REFUSED("QP_ACCESS_ERR")
#define INVALID		 .a = A_NAK("REM_INV_REQ"), .b = B_REFUSED("QP_REQ_ERR")
/* The request takes a receive, which completes with an error. */
#define RECV_FAILS(nak, status) .a = A_NAK(nak), .b = "-, OK " status " FLUSH*2, ERR"
/* A itself is at fault: B sees only the request that went ahead. */
#define A_FAILS(status)	 .a = A_NAK(status), .b = "-, OK, RTS"
#define SQ_FAILS(status) .a = "OK " status " FLUSH*2, -, SQE", .b = "-, OK, RTS"

/* The post itself is refused, with the requests behind in the list. */
#define UNSUPPORTED .a = "EINVAL OK, -, RTS", .b = "-, OK, RTS"

/* iWARP: a request completes when it is sent; a Terminate ends both QPs. */
#define IW_A_SENT   "OK*2 FLUSH*2, FLUSH*2, ERR QP_FATAL"
#define IW_B(event) "-, OK FLUSH*3, ERR " event
#define IW_NO_WRITE(section, why)                                                        \
	.rfc = section, .term = why, .ia = IW_A_SENT, .ib = IW_B("QP_ACCESS_ERR")
#define IW_NO_READ(why)                                                                  \
	.rfc = "5040, 7", .term = why, .ia = A_NAK("REM_ACCESS"),                        \
	.ib = IW_B("QP_ACCESS_ERR")
#define IW_INVALID(section, why)                                                         \
	.rfc = section, .term = why, .ia = A_NAK("REM_INV_REQ"), .ib = IW_B("QP_REQ_ERR")
#define IW_WELL(section, well_a, well_b) .rfc = section, .ia = well_a, .ib = well_b
#define IW_A_FAILS(status)                                                               \
	.rfc = "5040, 7", .term = LOCAL_ERROR, .ia = A_NAK(status),                      \
	.ib = "-, OK FLUSH*3, ERR QP_FATAL"
#define IW_RECV_FAILS(section, why, status)                                              \
	.rfc = section, .term = why, .ia = IW_A_SENT,                                    \
	.ib = "-, OK " status " FLUSH*2, ERR"
#define LOCAL_ERROR "RDMAP: local catastrophic error"

/* attributes: rows_state.c */
void rnr_0(struct ibv_qp_attr *a, bool is_b);
void rnr_2(struct ibv_qp_attr *a, bool is_b);
void rnr_7(struct ibv_qp_attr *a, bool is_b);
void short_timeout(struct ibv_qp_attr *a, bool is_b);
void half_a_second(struct ibv_qp_attr *a, bool is_b);
void one_read_in(struct ibv_qp_attr *a, bool is_b);
void no_read_in(struct ibv_qp_attr *a, bool is_b);
void no_read_out(struct ibv_qp_attr *a, bool is_b);

extern const struct row remote_rows[], bounds_rows[], limit_rows[], local_rows[],
	recv_rows[], mw_rows[], bind_rows[], inv_rows[], target_rows[], silent_rows[],
	pkey_rows[], srq_rows[], xrc_rows[];

#endif
