/* SPDX-License-Identifier: BSD-2-Clause */
/* urnic.h - the subcommands of urnic(1). */
#ifndef TOOLS_URNIC_H
#define TOOLS_URNIC_H

/* argv[0] is "urnic NAME".  Returns the exit status. */
int cmd_run(int argc, char **argv);
int cmd_env(int argc, char **argv);
int cmd_cdi(int argc, char **argv);
int cmd_fabric(int argc, char **argv);
int cmd_devices(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_doctor(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_res(int argc, char **argv);
int cmd_top(int argc, char **argv);
int cmd_fault(int argc, char **argv);
int cmd_extcap(int argc, char **argv);
int cmd_sysfs(int argc, char **argv);
int cmd_conf(int argc, char **argv);

enum { EXIT_USAGE = 2 }; /* wrong arguments */

/* Under this name the program is urnic extcap, as Wireshark calls it. */
#define EXTCAP_NAME "urnic-extcap"

#endif
