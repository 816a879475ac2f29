/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages over a connection: what the table allows, short bodies, bodies in memory, and
 * what a hostile sender may pass along. */
#include "sys/msg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/rand.h"

enum { NONE, WORD, ANY, FDS, LONG, TYPES };
enum { AT_ONCE = 60000, LONG_LEN = AT_ONCE + 5000, LONG_MAX_LEN = 100000 };

static const struct msg_row rows[TYPES] = {
	[WORD] = { "WORD", 4, 4, 4, 0 },
	[ANY] = { "ANY", 0, AT_ONCE, AT_ONCE, 0 },
	[FDS] = { "FDS", 0, 10, 10, 2 },
	[LONG] = { "LONG", 2, LONG_MAX_LEN, AT_ONCE, 0 },
};
static const struct msg_table table = { 't', 7, TYPES, rows };
static const struct msg_table newer = { 't', 8, TYPES, rows };
static const struct msg_table other = { 'o', 7, TYPES, rows };

static int ends[2];
static uint8_t body[LONG_MAX_LEN], got[LONG_MAX_LEN];
static struct msg m;

static int connected(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 7 + i / 256);
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
}

static int parted(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	return 0;
}

static int take(void)
{
	return msg_recv(ends[1], &table, getuid(), got, sizeof(got), &m, false);
}

static int send_body(unsigned type, size_t len)
{
	return msg_send(ends[0], &table, type, &(struct iovec){ body, len }, 1, NULL, 0,
			false);
}

static int send_fds(const int *fds, unsigned n)
{
	return msg_send(ends[0], &table, FDS, &(struct iovec){ body, 3 }, 1, fds, n,
			false);
}

/* How many descriptors are open. */
static int open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	assert_non_null(dir);
	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

static void parts_are_one_body(void **state)
{
	const struct iovec part[3] = { { body, 4 }, { body + 4, 0 }, { body + 4, 100 } };

	(void)state;
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(m.fd[0], -1);
	assert_int_equal(msg_send(ends[0], &table, ANY, part, 3, NULL, 0, false), 0);
	assert_int_equal(send_body(WORD, 4), 0);
	assert_int_equal(msg_send(ends[0], &table, ANY, NULL, 0, NULL, 0, false), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(m.type, ANY);
	assert_int_equal(m.len, 104);
	assert_int_equal(m.here, 104);
	assert_int_equal(m.fds, 0);
	assert_int_equal(m.memory, -1);
	assert_memory_equal(m.body, body, 104);
	assert_int_equal(m.uid, getuid());
	assert_int_equal(m.pid, 0);
	/* The whole length, even if the buffer is too small. */
	assert_int_equal(msg_recv(ends[1], &table, 0, got, 2, &m, true), 0);
	assert_int_equal(m.len, 4);
	assert_int_equal(m.here, 2);
	assert_int_equal(msg_read(&m, 0, got, 3), -EPROTO);
	assert_int_equal(take(), 0);
	assert_int_equal(m.type, WORD);
	assert_int_equal(msg_read(&m, 1, got + 8, 3), 0);
	assert_memory_equal(got + 8, body + 1, 3);
	assert_int_equal(msg_read(&m, 2, got, 3), -EPROTO);
	assert_int_equal(msg_read(&m, 5, got, 0), -EPROTO);
	assert_int_equal(take(), 0);
	assert_int_equal(m.len, 0);
}

static void an_end_is_told(void **state)
{
	(void)state;
	assert_int_equal(send_body(WORD, 4), 0);
	assert_int_equal(msg_send(ends[1], &table, ANY, NULL, 0, NULL, 0, false), 0);
	close(ends[0]); /* with something unread */
	ends[0] = -1;
	assert_int_equal(take(), 0);
	assert_int_equal(take(), -EIO);
	assert_int_equal(msg_recv(-1, &table, 0, got, 1, &m, false), -EIO);
	assert_int_equal(msg_send(ends[1], &table, ANY, NULL, 0, NULL, 0, false), -EIO);
}

static void a_full_connection_is_not_waited_for(void **state)
{
	int n = 0;

	(void)state;
	while (!send_body(ANY, AT_ONCE))
		assert_in_range(n++, 0, 10000);
	assert_int_equal(send_body(ANY, AT_ONCE), -EAGAIN);
	assert_true(n > 0);
	while (n--)
		assert_int_equal(take(), 0);
	assert_int_equal(take(), -EAGAIN);
}

static void memory_that_is_not_there(void **state)
{
	const struct iovec none = { NULL, 8 };

	(void)state;
	assert_int_equal(msg_send(ends[0], &table, ANY, &none, 1, NULL, 0, false),
			 -EFAULT);
}

static void descriptors_go_along(void **state)
{
	int fds[2], was = open_fds();

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	assert_int_equal(send_fds(fds, 2), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(m.fds, 2);
	assert_int_equal(fcntl(m.fd[0], F_GETFD), FD_CLOEXEC);
	assert_int_equal(write(m.fd[1], "x", 1), 1);
	assert_int_equal(read(m.fd[0], got, 1), 1);
	msg_drop(&m, false);
	assert_int_equal(m.fd[0], -1);
	assert_int_equal(open_fds(), was + 2);
	assert_int_equal(send_fds(fds, 2), 0);
	assert_int_equal(take(), 0);
	msg_drop(&m, true); /* closer's thread closes them */
	while (open_fds() != was + 2)
		sched_yield();
	close(fds[0]);
	close(fds[1]);
}

/* Sends what no msg_send() sends. */
static void send_raw(const struct msg_head *h, size_t len, const int *fds, unsigned n)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)h, sizeof(*h) }, { body, len } };
	struct msghdr raw = { .msg_iov = iov, .msg_iovlen = 2 };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int[MSG_FDS_SENT]))];
	} u;

	if (n)
		msg_put_fds(&raw, &u.head, fds, n);
	assert_int_equal(sendmsg(ends[0], &raw, MSG_DONTWAIT), sizeof(*h) + len);
}

