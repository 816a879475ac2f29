/* SPDX-License-Identifier: BSD-2-Clause */
/* Files, agents and MADs of libibumad, over a fabric that only records its calls. */
#include <errno.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "abi/umad_own.h"
#include "fabric/port/plug.h"

enum { FD = 99, MAD = 256 };

static int answer, resolved, ports;
static struct plug_register registered;
static long received;
static unsigned looks; /* so often there is no message, though poll() reports one */

/* --- the fabric ----------------------------------------------------------- */

int umad_resolve(struct umad_place *at, const char *ca_name, int *port)
{
	(void)ca_name;
	*at = (struct umad_place){ "fabric", "hca" };
	if (*port == 0)
		*port = 2;
	return resolved;
}

static void check_place(const char *fabric, const char *hca, uint32_t port)
{
	assert_string_equal(fabric, "fabric");
	assert_string_equal(hca, "hca");
	ports = (int)port;
}

int plug_open(const char *fabric, const char *hca, uint32_t port)
{
	check_place(fabric, hca, port);
	return answer;
}

static unsigned issms;

int plug_issm(const char *fabric, const char *hca, uint32_t port, char *path, size_t size)
{
	check_place(fabric, hca, port);
	snprintf(path, size, "/issm%u", ++issms);
	return answer;
}

int plug_register(int fd, const struct plug_register *reg)
{
	assert_int_equal(fd, FD);
	registered = *reg;
	return answer;
}

int plug_unregister(int fd, uint32_t agent)
{
	assert_int_equal(fd, FD);
	assert_int_equal(agent, 7);
	return answer;
}

static struct ib_user_mad sent;
static size_t sent_len;

int plug_send(int fd, const void *msg, size_t len)
{
	assert_int_equal(fd, FD);
	memcpy(&sent, msg, sizeof(sent));
	sent_len = len;
	return answer;
}

static int recv_fd = -1;

long plug_recv(int fd, void *msg, size_t size, size_t *need)
{
	assert_int_equal(fd, recv_fd);
	assert_int_equal(size, PLUG_HDR + MAD);
	if (looks && looks--)
		return -EWOULDBLOCK;
	if (received > 0)
		((struct ib_user_mad *)msg)->agent_id = 7;
	if (received == -ENOSPC)
		*need = PLUG_HDR + 1000;
	return received;
}

/* --- files ---------------------------------------------------------------- */

static void opens(void **state)
{
	static const struct {
		int resolved, answer, named, any; /* results with a name and without */
	} row[] = {
		{ 0, 5, 5, 5 },
		{ 0, 0, 0, 0 },
		{ -ENODEV, 5, -EINVAL, -ENODEV },
		{ -EIO, 5, -EIO, -EIO },
		{ 0, -ENODEV, -EINVAL, -EINVAL },
		{ 0, -ETIMEDOUT, -EIO, -EIO },
	};

	(void)state;
	assert_int_equal(umad_init(), 0);
	assert_int_equal(umad_done(), 0);
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		resolved = row[i].resolved;
		answer = row[i].answer;
		assert_int_equal(umad_open_port("hca", 1), row[i].named);
		assert_int_equal(umad_open_port(NULL, 1), row[i].any);
	}
	resolved = 0;
	answer = 5;
	umad_open_port(NULL, 0);
	assert_int_equal(ports, 2);
}

static void closes(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(umad_close_port(fds[0]), 0);
	assert_int_equal(close(fds[0]), -1);
	close(fds[1]);
	assert_int_equal(umad_get_fd(FD), FD);
}

