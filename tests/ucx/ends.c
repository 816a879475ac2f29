/* SPDX-License-Identifier: BSD-2-Clause */
/* ends data|killed serve|ask ADDRESS PORT: two ends over UCX's rc_verbs and ud_verbs, in
 * place of its gtest, which Debian has not.  Addresses and keys go by TCP. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#define MUST(cond)                                                                       \
	do {                                                                             \
		if (!(cond)) {                                                           \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);       \
			exit(1);                                                         \
		}                                                                        \
	} while (0)
#define OK(call)                                                                         \
	do {                                                                             \
		ucs_status_t st_ = (call);                                               \
		if (st_ != UCS_OK) {                                                     \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,    \
				ucs_status_string(st_));                                 \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

enum { ROOM = 8 << 20, WAIT_S = 60, ROUNDS = 100, PLACED = 100000 };

static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucs_status_t ended; /* status that the callback got */
static uint8_t *room;	   /* ROOM bytes that the other side may access */
static bool serves;
static int tcp;

/* --- by TCP -------------------------------------------------------------- */

static void reach(const char *ip, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons((uint16_t)atoi(port)) };
	int l = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	MUST(inet_pton(AF_INET, ip, &a.sin_addr) == 1);
	if (!serves) {
		tcp = l;
		MUST(!connect(l, (struct sockaddr *)&a, sizeof(a)));
		return;
	}
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	MUST(!bind(l, (struct sockaddr *)&a, sizeof(a)) && !listen(l, 1));
	puts("listening");
	fflush(stdout);
	tcp = accept(l, NULL, NULL);
	MUST(tcp >= 0 && !close(l));
}

static void give(const void *what, size_t len)
{
	MUST(write(tcp, &len, sizeof(len)) == sizeof(len));
	MUST(write(tcp, what, len) == (ssize_t)len);
}

static void *get(void)
{
	size_t len;
	void *what;

	MUST(recv(tcp, &len, sizeof(len), MSG_WAITALL) == sizeof(len));
	what = malloc(len);
	MUST(what && recv(tcp, what, len, MSG_WAITALL) == (ssize_t)len);
	return what;
}

/* --- UCX ------------------------------------------------------------------ */

static void on_end(void *arg, ucp_ep_h which, ucs_status_t status)
{
	(void)arg;
	MUST(which == ep);
	ended = status;
}

static ucs_status_t wait_for(void *request)
{
	const time_t end = time(NULL) + WAIT_S;
	ucs_status_t status = UCS_OK;

	if (UCS_PTR_IS_ERR(request))
		return UCS_PTR_STATUS(request);
	if (!request)
		return UCS_OK;
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
		MUST(time(NULL) < end);
		ucp_worker_progress(worker);
	}
	ucp_request_free(request);
	return status;
}

/* UCX has to carry out atomics itself, since it wants more kinds of them than an RNIC
 * without extensions has.  Release 1.18 does not do that where it looks after ends that
 * fail. */
#if UCP_API_VERSION < UCP_VERSION(1, 18)
#define OF_DATA UCP_ERR_HANDLING_MODE_PEER
#else
#define OF_DATA UCP_ERR_HANDLING_MODE_NONE
#endif

/* ends: the other one will be killed. */
static void begin(bool ends)
{
	ucp_params_t p = { .field_mask = UCP_PARAM_FIELD_FEATURES,
			   .features = UCP_FEATURE_TAG | UCP_FEATURE_RMA |
				       UCP_FEATURE_AMO64 };
	ucp_worker_params_t w = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				  .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucp_ep_params_t e = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
					    UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
					    UCP_EP_PARAM_FIELD_ERR_HANDLER,
			      .err_mode = ends ? UCP_ERR_HANDLING_MODE_PEER : OF_DATA,
			      .err_handler.cb = on_end };
	ucp_address_t *mine, *theirs;
	ucp_config_t *config;
	size_t len;

	OK(ucp_config_read(NULL, NULL, &config));
	OK(ucp_init(&p, config, &context));
	ucp_config_release(config);
	OK(ucp_worker_create(context, &w, &worker));
	OK(ucp_worker_get_address(worker, &mine, &len));
	give(mine, len);
	ucp_worker_release_address(worker, mine);
	theirs = get();
	e.address = theirs;
	OK(ucp_ep_create(worker, &e, &ep));
	free(theirs);
}

/* Both are done; each answers the other until then. */
static void finish(void)
{
	ucp_request_param_t p = { 0 }, force = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
						 .flags = UCP_EP_CLOSE_FLAG_FORCE };
	char byte = 0;

	OK(wait_for(ucp_ep_flush_nbx(ep, &p)));
	MUST(write(tcp, &byte, 1) == 1);
	while (recv(tcp, &byte, 1, MSG_DONTWAIT) != 1)
		ucp_worker_progress(worker);
	MUST(ended == UCS_OK);
	(void)wait_for(ucp_ep_close_nbx(ep, &force));
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

static void say(const void *what, size_t len)
{
	ucp_request_param_t p = { 0 };

	OK(wait_for(ucp_tag_send_nbx(ep, what, len, 7, &p)));
}

static void hear(void *to, size_t len)
{
	ucp_request_param_t p = { 0 };

	OK(wait_for(ucp_tag_recv_nbx(worker, to, len, 7, UINT64_MAX, &p)));
}

