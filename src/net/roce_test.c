/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets get an ICRC on their way out, and it is checked and removed on their way
 * in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "net/batch.h"
#include "net/ip_addr.h"
#include "net/loop.h"
#include "net/roce.h"
#include "sys/guard.h"
#include "sys/list.h"
#include "wire/icrc.h"

enum { PORT = 4791, BTH = 12 };

/* Packets are sealed by `out` and given to `in` as the test likes. */
static struct t {
	struct link *loop, *out, *in; /* loop: the far end of the cable */
	bool ipv6;
	unsigned bth, host; /* vary the BTH, and the receiver's address */
	struct batch batch;
	uint8_t hdr[BATCH_MAX][96]; /* header, pad and ICRC of each datagram */
	uint8_t bytes[256];
} t;

static int begin(void **state)
{
	const struct loop_conf conf = { .run_max = 4 };
	struct link *a;

	(void)state;
	memset(&t, 0, sizeof(t));
	assert_int_equal(loop_pair(&a, &t.loop, &conf), 0);
	assert_int_equal(roce_wrap(&t.out, a, PORT), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	t.out->ops->close(t.out);
	t.loop->ops->close(t.loop);
	return 0;
}

static void address(struct dgram *d)
{
	const uint8_t v4[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
	const uint8_t v6[16] = { 0xfe, 0x80, [15] = 1 };

	memcpy(ip_of(d)->from.ip, t.ipv6 ? v6 : v4, 16);
	memcpy(ip_of(d)->to.ip, t.ipv6 ? v6 : v4, 16);
	ip_of(d)->to.ip[15] = (uint8_t)(2 + t.host);
	ip_of(d)->from.port = 0xc000;
	ip_of(d)->to.port = PORT;
}

static void fill(uint8_t *p, size_t n, unsigned seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 7 + seed);
}

/* Seals a packet of a header, payload in pieces, and pad. Returns 0, or the seal's
 * -errno. */
static int put(const struct iovec *payload, unsigned pieces, unsigned pad)
{
	struct batch *b = &t.batch;
	struct dgram *d = batch_next(b);
	uint8_t *hdr = t.hdr[b->n];

	fill(hdr, BTH + pad, 3 + t.bth);
	d->iov[0] = (struct iovec){ hdr, BTH };
	d->len = BTH;
	for (unsigned i = 0; i < pieces; i++) {
		d->iov[i + 1] = payload[i];
		d->len += (uint32_t)payload[i].iov_len;
	}
	d->iov[pieces + 1] = (struct iovec){ hdr + BTH, pad + TRAILER_LEN };
	d->iovcnt = pieces + 2;
	d->len += pad + TRAILER_LEN;
	address(d);
	d->link = t.out;
	batch_commit(b, d);
	return batch_seal(b);
}

/* Is the ICRC at the end of d the one that is computed over the whole datagram? */
static bool icrc_is_right(const struct dgram *d, uint16_t id)
{
	struct icrc_path path = { .sport = ip_of(d)->from.port,
				  .dport = ip_of(d)->to.port };
	uint8_t flat[4096];
	size_t n = 0;

	for (unsigned i = 0; i < d->iovcnt; i++) {
		memcpy(flat + n, d->iov[i].iov_base, d->iov[i].iov_len);
		n += d->iov[i].iov_len;
	}
	assert_int_equal(n, d->len);
	memcpy(path.src, ip_of(d)->from.ip, 16);
	memcpy(path.dst, ip_of(d)->to.ip, 16);
	return icrc_start(&path, id, n, flat, n - ICRC_LEN) ==
	       icrc_get(flat + n - ICRC_LEN);
}

static void any_pieces_are_sealed(void **state)
{
	uint8_t a[700], b[100];
	const struct iovec v[2] = { { a, sizeof(a) }, { b, sizeof(b) } };

	(void)state;
	fill(a, sizeof(a), 1);
	fill(b, sizeof(b), 2);
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		t.ipv6 = ipv6;
		for (unsigned pieces = 0; pieces <= 2; pieces++) {
			for (unsigned pad = 0; pad < 4; pad++) {
				batch_reset(&t.batch);
				assert_int_equal(put(v, pieces, pad), 0);
				assert_true(icrc_is_right(&t.batch.v[0], 0));
			}
		}
	}
}

/* What a packet has in common with earlier ones is not computed again; another address,
 * length or BTH is not mistaken for it. */
