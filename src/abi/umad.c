/* SPDX-License-Identifier: BSD-2-Clause */
/* umad.c - libibumad.so.3: files, agents and MADs. All state is in the fabric's process;
 * a port id is the descriptor of a connection to it (fabric/port/). */
#include <assert.h>
#include <errno.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "abi/umad_own.h"
#include "fabric/port/plug.h"

/* The layout equals that of struct umad_hdr of fabric/umad. Its header cannot be included
 * here: it defines types with the same names as rdma-core's. */
static_assert(sizeof(struct ib_user_mad) == PLUG_HDR, "ABI");
static_assert(offsetof(struct ib_user_mad, addr) == 20, "ABI");
static_assert(offsetof(struct ib_user_mad, addr.gid) == 36, "ABI");
static_assert(offsetof(struct ib_user_mad, addr.pkey_index) == 56, "ABI");

enum { OPENIB_OUI = 0x001405, VENDOR2 = 0x30, VENDOR2_LAST = 0x4f, GONE_MS = 100 };

EXPORT int umad_init(void)
{
	return 0;
}

EXPORT int umad_done(void)
{
	return 0;
}

EXPORT int umad_open_port(const char *ca_name, int portnum)
{
	struct umad_place at;
	int rc = umad_resolve(&at, ca_name, &portnum);

	if (rc)
		return rc == -ENODEV && ca_name ? -EINVAL : rc;
	rc = plug_open(at.fabric, at.hca, (uint32_t)portnum);
	return rc >= 0 ? rc : rc == -ENODEV ? -EINVAL : -EIO;
}

EXPORT int umad_close_port(int portid)
{
	close(portid);
	return 0;
}

/* The issm paths that were asked for, one for each port. They last as long as the
 * process. */
static pthread_mutex_t issm_lock = PTHREAD_MUTEX_INITIALIZER;
static struct issm {
	char path[32];
	pid_t pid;
} issm[UMAD_CA_MAX_PORTS];

EXPORT int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	struct umad_place at;
	struct issm *i;
	int rc = umad_resolve(&at, ca_name, &portnum);

	if (rc || portnum >= UMAD_CA_MAX_PORTS || max <= 0)
		return rc == -ENODEV ? rc : -EINVAL;
	i = &issm[portnum];
	pthread_mutex_lock(&issm_lock);
	if (i->pid != getpid()) { /* a forked child makes its own */
		rc = plug_issm(at.fabric, at.hca, (uint32_t)portnum, i->path,
			       sizeof(i->path));
		i->pid = rc < 0 ? 0 : getpid();
	}
	if (rc >= 0 && strlen(i->path) >= (size_t)max)
		rc = -EINVAL;
	if (rc >= 0)
		strcpy(path, i->path);
	pthread_mutex_unlock(&issm_lock);
	return rc < 0 ? -EINVAL : 0;
}

EXPORT void *umad_get_mad(void *umad)
{
	return (char *)umad + PLUG_HDR;
}

EXPORT size_t umad_size(void)
{
	return PLUG_HDR;
}

EXPORT int umad_status(void *umad)
{
	return (int)((struct ib_user_mad *)umad)->status;
}

EXPORT ib_mad_addr_t *umad_get_mad_addr(void *umad)
{
	return &((struct ib_user_mad *)umad)->addr;
}

/* mad_addr has the flow label in host order; the address in umad has it in network
 * order. */
EXPORT int umad_set_grh(void *umad, void *mad_addr)
{
	struct ib_mad_addr *to = umad_get_mad_addr(umad), *from = mad_addr;

	to->grh_present = from != NULL;
	if (!from)
		return 0;
	memcpy(to->gid, from->gid, sizeof(to->gid));
	to->flow_label = __builtin_bswap32(from->flow_label);
	to->hop_limit = from->hop_limit;
	to->traffic_class = from->traffic_class;
	return 0;
}

EXPORT int umad_set_pkey(void *umad, int pkey_index)
{
	umad_get_mad_addr(umad)->pkey_index = (uint16_t)pkey_index;
	return 0;
}

EXPORT int umad_get_pkey(void *umad)
{
	return umad_get_mad_addr(umad)->pkey_index;
}

EXPORT int umad_set_addr_net(void *umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey)
{
	struct ib_mad_addr *to = umad_get_mad_addr(umad);

	to->lid = dlid;
	to->qpn = dqp;
	to->sl = (uint8_t)sl;
	to->qkey = qkey;
	return 0;
}

EXPORT int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey)
{
	return umad_set_addr_net(umad, __builtin_bswap16((uint16_t)dlid),
				 __builtin_bswap32((uint32_t)dqp), sl,
				 __builtin_bswap32((uint32_t)qkey));
}

