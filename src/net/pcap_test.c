/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/ip_addr.h"
#include "net/pcap.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/link_testing.h"
#include "net/loop.h"

enum { MS = 1000000 };

static char dir[] = "/tmp/urnic-pcap-test-XXXXXX", path[64];

struct pair {
	struct link *cap, *far;
};

/* Captures what link carries to the file. */
static int wrap(struct link **link, const char *name)
{
	struct captures *set = captures_new();
	int rc = captures_file(set, name);

	if (!rc)
		return pcap_wrap(link, *link, set, false);
	captures_leave(set);
	return rc;
}

static struct pair join(void)
{
	struct loop_conf conf = { .run_max = 8, .depth = 4096 };
	struct pair p;

	assert_int_equal(loop_pair(&p.cap, &p.far, &conf), 0);
	assert_int_equal(wrap(&p.cap, path), 0);
	assert_int_equal(p.cap->run_max, 8);
	assert_int_equal(p.cap->mtu, p.far->mtu);
	return p;
}

static void part(struct pair p)
{
	p.cap->ops->close(p.cap);
	p.far->ops->close(p.far);
}

static long file_size(void)
{
	struct stat st;

	return stat(path, &st) ? -1 : (long)st.st_size;
}

static void packets_reach_the_file_in_time(void **state)
{
	struct pair p = join();
	long empty = file_size();

	(void)state;
	assert_true(empty > 0); /* valid from the start */
	assert_int_equal(p.cap->ops->deadline(p.cap), UINT64_MAX);
	assert_int_equal(test_send(p.cap, 1, 5 * MS), 1);
	assert_int_equal(file_size(), empty);
	assert_int_equal(p.cap->ops->deadline(p.cap), 105 * MS);
	assert_int_equal(test_recv(p.cap, 104 * MS), -1);
	assert_int_equal(file_size(), empty);
	assert_int_equal(test_recv(p.cap, 105 * MS), -1);
	assert_true(file_size() > empty);
	assert_int_equal(p.cap->ops->deadline(p.cap), UINT64_MAX);

	empty = file_size();
	assert_int_equal(test_send(p.far, 2, 200 * MS), 1);
	assert_int_equal(test_recv(p.cap, 200 * MS), 2);
	assert_int_equal(file_size(), empty);
	part(p);
	assert_true(file_size() > empty);
}

/* Runs in a child process, since the end of captures is final. */
static void nothing_is_kept_at_the_end(void **state)
{
	int status;

	(void)state;
	if (fork() == 0) {
		struct pair p = join();
		long empty = file_size(), one;

		test_send(p.cap, 1, 5 * MS);
		if (file_size() != empty)
			_exit(1);
		capture_leave();
		test_recv(p.cap, 6 * MS);
		one = file_size();
		if (one == empty)
			_exit(2);
		test_send(p.cap, 2, 7 * MS);
		_exit(file_size() == one ? 3 : 0);
	}
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
}

static void only_what_the_link_took_is_recorded(void **state)
{
	struct loop_conf conf = { .depth = 1, .backpressure = true };
	struct pair p;
	long one;

	(void)state;
	for (int sends = 1; sends < 3; sends++) {
		assert_int_equal(loop_pair(&p.cap, &p.far, &conf), 0);
		assert_int_equal(wrap(&p.cap, path), 0);
		for (int i = 0; i < sends; i++)
			assert_int_equal(test_send(p.cap, 1, 0), i == 0);
		part(p);
		if (sends == 1)
			one = file_size();
		else
			assert_int_equal(file_size(), one);
	}
}

static void a_full_buffer_is_written(void **state)
{
	struct pair p = join();
	uint8_t bytes[64] = { 0 };
	struct test_dgram t;
	long before = file_size();

	(void)state;
	for (int i = 0; i < 20000; i++) {
		assert_int_equal(p.cap->ops->send(p.cap, test_dgram(&t, bytes, 64), 1, 0),
				 1);
		test_recv(p.far, 0);
	}
	assert_true(file_size() > before + (1 << 19));
	part(p);
	/* Each packet takes 28 + 20 + 8 + 64 + 16 bytes: none is missing. */
	assert_int_equal(file_size(), before + 20000 * 136);
}