/* There is one path for each port, which lasts. */
static void issm_paths(void **state)
{
	char path[32];

	(void)state;
	answer = -EIO;
	assert_int_equal(umad_get_issm_path(NULL, 1, path, 32), -EINVAL);
	answer = 0;
	assert_int_equal(umad_get_issm_path(NULL, 1, path, 32), 0);
	assert_string_equal(path, "/issm2");
	assert_int_equal(ports, 1);
	assert_int_equal(umad_get_issm_path(NULL, 2, path, 32), 0);
	assert_string_equal(path, "/issm3");
	assert_int_equal(umad_get_issm_path(NULL, 1, path, 7), 0);
	assert_string_equal(path, "/issm2");
	assert_int_equal(umad_get_issm_path(NULL, 1, path, 6), -EINVAL);
	assert_int_equal(umad_get_issm_path(NULL, 1, path, 0), -EINVAL);
	assert_int_equal(umad_get_issm_path(NULL, UMAD_CA_MAX_PORTS, path, 32), -EINVAL);
	resolved = -ENODEV;
	assert_int_equal(umad_get_issm_path(NULL, 1, path, 32), -ENODEV);
	resolved = -EIO;
	assert_int_equal(umad_get_issm_path(NULL, 1, path, 32), -EINVAL);
	resolved = 0;
	if (!fork()) /* the child makes its own */
		_exit(umad_get_issm_path(NULL, 1, path, 32) || strcmp(path, "/issm4"));
	int status;
	wait(&status);
	assert_int_equal(status, 0);
}

/* --- messages ------------------------------------------------------------- */

static void addresses(void **state)
{
	struct ib_user_mad mad;
	struct ib_mad_addr from = {
		.flow_label = 0x01020304, .hop_limit = 5, .traffic_class = 6, .gid = { 7 }
	};

	(void)state;
	memset(&mad, 0, sizeof(mad));
	assert_int_equal(umad_size(), 64);
	assert_ptr_equal(umad_get_mad(&mad), (char *)&mad + 64);
	mad.status = 8;
	assert_int_equal(umad_status(&mad), 8);
	assert_ptr_equal(umad_get_mad_addr(&mad), &mad.addr);
	assert_int_equal(umad_set_addr(&mad, 0x102, 0x30405, 6, 0x708090a), 0);
	assert_int_equal(mad.addr.lid, __builtin_bswap16(0x102));
	assert_int_equal(mad.addr.qpn, __builtin_bswap32(0x30405));
	assert_int_equal(mad.addr.sl, 6);
	assert_int_equal(mad.addr.qkey, __builtin_bswap32(0x708090a));
	assert_int_equal(umad_set_addr_net(&mad, 1, 2, 3, 4), 0);
	assert_int_equal(mad.addr.lid, 1);
	assert_int_equal(mad.addr.qpn, 2);
	assert_int_equal(mad.addr.sl, 3);
	assert_int_equal(mad.addr.qkey, 4);
	assert_int_equal(umad_set_grh(&mad, &from), 0);
	assert_int_equal(mad.addr.grh_present, 1);
	assert_int_equal(mad.addr.flow_label, 0x04030201);
	assert_int_equal(mad.addr.hop_limit, 5);
	assert_int_equal(mad.addr.traffic_class, 6);
	assert_int_equal(mad.addr.gid[0], 7);
	assert_int_equal(umad_set_grh(&mad, NULL), 0);
	assert_int_equal(mad.addr.grh_present, 0);
	assert_int_equal(umad_set_pkey(&mad, 9), 0);
	assert_int_equal(umad_get_pkey(&mad), 9);
}

static void sends(void **state)
{
	char umad[64 + MAD] = { 0 };

	(void)state;
	answer = 0;
	assert_int_equal(umad_send(FD, 7, umad, MAD, 100, 3), 0);
	assert_int_equal(sent_len, 64 + MAD);
	assert_int_equal(sent.agent_id, 7);
	assert_int_equal(sent.timeout_ms, 100);
	assert_int_equal(sent.retries, 3);
	answer = -EPIPE;
	assert_int_equal(umad_send(FD, 7, umad, MAD, 100, 3), -EIO);
	assert_int_equal(errno, EPIPE);
	answer = 0;
	sent_len = 0;
	assert_int_equal(umad_send(FD, 7, umad, -1, 100, 3), -EIO);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(sent_len, 0);
}

static void polls(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(umad_poll(fds[0], 0), -ETIMEDOUT);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(umad_poll(fds[0], 1000), 0);
	close(fds[0]);
	close(fds[1]);
}

static int slept_ms;

/* In place of libc's: a poll() of nothing, which is a sleep, takes no time. */
int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	struct timespec ts = { timeout_ms / 1000, timeout_ms % 1000 * 1000000l };

	if (n)
		return ppoll(fds, n, timeout_ms < 0 ? NULL : &ts, NULL);
	slept_ms += timeout_ms;
	return 0;
}

