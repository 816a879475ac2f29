/* SPDX-License-Identifier: BSD-2-Clause */
/* rows_state.c - states of both QPs, services that keep silent, SRQs. */
#include "rows.h"

/* --- attributes ---------------------------------------------------------- */

static void rnr(struct ibv_qp_attr *a, uint8_t n)
{
	a->min_rnr_timer = 20; /* 10.24 ms */
	a->rnr_retry = n;
}

void rnr_0(struct ibv_qp_attr *a, bool is_b)
{
	(void)is_b;
	rnr(a, 0);
}

void rnr_2(struct ibv_qp_attr *a, bool is_b)
{
	(void)is_b;
	rnr(a, 2);
}

void rnr_7(struct ibv_qp_attr *a, bool is_b)
{
	(void)is_b;
	rnr(a, 7);
}

void short_timeout(struct ibv_qp_attr *a, bool is_b)
{
	(void)is_b;
	a->timeout = 12; /* 16.8 ms */
	a->retry_cnt = 2;
}

/* For a peer that answers one request and not the next: it must get a processor before
 * the other end gives up on both. */
void half_a_second(struct ibv_qp_attr *a, bool is_b)
{
	(void)is_b;
	a->timeout = 14; /* 67 ms */
	a->retry_cnt = 7;
}

void one_read_in(struct ibv_qp_attr *a, bool is_b)
{
	a->max_rd_atomic = 8;
	a->max_dest_rd_atomic = is_b ? 1 : 8;
}

void no_read_in(struct ibv_qp_attr *a, bool is_b)
{
	a->max_dest_rd_atomic = is_b ? 0 : 8;
}

void no_read_out(struct ibv_qp_attr *a, bool is_b)
{
	a->max_rd_atomic = is_b ? 8 : 0;
}

/* clang-format off */

/* --- states -------------------------------------------------------------- */

