/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of programs at an adapter's port.  The test plays the SA, with a stub
 * of the fabric that records what goes out to the SA. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "fabric/port/server_own.h"
#include "sys/clock.h"
#include "wire/qpn.h"
#include "wire/sa.h"

enum { MS = 1000000, SM_LID = 9, STRANGER = 8, PROGRAMS = 3, GROUPS = 1024 };

static struct plug_server s;
/* Programs at port 1 of node 1; the last one at node 2. */
static struct plug_conn prog[PROGRAMS];
static struct port_info info;
static const uint16_t pkey = 0xffff;

/* Number of packets that went out to the SA, and of answers by the fabric itself; the
 * last of each. */
static unsigned sent, answered;
static struct mad_pkt last, answer;
static uint32_t sent_from;
static uint16_t answered_slot;

bool fabric_port(const struct fabric *f, uint32_t node, uint8_t port,
		 struct fabric_port_view *out)
{
	(void)f;
	assert_in_range(node, 1, 2);
	assert_int_equal(port, 1);
	*out = (struct fabric_port_view){ .info = &info, .pkey = &pkey, .pkeys = 1 };
	return true;
}

int fabric_send(struct fabric *f, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	(void)f;
	(void)port;
	sent++;
	sent_from = node;
	last = *pkt;
	return 0;
}

bool attach_mad(struct plug_server *server, uint32_t ca, uint8_t port, uint16_t slot,
		const struct mad_pkt *pkt)
{
	(void)server;
	(void)ca;
	(void)port;
	answered++;
	answered_slot = slot;
	answer = *pkt;
	return true;
}

void service_own_gid(const struct plug_server *server, uint32_t ca, uint8_t port,
		     uint8_t gid[16])
{
	(void)server;
	(void)port;
	memset(gid, 0, 16);
	gid[15] = (uint8_t)ca;
}

static int begin(void **state)
{
	(void)state;
	memset(&s, 0, sizeof(s));
	list_init(&s.attaches);
	list_init(&s.leaving);
	s.now = 1000 * (uint64_t)MS;
	info.sm_lid = SM_LID;
	sent = answered = 0;
	for (unsigned i = 0; i < PROGRAMS; i++) {
		prog[i] = (struct plug_conn){ .kind = CONN_ATTACHED,
					      .ca = i == PROGRAMS - 1 ? 2 : 1,
					      .port = 1,
					      .slot = (uint16_t)(i + 5) };
		list_init(&prog[i].groups);
		list_add_tail(&s.attaches, &prog[i].node);
	}
	return 0;
}

static void ends(unsigned i)
{
	group_end(&s, &prog[i]);
	list_del(&prog[i].node);
	list_init(&prog[i].node);
	assert_true(list_empty(&prog[i].groups));
	assert_int_equal(prog[i].ngroups, 0);
}

static int end(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PROGRAMS; i++)
		ends(i);
	group_free(&s);
	assert_true(list_empty(&s.leaving));
	assert_int_equal(s.nleaving, 0);
	assert_int_equal(group_next(&s), NEVER);
	return 0;
}

/* --- program i, and the SA --------------------------------------------------------- */

static struct sa_group group(unsigned n)
{
	struct sa_group g = { .join_state = SA_FULL_MEMBER, .mlid = 0xc001 };

	g.mgid[0] = 0xff;
	g.mgid[14] = (uint8_t)(n >> 8);
	g.mgid[15] = (uint8_t)n;
	return g;
}

static uint64_t tid(unsigned i, uint32_t n)
{
	return (uint64_t)prog[i].slot << TID_SLOT_SHIFT | n;
}

static bool asks(unsigned i, enum mad_method method, struct sa_group g, uint32_t n)
{
	struct mad_pkt pkt = { .dlid = SM_LID, .sqpn = QP_GSI, .dqpn = QP_GSI };

	sa_group_ask(pkt.mad, tid(i, n), method, &g);
	return group_asked(&s, &prog[i], &pkt);
}

static void says(uint16_t from, unsigned i, enum mad_method method, uint64_t transaction,
		 uint16_t status, struct sa_group g)
{
	struct mad_pkt pkt = { .slid = from };
	struct mad_hdr *h = (struct mad_hdr *)pkt.mad;

	sa_group_ask(pkt.mad, transaction, method, &g);
	h->status = be16(status);
	group_answered(&s, prog[i].ca, 1, tid_slot(transaction), &pkt);
}

static void joins(unsigned i, unsigned n)
{
	assert_false(asks(i, METHOD_SET, group(n), 1));
	says(SM_LID, i, METHOD_GET_RESP, tid(i, 1), 0, group(n));
}

static void is_delete(unsigned n)
{
	struct sa_group g, want = group(n);
	uint8_t method;

	assert_int_equal(sa_group_parse(&g, &method, last.mad), 0);
	assert_int_equal(method, METHOD_DELETE);
	assert_memory_equal(g.mgid, want.mgid, 16);
	assert_int_equal(g.join_state, SA_FULL_MEMBER);
	assert_int_equal(g.port_gid[15], sent_from);
	assert_int_equal(last.dlid, SM_LID);
	assert_int_equal(last.pkey, pkey);
	assert_int_equal(last.qkey, QKEY_GSI);
}

