/* SPDX-License-Identifier: BSD-2-Clause */
/* rsockets: numbers that are no rsocket. tests/rsocket/bad.c compares other bad
 * arguments with Linux's sockets, call by call. */
#include "refused.h"

#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/uio.h>

/* A closed number, a file's descriptor, and a number beyond the limit. */
#define SOCKET(call, ...)                                                                \
	do {                                                                             \
		static const int none[] = { -1, 0, 1 << 20 };                            \
		static const char *const text[] = { "socket -1",                         \
						    "socket that is a file",             \
						    "socket beyond the limit" };         \
		for (int i = 0; i < 3; i++) {                                            \
			const int fd = none[i];                                          \
			ROW(call, text[i], EBADF, of_minus, (fd, ##__VA_ARGS__));        \
		}                                                                        \
	} while (0)

void socket_rows(void)
{
	struct sockaddr_storage at = { .ss_family = AF_INET };
	struct sockaddr *a = (struct sockaddr *)&at;
	struct iovec iov = { memory, 8 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct pollfd nothing = { .fd = -1 };
	socklen_t len = sizeof(at);
	int word = 0;

	ROW(rsocket, "domain unknown", EAFNOSUPPORT, of_minus, (77, SOCK_STREAM, 0));
	ROW(rsocket, "type unknown", EPROTONOSUPPORT, of_minus, (AF_INET, SOCK_RAW, 0));
	ROW(rsocket, "protocol unknown", EPROTONOSUPPORT, of_minus,
	    (AF_INET, SOCK_STREAM, 77));
	SOCKET(rbind, a, len);
	SOCKET(rlisten, 1);
	SOCKET(raccept, NULL, NULL);
	SOCKET(rconnect, a, len);
	SOCKET(rshutdown, SHUT_RDWR);
	SOCKET(rclose);
	SOCKET(rrecv, memory, 8, 0);
	SOCKET(rrecvfrom, memory, 8, 0, NULL, NULL);
	SOCKET(rrecvmsg, &msg, 0);
	SOCKET(rread, memory, 8);
	SOCKET(rreadv, &iov, 1);
	SOCKET(rsend, memory, 8, 0);
	SOCKET(rsendto, memory, 8, 0, a, len);
	SOCKET(rsendmsg, &msg, 0);
	SOCKET(rwrite, memory, 8);
	SOCKET(rwritev, &iov, 1);
	SOCKET(rgetpeername, a, &len);
	SOCKET(rgetsockname, a, &len);
	SOCKET(rsetsockopt, SOL_SOCKET, SO_SNDBUF, &word, sizeof(word));
	SOCKET(rgetsockopt, SOL_SOCKET, SO_SNDBUF, &word, &len);
	SOCKET(rfcntl, F_GETFL);
	SOCKET(riomap, memory, 8, PROT_WRITE, 0, 0);
	SOCKET(riounmap, memory, 8);
	ROW_OF("riowrite", "socket -1", EBADF, of_minus,
	       (long)riowrite(-1, memory, 8, 0, 0));
	ROW(rpoll, "fds NULL", EFAULT, of_minus, (NULL, 1, 0));
	ROW_OF("rpoll", "nfds above the limit", EINVAL, of_minus,
	       rpoll(&nothing, 1u << 30, 0));
	ANY(rpoll, "timeout: below 0 is for ever");
	ROW(rselect, "nfds -1", EINVAL, of_minus, (-1, NULL, NULL, NULL, NULL));
}
