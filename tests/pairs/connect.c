/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.c - connects the QPs of iWARP by rdma_cm, since iWARP has no modify_qp to RTS
 * without a connection. */
#include "pairs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

enum { WAIT_MS = 5000, DEPTH = 8, IDS = 8 };

static struct {
	struct rdma_event_channel *ch[2]; /* of A and of B */
	struct rdma_cm_id *listener, *probe, *id[IDS];
	unsigned ids, kept;	   /* kept: the number of them that are the bystanders' */
	struct rdma_cm_id *making; /* the ID whose QP is being made */
	struct sockaddr_in at;	   /* B's address */
} cm;

/* Returns the ID of the channel's next event, which must be of this type. */
static struct rdma_cm_id *await(struct rdma_event_channel *ch,
				enum rdma_cm_event_type want)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	CHECK(!rdma_get_cm_event(ch, &event));
	if (event->event != want) {
		say("rdma_cm: %s (%d), not %s", rdma_event_str(event->event),
		    event->status, rdma_event_str(want));
		_exit(1);
	}
	id = event->id;
	CHECK(!rdma_ack_cm_event(event));
	return id;
}

struct ibv_qp *iwarp_qp(struct ibv_qp_init_attr_ex *init)
{
	return rdma_create_qp_ex(cm.making, init) ? NULL : cm.making->qp;
}

static struct ibv_qp *qp_on(struct side *s, struct ibv_cq *scq, struct ibv_cq *rcq)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = scq,
		.recv_cq = rcq,
		.qp_type = IBV_QPT_RC,
		.cap = { 16, 16, 4, 4, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = s->pd,
	};

	return iwarp_qp(&init);
}

static struct ibv_qp *plain(struct side *s)
{
	return qp_on(s, s->scq, s->rcq);
}

static struct ibv_qp *bystander(struct side *s)
{
	return qp_on(s, s->by_cq, s->by_cq);
}

/* Makes the side's QP on that ID. */
static void make_on(struct rdma_cm_id *id, struct side *s,
		    struct ibv_qp *(*make)(struct side *s))
{
	CHECK(id->verbs == s->ctx);
	cm.making = id;
	CHECK((s->qp = make(s)) && s->qp == id->qp);
	s->mine.qpn = s->qp->qp_num;
	CHECK(cm.ids < IDS);
	cm.id[cm.ids++] = id;
}

/* Returns an ID that is resolved to B's address, and so has a device. */
static struct rdma_cm_id *resolved(void)
{
	struct rdma_cm_id *id;

	CHECK(!rdma_create_id(cm.ch[0], &id, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&cm.at, WAIT_MS));
	await(cm.ch[0], RDMA_CM_EVENT_ADDR_RESOLVED);
	return id;
}

void iwarp_connect(struct ibv_qp *(*make)(struct side *s))
{
	struct rdma_conn_param p = { .responder_resources = DEPTH,
				     .initiator_depth = DEPTH };
	struct rdma_cm_id *id;

	if (plays(false)) {
		id = resolved();
		CHECK(!rdma_resolve_route(id, WAIT_MS));
		await(cm.ch[0], RDMA_CM_EVENT_ROUTE_RESOLVED);
		make_on(id, side(false), make ? make : plain);
		CHECK(!rdma_connect(id, &p));
	}
	if (plays(true)) {
		id = await(cm.ch[1], RDMA_CM_EVENT_CONNECT_REQUEST);
		make_on(id, side(true), make ? make : plain);
		CHECK(!rdma_accept(id, &p));
	}
	for (int b = 0; b < 2; b++)
		if (plays(b))
			await(cm.ch[b], RDMA_CM_EVENT_ESTABLISHED);
}

static void listen_at(struct side *b)
{
	CHECK(!rdma_create_id(cm.ch[1], &cm.listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(cm.listener, (struct sockaddr *)&cm.at));
	CHECK(!rdma_listen(cm.listener, 4));
	side_open_on(b, cm.listener->verbs, 0);
	b->mine.port = rdma_get_src_port(cm.listener);
}

static void drop_bystander(struct side *s)
{
	CHECK(!ibv_destroy_qp(s->by_qp));
}

static void replace_bystander(struct side *s)
{
	s->by_qp = s->qp;
	s->mine.by_qpn = s->by_qp->qp_num;
	s->qp = NULL;
}

void iwarp_open(struct side *a, struct side *b, const char *address)
{
	cm.at.sin_family = AF_INET;
	CHECK(inet_pton(AF_INET, address, &cm.at.sin_addr) == 1);
	for (int i = 0; i < 2; i++)
		CHECK((cm.ch[i] = rdma_create_event_channel()));
	if (plays(true))
		listen_at(b);
	sync_sides();
	cm.at.sin_port = plays(true) ? b->mine.port : a->theirs.port;
	if (plays(false)) {
		cm.probe = resolved();
		side_open_on(a, cm.probe->verbs, 0);
	}
	each(drop_bystander);
	iwarp_connect(bystander);
	each(replace_bystander);
	cm.kept = cm.ids;
}

void iwarp_drop(void)
{
	while (cm.ids > cm.kept) {
		struct rdma_cm_id *id = cm.id[--cm.ids];

		rdma_destroy_qp(id);
		CHECK(!rdma_destroy_id(id));
	}
}
