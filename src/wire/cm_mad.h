/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_mad.h - the messages of connection management between two QP1s: management datagrams
 * of class 7 (IBTA vol. 1, 12.6, 12.11, 13.4.3).
 *
 * cm_mad.def has the position of each field.  Only the fields that a message has are read
 * or set; integers are in host byte order, modulo their width on the wire. */
#ifndef WIRE_CM_MAD_H
#define WIRE_CM_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/well_known.h"

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

/* The message that an MRA or a REJ answers: 12.6.6, 12.6.7. */
enum cm_about { CM_ABOUT_REQ, CM_ABOUT_REP, CM_ABOUT_NONE };

/* The reason in a REJ: 12.6.7.2. */
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
	CM_REJ_INVALID_MTU = 26, /* info[0]: the MTU that would do */
	CM_REJ_CONSUMER = 28,
	CM_REJ_DUPLICATE_ID = 30,
	CM_REJ_VENDOR_OPTION = 35,
};

/* The status in a SIDR_REP: 12.11.2. */
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
	/* The sender's ID, and the receiver's as far as the sender knows it.  A SIDR
	 * request ID belongs to the requester: it is local_id of the SIDR_REQ and
	 * remote_id of the SIDR_REP. */
	uint32_t local_id, remote_id;
	uint64_t service_id, ca_guid;
	uint32_t vendor_id; /* ECE; 24 bits */
	uint32_t qkey, qpn, eecn, remote_eecn;
	/* First PSN of the packets to the sender */
	uint32_t psn;
	/* READs and atomics that the sender accepts, and that it will have
	 * outstanding */
	uint8_t resources, depth;
	uint8_t remote_timeout, local_timeout;	/* for CM answers; 4.096 us * 2^n */
	uint8_t service_type, ext_service_type; /* enum ib_service */
	uint8_t flow_control, retry_count, rnr_retry, mtu, rdc_exists;
	uint8_t max_cm_retries, srq;
	uint8_t ack_delay, failover;
	uint16_t pkey;
	struct cm_path path, alt;
	uint8_t about; /* enum cm_about */
	uint8_t service_timeout;
	uint16_t reason;  /* enum cm_reason; SIDR: cm_sidr_status */
	uint8_t info_len; /* valid bytes of info */
	uint8_t info[CM_INFO_MAX];
	/* All of the message's private data, filled up with zeroes. */
	uint8_t private[CM_PRIVATE_MAX];
};

/* Writes MAD_LEN bytes. */
void cm_mad_build(uint8_t mad[MAD_LEN], const struct cm_msg *m);

/* Parses a MAD.  Returns 0; -EPROTO without changing *m: not class 7, another version,
 * method or length, or an unknown attribute. */
int cm_mad_parse(struct cm_msg *m, const void *mad, size_t len);

/* Makes the answer to m for a process that no longer exists (12.9.8).  Returns false if
 * nothing is to be answered. */
bool cm_mad_refusal(const struct cm_msg *m, struct cm_msg *answer);

/* The room for private data in a message, in bytes. */
size_t cm_private_len(enum cm_type type);
const char *cm_type_name(enum cm_type type);

#endif
