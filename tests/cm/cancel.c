/* SPDX-License-Identifier: BSD-2-Clause */
/* Each call of rdma_cm, made by a thread with a cancellation pending; the rows are the
 * calls in the life of some ids.  Only a call that waits for an event may end the thread;
 * another thread then reads the event. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cm.h"

enum { NEXT = -1, HANG_S = 20 }; /* NEXT: an event of any type */

static const char *ip;
static unsigned port;
static struct rdma_event_channel *ch, *other;
static struct rdma_cm_id *listener, *client, *server, *spare;
static struct rdma_cm_event *ev; /* read and not yet acknowledged */
static struct rdma_addrinfo *info;
static struct ibv_context **devices;
static struct sockaddr_storage at, group;

static struct ibv_qp_init_attr qp_attr(void)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = 4,
			 .max_recv_wr = 4,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
}

/* clang-format off */
/* --- the calls: 0 is success --------------------------------------------- */

static int create_channel(void) { ch = rdma_create_event_channel(); return ch == NULL; }
static int create_other(void) { other = rdma_create_event_channel(); return other == NULL; }
static int destroy_channel(void) { rdma_destroy_event_channel(ch); return 0; }
static int destroy_other(void) { rdma_destroy_event_channel(other); return 0; }
static int get_devices(void) { devices = rdma_get_devices(NULL); return devices == NULL; }
static int free_devices(void) { rdma_free_devices(devices); return 0; }
static int event_str(void) { return strcmp(rdma_event_str(RDMA_CM_EVENT_REJECTED), "RDMA_CM_EVENT_REJECTED"); }
static int create_listener(void) { return rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP); }
static int create_client(void) { return rdma_create_id(ch, &client, NULL, RDMA_PS_TCP); }
static int create_datagram(void) { return rdma_create_id(ch, &spare, NULL, RDMA_PS_UDP); }
static int set_option(void)
{
	uint8_t tos = 0x20;

	return rdma_set_option(client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1);
}

static int set_ece(void)
{
	struct ibv_ece ece = { .vendor_id = 1 };

	return rdma_set_local_ece(client, &ece);
}

static int get_ece(void)
{
	struct ibv_ece ece;

	return rdma_get_remote_ece(client, &ece);
}

static int bind_listener(void) { return rdma_bind_addr(listener, (struct sockaddr *)&at); }
static int listen_1(void) { return rdma_listen(listener, 1); }
static int ports(void) { return rdma_get_src_port(listener) != htons((uint16_t)port) || rdma_get_dst_port(listener) != 0; }
static int resolve_addr(void) { return rdma_resolve_addr(client, NULL, (struct sockaddr *)&at, 1000); }
static int resolve_route(void) { return rdma_resolve_route(client, 1000); }
static int create_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	return rdma_create_srq(client, NULL, &attr);
}

static int create_srq_ex(void)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = 4, .max_sge = 1 },
					     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE,
					     .srq_type = IBV_SRQT_BASIC };

	return rdma_create_srq_ex(client, &attr);
}

static int destroy_srq(void) { rdma_destroy_srq(client); return client->srq != NULL; }
static int create_qp(void)
{
	struct ibv_qp_init_attr attr = qp_attr();

	return rdma_create_qp(client, NULL, &attr);
}

static int create_qp_of_server(void)
{
	struct ibv_qp_init_attr attr = qp_attr();

	return rdma_create_qp(server, NULL, &attr);
}

static int create_qp_ex(void)
{
	struct ibv_qp_init_attr init = qp_attr();
	struct ibv_qp_init_attr_ex attr = { .cap = init.cap, .qp_type = init.qp_type };

	return rdma_create_qp_ex(client, &attr);
}

static int destroy_qp(void) { rdma_destroy_qp(client); return client->qp != NULL; }
static int destroy_qp_of_server(void) { rdma_destroy_qp(server); return server->qp != NULL; }
static int init_qp_attr(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	return rdma_init_qp_attr(client, &attr, &mask);
}

