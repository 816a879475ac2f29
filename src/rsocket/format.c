/* SPDX-License-Identifier: BSD-2-Clause */
/* format.c - see format.h. */
#include "rsocket/format.h"

#include <string.h>

#include "sys/addr.h"

bool rs_host_is_big(void)
{
	const uint16_t one = 1;
	uint8_t first;

	memcpy(&first, &one, 1);
	return first == 0;
}

static void put_be(uint8_t *out, uint64_t v, int bytes)
{
	while (bytes--) {
		out[bytes] = (uint8_t)v;
		v >>= 8;
	}
}

static uint64_t get_be(const uint8_t *in, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes; i++)
		v = v << 8 | in[i];
	return v;
}

/* --- connecting ---------------------------------------------------------- */

static void put_sge(uint8_t *out, const struct rs_sge *s)
{
	put_be(out, s->addr, 8);
	put_be(out + 8, s->key, 4);
	put_be(out + 12, s->length, 4);
}

static struct rs_sge get_sge(const uint8_t *in)
{
	return (struct rs_sge){ .addr = get_be(in, 8),
				.key = (uint32_t)get_be(in + 8, 4),
				.length = (uint32_t)get_be(in + 12, 4) };
}

uint8_t rs_scale(uint32_t value)
{
	if (value > 0x7f << 8)
		value = 0x7f << 8;
	return value <= 0x80 ? (uint8_t)value : (uint8_t)(0x80 | value >> 8);
}

uint32_t rs_unscale(uint8_t scale)
{
	return scale <= 0x80 ? scale : (uint32_t)(scale & 0x7f) << 8;
}

void rs_conn_pack(const struct rs_conn *c, uint8_t out[RS_CONN_SIZE])
{
	memset(out, 0, RS_CONN_SIZE);
	out[0] = RS_VERSION;
	out[1] = (uint8_t)((c->big_endian ? RS_FLAG_BIG_ENDIAN : 0) |
			   (c->iomap ? RS_FLAG_IOMAP : 0));
	put_be(out + 2, c->credits, 2);
	out[7] = rs_scale(c->iomaps);
	put_sge(out + 8, &c->targets);
	put_sge(out + 24, &c->buffer);
}

bool rs_conn_parse(const uint8_t *in, size_t len, struct rs_conn *out)
{
	if (!in || len < RS_CONN_SIZE || in[0] != RS_VERSION)
		return false;
	*out = (struct rs_conn){
		.big_endian = in[1] & RS_FLAG_BIG_ENDIAN,
		.iomap = in[1] & RS_FLAG_IOMAP,
		.credits = (uint16_t)get_be(in + 2, 2),
		.iomaps = in[1] & RS_FLAG_IOMAP ? rs_unscale(in[7]) : 0,
		.targets = get_sge(in + 8),
		.buffer = get_sge(in + 24),
	};
	return out->credits && out->targets.length >= 2;
}

/* --- datagrams ----------------------------------------------------------- */

static void get_ip(const uint8_t *in, bool v4, uint8_t ip[16])
{
	if (v4)
		addr_map_v4(ip, in);
	else
		memcpy(ip, in, 16);
}

size_t rs_udp_pack(const struct rs_udp *h, uint8_t out[RS_HEADER_MAX])
{
	bool v4 = addr_is_v4(h->ip);

	put_be(out, RS_UDP_TAG, 4);
	out[4] = v4 ? 4 : 6;
	out[5] = h->op;
	out[6] = v4 ? RS_UDP4 : RS_UDP6;
	out[7] = 0;
	put_be(out + 8, h->qpn & 0xffffff, 4);
	memcpy(out + 12, h->ip + (v4 ? 12 : 0), v4 ? 4 : 16);
	return out[6];
}

size_t rs_udp_parse(const uint8_t *in, size_t len, struct rs_udp *out)
{
	bool v4;

	if (len < RS_UDP4 || get_be(in, 4) != RS_UDP_TAG || (in[4] != 4 && in[4] != 6))
		return 0;
	v4 = in[4] == 4;
	if (in[6] != (v4 ? RS_UDP4 : RS_UDP6) || len < in[6] ||
	    (in[5] != RS_UDP_DATA && in[5] != RS_UDP_CONTROL))
		return 0;
	out->op = in[5];
	out->qpn = (uint32_t)get_be(in + 8, 4) & 0xffffff;
	get_ip(in + 12, v4, out->ip);
	return in[6];
}

size_t rs_ud_pack(const struct rs_ud *h, uint8_t out[RS_HEADER_MAX])
{
	bool v4 = addr_is_v4(h->ip);

	memset(out, 0, RS_HEADER_MAX);
	out[0] = v4 ? 4 : 6;
	out[1] = v4 ? RS_UD4 : RS_UD6;
	put_be(out + 2, h->port, 2);
	if (v4)
		memcpy(out + 4, h->ip + 12, 4);
	else
		memcpy(out + 8, h->ip, 16); /* behind the flow information */
	return out[1];
}

size_t rs_ud_parse(const uint8_t *in, size_t len, struct rs_ud *out)
{
	bool v4;

	if (len < RS_UD4 || (in[0] != 4 && in[0] != 6))
		return 0;
	v4 = in[0] == 4;
	if (in[1] != (v4 ? RS_UD4 : RS_UD6) || len < in[1])
		return 0;
	out->port = (uint16_t)get_be(in + 2, 2);
	get_ip(in + (v4 ? 4 : 8), v4, out->ip);
	return in[1];
}
