/* SPDX-License-Identifier: BSD-2-Clause */
/* What the judge decides, in virtual time; statistics within stated bounds. */
#include "net/fault_judge.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "net/lid_addr.h"
#include "net/link_testing.h"
#include "wire/aeth.h"
#include "wire/ib_hdr.h"
#include "wire/ib_opcode.h"

enum { MS = 1000000, MANY = 200000 };

static struct fault_spec spec;
static struct fault_judge judge;

static void begin(const char *text, int dir)
{
	char err[512] = "";

	if (fault_parse(&spec, text, err, sizeof(err)))
		fail_msg("%s", err);
	fault_judge_init(&judge, &spec, dir);
}

struct packet {
	struct bth bth;
	struct aeth aeth;
	uint8_t rest[44];
};

static struct dgram *packet(struct test_dgram *t, enum ib_kind kind, uint32_t qp,
			    uint32_t psn, uint8_t syndrome)
{
	struct packet p = { .bth.opcode = ib_opcode(IB_RC, kind, IB_ONLY, IB_NONE),
			    .aeth.syndrome = syndrome };

	p.bth.dest_qp = be24(qp);
	p.bth.psn = be24(psn);
	test_dgram(t, &p, sizeof(p));
	t->iov[0].iov_len = sizeof(p);
	t->d.iovcnt = 1;
	return &t->d;
}

static unsigned fate(enum ib_kind kind, uint32_t qp, uint64_t since)
{
	struct test_dgram t;

	return fault_judge(&judge, packet(&t, kind, qp, 0, 0), since, since).what;
}

static double off(double is, double want)
{
	return is > want ? is - want : want - is;
}

/* Draws: what is asked for comes within 5 standard deviations. */
static void share_is(const char *text, unsigned what, double p)
{
	const double variance = MANY * p * (1 - p);
	unsigned n = 0;

	begin(text, FAULT_RX);
	for (unsigned i = 0; i < MANY; i++)
		n += (fate(IB_SEND, 5, i) & what) != 0;
	if ((n - MANY * p) * (n - MANY * p) > 25 * variance + 1)
		fail_msg("%s: %u of %d", text, n, MANY);
}

static void shares_are_as_asked(void **state)
{
	(void)state;
	share_is("drop=0.01", FAULT_DROP, 0.01);
	share_is("dup=0.2", FAULT_DUP, 0.2);
	share_is("ecn=0.05", FAULT_ECN, 0.05);
	share_is("corrupt=0.001", FAULT_CORRUPT, 0.001);
	share_is("delay=1ms~1ms:0.3", FAULT_DELAY, 0.3);
	share_is("burst=0:0:1:0.02", FAULT_DROP, 0.02);
	share_is("drop=0.1;drop=0.1", FAULT_DROP, 0.19);
	share_is("drop=0.1;qp=6,drop=1", FAULT_DROP, 0.1);
	share_is("tx:drop=1,drop=0", FAULT_DROP, 0);
}

/* Gilbert and Elliott: the share of the bad state is p / (p + r), its mean length 1 / r.
 * Losses come in clumps, so the bound is wider than that of single draws. */
static void bursts_are_as_asked(void **state)
{
	const double p = 0.01, r = 0.25, lost = 1, good = 0;
	const double share = p / (p + r) * lost + r / (p + r) * good;
	unsigned losses = 0, bursts = 0;
	bool was = false;

	(void)state;
	begin("burst=0.01:0.25", FAULT_TX);
	for (unsigned i = 0; i < MANY; i++) {
		bool is = fate(IB_SEND, 5, i) & FAULT_DROP;

		losses += is;
		bursts += is && !was;
		was = is;
	}
	assert_true(off(losses / (double)MANY, share) < 0.05 * share);
	assert_true(off(losses / (double)bursts, 1 / r) < 0.05 / r);
	begin("burst=0.01:0.25:0.5", FAULT_TX);
	for (unsigned i = losses = 0; i < MANY; i++)
		losses += fate(IB_SEND, 5, i) & FAULT_DROP;
	assert_true(off(losses / (double)MANY, share / 2) < 0.05 * share);
}