/* --- messages -------------------------------------------------------------- */

static void fill(uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(i * 31 + seed);
}

static bool is_filled(const uint8_t *at, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		if (at[i] != (uint8_t)(i * 31 + seed))
			return false;
	return true;
}

/* Short messages, and long ones that the receiver fetches. */
static void messages(void)
{
	static const size_t sizes[] = { 0, 1, 1000, 30000, 300000, ROOM };

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		if (serves) {
			hear(room, sizes[i]);
			MUST(is_filled(room, sizes[i], i));
		}
		fill(room, sizes[i], i + (serves ? 100 : 0));
		say(room, sizes[i]);
		if (!serves) {
			hear(room, sizes[i]);
			MUST(is_filled(room, sizes[i], i + 100));
		}
	}
}

/* --- memory ----------------------------------------------------------------- */

static void flush(void)
{
	ucp_request_param_t p = { 0 };

	OK(wait_for(ucp_ep_flush_nbx(ep, &p)));
}

static void place(uint64_t to, ucp_rkey_h key)
{
	ucp_request_param_t p = { 0 };

	for (unsigned i = 0; i < ROUNDS; i++) {
		fill(room, PLACED, i);
		OK(wait_for(ucp_put_nbx(ep, room, PLACED, to + 64, key, &p)));
		flush();
		memset(room, 0xff, PLACED);
		OK(wait_for(ucp_get_nbx(ep, room, PLACED, to + 64, key, &p)));
		MUST(is_filled(room, PLACED, i));
	}
}

static uint64_t atomic(ucp_atomic_op_t op, uint64_t value, uint64_t reply, uint64_t to,
		       ucp_rkey_h key)
{
	ucp_request_param_t p = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE |
						  UCP_OP_ATTR_FIELD_REPLY_BUFFER,
				  .datatype = ucp_dt_make_contig(8),
				  .reply_buffer = &reply };

	OK(wait_for(ucp_atomic_op_nbx(ep, op, &value, 1, to, key, &p)));
	return reply;
}

static void count(uint64_t to, ucp_rkey_h key)
{
	const ucp_atomic_op_t add = UCP_ATOMIC_OP_ADD, swap = UCP_ATOMIC_OP_CSWAP;

	for (unsigned i = 0; i < ROUNDS; i++)
		MUST(atomic(add, 3, 0, to, key) == 3 * i);
	/* before the reply its place holds the old value */
	MUST(atomic(swap, 3 * ROUNDS, 42, to, key) == 3 * ROUNDS);
	MUST(atomic(swap, 1, 77, to, key) == 42);
	MUST(atomic(add, 0, 0, to, key) == 42);
}

static void memory(void)
{
	ucp_mem_map_params_t p = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
						 UCP_MEM_MAP_PARAM_FIELD_LENGTH,
				   .address = room,
				   .length = ROOM };
	uint64_t mine = (uintptr_t)room, *to;
	ucp_rkey_h key;
	ucp_mem_h mem;
	void *packed;
	size_t len;

	memset(room, 0, 64);
	OK(ucp_mem_map(context, &p, &mem));
	OK(ucp_rkey_pack(context, mem, &packed, &len));
	give(&mine, sizeof(mine));
	give(packed, len);
	ucp_rkey_buffer_release(packed);
	to = get();
	packed = get();
	OK(ucp_ep_rkey_unpack(ep, packed, &key));
	if (!serves) {
		place(*to, key);
		count(*to, key);
		say("x", 1);
	} else {
		hear(room + 8, 1);
		MUST(*(uint64_t *)room == 42);
	}
	ucp_rkey_destroy(key);
	OK(ucp_mem_unmap(context, mem));
	free(packed);
	free(to);
}

/* --- the other one is killed ---------------------------------------------- */

static void killed(void)
{
	const time_t at = time(NULL) + WAIT_S;
	ucp_request_param_t close = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
				      .flags = UCP_EP_CLOSE_FLAG_FORCE },
			    p = { 0 };
	ucs_status_t status;

	if (serves) {
		hear(room, 1);
		say(room, 1);
		hear(room, 1); /* otherwise its datagram might be lost with it */
		kill(getpid(), SIGKILL);
	}
	say(room, 1);
	hear(room, 1);
	say(room, 1);
	/* a message that is sent then fails, and the callback is called */
	do
		status = wait_for(ucp_tag_send_nbx(ep, room, ROOM, 7, &p));
	while (status == UCS_OK && time(NULL) < at);
	MUST(status != UCS_OK);
	while (!ended && time(NULL) < at)
		ucp_worker_progress(worker);
	MUST(ended != UCS_OK);
	(void)wait_for(ucp_ep_close_nbx(ep, &close));
	ucp_worker_destroy(worker);
	ucp_cleanup(context);
}

int main(int argc, char **argv)
{
	bool ends;

	MUST(argc == 5);
	serves = !strcmp(argv[2], "serve");
	room = aligned_alloc(4096, ROOM);
	MUST(room);
	reach(argv[3], argv[4]);
	ends = !strcmp(argv[1], "killed");
	begin(ends);
	if (ends) {
		killed();
	} else {
		messages();
		memory();
		finish();
	}
	free(room);
	return 0;
}