static void more_descriptors_than_allowed(void **state)
{
	const struct msg_head word = msg_head(&table, WORD), fds = msg_head(&table, FDS);
	const int many[3] = { 0, 0, 0 };
	int was = open_fds();

	(void)state;
	send_raw(&word, 4, many, 1);
	assert_int_equal(take(), -EPROTO);
	assert_int_equal(m.fds, 1);
	msg_drop(&m, false);
	send_raw(&fds, 4, many, 3);
	assert_int_equal(take(), -EPROTO);
	assert_int_equal(m.fds, 3);
	msg_drop(&m, false);
	while (open_fds() != was)
		sched_yield();
}

static void lengths(void **state)
{
	struct msg_head h = msg_head(&table, WORD);

	(void)state;
	for (size_t n = 0; n < 8; n++)
		assert_int_equal(msg_check(&table, &h, n, 0), n == 4 ? 0 : -EPROTO);
	h.type = ANY;
	assert_int_equal(msg_check(&table, &h, AT_ONCE, 0), 0);
	assert_int_equal(msg_check(&table, &h, AT_ONCE + 1, 0), -EPROTO);
	h.in_memory = 1; /* none of this type do */
	assert_int_equal(msg_check(&table, &h, 4, 1), -EPROTO);
	h.type = LONG;
	assert_int_equal(msg_check(&table, &h, 4, 1), 0);
	assert_int_equal(msg_check(&table, &h, 4, 0), -EPROTO);
	assert_int_equal(msg_check(&table, &h, 4, 2), -EPROTO);
	h.in_memory = 0;
	assert_int_equal(msg_check(&table, &h, 1, 0), -EPROTO);
	assert_int_equal(msg_check(&table, &h, 2, 0), 0);
	assert_int_equal(msg_check(&table, &h, AT_ONCE + 1, 0), -EPROTO);
	assert_int_equal(send(ends[0], &h, sizeof(h) - 1, 0), sizeof(h) - 1);
	assert_int_equal(take(), -EPROTO);
}