#define STATE "9.6, 10.3.1"
#define NO_ANSWER .attr = short_timeout, .a = "RETRY_EXC FLUSH*2, FLUSH*2, ERR"
const struct row target_rows[] = {
	{ "peer_rtr", "SEND; B is in RTR", "10.3.1, 11.6.3.1", SEND, .peer = PEER_RTR,
	  .a = A_WELL, .b = "-, OK*4, RTR COMM_EST" },
	{ "peer_rtr_write", "WRITE; B is in RTR", "10.3.1, 11.6.3.1", WRITE, .peer = PEER_RTR,
	  .a = A_WELL, .b = "-, OK*3, RTR COMM_EST changed" },
	{ "peer_rtr_key", "WRITE, nobody has the R_Key; B is in RTR", "9.9.3, 10.3.1", WRITE, .peer = PEER_RTR,
	  .rkey = KEY_UNKNOWN, .a = A_NAK("REM_ACCESS"), .b = "-, OK FLUSH*3, ERR COMM_EST QP_ACCESS_ERR" },
	{ "peer_rtr_read", "READ; B is in RTR", "10.3.1, 11.6.3.1", READ, .peer = PEER_RTR,
	  .a = A_WELL " changed", .b = "-, OK*3, RTR COMM_EST" },
	{ "peer_rtr_atomic", "FetchAdd; B is in RTR", "10.3.1, 11.6.3.1", FETCH_ADD, .peer = PEER_RTR,
	  .a = A_WELL " changed", .b = "-, OK*3, RTR COMM_EST changed" },
	{ "peer_sqd", "SEND; B is in SQD", "10.3.1", SEND, .peer = PEER_SQD, .a = A_WELL, .b = "-, OK*4, SQD" },
	{ "peer_sqd_write", "WRITE; B is in SQD", "10.3.1", WRITE, .peer = PEER_SQD, .a = A_WELL,
	  .b = "-, OK*3, SQD changed" },
	{ "peer_sqd_read", "READ; B is in SQD", "10.3.1", READ, .peer = PEER_SQD, .a = A_WELL " changed",
	  .b = "-, OK*3, SQD" },
	{ "peer_sqd_atomic", "FetchAdd; B is in SQD", "10.3.1", FETCH_ADD, .peer = PEER_SQD,
	  .a = A_WELL " changed", .b = "-, OK*3, SQD changed" },
	{ "peer_sqd_key", "WRITE, nobody has the R_Key; B is in SQD", "9.9.3, 10.3.1", WRITE, .peer = PEER_SQD,
	  .rkey = KEY_UNKNOWN, NO_ACCESS },
	{ "peer_reset", "SEND; B is in RESET", STATE, SEND, .peer = PEER_RESET, NO_ANSWER, .b = "-, -, RESET" },
	{ "peer_init", "SEND; B is in INIT", STATE, SEND, .peer = PEER_INIT, NO_ANSWER, .b = "-, -, INIT" },
	{ "peer_init_write", "WRITE; B is in INIT", STATE, WRITE, .peer = PEER_INIT, NO_ANSWER, .b = "-, -, INIT" },
	{ "peer_err", "SEND; B is in ERR", STATE, SEND, .peer = PEER_ERR, NO_ANSWER, .b = "-, FLUSH*4, ERR" },
	{ "peer_err_write", "WRITE; B is in ERR", STATE, WRITE, .peer = PEER_ERR, NO_ANSWER, .b = "-, FLUSH*4, ERR" },
	{ "peer_err_read", "READ; B is in ERR", STATE, READ, .peer = PEER_ERR, NO_ANSWER, .b = "-, FLUSH*4, ERR" },
	{ "peer_err_atomic", "FetchAdd; B is in ERR", STATE, FETCH_ADD, .peer = PEER_ERR, NO_ANSWER,
	  .b = "-, FLUSH*4, ERR" },
	{ "peer_gone", "SEND; B is destroyed", STATE, SEND, .peer = PEER_GONE, NO_ANSWER, .b = "-, -, gone" },
	{ "peer_gone_write", "WRITE; B is destroyed", STATE, WRITE, .peer = PEER_GONE, NO_ANSWER, .b = "-, -, gone" },
	{ "peer_gone_read", "READ; B is destroyed", STATE, READ, .peer = PEER_GONE, NO_ANSWER, .b = "-, -, gone" },
	{ "peer_gone_atomic", "FetchAdd; B is destroyed", STATE, FETCH_ADD, .peer = PEER_GONE, NO_ANSWER,
	  .b = "-, -, gone" },
	{ "own_reset", "A posts in RESET", "10.3.1", SEND, .own = OWN_RESET, .a = "EINVAL -, -, RESET", .b = "-, -, RTS" },
	{ "own_init", "A posts in INIT", "10.3.1", SEND, .own = OWN_INIT, .a = "EINVAL -, -, INIT", .b = "-, -, RTS" },
	{ "own_rtr", "A posts in RTR", "10.3.1", SEND, .own = OWN_RTR, .a = "EINVAL -, -, RTR", .b = "-, -, RTS" },
	{ "own_sqd", "A posts in SQD; it goes to RTS after 50 ms", "10.3.1", SEND, .own = OWN_SQD,
	  .a = "WAITS OK*3, -, RTS", .b = "-, OK*3, RTS" },
	{ "own_err", "A posts in ERR", "10.3.1", SEND, .own = OWN_ERR, .a = "FLUSH*3, FLUSH*2, ERR", .b = "-, -, RTS" },
	{ 0 },
};

/* --- UC and UD ----------------------------------------------------------- */