static uint64_t last_tid(void)
{
	return get_be64(((const struct mad_hdr *)last.mad)->tid);
}

static void pass(uint64_t ns)
{
	for (uint64_t until = s.now + ns; s.now < until;) {
		s.now = group_next(&s) < until ? group_next(&s) : until;
		group_run(&s);
	}
}

/* --- tests ----------------------------------------------------------------------------
 */

static void the_last_one_leaves(void **state)
{
	(void)state;
	joins(0, 7);
	joins(1, 7);
	assert_true(asks(0, METHOD_DELETE, group(7), 2));
	assert_int_equal(answered, 1);
	assert_int_equal(answered_slot, prog[0].slot);
	assert_int_equal(answer.mad[3], METHOD_DELETE_RESP);
	assert_int_equal(answer.slid, SM_LID);
	assert_false(asks(1, METHOD_DELETE, group(7), 2));
	says(SM_LID, 1, METHOD_DELETE_RESP, tid(1, 2), 0, group(7));
	ends(0);
	ends(1);
	assert_int_equal(sent, 0);
}

/* A membership of another port, of another group or in another join state does not
 * count. */
static void others_do_not_count(void **state)
{
	struct sa_group sender = group(7);

	(void)state;
	sender.join_state = SA_SEND_ONLY_FULL_MEMBER;
	joins(0, 7);
	joins(2, 7);
	joins(1, 8);
	assert_false(asks(1, METHOD_SET, sender, 3));
	assert_false(asks(0, METHOD_DELETE, group(7), 2));
	assert_int_equal(answered, 0);
}

static void one_that_ends(void **state)
{
	(void)state;
	joins(0, 7);
	joins(1, 7);
	ends(0);
	assert_int_equal(sent, 0);
	ends(1);
	assert_int_equal(sent, 1);
	is_delete(7);
	assert_int_equal(sent_from, 1);
	says(SM_LID, 0, METHOD_DELETE_RESP, last_tid(), 0, group(7));
	assert_int_equal(group_next(&s), NEVER);
}

/* A Delete is repeated after 100, 200, 400 .. ms, with the same transaction ID, for six
 * seconds. */
static void until_it_is_answered(void **state)
{
	uint64_t first;

	(void)state;
	joins(0, 7);
	ends(0);
	first = last_tid();
	assert_int_equal(group_next(&s), s.now + 100 * (uint64_t)MS);
	pass(100 * (uint64_t)MS);
	assert_int_equal(sent, 2);
	assert_int_equal(last_tid(), first);
	pass(200 * (uint64_t)MS);
	assert_int_equal(sent, 3);
	says(STRANGER, 0, METHOD_DELETE_RESP, first, 0, group(7));
	says(SM_LID, 0, METHOD_DELETE_RESP, first, MAD_BUSY, group(7));
	says(SM_LID, 0, METHOD_DELETE_RESP, first + 1, 0, group(7));
	assert_int_not_equal(group_next(&s), NEVER);
	/* The answer: no such membership. */
	says(SM_LID, 0, METHOD_DELETE_RESP, first, 0x200, group(7));
	assert_int_equal(group_next(&s), NEVER);
	joins(2, 7);
	ends(2);
	sent = 0;
	pass(7000 * (uint64_t)MS);
	assert_int_equal(sent, 5); /* sent after 0.1, 0.3, 0.7, 1.5 and 3.1 s */
	assert_int_equal(group_next(&s), NEVER);
}

static void no_subnet_manager(void **state)
{
	(void)state;
	joins(0, 7);
	joins(1, 8);
	ends(0);
	assert_int_equal(sent, 1);
	info.sm_lid = 0;
	ends(1);
	assert_int_equal(sent, 1);
	pass(200 * (uint64_t)MS);
	assert_int_equal(sent, 1);
	assert_int_equal(group_next(&s), NEVER);
}

/* A program joins while a Delete is being repeated: the fabric stops, since another
 * Delete would take the new member out of the group. */
static void another_comes(void **state)
{
	(void)state;
	joins(0, 7);
	ends(0);
	assert_false(asks(1, METHOD_SET, group(7), 1));
	pass(1000 * (uint64_t)MS);
	assert_int_equal(sent, 1);
	says(SM_LID, 1, METHOD_GET_RESP, tid(1, 1), 0, group(7));
	ends(1);
	assert_int_equal(sent, 2);
}

/* A program sends a Delete and ends.  The Delete may still be answered; the fabric
 * repeats it only if it was lost. */
static void ends_before_the_answer(void **state)
{
	(void)state;
	joins(0, 7);
	assert_false(asks(0, METHOD_DELETE, group(7), 2));
	ends(0);
	assert_int_equal(sent, 0);
	pass(100 * (uint64_t)MS);
	assert_int_equal(sent, 1);
	is_delete(7);
	assert_int_equal(last_tid(), tid(0, 2));
	says(SM_LID, 0, METHOD_DELETE_RESP, tid(0, 2), 0, group(7));
	assert_int_equal(group_next(&s), NEVER);
}

