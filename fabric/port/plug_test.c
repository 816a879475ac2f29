/* SPDX-License-Identifier: BSD-2-Clause */
/* A fabric's process and programs, some of which send invalid messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/port/address.h"
#include "fabric/port/message.h"
#include "fabric/port/serving_testing.h"
#include "fabric/umad/umad.h"
#include "sys/closer.h"
#include "sys/nothread_testing.h"
#include "sys/rand.h"
#include "wire/mad.h"

static const char topology[] =
	"Switch 4 \"sw\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[2]\n\nCa 1 \"H-a\"\n\n"
	"Ca 2 \"H-b\" # \"a description\"\n";

static int start(void **state)
{
	(void)state;
	begin_to_serve(topology, NULL);
	return 0;
}

/* Checks that an adapter answers correctly, so the fabric still works. */
static void well(void)
{
	struct plug_port p;

	assert_int_equal(plug_port(name, "a", 1, &p), 0);
	assert_int_equal(p.state, 2);
	assert_int_equal(p.rate, 100);
	assert_int_equal(p.pkeys, 128);
	assert_int_equal(p.pkey[0], 0xffff);
}

static void t_ask(void **state)
{
	struct plug_ca ca;
	struct plug_port p;

	(void)state;
	well();
	assert_int_equal(plug_ca(name, "H-b", &ca), 0);
	assert_string_equal(ca.name, "ib_b");
	assert_string_equal(ca.desc, "a description");
	assert_int_equal(ca.ports, 2);
	assert_int_equal(plug_ca(name, "a description", &ca), 0);
	assert_int_equal(plug_ca(name, "sw", &ca), -ENODEV);
	assert_int_equal(plug_ca(name, "c", &ca), -ENODEV);
	assert_int_equal(plug_port(name, "b", 0, &p), -ENODEV);
	assert_int_equal(plug_port(name, "b", 3, &p), -ENODEV);
	assert_int_equal(plug_open(name, "b", 3), -ENODEV);
	assert_int_equal(plug_ca("no-such", "a", &ca), -ENOENT);
	assert_int_equal(plug_ca("a/b", "a", &ca), -EINVAL);
	assert_int_equal(plug_ca("4294967296:x", "a", &ca), -EINVAL);
}

static void t_names(void **state)
{
	(void)state;
	assert_int_equal(plug_check_name("default"), 0);
	assert_int_equal(plug_check_name("1000:a.b_c-D"), 0);
	assert_int_equal(plug_check_name(""), -EINVAL);
	assert_int_equal(plug_check_name("1000:"), -EINVAL);
	assert_int_equal(plug_check_name("x:a"), -EINVAL);
	assert_int_equal(plug_check_name("-1:a"), -EINVAL);
	assert_int_equal(plug_check_name("a b"), -EINVAL);
	assert_int_equal(plug_check_name("01234567890123456789012345678901234567890"),
			 -EINVAL);
}

static int reg(int fd, uint8_t class, uint64_t methods)
{
	struct plug_register r = { .say = PLUG_REGISTER,
				   .class = class,
				   .version = 1,
				   .methods = { methods, 0 } };

	return plug_register(fd, &r);
}

struct file_msg {
	struct umad_hdr hdr;
	uint8_t mad[MAD_SIZE];
};

static long wait_msg(int fd, struct file_msg *m)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	size_t need;

	assert_int_equal(poll(&p, 1, -1), 1);
	return plug_recv(fd, m, sizeof(*m), &need);
}

/* Makes a Get of the adapter's own NodeInfo.  Filled in through a pointer: GCC 12 with
 * -O1 loses most of the message if it is returned by value. */
static void node_info(struct file_msg *m, uint32_t agent, uint64_t tid)
{
	struct smp s = { .h = { .base_version = 1,
				.class = MAD_SM_DR,
				.class_version = 1,
				.method = METHOD_GET,
				.tid = be64(tid),
				.attr = be16(ATTR_NODE_INFO) },
			 .dr_slid = be16(LID_PERMISSIVE),
			 .dr_dlid = be16(LID_PERMISSIVE) };

	m->hdr = (struct umad_hdr){ .agent = agent,
				    .timeout_ms = 1000,
				    .lid = be16(LID_PERMISSIVE) };
	memcpy(m->mad, &s, sizeof(s));
}

