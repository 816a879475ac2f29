/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_cm: ids, channels and events. The id is new: it has neither device nor address.
 * tests/cm/bad.c tests calls in states that do not allow them. */
#include "refused.h"

#include <dlfcn.h>
#include <netinet/in.h>
#include <rdma/rdma_verbs.h>

static struct sockaddr_in at = { .sin_family = AF_INET };
static struct sockaddr *const addr = (struct sockaddr *)&at;
static struct sockaddr_storage none;

static void channels(void)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	ANY(rdma_create_event_channel, "no argument");
	OBJECT_VOID(rdma_destroy_event_channel, "channel", events, (o));
	ROW(rdma_get_cm_event, "channel NULL", EINVAL, of_minus, (NULL, &event));
	ROW(rdma_get_cm_event, "channel freed", EBADF, of_minus, (gone.events, &event));
	ROW(rdma_get_cm_event, "event NULL", EINVAL, of_minus, (own.events, NULL));
	ROW(rdma_ack_cm_event, "event NULL", EINVAL, of_minus, (NULL));
	ROW(rdma_ack_cm_event, "event freed", EINVAL, of_minus,
	    ((struct rdma_cm_event *)(void *)gone.id));
	ANY(rdma_get_devices, "num_devices NULL: the list ends with NULL");
	VOID(rdma_free_devices, "list NULL", (NULL));
	ANY(rdma_create_id, "channel NULL: calls wait");
	ANY(rdma_create_id, "context is the program's own");
	ROW(rdma_create_id, "channel freed", EBADF, of_minus,
	    (gone.events, &id, NULL, RDMA_PS_TCP));
	ROW(rdma_create_id, "id NULL", EINVAL, of_minus,
	    (own.events, NULL, NULL, RDMA_PS_TCP));
	ROW(rdma_create_id, "ps unknown", EINVAL, of_minus, (own.events, &id, NULL, 77));
}

static void ids(void)
{
	struct rdma_conn_param param = { .private_data_len = 8 };
	struct rdma_cm_join_mc_attr_ex join = { .comp_mask = 0 };
	struct ibv_ece ece = { 0 };
	int word = 1;

	OBJECT(rdma_destroy_id, "id", id, ENOENT, of_minus, (o));
	OBJECT(rdma_bind_addr, "id", id, ENOENT, of_minus, (o, addr));
	ROW(rdma_bind_addr, "addr NULL", EINVAL, of_minus, (own.id, NULL));
	ROW(rdma_bind_addr, "addr of no family", EAFNOSUPPORT, of_minus,
	    (own.id, (struct sockaddr *)&none));
	OBJECT(rdma_resolve_addr, "id", id, ENOENT, of_minus, (o, NULL, addr, 1));
	ANY(rdma_resolve_addr, "src_addr NULL: any");
	ROW(rdma_resolve_addr, "dst_addr NULL", EINVAL, of_minus,
	    (own.id, NULL, NULL, 1));
	ROW(rdma_resolve_addr, "dst_addr of no family", EAFNOSUPPORT, of_minus,
	    (own.id, NULL, (struct sockaddr *)&none, 1));
	ANY(rdma_resolve_addr, "timeout_ms: it takes no time");
	OBJECT(rdma_resolve_route, "id", id, ENOENT, of_minus, (o, 1));
	ANY(rdma_resolve_route, "timeout_ms: it takes no time");
	OBJECT(rdma_listen, "id", id, ENOENT, of_minus, (o, 1));
	ANY(rdma_listen, "backlog: below 1 is the most");
	OBJECT(rdma_connect, "id", id, ENOENT, of_minus, (o, NULL));
	ANY(rdma_connect, "conn_param NULL: what the QP has");
	ROW(rdma_connect, "conn_param private_data NULL", EINVAL, of_minus,
	    (own.id, &param));
	OBJECT(rdma_accept, "id", id, ENOENT, of_minus, (o, NULL));
	ANY(rdma_accept, "conn_param NULL: what the request asks for");
	ROW(rdma_accept, "conn_param private_data NULL", EINVAL, of_minus,
	    (own.id, &param));
	OBJECT(rdma_reject, "id", id, ENOENT, of_minus, (o, NULL, 0));
	ROW(rdma_reject, "private_data NULL", EINVAL, of_minus, (own.id, NULL, 8));
	ROW(rdma_reject, "private_data_len above", EINVAL, of_minus,
	    (own.id, memory, 255));
	OBJECT(rdma_reject_ece, "id", id, ENOENT, of_minus, (o, NULL, 0));
	ROW(rdma_reject_ece, "private_data NULL", EINVAL, of_minus, (own.id, NULL, 8));
	ROW(rdma_reject_ece, "private_data_len above", EINVAL, of_minus,
	    (own.id, memory, 255));
	OBJECT(rdma_establish, "id", id, ENOENT, of_minus, (o));
	OBJECT(rdma_notify, "id", id, ENOENT, of_minus, (o, IBV_EVENT_COMM_EST));
	ROW(rdma_notify, "event unknown", EINVAL, of_minus, (own.id, 77));
	OBJECT(rdma_disconnect, "id", id, ENOENT, of_minus, (o));
	OBJECT(rdma_join_multicast, "id", id, ENOENT, of_minus, (o, addr, NULL));
	ROW(rdma_join_multicast, "addr NULL", EINVAL, of_minus, (own.id, NULL, NULL));
	ANY(rdma_join_multicast, "context is the program's own");
	OBJECT(rdma_join_multicast_ex, "id", id, ENOENT, of_minus, (o, &join, NULL));
	ROW(rdma_join_multicast_ex, "mc_join_attr NULL", EINVAL, of_minus,
	    (own.id, NULL, NULL));
	ROW(rdma_join_multicast_ex, "mc_join_attr without an address", EINVAL, of_minus,
	    (own.id, &join, NULL));
	ANY(rdma_join_multicast_ex, "context is the program's own");
	OBJECT(rdma_leave_multicast, "id", id, ENOENT, of_minus, (o, addr));
	ROW(rdma_leave_multicast, "addr NULL", EINVAL, of_minus, (own.id, NULL));
	OBJECT(rdma_migrate_id, "id", id, ENOENT, of_minus, (o, own.events));
	ANY(rdma_migrate_id, "channel NULL: calls wait");
	ROW(rdma_migrate_id, "channel freed", EBADF, of_minus, (own.id, gone.events));
	OBJECT(rdma_set_option, "id", id, ENOENT, of_minus,
	       (o, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, sizeof(word)));
	ROW(rdma_set_option, "level unknown", ENOSYS, of_minus,
	    (own.id, 77, 0, &word, sizeof(word)));
	ROW(rdma_set_option, "optname unknown", ENOSYS, of_minus,
	    (own.id, RDMA_OPTION_ID, 77, &word, sizeof(word)));
	ROW(rdma_set_option, "optval NULL", EFAULT, of_minus,
	    (own.id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, NULL, sizeof(word)));
	ROW(rdma_set_option, "optlen 1", EINVAL, of_minus,
	    (own.id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &word, 1));
	OBJECT(rdma_set_local_ece, "id", id, ENOENT, of_minus, (o, &ece));
	ROW(rdma_set_local_ece, "ece NULL", EINVAL, of_minus, (own.id, NULL));
	OBJECT(rdma_get_remote_ece, "id", id, ENOENT, of_minus, (o, &ece));
	ROW(rdma_get_remote_ece, "ece NULL", EINVAL, of_minus, (own.id, NULL));
	OBJECT_VOID(rdma_get_src_port, "id", id, (o));
	OBJECT_VOID(rdma_get_dst_port, "id", id, (o));
}

