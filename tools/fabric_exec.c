/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_exec.c - urnic fabric exec: runs a subnet and its manager for as long as a
 * program runs. */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/port/plug.h"
#include "fabric/port/server.h"
#include "fabric_cmd.h"
#include "fabric_control.h"
#include "options.h"
#include "program.h"
#include "sys/clock.h"
#include "urnic.h"

enum { FAILED = 125, ACTIVE = 4, LINK_UP = 5 }; /* FAILED: as docker run and env(1) */

static const uint64_t patience = 60000000000;

struct job {
	const char *file, *settings;
	char **argv; /* of the program */
	struct topo t;
	uint32_t first; /* the first adapter's node */
	char name[PLUG_NAME], dir[PATH_MAX], log[PATH_MAX + 16];
	pid_t fabric, opensm;
};

static const struct argp_option options[] = {
	{ "settings", 's', "FILE", 0, "rates and addresses of the topology's ports", 0 },
	{ 0 },
};

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	struct job *j = state->input;

	switch (opt) {
	case 's':
		j->settings = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (!j->file) {
			j->file = arg;
			return 0;
		}
		j->argv = &state->argv[state->next - 1];
		state->next = state->argc;
		return 0;
	case ARGP_KEY_END:
		if (!j->argv)
			argp_error(state, "a topology and a program are needed");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Forks a child that ends when this process does.  Returns 0 in the child. */
static pid_t child(void)
{
	pid_t me = getpid(), pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != me)
		_exit(FAILED);
	return 0;
}

static int start_fabric(struct job *j)
{
	struct control control = { .topo = &j->t, .name = j->name };
	struct plug_server *s;
	int rc;

	topo_give_addresses(&j->t, j->name);
	rc = plug_server_new(&s, j->name, &j->t);

	if (rc)
		return rc;
	control.server = s;
	plug_server_control(s, control_answer, &control);
	j->fabric = child();
	if (j->fabric == 0)
		_exit(plug_serve(s, fabric_stop_signals()) ? FAILED : 0);
	plug_server_free(s); /* the child keeps its own copy */
	return j->fabric < 0 ? -EAGAIN : 0;
}

/* Executes `urnic run -- WORDS'. */
static void run_words(char **words, unsigned n)
{
	static char self[] = "/proc/self/exe", verb[] = "run", dashes[] = "--";
	char **argv = calloc(n + 4, sizeof(*argv));

	if (!argv)
		_exit(FAILED);
	argv[0] = self;
	argv[1] = verb;
	argv[2] = dashes;
	memcpy(argv + 3, words, n * sizeof(*argv));
	execv(self, argv);
	_exit(FAILED);
}

static int start_opensm(struct job *j)
{
	static char name[] = "opensm", file[] = "-f";
	char *words[] = { name, file, j->log };

	j->opensm = child();
	if (j->opensm == 0) {
		int null = open("/dev/null", O_RDWR);

		dup2(null, STDIN_FILENO);
		dup2(null, STDOUT_FILENO);
		setenv("OSM_CACHE_DIR", j->dir, 1);
		setenv("OSM_TMP_DIR", j->dir, 1);
		run_words(words, 3);
	}
	return j->opensm < 0 ? -EAGAIN : 0;
}

/* Are all adapters with a link active? */
static bool is_up(const struct job *j)
{
	for (uint32_t i = 0; i < j->t.nodes; i++) {
		const struct topo_node *n = &j->t.node[i];

		for (unsigned k = 1; n->type == TOPO_CA && k <= n->ports; k++) {
			struct plug_port p;

			if (!n->port[k].peer_port)
				continue;
			if (plug_port(j->name, n->id, k, &p) ||
			    (p.phys_state == LINK_UP && p.state != ACTIVE))
				return false;
		}
	}
	return true;
}

static int wait_up(struct job *j)
{
	uint64_t until = clock_ns() + patience;

	while (!is_up(j)) {
		if (waitpid(j->opensm, NULL, WNOHANG) == j->opensm) {
			j->opensm = 0;
			return -ECHILD;
		}
		if (clock_ns() > until)
			return -ETIMEDOUT;
		usleep(10000);
	}
	return 0;
}

