/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of rsockets with descriptors that there are not, NULL where something has to be,
 * lengths that cannot be, and in states in which they mean nothing.  Each answers what
 * Linux's sockets do, which are asked beside them, and nothing is harmed. */
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rs.h"

/* The calls of rsockets, or those of sockets. */
static const struct calls {
	int (*socket)(int, int, int);
	int (*bind)(int, const struct sockaddr *, socklen_t);
	int (*listen)(int, int);
	int (*accept)(int, struct sockaddr *, socklen_t *);
	int (*connect)(int, const struct sockaddr *, socklen_t);
	int (*getpeername)(int, struct sockaddr *, socklen_t *);
	int (*getsockname)(int, struct sockaddr *, socklen_t *);
	int (*shutdown)(int, int);
	int (*close)(int);
	ssize_t (*sendto)(int, const void *, size_t, int, const struct sockaddr *,
			  socklen_t);
	ssize_t (*sendmsg)(int, const struct msghdr *, int);
	ssize_t (*writev)(int, const struct iovec *, int);
	ssize_t (*recvfrom)(int, void *, size_t, int, struct sockaddr *, socklen_t *);
	ssize_t (*recvmsg)(int, struct msghdr *, int);
	ssize_t (*readv)(int, const struct iovec *, int);
	int (*setsockopt)(int, int, int, const void *, socklen_t);
	int (*getsockopt)(int, int, int, void *, socklen_t *);
	int (*fcntl)(int, int, ...);
	int (*poll)(struct pollfd *, nfds_t, int);
} rs = { rsocket,      rbind,	     rlisten,	raccept,  rconnect,
	 rgetpeername, rgetsockname, rshutdown, rclose,	  rsendto,
	 rsendmsg,     rwritev,	     rrecvfrom, rrecvmsg, rreadv,
	 rsetsockopt,  rgetsockopt,  rfcntl,	rpoll },
  os = { socket,   bind,       listen,	   accept,  connect, getpeername, getsockname,
	 shutdown, close,      sendto,	   sendmsg, writev,  recvfrom,	  recvmsg,
	 readv,	   setsockopt, getsockopt, fcntl,   poll };

static struct sockaddr_storage at, name;
static socklen_t len;
static char data[64];
static int word = 1;

#define ADDR	  ((struct sockaddr *)&at)
#define NAME	  ((struct sockaddr *)&name)
#define IOV(b, n) ((struct iovec[]){ { b, n } })
#define MSG(...)  (&(struct msghdr){ __VA_ARGS__ })

