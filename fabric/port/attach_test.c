/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs at adapters, over the memory that each shares with the fabric; some write
 * impossible values into it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/port/serving_testing.h"
#include "net/adapter_ring.h"
#include "sys/rand.h"
#include "wire/qpn.h"
#include "wire/sa.h"
#include "wire/well_known.h"

static const char topology[] = "Switch 4 \"sw\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[1]\n\n"
			       "Ca 1 \"H-a\"\n\nCa 1 \"H-b\"\n";

enum { SLOT = 5, LEN = 64, UC_SEND_ONLY = 0x24, UD_SEND_ONLY = 0x64 };

struct program {
	int fd;
	struct adapter_shared *sh;
	uint32_t head;
};

/* How many packets of adapter a were discarded. */
static char *discards(void *ctx, struct fabric *f, uint64_t now, const char *ask,
		      size_t ask_len, size_t *len)
{
	struct fabric_port_view v;
	char *text = malloc(32);

	(void)ctx;
	(void)now;
	(void)ask;
	(void)ask_len;
	assert_true(fabric_port(f, 1, 1, &v));
	*len = (size_t)snprintf(text, 32, "%llu",
				(unsigned long long)v.count->xmit_discards);
	return text;
}

static int start(void **state)
{
	(void)state;
	begin_to_serve(topology, discards);
	return 0;
}

static struct program attach(const char *hca, uint32_t slot)
{
	struct program p = { 0 };
	int memory;