static int connect_client(void) { return rdma_connect(client, NULL); }
/* The program makes its own QP, and only gives the QP's number. */
static int connect_without_qp(void)
{
	struct rdma_conn_param p = { .qp_num = 5 };

	return rdma_connect(client, &p);
}

static int accept_server(void) { return rdma_accept(server, NULL); }
static int accept_without_qp(void)
{
	struct rdma_conn_param p = { .qp_num = 6 };

	return rdma_accept(server, &p);
}

static int reject_server(void) { return rdma_reject(server, NULL, 0); }
static int reject_ece(void) { return rdma_reject_ece(server, NULL, 0); }
static int establish(void) { return rdma_establish(client); }
static int notify(void) { return rdma_notify(server, IBV_EVENT_COMM_EST); }
static int disconnect(void) { return rdma_disconnect(client); }
static int disconnect_server(void) { return rdma_disconnect(server); }
static int migrate(void) { return rdma_migrate_id(client, other); }
static int migrate_back(void) { return rdma_migrate_id(client, ch); }
static int get_event(void) { return rdma_get_cm_event(ch, &ev); }
static int ack_event(void)
{
	int rc = rdma_ack_cm_event(ev);

	ev = NULL;
	return rc;
}

static int destroy_client(void) { return rdma_destroy_id(client); }
static int destroy_server(void) { return rdma_destroy_id(server); }
static int destroy_listener(void) { return rdma_destroy_id(listener); }
static int destroy_datagram(void) { return rdma_destroy_id(spare); }
static int bind_datagram(void)
{
	struct sockaddr_storage a = cm_address(ip, 0);

	return rdma_bind_addr(spare, (struct sockaddr *)&a);
}

static int join(void) { return rdma_join_multicast(spare, (struct sockaddr *)&group, NULL); }
static int join_ex(void)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS |
			     RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};

	return rdma_join_multicast_ex(spare, &attr, NULL);
}

static int leave(void) { return rdma_leave_multicast(spare, (struct sockaddr *)&group); }

/* --- of ids without a channel -------------------------------------------- */

static int find_info(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags | RAI_NUMERICHOST,
				       .ai_port_space = RDMA_PS_TCP };
	char service[16];

	snprintf(service, sizeof(service), "%u", port);
	return rdma_getaddrinfo(ip, service, &hints, &info);
}

static int info_passive(void) { return find_info(RAI_PASSIVE); }
static int info_active(void) { return find_info(0); }
static int free_info(void) { rdma_freeaddrinfo(info); return 0; }
static int ep_passive(void)
{
	struct ibv_qp_init_attr attr = qp_attr();

	return rdma_create_ep(&listener, info, NULL, &attr);
}

static int ep_active(void)
{
	struct ibv_qp_init_attr attr = qp_attr();

	return rdma_create_ep(&client, info, NULL, &attr);
}

static int get_request(void) { return rdma_get_request(listener, &server); }
static int ep_end_listener(void) { rdma_destroy_ep(listener); return 0; }
static int ep_end_client(void) { rdma_destroy_ep(client); return 0; }
static int ep_end_server(void) { rdma_destroy_ep(server); return 0; }
/* clang-format on */
/* --- the table ----------------------------------------------------------- */

/* After a cancelled call its event can be read here. */
static void event_is_there(int type)
{
	MUST(rdma_get_cm_event(ch, &ev) == 0);
	if (type != NEXT && (int)ev->event != type) {
		fprintf(stderr, "got %s\n", rdma_event_str(ev->event));
		exit(1);
	}
	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		server = ev->id;
}

static void client_is_told(int type)
{
	MUST(rdma_get_cm_event(client->channel, &ev) == 0 && (int)ev->event == type);
	MUST(rdma_ack_cm_event(ev) == 0);
}

/* The server's call finds the event that the client has disconnected. */
static void client_has_parted(int type)
{
	MUST(rdma_disconnect(server) == 0);
	client_is_told(type);
}