#define SILENT "9.8.2, 9.9.3"
#define DROPPED .a = A_WELL, .b = "-, OK*3, RTS"
const struct row silent_rows[] = {
	{ "uc_write_unknown", "UC WRITE; nobody has the R_Key", SILENT, UC, WRITE, .rkey = KEY_UNKNOWN, DROPPED },
	{ "uc_write_pd", "UC WRITE; the region is of another PD", SILENT, UC, WRITE, .rkey = KEY_PD, DROPPED },
	{ "uc_write_rights", "UC WRITE; the region has no REMOTE_WRITE", SILENT, UC, WRITE, .rkey = KEY_RIGHTS, DROPPED },
	{ "uc_write_past_end_there", "UC WRITE of the region's last byte and the next", SILENT, UC, WRITE,
	  .rkey = KEY_EXACT, .off = 63, .len = 2, DROPPED },
	{ "uc_write_imm_unknown", "UC WRITE with immediate; nobody has the R_Key", SILENT, UC, WRITE_IMM,
	  .rkey = KEY_UNKNOWN, DROPPED },
	{ "uc_write_not_enabled", "UC WRITE; B's QP has no REMOTE_WRITE", SILENT, UC, WRITE,
	  .no_right = IBV_ACCESS_REMOTE_WRITE, DROPPED },
	{ "uc_send_too_long", "UC SEND a byte longer than its receive", SILENT, UC, SEND, .len = 65, .recv_len = 64,
	  DROPPED },
	{ "uc_recv_unknown", "UC SEND into an L_Key that nobody has", SILENT, UC, SEND, .recv_len = 64,
	  .recv_key = KEY_UNKNOWN, .a = A_WELL, .b = "-, OK LOC_PROT FLUSH*2, ERR" },
	{ "uc_no_receive", "UC SEND without a receive", SILENT, UC, SEND, .recvs = NONE, .a = "OK*3, -, RTS",
	  .b = "-, -, RTS" },
	{ "uc_peer_gone", "UC SEND; B is destroyed", SILENT, UC, SEND, .peer = PEER_GONE, .a = "OK*3, -, RTS",
	  .b = "-, -, gone" },
	{ "uc_peer_err", "UC SEND; B is in ERR", SILENT, UC, SEND, .peer = PEER_ERR, .a = "OK*3, -, RTS",
	  .b = "-, FLUSH*4, ERR" },
	{ "uc_peer_init", "UC SEND; B is in INIT", SILENT, UC, SEND, .peer = PEER_INIT, .a = "OK*3, -, RTS",
	  .b = "-, -, INIT" },
	{ "uc_peer_rtr", "UC SEND; B is in RTR", "10.3.1, 11.6.3.1", UC, SEND, .peer = PEER_RTR, .a = A_WELL,
	  .b = "-, OK*4, RTR COMM_EST" },
	{ "uc_peer_sqd", "UC SEND; B is in SQD", "10.3.1", UC, SEND, .peer = PEER_SQD, .a = A_WELL,
	  .b = "-, OK*4, SQD" },
	{ "uc_flush", "UC FLUSH", "A19, table 37", UC, FLUSH, UNSUPPORTED },
	{ "uc_read", "UC READ", "table 37", UC, READ, .a = "EINVAL OK, -, RTS", .b = "-, OK, RTS" },
	{ "ud_qkey", "UD SEND with another Q_Key", "C9-176", UD, SEND, .qkey_xor = 1, DROPPED },
	{ "ud_too_long", "UD SEND a byte longer than its receive", "9.8.3, 9.9.3", UD, SEND, .len = 65,
	  .recv_len = 40 + 64, DROPPED },
	{ "ud_recv_unknown", "UD SEND into an L_Key that nobody has", "9.9.3", UD, SEND, .recv_len = 40 + 64,
	  .recv_key = KEY_UNKNOWN, .a = A_WELL, .b = "-, OK LOC_PROT FLUSH*2, ERR" },
	{ "ud_no_receive", "UD SEND without a receive", "9.8.3", UD, SEND, .recvs = NONE, .a = "OK*3, -, RTS",
	  .b = "-, -, RTS" },
	{ "ud_peer_gone", "UD SEND; B is destroyed", "9.6", UD, SEND, .peer = PEER_GONE, .a = "OK*3, -, RTS",
	  .b = "-, -, gone" },
	{ "ud_peer_err", "UD SEND; B is in ERR", "9.6, 10.3.1", UD, SEND, .peer = PEER_ERR, .a = "OK*3, -, RTS",
	  .b = "-, FLUSH*4, ERR" },
	{ "ud_peer_rtr", "UD SEND; B is in RTR", "10.3.1", UD, SEND, .peer = PEER_RTR, .a = A_WELL,
	  .b = "-, OK*4, RTR" },
	{ "ud_peer_sqd", "UD SEND; B is in SQD", "10.3.1", UD, SEND, .peer = PEER_SQD, .a = A_WELL,
	  .b = "-, OK*4, SQD" },
	{ "ud_flush", "UD FLUSH", "A19, table 37", UD, FLUSH, UNSUPPORTED },
	{ "ud_write", "UD WRITE", "table 37", UD, WRITE, .a = "EINVAL OK, -, RTS", .b = "-, OK, RTS" },
	{ 0 },
};

/* --- partitions ---------------------------------------------------------- */

/* Only a fabric's ports have more than one P_Key. The subnet manager makes both ends
 * full members of partition 5 and limited members of partition 6; in partition 7 A is a
 * limited and B a full member. */