static void streams_are_not_mixed_up(void **state)
{
	uint8_t a[700];
	struct iovec v = { a, sizeof(a) };

	(void)state;
	fill(a, sizeof(a), 1);
	for (unsigned i = 0; i < 4096; i++) {
		unsigned bits = i * 2654435761u >> 20;

		t.host = bits & 1;
		t.bth = (bits >> 1 & 1) * 4 + (bits >> 2 & 1);
		v.iov_len = 400 + 16 * (bits >> 3 & 3);
		t.ipv6 = bits >> 5 & 1;
		batch_reset(&t.batch);
		assert_int_equal(put(&v, 1, 0), 0);
		assert_true(icrc_is_right(&t.batch.v[0], 0));
	}
	t.host = t.bth = t.ipv6 = 0;
}

/* The port of packets whose address has none may change. */
static void the_port_is_looked_up(void **state)
{
	uint8_t a[300];
	const struct iovec v = { a, sizeof(a) };

	(void)state;
	fill(a, sizeof(a), 1);
	for (uint16_t port = 0xc100; port < 0xc104; port++) {
		struct dgram *d = &t.batch.v[0];

		roce_leaves_from(t.out, port);
		batch_reset(&t.batch);
		assert_int_equal(put(&v, 1, 0), 0);
		ip_of(d)->from.port = 0;
		assert_int_equal(batch_seal(&t.batch), 0);
		ip_of(d)->from.port = port;
		assert_true(icrc_is_right(d, 0));
	}
}

/* In a run of the kernel's each segment has its own identification. */
static void a_run_is_sealed_place_by_place(void **state)
{
	uint8_t a[700];
	const struct iovec v = { a, sizeof(a) };

	(void)state;
	fill(a, sizeof(a), 1);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(put(&v, 1, 0), 0);
		assert_int_equal(t.batch.v[i].ip_id, i % 4);
		assert_true(icrc_is_right(&t.batch.v[i], (uint16_t)(i % 4)));
	}
}

static void memory_that_is_gone(void **state)
{
	uint8_t *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t here[300];
	const struct iovec good = { here, sizeof(here) }, bad = { gone, 300 };

	(void)state;
	guard_arm();
	fill(here, sizeof(here), 1);
	munmap(gone, 4096);
	assert_int_equal(put(&good, 1, 0), 0);
	assert_int_equal(put(&bad, 1, 0), -EFAULT);
	assert_int_equal(t.batch.n, 1);
	assert_int_equal(t.batch.iov_used, 3);
	/* This packet joins the run of the first one. */
	assert_int_equal(put(&good, 1, 0), 0);
	assert_int_equal(t.batch.v[1].seg, 1);
	assert_true(icrc_is_right(&t.batch.v[1], 1));
}

/* --- in ------------------------------------------------------------------ */

/* A link that receives one datagram, which the test has made. */
struct given {
	struct link link;
	struct dgram d;
	struct iovec iov;
};

static int give(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct given *g = container_of(link, struct given, link);

	(void)n;
	(void)now;
	g->iov = (struct iovec){ t.bytes, g->d.len };
	v[0] = g->d;
	v[0].iov = &g->iov;
	v[0].iovcnt = 1;
	return 1;
}

static void no_close(struct link *link)
{
	(void)link;
}

static const struct link_ops given_ops = { .recv = give, .close = no_close };
static struct given given;

static void open_given(void)
{
	given = (struct given){ .link = { .ops = &given_ops } };
	assert_int_equal(roce_wrap(&t.in, &given.link, PORT), 0);
}

static void close_given(void)
{
	t.in->ops->close(t.in);
}

/* Makes n bytes of a packet that was sealed with identification id. */
static void make(size_t n, uint16_t id)
{
	struct icrc_path path = { .sport = 0xc000, .dport = PORT };

	given.d = (struct dgram){ .len = (uint32_t)n + ICRC_LEN };
	address(&given.d);
	fill(t.bytes, n, 5);
	memcpy(path.src, ip_of(&given.d)->from.ip, 16);
	memcpy(path.dst, ip_of(&given.d)->to.ip, 16);
	icrc_end(icrc_start(&path, id, n + ICRC_LEN, t.bytes, n), t.bytes + n);
}

static bool is_whole(size_t n)
{
	struct dgram v;

	assert_int_equal(t.in->ops->recv(t.in, &v, 1, 0), 1);
	if (!v.damaged) {
		assert_int_equal(v.len, n);
		assert_int_equal(v.iov[0].iov_len, n);
	}
	return !v.damaged;
}