static void t_file(void **state)
{
	int fd = plug_open(name, "a", 1), other = plug_open(name, "a", 1);
	struct file_msg m, r;
	size_t need = 0;

	(void)state;
	assert_true(fd >= 0 && other >= 0);
	assert_int_equal(reg(fd, MAD_SM_DR, 2), 0);
	assert_int_equal(reg(other, MAD_SM_DR, 2), -EINVAL);
	assert_int_equal(plug_recv(fd, &m, sizeof(m), &need), -EWOULDBLOCK);
	node_info(&m, 0, 5);
	assert_int_equal(plug_send(fd, &m, sizeof(m)), 0);
	assert_int_equal(wait_msg(fd, &r), sizeof(r));
	assert_int_equal(r.mad[3], METHOD_GET_RESP);
	/* The buffer is too small: the message stays. */
	assert_int_equal(plug_send(fd, &m, sizeof(m)), 0);
	poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 10000);
	assert_int_equal(plug_recv(fd, &r, 100, &need), -ENOSPC);
	assert_int_equal(need, sizeof(r));
	assert_int_equal(plug_recv(fd, &r, sizeof(r), &need), sizeof(r));
	/* There is no such agent: the message comes back. */
	m.hdr.agent = 3;
	assert_int_equal(plug_send(fd, &m, sizeof(m)), 0);
	assert_int_equal(wait_msg(fd, &r), UMAD_HDR + MAD_HEAD);
	assert_int_equal(r.hdr.status, EINVAL);
	assert_int_equal(plug_unregister(fd, 0), 0);
	assert_int_equal(plug_unregister(fd, 0), -EINVAL);
	assert_int_equal(reg(other, MAD_SM_DR, 2), 0);
	close(fd);
	close(other);
}

/* The fabric reports PortInfo's IsSM while the issm path is open. */
static uint32_t cap_mask(void)
{
	struct plug_port p;

	assert_int_equal(plug_port(name, "b", 2, &p), 0);
	return p.cap_mask & 2;
}

static void t_issm(void **state)
{
	char path[32];
	int fd = plug_issm(name, "b", 2, path, sizeof(path)), rd;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(cap_mask(), 0);
	rd = open(path, O_NONBLOCK);
	assert_true(rd >= 0);
	assert_int_equal(cap_mask(), 2);
	close(rd);
	while (cap_mask())
		;
	rd = open(path, O_NONBLOCK);
	assert_int_equal(cap_mask(), 2);
	close(fd);
	while (cap_mask())
		;
	close(rd);
	assert_int_equal(plug_issm(name, "b", 2, path, 3), -ENAMETOOLONG);
}

static int dial(void)
{
	struct sockaddr_un a;
	socklen_t len;
	uid_t uid;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_int_equal(plug_address(name, geteuid(), &a, &len, &uid), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, len), 0);
	return fd;
}

/* Waits for the connection's end, and skips messages that come before it. */
static void closed(int fd)
{
	char buf[1024];
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0)
		;
	assert_true(n == 0 || errno == ECONNRESET);
	close(fd);
	well();
}

/* A request as it is sent. */
struct sent_request {
	struct msg_head head;
	struct plug_request body;
};

static struct sent_request request(enum plug_op op)
{
	return (struct sent_request){ msg_head(&plug_table, PLUG_REQUEST),
				      { .op = op, .port = 1, .hca = "a" } };
}