static void heads(void **state)
{
	const struct msg_head good = msg_head(&table, ANY);

	(void)state;
	assert_int_equal(msg_check(&table, &good, 9, 0), 0);
	assert_int_equal(msg_check(&newer, &good, 9, 0), -EPROTONOSUPPORT);
	assert_int_equal(msg_check(&other, &good, 9, 0), -EPROTO);
	for (size_t i = 0; i < sizeof(good); i++) {
		struct msg_head bad = good;

		((uint8_t *)&bad)[i] ^= 0x10;
		assert_int_equal(msg_check(&table, &bad, 9, 0),
				 i == offsetof(struct msg_head, version)
					 ? -EPROTONOSUPPORT
					 : -EPROTO);
	}
	for (unsigned type = 0; type < 256; type++) {
		struct msg_head h = msg_head(&table, type);

		assert_int_equal(msg_check(&table, &h, 4, 0),
				 type >= WORD && type < TYPES ? 0 : -EPROTO);
	}
}

static void a_long_body_lies_in_memory(void **state)
{
	int was = open_fds();

	(void)state;
	assert_int_equal(send_body(LONG, AT_ONCE), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(m.memory, -1);
	assert_int_equal(m.here, AT_ONCE);
	assert_int_equal(send_body(LONG, LONG_LEN), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(m.len, LONG_LEN);
	assert_int_equal(m.here, MSG_LEAD);
	assert_memory_equal(m.body, body, MSG_LEAD);
	assert_true(m.memory >= 0);
	assert_int_equal(m.fd[0], -1);
	memset(got, 0, sizeof(got));
	assert_int_equal(msg_read(&m, 0, got, LONG_LEN), 0);
	assert_memory_equal(got, body, LONG_LEN);
	assert_int_equal(msg_read(&m, 70, got, 9), 0);
	assert_memory_equal(got, body + 70, 9);
	assert_int_equal(msg_read(&m, 0, got, LONG_LEN + 1), -EPROTO);
	/* The receiver cannot change it either. */
	assert_true(pwrite(m.memory, "x", 1, 0) < 0);
	msg_drop(&m, false);
	assert_int_equal(open_fds(), was);
}

static int memory_of(size_t len, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void is_refused(int fd, bool refused)
{
	struct msg_head h = msg_head(&table, LONG);

	h.in_memory = 1;
	send_raw(&h, 9, &fd, 1);
	assert_int_equal(take(), refused ? -EPROTO : 0);
	msg_drop(&m, false);
	close(fd);
}

static void what_is_not_sealed_is_refused(void **state)
{
	const int seals = F_SEAL_SHRINK | F_SEAL_WRITE;
	int fds[2];

	(void)state;
	is_refused(memory_of(LONG_LEN, seals), false);
	is_refused(memory_of(LONG_LEN, 0), true);
	is_refused(memory_of(LONG_LEN, F_SEAL_SHRINK), true);
	is_refused(memory_of(LONG_LEN, F_SEAL_WRITE), true);
	is_refused(memory_of(LONG_MAX_LEN, seals), false);
	is_refused(memory_of(LONG_MAX_LEN + 1, seals), true);
	is_refused(memory_of(1, seals), true);
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	is_refused(fds[0], true);
	is_refused(fds[1], true);
	is_refused(open("/dev/zero", O_RDONLY | O_CLOEXEC), true);
}

/* From here on a system call that asks a file of its status kills the process: on a FUSE
 * file system it would wait for the sender. */
static bool forbid_stat(void)
{
	static struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_fstat
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstat, 3, 0),
#else
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 3, 0),
#endif
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_statx, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	static const struct sock_fprog all = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all, 0, 0) == 0;
}

