/* SPDX-License-Identifier: BSD-2-Clause */
/* wraps.c - see wraps.h. */
#include "driver/wraps.h"

#include <stdatomic.h>

#include "driver/captures.h"
#include "driver/faults.h"
#include "driver/nic_own.h"
#include "driver/upset.h"
#include "net/capture.h"
#include "sys/conf.h"
#include "sys/log.h"

/* Sent packets pass the faults first, so that a capture shows what the wire carried. */
int wraps_put(struct nic *nic, const struct conf *conf, struct link **link, bool ordered)
{
	int rc = *conf->pcap ? captures_put_file(nic, conf->pcap, link, ordered) : 0;

	return !rc && *conf->fault
		       ? faults_put(nic, conf->fault, link, ordered, *conf->pcap)
		       : rc;
}

void wraps_know(struct nic *nic, const struct conf *conf, struct link *outer,
		struct link **inner, bool ordered)
{
	faults_know(nic, outer, inner, ordered, conf->fault, *conf->pcap);
}

void wraps_close(struct nic *nic)
{
	faults_close(nic);
	captures_close(nic);
}

const char *wraps_why(const struct conf *conf)
{
	return *conf->pcap		       ? "URNIC_PCAP is set"
	       : faults_need_wire(conf->fault) ? "URNIC_FAULT is set"
	       : *conf->like		       ? "URNIC_LIKE is set"
	       : *conf->order		       ? "URNIC_ORDER is set"
					       : NULL;
}

void wraps_are_passed(void)
{
	const struct conf *conf = conf_get();
	static atomic_bool said;

	if (conf && (*conf->pcap || *conf->fault) && !atomic_exchange(&said, true))
		log_warn("URNIC_PCAP and URNIC_FAULT do not act on iWARP "
			 "connections, whose packets are the kernel's TCP (use "
			 "tcpdump and tc netem)");
}

void wraps_leave(void)
{
	capture_leave();
}

void wraps_forked(void)
{
	capture_forked();
	upset_forked();
}
