/* SPDX-License-Identifier: BSD-2-Clause */
/* Paths from a subnet's administrator (SA). The test plays the SA, at the QP1 of the
 * other port. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "cm/cm_int.h"
#include "ib/ib.h"
#include "ib/sim.h"
#include "verbs/device.h"
#include "verbs/device_testing.h"
#include "wire/sa.h"

enum { MS = 1000000, DLID = 0x123, MLID = 0xc007, RECORD = 56, ASKS_MAX = 16 };

static struct sim *s;
static struct cm *cm;

/* The SA: what it was asked, and whether and how it answers. */
static struct {
	struct qp1 *qp1;
	unsigned asks;
	uint64_t at[ASKS_MAX];
	uint8_t mad[MAD_SIZE];
	struct link_to back;
	unsigned deaf;
	uint16_t mlid; /* of the group */
} sa;

/* The program. */
static struct {
	struct cm_owner owner;
	unsigned told;
	bool deaf;
	int status;
	struct sa_path path;
	bool group; /* it asks for groups */
	struct sa_group as;
} prog;

static bool on_event(struct cm_owner *owner, const struct cm_event *ev)
{
	assert_ptr_equal(owner, &prog.owner);
	assert_int_equal(ev->type, prog.group ? CM_EV_GROUP : CM_EV_PATH);
	if (prog.deaf)
		return false;
	prog.told++;
	prog.status = ev->status;
	if (ev->group)
		prog.as = *ev->group;
	if (ev->path)
		prog.path = *ev->path;
	return true;
}

static void send_answer(const uint8_t mad[MAD_SIZE])
{
	assert_int_equal(qp1_send(sa.qp1, &sa.back, 0, mad), 0);
	qp1_run(sa.qp1, s->now);
}

/* A GetResp of the requested record, with a LID, SL 3, MTU 4, life 14. */
static void answer(uint16_t status)
{
	uint8_t mad[MAD_SIZE];

	memcpy(mad, sa.mad, sizeof(mad));
	mad[3] = mad[3] == METHOD_DELETE ? METHOD_DELETE_RESP : METHOD_GET_RESP;
	mad[4] = (uint8_t)(status >> 8);
	mad[5] = (uint8_t)status;
	if (prog.group) {
		mad[RECORD] = 0xff; /* where the MGID was 0 the SA has chosen one */
		mad[RECORD + 36] = (uint8_t)(sa.mlid >> 8);
		mad[RECORD + 37] = (uint8_t)sa.mlid;
		send_answer(mad);
		return;
	}
	mad[RECORD + 40] = DLID >> 8;
	mad[RECORD + 41] = DLID & 0xff;
	mad[RECORD + 53] = 3;
	mad[RECORD + 54] = 0x84;
	mad[RECORD + 56] = 0x8e;
	send_answer(mad);
}

static void take(struct gsi *g, const struct gsi_mad *m, uint64_t now)
{
	(void)g;
	assert_int_equal(m->len, MAD_SIZE);
	assert_true(sa.asks < ASKS_MAX);
	sa.at[sa.asks++] = now;
	memcpy(sa.mad, m->bytes, MAD_SIZE);
	sa.back = (struct link_to){ .dlid = m->slid };
	if (sa.deaf)
		sa.deaf--;
	else
		answer(0);
}

static int begin(void **state)
{
	const struct sim_conf conf = { .infiniband = true };
	struct port port;

	(void)state;
	memset(&sa, 0, sizeof(sa));
	memset(&prog, 0, sizeof(prog));
	sa.mlid = MLID;
	prog.owner.event = on_event;
	s = sim_open(&conf);
	assert_int_equal(cm_open(&cm, &s->node[0].core, NULL, NULL, 1), 0);
	assert_int_equal(cm_use_link(cm, s->node[0].dev, s->node[0].link, 0), 0);
	assert_int_equal(qp1_open(&s->node[1].core, s->node[1].dev, s->node[1].link, take,
				  &sa.qp1),
			 0);
	port = device_port(s->node[0].dev);
	port.sm_lid = device_lid(s->node[1].dev);
	device_fill(s->node[0].dev, &port);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_true(list_empty(&cm->queries) && list_empty(&cm->members));
	assert_int_equal(cm_deadline(cm), NEVER);
	cm_close(cm);
	qp1_close(sa.qp1);
	sim_close(s);
	return 0;
}

