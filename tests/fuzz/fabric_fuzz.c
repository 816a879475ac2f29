/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets and messages of programs on a subnet of two switches and three
 * adapters: whatever they say, the model stays whole and at rest.
 *
 * Input: steps, each a byte that says what it is and its bytes.
 *   0 node, port, slid, dlid, sl, qpn, pkey: 8 bytes, then 256 of a MAD,
 *     of which n follow: a packet as an adapter's QP sends it
 *   1 file, n (2 bytes), n bytes: a message of a program
 *   2 file, 10 bytes: an agent is registered
 *   3 file, agent: ... and unregistered
 *   4 file: closed and opened anew
 *   5 node, port, in: a cable
 *   6 milliseconds (2 bytes): time passes
 *   7 file: all it has is read */
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/umad/umad.h"
#include "must.h"

enum { FILES = 4, QUIET = 10000 };

static const char topology[] =
	"Switch 4 \"s\"\n[1] \"a\"[1]\n[2] \"t\"[2]\n[3] \"t\"[3]\n\n"
	"Switch 5 \"t\"\n[1] \"b\"[1]\n[4] \"c\"[2]\n\n"
	"Ca 1 \"a\"\n\nCa 1 \"b\"\n\nCa 2 \"c\"\n";

struct scene {
	struct fabric *f;
	struct umad *u;
	struct umad_file *file[FILES];
	uint64_t now;
	const uint8_t *at, *end;
};

static void deliver(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	struct scene *s = ctx;

	umad_input(s->u, node, port, pkt);
}

static void readable(void *ctx, void *owner)
{
	(void)ctx;
	(void)owner;
}

static const struct fabric_ops fabric_ops = { .deliver = deliver };
static const struct umad_ops umad_ops = { .readable = readable };

static void take(struct scene *s, void *to, size_t n)
{
	size_t left = (size_t)(s->end - s->at), k = n < left ? n : left;

	memset(to, 0, n);
	memcpy(to, s->at, k);
	s->at += k;
}

static uint8_t byte(struct scene *s)
{
	uint8_t b;

	take(s, &b, 1);
	return b;
}

static void run(struct scene *s)
{
	unsigned n = 0;

	do {
		umad_run(s->u, s->now);
		fabric_run(s->f, s->now);
		MUST(++n < QUIET);
	} while (fabric_next(s->f) <= s->now || umad_next(s->u) <= s->now);
}

static void packet(struct scene *s)
{
	uint8_t b[9];
	struct mad_pkt p = { 0 };

	take(s, b, sizeof(b));
	p.slid = b[2] == 255 ? LID_PERMISSIVE : b[2];
	p.dlid = b[3] == 255 ? LID_PERMISSIVE : b[3];
	p.sl = b[4];
	p.dqpn = p.sqpn = b[5] % 3;
	p.pkey = b[6] ? PKEY_DEFAULT : 0x8001;
	p.grh = b[7];
	take(s, p.mad, b[8]);
	fabric_send(s->f, b[0] % 6, b[1] % 3, &p);
}

static void message(struct scene *s, struct umad_file *f)
{
	uint8_t msg[4096], n[2];
	size_t len;

	take(s, n, 2);
	len = (size_t)(n[0] << 8 | n[1]) % (sizeof(msg) + 1);
	take(s, msg, len);
	if (umad_write(f, msg, len, s->now))
		umad_refuse(f, msg, len, 22);
}

static void register_(struct scene *s, struct umad_file *f)
{
	struct umad_reg r = {
		.class = byte(s), .version = byte(s), .rmpp = byte(s) & 1, .oui = byte(s)
	};

	take(s, r.methods, 6);
	umad_register(f, &r);
}

static void drain(struct umad_file *f)
{
	size_t len;
	const uint8_t *m;

	while ((m = umad_peek(f, &len))) {
		MUST(len >= UMAD_HDR && len <= UMAD_MESSAGE_MAX);
		MUST(((const struct umad_hdr *)(const void *)m)->length == len);
		umad_pop(f);
	}
}

