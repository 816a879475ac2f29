/* SPDX-License-Identifier: BSD-2-Clause */
/* format.h - what rsockets put on the wire: private data, immediates, entries
 * that the peer writes, headers of datagrams.  docs/rsocket.md; rdma-core's
 * "rsocket Protocol and Design Guide". */
#ifndef RSOCKET_FORMAT_H
#define RSOCKET_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	RS_CONN_SIZE = 40, /* bytes of private data */
	RS_VERSION = 1,
	RS_FLAG_BIG_ENDIAN = 1,
	RS_FLAG_IOMAP = 2,
};

enum rs_op { RS_DATA = 0, RS_GRANT = 4, RS_IOMAP = 6, RS_CONTROL = 7 };

enum rs_control { RS_DISCONNECT = 0, RS_KEEPALIVE = 1, RS_SHUTDOWN = 2 };

#define RS_LOWER 0x1fffffffu /* of an immediate */

/* A buffer that is published, as it lies in memory. */
struct rs_sge {
	uint64_t addr;
	uint32_t key, length;
};
struct rs_iomap {
	uint64_t offset;
	struct rs_sge sge;
};

_Static_assert(sizeof(struct rs_sge) == 16 && sizeof(struct rs_iomap) == 24,
	       "peers write these");

/* Private data of a request and its answer. */
struct rs_conn {
	bool big_endian, iomap;
	uint16_t credits;
	uint32_t iomaps;       /* entries behind the target SGL */
	struct rs_sge targets; /* length: entries */
	struct rs_sge buffer;  /* length: bytes */
};

static inline uint32_t rs_imm(enum rs_op op, uint32_t lower)
{
	return (uint32_t)op << 29 | (lower & RS_LOWER);
}

bool rs_host_is_big(void);

void rs_conn_pack(const struct rs_conn *c, uint8_t out[RS_CONN_SIZE]);
/* False: it is not of this protocol, or grants less than a stream needs, two
 * targets and a credit. */
bool rs_conn_parse(const uint8_t *in, size_t len, struct rs_conn *out);

/* A number of entries is sent in 8 bits: up to 128 as it is, a larger one rounded
 * down to a multiple of 256. */
uint8_t rs_scale(uint32_t value);
uint32_t rs_unscale(uint8_t scale);

/* --- datagrams ----------------------------------------------------------- */

enum {
	RS_UDP_TAG = 0x55555555,
	RS_UDP_DATA = 0,
	RS_UDP_CONTROL = 7,
	RS_UDP4 = 16,
	RS_UDP6 = 28, /* bytes of the header over UDP */
	RS_UD4 = 8,
	RS_UD6 = 24, /* ... between QPs */
	RS_HEADER_MAX = 28,
};

/* Addresses are 16 bytes, IPv4 as mapped. */
struct rs_udp {
	uint8_t op;
	uint32_t qpn;	/* of the sender, for answers to it */
	uint8_t ip[16]; /* the receiver's */
};

struct rs_ud {
	uint16_t port; /* of the sender */
	uint8_t ip[16];
};

/* How many bytes were written. */
size_t rs_udp_pack(const struct rs_udp *h, uint8_t out[RS_HEADER_MAX]);
size_t rs_ud_pack(const struct rs_ud *h, uint8_t out[RS_HEADER_MAX]);
/* How many bytes the header has; 0: it is none of ours. */
size_t rs_udp_parse(const uint8_t *in, size_t len, struct rs_udp *out);
size_t rs_ud_parse(const uint8_t *in, size_t len, struct rs_ud *out);

#endif