/* clang-format off */
#define CALL(n, call) static ssize_t n(const struct calls *o, int fd) { len = sizeof(name); return call; }
CALL(bind_null, o->bind(fd, NULL, sizeof(at)))
CALL(bind_none, o->bind(fd, NULL, 0))
CALL(bind_short, o->bind(fd, ADDR, 3))
CALL(bind_family, o->bind(fd, (struct sockaddr *)&(struct sockaddr_storage){ .ss_family = 77 }, sizeof(at)))
CALL(accept_it, o->accept(fd, NULL, NULL))
CALL(accept_no_len, o->accept(fd, NAME, NULL))
CALL(connect_null, o->connect(fd, NULL, sizeof(at)))
CALL(connect_none, o->connect(fd, NULL, 0))
CALL(connect_short, o->connect(fd, ADDR, 3))
CALL(connect_one, o->connect(fd, ADDR, 1))
CALL(peer, o->getpeername(fd, NAME, &len))
CALL(peer_null, o->getpeername(fd, NULL, &len))
CALL(peer_no_len, o->getpeername(fd, NAME, NULL))
CALL(own_null, o->getsockname(fd, NULL, &len))
CALL(own_no_len, o->getsockname(fd, NAME, NULL))
CALL(own_negative, (len = (socklen_t)-1, o->getsockname(fd, NAME, &len)))
CALL(shutdown_what, o->shutdown(fd, 77))
CALL(shutdown_less, o->shutdown(fd, -1))
CALL(send_null, o->sendto(fd, NULL, 8, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0))
CALL(send_it, o->sendto(fd, data, 8, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0))
CALL(send_to_short, o->sendto(fd, data, 8, MSG_DONTWAIT | MSG_NOSIGNAL, ADDR, 3))
CALL(send_to_null, o->sendto(fd, data, 8, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 16))
CALL(sendmsg_null, o->sendmsg(fd, NULL, MSG_DONTWAIT | MSG_NOSIGNAL))
CALL(sendmsg_no_iov, o->sendmsg(fd, MSG(.msg_iovlen = 2), MSG_DONTWAIT | MSG_NOSIGNAL))
CALL(sendmsg_many, o->sendmsg(fd, MSG(.msg_iov = IOV(data, 1), .msg_iovlen = 5000), MSG_DONTWAIT | MSG_NOSIGNAL))
CALL(sendmsg_base, o->sendmsg(fd, MSG(.msg_iov = IOV(NULL, 8), .msg_iovlen = 1), MSG_DONTWAIT | MSG_NOSIGNAL))
CALL(writev_less, o->writev(fd, IOV(data, 1), -1))
CALL(writev_many, o->writev(fd, IOV(data, 1), 5000))
CALL(writev_huge, o->writev(fd, (struct iovec[]){ { data, 1 }, { data, SIZE_MAX } }, 2))
CALL(writev_part, o->writev(fd, (struct iovec[]){ { data, 1 }, { NULL, 8 } }, 2))
CALL(writev_null, o->writev(fd, NULL, 1))
CALL(writev_base, o->writev(fd, IOV(NULL, 8), 1))
CALL(recv_it, o->recvfrom(fd, data, 8, MSG_DONTWAIT, NULL, NULL))
CALL(recv_null, o->recvfrom(fd, NULL, 8, MSG_DONTWAIT, NULL, NULL))
CALL(recvmsg_null, o->recvmsg(fd, NULL, MSG_DONTWAIT))
CALL(recvmsg_no_iov, o->recvmsg(fd, MSG(.msg_iovlen = 2), MSG_DONTWAIT))
CALL(recvmsg_many, o->recvmsg(fd, MSG(.msg_iov = IOV(data, 1), .msg_iovlen = 5000), MSG_DONTWAIT))
CALL(readv_less, o->readv(fd, IOV(data, 1), -1))
CALL(readv_many, o->readv(fd, IOV(data, 1), 5000))
CALL(readv_null, o->readv(fd, NULL, 1))
CALL(readv_huge, o->readv(fd, (struct iovec[]){ { data, 1 }, { data, SIZE_MAX } }, 2))
CALL(recvmsg_base, o->recvmsg(fd, MSG(.msg_iov = IOV(NULL, 8), .msg_iovlen = 1), MSG_DONTWAIT))
CALL(set_null, o->setsockopt(fd, SOL_SOCKET, SO_SNDBUF, NULL, sizeof(word)))
CALL(set_none, o->setsockopt(fd, SOL_SOCKET, SO_SNDBUF, NULL, 0))
CALL(set_short, o->setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &word, 1))
CALL(set_unknown, o->setsockopt(fd, SOL_SOCKET, 7777, &word, sizeof(word)))
CALL(set_level, o->setsockopt(fd, 7777, 1, &word, sizeof(word)))
CALL(get_null, o->getsockopt(fd, SOL_SOCKET, SO_SNDBUF, NULL, &len))
CALL(get_no_len, o->getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &word, NULL))
CALL(get_negative, (len = (socklen_t)-1, o->getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &word, &len)))
CALL(get_unknown, o->getsockopt(fd, SOL_SOCKET, 7777, &word, &len))
CALL(get_level, o->getsockopt(fd, 7777, 1, &word, &len))
CALL(fcntl_unknown, o->fcntl(fd, 7777, 0))
CALL(close_it, o->close(fd))