static void jitter_is_as_asked(void **state)
{
	double sum = 0, squares = 0, mean, variance;
	const double want = 300000.0 * 300000.0 / 3;

	(void)state;
	begin("delay=2ms~300us", FAULT_TX);
	for (unsigned i = 0; i < MANY; i++) {
		struct test_dgram t;
		struct fault_fate f =
			fault_judge(&judge, packet(&t, IB_SEND, 5, i, 0), 7, 7);

		assert_in_range(f.due, 7 + 1700000, 7 + 2300000);
		sum += (double)f.due - 7;
		squares += ((double)f.due - 7) * ((double)f.due - 7);
	}
	mean = sum / MANY;
	variance = squares / MANY - mean * mean;
	assert_true(off(mean, 2000000) < 2000);
	assert_true(off(variance, want) < want / 50);
}

/* 60 bytes at 48 Mbit/s take 10 us.  Offered twice as fast, half goes; what has passed
 * was never faster. */
static void a_rate_is_kept(void **state)
{
	unsigned passed = 0, beyond = 0;
	uint64_t last = 0, most = 0;
	struct test_dgram t;

	(void)state;
	begin("rate=48mbit:600", FAULT_TX);
	for (uint32_t i = 0; i < 10000; i++) {
		uint64_t now = 5000ull * i;
		struct dgram *d = packet(&t, IB_SEND, 5, i, 0);
		struct fault_fate f;
		uint64_t due;

		d->len = 60;
		f = fault_judge(&judge, d, now, now);
		if (f.what & FAULT_FULL) {
			assert_true(f.what & FAULT_DROP);
			beyond++;
			continue;
		}
		due = f.what & FAULT_SLOW ? f.due : now;
		assert_true(!passed || due - last >= 10000);
		most = due - now > most ? due - now : most;
		last = due;
		passed++;
	}
	assert_in_range(passed, 5000, 5012);
	assert_int_equal(passed + beyond, 10000);
	assert_in_range(most, 90000, 100000); /* 600 bytes */
}

/* An idle link has no more than one datagram's credit. */
static void a_rate_saves_nothing(void **state)
{
	struct test_dgram t;
	struct dgram *d;

	(void)state;
	begin("rate=48mbit", FAULT_TX);
	d = packet(&t, IB_SEND, 5, 0, 0);
	d->len = 60;
	assert_int_equal(fault_judge(&judge, d, 1000 * MS, 0).what, 0);
	assert_int_equal(fault_judge(&judge, d, 1000 * MS, 0).due, 1000 * MS + 10000);
	assert_int_equal(fault_judge(&judge, d, 1000 * MS, 0).due, 1000 * MS + 20000);
	assert_int_equal(fault_judge(&judge, d, 1000 * MS + 30000, 0).what, 0);
}

/* The rate lets go first, the delay begins behind it. */
static void a_delay_comes_behind_the_rate(void **state)
{
	struct test_dgram t;
	struct dgram *d;

	(void)state;
	begin("rate=48mbit,delay=1ms", FAULT_TX);
	d = packet(&t, IB_SEND, 5, 0, 0);
	d->len = 60;
	assert_int_equal(fault_judge(&judge, d, 5, 0).due, 5 + MS);
	assert_int_equal(fault_judge(&judge, d, 5, 0).due, 5 + MS + 10000);
}

