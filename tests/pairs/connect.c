/* SPDX-License-Identifier: BSD-2-Clause */
/* connect.c - iWARP has no modify_qp to RTS without a connection: rdma_cm makes them. */
#include "pairs.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

enum { WAIT_MS = 5000, DEPTH = 8, IDS = 8 };

static struct {
	struct rdma_event_channel *ch_a, *ch_b;
	struct rdma_cm_id *listener, *id[IDS];
	unsigned ids;
	struct sockaddr_in at;
} cm;

/* The next event of the channel, which must be this. */
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

static struct ibv_qp *qp_on(struct rdma_cm_id *id, struct side *s, struct ibv_cq *scq,
			    struct ibv_cq *rcq)
{
	struct ibv_qp_init_attr init = { .send_cq = scq,
					 .recv_cq = rcq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { 16, 16, 4, 4, 0 } };

	CHECK(!rdma_create_qp(id, s->pd, &init));
	return id->qp;
}

static void connect_on(struct side *a, struct side *b, struct ibv_cq *cqs[4],
		       struct ibv_qp **qa, struct ibv_qp **qb)
{
	struct rdma_conn_param p = { .responder_resources = DEPTH,
				     .initiator_depth = DEPTH };
	struct rdma_cm_id *ida, *idb;

	CHECK(!rdma_create_id(cm.ch_a, &ida, NULL, RDMA_PS_TCP));
	CHECK(!rdma_resolve_addr(ida, NULL, (struct sockaddr *)&cm.at, WAIT_MS));
	await(cm.ch_a, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK(!rdma_resolve_route(ida, WAIT_MS));
	await(cm.ch_a, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK(ida->verbs == a->ctx);
	*qa = qp_on(ida, a, cqs[0], cqs[1]);
	CHECK(!rdma_connect(ida, &p));
	idb = await(cm.ch_b, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(idb->verbs == b->ctx);
	*qb = qp_on(idb, b, cqs[2], cqs[3]);
	CHECK(!rdma_accept(idb, &p));
	await(cm.ch_a, RDMA_CM_EVENT_ESTABLISHED);
	await(cm.ch_b, RDMA_CM_EVENT_ESTABLISHED);
	CHECK(cm.ids + 2 <= IDS);
	cm.id[cm.ids++] = ida;
	cm.id[cm.ids++] = idb;
}

void iwarp_connect(struct side *a, struct side *b, struct ibv_qp **qa, struct ibv_qp **qb)
{
	struct ibv_cq *cqs[] = { a->scq, a->rcq, b->scq, b->rcq };

	connect_on(a, b, cqs, qa, qb);
}

void iwarp_open(struct side *a, struct side *b, const char *address)
{
	struct ibv_cq *cqs[4];

	cm.at.sin_family = AF_INET;
	CHECK(inet_pton(AF_INET, address, &cm.at.sin_addr) == 1);
	CHECK((cm.ch_a = rdma_create_event_channel()));
	CHECK((cm.ch_b = rdma_create_event_channel()));
	CHECK(!rdma_create_id(cm.ch_b, &cm.listener, NULL, RDMA_PS_TCP));
	CHECK(!rdma_bind_addr(cm.listener, (struct sockaddr *)&cm.at));
	CHECK(!rdma_listen(cm.listener, 4));
	cm.at.sin_port = rdma_get_src_port(cm.listener);
	side_open_on(a, cm.listener->verbs, 0);
	side_open_on(b, cm.listener->verbs, 0);
	CHECK(!ibv_destroy_qp(a->by_qp) && !ibv_destroy_qp(b->by_qp));
	cqs[0] = cqs[1] = a->by_cq;
	cqs[2] = cqs[3] = b->by_cq;
	connect_on(a, b, cqs, &a->by_qp, &b->by_qp);
}

void iwarp_drop(void)
{
	while (cm.ids > 2) {
		struct rdma_cm_id *id = cm.id[--cm.ids];

		rdma_destroy_qp(id);
		CHECK(!rdma_destroy_id(id));
	}
}