static void t_wrong_requests(void **state)
{
	struct sent_request req = request(PLUG_OPEN);
	char junk[5000] = { 0 };
	int fd, rc;

	(void)state;
	fd = dial();
	send(fd, junk, 1, 0);
	closed(fd);
	fd = dial();
	send(fd, junk, sizeof(junk), 0);
	closed(fd);
	fd = dial();
	send(fd, &req, sizeof(req) - 1, 0);
	closed(fd);
	req.head.version = 99;
	fd = dial();
	send(fd, &req, sizeof(req), 0);
	closed(fd);
	req = request((enum plug_op)77);
	fd = dial();
	send(fd, &req, sizeof(req), 0);
	closed(fd);
	req = request(
		PLUG_ISSM); /* without a pipe, then with a descriptor of another kind */
	fd = dial();
	send(fd, &req, sizeof(req), 0);
	closed(fd);
	fd = dial();
	while ((rc = plug_say(fd, PLUG_REQUEST, &req.body, sizeof(req.body), stop,
			      true)) == -EAGAIN)
		sched_yield(); /* the fabric has not accepted the connection yet */
	assert_int_equal(rc, 0);
	closed(fd);
	req = request(PLUG_CA);
	memset(req.body.hca, 'a', sizeof(req.body.hca)); /* without the final NUL */
	fd = dial();
	send(fd, &req, sizeof(req), 0);
	closed(fd);
}

/* Sends any bytes with a descriptor, unless that is -1.  Returns 0 or -errno. */
static int send_with(int fd, const void *buf, size_t len, int pass)
{
	struct iovec iov = { (void *)(uintptr_t)buf, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} u;

	if (pass >= 0)
		msg_put_fds(&m, &u.head, &pass, 1);
	return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

static void t_wrong_messages(void **state)
{
	struct plug_register r = { .say = PLUG_REGISTER, .class = 1, .version = 1 };
	struct {
		struct msg_head head;
		struct plug_register body;
	} raw = { msg_head(&plug_table, PLUG_AGENT), r };
	struct {
		struct msg_head head;
		char junk[100];
	} mad = { msg_head(&plug_table, PLUG_MAD), { 0 } };
	char junk[200] = { 0 };
	int fd, mem, p[2];

	(void)state;
	fd = plug_open(name, "a", 1);
	send(fd, junk, sizeof(junk), 0);
	closed(fd);
	fd = plug_open(name, "a", 1);
	send(fd, &mad, sizeof(mad.head) + UMAD_HDR - 1, 0);
	closed(fd);
	fd = plug_open(name, "a", 1);
	send(fd, &raw, sizeof(raw), 0); /* passes no socket for the answer */
	closed(fd);
	fd = plug_open(name, "a", 1); /* what it passes is no memfd */
	mad.head.in_memory = 1;
	assert_int_equal(send_with(fd, &mad, sizeof(mad), stop), 0);
	closed(fd);
	fd = plug_open(name, "a", 1); /* a memfd that its sender can change */
	mem = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(mem, 100000), 0);
	assert_int_equal(send_with(fd, &mad, sizeof(mad), mem), 0);
	closed(fd);
	close(mem);
	/* An answer that cannot be delivered harms nobody. */
	fd = plug_open(name, "a", 1);
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(plug_say(fd, PLUG_AGENT, &r, sizeof(r), p[1], true), 0);
	assert_int_equal(reg(fd, MAD_PERF, 0), -ENOSPC);
	close(p[0]);
	close(p[1]);
	close(fd);
	well();
}

/* A program sends on and on without reading: others are served meanwhile, and it gets its
 * answers once it reads. */
static void t_never_reads(void **state)
{
	enum { MANY = 20000 };
	int fd = plug_open(name, "a", 1);
	struct file_msg m, r;
	unsigned got = 0;
	size_t need;

	(void)state;
	assert_int_equal(reg(fd, MAD_SM_DR, 0), 0);
	for (uint64_t i = 0; i < MANY; i++) {
		node_info(&m, 0, i);
		assert_int_equal(plug_send(fd, &m, sizeof(m)), 0);
		if (i % 5000 == 0)
			well();
	}
	well();
	while (poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 500) == 1) {
		assert_true(plug_recv(fd, &r, sizeof(r), &need) > 0);
		got++;
	}
	assert_true(got >= UMAD_UNREAD && got <= MANY);
	close(fd);
}

