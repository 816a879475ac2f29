/* SPDX-License-Identifier: BSD-2-Clause */
/* probe.h - the checks of urnic doctor.  Where it can, a probe tries the thing itself
 * rather than read what should work. */
#ifndef TOOLS_PROBE_H
#define TOOLS_PROBE_H

#include <stdint.h>

#include "sys/conf.h"

enum verdict { OK, LIMITED, MISSING, VERDICTS };

struct finding {
	enum verdict verdict;
	char detail[512];	 /* what the probe found */
	const char *cost, *todo; /* what a bad verdict costs, and the remedy; OK: "" */
};

/* Fills in f; for OK, cost and todo are "". */
void finding(struct finding *f, enum verdict v, const char *cost, const char *todo,
	     const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* The number in a file below /proc or /sys, or -1. */
long probe_number(const char *path);

/* The configured value, or the default if the configuration is wrong. */
uint16_t probe_udp_port(void);
enum conf_share probe_share(void);

void probe_conf(struct finding *f);
void probe_iwarp(struct finding *f);
void probe_fabric(struct finding *f);

void probe_port4(struct finding *f);
void probe_port6(struct finding *f);

void probe_ipv6(struct finding *f);
void probe_steering(struct finding *f);
void probe_optmem(struct finding *f);
void probe_gso(struct finding *f);
void probe_gro(struct finding *f);
void probe_rcvbuf(struct finding *f);
void probe_sndbuf(struct finding *f);
void probe_raw(struct finding *f);
void probe_interfaces(struct finding *f);

void probe_same_host(struct finding *f);
void probe_memfd(struct finding *f);
void probe_process_vm(struct finding *f);

void probe_programs(struct finding *f);
void probe_names(struct finding *f);
void probe_userns(struct finding *f);
void probe_netns(struct finding *f);
void probe_memlock(struct finding *f);
void probe_files(struct finding *f);
void probe_cpus(struct finding *f);

#endif