static void a_schedule_is_kept(void **state)
{
	static const struct {
		const char *text;
		struct {
			uint64_t ms;
			bool lost;
		} at[6];
	} row[] = {
		{ "drop=1,at=20ms", { { 0, 0 }, { 19, 0 }, { 20, 1 }, { 9000, 1 } } },
		{ "drop=1,for=20ms", { { 0, 1 }, { 19, 1 }, { 20, 0 }, { 9000, 0 } } },
		{ "drop=1,at=20ms,for=5ms",
		  { { 0, 0 }, { 20, 1 }, { 24, 1 }, { 25, 0 }, { 9000, 0 } } },
		{ "drop=1,at=20ms,for=5ms,every=10ms",
		  { { 19, 0 },
		    { 20, 1 },
		    { 25, 0 },
		    { 30, 1 },
		    { 35, 0 },
		    { 9021, 1 } } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		begin(row[i].text, FAULT_RX);
		for (int k = 0; k < 6 && (k == 0 || row[i].at[k].ms); k++)
			if (!fate(IB_SEND, 5, row[i].at[k].ms * MS) == row[i].at[k].lost)
				fail_msg("%s: %d", row[i].text, (int)row[i].at[k].ms);
	}
}

static bool sends_9(void *arg, uint32_t qp, const struct dgram *d)
{
	(void)d;
	return arg == &judge && qp == 9;
}

static void a_qp_is_chosen(void **state)
{
	(void)state;
	begin("qp=5,drop=1", FAULT_RX);
	assert_int_equal(fate(IB_SEND, 5, 0), FAULT_DROP);
	assert_int_equal(fate(IB_SEND, 6, 0), 0);
	begin("qp=9,drop=1", FAULT_TX);
	assert_int_equal(fate(IB_SEND, 5, 0), 0);
	judge.sends = sends_9;
	judge.arg = &judge;
	assert_int_equal(fate(IB_SEND, 5, 0), FAULT_DROP);
	begin("qp=9,drop=1", FAULT_RX);
	judge.sends = sends_9;
	judge.arg = &judge;
	assert_int_equal(fate(IB_SEND, 5, 0), 0);
}

/* test_dgram() goes from 10.0.0.1 to 10.0.0.2. */
static void a_peer_is_chosen(void **state)
{
	struct test_dgram t;
	struct lid_addr a = {
		.slid = 3, .dlid = 4, .grh = 1, .dgid = { 0xfe, [15] = 9 }
	};

	(void)state;
	begin("peer=10.0.0.2,drop=1", FAULT_TX);
	assert_int_equal(fate(IB_SEND, 5, 0), FAULT_DROP);
	begin("peer=10.0.0.2,drop=1", FAULT_RX);
	assert_int_equal(fate(IB_SEND, 5, 0), 0);
	begin("peer=10.0.0.1,drop=1", FAULT_RX);
	assert_int_equal(fate(IB_SEND, 5, 0), FAULT_DROP);
	begin("peer=lid:4,drop=1", FAULT_TX);
	assert_int_equal(fate(IB_SEND, 5, 0), 0);
	judge.by_lid = true;
	memcpy(&packet(&t, IB_SEND, 5, 0, 0)->addr, &a, sizeof(a));
	assert_int_equal(fault_judge(&judge, &t.d, 0, 0).what, FAULT_DROP);
	begin("peer=fe00::9,drop=1", FAULT_TX);
	judge.by_lid = true;
	assert_int_equal(fault_judge(&judge, &t.d, 0, 0).what, FAULT_DROP);
	begin("peer=lid:3,drop=1", FAULT_RX);
	judge.by_lid = true;
	assert_int_equal(fault_judge(&judge, &t.d, 0, 0).what, FAULT_DROP);
}

static void an_opcode_is_chosen(void **state)
{
	static const struct {
		const char *name;
		enum ib_kind kind;
		uint8_t syndrome;
	} row[] = {
		{ "send", IB_SEND, 0 },
		{ "write", IB_WRITE, 0 },
		{ "read", IB_READ, 0 },
		{ "response", IB_READ_RESP, 0 },
		{ "response", IB_ATOMIC_RESP, 0 },
		{ "atomic", IB_CMP_SWAP, 0 },
		{ "atomic", IB_FETCH_ADD, 0 },
		{ "flush", IB_FLUSH, 0 },
		{ "ack", IB_ACK, 0 },
		{ "nak", IB_ACK, 0x60 },
		{ "rnr", IB_ACK, 0x20 },
	};
	enum { ROWS = sizeof(row) / sizeof(row[0]) };
	struct test_dgram t;

	(void)state;
	for (int i = 0; i < ROWS; i++) {
		char text[32];

		snprintf(text, sizeof(text), "opcode=%s,drop=1", row[i].name);
		for (int k = 0; k < ROWS; k++) {
			bool same = strcmp(row[i].name, row[k].name) == 0;

			begin(text, FAULT_TX);
			packet(&t, row[k].kind, 5, 0, row[k].syndrome);
			assert_int_equal(fault_judge(&judge, &t.d, 0, 0).what != 0, same);
		}
	}
	begin("opcode=mad+cnp,drop=1", FAULT_TX);
	assert_int_equal(fate(IB_SEND, 1, 0), FAULT_DROP);
	assert_int_equal(fate(IB_SEND, 5, 0), 0);
	/* Without a BTH a datagram is of no kind. */
	assert_int_equal(
		fault_judge(&judge, test_dgram(&t, &(uint32_t){ 1 }, 4), 0, 0).what, 0);
}

static void an_event_befalls_one(void **state)
{
	struct test_dgram t;
	unsigned hit = 0;

	(void)state;
	begin("event=flow1:+3:1:corrupt,event=flow1:+3:2:drop", FAULT_TX);
	for (uint32_t psn = 50; psn < 60; psn++) {
		struct fault_fate f =
			fault_judge(&judge, packet(&t, IB_SEND, 5, psn, 0), 0, 0);

		assert_int_equal(f.what, psn == 53 ? FAULT_CORRUPT : 0);
		assert_int_equal(f.event, psn == 53 ? 1 : 0);
		hit += f.what != 0;
	}
	assert_int_equal(hit, 1);
	assert_int_equal(fault_judge(&judge, packet(&t, IB_SEND, 5, 53, 0), 0, 0).what,
			 FAULT_DROP);
	assert_int_equal(fault_judge(&judge, packet(&t, IB_SEND, 5, 53, 0), 0, 0).what,
			 0);
}

/* What is put back has no trace: the next one has the fate that it would have had. */
static void what_is_undone_leaves_no_trace(void **state)
{
	static const char text[] =
		"drop=0.3,burst=0.1:0.5,rate=48mbit,delay=1ms~1ms,event=*:+7:1:dup";
	struct fault_fate want[200];
	struct test_dgram t;

	(void)state;
	begin(text, FAULT_TX);
	for (uint32_t i = 0; i < 200; i++)
		want[i] = fault_judge(&judge, packet(&t, IB_SEND, 5, i, 0), i, i);
	begin(text, FAULT_TX);
	for (uint32_t i = 0; i < 200; i++) {
		struct fault_state was = judge.now;
		struct fault_fate f;

		for (int k = 0; k < 3; k++) {
			fault_judge(&judge, packet(&t, IB_SEND, 5, i, 0), i, i);
			fault_judge_undo(&judge, &was);
		}
		f = fault_judge(&judge, packet(&t, IB_SEND, 5, i, 0), i, i);
		assert_int_equal(f.what, want[i].what);
		assert_int_equal(f.due, want[i].due);
	}
}

static void fates_have_words(void **state)
{
	char text[128], tiny[8];

	(void)state;
	fault_words(text, sizeof(text), FAULT_DUP | FAULT_CORRUPT | FAULT_SLOW);
	assert_string_equal(text, "duplicated, corrupted, held by the rate");
	fault_words(text, sizeof(text), 0);
	assert_string_equal(text, "");
	fault_words(tiny, sizeof(tiny), 0xff);
	assert_int_equal(strlen(tiny), 7);
}

/* Also where no event asks for iterations. */
static void a_note_names_the_packet(void **state)
{
	const uint32_t psn[] = { 7, 8, 7 };
	struct test_dgram t;
	struct fault_fate f;
	char text[144];

	(void)state;
	begin("qp=6,drop=1;qp=0x11,dup=1,ecn=1", FAULT_TX);
	judge.counts = true;
	for (int i = 0; i < 3; i++)
		f = fault_judge(&judge, packet(&t, IB_SEND, 0x11, psn[i], 0), 0, 0);
	fault_note(text, sizeof(text), &f);
	assert_string_equal(text, "fault=dup,ecn group=2 qp=0x000011 psn=7 iteration=2");
	f = fault_judge(&judge, packet(&t, IB_ACK, 6, 9, 0), 0, 0);
	fault_note(text, sizeof(text), &f);
	assert_string_equal(text,
			    "fault=drop group=1 qp=0x000006 psn=9 iteration=1 response");
	judge.counts = false;
	f = fault_judge(&judge, packet(&t, IB_SEND, 6, 9, 0), 0, 0);
	fault_note(text, sizeof(text), &f);
	assert_string_equal(text, "fault=drop group=1");
	f = (struct fault_fate){ .what = 0xff,
				 .event = UINT32_MAX,
				 .group = UINT32_MAX,
				 .qp = 0xffffff,
				 .psn = 0xffffff,
				 .iteration = 0xffff,
				 .response = true };
	fault_note(text, sizeof(text), &f);
	assert_true(strlen(text) < sizeof(text) - 1);
	for (size_t n = 1; n < 40; n++)
		fault_note(text, n, &f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_as_asked),
		cmocka_unit_test(bursts_are_as_asked),
		cmocka_unit_test(jitter_is_as_asked),
		cmocka_unit_test(a_rate_is_kept),
		cmocka_unit_test(a_rate_saves_nothing),
		cmocka_unit_test(a_delay_comes_behind_the_rate),
		cmocka_unit_test(a_schedule_is_kept),
		cmocka_unit_test(a_qp_is_chosen),
		cmocka_unit_test(a_peer_is_chosen),
		cmocka_unit_test(an_opcode_is_chosen),
		cmocka_unit_test(an_event_befalls_one),
		cmocka_unit_test(what_is_undone_leaves_no_trace),
		cmocka_unit_test(fates_have_words),
		cmocka_unit_test(a_note_names_the_packet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
