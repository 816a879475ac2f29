/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/conf.h"
#include "sys/log.h"

static char path[] = "/tmp/urnic_conf_XXXXXX";
static struct conf c;
static struct conf_origin o;
static char err[CONF_ERR];

static void file(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	setenv("URNIC_CONF", path, 1);
}

static void good(void)
{
	if (conf_read(&c, &o, err) != 0)
		fail_msg("%s", err);
}

static void bad(const char *names)
{
	assert_int_not_equal(conf_read(&c, &o, err), 0);
	if (!strstr(err, names))
		fail_msg("\"%s\" does not name \"%s\"", err, names);
}

static void t_defaults(void **state)
{
	(void)state;
	good();
	assert_string_equal(c.log, "warn");
	assert_string_equal(c.identity, "urnic");
	assert_string_equal(c.fault, "");
	assert_int_equal(c.local, CONF_LOCAL_AUTO);
	assert_int_equal(c.udp_port, 4791);
	assert_int_equal(c.share, CONF_SHARE_AUTO);
	assert_false(c.one_gid);
	assert_int_equal(o.from[0], CONF_DEFAULT);
}

static void t_file(void **state)
{
	(void)state;
	file("; comment\n[urnic]\nlocal = off\none_gid = yes\nshare = user\n"
	     "udp_port=5000\ndevices = eth0,eth1\n");
	good();
	assert_int_equal(c.local, CONF_LOCAL_OFF);
	assert_true(c.one_gid);
	assert_int_equal(c.udp_port, 5000);
	assert_int_equal(c.share, CONF_SHARE_USER);
	assert_string_equal(c.devices, "eth0,eth1");
	file("log = debug\n"); /* no section is needed */
	good();
	assert_string_equal(c.log, "debug");
	assert_int_equal(o.from[0], CONF_FILE);
	assert_string_equal(o.path, path);
}

static void t_env_wins(void **state)
{
	(void)state;
	file("local = off\nlog = info\n");
	setenv("URNIC_LOCAL", "pipe", 1);
	good();
	assert_int_equal(c.local, CONF_LOCAL_PIPE);
	setenv("URNIC_LOCAL", "map", 1);
	good();
	assert_int_equal(c.local, CONF_LOCAL_MAP);
	assert_string_equal(c.log, "info");
}

static void t_wrong_file(void **state)
{
	(void)state;
	file("log = info\nlocl = off\n");
	bad(":2: unknown key 'locl'; did you mean local?; keys are log, log_format, check");
	file("[other]\nlog = info\n");
	bad("[other]");
	file("log = info\n\nudp_port = 70000\n");
	bad(":3: udp_port: '70000'");
	file("what is this\n");
	bad(":1: not key = value");
	file("");
	unlink(path);
	bad(path);
	bad("No such file");
}

static void env_bad(const char *name, const char *value, const char *names)
{
	setenv(name, value, 1);
	bad(name);
	bad(names);
	unsetenv(name);
}

