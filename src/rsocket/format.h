/* SPDX-License-Identifier: BSD-2-Clause */
/* format.h - the formats of rsockets on the wire: private data, immediates, entries that
 * the peer writes, headers of datagrams. See docs/dev/rsocket.md and rdma-core's "rsocket
 * Protocol and Design Guide". */
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

/* A published buffer, as the peer writes it to memory. */
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

/* Private data of a REQ and a REP. */
struct rs_conn {
	bool big_endian, iomap;
	uint16_t credits;
	uint32_t iomaps;       /* number of entries behind the target SGL */
	struct rs_sge targets; /* length: number of entries */
	struct rs_sge buffer;  /* length: bytes */
};

static inline uint32_t rs_imm(enum rs_op op, uint32_t lower)
{
	return (uint32_t)op << 29 | (lower & RS_LOWER);
}

bool rs_host_is_big(void);

void rs_conn_pack(const struct rs_conn *c, uint8_t out[RS_CONN_SIZE]);
/* Returns false if the data is not of this protocol, or grants less than a stream needs:
 * two targets and a credit. */
bool rs_conn_parse(const uint8_t *in, size_t len, struct rs_conn *out);

/* A number of entries is sent as 8 bits: unchanged up to 128, else rounded down to a
 * multiple of 256. */
uint8_t rs_scale(uint32_t value);
uint32_t rs_unscale(uint8_t scale);

/* --- datagrams ----------------------------------------------------------- */

enum {
	RS_UDP_TAG = 0x55555555,
	RS_UDP_DATA = 0,
	RS_UDP_CONTROL = 7,
	RS_UDP4 = 16,
	RS_UDP6 = 28, /* bytes of the header in a UDP datagram */
	RS_UD4 = 8,
	RS_UD6 = 24, /* bytes of the header between QPs */
	RS_HEADER_MAX = 28,
};

/* Header of a UDP datagram. Addresses are 16 bytes, IPv4 mapped. */
struct rs_udp {
	uint8_t op;
	uint32_t qpn;	/* the sender's, to which the receiver may then send */
	uint8_t ip[16]; /* the receiver's address */
};

/* Header of a datagram between QPs. */
struct rs_ud {
	uint16_t port; /* the sender's */
	uint8_t ip[16];
};

/* Return the number of bytes written. */
size_t rs_udp_pack(const struct rs_udp *h, uint8_t out[RS_HEADER_MAX]);
size_t rs_ud_pack(const struct rs_ud *h, uint8_t out[RS_HEADER_MAX]);
/* Return the number of bytes of the header; 0: it is not valid. */
size_t rs_udp_parse(const uint8_t *in, size_t len, struct rs_udp *out);
size_t rs_ud_parse(const uint8_t *in, size_t len, struct rs_ud *out);

#endif
