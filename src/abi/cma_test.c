/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported calls of rdma_cm, over a src/rdmacm that only records its calls: which
 * function is called with which arguments, that ids are looked up first, and errno. */
#include "abi/rdmacm.h"

#include <rdma/rdma_verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/addrinfo.h"
#include "rdmacm/bind.h"
#include "rdmacm/cma_event.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/connect.h"
#include "rdmacm/ep.h"
#include "rdmacm/group.h"
#include "rdmacm/id.h"
#include "rdmacm/resolve.h"

/* Not in Debian 12's <rdma/rdma_cma.h>. */
int rdma_resolve_addrinfo(struct rdma_cm_id *i, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *i, struct rdma_addrinfo **res);
int rdma_write_cm_event(struct rdma_cm_id *i, enum rdma_cm_event_type event, int status,
			uint64_t arg);

static char told[64];
static int answer, awaited = -1;
static bool in_gai; /* *eai of cma_getaddrinfo() */

/* The objects and arguments of the calls, which must reach the functions unchanged. */
static struct cma_id id, made, gone;
static struct cma_channel channel, gone_channel, made_channel;
static struct cma_event event, gone_event;
static struct ibv_context context, *device_list[1] = { &context };
static struct sockaddr src, dst;
static struct rdma_conn_param param;
static struct ibv_qp_attr attr;
static struct ibv_qp_init_attr init;
static struct ibv_qp_init_attr_ex init_ex;
static struct ibv_srq_init_attr srq_init;
static struct ibv_srq_init_attr_ex srq_init_ex;
static struct ibv_pd pd;
static struct ibv_ece ece;
static struct rdma_cm_join_mc_attr_ex join;
static struct rdma_addrinfo info, *found;
static int mask, option;

static int tell(const char *what)
{
	assert_int_equal(held.depth, 1);
	snprintf(told + strlen(told), sizeof(told) - strlen(told), "%s%s",
		 *told ? " " : "", what);
	return answer;
}

static void was_told(const char *what)
{
	assert_string_equal(told, what);
	told[0] = '\0';
}

#define IS(got, what) assert_true((got) == (what))

