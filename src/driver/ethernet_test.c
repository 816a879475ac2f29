/* SPDX-License-Identifier: BSD-2-Clause */
/* The links of a NIC's RoCE devices, as the configuration asks for them.  It is read once
 * in a process, so each case is a process. */
#include "driver/ethernet.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/nic.h"
#include "driver/nic_own.h"
#include "sys/netns_testing.h"
#include "verbs/netport.h"

static const uint8_t here[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
static char capture[] = "/tmp/urnic-ethernet-XXXXXX";

static struct device *roce_of_lo(void)
{
	struct device **v, *dev = NULL;
	int n;

	if (nic_devices(&v, &n))
		return NULL;
	for (int i = 0; i < n; i++)
		if (v[i]->kind == &device_roce && net_device_of(v[i])->net.loopback)
			dev = v[i];
	free(v);
	return dev;
}

/* In a child: opens a NIC, its port and a group; 0, or the errno of what failed. */
static int use(int (*look)(struct nic *))
{
	const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct nic *nic;
	int rc = nic_open(&nic);

	if (rc)
		return -rc;
	rc = nic_listen(nic, roce_of_lo(), here);
	if (!rc)
		rc = nic_join(nic, roce_of_lo(), &group, true);
	if (!rc)
		rc = nic_join(nic, roce_of_lo(), &group, false);
	assert_int_equal(nic_open_port(&nic->core, NULL), 0);
	turn_take(&nic->core.turn);
	nic_log_counters(nic);
	turn_give(&nic->core.turn);
	if (!rc && look)
		rc = look(nic);
	nic_close(nic);
	return -rc;
}

static int run_with(const char *key, const char *value, int (*look)(struct nic *))
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		setenv(key, value, 1);
		exit(use(look));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int has_no_capture(struct nic *nic)
{
	return nic->captures || !ethernet_link(nic->ethernet) ? -EBADMSG : 0;
}

static int has_a_capture(struct nic *nic)
{
	return nic->captures ? 0 : -EBADMSG;
}

static void sockets_alone(void **state)
{
	(void)state;
	assert_int_equal(run_with("URNIC_LINK", "udp", has_no_capture), 0);
}

static void packet_sockets(void **state)
{
	(void)state;
	assert_int_equal(run_with("URNIC_LINK", "raw", has_no_capture), 0);
}

static void packet_sockets_without_the_right(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	if (geteuid())
		skip();
	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		setenv("URNIC_LINK", "raw", 1);
		if (setresuid(65534, 65534, 65534))
			_exit(EPERM);
		exit(use(NULL));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), EPERM);
}

static void a_capture(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(run_with("URNIC_PCAP", capture, has_a_capture), 0);
	assert_int_equal(stat(capture, &st), 0);
	assert_true(st.st_size > 0);
}

static void a_capture_that_cannot_be_written(void **state)
{
	(void)state;
	assert_int_equal(run_with("URNIC_PCAP", "/nowhere/to/be/found", NULL), ENOENT);
}

static void faults(void **state)
{
	(void)state;
	assert_int_equal(run_with("URNIC_FAULT", "drop=0.5", has_no_capture), 0);
}

static void faults_that_make_no_sense(void **state)
{
	(void)state;
	assert_int_equal(run_with("URNIC_FAULT", "drop=many", NULL), EINVAL);
	assert_int_equal(run_with("URNIC_FAULT", "no such fault", NULL), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sockets_alone),
		cmocka_unit_test(packet_sockets),
		cmocka_unit_test(packet_sockets_without_the_right),
		cmocka_unit_test(a_capture),
		cmocka_unit_test(a_capture_that_cannot_be_written),
		cmocka_unit_test(faults),
		cmocka_unit_test(faults_that_make_no_sense),
	};
	int fd, failed;

	if (!netns_enter()) {
		fprintf(stderr, "SKIPPED: no network namespace here\n");
		return 77;
	}
	netns_lo_up();
	fd = mkstemp(capture);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	close(fd);
	unlink(capture);
	return failed;
}