static void t_wrong_env(void **state)
{
	char big[1000];

	(void)state;
	env_bad("URNIC_LOG", "loud", "'loud'");
	env_bad("URNIC_LOG", "info:", "'info:'");
	env_bad("URNIC_LOCAL", "on", "off, pipe, vm, auto or map");
	env_bad("URNIC_LOCAL", "", "''");
	env_bad("URNIC_LINK", "ib", "'ib' is not udp or raw");
	env_bad("URNIC_SHARE", "no", "'no' is not user, host or auto");
	env_bad("URNIC_ONE_GID", "maybe", "yes or no");
	env_bad("URNIC_UDP_PORT", "0", "'0'");
	env_bad("URNIC_UDP_PORT", "47x", "'47x'");
	env_bad("URNIC_IDENTITY", "vendor=z", "vendor");
	env_bad("URNIC_LCOAL", "off",
		"unknown variable; did you mean URNIC_LOCAL?; see urnic(7)");
	env_bad("URNIC_WHATEVER", "off", "unknown variable; see urnic(7)");
	env_bad("URNIC_CHECK", "sq-overflw",
		"there is no check 'sq-overflw'; did you mean sq-overflow?; there are");
	memset(big, 'a', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	env_bad("URNIC_FAULT", big, "longer");
	setenv("URNIC_TEST_SEED", "1", 1); /* the tests' own */
	setenv("URNIC_BUILD", "x", 1);
	good();
}

/* A value of the largest length arrives whole, from a file as well. */
static void t_long_value(void **state)
{
	char text[600] = "fault = ";

	(void)state;
	memset(text + 8, 'f', 150);
	text[158] = '\n';
	file(text);
	good();
	assert_int_equal(strlen(c.fault), 150);
	memset(text + 8, 'f', 400);
	text[408] = '\n';
	file(text);
	good();
	assert_int_equal(strlen(c.fault), 400);
}

static void t_comments(void **state)
{
	(void)state;
	file("# a = b\n ; a = b\n\n\t\r\n[urnic] \nlog = info\t; more\r\n"
	     "fault = ; none\ndevices = a;b ; c;d");
	good();
	assert_string_equal(c.log, "info");
	assert_string_equal(c.fault, "");
	assert_string_equal(c.devices, "a;b");
	file("log = info ; more\n= off\n");
	bad(":2: unknown key ''");
}

/* A path that can be opened but not read. */
static void t_folder(void **state)
{
	(void)state;
	setenv("URNIC_CONF", "/tmp", 1);
	bad("/tmp: Is a directory");
}

static void t_user_file(void **state)
{
	char dir[] = "/tmp/urnic_home_XXXXXX", name[100];
	FILE *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	setenv("XDG_CONFIG_HOME", dir, 1);
	good(); /* a file that is absent is no error */
	snprintf(name, sizeof(name), "%s/urnic", dir);
	assert_int_equal(mkdir(name, 0755), 0);
	strcat(name, "/urnic.conf");
	f = fopen(name, "w");
	assert_non_null(f);
	fputs("udp_port = 1234\n", f);
	fclose(f);
	good();
	assert_int_equal(c.udp_port, 1234);
	unlink(name);
	*strrchr(name, '/') = '\0';
	rmdir(name);
	rmdir(dir);
}

static void t_table(void **state)
{
	unsigned n = 0;

	(void)state;
	for (const struct conf_key *k; (k = conf_key(n)); n++) {
		assert_int_equal(strncmp(k->env, "URNIC_", 6), 0);
		assert_int_equal(conf_check(k->key, k->dflt, err), 0);
		assert_true(k->text[0] && k->type[0]);
	}
	assert_int_equal(n, 21);
	assert_int_equal(conf_check("nonsense", "", err), -EINVAL);
	assert_non_null(strstr(err, "nonsense"));
}

/* Every default is shown as it was set, and so are other values of each type. */
static void t_value(void **state)
{
	char buf[CONF_VALUE];

	(void)state;
	good();
	for (unsigned i = 0; conf_key(i); i++)
		assert_string_equal(conf_value(&c, i, buf), conf_key(i)->dflt);
	setenv("URNIC_LOCAL", "vm", 1);
	setenv("URNIC_ONE_GID", "1", 1);
	setenv("URNIC_UDP_PORT", "65535", 1);
	good();
	for (unsigned i = 0; conf_key(i); i++) {
		const char *env = getenv(conf_key(i)->env);

		assert_string_equal(conf_value(&c, i, buf), !env ? conf_key(i)->dflt
							    : strcmp(env, "1") == 0
								    ? "yes"
								    : env);
	}
}

/* conf_get() reports an error in one line on stderr, once. */
static int get_child(const char *value, char *out, size_t size)
{
	int fd[2], status;
	pid_t pid;
	ssize_t n;

	assert_int_equal(pipe(fd), 0);
	setenv("URNIC_LOCAL", value, 1);
	pid = fork();
	if (pid == 0) {
		const struct conf *a, *b;

		dup2(fd[1], 2);
		a = conf_get();
		b = conf_get();
		_exit(a != b ? 9 : a ? 1 : 2);
	}
	close(fd[1]);
	n = read(fd[0], out, size - 1);
	out[n > 0 ? n : 0] = '\0';
	close(fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

static void t_get(void **state)
{
	char out[600];

	(void)state;
	assert_int_equal(get_child("vm", out, sizeof(out)), 1);
	assert_string_equal(out, "");
	assert_int_equal(get_child("quick", out, sizeof(out)), 2);
	assert_non_null(strstr(out, "error: URNIC_LOCAL: 'quick'"));
	assert_int_equal(strcspn(out, "\n"), strlen(out) - 1);
}

static int fresh(void **state)
{
	extern char **environ;

	(void)state;
	for (char **e = environ; *e;) {
		char name[100];

		if (strncmp(*e, "URNIC_", 6) != 0) {
			e++;
			continue;
		}
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		unsetenv(name);
		e = environ;
	}
	setenv("XDG_CONFIG_HOME", "/nonexistent", 1);
	return 0;
}

static int make(void **state)
{
	(void)state;
	return mkstemp(path) < 0;
}

static int clean(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(t_defaults, fresh),
		cmocka_unit_test_setup(t_file, fresh),
		cmocka_unit_test_setup(t_env_wins, fresh),
		cmocka_unit_test_setup(t_wrong_file, fresh),
		cmocka_unit_test_setup(t_wrong_env, fresh),
		cmocka_unit_test_setup(t_long_value, fresh),
		cmocka_unit_test_setup(t_comments, fresh),
		cmocka_unit_test_setup(t_folder, fresh),
		cmocka_unit_test_setup(t_user_file, fresh),
		cmocka_unit_test_setup(t_table, fresh),
		cmocka_unit_test_setup(t_value, fresh),
		cmocka_unit_test_setup(t_get, fresh),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, make, clean);
}