/* A program whose Delete is under way does not keep the port in the group. */
static void both_leave_at_once(void **state)
{
	(void)state;
	joins(0, 7);
	joins(1, 7);
	assert_true(asks(0, METHOD_DELETE, group(7), 2));
	assert_false(asks(1, METHOD_DELETE, group(7), 2));
	assert_false(asks(1, METHOD_DELETE, group(7), 2)); /* sent a second time */
	joins(0, 7);
	assert_true(asks(1, METHOD_DELETE, group(7), 2));
}

static void refused(void **state)
{
	(void)state;
	assert_false(asks(0, METHOD_SET, group(7), 1));
	says(STRANGER, 0, METHOD_GET_RESP, tid(0, 1), 0x200, group(7));
	assert_int_equal(prog[0].ngroups, 1);
	says(SM_LID, 0, METHOD_GET_RESP, tid(0, 1), MAD_BUSY, group(7));
	assert_int_equal(prog[0].ngroups, 1);
	says(SM_LID, 0, METHOD_GET_RESP, tid(0, 1), 0x200, group(7));
	assert_int_equal(prog[0].ngroups, 0);
	joins(0, 7);
	assert_false(asks(0, METHOD_SET, group(7), 2)); /* with another Q_Key */
	says(SM_LID, 0, METHOD_GET_RESP, tid(0, 2), 0x200, group(7));
	assert_int_equal(prog[0].ngroups, 1);
}

/* A program leaves while another's join is open, so no Delete goes out.  If the SA
 * refuses the join, the fabric sends the Delete. */
static void refused_after_another_has_left(void **state)
{
	(void)state;
	joins(0, 7);
	assert_false(asks(1, METHOD_SET, group(7), 1));
	assert_true(asks(0, METHOD_DELETE, group(7), 2));
	says(SM_LID, 1, METHOD_GET_RESP, tid(1, 1), 0x200, group(7));
	assert_int_equal(sent, 1);
	is_delete(7);
}

static void a_group_that_the_sa_chooses(void **state)
{
	struct sa_group any = { .join_state = SA_FULL_MEMBER };

	(void)state;
	assert_false(asks(0, METHOD_SET, any, 1));
	assert_int_equal(prog[0].ngroups, 0);
	says(SM_LID, 0, METHOD_GET_RESP, tid(0, 1), 0, group(7));
	ends(0);
	assert_int_equal(sent, 1);
	is_delete(7);
}

/* A program that joins ever more groups costs only GROUPS_MAX memberships. */
static void too_many(void **state)
{
	(void)state;
	for (unsigned n = 0; n < GROUPS + 10; n++)
		assert_false(asks(0, METHOD_SET, group(n), 1));
	assert_int_equal(prog[0].ngroups, GROUPS);
	for (unsigned round = 0; round < 20; round++) {
		ends(0);
		list_add_tail(&s.attaches, &prog[0].node);
		for (unsigned n = 0; n < GROUPS; n++) {
			struct sa_group g = group(n);

			g.mgid[1] = (uint8_t)round;
			assert_false(asks(0, METHOD_SET, g, 1));
		}
	}
	assert_int_equal(sent, 20 * GROUPS);
	assert_in_range(s.nleaving, GROUPS, 1 << 14);
}

/* The same with a program that sends a Delete itself for each group. */
static void too_many_that_leave(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned n = 0; n < GROUPS; n++) {
			struct sa_group g = group(n);

			g.mgid[1] = (uint8_t)round;
			assert_false(asks(0, METHOD_SET, g, 1));
			assert_false(asks(0, METHOD_DELETE, g, 2));
		}
		ends(0);
		list_add_tail(&s.attaches, &prog[0].node);
	}
	assert_int_equal(sent, 0);
	assert_in_range(s.nleaving, GROUPS, 1 << 14);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_last_one_leaves, begin, end),
		cmocka_unit_test_setup_teardown(others_do_not_count, begin, end),
		cmocka_unit_test_setup_teardown(one_that_ends, begin, end),
		cmocka_unit_test_setup_teardown(until_it_is_answered, begin, end),
		cmocka_unit_test_setup_teardown(no_subnet_manager, begin, end),
		cmocka_unit_test_setup_teardown(another_comes, begin, end),
		cmocka_unit_test_setup_teardown(ends_before_the_answer, begin, end),
		cmocka_unit_test_setup_teardown(both_leave_at_once, begin, end),
		cmocka_unit_test_setup_teardown(refused, begin, end),
		cmocka_unit_test_setup_teardown(refused_after_another_has_left, begin,
						end),
		cmocka_unit_test_setup_teardown(a_group_that_the_sa_chooses, begin, end),
		cmocka_unit_test_setup_teardown(too_many, begin, end),
		cmocka_unit_test_setup_teardown(too_many_that_leave, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
