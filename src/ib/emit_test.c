/* SPDX-License-Identifier: BSD-2-Clause */
/* One datagram: its bytes, which are copies. */
#include "ib/fix.h"

#include <errno.h>

#include "net/batch.h"
#include "wire/icrc.h"

static struct emit write_only(const struct fix *f, const struct span *s, uint32_t len)
{
	return (struct emit){
		.f = { .opcode = ib_opcode(IB_RC, IB_WRITE, IB_ONLY, IB_NONE),
		       .dest_qp = 0x8002,
		       .psn = 5,
		       .va = 1,
		       .rkey = 2,
		       .dma_len = len },
		.path = &f->p.qp[0]->path,
		.span = s,
		.len = len,
	};
}

static size_t flat(const struct dgram *d, uint8_t *to)
{
	size_t n = 0;

	for (unsigned i = 0; i < d->iovcnt; i++) {
		memcpy(to + n, d->iov[i].iov_base, d->iov[i].iov_len);
		n += d->iov[i].iov_len;
	}
	return n;
}

static void check_bytes(const struct dgram *d, const uint8_t *payload, uint32_t len)
{
	struct icrc_path path = { .sport = 0xc000, .dport = 4791 };
	struct ib_pkt pkt;
	uint8_t buf[8192];
	size_t n = flat(d, buf) - ICRC_LEN;

	assert_int_equal(n + ICRC_LEN, d->len);
	assert_int_equal(d->len % 4, 0);
	assert_int_equal(ib_parse(&pkt, buf, n), 0);
	assert_int_equal(pkt.payload_len, len);
	assert_memory_equal(pkt.payload, payload, len);
	memcpy(path.src, ip_of(d)->from.ip, 16);
	memcpy(path.dst, ip_of(d)->to.ip, 16);
	assert_int_equal(icrc_get(buf + n),
			 icrc_start(&path, (uint16_t)d->ip_id, d->len, buf, n));
}

static void of_any_length(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct batch *b = &f->s->node[0].batch;
	struct span s = { .n = 2,
			  .v = { { f->mem[0], 600 }, { f->mem[0] + 600, 4000 } } };

	(void)state;
	for (uint32_t len = 0; len < 1030; len++) {
		struct emit e = write_only(f, &s, len);
		const struct dgram *d = &b->v[0];

		assert_int_equal(emit(fix_ib(f, 0), b, &e), 0);
		assert_int_equal(b->n, 1);
		assert_int_equal(d->to_slot, 2);
		assert_int_equal(ip_of(d)->ttl, 64);
		check_bytes(d, f->mem[0], len);
		assert_int_equal(d->iovcnt, 1);
		batch_reset(b);
	}
	fix_close(f);
}

/* The identification counts within a run, and the ICRC covers it. */
static void runs(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct batch *b = &f->s->node[0].batch;
	struct span s = { .n = 1, .v = { { f->mem[0], 5000 } } };

	(void)state;
	f->s->node[0].link->run_max = 4;
	for (unsigned i = 0; i < 6; i++) {
		struct emit e = write_only(f, &s, i == 5 ? 300 : 1000);

		assert_int_equal(emit(fix_ib(f, 0), b, &e), 0);
		check_bytes(&b->v[i], f->mem[0], e.len);
		assert_int_equal(b->v[i].ip_id, i % 4);
		if (i)
			assert_ptr_equal(b->v[i].iov[0].iov_base,
					 (char *)b->v[i - 1].iov[0].iov_base +
						 b->v[i - 1].len);
	}
	batch_reset(b);
	fix_close(f);
}

static void until_it_is_full(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct batch *b = &f->s->node[0].batch;
	struct span s = { .n = 1, .v = { { f->mem[0], 5000 } } };
	unsigned n = 0;
	struct emit e;
	int rc;

	(void)state;
	do {
		e = write_only(f, &s, 4096);
		rc = emit(fix_ib(f, 0), b, &e);
		n += rc == 0;
	} while (rc == 0);
	assert_int_equal(rc, -ENOBUFS);
	assert_int_equal(n, b->n);
	assert_in_range(n, BATCH_BOUNCE / 4200, BATCH_BOUNCE / 4096);
	assert_true(b->bounce_used <= BATCH_BOUNCE);
	batch_reset(b);
	for (n = 0; n < BATCH_MAX; n++) {
		e = write_only(f, &s, 500);
		assert_int_equal(emit(fix_ib(f, 0), b, &e), 0);
	}
	e = write_only(f, &s, 500);
	assert_int_equal(emit(fix_ib(f, 0), b, &e), -ENOBUFS);
	batch_reset(b);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_any_length),
		cmocka_unit_test(runs),
		cmocka_unit_test(until_it_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