/* Defines a fake function; checks: of its arguments except the id. */
#define FAKE(name, args, checks)                                                         \
	int name args                                                                    \
	{                                                                                \
		checks;                                                                  \
		return tell(#name);                                                      \
	}
#define FAKE_VOID(name, args, checks)                                                    \
	void name args                                                                   \
	{                                                                                \
		checks;                                                                  \
		tell(#name);                                                             \
	}

/* clang-format off */
FAKE(cma_init, (void), )
FAKE(cma_complete, (struct cma_id *i, int rc, enum rdma_cm_event_type ev), IS(i, &id); IS(rc, answer); awaited = (int)ev)
FAKE(cma_migrate, (struct cma_id *i, struct rdma_event_channel *ch), IS(i, &id); IS(ch, &channel.ch))
FAKE(cma_write_event, (struct cma_id *i, enum rdma_cm_event_type e, int s, uint64_t a),
	IS(i, &id); IS(e, RDMA_CM_EVENT_USER); IS(s, 6); IS(a, 1ull << 40))
FAKE(cma_query_addrinfo, (const struct cma_id *i, struct rdma_addrinfo **r), IS(i, &id); IS(r, &found))
FAKE(cma_resolve_addrinfo, (struct cma_id *i, const char *n, const char *s, const struct rdma_addrinfo *h),
	IS(i, &id); assert_string_equal(n, "node"); assert_string_equal(s, "service"); IS(h, &info))
FAKE(cma_set_option, (struct cma_id *i, int level, int name, const void *val, size_t len),
	IS(i, &id); IS(level, 1); IS(name, 2); IS(val, &option); IS(len, 4))
FAKE(cma_set_ece, (struct cma_id *i, const struct ibv_ece *e), IS(i, &id); IS(e, &ece))
FAKE(cma_get_ece, (const struct cma_id *i, struct ibv_ece *e), IS(i, &id); IS(e, &ece))
FAKE(cma_bind, (struct cma_id *i, const struct sockaddr *a), IS(i, &id); IS(a, &src))
FAKE(cma_resolve_addr, (struct cma_id *i, const struct sockaddr *s, const struct sockaddr *d),
	IS(i, &id); IS(s, &src); IS(d, &dst))
FAKE(cma_resolve_route, (struct cma_id *i, int ms), IS(i, &id); IS(ms, 5))
FAKE(cma_listen, (struct cma_id *i, int backlog), IS(i, &id); IS(backlog, 7))
FAKE(cma_connect, (struct cma_id *i, const struct rdma_conn_param *c), IS(i, &id); IS(c, &param))
FAKE(cma_accept, (struct cma_id *i, const struct rdma_conn_param *c), IS(i, &id); IS(c, &param))
FAKE(cma_reject, (struct cma_id *i, uint16_t reason, const void *data, uint8_t len),
	IS(i, &id); IS(data, &option); IS(len, 3); option = reason)
FAKE(cma_establish, (struct cma_id *i), IS(i, &id))
FAKE(cma_notify, (struct cma_id *i, enum ibv_event_type e), IS(i, &id); IS(e, IBV_EVENT_COMM_EST))
FAKE(cma_disconnect, (struct cma_id *i), IS(i, &id))
FAKE(cma_destroy, (struct cma_id *i), IS(i, &id))
FAKE(cma_qp_attr, (struct cma_id *i, struct ibv_qp_attr *a, int *m), IS(i, &id); IS(a, &attr); IS(m, &mask))
FAKE(cma_create_qp, (struct cma_id *i, struct ibv_qp_init_attr_ex *a), IS(i, &id); IS(a, &init_ex))
FAKE(cma_create_qp_of, (struct cma_id *i, struct ibv_pd *p, struct ibv_qp_init_attr *a),
	IS(i, &id); IS(p, &pd); IS(a, &init))
FAKE(cma_destroy_qp, (struct cma_id *i), IS(i, &id))
FAKE(cma_create_srq, (struct cma_id *i, struct ibv_srq_init_attr_ex *a), IS(i, &id); IS(a, &srq_init_ex))
FAKE(cma_create_srq_of, (struct cma_id *i, struct ibv_pd *p, struct ibv_srq_init_attr *a),
	IS(i, &id); IS(p, &pd); IS(a, &srq_init))
FAKE(cma_destroy_srq, (struct cma_id *i), IS(i, &id))
FAKE(cma_join, (struct cma_id *i, const struct sockaddr *a, bool send_only, void *c),
	IS(i, &id); IS(a, &dst); IS(send_only, false); IS(c, &option))
FAKE(cma_join_ex, (struct cma_id *i, const struct rdma_cm_join_mc_attr_ex *a, void *c),
	IS(i, &id); IS(a, &join); IS(c, &option))
FAKE(cma_set_path, (struct cma_id *i, const void *val, size_t len),
	IS(i, &id); IS(val, &option); assert_int_equal(len, 7))
FAKE(cma_leave, (struct cma_id *i, const struct sockaddr *a), IS(i, &id); IS(a, &dst))
FAKE(cma_destroy_ep, (struct cma_id *i), IS(i, &id))
FAKE_VOID(cma_channel_free, (struct cma_channel *ch), IS(ch, &channel))
FAKE_VOID(cma_done, (struct cma_event *e), IS(e, &event))
/* clang-format on */

static int refusals; /* lines in the log */

int cma_refuse(const char *why)
{
	assert_null(why);
	return 0;
}

void cma_say_refused(const struct cma_id *i, const char *call, const struct sockaddr *a,
		     int rc)
{
	assert_true(!i || i == &id);
	assert_memory_equal(call, "rdma_", 5);
	assert_true(!a || a == &src || a == &dst);
	assert_true(rc < 0);
	refusals++;
}

struct ibv_context **cma_devices(int *num)
{
	tell("cma_devices");
	if (num)
		*num = 1;
	return device_list;
}

struct cma_channel *cma_channel_new(void)
{
	errno = EMFILE;
	return tell("cma_channel_new") == -1 ? NULL : &made_channel;
}

int cma_get_event(struct cma_channel *ch, struct cma_event **out)
{
	IS(ch, &channel);
	*out = &event;
	return tell("cma_get_event");
}

const char *cma_event_name(enum rdma_cm_event_type e)
{
	return e == RDMA_CM_EVENT_REJECTED ? "the name" : "";
}

int cma_create(struct rdma_event_channel *ch, void *arg, enum rdma_port_space ps,
	       struct cma_id **out)
{
	IS(ch, &channel.ch);
	IS(arg, &option);
	IS(ps, RDMA_PS_UDP);
	*out = &made;
	return tell("cma_create");
}

int cma_get_request(struct cma_id *listener, struct cma_id **out)
{
	IS(listener, &id);
	*out = &made;
	return tell("cma_get_request");
}

int cma_getaddrinfo(const char *node, const char *service,
		    const struct rdma_addrinfo *hints, struct rdma_addrinfo **res,
		    bool *eai)
{
	assert_string_equal(node, "node");
	assert_string_equal(service, "service");
	IS(hints, &info);
	assert_non_null(res);
	*eai = in_gai;
	return tell("cma_getaddrinfo");
}

void cma_freeaddrinfo(struct rdma_addrinfo *res)
{
	IS(res, &info);
	strcpy(told, "cma_freeaddrinfo");
}

int cma_create_ep(const struct rdma_addrinfo *res, struct ibv_pd *p,
		  struct ibv_qp_init_attr *a, struct cma_id **out)
{
	IS(res, &info);
	IS(p, &pd);
	IS(a, &init);
	*out = &made;
	return tell("cma_create_ep");
}

/* --- calls on an id -------------------------------------------------------------- */

#define CALL(name, call)                                                                 \
	static int name(struct rdma_cm_id *i)                                            \
	{                                                                                \
		return call;                                                             \
	}

static struct rdma_cm_id *out;

CALL(destroy_id, rdma_destroy_id(i))
CALL(migrate, rdma_migrate_id(i, &channel.ch))
CALL(set_option, rdma_set_option(i, 1, 2, &option, 4))
CALL(set_ece, rdma_set_local_ece(i, &ece))
CALL(get_ece, rdma_get_remote_ece(i, &ece))
CALL(bind_addr, rdma_bind_addr(i, &src))
CALL(resolve_addr, rdma_resolve_addr(i, &src, &dst, 5))
CALL(resolve_route, rdma_resolve_route(i, 5))
CALL(resolve_info, rdma_resolve_addrinfo(i, "node", "service", &info))
CALL(query_info, rdma_query_addrinfo(i, &found))
CALL(write_event, rdma_write_cm_event(i, RDMA_CM_EVENT_USER, 6, 1ull << 40))
CALL(listen_, rdma_listen(i, 7))
CALL(get_request, rdma_get_request(i, &out))
CALL(connect_, rdma_connect(i, &param))
CALL(accept_, rdma_accept(i, &param))
CALL(reject, rdma_reject(i, &option, 3))
CALL(reject_ece, rdma_reject_ece(i, &option, 3))
CALL(establish, rdma_establish(i))
CALL(notify, rdma_notify(i, IBV_EVENT_COMM_EST))
CALL(disconnect, rdma_disconnect(i))
CALL(qp_attr, rdma_init_qp_attr(i, &attr, &mask))
CALL(create_qp_ex, rdma_create_qp_ex(i, &init_ex))
CALL(create_qp, rdma_create_qp(i, &pd, &init))
CALL(create_srq_ex, rdma_create_srq_ex(i, &srq_init_ex))
CALL(create_srq, rdma_create_srq(i, &pd, &srq_init))
CALL(join_group, rdma_join_multicast(i, &dst, &option))
CALL(join_group_ex, rdma_join_multicast_ex(i, &join, &option))
CALL(leave_group, rdma_leave_multicast(i, &dst))
/* The next calls return nothing, so 0 stands for their result. */
CALL(destroy_qp, (rdma_destroy_qp(i), 0))
CALL(destroy_srq, (rdma_destroy_srq(i), 0))
CALL(destroy_ep, (rdma_destroy_ep(i), 0))
CALL(src_port, rdma_get_src_port(i))

static const struct row {
	int (*call)(struct rdma_cm_id *i);
	const char *room;
	int awaited;  /* the event that follows and tells the result; -1: none */
	bool nothing; /* returns nothing: only errno tells */
	bool silent;  /* a failure leaves no line in the log */
} rows[] = {
	{ destroy_id, "cma_destroy", -1, false, true },
	{ migrate, "cma_migrate", -1, false, false },
	{ set_option, "cma_set_option", -1, false, false },
	{ set_ece, "cma_set_ece", -1, false, false },
	{ get_ece, "cma_get_ece", -1, false, false },
	{ bind_addr, "cma_bind", -1, false, false },
	{ resolve_addr, "cma_resolve_addr", RDMA_CM_EVENT_ADDR_RESOLVED, false, false },
	{ resolve_route, "cma_resolve_route", RDMA_CM_EVENT_ROUTE_RESOLVED, false,
	  false },
	{ resolve_info, "cma_resolve_addrinfo", RDMA_CM_EVENT_ADDRINFO_RESOLVED, false,
	  false },
	{ query_info, "cma_query_addrinfo", -1, false, false },
	{ write_event, "cma_write_event", -1, false, false },
	{ listen_, "cma_listen", -1, false, false },
	{ get_request, "cma_get_request", -1, false, true },
	{ connect_, "cma_connect", RDMA_CM_EVENT_ESTABLISHED, false, false },
	{ accept_, "cma_accept", RDMA_CM_EVENT_ESTABLISHED, false, false },
	{ reject, "cma_reject", -1, false, false },
	{ reject_ece, "cma_reject", -1, false, false },
	{ establish, "cma_establish", -1, false, false },
	{ notify, "cma_notify", -1, false, false },
	{ disconnect, "cma_disconnect", RDMA_CM_EVENT_DISCONNECTED, false, false },
	{ qp_attr, "cma_qp_attr", -1, false, false },
	{ create_qp_ex, "cma_create_qp", -1, false, false },
	{ create_qp, "cma_create_qp_of", -1, false, false },
	{ create_srq_ex, "cma_create_srq", -1, false, false },
	{ create_srq, "cma_create_srq_of", -1, false, false },
	{ join_group, "cma_join", RDMA_CM_EVENT_MULTICAST_JOIN, false, false },
	{ join_group_ex, "cma_join_ex", RDMA_CM_EVENT_MULTICAST_JOIN, false, false },
	{ leave_group, "cma_leave", -1, false, false },
	{ destroy_qp, "cma_destroy_qp", -1, true, true },
	{ destroy_srq, "cma_destroy_srq", -1, true, true },
	{ destroy_ep, "cma_destroy_ep", -1, true, true },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void answers(int rc, int err)
{
	assert_int_equal(rc, err ? -1 : 0);
	assert_int_equal(errno, err);
	assert_int_equal(held.depth, 0);
}

static void calls_on_an_id(void **state)
{
	char expected[64];
	int rc;

	(void)state;
	for (size_t i = 0; i < ROWS; i++)
		for (answer = 0; answer >= -EBUSY; answer -= EBUSY) {
			errno = 0;
			rc = rows[i].call(&id.id);
			answers(rows[i].nothing && answer ? -1 : rc, -answer);
			snprintf(expected, sizeof(expected), "%s%s", rows[i].room,
				 rows[i].awaited < 0 ? "" : " cma_complete");
			was_told(expected);
			assert_int_equal(awaited, rows[i].awaited);
			awaited = -1;
			assert_int_equal(refusals, answer && !rows[i].silent);
			refusals = 0;
		}
}

static void calls_on_none(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		errno = 0;
		assert_int_equal(rows[i].call(NULL), rows[i].nothing ? 0 : -1);
		assert_int_equal(errno, ENOENT);
		errno = 0;
		assert_int_equal(rows[i].call(&gone.id), rows[i].nothing ? 0 : -1);
		assert_int_equal(errno, ENOENT);
		assert_int_equal(held.depth, 0);
	}
	errno = 0;
	assert_int_equal(src_port(NULL), 0);
	assert_int_equal(errno, ENOENT);
	was_told("");
}

/* The peer is told which of the two rejects it is. */
static void reasons(void **state)
{
	(void)state;
	reject(&id.id);
	assert_int_equal(option, CM_REJ_CONSUMER);
	reject_ece(&id.id);
	assert_int_equal(option, CM_REJ_VENDOR_OPTION);
}

/* A required pointer is NULL. */
static void missing(void **state)
{
	(void)state;
	errno = 0;
	answers(rdma_create_qp(&id.id, &pd, NULL), EINVAL);
	answers(rdma_create_srq(&id.id, &pd, NULL), EINVAL);
	answers(rdma_init_qp_attr(&id.id, NULL, &mask), EINVAL);
	answers(rdma_init_qp_attr(&id.id, &attr, NULL), EINVAL);
	id.id.verbs = NULL;
	answers(rdma_init_qp_attr(&id.id, &attr, &mask), EINVAL);
	answers(rdma_get_request(&id.id, NULL), EINVAL);
	answers(rdma_create_id(&channel.ch, NULL, NULL, RDMA_PS_TCP), EINVAL);
	answers(rdma_get_cm_event(NULL, &(struct rdma_cm_event *){ NULL }), EINVAL);
	answers(rdma_get_cm_event(&channel.ch, NULL), EINVAL);
	answers(rdma_ack_cm_event(NULL), EINVAL);
	answers(rdma_ack_cm_event(&gone_event.ev), EINVAL);
	answers(rdma_getaddrinfo("node", "service", &info, NULL), EINVAL);
	answers(rdma_query_addrinfo(&id.id, NULL), EINVAL);
	answers(rdma_create_ep(NULL, &info, &pd, &init), EINVAL);
	answers(rdma_create_ep(&out, NULL, &pd, &init), EINVAL);
	rdma_destroy_event_channel(NULL);
	was_told("");
}

/* --- calls that make an object ------------------------------------------- */

static void ids(void **state)
{
	(void)state;
	for (answer = 0; answer >= -EBUSY; answer -= EBUSY) {
		struct rdma_cm_id *expected = answer ? NULL : &made.id;

		errno = 0;
		out = NULL;
		answers(rdma_create_id(&channel.ch, &out, &option, RDMA_PS_UDP), -answer);
		was_told("cma_create");
		assert_ptr_equal(out, expected);
		errno = 0;
		out = NULL;
		answers(rdma_get_request(&id.id, &out), -answer);
		was_told("cma_get_request");
		assert_ptr_equal(out, expected);
		errno = 0;
		out = NULL;
		answers(rdma_create_ep(&out, &info, &pd, &init), -answer);
		was_told("cma_create_ep");
		assert_ptr_equal(out, expected);
	}
}

static void channels(void **state)
{
	struct rdma_cm_event *e = NULL;

	(void)state;
	assert_ptr_equal(rdma_create_event_channel(), &made_channel.ch);
	was_told("cma_init cma_channel_new");
	answer = -EBUSY;
	assert_null(rdma_create_event_channel());
	assert_int_equal(errno, EBUSY);
	was_told("cma_init");
	errno = 0;
	answers(rdma_get_cm_event(&channel.ch, &e), EBUSY);
	assert_null(e);
	was_told("cma_get_event");
	answer = 0;
	errno = 0;
	answers(rdma_get_cm_event(&channel.ch, &e), 0);
	assert_ptr_equal(e, &event.ev);
	was_told("cma_get_event");
	answers(rdma_ack_cm_event(e), 0);
	was_told("cma_done");
	rdma_destroy_event_channel(&channel.ch);
	was_told("cma_channel_free");
	assert_int_equal(held.depth, 0);
	assert_string_equal(rdma_event_str(RDMA_CM_EVENT_REJECTED), "the name");
}

static void no_channel(void **state)
{
	struct rdma_cm_event *e;

	(void)state;
	errno = 0;
	answers(rdma_create_id(&gone_channel.ch, &out, NULL, RDMA_PS_TCP), EBADF);
	answers(rdma_migrate_id(&id.id, &gone_channel.ch), EBADF);
	answers(rdma_get_cm_event(&gone_channel.ch, &e), EBADF);
	rdma_destroy_event_channel(&gone_channel.ch);
	was_told("");
}

static void devices(void **state)
{
	int n = 7;

	(void)state;
	assert_ptr_equal(rdma_get_devices(&n), device_list);
	assert_int_equal(n, 1);
	was_told("cma_init cma_devices");
	assert_non_null(rdma_get_devices(NULL));
	was_told("cma_init cma_devices");
	answer = -EBUSY;
	assert_null(rdma_get_devices(&n));
	assert_int_equal(errno, EBUSY);
	assert_int_equal(n, 0);
	was_told("cma_init");
	rdma_free_devices(calloc(1, 8));
	assert_int_equal(held.depth, 0);
}

static void ports(void **state)
{
	(void)state;
	((struct sockaddr_in *)&id.id.route.addr.src_addr)->sin_port = 0x1234;
	((struct sockaddr_in *)&id.id.route.addr.dst_addr)->sin_port = 0x5678;
	assert_int_equal(rdma_get_src_port(&id.id), 0x1234);
	assert_int_equal(rdma_get_dst_port(&id.id), 0x5678);
	assert_int_equal(held.depth, 0);
}

/* getaddrinfo()'s errors are no errno values. */
static void names(void **state)
{
	struct rdma_addrinfo *res;
	(void)state;
	errno = 0;
	answers(rdma_getaddrinfo("node", "service", &info, &res), 0);
	answer = -ENOMEM;
	answers(rdma_getaddrinfo("node", "service", &info, &res), ENOMEM);
	in_gai = true;
	answer = -2;
	errno = 0;
	assert_int_equal(rdma_getaddrinfo("node", "service", &info, &res), -2);
	assert_int_equal(errno, 0);
	assert_int_equal(held.depth, 0);
	in_gai = false;
	rdma_freeaddrinfo(&info);
	assert_string_equal(told, "cma_freeaddrinfo");
}

static int begin(void **state)
{
	(void)state;
	answer = 0;
	told[0] = '\0';
	id.id.verbs = &context;
	live_add(&id.live, LIVE_CM_ID, NULL);
	live_add(&channel.live, LIVE_CM_CHANNEL, NULL);
	live_add(&event.live, LIVE_CM_EVENT, NULL);
	return 0;
}

static int end(void **state)
{
	(void)state;
	live_del(&id.live);
	live_del(&channel.live);
	live_del(&event.live);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(calls_on_an_id, begin, end),
		cmocka_unit_test_setup_teardown(calls_on_none, begin, end),
		cmocka_unit_test_setup_teardown(reasons, begin, end),
		cmocka_unit_test_setup_teardown(missing, begin, end),
		cmocka_unit_test_setup_teardown(ids, begin, end),
		cmocka_unit_test_setup_teardown(channels, begin, end),
		cmocka_unit_test_setup_teardown(no_channel, begin, end),
		cmocka_unit_test_setup_teardown(devices, begin, end),
		cmocka_unit_test_setup_teardown(ports, begin, end),
		cmocka_unit_test_setup_teardown(names, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
