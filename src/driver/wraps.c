/* SPDX-License-Identifier: BSD-2-Clause */
/* wraps.c - see wraps.h. */
#include "driver/wraps.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "driver/nic_own.h"
#include "ib/ib.h"
#include "net/fault.h"
#include "net/pcap.h"
#include "sys/conf.h"
#include "sys/log.h"

static int put_capture(struct nic *nic, const char *path, struct link **link)
{
	int rc;

	if (nic->capture)
		return pcap_join(link, *link, nic->capture);
	rc = pcap_wrap(link, *link, path);
	if (!rc)
		nic->capture = *link;
	else
		log_error("URNIC_PCAP: cannot write %s: %s", path,
			  rc == -EBUSY ? "another process captures into it "
					 "(%p in the name is the process's number)"
				       : strerror(-rc));
	return rc;
}

static int put_faults(const char *spec, struct link **link, bool ordered)
{
	char why[256];
	int rc = (ordered ? fault_wrap_ordered : fault_wrap)(link, *link, spec, why,
							     sizeof(why));

	if (rc)
		log_error("URNIC_FAULT: %s", why);
	else
		fault_describe(*link, ib_describe);
	return rc;
}

/* Sent packets pass the faults first, so that a capture shows what the wire carried. */
int wraps_put(struct nic *nic, const struct conf *conf, struct link **link, bool ordered)
{
	int rc = *conf->pcap ? put_capture(nic, conf->pcap, link) : 0;

	return !rc && *conf->fault ? put_faults(conf->fault, link, ordered) : rc;
}

const char *wraps_why(const struct conf *conf)
{
	return *conf->pcap    ? "URNIC_PCAP is set"
	       : *conf->fault ? "URNIC_FAULT is set"
			      : NULL;
}

void wraps_are_passed(void)
{
	const struct conf *conf = conf_get();
	static atomic_bool said;

	if (conf && wraps_why(conf) && !atomic_exchange(&said, true))
		log_warn("URNIC_PCAP and URNIC_FAULT do not act on iWARP "
			 "connections, whose packets are the kernel's TCP (use "
			 "tcpdump and tc netem)");
}

void wraps_leave(void)
{
	pcap_leave();
}

void wraps_forked(void)
{
	pcap_forked();
}