static void every_bit_counts(void **state)
{
	(void)state;
	open_given();
	for (int ipv6 = 0; ipv6 < 2; ipv6++) {
		t.ipv6 = ipv6;
		for (unsigned i = 0; i < 24 + ICRC_LEN; i++) {
			for (unsigned bit = 1; bit < 256; bit <<= 1) {
				make(24, 0);
				given.d.ip_id_exact = true;
				t.bytes[i] ^= (uint8_t)bit;
				/* Byte 4 has FECN and BECN, which routers may change. */
				assert_int_equal(is_whole(24), i == 4);
			}
		}
	}
	close_given();
}

static void addresses_and_ports_count(void **state)
{
	(void)state;
	open_given();
	make(24, 0);
	ip_of(&given.d)->to.port = 0; /* 0: not known, so the link's own port counts */
	assert_true(is_whole(24));
	ip_of(&given.d)->to.port = PORT + 1;
	assert_false(is_whole(24));
	make(24, 0);
	ip_of(&given.d)->from.port++;
	assert_false(is_whole(24));
	make(24, 0);
	ip_of(&given.d)->from.ip[15]++;
	assert_false(is_whole(24));
	make(24, 0);
	ip_of(&given.d)->to.ip[15]++;
	assert_false(is_whole(24));
	close_given();
}

static void identification_is_solved_for(void **state)
{
	(void)state;
	open_given();
	make(24, 4711); /* the first identification is accepted */
	assert_true(is_whole(24));
	make(24, 4720);
	assert_true(is_whole(24));
	make(24, 40000); /* far from the last one */
	assert_false(is_whole(24));
	make(24, 4725);
	given.d.ip_id_exact = true; /* the link knows that the identification was 0 */
	assert_false(is_whole(24));
	given.d.ip_id = 4725;
	assert_true(is_whole(24));
	make(24, 4730);
	given.d.ip_id = 0x3000; /* a wrong guess by the link */
	assert_true(is_whole(24));
	close_given();
}

static void too_short(void **state)
{
	struct dgram v;

	(void)state;
	open_given();
	for (uint32_t n = 0; n < BTH + ICRC_LEN; n++) {
		make(24, 0);
		given.d.len = n;
		assert_int_equal(t.in->ops->recv(t.in, &v, 1, 0), 1);
		assert_true(v.damaged);
		assert_int_equal(v.len, n);
	}
	make(BTH, 0);
	assert_true(is_whole(BTH));
	close_given();
}

/* Packets go out by one link and in by the other. */
static void there_and_back(void **state)
{
	uint8_t a[700];
	const struct iovec p = { a, sizeof(a) };
	struct dgram v[4];

	(void)state;
	fill(a, sizeof(a), 1);
	assert_int_equal(roce_wrap(&t.in, t.loop, PORT), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(put(&p, 1, 0), 0);
	assert_int_equal(t.out->ops->send(t.out, t.batch.v, 3, 0), 3);
	assert_int_equal(t.in->ops->recv(t.in, v, 4, 0), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_false(v[i].damaged);
		assert_int_equal(v[i].len, BTH + sizeof(a));
		assert_memory_equal((uint8_t *)v[i].iov[0].iov_base + BTH, a, sizeof(a));
	}
	t.in->ops->close(t.in);
	/* end() will close the far end, which is gone: so the test makes another
	 * pair. */
	assert_int_equal(loop_pair(&t.in, &t.loop, &(struct loop_conf){ .depth = 1 }), 0);
	t.in->ops->close(t.in);
}

static void a_payload_leaves_room_for_headers(void **state)
{
	(void)state;
	assert_int_equal(roce_payload(1500), 1416);
	assert_int_equal(roce_payload(4096 + 84), 4096);
	assert_int_equal(roce_payload(84), 0);
	assert_int_equal(roce_payload(0), 0);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(any_pieces_are_sealed, begin, end),
		cmocka_unit_test_setup_teardown(streams_are_not_mixed_up, begin, end),
		cmocka_unit_test_setup_teardown(the_port_is_looked_up, begin, end),
		cmocka_unit_test_setup_teardown(a_run_is_sealed_place_by_place, begin, end),
		cmocka_unit_test_setup_teardown(memory_that_is_gone, begin, end),
		cmocka_unit_test_setup_teardown(every_bit_counts, begin, end),
		cmocka_unit_test_setup_teardown(addresses_and_ports_count, begin, end),
		cmocka_unit_test_setup_teardown(identification_is_solved_for, begin, end),
		cmocka_unit_test_setup_teardown(too_short, begin, end),
		cmocka_unit_test_setup_teardown(there_and_back, begin, end),
		cmocka_unit_test(a_payload_leaves_room_for_headers),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
