/* SPDX-License-Identifier: BSD-2-Clause */
/* The exported calls of rsockets, over a src/rsocket that only records its calls: which
 * function is called with which arguments, errno, and where a thread can be cancelled. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/select.h>

#include <cmocka.h>

#include "abi/rdmacm.h"
#include "rdmacm/bind.h"
#include "rdmacm/dev.h"
#include "rdmacm/id.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"

enum { FD = 5, OFFSET = 0x4711 };

static char told[32], buf[16];
static ssize_t answer;
static struct sockaddr addr, from;
static socklen_t addrlen, fromlen;
static struct iovec one[2];
static struct pollfd fds[2];
static fd_set in, out, except;
static struct timeval timeout;
static int flags_back, last_arg;

static ssize_t tell(const char *what)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_DISABLE);
	snprintf(told, sizeof(told), "%s", what);
	return answer;
}

#define IS(got, what) assert_true((got) == (what))
#define FAKE(name, args, checks)                                                         \
	int name args                                                                    \
	{                                                                                \
		checks;                                                                  \
		return (int)tell(#name);                                                 \
	}

/* clang-format off */
FAKE(rsocket_open, (int d, int t, int p), IS(d, 1); IS(t, 2); IS(p, 3))
FAKE(rsocket_bind, (int fd, const struct sockaddr *a, socklen_t n), IS(fd, FD); IS(a, &addr); IS(n, 9))
FAKE(rsocket_listen, (int fd, int n), IS(fd, FD); IS(n, 9))
FAKE(rsocket_accept, (int fd, struct sockaddr *a, socklen_t *n), IS(fd, FD); IS(a, &addr); IS(n, &addrlen))
FAKE(rsocket_connect, (int fd, const struct sockaddr *a, socklen_t n), IS(fd, FD); IS(a, &addr); IS(n, 9))
FAKE(rsocket_name, (int fd, bool peer, struct sockaddr *a, socklen_t *n),
	IS(fd, FD); IS(a, &addr); IS(n, &addrlen); last_arg = peer)
FAKE(rsocket_shutdown, (int fd, int how), IS(fd, FD); IS(how, 2))
FAKE(rsocket_close, (int fd), IS(fd, FD))
FAKE(rsocket_set_option, (int fd, int level, int name, const void *val, socklen_t len),
	IS(fd, FD); IS(level, 1); IS(name, 2); IS(val, buf); IS(len, 4))
FAKE(rsocket_get_option, (int fd, int level, int name, void *val, socklen_t *len),
	IS(fd, FD); IS(level, 1); IS(name, 2); IS(val, buf); IS(len, &addrlen))
FAKE(rsocket_fcntl, (int fd, int cmd, int arg), IS(fd, FD); last_arg = arg; (void)cmd)
FAKE(rsocket_map, (int fd, void *b, size_t len, int prot, off_t offset, off_t *at),
	IS(fd, FD); IS(b, buf); IS(len, 8); IS(prot, 3); IS(offset, -1); *at = OFFSET)
FAKE(rsocket_unmap, (int fd, const void *b, size_t len), IS(fd, FD); IS(b, buf); IS(len, 8))
FAKE(rsocket_poll, (struct pollfd *f, nfds_t n, int ms), IS(f, fds); IS(n, 2); IS(ms, 7))
FAKE(rsocket_select, (int n, fd_set *r, fd_set *w, fd_set *e, const struct timeval *t),
	IS(n, 2); IS(r, &in); IS(w, &out); IS(e, &except); IS(t, &timeout))
FAKE(cma_init, (void), )
/* clang-format on */

ssize_t rsocket_write_at(int fd, const void *b, size_t count, uint64_t offset, int flags)
{
	IS(fd, FD);
	IS(b, buf);
	IS(count, 8);
	IS(offset, OFFSET);
	IS(flags, 6);
	return tell("rsocket_write_at");
}

/* The message: buf with 8 bytes, or both buffers of one[]; to addr or to no address. */
ssize_t rsocket_send(int fd, const struct iovec *iov, int n, int flags,
		     const struct sockaddr *to, socklen_t tolen)
{
	IS(fd, FD);
	if (iov == one) {
		IS(n, 2);
	} else {
		IS(n, 1);
		IS(iov->iov_base, buf);
		IS(iov->iov_len, 8);
	}
	IS(to, tolen ? &addr : NULL);
	last_arg = flags;
	return tell("rsocket_send");
}

ssize_t rsocket_receive(int fd, const struct iovec *iov, int n, int *flags,
			struct sockaddr *a, socklen_t *len)
{
	IS(fd, FD);
	if (iov == one) {
		IS(n, 2);
	} else {
		IS(n, 1);
		IS(iov->iov_base, buf);
		IS(iov->iov_len, 8);
	}
	last_arg = *flags;
	*flags = flags_back;
	if (a) {
		IS(a, &from);
		*len = 11;
	}
	return tell("rsocket_receive");
}

/* --- the calls --------------------------------------------------------------------- */

#define CALL(name, call)                                                                 \
	static ssize_t name(void)                                                        \
	{                                                                                \
		return (ssize_t)(call);                                                  \
	}