static void run(uint64_t ns)
{
	for (uint64_t until = s->now + ns; s->now < until; s->now += MS / 10) {
		cm_run(cm, s->now);
		(void)sim_run(s, MS / 10);
	}
}

static void ask(uint64_t patience_ns)
{
	struct cm_route route = { 0 };

	memcpy(route.src, device_gid(s->node[0].dev, 0).raw, 16);
	memcpy(route.dst, device_gid(s->node[1].dev, 0).raw, 16);
	assert_int_equal(cm_path(cm, &route, patience_ns, &prog.owner, s->now), 0);
}

static void an_answer(void **state)
{
	(void)state;
	ask(1000 * (uint64_t)MS);
	run(MS);
	assert_int_equal(sa.asks, 1);
	assert_int_equal(tid_slot(get_be64(((struct mad_hdr *)sa.mad)->tid)),
			 s->node[0].core.slot);
	assert_memory_equal(sa.mad + RECORD + 8, device_gid(s->node[1].dev, 0).raw, 16);
	assert_int_equal(prog.told, 1);
	assert_int_equal(prog.status, 0);
	assert_int_equal(prog.path.dlid, DLID);
	assert_int_equal(prog.path.sl, 3);
	assert_int_equal(prog.path.mtu, IBV_MTU_2048);
	assert_int_equal(prog.path.life, 14);
	answer(0); /* again; nobody waits for it */
	run(MS);
	assert_int_equal(prog.told, 1);
}

/* Answers of a port that is not the subnet manager's, or about other ports. */
static void answers_of_strangers(void **state)
{
	struct port port = device_port(s->node[0].dev);
	const uint16_t sm_lid = port.sm_lid;

	(void)state;
	sa.deaf = 1;
	ask(1000 * (uint64_t)MS);
	run(MS);
	port.sm_lid = sm_lid + 1;
	device_fill(s->node[0].dev, &port);
	answer(0);
	run(MS);
	assert_int_equal(prog.told, 0);
	port.sm_lid = sm_lid;
	device_fill(s->node[0].dev, &port);
	sa.mad[RECORD + 8]++; /* its DGID */
	answer(0);
	run(MS);
	assert_int_equal(prog.told, 0);
	run(200 * (uint64_t)MS);
	assert_int_equal(prog.told, 1);
}

/* The request is repeated after 100, 200 ... ms, with the same transaction ID. */
static void lost_ones(void **state)
{
	(void)state;
	sa.deaf = 2;
	ask(5000 * (uint64_t)MS);
	run(1000 * (uint64_t)MS);
	assert_int_equal(sa.asks, 3);
	assert_in_range(sa.at[1] - sa.at[0], 99 * MS, 102 * MS);
	assert_in_range(sa.at[2] - sa.at[1], 199 * MS, 202 * MS);
	assert_int_equal(prog.told, 1);
	assert_int_equal(prog.status, 0);
}

static void no_answer(void **state)
{
	(void)state;
	sa.deaf = ASKS_MAX;
	ask(150 * (uint64_t)MS);
	run(149 * (uint64_t)MS);
	assert_int_equal(prog.told, 0);
	run(2 * (uint64_t)MS);
	assert_int_equal(prog.told, 1);
	assert_int_equal(prog.status, -ETIMEDOUT);
	assert_int_equal(sa.asks, 2);
}

static void no_manager(void **state)
{
	struct port port = device_port(s->node[0].dev);

	(void)state;
	port.sm_lid = 0;
	device_fill(s->node[0].dev, &port);
	ask(150 * (uint64_t)MS);
	run(160 * (uint64_t)MS);
	assert_int_equal(sa.asks, 0);
	assert_int_equal(prog.status, -ETIMEDOUT);
}

static void no_path(void **state)
{
	(void)state;
	sa.deaf = ASKS_MAX;
	ask(150 * (uint64_t)MS);
	run(MS);
	answer(0x300); /* no records */
	run(MS);
	assert_int_equal(prog.told, 1);
	assert_int_equal(prog.status, -EINVAL);
}

static void without_memory_it_is_asked_again(void **state)
{
	(void)state;
	prog.deaf = true;
	ask(1000 * (uint64_t)MS);
	run(MS);
	assert_int_equal(sa.asks, 1);
	prog.deaf = false;
	run(150 * (uint64_t)MS);
	assert_int_equal(sa.asks, 2);
	assert_int_equal(prog.told, 1);
}

