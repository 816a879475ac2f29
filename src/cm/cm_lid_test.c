/* SPDX-License-Identifier: BSD-2-Clause */
/* Two hosts on an InfiniBand link, each with the QP1 of its port: connection management
 * needs no IP network there. */
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

enum { SPACE = 0x0106, PORT = 7471, MS = 1000000 };

struct prog {
	struct cm_owner owner;
	enum cm_event_type last;
	unsigned n;
	uint8_t mtu; /* what the REQ asks for */
	struct cm_conn *conn;
};

static bool on_event(struct cm_owner *owner, const struct cm_event *ev)
{
	struct prog *p = (struct prog *)owner;

	p->last = ev->type;
	p->conn = ev->conn;
	if (ev->from)
		p->mtu = ev->from->mtu;
	p->n++;
	return true;
}

static struct cm *cms[2];

static struct cm *cm_of(struct sim *s, int side)
{
	(void)s;
	return cms[side];
}

static struct sim *open_both(void)
{
	const struct sim_conf conf = { .infiniband = true };
	struct sim *s = sim_open(&conf);

	for (int i = 0; i < 2; i++) {
		struct sim_node *n = &s->node[i];

		assert_int_equal(cm_open(&cms[i], &n->core, NULL, NULL, 1 + (uint64_t)i),
				 0);
		assert_int_equal(cm_use_link(cms[i], n->dev, n->link, 0), 0);
	}
	return s;
}

static void close_both(struct sim *s)
{
	for (int i = 0; i < 2; i++)
		cm_close(cms[i]);
	sim_close(s);
}

static void run(struct sim *s, uint64_t ns)
{
	for (uint64_t end = s->now + ns; s->now < end;) {
		for (int i = 0; i < 2; i++)
			cm_run(cms[i], s->now);
		(void)sim_run(s, 10000);
		s->now += 10000;
	}
}

static struct cm_target peer_of(struct sim *s, int side, uint16_t dlid)
{
	struct cm_target to = { .space = SPACE, .dst_port = PORT, .mtu = 5 };

	memcpy(to.route.src, device_gid(s->node[side].dev, 0).raw, 16);
	memcpy(to.route.dst, device_gid(s->node[!side].dev, 0).raw, 16);
	memcpy(to.src_ip, to.route.src, 16);
	memcpy(to.dst_ip, to.route.dst, 16);
	to.route.dlid = dlid;
	to.route.sl = 3;
	return to;
}

static struct cm_listener *listen_at_second(struct sim *s, struct prog *b)
{
	struct cm_service service = {
		.space = SPACE, .port = PORT, .any = true, .v6 = true
	};
	struct cm_listener *l;

	assert_int_equal(cm_bind(cm_of(s, 1), &service, &l), 0);
	assert_int_equal(cm_listen(cm_of(s, 1), l, 1, false, &b->owner), 0);
	return l;
}

static void two_ports_connect(void **state)
{
	struct sim *s = open_both();
	const uint16_t lid = device_lid(s->node[1].dev);
	const struct cm_target to = peer_of(s, 0, lid);
	const struct cm_param self = { .qpn = 0xa00001, .ack_timeout = 14 };
	struct prog a = { .owner = { on_event } }, b = { .owner = { on_event } };
	struct cm_listener *l;
	struct cm_conn *c;

	(void)state;
	l = listen_at_second(s, &b);
	assert_int_equal(cm_ib_proto.connect(cm_of(s, 0), &to, &self, &a.owner, &c,
					     s->now),
			 0);
	run(s, MS);
	assert_int_equal(b.last, CM_EV_REQUEST);
	assert_int_equal(conn_of(b.conn)->route.dlid, device_lid(s->node[0].dev));
	assert_int_equal(conn_of(b.conn)->route.sl, 3);
	cm_taken(cm_of(s, 1), b.conn);
	assert_int_equal(cm_accept(b.conn, &self, &b.owner, s->now), 0);
	run(s, MS);
	assert_int_equal(a.last, CM_EV_RESPONSE);
	assert_int_equal(c->proto->established(c, s->now), 0);
	run(s, MS);
	assert_int_equal(b.last, CM_EV_ESTABLISHED);
	c->proto->close(c, s->now);
	run(s, MS);
	assert_int_equal(b.last, CM_EV_DISCONNECTED);
	b.conn->proto->close(b.conn, s->now);
	cm_unbind(cm_of(s, 1), l);
	close_both(s);
}

static void fill(struct sim *s, int side, uint16_t first, uint16_t second)
{
	struct port port = device_port(s->node[side].dev);

	port.pkey[0] = first;
	port.pkey[1] = second;
	assert_int_equal(device_fill(s->node[side].dev, &port), PORT_PKEY);
}

/* A REQ with an MTU that does not exist is refused: no QP could have it. */
static void no_such_mtu(void **state)
{
	struct sim *s = open_both();
	struct cm_target to = peer_of(s, 0, device_lid(s->node[1].dev));
	const struct cm_param self = { .qpn = 0xa00001, .ack_timeout = 14 };
	struct prog a = { .owner = { on_event } }, b = { .owner = { on_event } };
	struct cm_listener *l;
	struct cm_conn *c;

	(void)state;
	l = listen_at_second(s, &b);
	to.mtu = 15;
	assert_int_equal(cm_ib_proto.connect(cm_of(s, 0), &to, &self, &a.owner, &c,
					     s->now),
			 0);
	run(s, MS);
	assert_int_equal(b.n, 1);
	assert_int_equal(b.mtu, IBV_MTU_4096); /* of the second REQ */
	cm_taken(cm_of(s, 1), b.conn);
	b.conn->proto->close(b.conn, s->now);
	run(s, MS);
	assert_int_equal(a.last, CM_EV_REJECTED);
	cm_unbind(cm_of(s, 1), l);
	close_both(s);
}

