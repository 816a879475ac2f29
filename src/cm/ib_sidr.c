/* SPDX-License-Identifier: BSD-2-Clause */
/* ib_sidr.c - service ID resolution: which QP serves a datagram port (IBTA vol. 1,
 * 12.11). */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "net/dgram.h"
#include "verbs/device.h"

int sidr_connect(struct conn *c, const struct cm_target *to, const struct cm_param *self,
		 uint64_t now)
{
	struct cm_msg m = conn_msg(c, CM_SIDR_REQ);

	m.service_id = c->service_id;
	m.pkey = gsi_pkey(c->cm, &to->route);
	conn_say_ip(&m, to, self);
	send_until_answered(c, &m, RESPONSE_TIMEOUT, MAX_RETRIES, now);
	conn_become(c, ST_SIDR_SENT);
	return 0;
}

int sidr_reply(struct conn *c, const struct cm_param *p, uint16_t status, uint64_t now)
{
	struct cm_msg m = conn_msg(c, CM_SIDR_REP);

	if (p->private_len > cm_private_len(CM_SIDR_REP))
		return -EINVAL;
	m.reason = status;
	m.service_id = c->service_id;
	if (status == CM_SIDR_OK) {
		m.qpn = p->qpn;
		m.qkey = p->qkey;
		m.vendor_id = p->ece_vendor;
		m.attr_mod = p->ece_options;
	}
	conn_private(&m, p->private, p->private_len);
	send_kept(c, &m);
	conn_answered(c, now);
	return 0;
}

void on_sidr_rep(struct conn *c, const struct cm_msg *m, uint64_t now)
{
	struct cm_param p;

	(void)now;
	param_of(m, 0, &p);
	if (m->reason == CM_SIDR_OK ? conn_tell(c, CM_EV_ESTABLISHED, 0, &p)
				    : conn_tell(c, CM_EV_UNREACHABLE, m->reason, &p))
		conn_become(c, ST_IDLE);
}