/* Random bytes, random descriptors, random ends. */
static void t_random(void **state)
{
	struct prng rand;

	(void)state;
	rand_seed(&rand, 5);
	for (unsigned i = 0; i < 2000; i++) {
		int fd = rand_below(&rand, 2) ? plug_open(name, "b", 2) : dial();
		unsigned n = (unsigned)rand_below(&rand, 4);

		assert_true(fd >= 0);
		while (n--) {
			uint8_t buf[512];
			size_t len = rand_below(&rand, sizeof(buf)) + 1;

			for (size_t k = 0; k < len; k++)
				buf[k] = rand_below(&rand, 3) ? 0
							      : (uint8_t)rand_u64(&rand);
			if (rand_below(&rand, 8) && len >= sizeof(struct msg_head)) {
				struct msg_head h =
					msg_head(&plug_table,
						 (unsigned)rand_below(&rand, PLUG_TYPES));

				h.in_memory = rand_below(&rand, 4) == 0;
				memcpy(buf, &h, sizeof(h));
			}
			send_with(fd, buf, len, rand_below(&rand, 4) ? -1 : stop);
		}
		close(fd);
	}
	well();
}

/* The fabric ends: programs notice at once. */
static void t_end(void **state)
{
	int fd = plug_open(name, "a", 1);
	struct file_msg m;
	size_t need;

	node_info(&m, 0, 1);
	assert_int_equal(reg(fd, MAD_SM_DR, 0), 0);
	end(state);
	assert_int_equal(plug_recv(fd, &m, sizeof(m), &need), -EIO);
	assert_int_equal(plug_send(fd, &m, sizeof(m)), -EIO);
	assert_int_equal(reg(fd, MAD_SM_DR, 0), -EIO);
	assert_int_equal(plug_ca(name, "a", &(struct plug_ca){ 0 }), -ENOENT);
	close(fd);
	assert_int_equal(start(state), 0);
}

static void t_one_name(void **state)
{
	struct plug_server *other;

	(void)state;
	assert_int_equal(plug_server_new(&other, name, &topo), -EADDRINUSE);
	assert_int_equal(plug_server_new(&other, "a b", &topo), -EINVAL);
	assert_int_equal(plug_server_new(&other, "12345:x", &topo), -EINVAL);
	well();
}

/* While descriptors that others have sent cannot be closed, no new connection is
 * accepted; the existing ones are served. */
static void t_closer_is_full(void **state)
{
	const struct sent_request req = request(PLUG_CA);
	int fd = plug_open(name, "a", 1), waits;

	(void)state;
	nothread_begin();
	for (int i = 0; i < CLOSER_ALL; i++)
		closer_put(geteuid() + 1, eventfd(0, EFD_CLOEXEC));
	assert_true(closer_is_full());
	waits = dial();
	assert_int_equal(send(waits, &req, sizeof(req), 0), sizeof(req));
	for (int i = 0; i < 10; i++) /* each answer shows that the fabric's loop ran */
		assert_int_equal(reg(fd, MAD_PERF, 0), i);
	assert_int_equal(poll(&(struct pollfd){ .fd = waits, .events = POLLIN }, 1, 300),
			 0);
	nothread_end();
	assert_int_equal(poll(&(struct pollfd){ .fd = waits, .events = POLLIN }, 1, -1),
			 1);
	close(waits);
	close(fd);
	well();
}

/* Connections of another user come and go; no descriptor or memory of theirs stays. */
static void t_strangers(void **state)
{
	pid_t pid;
	int status;

	(void)state;
	if (geteuid())
		skip();
	nothread_begin();
	pid = fork();
	if (pid == 0) {
		snprintf(name, sizeof(name), "%u:test-%d", geteuid(), getppid());
		if (setresuid(65534, 65534, 65534))
			_exit(1);
		for (int i = 0; i < 2 * CLOSER_ALL; i++) {
			char byte;
			int fd = dial();

			send(fd, "x", 1, MSG_NOSIGNAL);
			if (recv(fd, &byte, 1, 0) > 0)
				_exit(2);
			close(fd);
		}
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	well();
	nothread_end();
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, start, end)
	const struct CMUnitTest tests[] = {
		TEST(t_ask),
		cmocka_unit_test(t_names),
		TEST(t_file),
		TEST(t_issm),
		TEST(t_wrong_requests),
		TEST(t_wrong_messages),
		TEST(t_never_reads),
		TEST(t_random),
		TEST(t_end),
		TEST(t_one_name),
		TEST(t_closer_is_full),
		TEST(t_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
