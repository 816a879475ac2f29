/* SPDX-License-Identifier: BSD-2-Clause */
/* probe_fabric.c - checks the fabric's adapter that is configured for programs. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>

#include "fabric/port/plug.h"
#include "probe.h"
#include "settings.h"

enum { ACTIVE = 4 };

static void describe_port(struct finding *f, const struct conf *conf,
			  const struct plug_ca *ca, const struct plug_port *p)
{
	const struct in_addr ip = { htonl(p->address) };
	char text[INET_ADDRSTRLEN] = "no address", more[64] = "";

	if (ca->ports > 1)
		snprintf(more, sizeof(more),
			 "; verbs programs have the first of %u ports", ca->ports);
	if (p->address)
		inet_ntop(AF_INET, &ip, text, sizeof(text));
	if (p->state == ACTIVE)
		finding(f, OK, "", "", "adapter %s of fabric %s: %s, LID %u, %s%s",
			conf->hca, conf->fabric, ca->name, p->lid, text, more);
	else
		finding(f, LIMITED, "its port is not active: nothing gets through",
			"start a subnet manager at one of the fabric's adapters: urnic"
			" run --hca NAME -- opensm -f -",
			"adapter %s of fabric %s: %s, %s%s", conf->hca, conf->fabric,
			ca->name, text, more);
}

void probe_fabric(struct finding *f)
{
	char running[256], err[CONF_ERR];
	struct conf_origin origin;
	struct plug_port port;
	struct plug_ca ca;
	struct conf conf;
	int rc;

	plug_running(running, sizeof(running));
	if (settings_read(&conf, &origin, err) || !conf.hca[0]) {
		finding(f, OK, "", "",
			"no adapter is asked for; fabrics that run here: %s", running);
		return;
	}
	rc = plug_ca(conf.fabric, conf.hca, &ca);
	if (!rc)
		rc = plug_port(conf.fabric, conf.hca, 1, &port);
	if (rc)
		finding(f, MISSING, "programs see no device of it",
			"urnic fabric status shows the adapters; correct URNIC_HCA and"
			" URNIC_FABRIC (urnic run --hca, --fabric)",
			"adapter %s of fabric %s: %s; fabrics that run here: %s",
			conf.hca, conf.fabric, plug_why(rc), running);
	else
		describe_port(f, &conf, &ca, &port);
}
