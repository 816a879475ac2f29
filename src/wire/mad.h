/* SPDX-License-Identifier: BSD-2-Clause */
/* mad.h - management datagrams as they lie in a packet (IBTA vol. 1, 13.4.3; 14.2.1 for
 * subnet management). */
#ifndef WIRE_MAD_H
#define WIRE_MAD_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/be.h"
#include "wire/well_known.h"

enum { MAD_SIZE = 256, MAD_HEAD = 24, MAD_BASE_VERSION = 1 };

enum mad_class {
	MAD_SM_LID = 0x01,
	MAD_SM_DR = 0x81,
	MAD_SA = 0x03,
	MAD_PERF = 0x04,
	MAD_BM = 0x05,
	MAD_CM = 0x07,
	MAD_CC = 0x21,
	MAD_VENDOR2 = 0x30,
	MAD_VENDOR2_LAST = 0x4f, /* classes 0x30 to 0x4f have an OUI */
};

/* A response has METHOD_RESP in its method, or is METHOD_TRAP_REPRESS. */
enum mad_method {
	METHOD_GET = 0x01,
	METHOD_SET = 0x02,
	METHOD_SEND = 0x03,
	METHOD_TRAP = 0x05,
	METHOD_REPORT = 0x06,
	METHOD_TRAP_REPRESS = 0x07,
	METHOD_GET_TABLE = 0x12,
	METHOD_GET_TRACE = 0x13,
	METHOD_GET_MULTI = 0x14,
	METHOD_DELETE = 0x15,
	METHOD_RESP = 0x80,
	METHOD_GET_RESP = 0x81,
	METHOD_DELETE_RESP = 0x95,
};

/* 13.4.7. */
enum mad_status {
	MAD_OK,
	MAD_BUSY = 0x0001,
	MAD_BAD_VERSION = 0x0004,
	MAD_BAD_METHOD = 0x0008,
	MAD_BAD_ATTR = 0x000c,
	MAD_BAD_FIELD = 0x001c,
};

/* Attribute IDs.  Different classes may use the same ID for different attributes. */
enum mad_attr {
	ATTR_CLASS_PORT_INFO = 0x0001,
	ATTR_NOTICE = 0x0002,
	/* subnet management */
	ATTR_NODE_DESC = 0x0010,
	ATTR_NODE_INFO = 0x0011,
	ATTR_SWITCH_INFO = 0x0012,
	ATTR_GUID_INFO = 0x0014,
	ATTR_PORT_INFO = 0x0015,
	ATTR_PKEY_TABLE = 0x0016,
	ATTR_SL2VL = 0x0017,
	ATTR_VL_ARB = 0x0018,
	ATTR_LFT = 0x0019,
	ATTR_MFT = 0x001b,
	ATTR_SM_INFO = 0x0020,
	ATTR_MLNX_EXT_PORT_INFO = 0xff90,
	/* performance management */
	ATTR_SAMPLES_CONTROL = 0x0010,
	ATTR_SAMPLES_RESULT = 0x0011,
	ATTR_PORT_COUNTERS = 0x0012,
	ATTR_RCV_ERROR_DETAILS = 0x0015,
	ATTR_XMIT_DISCARD_DETAILS = 0x0016,
	ATTR_VL_XMIT_WAIT = 0x001c,
	ATTR_PORT_COUNTERS_EXT = 0x001d,
	ATTR_XMIT_DATA_SL = 0x0036,
	ATTR_RCV_DATA_SL = 0x0037,
};

/* For structs that are laid over the bytes of a MAD. */
#define MAD_OVERLAY __attribute__((may_alias))

struct mad_hdr {
	uint8_t base_version, class, class_version, method;
	be16_t status;		    /* in a directed-route SMP also SMP_RETURN */
	uint8_t hop_ptr, hop_count; /* directed route only; otherwise class-specific */
	be64_t tid;
	be16_t attr, rsvd;
	be32_t mod;
} MAD_OVERLAY;

static_assert(sizeof(struct mad_hdr) == MAD_HEAD, "MAD");

enum { SMP_DATA = 64, SMP_PATH = 64, SMP_RETURN = 0x8000 };

struct smp {
	struct mad_hdr h;
	be64_t mkey;
	be16_t dr_slid, dr_dlid;
	uint8_t rsvd[28];
	uint8_t data[SMP_DATA];
	uint8_t initial[SMP_PATH], back[SMP_PATH]; /* port numbers; [0] is not used */
} MAD_OVERLAY;

static_assert(sizeof(struct smp) == MAD_SIZE, "SMP");

enum {
	LID_PERMISSIVE = 0xffff,
	LID_UNICAST_LAST = 0xbfff,
};

static inline bool mad_is_smp(const struct mad_hdr *h)
{
	return h->class == MAD_SM_LID || h->class == MAD_SM_DR;
}

static inline bool mad_is_response(const struct mad_hdr *h)
{
	return h->method & METHOD_RESP || h->method == METHOD_TRAP_REPRESS ||
	       (h->class == MAD_BM && get_be32(h->mod) & 1);
}

#endif