/* A MAD is of one of the port's partitions, or is dropped. */
static void another_partition_is_not_heard(void **state)
{
	struct sim *s = open_both();
	const struct cm_target to = peer_of(s, 0, device_lid(s->node[1].dev));
	const struct cm_param self = { .qpn = 1 };
	struct prog a = { .owner = { on_event } };
	struct cm_conn *c;

	(void)state;
	fill(s, 1, 0x8007, 0);
	assert_int_equal(cm_ib_proto.connect(cm_of(s, 0), &to, &self, &a.owner, &c,
					     s->now),
			 0);
	run(s, MS);
	assert_int_equal(cm_counter(cm_of(s, 1), CM_RX), 0);
	assert_int_equal(s->node[1].dev->pkey_violations, 1);
	fill(s, 1, 0xffff, 0);
	run(s, 100 * MS); /* sent again; nobody listens */
	assert_true(cm_counter(cm_of(s, 1), CM_RX) > 0);
	run(s, 100 * MS);
	assert_int_equal(a.last, CM_EV_REJECTED);
	c->proto->close(c, s->now);
	close_both(s);
}

/* QP1 is in all partitions of its port. It answers in the partition of the request, which
 * has another index in its own table. The requesting port is a limited member. */
static void a_connection_in_another_partition(void **state)
{
	struct sim *s = open_both();
	const struct cm_target to = peer_of(s, 0, device_lid(s->node[1].dev));
	const struct cm_param self = { .qpn = 0xa00001, .ack_timeout = 14 };
	struct prog a = { .owner = { on_event } }, b = { .owner = { on_event } };
	struct cm_listener *l;
	struct cm_conn *c;

	(void)state;
	fill(s, 0, 0x0009, 0);
	fill(s, 1, 0xffff, 0x8009);
	l = listen_at_second(s, &b);
	assert_int_equal(gsi_pkey(cm_of(s, 0), &to.route), 0x0009);
	assert_int_equal(cm_ib_proto.connect(cm_of(s, 0), &to, &self, &a.owner, &c,
					     s->now),
			 0);
	run(s, MS);
	assert_int_equal(b.last, CM_EV_REQUEST);
	assert_int_equal(conn_of(b.conn)->route.pkey_index, 1);
	cm_taken(cm_of(s, 1), b.conn);
	assert_int_equal(cm_accept(b.conn, &self, &b.owner, s->now), 0);
	run(s, MS);
	assert_int_equal(a.last, CM_EV_RESPONSE);
	assert_int_equal(s->node[0].dev->pkey_violations, 0);
	c->proto->close(c, s->now);
	b.conn->proto->close(b.conn, s->now);
	cm_unbind(cm_of(s, 1), l);
	close_both(s);
}

/* The engine is told when MADs that the link did not take are to be tried again. */
static void a_full_link_is_tried_again(void **state)
{
	struct sim *s = open_both();
	const struct cm_target to = peer_of(s, 0, device_lid(s->node[1].dev));
	const struct cm_param self = { .qpn = 1 };
	struct prog a = { .owner = { on_event } };
	const uint64_t until = s->now + 5 * MS;
	struct core *core = &s->node[0].core;
	struct cm_conn *c;

	(void)state;
	s->node[0].link->full_until = until;
	turn_take(&core->turn);
	assert_int_equal(cm_ib_proto.connect(cm_of(s, 0), &to, &self, &a.owner, &c,
					     s->now),
			 0);
	cm_run(cm_of(s, 0), s->now);
	assert_int_equal(cm_deadline(cm_of(s, 0)), until);
	cm_run(cm_of(s, 0), until);
	assert_true(cm_deadline(cm_of(s, 0)) > until);
	turn_give(&core->turn);
	run(s, 10 * MS);
	assert_int_equal(cm_counter(cm_of(s, 1), CM_RX), 1);
	c->proto->close(c, s->now);
	close_both(s);
}

/* A route without a LID leads nowhere. */
static void nowhere(void **state)
{
	struct sim *s = open_both();
	const struct cm_target to = peer_of(s, 0, 0);
	const struct cm_param self = { .qpn = 1 };
	struct prog a = { .owner = { on_event } };
	struct cm_conn *c;

	(void)state;
	assert_int_equal(cm_ib_proto.connect(cm_of(s, 0), &to, &self, &a.owner, &c,
					     s->now),
			 0);
	run(s, MS);
	assert_int_equal(cm_counter(cm_of(s, 0), CM_TX), 0);
	assert_int_equal(cm_counter(cm_of(s, 0), CM_TX_FULL), 1);
	c->proto->close(c, s->now);
	close_both(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_ports_connect),
		cmocka_unit_test(no_such_mtu),
		cmocka_unit_test(another_partition_is_not_heard),
		cmocka_unit_test(a_connection_in_another_partition),
		cmocka_unit_test(a_full_link_is_tried_again),
		cmocka_unit_test(nowhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