static void receives(void **state)
{
	char umad[64 + MAD];
	int fds[2], len = MAD;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	recv_fd = fds[0];
	assert_int_equal(umad_recv(recv_fd, NULL, &len, 0), -EINVAL);
	assert_int_equal(umad_recv(recv_fd, umad, NULL, 0), -EINVAL);
	len = -1;
	assert_int_equal(umad_recv(recv_fd, umad, &len, 0), -EINVAL);
	assert_int_equal(errno, EINVAL);
	len = MAD;
	assert_int_equal(umad_recv(recv_fd, umad, &len, 1), -ETIMEDOUT);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(write(fds[1], "x", 1), 1);
	received = 64 + 24;
	assert_int_equal(umad_recv(recv_fd, umad, &len, -1), 7);
	assert_int_equal(len, 24);
	len = MAD;
	received = -ENOSPC;
	assert_int_equal(umad_recv(recv_fd, umad, &len, 0), -ENOSPC);
	assert_int_equal(len, 1000);
	assert_int_equal(errno, ENOSPC);
	len = MAD;
	received = 63; /* less than a header */
	assert_int_equal(umad_recv(recv_fd, umad, &len, 0), -EIO);
	assert_int_equal(len, MAD);
	/* Another thread was quicker: a call without a timeout goes on waiting. */
	received = 64;
	looks = 2;
	assert_int_equal(umad_recv(recv_fd, umad, &len, -1), 7);
	assert_int_equal(looks, 0);
	looks = 2;
	len = MAD;
	assert_int_equal(umad_recv(recv_fd, umad, &len, 1000), -EWOULDBLOCK);
	assert_int_equal(looks, 1);
	looks = 0;
	/* A fabric that has ended returns its error ten times a second. */
	received = -EIO;
	slept_ms = 0;
	assert_int_equal(umad_recv(recv_fd, umad, &len, -1), -EIO);
	assert_int_equal(slept_ms, 100);
	assert_int_equal(umad_recv(recv_fd, umad, &len, 20), -EIO);
	assert_int_equal(slept_ms, 120);
	close(fds[0]);
	close(fds[1]);
}

/* --- agents --------------------------------------------------------------- */

static void registers(void **state)
{
	long methods[16 / sizeof(long)] = { 0x12, 0x34 };
	uint8_t oui[3] = { 1, 2, 3 };

	(void)state;
	answer = 7;
	assert_int_equal(umad_register(FD, 3, 2, 1, methods), 7);
	assert_int_equal(registered.say, PLUG_REGISTER);
	assert_int_equal(registered.class, 3);
	assert_int_equal(registered.version, 2);
	assert_int_equal(registered.rmpp, 1);
	assert_int_equal(registered.oui, 0x001405);
	assert_int_equal(registered.methods[0], 0x12);
	assert_int_equal(registered.methods[1], 0x34);
	assert_int_equal(umad_register(FD, 3, 2, 1, NULL), 7);
	assert_int_equal(registered.methods[0], 0);
	assert_int_equal(umad_register_oui(FD, 0x30, 1, oui, methods), 7);
	assert_int_equal(registered.oui, 0x010203);
	assert_int_equal(registered.version, 1);
	assert_int_equal(umad_register_oui(FD, 0x4f, 1, oui, NULL), 7);
	assert_int_equal(umad_register_oui(FD, 0x2f, 1, oui, NULL), -EINVAL);
	assert_int_equal(umad_register_oui(FD, 0x50, 1, oui, NULL), -EINVAL);
	answer = -EBUSY;
	assert_int_equal(umad_register(FD, 3, 2, 1, NULL), -EPERM);
	assert_int_equal(umad_register_oui(FD, 0x30, 1, oui, NULL), -EPERM);
	answer = 0;
	assert_int_equal(umad_register(FD, 3, 2, 1, NULL), 0);
}