static struct msghdr message(void)
{
	return (struct msghdr){ .msg_iov = one, .msg_iovlen = 2 };
}

CALL(open_, rsocket(1, 2, 3))
CALL(bind_, rbind(FD, &addr, 9))
CALL(listen_, rlisten(FD, 9))
CALL(accept_, raccept(FD, &addr, &addrlen))
CALL(connect_, rconnect(FD, &addr, 9))
CALL(peername, rgetpeername(FD, &addr, &addrlen))
CALL(sockname, rgetsockname(FD, &addr, &addrlen))
CALL(shutdown_, rshutdown(FD, 2))
CALL(close_, rclose(FD))
CALL(sendto_, rsendto(FD, buf, 8, 6, &addr, 9))
CALL(send_, rsend(FD, buf, 8, 6))
CALL(sendmsg_, rsendmsg(FD, &(struct msghdr){ .msg_iov = one, .msg_iovlen = 2 }, 6))
CALL(write_, rwrite(FD, buf, 8))
CALL(writev_, rwritev(FD, one, 2))
CALL(recvfrom_, rrecvfrom(FD, buf, 8, 6, &from, &fromlen))
CALL(recv_, rrecv(FD, buf, 8, 6))
CALL(recvmsg_, rrecvmsg(FD, &(struct msghdr){ .msg_iov = one, .msg_iovlen = 2 }, 6))
CALL(read_, rread(FD, buf, 8))
CALL(readv_, rreadv(FD, one, 2))
CALL(unmap, riounmap(FD, buf, 8))
CALL(write_at, riowrite(FD, buf, 8, OFFSET, 6))
CALL(set_option, rsetsockopt(FD, 1, 2, buf, 4))
CALL(get_option, rgetsockopt(FD, 1, 2, buf, &addrlen))
CALL(fcntl_, rfcntl(FD, F_GETFL))
CALL(poll_, rpoll(fds, 2, 7))
CALL(select_, rselect(2, &in, &out, &except, &timeout))

/* arg: flags that the call passes on, -1: none. point: the call is a cancellation
 * point. */
static const struct row {
	ssize_t (*call)(void);
	const char *room;
	int arg;
	bool point;
} rows[] = {
	{ open_, "rsocket_open", -1, false },
	{ bind_, "rsocket_bind", -1, false },
	{ listen_, "rsocket_listen", -1, false },
	{ accept_, "rsocket_accept", -1, true },
	{ connect_, "rsocket_connect", -1, true },
	{ peername, "rsocket_name", true, false },
	{ sockname, "rsocket_name", false, false },
	{ shutdown_, "rsocket_shutdown", -1, false },
	{ close_, "rsocket_close", -1, false },
	{ sendto_, "rsocket_send", 6, true },
	{ send_, "rsocket_send", 6, true },
	{ sendmsg_, "rsocket_send", 6, true },
	{ write_, "rsocket_send", 0, true },
	{ writev_, "rsocket_send", 0, true },
	{ recvfrom_, "rsocket_receive", 6, true },
	{ recv_, "rsocket_receive", 6, true },
	{ recvmsg_, "rsocket_receive", 6, true },
	{ read_, "rsocket_receive", 0, true },
	{ readv_, "rsocket_receive", 0, true },
	{ unmap, "rsocket_unmap", -1, false },
	{ write_at, "rsocket_write_at", -1, true },
	{ set_option, "rsocket_set_option", -1, false },
	{ get_option, "rsocket_get_option", -1, false },
	{ fcntl_, "rsocket_fcntl", 0, false },
	{ poll_, "rsocket_poll", -1, true },
	{ select_, "rsocket_select", -1, true },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void is_as_before(void)
{
	int was;

	assert_int_equal(held.depth, 0);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	assert_int_equal(was, PTHREAD_CANCEL_ENABLE);
}

static void passes_on(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		for (answer = 3; answer >= -EBUSY; answer -= EBUSY + 3) {
			errno = 0;
			told[0] = '\0';
			last_arg = -1;
			assert_int_equal(rows[i].call(), answer < 0 ? -1 : answer);
			assert_int_equal(errno, answer < 0 ? EBUSY : 0);
			assert_string_equal(told, rows[i].room);
			assert_int_equal(last_arg, rows[i].arg);
			is_as_before();
		}
	}
}

/* --- cancellation ------------------------------------------------------------------- */

static void *to_end(void *row)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	((const struct row *)row)->call();
	return NULL;
}

static void cancelled_before_they_begin(void **state)
{
	(void)state;
	for (size_t i = 0; i < ROWS; i++) {
		pthread_t t;
		void *end;

		told[0] = '\0';
		assert_int_equal(pthread_create(&t, NULL, to_end, (void *)&rows[i]), 0);
		assert_int_equal(pthread_join(t, &end), 0);
		assert_ptr_equal(end, rows[i].point ? PTHREAD_CANCELED : NULL);
		assert_string_equal(told, rows[i].point ? "" : rows[i].room);
	}
}

/* --- calls with arguments or results of their own ------------------------ */