EXPORT int umad_send(int portid, int agentid, void *umad, int length, int timeout_ms,
		     int retries)
{
	struct ib_user_mad *mad = umad;
	int rc;

	mad->agent_id = (uint32_t)agentid;
	mad->timeout_ms = (uint32_t)timeout_ms;
	mad->retries = (uint32_t)retries;
	if (umad_debug(-1) > 1)
		umad_dump(umad);
	rc = length < 0 ? -EINVAL : plug_send(portid, umad, PLUG_HDR + (size_t)length);
	errno = -rc;
	return rc ? -EIO : 0;
}

EXPORT int umad_poll(int portid, int timeout_ms)
{
	struct pollfd p = { .fd = portid, .events = POLLIN };
	int n = poll(&p, 1, timeout_ms);

	return n == 1 ? 0 : n == 0 ? -ETIMEDOUT : -EIO;
}

EXPORT int umad_get_fd(int portid)
{
	return portid;
}

/* Returns the agent of a message of n bytes. If it did not fit, it stays queued, and
 * *length is set to the room that it needs. */
static int recv_result(const struct ib_user_mad *mad, long n, size_t need, int *length)
{
	if (n >= PLUG_HDR) {
		*length = (int)(n - PLUG_HDR);
		return (int)mad->agent_id;
	}
	if (n == -ENOSPC)
		*length = (int)(need - PLUG_HDR);
	errno = n < 0 ? (int)-n : EIO;
	return -errno;
}

/* Delays the error of a fabric that has ended to ten times a second: OpenSM asks again at
 * once, for ever, and logs each error. */
static void slow_down(int timeout_ms)
{
	poll(NULL, 0, timeout_ms < 0 || timeout_ms > GONE_MS ? GONE_MS : timeout_ms);
}

EXPORT int umad_recv(int portid, void *umad, int *length, int timeout_ms)
{
	size_t need = PLUG_HDR;
	long n;
	int rc;

	errno = 0;
	if (!umad || !length || *length < 0) {
		errno = EINVAL;
		return -EINVAL;
	}
	do {
		rc = timeout_ms ? umad_poll(portid, timeout_ms) : 0;
		if (rc) {
			if (!errno)
				errno = -rc;
			return rc;
		}
		n = plug_recv(portid, umad, PLUG_HDR + (size_t)*length, &need);
		/* On EWOULDBLOCK another thread has taken the message. */
	} while (n == -EWOULDBLOCK && timeout_ms < 0);
	if (n == -EIO)
		slow_down(timeout_ms);
	return recv_result(umad, n, need, length);
}

static struct plug_register register_request(int class, int version, uint8_t rmpp,
					     uint32_t oui, const void *mask)
{
	struct plug_register r = {
		.say = PLUG_REGISTER,
		.class = (uint8_t) class,
		.version = (uint8_t)version,
		.rmpp = rmpp,
		.oui = oui,
	};

	if (mask)
		memcpy(r.methods, mask, sizeof(r.methods));
	return r;
}

EXPORT int umad_register(int portid, int mgmt_class, int mgmt_version,
			 uint8_t rmpp_version, long method_mask[16 / sizeof(long)])
{
	struct plug_register r = register_request(mgmt_class, mgmt_version, rmpp_version,
						  OPENIB_OUI, method_mask);
	int rc = plug_register(portid, &r);

	return rc < 0 ? -EPERM : rc;
}

EXPORT int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version,
			     uint8_t oui[3], long method_mask[16 / sizeof(long)])
{
	struct plug_register r =
		register_request(mgmt_class, 1, rmpp_version,
				 (uint32_t)oui[0] << 16 | (uint32_t)oui[1] << 8 | oui[2],
				 method_mask);
	int rc;

	if (mgmt_class < VENDOR2 || mgmt_class > VENDOR2_LAST)
		return -EINVAL;
	rc = plug_register(portid, &r);
	return rc < 0 ? -EPERM : rc;
}

EXPORT int umad_register2(int port_fd, struct umad_reg_attr *attr, uint32_t *agent_id)
{
	struct plug_register r;
	int rc;

	if (!attr || !agent_id)
		return EINVAL;
	if (attr->mgmt_class >= VENDOR2 && attr->mgmt_class <= VENDOR2_LAST &&
	    (!attr->oui || attr->oui > 0xffffff))
		return EINVAL;
	r = register_request(attr->mgmt_class, attr->mgmt_class_version,
			     attr->rmpp_version, attr->oui, attr->method_mask);
	r.own_rmpp = attr->flags & UMAD_USER_RMPP;
	rc = attr->flags & ~(uint32_t)UMAD_USER_RMPP ? -EINVAL
						     : plug_register(port_fd, &r);
	if (rc == -EINVAL) /* as rdma-core does, whichever flag is wrong */
		attr->flags = 0;
	if (rc < 0)
		return -rc;
	*agent_id = (uint32_t)rc;
	return 0;
}

EXPORT int umad_unregister(int portid, int agentid)
{
	int rc = plug_unregister(portid, (uint32_t)agentid);

	if (rc == 0)
		return 0;
	errno = -rc;
	return -1;
}
