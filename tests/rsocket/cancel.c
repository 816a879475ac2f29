/* SPDX-License-Identifier: BSD-2-Clause */
/* Each call of rsockets, made by a thread that is about to be cancelled. Only calls that
 * POSIX lists as cancellation points may end there; an event that such a call waited for
 * is then there for another thread, and no socket stays behind. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/select.h>
#include <unistd.h>

#include "../lab/count.h"
#include "rs.h"

enum { HANG_S = 20 };

static struct sockaddr_storage at;
static int listener, client, server;
static char out[4] = "hey", in[8], mapped[64];
static off_t where;

/* clang-format off */
/* --- the calls: 0 is success --------------------------------------------- */

static int do_rsocket(void) { listener = rsocket(at.ss_family, SOCK_STREAM, 0); return listener < 0; }
static int do_rbind(void) { return rbind(listener, (struct sockaddr *)&at, rs_len(&at)); }
static int do_rlisten(void) { return rlisten(listener, 2); }
static int do_client(void) { client = rsocket(at.ss_family, SOCK_STREAM, 0); return rsetsockopt(client, SOL_RDMA, RDMA_IOMAPSIZE, &(int){ 1 }, sizeof(int)); }
static int do_rconnect(void) { return rconnect(client, (struct sockaddr *)&at, rs_len(&at)); }
static int do_raccept(void) { server = raccept(listener, NULL, NULL); return server < 0; }
static int do_rsend(void) { return rsend(client, out, 3, 0) != 3; }
static int do_rrecv(void) { return rrecv(server, in, 3, 0) != 3; }
static int do_riowrite(void) { return riowrite(client, out, 3, where, 0) != 3; }
static int do_rshutdown(void) { return rshutdown(client, SHUT_WR); }
static int do_riounmap(void) { return riounmap(server, mapped, sizeof(mapped)); }
static int close_client(void) { return rclose(client); }
static int close_server(void) { return rclose(server); }
static int close_listener(void) { return rclose(listener); }

static int do_fcntl(void) { return rfcntl(client, F_GETFL) != O_RDWR; }
static int set_option(void) { return rsetsockopt(client, SOL_SOCKET, SO_KEEPALIVE, &(int){ 1 }, sizeof(int)); }

/* clang-format on */

static int get_option(void)
{
	socklen_t n = sizeof(int);
	int on = 0;

	return rgetsockopt(client, SOL_SOCKET, SO_KEEPALIVE, &on, &n) || !on;
}

static int names(void)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a), m = sizeof(a);

	return rgetsockname(client, (struct sockaddr *)&a, &n) ||
	       rgetpeername(client, (struct sockaddr *)&a, &m);
}

static int do_rpoll(void)
{
	struct pollfd p[20];

	for (int i = 0; i < 20; i++) /* more entries than rpoll() keeps on the stack */
		p[i] = (struct pollfd){ .fd = i ? -1 : server, .events = POLLIN };
	return rpoll(p, 20, WAIT_MS) != 1;
}

static int do_rselect(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(server, &set);
	return rselect(server + 1, &set, NULL, NULL, NULL) != 1;
}

static int do_riomap(void)
{
	where = riomap(server, mapped, sizeof(mapped), PROT_WRITE, 0, 0);
	return where < 0;
}

/* --- the table ----------------------------------------------------------- */

/* clang-format off */
static const struct row {
	const char *name;
	int (*call)(void);
	int (*then)(void); /* called after a cancellation: the same call again, or NULL */
} rows[] = {
	{ "rsocket", do_rsocket, NULL },
	{ "rbind", do_rbind, NULL },
	{ "rlisten", do_rlisten, NULL },
	{ "raccept", do_raccept, do_client },
	{ "rconnect", do_rconnect, do_rconnect },
	{ "raccept", do_raccept, do_raccept },
	{ "rfcntl", do_fcntl, NULL },
	{ "rsetsockopt", set_option, NULL },
	{ "rgetsockopt", get_option, NULL },
	{ "rgetsockname", names, NULL },
	{ "rrecv", do_rrecv, do_rsend },
	{ "rsend", do_rsend, do_rrecv },
	{ "rpoll", do_rpoll, do_rsend },
	{ "rpoll", do_rpoll, do_rpoll },
	{ "rselect", do_rselect, do_rselect },
	{ "rrecv", do_rrecv, do_rrecv },
	{ "riomap", do_riomap, NULL },
	{ "riowrite", do_riowrite, do_riowrite },
	{ "riounmap", do_riounmap, NULL },
	{ "rshutdown", do_rshutdown, NULL },
	{ "rclose", close_client, NULL },
	{ "rclose", close_server, NULL },
	{ "rclose", close_listener, NULL },
};
/* clang-format on */

static const struct row *now;
static volatile int came_back;

static void *about_to_be_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	came_back = now->call() == 0 ? 1 : -1;
	pthread_testcancel();
	return arg;
}

/* The thread sleeps when it is cancelled, or is about to. */
static void *sleeps(void *arg)
{
	came_back = now->call() == 0 ? 1 : -1;
	return arg;
}

static void hangs(int sig)
{
	char line[80];
	int n = snprintf(line, sizeof(line), "row %zd, %s: hangs\n", now - rows,
			 now->name);

	(void)sig;
	_exit(write(STDERR_FILENO, line, (size_t)n) == n ? 1 : 3);
}

static void cancel_one(void *(*how)(void *))
{
	pthread_t t;
	void *end;

	came_back = 0;
	MUST(pthread_create(&t, NULL, how, NULL) == 0);
	if (how == sleeps) {
		usleep(20000); /* the thread then probably sleeps, but need not */
		MUST(pthread_cancel(t) == 0);
	}
	MUST(pthread_join(t, &end) == 0 && end == PTHREAD_CANCELED);
	if (came_back == !now->then)
		return;
	fprintf(stderr, "row %zd, %s: %s\n", now - rows, now->name,
		came_back ? "came back wrong" : "was cancelled");
	exit(1);
}

static bool blocks(void)
{
	return now->call == do_raccept || now->call == do_rrecv ||
	       now->call == do_rpoll || now->call == do_rselect;
}

static void round_of_calls(void)
{
	for (now = rows; now < rows + sizeof(rows) / sizeof(rows[0]); now++) {
		cancel_one(about_to_be_cancelled);
		if (now->then && now->then != now->call && blocks())
			cancel_one(sleeps);
		if (now->then)
			MUST(now->then() == 0);
	}
}

int cancel(const char *ip, unsigned port)
{
	unsigned before, tries = 0;

	signal(SIGALRM, hangs);
	alarm(HANG_S);
	at = rs_address(ip, port);
	/* Descriptors that stay open for the whole process are open from here on. */
	round_of_calls();
	at = rs_address(ip, port + 1);
	before = count_entries("/proc/self/fd");
	round_of_calls();
	while (count_entries("/proc/self/fd") > before && tries++ < 1000)
		usleep(10000); /* the service thread closes the sockets */
	MUST(count_entries("/proc/self/fd") <= before);
	return 0;
}
