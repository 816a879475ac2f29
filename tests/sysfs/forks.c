/* SPDX-License-Identifier: BSD-2-Clause */
/* forks.c - forks while files of /sys are read, which the preload library writes: in a
 * handler that interrupts the reader ("handler"), and beside a thread that reads, in a
 * program that has opened a device since ("beside").  The children read, too. */
#include <dirent.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FORKS = 200, EVERY_US = 2000 };

static char counter[256];
static _Atomic int forks, failed;

static void must(bool done, const char *what)
{
	if (done)
		return;
	perror(what);
	_exit(1);
}

/* The tree is written anew for whoever names a counter. */
static bool read_counter(void)
{
	struct stat st;

	return stat(counter, &st) == 0;
}

static void find_counter(void)
{
	const char *class = "/sys/class/infiniband";
	DIR *dir = opendir(class);
	struct dirent *e;

	must(dir != NULL, class);
	while ((e = readdir(dir)))
		if (e->d_name[0] != '.')
			snprintf(counter, sizeof(counter),
				 "%s/%.64s/ports/1/counters/port_rcv_data", class,
				 e->d_name);
	closedir(dir);
	must(read_counter(), counter);
}

static void wait_for(pid_t pid)
{
	int status, saved = errno;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status)
		failed++;
	errno = saved;
}

static void fork_and_end(int sig)
{
	pid_t pid;

	(void)sig;
	if (forks == FORKS) /* the timer ran out once more before it was stopped */
		return;
	pid = fork();
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		wait_for(pid);
	forks++;
}

static void in_a_handler(void)
{
	const struct itimerval t = { { 0, EVERY_US }, { 0, EVERY_US } }, none = { 0 };
	const struct sigaction a = { .sa_handler = fork_and_end, .sa_flags = SA_RESTART };

	sigaction(SIGALRM, &a, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
	while (forks < FORKS)
		must(read_counter(), counter);
	setitimer(ITIMER_REAL, &none, NULL);
}

static void *read_on(void *arg)
{
	(void)arg;
	while (forks < FORKS)
		must(read_counter(), counter);
	return NULL;
}

static void beside_a_thread(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	pthread_t t;

	must(ctx != NULL, "ibv_open_device");
	must(!pthread_create(&t, NULL, read_on, NULL), "pthread_create");
	for (; forks < FORKS; forks++) {
		pid_t pid = fork();

		must(pid >= 0, "fork");
		if (pid == 0)
			_exit(!read_counter());
		wait_for(pid);
	}
	pthread_join(t, NULL);
	ibv_close_device(ctx);
	ibv_free_device_list(list);
}

int main(int argc, char **argv)
{
	must(argc == 2, "an argument");
	find_counter();
	if (!strcmp(argv[1], "handler"))
		in_a_handler();
	else
		beside_a_thread();
	printf("%d forks, %d children failed\n", (int)forks, (int)failed);
	return failed != 0;
}