static void queues(void)
{
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_qp_init_attr_ex init_ex = { .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq = { .attr = { 1, 1, 0 } };
	struct ibv_srq_init_attr_ex srq_ex = { .attr = { 1, 1, 0 } };
	struct ibv_qp_attr attr;
	int mask;

	OBJECT(rdma_create_qp, "id", id, ENOENT, of_minus, (o, NULL, &init));
	ROW(rdma_create_qp, "id without a device", EINVAL, of_minus,
	    (own.id, NULL, &init));
	ANY(rdma_create_qp, "pd NULL: the device's own");
	ROW(rdma_create_qp, "pd freed", EINVAL, of_minus, (own.id, gone.pd, &init));
	ROW(rdma_create_qp, "qp_init_attr NULL", EINVAL, of_minus, (own.id, NULL, NULL));
	OBJECT(rdma_create_qp_ex, "id", id, ENOENT, of_minus, (o, &init_ex));
	ROW(rdma_create_qp_ex, "qp_init_attr NULL", EINVAL, of_minus, (own.id, NULL));
	OBJECT_VOID(rdma_destroy_qp, "id", id, (o));
	OBJECT(rdma_create_srq, "id", id, ENOENT, of_minus, (o, NULL, &srq));
	ANY(rdma_create_srq, "pd NULL: the device's own");
	ROW(rdma_create_srq, "pd freed", EINVAL, of_minus, (own.id, gone.pd, &srq));
	ROW(rdma_create_srq, "attr NULL", EINVAL, of_minus, (own.id, NULL, NULL));
	OBJECT(rdma_create_srq_ex, "id", id, ENOENT, of_minus, (o, &srq_ex));
	ROW(rdma_create_srq_ex, "attr NULL", EINVAL, of_minus, (own.id, NULL));
	OBJECT_VOID(rdma_destroy_srq, "id", id, (o));
	OBJECT(rdma_init_qp_attr, "id", id, ENOENT, of_minus, (o, &attr, &mask));
	ROW(rdma_init_qp_attr, "id without a device", EINVAL, of_minus,
	    (own.id, &attr, &mask));
	ROW(rdma_init_qp_attr, "qp_attr NULL", EINVAL, of_minus, (own.id, NULL, &mask));
	ROW(rdma_init_qp_attr, "qp_attr_mask NULL", EINVAL, of_minus,
	    (own.id, &attr, NULL));
}

/* With an id that has a device, bad arguments are refused by the verbs behind the
 * call. */
static void resolved(void)
{
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 },
					 .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq = { .attr = { 1, 1, 0 } };
	struct rdma_cm_id *id = NULL;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ROW(rdma_create_id, "channel NULL", 0, , (NULL, &id, NULL, RDMA_PS_TCP));
	ROW(rdma_bind_addr, "addr of the host", 0, , (id, addr));
	ROW(rdma_bind_addr, "addr a second time", EINVAL, of_minus, (id, addr));
	ROW(rdma_create_qp, "pd freed, of an id with a device", EINVAL, of_minus,
	    (id, gone.pd, &init));
	ROW(rdma_create_qp, "pd of another context", EINVAL, of_minus,
	    (id, foreign.pd, &init));
	init.send_cq = gone.cq;
	ROW(rdma_create_qp, "qp_init_attr send_cq freed", EINVAL, of_minus,
	    (id, NULL, &init));
	ROW(rdma_create_srq, "pd freed, of an id with a device", EINVAL, of_minus,
	    (id, gone.pd, &srq));
	ROW(rdma_destroy_id, "id of the last", 0, , (id));
}

