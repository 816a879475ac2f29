/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of rdma_cm with invalid arguments: destroyed ids, channels and events, NULL, and
 * ids in states that do not allow the call.  Each call fails, and nothing is harmed. */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

static struct sockaddr_storage at, none;
static struct rdma_event_channel *gone_channel;

/* clang-format off */
/* --- calls of one id ------------------------------------------------------ */

#define CALL(name, call)                                                                 \
	static int name(struct rdma_cm_id *id)                                           \
	{                                                                                \
		return call;                                                             \
	}

static struct ibv_qp_attr qp_attr;
static struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
static struct ibv_qp_init_attr_ex init_ex = { .qp_type = IBV_QPT_RC, .comp_mask = IBV_QP_INIT_ATTR_PD };
static struct ibv_srq_init_attr srq = { .attr = { 1, 1, 0 } };
static struct ibv_srq_init_attr_ex srq_ex = { .attr = { 1, 1, 0 } };
static struct rdma_cm_join_mc_attr_ex join_attr;
static struct rdma_cm_id *made;
static struct ibv_ece ece = { .vendor_id = 1 };
static int word, mask;

#define ADDR ((struct sockaddr *)&at)

CALL(bind_addr, rdma_bind_addr(id, ADDR))
CALL(resolve_addr, rdma_resolve_addr(id, NULL, ADDR, 1))
CALL(resolve_route, rdma_resolve_route(id, 1))
CALL(connect_it, rdma_connect(id, NULL))
CALL(listen_on, rdma_listen(id, 1))
CALL(get_request, rdma_get_request(id, &made))
CALL(accept_it, rdma_accept(id, NULL))
CALL(reject, rdma_reject(id, NULL, 0))
CALL(reject_ece, rdma_reject_ece(id, NULL, 0))
CALL(establish, rdma_establish(id))
CALL(notify, rdma_notify(id, IBV_EVENT_COMM_EST))
CALL(disconnect, rdma_disconnect(id))
CALL(init_qp_attr, rdma_init_qp_attr(id, &qp_attr, &mask))
CALL(create_qp, rdma_create_qp(id, NULL, &init))
CALL(create_qp_ex, rdma_create_qp_ex(id, &init_ex))
CALL(create_srq, rdma_create_srq(id, NULL, &srq))
CALL(create_srq_ex, rdma_create_srq_ex(id, &srq_ex))
CALL(join, rdma_join_multicast(id, ADDR, NULL))
CALL(join_ex, rdma_join_multicast_ex(id, &join_attr, NULL))
CALL(leave, rdma_leave_multicast(id, ADDR))
CALL(set_option, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, sizeof(word)))
CALL(set_ece, rdma_set_local_ece(id, &ece))
CALL(get_ece, rdma_get_remote_ece(id, &ece))
CALL(migrate, rdma_migrate_id(id, NULL))
CALL(destroy, rdma_destroy_id(id))

/* The calls with arguments that are bad for any id. */
CALL(bind_null, rdma_bind_addr(id, NULL))
CALL(resolve_null, rdma_resolve_addr(id, NULL, NULL, 1))
CALL(option_null, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, NULL, sizeof(word)))
CALL(option_short, rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, 1))
CALL(option_unknown, rdma_set_option(id, 77, 0, &word, sizeof(word)))
CALL(ece_null, rdma_set_local_ece(id, NULL))
CALL(ece_to_null, rdma_get_remote_ece(id, NULL))
CALL(qp_null, rdma_create_qp(id, NULL, NULL))
CALL(qp_ex_null, rdma_create_qp_ex(id, NULL))
CALL(srq_null, rdma_create_srq(id, NULL, NULL))
CALL(srq_ex_null, rdma_create_srq_ex(id, NULL))
CALL(qp_attr_null, rdma_init_qp_attr(id, NULL, &mask))
CALL(qp_mask_null, rdma_init_qp_attr(id, &qp_attr, NULL))
CALL(join_null, rdma_join_multicast(id, NULL, NULL))
CALL(join_ex_null, rdma_join_multicast_ex(id, NULL, NULL))
CALL(leave_null, rdma_leave_multicast(id, NULL))
CALL(leave_none, rdma_leave_multicast(id, (struct sockaddr *)&none))
CALL(request_to_null, rdma_get_request(id, NULL))
CALL(migrate_gone, rdma_migrate_id(id, gone_channel))