	p.fd = plug_attach(name, hca, 1, slot, &memory);
	assert_true(p.fd >= 0);
	p.sh = mmap(NULL, sizeof(*p.sh), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	close(memory);
	assert_ptr_not_equal(p.sh, MAP_FAILED);
	return p;
}

static void detach(struct program *p)
{
	munmap(p->sh, sizeof(*p->sh));
	close(p->fd);
}

/* Waits for the fabric's next message, and takes it as plug_news() does. */
static int hear(struct program *p, struct plug_port *news)
{
	struct pollfd f = { .fd = p->fd, .events = POLLIN };

	assert_int_equal(poll(&f, 1, -1), 1);
	return plug_news(p->fd, news);
}

static void write_ring(struct program *p, uint16_t buf, uint16_t len, uint8_t opcode,
		       uint32_t dqpn)
{
	struct adapter_desc d = { .len = len, .buf = buf };
	struct lid_addr addr = { .slid = 1, .dlid = 2 };
	uint8_t *at = p->sh->tx_buf[buf % ADAPTER_BUFS];

	memset(at, 0, LEN);
	at[0] = opcode;
	at[2] = at[3] = 0xff;
	at[5] = (uint8_t)(dqpn >> 16);
	at[6] = (uint8_t)(dqpn >> 8);
	at[7] = (uint8_t)dqpn;
	memcpy(&d.addr, &addr, sizeof(addr));
	p->sh->tx[p->head++ % ADAPTER_BUFS] = d;
	atomic_store(&p->sh->tx_head, p->head);
}

/* The port has no LID, so it discards the packet. */
static void put(struct program *p, uint16_t buf, uint16_t len, uint8_t opcode,
		uint32_t dqpn)
{
	write_ring(p, buf, len, opcode, dqpn);
	plug_kick(p->fd);
}

static void wait_freed(struct program *p, uint32_t n)
{
	while (atomic_load(&p->sh->freed_head) != n)
		sched_yield();
}

static void port_is_told_first(void **state)
{
	struct program p = attach("a", SLOT);
	struct plug_port news;

	(void)state;
	assert_int_equal(hear(&p, &news), 1);
	assert_int_equal(news.state, 2);
	assert_int_equal(news.mtu_cap, 5);
	assert_int_equal(news.ext_speed, 2);
	assert_int_equal(news.guids[0], news.guid);
	detach(&p);
}

static void a_slot_is_one_programs(void **state)
{
	struct program p = attach("a", SLOT), q;
	int memory;

	(void)state;
	assert_int_equal(plug_attach(name, "a", 1, SLOT, &memory), -EADDRINUSE);
	assert_int_equal(plug_attach(name, "a", 1, 0, &memory), -EINVAL);
	assert_int_equal(plug_attach(name, "a", 1, 1u << QPN_SLOT_BITS, &memory),
			 -EINVAL);
	assert_int_equal(plug_attach(name, "a", 2, SLOT + 1, &memory), -ENODEV);
	q = attach("b", SLOT);
	detach(&q);
	detach(&p);
	/* The fabric sees the end of the first connection before the next one begins. */
	p = attach("a", SLOT);
	detach(&p);
}

/* Without a subnet manager no packet arrives, but the program gets each buffer back. */
static void buffers_come_back(void **state)
{
	struct program p = attach("a", SLOT);

	(void)state;
	for (uint32_t i = 0; i < 3 * ADAPTER_BUFS; i++) {
		put(&p, (uint16_t)(i % ADAPTER_BUFS), LEN, UC_SEND_ONLY,
		    qpn_make(SLOT, 2));
		wait_freed(&p, i + 1);
	}
	detach(&p);
}

static unsigned long count_discards(void)
{
	int fd = plug_control(name);
	char digits[32] = { 0 };
	unsigned long n;
	char *text;
	size_t len;

	assert_true(fd >= 0);
	assert_int_equal(plug_tell(fd, "?", &text, &len), 0);
	assert_in_range(len, 1, sizeof(digits) - 1);
	memcpy(digits, text, len); /* the answer has no end mark */
	n = strtoul(digits, NULL, 10);
	free(text);
	close(fd);
	return n;
}

/* A program ends right after it has sent: its packets still go out. */
static void ends_behind_its_last_packet(void **state)
{
	struct program p = attach("a", SLOT);
	unsigned long was = count_discards(), n = was;

	(void)state;
	write_ring(&p, 0, LEN, UC_SEND_ONLY, 77);
	write_ring(&p, 1, LEN, UC_SEND_ONLY, 77);
	detach(&p);
	while (n != was + 2) {
		n = count_discards();
		assert_in_range(n, was, was + 2);
	}
}

/* A MAD to the SA, by QP1. */
static void write_mad(struct program *p, uint16_t buf, enum mad_method method)
{
	static const struct sa_group group = { .mgid = { 0xff, 0x12 },
					       .join_state = SA_FULL_MEMBER };
	enum { DETH = 12, MAD = 20 };
	uint8_t *at = p->sh->tx_buf[buf];

	memset(at + LEN, 0, MAD + MAD_SIZE + 4 - LEN);
	write_ring(p, buf, MAD + MAD_SIZE + 4, UD_SEND_ONLY, QP_GSI);
	at[DETH] = 0x80;
	at[DETH + 1] = at[DETH + 7] = 1;
	sa_group_ask(at + MAD, 7, method, &group);
}

/* The fabric itself answers the program's last message, a Delete, since another program
 * of the port is in the group. */
static void leaves_a_group_with_its_last_packet(void **state)
{
	struct program other = attach("a", SLOT + 1);

	(void)state;
	write_mad(&other, 0, METHOD_SET);
	plug_kick(other.fd);
	wait_freed(&other, 1);
	for (int i = 0; i < 20; i++) {
		struct program p = attach("a", SLOT);

		write_mad(&p, 0, METHOD_SET);
		plug_kick(p.fd);
		wait_freed(&p, 1);
		write_mad(&p, 1, METHOD_DELETE);
		detach(&p);
	}
	detach(&other);
}

static void refused_but_no_crime(void **state)
{
	struct program p = attach("a", SLOT);

	(void)state;
	put(&p, 0, LEN, UC_SEND_ONLY, QP_SMI);
	put(&p, 1, LEN, UD_SEND_ONLY, QP_GSI);	       /* not as long as a MAD */
	put(&p, 2, LEN, UD_SEND_ONLY, qpn_make(9, 3)); /* from QP 0 */
	put(&p, 3, 0, UC_SEND_ONLY, qpn_make(9, 3));
	wait_freed(&p, 4);
	detach(&p);
}

static void ends(struct program *p)
{
	struct plug_port news;
	int n;

	plug_kick(p->fd);
	while ((n = hear(p, &news)) >= 0)
		;
	assert_int_equal(n, -EIO);
	detach(p);
}

static void crimes(void **state)
{
	struct program good = attach("b", SLOT), p = attach("a", SLOT);

	(void)state;
	put(&p, ADAPTER_BUFS, LEN, UC_SEND_ONLY, 77); /* no such buffer */
	ends(&p);
	p = attach("a", SLOT);
	put(&p, 0, ADAPTER_BUF + 4, UC_SEND_ONLY, 77);
	ends(&p);
	p = attach("a", SLOT);
	put(&p, 0, LEN + 1, UC_SEND_ONLY, 77);
	ends(&p);
	p = attach("a", SLOT);
	atomic_store(&p.sh->tx_head, ADAPTER_BUFS + 1);
	ends(&p);
	p = attach("a", SLOT);
	assert_int_equal(send(p.fd, "say", 3, 0), 3);
	ends(&p);
	put(&good, 0, LEN, UC_SEND_ONLY, 77);
	wait_freed(&good, 1);
	detach(&good);
}

/* Random bytes in the shared memory do not harm the fabric. */
static void random_words(void **state)
{
	struct prng r;

	(void)state;
	rand_seed(&r, rand_start());
	for (unsigned round = 0; round < 50; round++) {
		struct program p = attach("a", SLOT), q;
		uint32_t *at = (uint32_t *)p.sh;

		for (unsigned i = 0; i < 200; i++)
			((volatile uint32_t *)at)[rand_below(&r, 64 + 24 * 256)] =
				(uint32_t)rand_u64(&r);
		plug_kick(p.fd);
		q = attach("a", SLOT + 1);
		put(&q, 0, LEN, UC_SEND_ONLY, 77);
		wait_freed(&q, 1);
		detach(&q);
		detach(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(port_is_told_first),
		cmocka_unit_test(a_slot_is_one_programs),
		cmocka_unit_test(buffers_come_back),
		cmocka_unit_test(ends_behind_its_last_packet),
		cmocka_unit_test(leaves_a_group_with_its_last_packet),
		cmocka_unit_test(refused_but_no_crime),
		cmocka_unit_test(crimes),
		cmocka_unit_test(random_words),
	};

	return cmocka_run_group_tests(tests, start, end);
}