static void endpoints(void)
{
	struct rdma_addrinfo hints = { 0 }, *info;
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	struct rdma_cm_id *id;

	ANY(rdma_getaddrinfo, "hints NULL: none");
	ROW(rdma_getaddrinfo, "node NULL, and all else", EINVAL, of_minus,
	    (NULL, NULL, NULL, &info));
	ANY(rdma_getaddrinfo, "service NULL: any port");
	ROW(rdma_getaddrinfo, "res NULL", EINVAL, of_minus, ("::1", NULL, NULL, NULL));
	VOID(rdma_freeaddrinfo, "res NULL", (NULL));
	ROW(rdma_create_ep, "id NULL", EINVAL, of_minus, (NULL, &hints, NULL, NULL));
	ROW(rdma_create_ep, "res NULL", EINVAL, of_minus, (&id, NULL, NULL, NULL));
	ANY(rdma_create_ep, "pd NULL: the device's own");
	ROW(rdma_create_ep, "pd freed", EINVAL, of_minus, (&id, &hints, gone.pd, &init));
	ANY(rdma_create_ep, "qp_init_attr NULL: no queue pair");
	OBJECT_VOID(rdma_destroy_ep, "id", id, (o));
	OBJECT(rdma_get_request, "listen", id, ENOENT, of_minus, (o, &id));
	ROW(rdma_get_request, "listen that does not", EINVAL, of_minus, (own.id, &id));
	ROW(rdma_get_request, "id NULL", EINVAL, of_minus, (own.id, NULL));
}

/* Of newer releases of rdma-core: Debian's rdma_cma.h does not have them. */
static void newer(void)
{
	int (*resolve)(void *id, const char *node, const char *service, void *hints) =
		dlvsym(RTLD_DEFAULT, "rdma_resolve_addrinfo", "RDMACM_1.4");
	int (*query)(void *id, struct rdma_addrinfo **info) =
		dlvsym(RTLD_DEFAULT, "rdma_query_addrinfo", "RDMACM_1.4");
	int (*write_event)(void *id, int event, int status, uint64_t arg) =
		dlvsym(RTLD_DEFAULT, "rdma_write_cm_event", "RDMACM_1.4");
	void *o[] = { NULL, gone.id };
	struct rdma_addrinfo *info;

	for (int i = 0; i < 2; i++) {
		const char *which = i ? "id freed" : "id NULL";

		ROW_OF("rdma_resolve_addrinfo", which, ENOENT, of_minus,
		       resolve(o[i], "::1", NULL, NULL));
		ROW_OF("rdma_query_addrinfo", which, ENOENT, of_minus,
		       query(o[i], &info));
		ROW_OF("rdma_write_cm_event", which, ENOENT, of_minus,
		       write_event(o[i], 18, 0, 1));
	}
	ROW_OF("rdma_resolve_addrinfo", "node NULL, and all else", EINVAL, of_minus,
	       resolve(own.id, NULL, NULL, NULL));
	ROW_OF("rdma_query_addrinfo", "info NULL", EINVAL, of_minus, query(own.id, NULL));
	ROW_OF("rdma_query_addrinfo", "info of no name", EINVAL, of_minus,
	       query(own.id, &info));
	ROW_OF("rdma_write_cm_event", "event unknown", EINVAL, of_minus,
	       write_event(own.id, 77, 0, 1));
}

void cm_rows(void)
{
	channels();
	ids();
	queues();
	resolved();
	endpoints();
	newer();
}