static int run_program(const struct job *j)
{
	unsigned n = 0;
	int status;
	pid_t pid;

	while (j->argv[n])
		n++;
	pid = fork();
	if (pid == 0) {
		signal(SIGINT, SIG_DFL);
		signal(SIGQUIT, SIG_DFL);
		setenv("URNIC_HCA", j->t.node[j->first].id, 0);
		run_words(j->argv, n);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0)
		return FAILED;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void end_process(pid_t pid)
{
	if (pid <= 0)
		return;
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

/* Ends background processes that PROGRAM has left, as a container would; this process, a
 * subreaper, is their parent now.  Returns true if there were any: they may have left
 * others. */
static bool end_others(const struct job *j)
{
	FILE *f = fopen("/proc/thread-self/children", "re");
	bool any = false;
	int pid;

	while (f && fscanf(f, "%d", &pid) == 1) {
		if (pid == j->fabric || pid == j->opensm || kill(pid, SIGKILL))
			continue;
		waitpid(pid, NULL, 0);
		any = true;
	}
	if (f)
		fclose(f);
	return any;
}

static void remove_dir(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	rmdir(dir);
}

/* Adds sbin folders to PATH: Debian has opensm and some diags there. */
static void add_sbin(void)
{
	const char *dirs = getenv("PATH");
	char *all;

	if (asprintf(&all, "%s:/usr/sbin", dirs ? dirs : "/usr/bin:/bin") < 0)
		return;
	setenv("PATH", all, 1);
	free(all);
}

static bool prepare_job(struct job *j)
{
	const char *tmp = getenv("TMPDIR");
	char path[PATH_MAX];

	add_sbin();
	if (program_find("opensm", path, sizeof(path))) {
		fprintf(stderr, "urnic fabric exec: there is no opensm here; Debian has"
				" it in the package opensm\n");
		return false;
	}
	while (j->first < j->t.nodes && j->t.node[j->first].type != TOPO_CA)
		j->first++;
	if (j->first == j->t.nodes) {
		fprintf(stderr, "urnic fabric exec: %s: expected at least one adapter\n",
			j->file);
		return false;
	}
	snprintf(j->name, sizeof(j->name), "exec-%d", getpid());
	snprintf(j->dir, sizeof(j->dir), "%.3000s/urnic-fabric-XXXXXX",
		 tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(j->dir)) {
		fprintf(stderr, "urnic fabric exec: %s: %s\n", j->dir, strerror(errno));
		return false;
	}
	snprintf(j->log, sizeof(j->log), "%s/opensm.log", j->dir);
	setenv("URNIC_FABRIC", j->name, 1);
	return true;
}

static int run_job(struct job *j)
{
	int status = FAILED, rc = start_fabric(j);

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signal(SIGINT, SIG_IGN); /* for the program; when it ends, so does this process */
	signal(SIGQUIT, SIG_IGN);
	if (!rc) {
		const char *hca = getenv("URNIC_HCA");
		char *kept = hca ? strdup(hca) : NULL;

		setenv("URNIC_HCA", j->t.node[j->first].id, 1);
		rc = start_opensm(j);
		unsetenv("URNIC_HCA");
		if (kept)
			setenv("URNIC_HCA", kept, 1);
		free(kept);
	}
	if (!rc)
		rc = wait_up(j);
	if (!rc)
		status = run_program(j);
	while (end_others(j))
		;
	end_process(j->opensm);
	end_process(j->fabric);
	if (rc)
		fprintf(stderr,
			"urnic fabric exec: the subnet does not come up: %s; %s"
			" says more\n",
			rc == -ECHILD ? "opensm has ended" : strerror(-rc), j->log);
	else
		remove_dir(j->dir);
	return status;
}

int cmd_fabric_exec(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "TOPOLOGY [--] PROGRAM [ARG...]",
		.doc = "Run a subnet and OpenSM and, when the subnet is up, PROGRAM "
		       "at its first adapter, or at the adapter that URNIC_HCA names. "
		       " When PROGRAM ends, the subnet, OpenSM and what PROGRAM has "
		       "left in the background end, too.\vURNIC_FABRIC is set for "
		       "PROGRAM, so that it can run other programs at other adapters: "
		       "urnic run --hca NAME -- ...  Exit status: PROGRAM's; 125 if "
		       "the subnet does not come up.",
	};
	struct job j = { 0 };
	int status;

	options_parse(&argp, argc, argv, ARGP_IN_ORDER, &j);
	if (fabric_read(&j.t, j.file, j.settings))
		return EXIT_USAGE;
	status = prepare_job(&j) ? run_job(&j) : FAILED;
	topo_free(&j.t);
	return status;
}
