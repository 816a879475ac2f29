/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_mad.h - the messages of connection management, as they go between two
 * QP1s: management datagrams of class 7 (IBTA vol. 1, 12.6, 12.11, 13.4.3).
 *
 * cm_mad.def says where which field lies.  Only the fields that a message has
 * are read or set; integers are in host order, modulo their width on the wire.
 */
#ifndef WIRE_CM_MAD_H
#define WIRE_CM_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/gsi.h"

enum {
	MAD_LEN = 256,
	MAD_HDR = 24,
	CM_PRIVATE_MAX = 224,
	CM_INFO_MAX = 72,
};

enum cm_type {
#define MSG(name, attr, at, len) CM_##name,
#define FIELD(...)
#define BYTES(...)
#include "wire/cm_mad.def"
#undef MSG
#undef FIELD
#undef BYTES
	CM_TYPES
};

/* What an MRA or a REJ is about: 12.6.6, 12.6.7. */
enum cm_about { CM_ABOUT_REQ, CM_ABOUT_REP, CM_ABOUT_NONE };

/* Why a REJ: 12.6.7.2. */
enum cm_reason {
	CM_REJ_NO_QP = 1,
	CM_REJ_NO_RESOURCES = 3,
	CM_REJ_TIMEOUT = 4,
	CM_REJ_UNSUPPORTED = 5,
	CM_REJ_INVALID_ID = 6,
	CM_REJ_INVALID_INSTANCE = 7,
	CM_REJ_INVALID_SERVICE = 8,
	CM_REJ_INVALID_TRANSPORT = 9,
	CM_REJ_STALE = 10,
	CM_REJ_CONSUMER = 28,
	CM_REJ_DUPLICATE_ID = 30,
	CM_REJ_VENDOR_OPTION = 35,
};

/* How a SIDR_REP ends: 12.11.2. */
enum cm_sidr_status {
	CM_SIDR_OK,
	CM_SIDR_UNSUPPORTED,
	CM_SIDR_REJECT,
	CM_SIDR_NO_QP,
	CM_SIDR_REDIRECT,
	CM_SIDR_BAD_VERSION,
};

struct cm_path {
	uint16_t slid, dlid;
	uint8_t sgid[16], dgid[16];
	uint32_t flow_label; /* 20 bits */
	uint8_t rate, tclass, hop_limit, sl, subnet_local;
	uint8_t ack_timeout; /* 4.096 us * 2^n, 5 bits */
};

struct cm_msg {
	enum cm_type type;
	uint64_t tid;
	uint32_t attr_mod; /* REQ, REP: the sender's ECE options */
	/* The sender's, and the receiver's as the sender knows it.  A SIDR
	 * request ID is its maker's: local_id of the REQ, remote_id of the REP. */
	uint32_t local_id, remote_id;
	uint64_t service_id, ca_guid;
	uint32_t vendor_id; /* ECE; 24 bits */
	uint32_t qkey, qpn, eecn, remote_eecn;
	uint32_t psn;			       /* with which the receiver is to begin */
	uint8_t resources, depth;	       /* READs and atomics that the sender takes,
						* and that it will have out */
	uint8_t remote_timeout, local_timeout; /* of CM answers; 4.096 us * 2^n */
	uint8_t service_type, ext_service_type; /* enum ib_service */
	uint8_t flow_control, retry_count, rnr_retry, mtu, rdc_exists;
	uint8_t max_cm_retries, srq;
	uint8_t ack_delay, failover;
	uint16_t pkey;
	struct cm_path path, alt;
	uint8_t about; /* enum cm_about */
	uint8_t service_timeout;
	uint16_t reason;  /* enum cm_reason; SIDR: cm_sidr_status */
	uint8_t info_len; /* bytes of info that mean something */
	uint8_t info[CM_INFO_MAX];
	/* All of the message's room for it, zeroes behind what was said. */
	uint8_t private[CM_PRIVATE_MAX];
};

/* Writes MAD_LEN bytes. */
void cm_mad_build(uint8_t mad[MAD_LEN], const struct cm_msg *m);

/* Takes a MAD apart.  0; -EPROTO, and *m is left alone: it is none of class 7,
 * has another version, method or length, or an attribute without meaning. */
int cm_mad_parse(struct cm_msg *m, const void *mad, size_t len);

/* What is answered to m in place of a process that is not there (12.9.8).  False:
 * nothing. */
bool cm_mad_refusal(const struct cm_msg *m, struct cm_msg *answer);

/* Bytes of private data that a message has room for. */
size_t cm_private_len(enum cm_type type);
const char *cm_type_name(enum cm_type type);

#endif