static void forgotten(void **state)
{
	(void)state;
	sa.deaf = ASKS_MAX;
	ask(1000 * (uint64_t)MS);
	ask(1000 * (uint64_t)MS);
	run(MS);
	cm_path_forget(cm, &prog.owner);
	answer(0);
	run(MS);
	assert_int_equal(prog.told, 0);
}

static struct cm_member *join(uint8_t last, uint8_t state)
{
	struct sa_group want = { .qkey = 7, .pkey = 0xffff, .join_state = state };
	struct cm_member *m;

	prog.group = true;
	want.mgid[0] = 0xff;
	want.mgid[15] = last;
	memcpy(want.port_gid, device_gid(s->node[0].dev, 0).raw, 16);
	assert_int_equal(cm_join(cm, &want, 150 * (uint64_t)MS, &prog.owner, &m, s->now),
			 0);
	return m;
}

static void a_group(void **state)
{
	struct cm_member *m = join(9, SA_FULL_MEMBER);

	(void)state;
	run(MS);
	assert_int_equal(sa.asks, 1);
	assert_int_equal(sa.mad[3], METHOD_SET);
	assert_int_equal(sa.mad[RECORD + 15], 9);
	/* MGID, port GID, Q_Key, traffic class, P_Key, SL, flow label, join state */
	assert_memory_equal(sa.mad + 48, ((uint8_t[]){ 0, 0, 0, 0, 0, 1, 0x30, 0xc7 }),
			    8);
	assert_int_equal(sa.mad[RECORD + 48], SA_FULL_MEMBER);
	assert_int_equal(prog.told, 1);
	assert_int_equal(prog.status, 0);
	assert_int_equal(prog.as.mlid, MLID);
	assert_int_equal(prog.as.qkey, 7);
	cm_part(cm, m, s->now);
	run(MS);
	assert_int_equal(sa.asks, 2);
	assert_int_equal(sa.mad[3], METHOD_DELETE);
	assert_int_equal(sa.mad[RECORD + 48], SA_FULL_MEMBER);
	assert_int_equal(prog.told, 1);
}

/* Another join state is another membership. */
static void the_last_one_leaves(void **state)
{
	struct cm_member *a = join(9, SA_FULL_MEMBER), *b = join(9, SA_FULL_MEMBER);
	struct cm_member *c = join(9, SA_SEND_ONLY_FULL_MEMBER);

	(void)state;
	run(MS);
	assert_int_equal(sa.asks, 3);
	assert_int_equal(prog.told, 3);
	cm_part(cm, a, s->now);
	run(MS);
	assert_int_equal(sa.asks, 3);
	cm_part(cm, b, s->now);
	cm_part(cm, c, s->now);
	run(MS);
	assert_int_equal(sa.asks, 5);
}

/* The SA knows nothing of a member that it refused, so no Delete is sent. */
static void a_group_refused(void **state)
{
	struct cm_member *m;

	(void)state;
	sa.deaf = 1;
	m = join(9, SA_FULL_MEMBER);
	run(MS);
	answer(0x200);
	run(MS);
	assert_int_equal(prog.told, 1);
	assert_int_equal(prog.status, -EINVAL);
	cm_reregister(cm, s->now);
	cm_part(cm, m, s->now);
	run(MS);
	assert_int_equal(sa.asks, 1);
}

/* Without an answer the SA may have the member, so a Delete is sent. */
static void no_answer_about_a_group(void **state)
{
	struct cm_member *m;

	(void)state;
	sa.deaf = ASKS_MAX;
	m = join(9, SA_FULL_MEMBER);
	run(151 * (uint64_t)MS);
	assert_int_equal(sa.asks, 2);
	assert_int_equal(prog.told, 1);
	assert_int_equal(prog.status, -ETIMEDOUT);
	cm_part(cm, m, s->now);
	run(151 * (uint64_t)MS);
	assert_int_equal(sa.asks, 4);
	assert_int_equal(prog.told, 1);
}

/* The SA is busy, or has ended, and its port answers that it knows no such request. */
static const uint16_t unjudged[] = { MAD_BUSY, MAD_BAD_VERSION, MAD_BAD_METHOD,
				     MAD_BAD_ATTR };