#define PARTS(a, b) .only = "ib", .pkey_a = (a), .pkey_b = (b)
#define UNHEARD .a = "RETRY_EXC FLUSH*3, FLUSH*2, ERR", .b = "-, -, RTS"
#define LOST .a = A_WELL, .b = "-, -, RTS"
const struct row pkey_rows[] = {
	{ "pkey_full", "SEND among full members", "10.9", SEND, PARTS(0x8005, 0x8005), SENT },
	{ "pkey_limited_full", "SEND of a limited member to a full one", "10.9", SEND, PARTS(0x0007, 0x8007), SENT },
	{ "pkey_limited", "SEND among limited members", "C9-38, 10.9", SEND, PARTS(0x0006, 0x0006),
	  .attr = short_timeout, UNHEARD },
	{ "pkey_other", "SEND to another partition", "C9-38, 10.9", SEND, PARTS(0x8005, 0x8007),
	  .attr = short_timeout, UNHEARD },
	{ "pkey_other_write", "WRITE to another partition", "C9-38, 10.9", WRITE, PARTS(0x8005, 0x8007),
	  .attr = short_timeout, UNHEARD },
	{ "pkey_other_read", "READ from another partition", "C9-38, 10.9", READ, PARTS(0x8005, 0x8007),
	  .attr = short_timeout, UNHEARD },
	{ "pkey_other_atomic", "FetchAdd in another partition", "C9-38, 10.9", FETCH_ADD, PARTS(0x8005, 0x8007),
	  .attr = short_timeout, UNHEARD },
	{ "pkey_uc_other", "UC SEND to another partition", "C9-38, 10.9", UC, SEND, PARTS(0x8005, 0x8007), LOST },
	{ "pkey_uc_limited", "UC SEND among limited members", "C9-38, 10.9", UC, SEND, PARTS(0x0006, 0x0006), LOST },
	{ "pkey_ud_full", "UD SEND among full members", "10.9", UD, SEND, PARTS(0x8005, 0x8005), SENT },
	{ "pkey_ud_limited_full", "UD SEND of a limited member to a full one", "10.9", UD, SEND,
	  PARTS(0x0007, 0x8007), SENT },
	{ "pkey_ud_other", "UD SEND to another partition", "C9-38, 10.9", UD, SEND, PARTS(0x8005, 0x8007), LOST },
	{ "pkey_ud_limited", "UD SEND among limited members", "C9-38, 10.9", UD, SEND, PARTS(0x0006, 0x0006), LOST },
	{ 0 },
};

/* --- SRQs ---------------------------------------------------------------- */

#define SRQ .srq = true
#define LAST "9.9.3, 10.2.9"
const struct row srq_rows[] = {
	{ "srq_send", "SEND to an SRQ, nothing wrong", "10.2.9", SEND, SRQ, SENT },
	{ "srq_limit", "SENDs that leave fewer than the limit of 3", "10.2.9.1", SEND, SRQ, .limit = 3,
	  .a = A_WELL, .b = "-, OK*4, RTS SRQ_LIMIT_REACHED" },
	{ "srq_limit_kept", "SENDs that leave as many as the limit of 2", "10.2.9.1", SEND, SRQ, .limit = 2, .recvs = 6,
	  .a = A_WELL, .b = "-, OK*4, RTS" },
	{ "srq_limit_key", "WRITE, nobody has the R_Key; the SEND before it left fewer than the limit of 4", LAST, WRITE,
	  SRQ, .rkey = KEY_UNKNOWN, .limit = 4,
	  .a = A_NAK("REM_ACCESS"), .b = "-, OK, ERR QP_ACCESS_ERR QP_LAST_WQE_REACHED SRQ_LIMIT_REACHED" },
	{ "srq_key", "WRITE, nobody has the R_Key", LAST, WRITE, SRQ, .rkey = KEY_UNKNOWN,
	  .a = A_NAK("REM_ACCESS"), .b = "-, OK, ERR QP_ACCESS_ERR QP_LAST_WQE_REACHED" },
	{ "srq_too_long", "SEND a byte longer than its receive", LAST, SEND, SRQ, .len = 65, .recv_len = 64,
	  .a = A_NAK("REM_INV_REQ"), .b = "-, OK LOC_LEN, ERR QP_LAST_WQE_REACHED" },
	{ "srq_recv_unknown", "SEND into an L_Key that nobody has", LAST, SEND, SRQ, .recv_len = 64,
	  .recv_key = KEY_UNKNOWN, .a = A_NAK("REM_OP"), .b = "-, OK LOC_PROT, ERR QP_LAST_WQE_REACHED" },
	{ "srq_rnr", "SEND; the SRQ is empty, rnr_retry 0", "9.7.5.2.8", SEND, SRQ, .recvs = NONE, .attr = rnr_0,
	  .a = "RNR_RETRY_EXC FLUSH*2, FLUSH*2, ERR", .b = "-, -, RTS" },
	{ "srq_uc_too_long", "UC SEND a byte longer than its receive (class E)", "9.9.3", UC, SEND, SRQ, .len = 65,
	  .recv_len = 64, .a = A_WELL, .b = "-, OK REM_INV_REQ OK*2, RTS" },
	{ "srq_ud_too_long", "UD SEND a byte longer than its receive (class E)", "9.9.3", UD, SEND, SRQ, .len = 65,
	  .recv_len = 40 + 64, .a = A_WELL, .b = "-, OK REM_INV_REQ OK*2, RTS" },
	{ 0 },
};