static void server_is_told(int type)
{
	MUST(rdma_get_cm_event(server->channel, &ev) == 0 && (int)ev->event == type);
	MUST(rdma_ack_cm_event(ev) == 0);
}

static void request_is_there(int type)
{
	(void)type;
	MUST(rdma_get_request(listener, &server) == 0);
}

#define READ(type)                                                                       \
	{                                                                                \
		"rdma_get_cm_event", get_event, event_is_there, type                     \
	}
#define ACK                                                                              \
	{                                                                                \
		"rdma_ack_cm_event", ack_event, NULL, 0                                  \
	}
#define CALL(name, fn)                                                                   \
	{                                                                                \
		"rdma_" #name, fn, NULL, 0                                               \
	}

/* clang-format off */
static const struct row {
	const char *name;
	int (*call)(void);
	/* Called after a cancellation; NULL: the call must return. */
	void (*then)(int type);
	int type;
} with_channel[] = {
	CALL(create_event_channel, create_channel), CALL(create_event_channel, create_other),
	CALL(get_devices, get_devices), CALL(free_devices, free_devices),
	CALL(event_str, event_str),
	CALL(create_id, create_listener), CALL(bind_addr, bind_listener),
	CALL(listen, listen_1), CALL(get_src_port, ports),

	/* A connection. */
	CALL(create_id, create_client), CALL(set_option, set_option),
	CALL(set_local_ece, set_ece), CALL(get_remote_ece, get_ece),
	CALL(resolve_addr, resolve_addr), READ(RDMA_CM_EVENT_ADDR_RESOLVED), ACK,
	CALL(migrate_id, migrate), CALL(migrate_id, migrate_back),
	CALL(resolve_route, resolve_route), READ(RDMA_CM_EVENT_ROUTE_RESOLVED), ACK,
	CALL(create_srq, create_srq), CALL(destroy_srq, destroy_srq),
	CALL(create_srq_ex, create_srq_ex), CALL(destroy_srq, destroy_srq),
	CALL(create_qp_ex, create_qp_ex), CALL(destroy_qp, destroy_qp),
	CALL(create_qp, create_qp), CALL(init_qp_attr, init_qp_attr),
	CALL(connect, connect_client), READ(RDMA_CM_EVENT_CONNECT_REQUEST), ACK,
	CALL(create_qp, create_qp_of_server), CALL(accept, accept_server),
	READ(RDMA_CM_EVENT_ESTABLISHED), ACK, READ(RDMA_CM_EVENT_ESTABLISHED), ACK,
	CALL(notify, notify),
	CALL(disconnect, disconnect), READ(RDMA_CM_EVENT_DISCONNECTED), ACK,
	CALL(disconnect, disconnect_server), READ(RDMA_CM_EVENT_DISCONNECTED), ACK,
	CALL(destroy_qp, destroy_qp), CALL(destroy_id, destroy_client),
	CALL(destroy_qp, destroy_qp_of_server), CALL(destroy_id, destroy_server),

	/* Refusals. */
	CALL(create_id, create_client),
	CALL(resolve_addr, resolve_addr), READ(RDMA_CM_EVENT_ADDR_RESOLVED), ACK,
	CALL(resolve_route, resolve_route), READ(RDMA_CM_EVENT_ROUTE_RESOLVED), ACK,
	CALL(connect, connect_without_qp), READ(RDMA_CM_EVENT_CONNECT_REQUEST), ACK,
	CALL(reject, reject_server), READ(RDMA_CM_EVENT_REJECTED), ACK,
	CALL(destroy_id, destroy_server), CALL(destroy_id, destroy_client),
	CALL(create_id, create_client),
	CALL(resolve_addr, resolve_addr), READ(RDMA_CM_EVENT_ADDR_RESOLVED), ACK,
	CALL(resolve_route, resolve_route), READ(RDMA_CM_EVENT_ROUTE_RESOLVED), ACK,
	CALL(connect, connect_without_qp), READ(RDMA_CM_EVENT_CONNECT_REQUEST), ACK,
	CALL(reject_ece, reject_ece), READ(RDMA_CM_EVENT_REJECTED), ACK,
	CALL(destroy_id, destroy_server), CALL(destroy_id, destroy_client),

	/* Programs that move their QPs themselves. */
	CALL(create_id, create_client),
	CALL(resolve_addr, resolve_addr), READ(RDMA_CM_EVENT_ADDR_RESOLVED), ACK,
	CALL(resolve_route, resolve_route), READ(RDMA_CM_EVENT_ROUTE_RESOLVED), ACK,
	CALL(connect, connect_without_qp), READ(RDMA_CM_EVENT_CONNECT_REQUEST), ACK,
	CALL(accept, accept_without_qp), READ(RDMA_CM_EVENT_CONNECT_RESPONSE), ACK,
	CALL(establish, establish), READ(RDMA_CM_EVENT_ESTABLISHED), ACK,
	CALL(destroy_id, destroy_server), CALL(destroy_id, destroy_client),

	/* Groups. */
	CALL(create_id, create_datagram), CALL(bind_addr, bind_datagram),
	CALL(join_multicast, join), READ(RDMA_CM_EVENT_MULTICAST_JOIN), ACK,
	CALL(leave_multicast, leave),
	CALL(join_multicast_ex, join_ex), READ(RDMA_CM_EVENT_MULTICAST_JOIN), ACK,
	CALL(leave_multicast, leave),
	CALL(destroy_id, destroy_datagram), CALL(destroy_id, destroy_listener),
	CALL(destroy_event_channel, destroy_channel),
	CALL(destroy_event_channel, destroy_other),
}, without[] = {
	CALL(getaddrinfo, info_passive), CALL(create_ep, ep_passive),
	CALL(freeaddrinfo, free_info), CALL(listen, listen_1),
	CALL(getaddrinfo, info_active), CALL(create_ep, ep_active),
	CALL(freeaddrinfo, free_info),
	{ "rdma_connect", connect_client, request_is_there, 0 },
	{ "rdma_accept", accept_server, client_is_told, RDMA_CM_EVENT_ESTABLISHED },
	{ "rdma_get_request", get_request, server_is_told, RDMA_CM_EVENT_ESTABLISHED },
	{ "rdma_disconnect", disconnect, client_has_parted, RDMA_CM_EVENT_DISCONNECTED },
	CALL(destroy_ep, ep_end_client), CALL(destroy_ep, ep_end_server),
	CALL(destroy_ep, ep_end_listener),
};
/* clang-format on */