static void open_file(struct scene *s, unsigned i)
{
	/* two programs at a, one at b, one at c's second port */
	MUST(umad_open(s->u, i < 2 ? 2 : i + 1, i == 3 ? 2 : 1, NULL, &s->file[i]) == 0);
}

static void step(struct scene *s)
{
	uint8_t what = byte(s) & 7, who, ms[2];
	unsigned i;

	if (what == 0) {
		packet(s);
		return;
	}
	who = byte(s);
	i = who % FILES;
	switch (what) {
	case 1:
		message(s, s->file[i]);
		break;
	case 2:
		register_(s, s->file[i]);
		break;
	case 3:
		umad_unregister(s->file[i], byte(s));
		break;
	case 4:
		umad_close(s->file[i]);
		open_file(s, i);
		break;
	case 5:
		fabric_cable(s->f, who % 6, byte(s) % 6, byte(s) & 1, s->now);
		break;
	case 6:
		take(s, ms, 2);
		s->now += (uint64_t)(ms[0] << 8 | ms[1]) * 1000000;
		break;
	default:
		drain(s->file[i]);
		break;
	}
}

/* What a subnet manager would have said: LIDs 1 to 5 by node, and routes. */
static void set(struct scene *s, const uint8_t *path, uint16_t attr, uint32_t mod,
		const uint8_t *data)
{
	struct smp smp = { .h = { .base_version = 1,
				  .class = MAD_SM_DR,
				  .class_version = 1,
				  .method = METHOD_SET,
				  .attr = be16(attr),
				  .mod = be32(mod),
				  .hop_count = path[0] },
			   .dr_slid = be16(LID_PERMISSIVE),
			   .dr_dlid = be16(LID_PERMISSIVE) };
	struct mad_pkt pkt = { .slid = LID_PERMISSIVE, .dlid = LID_PERMISSIVE };

	memcpy(smp.initial + 1, path + 1, path[0]);
	memcpy(smp.data, data, SMP_DATA);
	memcpy(pkt.mad, &smp, sizeof(smp));
	fabric_send(s->f, 2, 1, &pkt);
	run(s);
}

static void manage(struct scene *s)
{
	static const uint8_t path[5][5] = {
		{ 1, 1 }, { 2, 1, 2 }, { 0 }, { 3, 1, 2, 1 }, { 3, 1, 2, 4 },
	};
	static const uint8_t lft[2][64] = {
		{ 255, 0, 2, 1, 2, 2 },
		{ 255, 2, 0, 2, 1, 4 },
	};
	struct fabric_port_view v;
	uint8_t data[64];

	for (uint32_t i = 0; i < 5; i++) {
		struct port_info pi;

		fabric_port(s->f, i, i < 2 ? 0 : i == 4 ? 2 : 1, &v);
		pi = *v.info;
		pi.lid = (uint16_t)(i + 1);
		pi.sm_lid = 3;
		pi.state = pi.phys_state = 0;
		attr_put(&attr_port_info, data, &pi);
		set(s, path[i], ATTR_PORT_INFO, 0, data);
		if (i > 1)
			continue;
		attr_put(&attr_switch_info, data,
			 &(struct switch_info){ .lft_top = 5, .state_change = 1 });
		set(s, path[i], ATTR_SWITCH_INFO, 0, data);
		set(s, path[i], ATTR_LFT, 0, lft[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct scene s = { .at = bytes, .end = bytes + size, .now = 1000000000 };
	char err[TOPO_ERR];
	struct topo t;

	MUST(topo_parse(&t, "f", topology, sizeof(topology) - 1, err) == 0);
	MUST(fabric_new(&s.f, &t, &fabric_ops, &s) == 0);
	MUST(umad_new(&s.u, s.f, &umad_ops, &s) == 0);
	manage(&s);
	for (unsigned i = 0; i < FILES; i++)
		open_file(&s, i);
	while (s.at < s.end) {
		step(&s);
		run(&s);
	}
	for (unsigned i = 0; i < FILES; i++) {
		drain(s.file[i]);
		umad_close(s.file[i]);
	}
	MUST(umad_next(s.u) == UINT64_MAX);
	umad_free(s.u);
	fabric_free(s.f);
	topo_free(&t);
	return 0;
}