/* A call with two mistakes may report either. */
enum { STATES = 4 };
static const struct row {
	const char *name;
	ssize_t (*call)(const struct calls *, int);
	int also;
} rows[] = {
#define ROW(n, ...) { .name = #n, .call = n, .also = __VA_ARGS__ + 0 }
	ROW(bind_null), ROW(bind_none), ROW(bind_short), ROW(bind_family), ROW(accept_it), ROW(accept_no_len),
	ROW(connect_null), ROW(connect_none), ROW(connect_short, EINVAL), ROW(connect_one),
	ROW(peer), ROW(peer_null, EFAULT), ROW(peer_no_len, EFAULT), ROW(own_null), ROW(own_no_len), ROW(own_negative),
	ROW(shutdown_what), ROW(shutdown_less),
	ROW(send_null, ENOTCONN), ROW(send_it, ENOTCONN), ROW(send_to_short, ENOTCONN), ROW(send_to_null, ENOTCONN),
	ROW(sendmsg_null), ROW(sendmsg_no_iov), ROW(sendmsg_many), ROW(sendmsg_base, ENOTCONN),
	ROW(writev_less), ROW(writev_many), ROW(writev_null), ROW(writev_base, ENOTCONN), ROW(writev_huge), ROW(writev_part, ENOTCONN),
	ROW(recv_it), ROW(recv_null), ROW(recvmsg_base), ROW(recvmsg_null), ROW(recvmsg_no_iov), ROW(recvmsg_many),
	ROW(readv_less), ROW(readv_many), ROW(readv_null), ROW(readv_huge),
	ROW(set_null), ROW(set_none), ROW(set_short), ROW(set_unknown), ROW(set_level),
	ROW(get_null), ROW(get_no_len), ROW(get_negative), ROW(get_unknown), ROW(get_level, ENOPROTOOPT),
	ROW(fcntl_unknown), ROW(close_it), /* must be last */
#undef ROW
};
/* clang-format on */

static unsigned wrong;

static int answer(const struct row *r, const struct calls *o, int fd)
{
	ssize_t rc;

	errno = 0;
	rc = r->call(o, fd);
	return rc < 0 ? errno : 0;
}

static void compare(const struct row *r, const char *where, int ours, int theirs)
{
	int got = answer(r, &rs, ours), want = answer(r, &os, theirs);

	if (got == want || (got && want && got == r->also))
		return;
	fprintf(stderr, "%s, %s: %d (%s), not %d (%s)\n", r->name, where, got,
		strerror(got), want, strerror(want));
	wrong++;
}

/* Makes a new socket, a listening one, a connected one, and a datagram socket. */
static void make(const struct calls *o, const char *ip, unsigned port, int fd[STATES],
		 int *more)
{
	struct sockaddr_storage a = rs_address(ip, port);
	int l;

	fd[0] = o->socket(a.ss_family, SOCK_STREAM, 0);
	fd[3] = o->socket(a.ss_family, SOCK_DGRAM, 0);
	fd[1] = o->socket(a.ss_family, SOCK_STREAM, 0);
	fd[2] = o->socket(a.ss_family, SOCK_STREAM, 0);
	l = o->socket(a.ss_family, SOCK_STREAM, 0);
	MUST(fd[0] >= 0 && fd[1] >= 0 && fd[2] >= 0 && fd[3] >= 0 && l >= 0);
	MUST(!o->bind(l, (struct sockaddr *)&a, rs_len(&a)) && !o->listen(l, 1));
	MUST(!o->connect(fd[2], (struct sockaddr *)&a, rs_len(&a)));
	*more = o->accept(l, NULL, NULL);
	MUST(*more >= 0 && !o->close(l));
	a = rs_address(ip, port + 1);
	MUST(!o->bind(fd[1], (struct sockaddr *)&a, rs_len(&a)) && !o->listen(fd[1], 1));
	for (int i = 0; i < STATES; i++)
		MUST(!o->fcntl(fd[i], F_SETFL, O_NONBLOCK));
}

