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
#include "net/adapter_ring.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/fd.h"
#include "sys/user.h"

/* An answer usually takes microseconds.  A program that has waited FIRST_LOOK_MS checks,
 * then and every LOOK_MS, whether the fabric's process is stopped. */
enum { ANSWER_SECONDS = 10, FIRST_LOOK_MS = 10, LOOK_MS = 100 };

/* The result for err, the errno of a failed recv(). */
static int gone(int err)
{
	return err == EAGAIN ? -ETIMEDOUT : -EIO;
}

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
		rc = message_send(fd, NULL, 0, req, sizeof(*req), pass, false);
	}
	return rc == -EAGAIN ? -ETIMEDOUT : rc;
}

static int fill(struct plug_request *req, const char *hca, enum plug_op op, uint32_t port)
{
	*req = (struct plug_request){ .version = PLUG_VERSION, .op = op, .port = port };
	return plug_hca(hca, req->hca);
}

/* Connects, sends req and takes the answer, which begins with a status word.  Returns the
 * connection's descriptor, or -errno. */
static int ask_for(const char *fabric, const struct plug_request *req, int pass,
		   void *answer, size_t len)
{
	uint32_t status = 0;
	ssize_t n;
	int rc, fd;

	fd = dial(fabric);
	if (fd < 0)
		return fd;
	rc = introduce(fd, req, pass);
	if (!rc)
		rc = wait_answer(fd, fd);
	n = rc ? 0 : recv(fd, answer, len, MSG_DONTWAIT);
	if (n >= (ssize_t)sizeof(status))
		memcpy(&status, answer, sizeof(status));
	if (!rc && n < 0)
		rc = gone(errno);
	else if (!rc && status) /* a refusal is the status word alone */
		rc = status < 4096 ? -(int)status : -EIO;
	else if (!rc && n != (ssize_t)len)
		rc = -EIO;
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

static int ask(const char *fabric, const char *hca, enum plug_op op, uint32_t port,
	       int pass, void *answer, size_t len)
{
	struct plug_request req;
	int rc = fill(&req, hca, op, port);

	return rc ? rc : ask_for(fabric, &req, pass, answer, len);
}

static int look(const char *fabric, const char *hca, enum plug_op op, uint32_t port,
		void *answer, size_t len)
{
	int fd = ask(fabric, hca, op, port, -1, answer, len);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

int plug_ca(const char *fabric, const char *hca, struct plug_ca *out)
{
	int rc = look(fabric, hca, PLUG_CA, 0, out, sizeof(*out));

	if (rc)
		return rc;
	out->name[sizeof(out->name) - 1] = out->desc[sizeof(out->desc) - 1] = '\0';
	return 0;
}

int plug_port(const char *fabric, const char *hca, uint32_t port, struct plug_port *out)
{
	int rc = look(fabric, hca, PLUG_PORT, port, out, sizeof(*out));

	return rc ? rc : out->pkeys > PLUG_PKEYS ? -EIO : 0;
}

int plug_open(const char *fabric, const char *hca, uint32_t port)
{
	uint32_t status = 0;

	return ask(fabric, hca, PLUG_OPEN, port, -1, &status, sizeof(status));
}

/* Leaves its descriptors at low numbers, without fd_raise(): for a high number the kernel
 * enlarges the process's table, which takes 10 ms and more in a program with threads. */
int plug_issm(const char *fabric, const char *hca, uint32_t port, char *path, size_t size)
{
	uint32_t status = 0;
	int p[2], fd, n;

	if (pipe2(p, O_CLOEXEC))
		return -errno;
	close(p[0]); /* a process that opens the path becomes the reader */
	n = snprintf(path, size, "/proc/self/fd/%d", p[1]);
	fd = n < 0 || (size_t)n >= size
		     ? -ENAMETOOLONG
		     : ask(fabric, hca, PLUG_ISSM, port, p[1], &status, sizeof(status));
	if (fd < 0) {
		close(p[1]);
		return fd;
	}
	return fd;
}

int plug_register(int fd, const struct plug_register *reg)
{
	struct plug_registered r = { 0 };
	int s[2], rc;
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s))
		return -errno;
	rc = message_send(fd, NULL, 0, reg, sizeof(*reg), s[1], false);
	close(s[1]);
	if (!rc)
		rc = wait_answer(s[0], fd);
	if (!rc) {
		n = recv(s[0], &r, sizeof(r), MSG_DONTWAIT);
		rc = n == sizeof(r) ? r.agent : n < 0 ? gone(errno) : -EIO;
	}
	close(s[0]);
	return rc;
}

int plug_unregister(int fd, uint32_t agent)
{
	struct plug_register reg = { .say = PLUG_UNREGISTER, .agent = agent };

	return plug_register(fd, &reg);
}

int plug_send(int fd, const void *msg, size_t len)
{
	uint32_t say = PLUG_MAD;

	return message_send_any(fd, &say, sizeof(say), msg, len, false);
}

