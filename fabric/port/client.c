/* SPDX-License-Identifier: BSD-2-Clause */
/* client.c - the program's end of a connection to a fabric; see plug.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/port/address.h"
#include "fabric/port/message.h"
#include "fabric/port/plug.h"
#include "fabric/umad/umad.h"
#include "net/adapter_ring.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/fd.h"
#include "sys/user.h"

/* An answer usually takes microseconds.  A program that has waited FIRST_LOOK_MS checks,
 * then and every LOOK_MS, whether the fabric's process is stopped. */
enum { ANSWER_SECONDS = 10, FIRST_LOOK_MS = 10, LOOK_MS = 100 };

/* Is the process at the other end of this connection stopped? */
static bool is_stopped(int fabric)
{
	uid_t uid;
	pid_t pid;

	return !user_of_peer(fabric, &uid, &pid) && plug_is_stopped(pid);
}

/* Waits until fd can be read; `fabric` is a connection to the fabric.  Returns 0,
 * -ETIMEDOUT, or -EHOSTDOWN if two looks in a row find the fabric's process stopped (one
 * may be the work of a debugger, which stops a process for a moment). */
static int wait_answer(int fd, int fabric)
{
	const uint64_t until = clock_ns() + UINT64_C(1000000000) * ANSWER_SECONDS;
	struct pollfd p = { .fd = fd, .events = POLLIN };
	int ms = FIRST_LOOK_MS, stopped = 0;

	for (;; ms = LOOK_MS) {
		int n = poll(&p, 1, ms);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		stopped = is_stopped(fabric) ? stopped + 1 : 0;
		if (stopped == 2)
			return -EHOSTDOWN;
		if (clock_ns() >= until)
			return -ETIMEDOUT;
	}
}