/* riomap and its kin, which sockets do not have. */
static void placement(int listening, int dgram)
{
	MUST(riomap(-1, data, sizeof(data), PROT_WRITE, 0, 0) == -1 && errno == EBADF);
	MUST(riomap(listening, data, sizeof(data), PROT_WRITE, 0, 0) == -1 && errno);
	MUST(riomap(dgram, data, sizeof(data), PROT_WRITE, 0, 0) == -1 &&
	     errno == ENOTCONN);
	MUST(riounmap(-1, data, sizeof(data)) == -1 && errno == EBADF);
	MUST(riounmap(listening, data, sizeof(data)) == -1 && errno == EINVAL);
	MUST(riounmap(dgram, data, sizeof(data)) == -1 && errno == EINVAL);
	MUST(riowrite(-1, data, 1, 0, 0) == (size_t)-1 && errno == EBADF);
	MUST(riowrite(listening, data, 1, 0, 0) == (size_t)-1 && errno);
	MUST(riowrite(dgram, data, 1, 0, 0) == (size_t)-1 && errno == EOPNOTSUPP);
}

static void ignore(int sig)
{
	(void)sig;
}

int bad(const char *ip, unsigned port)
{
	static const char *const where[] = { "new", "listening", "connected",
					     "datagrams" };
	const struct row *end = rows + sizeof(rows) / sizeof(rows[0]);
	int ours[STATES], theirs[STATES], more[2], null = open("/dev/null", O_RDWR);
	struct pollfd p = { .fd = -1 };

	signal(SIGPIPE, SIG_IGN);
	at = rs_address(ip, port);
	MUST(rsocket(77, SOCK_STREAM, 0) == -1 && errno == EAFNOSUPPORT);
	MUST(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP) == -1 &&
	     errno == EPROTONOSUPPORT);
	make(&rs, ip, port, ours, &more[0]);
	make(&os, ip, port + 2, theirs, &more[1]);
	placement(ours[1], ours[3]);
	MUST(rshutdown(ours[0], SHUT_WR) == -1 && errno == ENOTCONN);
	for (const struct row *r = rows; r < end; r++) {
		compare(r, "-1", -1, -1);
		compare(r, "99999", 99999, 99999);
		/* a descriptor that is no rsocket is none of ours */
		if (r->call != close_it)
			compare(r, "no socket", null, -1);
		for (int i = 0; i < STATES; i++)
			compare(r, where[i], ours[i], theirs[i]);
	}
	for (int i = 0; i < STATES; i++)
		compare(&end[-1], "closed", ours[i], theirs[i]);
	MUST(rsend(more[0], data, 8, MSG_OOB) == -1 && errno == EOPNOTSUPP);
	MUST(rpoll(NULL, 1, 0) == -1 && errno == EFAULT);
	MUST(rpoll(NULL, 0, 0) == 0);
	MUST(rpoll(&p, 1, 0) == 0);
	MUST(rselect(-1, NULL, NULL, NULL, &(struct timeval){ 0 }) == -1 &&
	     errno == EINVAL);
	MUST(rselect(0, NULL, NULL, NULL, &(struct timeval){ .tv_sec = -1 }) == -1 &&
	     errno == EINVAL);
	MUST(rselect(0, NULL, NULL, NULL, &(struct timeval){ .tv_usec = 1500000 }) == 0);
	sigaction(SIGALRM, &(struct sigaction){ .sa_handler = ignore }, NULL);
	alarm(1);
	MUST(rselect(0, NULL, NULL, NULL, &(struct timeval){ 0, LONG_MAX }) == -1 &&
	     errno == EINTR);
	MUST(!rclose(more[0]) && !close(more[1]) && !close(null));
	return wrong ? 1 : 0;
}