static void the_name_may_hold_the_process_id(void **state)
{
	struct link *a, *b;
	char spec[80], name[96];
	struct stat st;

	(void)state;
	snprintf(spec, sizeof(spec), "%s/%%p-%%p.x", dir);
	snprintf(name, sizeof(name), "%s/%d-%d.x", dir, getpid(), getpid());
	assert_int_equal(loop_pair(&a, &b, &(struct loop_conf){ 0 }), 0);
	assert_int_equal(wrap(&a, spec), 0);
	assert_int_equal(stat(name, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	unlink(name);
	a->ops->close(a);
	b->ops->close(b);
}

/* Two captures in one file would overwrite each other. */
static void a_file_is_one_captures_at_a_time(void **state)
{
	struct link *a, *b;
	struct pair p = join();
	long size;

	(void)state;
	assert_int_equal(loop_pair(&a, &b, &(struct loop_conf){ 0 }), 0);
	p.cap->ops->deadline(p.cap);
	size = file_size();
	assert_int_equal(wrap(&a, path), -EBUSY);
	assert_int_equal(file_size(), size);
	part(p);
	assert_int_equal(wrap(&a, path), 0);
	a->ops->close(a);
	b->ops->close(b);
}

static void a_file_that_cannot_be_made_is_an_error(void **state)
{
	struct link *a, *b, *was;
	char spec[1024];

	(void)state;
	assert_int_equal(loop_pair(&a, &b, &(struct loop_conf){ 0 }), 0);
	was = a;
	assert_int_equal(wrap(&a, "/no/such/directory/x"), -ENOENT);
	memset(spec, 'x', sizeof(spec));
	spec[sizeof(spec) - 1] = '\0';
	assert_int_equal(wrap(&a, spec), -ENAMETOOLONG);
	assert_ptr_equal(a, was);
	a->ops->close(a);
	b->ops->close(b);
}

/* The file keeps its length, and traffic goes on. */
static void a_full_disk_ends_the_capture_only(void **state)
{
	struct pair p = join(), q;
	struct rlimit was, small;
	long before = file_size();

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	small = was;
	/* Room for one packet and a part of the next. */
	small.rlim_cur = (rlim_t)before + 100;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(test_send(p.cap, i, i * 200u * MS), 1);
		assert_int_equal(test_send(p.cap, i, i * 200u * MS), 1);
		assert_int_equal(test_recv(p.far, i * 200u * MS), i);
		assert_int_equal(test_recv(p.far, i * 200u * MS), i);
	}
	assert_int_equal(test_recv(p.cap, 10000ul * MS), -1);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
	assert_int_equal(file_size(), before);

	unlink(path); /* a later capture has a file of its own */
	q = join();
	assert_int_equal(test_send(p.cap, 1, 20000ul * MS), 1);
	assert_int_equal(test_recv(p.cap, 30000ul * MS), -1);
	part(p);
	assert_int_equal(file_size(), before);
	assert_int_equal(test_send(q.cap, 1, 0), 1);
	part(q);
	assert_true(file_size() > before);
}

/* Opens another file in place of the capture's descriptor, and returns the
 * descriptor. */
static int take_over(int by)
{
	struct stat st, cap;

	assert_int_equal(stat(path, &cap), 0);
	for (int fd = 3; fd < 1024; fd++)
		if (fstat(fd, &st) == 0 && st.st_dev == cap.st_dev &&
		    st.st_ino == cap.st_ino)
			return dup2(by, fd);
	return -1;
}

static void a_closed_descriptor_ends_the_capture_only(void **state)
{
	struct pair p = join();
	int file = memfd_create("somebody", 0), taken;
	struct stat st;
	long before = file_size();

	(void)state;
	assert_int_equal(test_send(p.cap, 1, 0), 1);
	taken = take_over(file);
	assert_true(taken >= 0);
	assert_int_equal(test_send(p.cap, 2, 200 * MS), 1);
	assert_int_equal(test_recv(p.far, 200 * MS), 1);
	assert_int_equal(test_recv(p.far, 200 * MS), 2);
	part(p);
	capture_forked();
	assert_int_equal(file_size(), before);
	assert_int_equal(fstat(file, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(close(taken), 0);
	close(file);
}

static void a_fork_leaves_the_file_to_the_parent(void **state)
{
	struct pair p = join();
	int status = -1;
	long before;
	pid_t child;

	(void)state;
	assert_int_equal(test_send(p.cap, 1, 0), 1);
	before = file_size();
	child = fork();
	if (child == 0) {
		capture_forked();
		p.cap->ops->close(p.cap);
		_exit(file_size() != before);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	part(p);
	assert_true(file_size() > before);
}

/* Runs tshark on the file: one line per packet, one column per field, separated by
 * tabs. */
static void tshark(const char *fields, char *out, size_t room)
{
	char cmd[512];
	size_t n;
	FILE *f;

	if (system("tshark --version >/dev/null 2>&1") != 0)
		skip();
	snprintf(cmd, sizeof(cmd),
		 "tshark -r %s -o ip.check_checksum:TRUE "
		 "-o udp.check_checksum:TRUE -T fields %s 2>/dev/null",
		 path, fields);
	f = popen(cmd, "r");
	assert_non_null(f);
	n = fread(out, 1, room - 1, f);
	out[n] = '\0';
	assert_int_equal(pclose(f), 0);
}

/* An ACK of RoCE: BTH, AETH, ICRC (which tshark does not check). */
static const uint8_t ack[20] = {
	0x11, 0, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0x12, 0x34, 0x56, 0x1f, 0, 0, 1,
};

static void write_for_tshark(void)
{
	struct pair p = join();
	struct test_dgram t[2];
	struct dgram v[2];

	for (int i = 0; i < 2; i++) { /* one run of two datagrams */
		v[i] = *test_dgram(&t[i], ack, sizeof(ack));
		v[i].seg = (uint16_t)i;
		v[i].ip_id = i;
	}
	assert_int_equal(p.cap->ops->send(p.cap, v, 2, 1000), 2);
	v[0].ip_id = 0xfedc;
	assert_int_equal(p.far->ops->send(p.far, v, 1, 1000), 1);
	memset(ip_of(&v[1])->from.ip, 0xfd, 16);
	memset(ip_of(&v[1])->to.ip, 0xfe, 16);
	assert_int_equal(p.far->ops->send(p.far, v + 1, 1, 1000), 1);
	assert_int_equal(p.cap->ops->recv(p.cap, v, 2, 1000000123), 2);
	part(p);
}

static void tshark_reads_every_packet(void **state)
{
	char got[1024];

	(void)state;
	write_for_tshark();
	tshark("-e frame.packet_flags_direction -e ip.src -e ipv6.src -e ip.id "
	       "-e ip.flags -e ip.ttl -e ip.checksum.status -e udp.srcport "
	       "-e udp.length -e udp.checksum.status -e infiniband.bth.opcode "
	       "-e infiniband.bth.psn",
	       got, sizeof(got));
	assert_string_equal(
		got,
		"0x00000002\t10.0.0.1\t\t0x0000\t0x02\t64\t1\t49153\t28\t3\t17\t1193046\n"
		"0x00000002\t10.0.0.1\t\t0x0001\t0x02\t64\t1\t49153\t28\t3\t17\t1193046\n"
		"0x00000001\t10.0.0.1\t\t0xfedc\t0x02\t64\t1\t49153\t28\t3\t17\t1193046\n"
		"0x00000001\t\tfdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd"
		"\t\t\t\t\t49153\t28\t1\t17\t1193046\n");
	tshark("-e _ws.expert.message -e _ws.malformed", got, sizeof(got));
	assert_string_equal(got, "\t\n\t\n\t\n\t\n");
}

static void times_are_the_engines_on_the_wall_clock(void **state)
{
	char got[1024], *at;
	double t[4];

	(void)state;
	write_for_tshark();
	tshark("-e frame.time_epoch", got, sizeof(got));
	at = got;
	for (int i = 0; i < 4; i++)
		t[i] = strtod(at, &at);
	assert_true(t[0] > (double)time(NULL) - 60 && t[0] < (double)time(NULL) + 60);
	tshark("-e frame.time_relative", got, sizeof(got));
	assert_string_equal(got, "0.000000000\n0.000000000\n0.999999123\n0.999999123\n");
}

static void half_a_file_is_read_too(void **state)
{
	char got[1024];

	(void)state;
	write_for_tshark();
	tshark("-e ip.id", got, sizeof(got));
	assert_string_equal(got, "0x0000\n0x0001\n0xfedc\n\n");
	/* cut as after a flush: two whole packets */
	assert_int_equal(truncate(path, file_size() - 92 - 112), 0);
	tshark("-e ip.id", got, sizeof(got));
	assert_string_equal(got, "0x0000\n0x0001\n");
}

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/x.pcapng", dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_reach_the_file_in_time),
		cmocka_unit_test(nothing_is_kept_at_the_end),
		cmocka_unit_test(only_what_the_link_took_is_recorded),
		cmocka_unit_test(a_full_buffer_is_written),
		cmocka_unit_test(the_name_may_hold_the_process_id),
		cmocka_unit_test(a_file_is_one_captures_at_a_time),
		cmocka_unit_test(a_file_that_cannot_be_made_is_an_error),
		cmocka_unit_test(a_full_disk_ends_the_capture_only),
		cmocka_unit_test(a_closed_descriptor_ends_the_capture_only),
		cmocka_unit_test(a_fork_leaves_the_file_to_the_parent),
		cmocka_unit_test(tshark_reads_every_packet),
		cmocka_unit_test(times_are_the_engines_on_the_wall_clock),
		cmocka_unit_test(half_a_file_is_read_too),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