static void registers_2(void **state)
{
	static const struct {
		uint8_t class;
		uint32_t oui, flags;
		int answer, rc;
	} row[] = {
		{ 3, 0, 0, 7, 0 },
		{ 3, 0, 0, 0, 0 },
		{ 3, 0, 0, -EBUSY, EBUSY },
		{ 3, 0, UMAD_USER_RMPP, 7, 0 },
		{ 3, 0, UMAD_USER_RMPP, -EINVAL, EINVAL },
		{ 3, 0, UMAD_USER_RMPP << 1, 7, EINVAL },
		{ 0x30, 0, 0, 7, EINVAL }, /* a vendor class needs an OUI */
		{ 0x30, 0x1000000, 0, 7, EINVAL },
		{ 0x30, 0xffffff, 0, 7, 0 },
		{ 0x4f, 0, 0, 7, EINVAL },
		{ 0x4f, 1, 0, 7, 0 },
		{ 0x2f, 0, 0, 7, 0 },
		{ 0x50, 0, 0, 7, 0 },
	};
	uint32_t agent = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct umad_reg_attr attr = { .mgmt_class = row[i].class,
					      .mgmt_class_version = 2,
					      .flags = row[i].flags,
					      .oui = row[i].oui,
					      .rmpp_version = 1,
					      .method_mask = { 5, 6 } };

		agent = 99;
		answer = row[i].answer;
		assert_int_equal(umad_register2(FD, &attr, &agent), row[i].rc);
		assert_int_equal(agent, row[i].rc ? 99 : (uint32_t)row[i].answer);
		assert_int_equal(attr.flags, row[i].rc == EINVAL ? 0 : row[i].flags);
		if (row[i].rc)
			continue;
		assert_int_equal(registered.class, row[i].class);
		assert_int_equal(registered.version, 2);
		assert_int_equal(registered.rmpp, 1);
		assert_int_equal(registered.own_rmpp, row[i].flags);
		assert_int_equal(registered.oui, row[i].oui);
		assert_int_equal(registered.methods[1], 6);
	}
	assert_int_equal(umad_register2(FD, NULL, &agent), EINVAL);
	assert_int_equal(umad_register2(FD, &(struct umad_reg_attr){ 0 }, NULL), EINVAL);
}

static void unregisters(void **state)
{
	(void)state;
	answer = 0;
	assert_int_equal(umad_unregister(FD, 7), 0);
	answer = -EINVAL;
	assert_int_equal(umad_unregister(FD, 7), -1);
	assert_int_equal(errno, EINVAL);
}

/* --- debug output -------------------------------------------------------- */

static void dumps(void **state)
{
	char umad[64 + MAD] = { 0 }, text[1024], expected[512];
	struct ib_user_mad *mad = (void *)umad;
	int fds[2], err = dup(2);
	ssize_t n;

	(void)state;
	umad_set_addr(umad, 5, 6, 7, 8);
	mad->addr.gid[15] = 0xab;
	mad->agent_id = 9;
	mad->status = 10;
	assert_int_equal(umad_debug(-1), 0);
	assert_int_equal(umad_debug(2), 2);
	assert_int_equal(umad_debug(-1), 2);
	answer = 0;
	assert_int_equal(pipe(fds), 0);
	fflush(stderr);
	dup2(fds[1], 2);
	umad_send(FD, 7, umad, MAD, 11, 0); /* at this debug level the message is shown */
	umad_debug(1);
	umad_send(FD, 8, umad, MAD, 11, 0);
	fflush(stderr);
	dup2(err, 2);
	n = read(fds[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	snprintf(expected, sizeof(expected),
		 "ibwarn: [%d] umad_dump: agent id 7 status a timeout 11\n"
		 "ibwarn: [%d] umad_addr_dump: qpn 6 qkey 0x8 lid 5 sl 7\n"
		 "grh_present 0 gid_index 0 hop_limit 0 traffic_class 0 flow_label 0x0 "
		 "pkey_index 0x0\nGid 0x000000000000000000000000000000ab\n",
		 getpid(), getpid());
	assert_string_equal(text, expected);
	umad_debug(0);
	close(fds[0]);
	close(fds[1]);
	close(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens),       cmocka_unit_test(closes),
		cmocka_unit_test(issm_paths),  cmocka_unit_test(addresses),
		cmocka_unit_test(sends),       cmocka_unit_test(polls),
		cmocka_unit_test(receives),    cmocka_unit_test(registers),
		cmocka_unit_test(registers_2), cmocka_unit_test(unregisters),
		cmocka_unit_test(dumps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