/* --- XRC ------------------------------------------------------------------ */

/* An XRC SEND QP has no receives, and a target QP has none of its own. */
#define XRC_NAK(status, event) .a = "OK " status " FLUSH*2, -, ERR", .b = "-, OK, ERR" event
const struct row xrc_rows[] = {
	{ "xrc_send", "SEND to an SRQ of B's domain", "A14", SEND, .xrc = XRC_GOOD, SENT },
	{ "xrc_write", "WRITE, nothing wrong", "A14", WRITE, .xrc = XRC_GOOD, WRITTEN },
	{ "xrc_read", "READ, nothing wrong", "A14", READ, .xrc = XRC_GOOD, FETCHED },
	{ "xrc_nobody", "SEND to an SRQ that does not exist", "A14", SEND, .xrc = XRC_NOBODY,
	  XRC_NAK("REM_INV_REQ", " QP_REQ_ERR") },
	{ "xrc_write_nobody", "WRITE that names an SRQ that does not exist", "A14", WRITE, .xrc = XRC_NOBODY,
	  XRC_NAK("REM_INV_REQ", " QP_REQ_ERR") },
	{ "xrc_plain", "SEND to an SRQ that is no XRC SRQ", "A14", SEND, .xrc = XRC_PLAIN,
	  XRC_NAK("REM_INV_REQ", " QP_REQ_ERR") },
	{ "xrc_domain", "SEND to an SRQ of another domain", "A14", SEND, .xrc = XRC_DOMAIN,
	  XRC_NAK("REM_INV_REQ", " QP_REQ_ERR") },
	{ "xrc_key", "WRITE; nobody has the R_Key", "A14, 9.9.3", WRITE, .xrc = XRC_GOOD, .rkey = KEY_UNKNOWN,
	  XRC_NAK("REM_ACCESS", " QP_ACCESS_ERR") },
	{ "xrc_pd", "WRITE; the region is of another PD than the SRQ", "A14, 9.9.3", WRITE, .xrc = XRC_GOOD,
	  .rkey = KEY_PD, XRC_NAK("REM_ACCESS", " QP_ACCESS_ERR") },
	{ "xrc_too_long", "SEND a byte longer than its receive", "A14, 9.7.4.1.6", SEND, .xrc = XRC_GOOD, .len = 65,
	  .recv_len = 64, .a = "OK REM_INV_REQ FLUSH*2, -, ERR", .b = "-, OK LOC_LEN, ERR" },
	{ "xrc_rnr", "SEND; the SRQ is empty, rnr_retry 0", "A14, 9.7.5.2.8", SEND, .xrc = XRC_GOOD, .recvs = NONE,
	  .attr = rnr_0, .a = "RNR_RETRY_EXC FLUSH*2, -, ERR", .b = "-, -, RTS" },
	{ 0 },
};

/* --- all ----------------------------------------------------------------- */

const struct group groups[] = {
	{ "What B grants", remote_rows },
	{ "Where regions end", bounds_rows },
	{ "READs and atomics at once", limit_rows },
	{ "Memory at A's end", local_rows },
	{ "Receives at B's end", recv_rows },
	{ "Windows", mw_rows },
	{ "Binds", bind_rows },
	{ "Invalidation", inv_rows },
	{ "States", target_rows },
	{ "UC and UD", silent_rows },
	{ "Partitions", pkey_rows },
	{ "Shared receive queues", srq_rows },
	{ "XRC", xrc_rows },
	{ 0 },
};
/* clang-format on */