static const struct row *table, *now;
static volatile int came_back;

static void *about_to_be_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	came_back = now->call() == 0 ? 1 : -1;
	pthread_testcancel();
	return arg;
}

static void hangs(int sig)
{
	char line[80];
	int n = snprintf(line, sizeof(line), "row %zd, %s: hangs\n", now - table,
			 now->name);

	(void)sig;
	_exit(write(STDERR_FILENO, line, (size_t)n) == n ? 1 : 3);
}

static void run(const struct row *rows, size_t n)
{
	table = rows;
	for (now = rows; now < rows + n; now++) {
		pthread_t t;
		void *end;

		came_back = 0;
		MUST(pthread_create(&t, NULL, about_to_be_cancelled, NULL) == 0);
		MUST(pthread_join(t, &end) == 0 && end == PTHREAD_CANCELED);
		if (came_back != !now->then) {
			fprintf(stderr, "row %zd, %s: %s\n", now - table, now->name,
				came_back ? "came back wrong" : "was cancelled");
			exit(1);
		}
		if (now->then)
			now->then(now->type);
	}
}

int cancel(const char *where, unsigned p)
{
	ip = where;
	port = p;
	at = cm_address(ip, port);
	group = cm_address("239.1.2.4", 0);
	signal(SIGALRM, hangs);
	alarm(HANG_S);
	run(with_channel, sizeof(with_channel) / sizeof(with_channel[0]));
	run(without, sizeof(without) / sizeof(without[0]));
	return 0;
}