static int dial(const char *fabric)
{
	struct sockaddr_un a;
	struct user self;
	socklen_t len;
	uid_t owner, uid;
	pid_t pid;
	int fd, rc;

	user_open(&self);
	rc = plug_address(fabric, self.uid, &a, &len, &owner);
	if (rc)
		return rc;
	fd = fd_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	rc = 0;
	while (!rc && connect(fd, (struct sockaddr *)&a, len))
		if (errno != EINTR)
			rc = errno == ECONNREFUSED ? -ENOENT : -errno;
	if (!rc)
		rc = user_of_peer(fd, &uid, &pid);
	if (!rc && !user_is_of(&self, owner, uid, pid))
		rc = -EACCES;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* Sends the first message, with the descriptor `pass`.  Until the fabric has checked
 * which user connects, it refuses descriptors (-EAGAIN), so this tries once a
 * millisecond. */
static int introduce(int fd, const struct plug_request *req, int pass)
{
	enum { TRIES = ANSWER_SECONDS * 1000 };
	int rc = -EAGAIN;

	for (int i = 0; i < TRIES && rc == -EAGAIN; i++) {
		if (i && i % LOOK_MS == 0 && is_stopped(fd))
			return -EHOSTDOWN;
		if (i)
			poll(NULL, 0, 1);
		rc = plug_say(fd, PLUG_REQUEST, req, sizeof(*req), pass, true);
	}
	return rc == -EAGAIN ? -ETIMEDOUT : rc;
}

static int fill_request(struct plug_request *req, const char *hca, enum plug_op op,
			uint32_t port)
{
	*req = (struct plug_request){ .op = op, .port = port };
	return plug_hca(hca, req->hca);
}

/* Waits for the answer at fd and takes it: a message of type `want`, or a refusal.
 * *memory, unless NULL: the descriptor that came along, or -1.  Returns 0 or -errno. */
static int take_answer(int fd, int fabric, enum plug_type want, void *body, size_t len,
		       int *memory)
{
	uint32_t status = 0;
	struct msg m;
	int rc = wait_answer(fd, fabric);

	if (rc)
		return rc;
	rc = msg_recv(fd, &plug_table, geteuid(), body, len, &m, false);
	if (rc == -EPROTONOSUPPORT)
		rc = -EPROTO;
	else if (rc || (m.type != want && m.type != PLUG_STATUS))
		rc = -EIO;
	if (!rc && m.type == PLUG_STATUS) {
		(void)msg_read(&m, 0, &status, sizeof(status));
		rc = status < 4096 ? -(int)status : -EIO;
	}
	if (!rc && m.type != want)
		rc = -EIO;
	if (!rc && memory) {
		*memory = m.fd[0];
		m.fd[0] = -1;
	}
	msg_drop(&m, true);
	return rc;
}

/* Connects, sends req and takes the answer.  Returns the connection's descriptor, or
 * -errno. */
static int ask_for(const char *fabric, const struct plug_request *req, int pass,
		   enum plug_type want, void *answer, size_t len, int *memory)
{
	int rc, fd;

	fd = dial(fabric);
	if (fd < 0)
		return fd;
	rc = introduce(fd, req, pass);
	if (!rc)
		rc = take_answer(fd, fd, want, answer, len, memory);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

/* As ask_for(), where the answer is a status alone. */
static int ask_fabric(const char *fabric, const struct plug_request *req, int pass)
{
	uint32_t status;

	return ask_for(fabric, req, pass, PLUG_STATUS, &status, sizeof(status), NULL);
}

static int open_by(const char *fabric, const char *hca, enum plug_op op, uint32_t port,
		   int pass)
{
	struct plug_request req;
	int rc = fill_request(&req, hca, op, port);

	return rc ? rc : ask_fabric(fabric, &req, pass);
}

static int ask_once(const char *fabric, const struct plug_request *req,
		    enum plug_type want, void *answer, size_t len)
{
	int fd = ask_for(fabric, req, -1, want, answer, len, NULL);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int plug_ca(const char *fabric, const char *hca, struct plug_ca *out)
{
	struct plug_request req;
	int rc = fill_request(&req, hca, PLUG_CA, 0);

	if (!rc)
		rc = ask_once(fabric, &req, PLUG_CA_IS, out, sizeof(*out));
	if (rc)
		return rc;
	out->name[sizeof(out->name) - 1] = out->desc[sizeof(out->desc) - 1] = '\0';
	return 0;
}

int plug_port(const char *fabric, const char *hca, uint32_t port, struct plug_port *out)
{
	struct plug_request req;
	int rc = fill_request(&req, hca, PLUG_PORT, port);

	if (!rc)
		rc = ask_once(fabric, &req, PLUG_PORT_IS, out, sizeof(*out));
	return rc ? rc : out->pkeys > PLUG_PKEYS ? -EIO : 0;
}

int plug_open(const char *fabric, const char *hca, uint32_t port)
{
	return open_by(fabric, hca, PLUG_OPEN, port, -1);
}

/* Leaves its descriptors at low numbers, without fd_raise(): for a high number the kernel
 * enlarges the process's table, which takes 10 ms and more in a program with threads. */
int plug_issm(const char *fabric, const char *hca, uint32_t port, char *path, size_t size)
{
	int p[2], fd, n;

	if (pipe2(p, O_CLOEXEC))
		return -errno;
	close(p[0]); /* a process that opens the path becomes the reader */
	n = snprintf(path, size, "/proc/self/fd/%d", p[1]);
	fd = n < 0 || (size_t)n >= size ? -ENAMETOOLONG
					: open_by(fabric, hca, PLUG_ISSM, port, p[1]);
	if (fd < 0) {
		close(p[1]);
		return fd;
	}
	return fd;
}

int plug_register(int fd, const struct plug_register *reg)
{
	int32_t agent;
	int s[2], rc;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s))
		return -errno;
	rc = plug_say(fd, PLUG_AGENT, reg, sizeof(*reg), s[1], true);
	close(s[1]);
	if (!rc)
		rc = take_answer(s[0], fd, PLUG_AGENT_IS, &agent, sizeof(agent), NULL);
	close(s[0]);
	return rc ? rc : agent;
}

int plug_unregister(int fd, uint32_t agent)
{
	struct plug_register reg = { .say = PLUG_UNREGISTER, .agent = agent };

	return plug_register(fd, &reg);
}

int plug_send(int fd, const void *msg, size_t len)
{
	/* What the table forbids the fabric would take for no message of a program. */
	return len < PLUG_HDR		? -EIO
	       : len > UMAD_MESSAGE_MAX ? -EMSGSIZE
					: plug_say(fd, PLUG_MAD, msg, len, -1, true);
}

/* Held by plug_recv(), which looks at a message and takes it with two system calls. */
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

/* Descriptors are closed on account of this uid, which is no user's: geteuid() would cost
 * a system call per message. */
static const uid_t nobodys = (uid_t)-1;

static long take_message(int fd, void *msg, size_t size, size_t *need)
{
	struct msg m;
	int rc = msg_recv(fd, &plug_table, nobodys, msg, size, &m, true);
	long n = rc == -EAGAIN ? -EWOULDBLOCK : rc ? -EIO : (long)m.len;

	if (!rc && m.len > size) {
		*need = m.len;
		n = -ENOSPC;
	}
	if (n >= 0 && m.memory >= 0 && msg_read(&m, 0, msg, m.len))
		n = -EIO;
	msg_drop(&m, true);
	if (n >= 0) {
		(void)msg_recv(fd, &plug_table, nobodys, NULL, 0, &m, false);
		msg_drop(&m, true);
	}
	return n;
}

long plug_recv(int fd, void *msg, size_t size, size_t *need)
{
	int state;
	long n;

	/* recvmsg() is a cancellation point; a cancelled thread would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&taking);
	n = take_message(fd, msg, size, need);
	pthread_mutex_unlock(&taking);
	pthread_setcancelstate(state, &state);
	return n;
}

int plug_control(const char *fabric)
{
	return open_by(fabric, "", PLUG_CONTROL, 0, -1);
}

int plug_capture(const char *fabric, const char *node, uint32_t port)
{
	return open_by(fabric, node, PLUG_CAPTURE, port, -1);
}

int plug_attach(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		int *memory)
{
	enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };
	struct plug_request req;
	uint32_t status;
	int passed, fd, rc = fill_request(&req, hca, PLUG_ATTACH, port);

	if (rc)
		return rc;
	req.slot = slot;
	fd = fd_raise(
		ask_for(fabric, &req, -1, PLUG_STATUS, &status, sizeof(status), &passed));
	if (fd < 0)
		return fd;
	if (!fd_is_sealed(passed, sizeof(struct adapter_shared), SEALS)) {
		closer_put(geteuid(), passed);
		close(fd);
		return -EIO;
	}
	*memory = fd_raise(passed);
	return fd;
}

int plug_find(const char *fabric, const char *hca, uint32_t port, const uint8_t ip[16],
	      uint8_t gid[16])
{
	struct plug_request req;
	uint8_t found[16];
	int rc = fill_request(&req, hca, PLUG_FIND, port);

	if (rc)
		return rc;
	memcpy(req.ip, ip, sizeof(req.ip));
	rc = ask_once(fabric, &req, PLUG_GID_IS, found, sizeof(found));
	if (!rc)
		memcpy(gid, found, sizeof(found));
	return rc;
}

int plug_service(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		 uint64_t service)
{
	struct plug_request req;
	int rc = fill_request(&req, hca, PLUG_SERVICE, port);

	if (rc)
		return rc;
	req.slot = slot;
	req.service = service;
	return fd_raise(ask_fabric(fabric, &req, -1));
}

int plug_kick(int fd)
{
	return plug_say(fd, PLUG_KICK, NULL, 0, -1, false);
}

int plug_news(int fd, struct plug_port *out)
{
	struct msg m;
	int rc = msg_recv(fd, &plug_table, nobodys, out, sizeof(*out), &m, false);

	msg_drop(&m, true);
	return rc == -EAGAIN ? -EWOULDBLOCK : rc ? -EIO : m.type == PLUG_PORT_IS;
}

/* Takes the next message into *to, allocated to fit.  Returns its length or -errno. */
static long recv_all(int fd, char **to, size_t size)
{
	long n = -ENOSPC;

	*to = NULL;
	while (n == -ENOSPC) {
		char *more = realloc(*to, size);

		if (!more) {
			n = -ENOMEM;
			break;
		}
		*to = more;
		n = plug_recv(fd, more, size, &size);
	}
	if (n < 0) {
		free(*to);
		*to = NULL;
	}
	return n;
}

int plug_tell(int fd, const char *what, char **answer, size_t *len)
{
	long n;
	int rc = plug_say(fd, PLUG_TEXT, what, strlen(what), -1, true);

	if (!rc)
		rc = wait_answer(fd, fd);
	if (rc)
		return rc;
	n = recv_all(fd, answer, PLUG_AT_ONCE);
	if (n < 0)
		return (int)n;
	*len = (size_t)n;
	return 0;
}