/* The errno of a call for a new id, and for an id with a device; 0: the call is not
 * made. */
static const struct row {
	const char *name;
	int (*call)(struct rdma_cm_id *id);
	int new, ready;
} rows[] = {
#define ROW(call, ...) { #call, call, __VA_ARGS__ }
	ROW(bind_addr, 0, EINVAL), ROW(resolve_addr, 0, EINVAL), ROW(resolve_route, EINVAL, EINVAL),
	ROW(connect_it, EINVAL, 0), ROW(listen_on, 0, EINVAL), ROW(get_request, EINVAL, EINVAL),
	ROW(accept_it, EINVAL, EINVAL), ROW(reject, EINVAL, EINVAL), ROW(reject_ece, EINVAL, EINVAL),
	ROW(establish, EINVAL, EINVAL), ROW(notify, EINVAL, EINVAL), ROW(disconnect, EINVAL, EINVAL),
	ROW(init_qp_attr, EINVAL, 0), ROW(create_qp, EINVAL, 0), ROW(create_qp_ex, EINVAL, EINVAL),
	ROW(create_srq, EINVAL, 0), ROW(create_srq_ex, EINVAL, 0),
	ROW(join, EINVAL, EINVAL), ROW(join_ex, EINVAL, EINVAL), ROW(leave, EADDRNOTAVAIL, EADDRNOTAVAIL),
	ROW(set_option, 0, EINVAL), ROW(set_ece, 0, 0), ROW(get_ece, 0, 0), ROW(migrate, 0, 0),
	ROW(bind_null, EINVAL, EINVAL), ROW(resolve_null, EINVAL, EINVAL),
	ROW(option_null, EFAULT, EFAULT), ROW(option_short, EINVAL, EINVAL), ROW(option_unknown, ENOSYS, ENOSYS),
	ROW(ece_null, EINVAL, EINVAL), ROW(ece_to_null, EINVAL, EINVAL),
	ROW(qp_null, EINVAL, EINVAL), ROW(qp_ex_null, EINVAL, EINVAL),
	ROW(srq_null, EINVAL, EINVAL), ROW(srq_ex_null, EINVAL, EINVAL),
	ROW(qp_attr_null, EINVAL, EINVAL), ROW(qp_mask_null, EINVAL, EINVAL),
	ROW(join_null, EINVAL, EAFNOSUPPORT), ROW(join_ex_null, EINVAL, EINVAL),
	ROW(leave_null, EINVAL, EINVAL), ROW(leave_none, EINVAL, EINVAL),
	ROW(request_to_null, EINVAL, EINVAL), ROW(migrate_gone, EBADF, EBADF),
	ROW(destroy, 0, 0), /* must be last */
#undef ROW
};
/* clang-format on */

static void must_fail(const struct row *r, struct rdma_cm_id *id, int want)
{
	int rc;

	if (!want)
		return;
	errno = 0;
	rc = r->call(id);
	if (rc == -1 && errno == want)
		return;
	fprintf(stderr, "%s: %d, errno %d (%s), not %d\n", r->name, rc, errno,
		strerror(errno), want);
	exit(1);
}