static void nobody_judges_a_group(void **state)
{
	struct cm_member *m;

	(void)state;
	for (unsigned i = 0; i < sizeof(unjudged) / sizeof(*unjudged); i++) {
		sa.asks = prog.told = 0;
		sa.deaf = 1;
		m = join(9, SA_FULL_MEMBER);
		run(MS);
		answer(unjudged[i]);
		run(MS);
		assert_int_equal(prog.told, 0);
		run(100 * (uint64_t)MS);
		assert_int_equal(sa.asks, 2);
		assert_int_equal(prog.status, 0);
		cm_part(cm, m, s->now);
		run(MS);
	}
}

static void nobody_judges_a_path(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof(unjudged) / sizeof(*unjudged); i++) {
		sa.asks = prog.told = 0;
		sa.deaf = 1;
		ask(1000 * (uint64_t)MS);
		run(MS);
		answer(unjudged[i]);
		run(MS);
		assert_int_equal(prog.told, 0);
		run(100 * (uint64_t)MS);
		assert_int_equal(sa.asks, 2);
		assert_int_equal(prog.told, 1);
		assert_int_equal(prog.status, 0);
	}
}

static void a_group_that_the_sa_chooses(void **state)
{
	struct sa_group want = { .pkey = 0xffff, .join_state = SA_FULL_MEMBER };
	struct cm_member *m;

	(void)state;
	prog.group = true;
	memcpy(want.port_gid, device_gid(s->node[0].dev, 0).raw, 16);
	assert_int_equal(cm_join(cm, &want, 150 * (uint64_t)MS, &prog.owner, &m, s->now),
			 0);
	run(MS);
	assert_int_equal(prog.told, 1);
	assert_int_equal(prog.as.mgid[0], 0xff);
	cm_part(cm, m, s->now);
	run(MS);
	assert_int_equal(sa.mad[3], METHOD_DELETE);
	assert_int_equal(sa.mad[RECORD], 0xff);
}

/* A Delete is repeated until it is answered, with the same transaction ID. */
static void a_lost_delete(void **state)
{
	struct cm_member *m = join(9, SA_FULL_MEMBER);
	uint8_t first[MAD_SIZE];

	(void)state;
	run(MS);
	sa.deaf = 1;
	cm_part(cm, m, s->now);
	run(MS);
	assert_int_equal(sa.asks, 2);
	memcpy(first, sa.mad, sizeof(first));
	run(200 * (uint64_t)MS);
	assert_int_equal(sa.asks, 3);
	assert_memory_equal(first, sa.mad, sizeof(first));
	run(500 * (uint64_t)MS);
	assert_int_equal(sa.asks, 3);
	assert_int_equal(prog.told, 1);
}

/* A member that joins again is not taken out by a repeated Delete. */
static void back_again(void **state)
{
	struct cm_member *m = join(9, SA_FULL_MEMBER);

	(void)state;
	run(MS);
	sa.deaf = 1;
	cm_part(cm, m, s->now);
	run(MS);
	m = join(9, SA_FULL_MEMBER);
	run(500 * (uint64_t)MS);
	assert_int_equal(sa.asks, 3);
	assert_int_equal(sa.mad[3], METHOD_SET);
	cm_part(cm, m, s->now);
	run(MS);
	assert_int_equal(sa.asks, 4);
}

static void leaving_without_a_manager(void **state)
{
	struct cm_member *m = join(9, SA_FULL_MEMBER);
	struct port port = device_port(s->node[0].dev);

	(void)state;
	run(MS);
	port.sm_lid = 0;
	device_fill(s->node[0].dev, &port);
	cm_part(cm, m, s->now);
	assert_true(list_empty(&cm->members));
}

/* A new subnet manager is told of the membership and gives the group its former LID; the
 * program gets no event. */
static void registered_again(void **state)
{
	struct cm_member *m = join(9, SA_FULL_MEMBER);

	(void)state;
	run(MS);
	assert_int_equal(sa.mad[RECORD + 36], 0);
	cm_reregister(cm, s->now);
	run(MS);
	assert_int_equal(sa.asks, 2);
	assert_int_equal(sa.mad[3], METHOD_SET);
	assert_int_equal(sa.mad[RECORD + 36] << 8 | sa.mad[RECORD + 37], MLID);
	assert_int_equal(sa.mad[55],
			 0xd7); /* the MLID is one of the record's components */
	assert_int_equal(prog.told, 1);
	cm_part(cm, m, s->now);
	run(MS);
	assert_int_equal(sa.asks, 3);
}

/* The new subnet manager has given that LID to another group: nothing that the program
 * sends there reaches its own group any more. */
