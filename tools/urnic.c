/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic.c - the program: a table of subcommands. */
#include "urnic.h"

#include <argp.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "sys/near.h"

#ifndef URNIC_VERSION
#define URNIC_VERSION "unknown"
#endif

static int cmd_version(int argc, char **argv);

static const struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *text;
} commands[] = {
	{ "run", cmd_run, "run a verbs program on urnic" },
	{ "env", cmd_env, "print the environment that `urnic run' sets" },
	{ "cdi", cmd_cdi, "describe urnic to container runtimes" },
	{ "fabric", cmd_fabric, "run an InfiniBand subnet on this machine" },
	{ "devices", cmd_devices, "list the devices that programs will see" },
	{ "explain", cmd_explain, "say what an error code or event means" },
	{ "dump", cmd_dump, "show the objects of a running process" },
	{ "res", cmd_res, "list the objects of running processes, a line each" },
	{ "top", cmd_top, "show what the queue pairs of running processes do" },
	{ "fault", cmd_fault, "inject faults into running processes" },
	{ "extcap", cmd_extcap, "show packets of running processes to Wireshark" },
	{ "sysfs", cmd_sysfs, "write what Linux would show of the devices in /sys" },
	{ "doctor", cmd_doctor, "say what this machine allows and forbids" },
	{ "conf", cmd_conf, "show the configuration and where it comes from" },
	{ "version", cmd_version, "show the version" },
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static int cmd_version(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "Show the version of urnic.",
	};

	argp_err_exit_status = EXIT_USAGE;
	options_parse(&argp, argc, argv, 0, NULL);
	puts("urnic " URNIC_VERSION);
	return 0;
}

static const struct command *find_command(const char *name)
{
	for (int i = 0; i < COMMANDS; i++) {
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	}
	return NULL;
}

static const char *command_name(unsigned i)
{
	return i < COMMANDS ? commands[i].name : NULL;
}

static char *list_commands(int key, const char *text, void *input)
{
	char *out = NULL;
	size_t size = 0;
	FILE *f;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	f = open_memstream(&out, &size);
	if (!f)
		return NULL;
	fputs("Commands:\n", f);
	for (int i = 0; i < COMMANDS; i++)
		fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].text);
	fputs("\n`urnic COMMAND --help' explains a command, urnic(1) all of"
	      " them.",
	      f);
	fclose(f);
	return out;
}

/* Takes only the first argument, the subcommand; the rest are the subcommand's. */
static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	int *at = state->input;
	char near[NEAR_HINT];

	switch (key) {
	case ARGP_KEY_NO_ARGS:
		argp_usage(state);
		return 0;
	case ARGP_KEY_ARG:
		near_hint(near, arg, command_name);
		if (!find_command(arg))
			argp_error(state, "no command '%s'%s", arg, near);
		*at = state->next - 1;
		state->next = state->argc;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Returns the exit status of a command, or 1 if its output went nowhere. */
static int written(const char *name, int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	fprintf(stderr, "%s: standard output cannot be written: %s\n", name,
		strerror(errno));
	return status ? status : 1;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse_option,
		.args_doc = "COMMAND [ARG...]",
		.doc = "RDMA network adapter in user space.\v",
		.help_filter = list_commands,
	};
	const struct command *cmd;
	char name[32];
	int at = 0;

	argp_err_exit_status = EXIT_USAGE;
	if (strcmp(program_invocation_short_name, EXTCAP_NAME) == 0)
		return written(EXTCAP_NAME, cmd_extcap(argc, argv));
	argp_program_version = "urnic " URNIC_VERSION;
	options_parse(&argp, argc, argv, ARGP_IN_ORDER, &at);
	argp_program_version = NULL;
	cmd = find_command(argv[at]);
	snprintf(name, sizeof(name), "urnic %s", cmd->name);
	argv[at] = name;
	return written(name, cmd->run(argc - at, argv + at));
}