static void fails(ssize_t rc, int err)
{
	assert_int_equal(rc, -1);
	assert_int_equal(errno, err);
	assert_string_equal(told, "");
	is_as_before();
}

static void messages(void **state)
{
	struct msghdr m = message();

	(void)state;
	m.msg_control = buf;
	m.msg_controllen = 16;
	fails(rsendmsg(FD, &m, 0), EOPNOTSUPP);
	m.msg_name = &addr;
	m.msg_namelen = 9;
	m.msg_controllen = 0;
	answer = 5;
	assert_int_equal(rsendmsg(FD, &m, 0), 5); /* to addr */
	/* Results of receiving: the sender, no control data, flags. */
	m.msg_name = &from;
	m.msg_controllen = 16;
	flags_back = MSG_TRUNC;
	assert_int_equal(rrecvmsg(FD, &m, 0), 5);
	assert_int_equal(m.msg_namelen, 11);
	assert_int_equal(m.msg_controllen, 0);
	assert_int_equal(m.msg_flags, MSG_TRUNC);
	answer = 0; /* the end of a stream is no error */
	m.msg_controllen = 16;
	assert_int_equal(rrecvmsg(FD, &m, 0), 0);
	assert_int_equal(m.msg_controllen, 0);
	answer = -EAGAIN;
	m.msg_controllen = 16;
	m.msg_flags = 0;
	assert_int_equal(rrecvmsg(FD, &m, 0), -1);
	assert_int_equal(m.msg_controllen, 16);
	assert_int_equal(m.msg_flags, 0);
}

static void arguments(void **state)
{
	(void)state;
	answer = 0;
	assert_int_equal(rfcntl(FD, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(last_arg, O_NONBLOCK);
	assert_int_equal(rfcntl(FD, F_SETFD, FD_CLOEXEC), 0);
	assert_int_equal(last_arg, FD_CLOEXEC);
	assert_int_equal(riomap(FD, buf, 8, 3, 0, -1), OFFSET);
	assert_string_equal(told, "rsocket_map");
	answer = -EINVAL;
	assert_int_equal(riomap(FD, buf, 8, 3, 0, -1), -1);
	assert_int_equal(errno, EINVAL);
}

/* --- functions of rdma_cm that rsockets need ----------------------------- */

static struct cma_id id;
static struct cma_dev dev = {
	.ctx = (struct ibv_context *)1,
	.pd = (struct ibv_pd *)2,
};
static uint8_t ip[16];
static int dev_answer;
static const uint8_t loopback[16] = { [15] = 1 };

void cma_stop(struct cma_id *i)
{
	IS(i, &id);
	tell("cma_stop");
}

int cma_find_source(const struct sockaddr *to, struct sockaddr_storage *at)
{
	IS(to, &addr);
	IS((void *)at, &from);
	return (int)tell("cma_find_source");
}

int cma_dev_of(const uint8_t i[16], uint32_t ifindex, enum cma_kind kind,
	       struct cma_place *place)
{
	IS(i, ip);
	IS(ifindex, 7);
	IS(kind, CMA_ROCE);
	*place = (struct cma_place){ .dev = &dev, .index = 3, .ip = { 9 } };
	tell("cma_dev_of");
	return dev_answer;
}

int cma_loopback(const uint8_t i[16], enum cma_kind kind, struct cma_place *place)
{
	IS(i, loopback);
	IS(kind, CMA_ROCE);
	*place = (struct cma_place){ .dev = &dev, .index = 4 };
	tell("cma_loopback");
	return dev_answer;
}

uint8_t cma_dev_mtu(const struct cma_dev *d)
{
	IS(d, &dev);
	return IBV_MTU_1024;
}

static void needs(void **state)
{
	struct rsock_port port = { 0 };

	(void)state;
	rsock_rdma_stop(&id.id);
	assert_string_equal(told, "cma_stop");
	answer = -ENETUNREACH;
	assert_int_equal(rsock_rdma_source(&addr, (void *)&from), -ENETUNREACH);
	assert_int_equal(rsock_rdma_port(ip, 7, &port), -ENETUNREACH);
	assert_string_equal(told, "cma_init");
	answer = 0;
	dev_answer = -ENODEV;
	assert_int_equal(rsock_rdma_port(ip, 7, &port), -ENODEV);
	assert_null(port.ctx);
	dev_answer = 0;
	assert_int_equal(rsock_rdma_port(ip, 7, &port), 0);
	assert_ptr_equal(port.ctx, dev.ctx);
	assert_ptr_equal(port.pd, dev.pd);
	assert_int_equal(port.sgid_index, 3);
	assert_int_equal(port.gid[0], 9);
	assert_int_equal(port.mtu, 1024);
	assert_int_equal(rsock_rdma_port(loopback, 0, &port), 0);
	assert_int_equal(port.sgid_index, 4);
	is_as_before();
}

static int begin(void **state)
{
	(void)state;
	told[0] = '\0';
	answer = 0;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(passes_on, begin),
		cmocka_unit_test_setup(cancelled_before_they_begin, begin),
		cmocka_unit_test_setup(messages, begin),
		cmocka_unit_test_setup(arguments, begin),
		cmocka_unit_test_setup(needs, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