static void another_lid(void **state)
{
	struct cm_member *m = join(9, SA_FULL_MEMBER);

	(void)state;
	run(MS);
	sa.mlid++;
	cm_reregister(cm, s->now);
	run(MS);
	assert_int_equal(prog.told, 2);
	assert_int_equal(prog.status, -ENETRESET);
	assert_int_equal(prog.as.mlid, MLID);
	cm_reregister(cm, s->now); /* the program has to join again itself */
	run(MS);
	assert_int_equal(sa.asks, 2);
	cm_part(cm, m, s->now);
	run(MS);
	assert_int_equal(sa.mad[3], METHOD_DELETE);
}

/* The new subnet manager refuses the membership. */
static void not_registered_again(void **state)
{
	struct cm_member *m = join(9, SA_FULL_MEMBER);

	(void)state;
	run(MS);
	sa.deaf = ASKS_MAX;
	cm_reregister(cm, s->now);
	run(MS);
	answer(0x200);
	run(MS);
	assert_int_equal(prog.told, 2);
	assert_int_equal(prog.status, -ENETRESET);
	cm_part(cm, m, s->now);
}

/* The new subnet manager is still at its first sweep when the member's patience with a
 * join has ended: it is asked on, ever more rarely. */
static void registered_late(void **state)
{
	struct cm_member *m = join(9, SA_FULL_MEMBER);

	(void)state;
	run(MS);
	sa.deaf = 5;
	cm_reregister(cm, s->now);
	run(1400 * (uint64_t)MS);
	assert_int_equal(sa.asks, 1 + 5);
	assert_in_range(sa.at[5] - sa.at[4], 790 * MS, 810 * MS);
	run(1600 * (uint64_t)MS);
	assert_int_equal(sa.asks, 1 + 5 + 1);
	run(3300 * (uint64_t)MS);
	assert_int_equal(sa.asks, 1 + 5 + 1);
	assert_int_equal(prog.told, 1);
	sa.deaf = 5;
	sa.asks = 0;
	cm_reregister(cm, s->now);
	sa.deaf = 9;
	run(20000 * (uint64_t)MS);
	assert_int_equal(sa.asks, 9);
	assert_in_range(sa.at[8] - sa.at[7], 6350 * (uint64_t)MS, 6450 * (uint64_t)MS);
	sa.asks = 1 + 5 + 1;
	cm_reregister(cm, s->now); /* it is a member as before */
	run(MS);
	assert_int_equal(sa.asks, 1 + 5 + 1 + 1);
	sa.deaf = ASKS_MAX;
	cm_reregister(cm, s->now);
	run(500 * (uint64_t)MS);
	cm_part(cm, m, s->now); /* a Delete is given up */
	run(200 * (uint64_t)MS);
	assert_int_equal(prog.told, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_answer, begin, end),
		cmocka_unit_test_setup_teardown(answers_of_strangers, begin, end),
		cmocka_unit_test_setup_teardown(lost_ones, begin, end),
		cmocka_unit_test_setup_teardown(no_answer, begin, end),
		cmocka_unit_test_setup_teardown(no_manager, begin, end),
		cmocka_unit_test_setup_teardown(no_path, begin, end),
		cmocka_unit_test_setup_teardown(without_memory_it_is_asked_again, begin,
						end),
		cmocka_unit_test_setup_teardown(forgotten, begin, end),
		cmocka_unit_test_setup_teardown(a_group, begin, end),
		cmocka_unit_test_setup_teardown(the_last_one_leaves, begin, end),
		cmocka_unit_test_setup_teardown(a_group_refused, begin, end),
		cmocka_unit_test_setup_teardown(no_answer_about_a_group, begin, end),
		cmocka_unit_test_setup_teardown(nobody_judges_a_group, begin, end),
		cmocka_unit_test_setup_teardown(nobody_judges_a_path, begin, end),
		cmocka_unit_test_setup_teardown(a_group_that_the_sa_chooses, begin, end),
		cmocka_unit_test_setup_teardown(a_lost_delete, begin, end),
		cmocka_unit_test_setup_teardown(back_again, begin, end),
		cmocka_unit_test_setup_teardown(leaving_without_a_manager, begin, end),
		cmocka_unit_test_setup_teardown(registered_again, begin, end),
		cmocka_unit_test_setup_teardown(another_lid, begin, end),
		cmocka_unit_test_setup_teardown(not_registered_again, begin, end),
		cmocka_unit_test_setup_teardown(registered_late, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
