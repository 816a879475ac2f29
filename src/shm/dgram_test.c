/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams in a ring: complete, with all that a socket would tell of them, and only from
 * processes that may send them. */
#include "shm/fix.h"

#define STALL (100 * MS)

static struct {
	unsigned n;
	struct dgram d;
	uint8_t bytes[8192];
} got;

static void take(void *arg, const struct dgram *d, uint64_t now)
{
	(void)arg;
	(void)now;
	got.n++;
	got.d = *d;
	assert_int_equal(d->iovcnt, 1);
	assert_int_equal(d->iov[0].iov_len, d->len);
	memcpy(got.bytes, d->iov[0].iov_base, d->len);
}

static struct fix *open_taker(void)
{
	static struct peers_ops ops;
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct peers *b = peers_of(&f->s->node[1].core);

	memset(&got, 0, sizeof(got));
	ops = *b->ops;
	ops.datagram = take;
	b->ops = &ops;
	return f;
}

/* Sends a UD datagram to B, in three pieces: BTH, and arbitrary bytes. */
static bool send_to_b(struct fix *f, uint8_t opcode, uint32_t qpn, uint32_t len)
{
	struct core *core = &f->s->node[0].core;
	uint8_t bth[12] = { opcode, [5] = (uint8_t)(qpn >> 16), (uint8_t)(qpn >> 8),
			    (uint8_t)qpn };
	struct iovec iov[3] = {
		{ bth, sizeof(bth) },
		{ f->mem[0], 7 },
		{ f->mem[0] + 7, len - 19 },
	};
	struct dgram d = {
		.ip_id = 10,
		.iov = iov,
		.iovcnt = 3,
		.len = len,
	};
	bool sent;

	*ip_of(&d) = (struct ip_addr){
		.from = { .ip = { 1, [15] = 2 }, .port = 3 },
		.to = { .ip = { 4, [15] = 5 }, .port = 6 },
		.ifindex = 7,
		.tclass = 8,
		.ttl = 9,
	};
	turn_take(&core->turn);
	sent = peers_send(peers_of(core), f->s->node[1].core.slot, &d, f->s->now);
	peers_flush(peers_of(core));
	turn_give(&core->turn);
	return sent;
}

static uint32_t qpn_of_b(const struct fix *f)
{
	return qpn_make(f->s->node[1].core.slot, 77);
}

static void all_of_it_arrives(void **state)
{
	struct fix *f = open_taker();

	(void)state;
	assert_true(send_to_b(f, 0x64, qpn_of_b(f), 4096));
	pair_run(f, 1000);
	assert_int_equal(got.n, 1);
	assert_int_equal(got.d.len, 4096 - TRAILER_LEN);
	assert_int_equal(got.bytes[0], 0x64);
	assert_memory_equal(got.bytes + 12, f->mem[0], 4096 - 12 - TRAILER_LEN);
	assert_int_equal(ip_of(&got.d)->from.ip[15], 2);
	assert_int_equal(ip_of(&got.d)->from.port, 3);
	assert_int_equal(ip_of(&got.d)->to.ip[15], 5);
	assert_int_equal(ip_of(&got.d)->to.port, 6);
	assert_int_equal(ip_of(&got.d)->ifindex, 7);
	assert_int_equal(ip_of(&got.d)->tclass, 8);
	assert_int_equal(ip_of(&got.d)->ttl, 9);
	assert_int_equal(got.d.ip_id, 10);
	assert_true(got.d.ip_id_exact);
	fix_close(f);
}

/* Writes a record that is shorter than the headers of a datagram. */
static void write_short(struct fix *f)
{
	struct peer *p = pair_peer(f, 0);
	struct rec *r = ring_reserve(&p->out, REC_HEAD + 59);

	assert_non_null(r);
	*r = (struct rec){ .kind = REC_DGRAM };
	memcpy((uint8_t *)r + REC_HEAD, f->mem[0], 59);
	ring_publish(&p->out, r, REC_HEAD + 59);
}

static void only_ud_and_only_what_is_for_us(void **state)
{
	static const uint8_t opcode[] = { 0x04, 0x24, 0x84, 0xe4 };
	struct fix *f = open_taker();

	(void)state;
	for (unsigned i = 0; i < sizeof(opcode); i++)
		assert_true(send_to_b(f, opcode[i], qpn_of_b(f), 100));
	assert_true(send_to_b(f, 0x64, qpn_of_b(f) ^ 1 << QPN_INDEX_BITS, 100));
	assert_true(send_to_b(f, 0x64, qpn_of_b(f), RING_CHUNK)); /* too long */
	write_short(f);
	pair_run(f, 1000);
	assert_int_equal(got.n, 0);
	assert_int_equal(pair_peer(f, 1)->state, PEER_UP);
	fix_close(f);
}

/* A process of another user could claim any source, so its datagrams are refused. */
static void only_of_the_same_user(void **state)
{
	struct fix *f = open_taker();
	struct peers *l = peers_of(&f->s->node[0].core);
	uint16_t slot = f->s->node[1].core.slot;

	(void)state;
	assert_true(peers_has_pipe(l, slot));
	pair_peer(f, 0)->same_user = false;
	assert_false(peers_has_pipe(l, slot));
	pair_peer(f, 1)->same_user = false;
	assert_true(send_to_b(f, 0x64, qpn_of_b(f), 100));
	pair_run(f, 1000);
	assert_int_equal(got.n, 0);
	fix_close(f);
}

static void without_a_pipe_there_is_none(void **state)
{
	struct fix *f = open_taker();
	struct peers *l = peers_of(&f->s->node[0].core);
	uint16_t slot = f->s->node[1].core.slot;

	(void)state;
	pair_peer(f, 0)->state = PEER_OPENING;
	assert_false(peers_has_pipe(l, slot));
	assert_true(send_to_b(f, 0x64, qpn_of_b(f), 100)); /* lost */
	pair_peer(f, 0)->state = PEER_UP;
	assert_true(peers_has_pipe(l, slot));
	pair_run(f, 1000);
	assert_int_equal(got.n, 0);
	fix_close(f);
}

/* A full ring is waited for while its peer reads, and not otherwise. */
static void what_finds_no_room_waits_a_while(void **state)
{
	struct fix *f = open_taker();
	unsigned sent = 0;

	(void)state;
	pair_stop(f, 1);
	while (send_to_b(f, 0x64, qpn_of_b(f), 4000))
		sent++;
	assert_in_range(sent, 109, 112);
	f->s->now += STALL / 2;
	assert_false(send_to_b(f, 0x64, qpn_of_b(f), 4000));
	f->s->now += STALL / 2;
	assert_true(send_to_b(f, 0x64, qpn_of_b(f), 4000)); /* lost */
	pair_go(f, 1);
	pair_run(f, 1000);
	assert_int_equal(got.n, sent);
	assert_true(send_to_b(f, 0x64, qpn_of_b(f), 4000));
	pair_run(f, 1000);
	assert_int_equal(got.n, sent + 1);
	/* The wait begins anew. */
	pair_stop(f, 1);
	while (send_to_b(f, 0x64, qpn_of_b(f), 4000))
		;
	f->s->now += STALL / 2;
	assert_false(send_to_b(f, 0x64, qpn_of_b(f), 4000));
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it_arrives),
		cmocka_unit_test(only_ud_and_only_what_is_for_us),
		cmocka_unit_test(only_of_the_same_user),
		cmocka_unit_test(without_a_pipe_there_is_none),
		cmocka_unit_test(what_finds_no_room_waits_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