static void what_is_not_memory_is_asked_nothing(void **state)
{
	struct msg_head h = msg_head(&table, LONG);
	int fds[2], status;
	pid_t child;

	(void)state;
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	h.in_memory = 1;
	send_raw(&h, 9, fds, 1);
	child = fork();
	if (child == 0) {
		if (!forbid_stat())
			_exit(77);
		_exit(take() == -EPROTO ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	close(fds[0]);
	close(fds[1]);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		fprintf(stderr, "SKIPPED: this kernel filters no system calls\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void no_descriptors_are_left(void **state)
{
	struct rlimit was, none;
	int fd = open("/", O_PATH | O_CLOEXEC);

	(void)state;
	close(fd); /* the lowest that is free */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ (rlim_t)fd, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(send_body(LONG, LONG_LEN), -EMFILE);
	/* With the descriptor table full, a message arrives without its descriptor. */
	assert_int_equal(send_fds(&ends[0], 1), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(m.fds, 0);
	assert_int_equal(m.fd[0], -1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

/* All but the first MSG_FDS of very many are closed. */
static void very_many_descriptors(void **state)
{
	const struct msg_head h = msg_head(&table, FDS);
	int fds[MSG_FDS_SENT], end_of[2];
	char byte;

	(void)state;
	assert_int_equal(pipe2(end_of, O_CLOEXEC), 0);
	for (int i = 0; i < MSG_FDS_SENT; i++)
		fds[i] = i < MSG_FDS ? STDERR_FILENO : end_of[1];
	send_raw(&h, 3, fds, MSG_FDS_SENT);
	close(end_of[1]);
	assert_int_equal(take(), -EPROTO);
	assert_int_equal(m.fds, MSG_FDS_SENT);
	assert_true(m.fd[0] > STDERR_FILENO && m.fd[1] > STDERR_FILENO);
	/* No write end is left once the others are closed */
	assert_int_equal(read(end_of[0], &byte, 1), 0);
	msg_drop(&m, false);
	close(end_of[0]);
}

static void refused_and_allowed(void **state)
{
	const int fd = STDERR_FILENO;

	(void)state;
	if (!msg_refuse_fds(ends[1])) {
		fprintf(stderr, "SKIPPED: this kernel does not refuse descriptors\n");
		skip();
	}
	assert_int_equal(send_fds(&fd, 1), -EAGAIN);
	assert_int_equal(send_body(WORD, 4), 0);
	assert_int_equal(take(), 0);
	msg_allow_fds(ends[1]);
	assert_int_equal(send_fds(&fd, 1), 0);
	assert_int_equal(take(), 0);
	assert_int_equal(m.fds, 1);
	msg_drop(&m, false);
}

/* With SO_PASSCRED the kernel names the sender, and tells an empty message from the
 * end. */
static void the_sender_is_named(void **state)
{
	int on = 1;

	(void)state;
	assert_int_equal(setsockopt(ends[1], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)),
			 0);
	assert_int_equal(send_body(WORD, 4), 0);
	assert_int_equal(send(ends[0], "", 0, 0), 0);
	assert_int_equal(msg_recv(ends[1], &table, 12345, got, 4, &m, false), 0);
	assert_int_equal(m.uid, geteuid());
	assert_int_equal(m.pid, getpid());
	assert_int_equal(take(), -EPROTO);
	close(ends[0]);
	ends[0] = -1;
	assert_int_equal(take(), -EIO);
}

/* What is accepted is what the table allows. */
static void random_bytes(void **state)
{
	struct prng r;

	(void)state;
	rand_seed(&r, 1);
	for (int i = 0; i < 100000; i++) {
		struct msg_head h = msg_head(&table, (unsigned)rand_below(&r, TYPES + 1));
		size_t len = rand_below(&r, 12);
		unsigned n = (unsigned)rand_below(&r, 4);

		if (rand_below(&r, 3) == 0)
			((uint8_t *)&h)[rand_below(&r, sizeof(h))] =
				(uint8_t)rand_u64(&r);
		if (msg_check(&table, &h, len, n))
			continue;
		assert_in_range(h.type, WORD, LONG);
		assert_true(h.in_memory ? h.type == LONG && n == 1
					: len >= rows[h.type].least &&
						  len <= rows[h.type].at_once &&
						  n <= rows[h.type].fds);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, connected, parted)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(parts_are_one_body),
		TEST(an_end_is_told),
		TEST(a_full_connection_is_not_waited_for),
		TEST(memory_that_is_not_there),
		TEST(descriptors_go_along),
		TEST(more_descriptors_than_allowed),
		TEST(lengths),
		TEST(heads),
		TEST(a_long_body_lies_in_memory),
		TEST(what_is_not_sealed_is_refused),
		TEST(what_is_not_memory_is_asked_nothing),
		TEST(no_descriptors_are_left),
		TEST(very_many_descriptors),
		TEST(refused_and_allowed),
		TEST(the_sender_is_named),
		TEST(random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