/* Held by plug_recv(), which looks at a message and takes it with two system calls. */
static pthread_mutex_t taking = PTHREAD_MUTEX_INITIALIZER;

/* A fabric sends at most one descriptor with a message.  Surplus ones are closed on
 * account of this uid, which is no user's: geteuid() would cost a system call per
 * message. */
static const uid_t nobodys = (uid_t)-1;

/* Takes a message that lies in the memfd `passed`.  Returns its length; -ENOSPC with the
 * length in *need if size is too small; or -EIO. */
static long take_long(int fd, void *msg, size_t size, size_t *need, int passed)
{
	long len = message_length(passed);

	if (len > (long)size) {
		*need = (size_t)len;
		return -ENOSPC;
	}
	if (len < 0 || message_read(passed, msg, (size_t)len))
		return -EIO;
	message_recv(fd, geteuid(), NULL, 0, NULL, 0);
	return len;
}

static long take(int fd, void *msg, size_t size, size_t *need)
{
	int passed;
	long n = message_recv(fd, nobodys, msg, size, &passed, MSG_PEEK);

	if (passed >= 0) {
		n = take_long(fd, msg, size, need, passed);
		closer_put(geteuid(), passed);
		return n;
	}
	if (n > (long)size) {
		*need = (size_t)n;
		return -ENOSPC;
	}
	return n < 0 ? n : message_recv(fd, nobodys, msg, size, NULL, 0);
}

long plug_recv(int fd, void *msg, size_t size, size_t *need)
{
	int state;
	long n;

	/* recvmsg() is a cancellation point; a cancelled thread would keep the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	pthread_mutex_lock(&taking);
	n = take(fd, msg, size, need);
	pthread_mutex_unlock(&taking);
	pthread_setcancelstate(state, &state);
	return n;
}

int plug_control(const char *fabric)
{
	uint32_t status = 0;

	return ask(fabric, "", PLUG_CONTROL, 0, -1, &status, sizeof(status));
}

int plug_capture(const char *fabric, const char *node, uint32_t port)
{
	uint32_t status = 0;

	return ask(fabric, node, PLUG_CAPTURE, port, -1, &status, sizeof(status));
}

/* Takes the answer to ATTACH: a status word and the shared memory's descriptor. */
static int take_memory(int fd, int *memory)
{
	enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW };
	uint32_t status = 0;
	int passed = -1, rc = wait_answer(fd, fd);
	long n;

	if (rc)
		return rc;
	n = message_recv(fd, geteuid(), &status, sizeof(status), &passed, 0);
	if (n == sizeof(status) && status)
		rc = status < 4096 ? -(int)status : -EIO;
	else if (n != sizeof(status) || passed < 0 ||
		 !fd_is_sealed(passed, sizeof(struct adapter_shared), SEALS))
		rc = -EIO;
	else
		rc = 0;
	if (rc)
		closer_put(geteuid(), passed);
	else
		*memory = fd_raise(passed);
	return rc;
}

int plug_attach(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		int *memory)
{
	struct plug_request req;
	int fd, rc = fill(&req, hca, PLUG_ATTACH, port);

	if (rc)
		return rc;
	req.slot = slot;
	fd = fd_raise(dial(fabric));
	if (fd < 0)
		return fd;
	rc = introduce(fd, &req, -1);
	if (!rc)
		rc = take_memory(fd, memory);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

int plug_find(const char *fabric, const char *hca, uint32_t port, const uint8_t ip[16],
	      uint8_t gid[16])
{
	struct plug_request req;
	struct plug_found found;
	int fd, rc = fill(&req, hca, PLUG_FIND, port);

	if (rc)
		return rc;
	memcpy(req.ip, ip, sizeof(req.ip));
	fd = ask_for(fabric, &req, -1, &found, sizeof(found));
	if (fd < 0)
		return fd;
	close(fd);
	memcpy(gid, found.gid, sizeof(found.gid));
	return 0;
}

int plug_service(const char *fabric, const char *hca, uint32_t port, uint32_t slot,
		 uint64_t service)
{
	struct plug_request req;
	uint32_t status;
	int rc = fill(&req, hca, PLUG_SERVICE, port);

	if (rc)
		return rc;
	req.slot = slot;
	req.service = service;
	return fd_raise(ask_for(fabric, &req, -1, &status, sizeof(status)));
}

int plug_kick(int fd)
{
	uint32_t kick = PLUG_KICK;

	return message_send(fd, NULL, 0, &kick, sizeof(kick), -1, true);
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
	int rc = message_send_any(fd, NULL, 0, what, strlen(what), false);

	if (!rc)
		rc = wait_answer(fd, fd);
	if (rc)
		return rc;
	n = recv_all(fd, answer, MESSAGE_LONG);
	if (n < 0)
		return (int)n;
	*len = (size_t)n;
	return 0;
}