static void ids(struct rdma_event_channel *ch)
{
	struct rdma_cm_id *new, *ready, *gone;

	MUST(rdma_create_id(ch, &new, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_create_id(ch, &ready, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_create_id(ch, &gone, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(ready, NULL, ADDR, 1) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(rdma_resolve_route(ready, 1) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	MUST(rdma_destroy_id(gone) == 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const bool args = rows[i].new == EBADF || rows[i].call == request_to_null;

		must_fail(&rows[i], new, rows[i].new);
		must_fail(&rows[i], ready, rows[i].ready);
		if (args) /* the order of these two does not matter */
			continue;
		must_fail(&rows[i], gone, ENOENT);
		must_fail(&rows[i], NULL, ENOENT);
	}
	rdma_destroy_qp(gone);
	rdma_destroy_srq(NULL);
	rdma_destroy_ep(gone);
	MUST(rdma_get_src_port(gone) == 0 && rdma_get_dst_port(NULL) == 0);
	/* The id is as it was before. */
	MUST(rdma_create_qp(ready, NULL, &init) == 0);
	rdma_destroy_qp(ready);
	MUST(rdma_destroy_id(ready) == 0 && rdma_destroy_id(new) == 0);
}

/* A group is left by its own address only. */
static void groups(struct rdma_event_channel *ch, const char *ip)
{
	struct sockaddr_storage a =
		cm_address(strchr(ip, ':') ? "ff12::7" : "239.1.2.7", 0);
	struct rdma_cm_id *id;

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP) == 0);
	MUST(rdma_bind_addr(id, ADDR) == 0);
	if (rdma_join_multicast(id, (struct sockaddr *)&a, NULL) == 0) {
		cm_ack(ch, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
		MUST(rdma_leave_multicast(id, (struct sockaddr *)&none) == -1);
		MUST(errno == EINVAL);
		MUST(rdma_leave_multicast(id, (struct sockaddr *)&a) == 0);
	}
	MUST(rdma_destroy_id(id) == 0);
}

static void channels_and_events(struct rdma_event_channel *ch)
{
	struct rdma_addrinfo hints = { .ai_dst_len = 0 };
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	rdma_destroy_event_channel(gone_channel);
	rdma_destroy_event_channel(NULL);
	MUST(rdma_get_cm_event(gone_channel, &ev) == -1 && errno == EBADF);
	MUST(rdma_get_cm_event(NULL, &ev) == -1 && errno == EINVAL);
	MUST(rdma_get_cm_event(ch, NULL) == -1 && errno == EINVAL);
	MUST(rdma_create_id(gone_channel, &id, NULL, RDMA_PS_TCP) == -1);
	MUST(errno == EBADF);
	MUST(rdma_create_id(ch, NULL, NULL, RDMA_PS_TCP) == -1 && errno == EINVAL);
	MUST(rdma_create_id(ch, &id, NULL, (enum rdma_port_space)7) == -1);
	MUST(errno == EINVAL);
	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, ADDR, 1) == 0);
	ev = cm_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	MUST(rdma_ack_cm_event(ev) == 0);
	MUST(rdma_ack_cm_event(ev) == -1 && errno == EINVAL);
	MUST(rdma_ack_cm_event(NULL) == -1 && errno == EINVAL);
	MUST(rdma_destroy_id(id) == 0);
	MUST(rdma_getaddrinfo("127.0.0.1", NULL, NULL, NULL) == -1 && errno == EINVAL);
	MUST(rdma_create_ep(NULL, &hints, NULL, NULL) == -1 && errno == EINVAL);
	MUST(rdma_create_ep(&id, NULL, NULL, NULL) == -1 && errno == EINVAL);
	MUST(rdma_create_ep(&id, &hints, NULL, NULL) == -1);
	rdma_freeaddrinfo(NULL);
	rdma_free_devices(NULL);
}

int bad(const char *ip, unsigned port)
{
	struct rdma_event_channel *ch = cm_channel();

	at = cm_address(ip, port);
	gone_channel = cm_channel();
	rdma_destroy_event_channel(gone_channel);
	ids(ch);
	groups(ch, ip);
	channels_and_events(ch);
	rdma_destroy_event_channel(ch);
	return 0;
}
