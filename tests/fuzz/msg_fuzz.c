/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages between processes: any bytes, with any descriptors, by the tables of host/ and
 * of a fabric.
 *
 * The input: a byte that says who hears them (enum hearer, modulo), then messages.
 *   1 byte   bits 0-2: which connection; bit 3: a head by the table, else raw bytes;
 *            bit 4: the body lies in memory, as the head says; bits 5-7: descriptors
 *            that come along (enum fd), two of which may be one
 *   1 byte   of a head: the type, modulo one more than there are
 *   2 bytes  how long the body is, modulo BODY; the bytes, those that are missing being 0
 * Descriptor MEMORY is sealed memory that holds the body.
 *
 * Beside crashes it looks for descriptors that stay open, and for messages that reach a
 * room although the table does not allow them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "descriptors.h"
#include "driver/asked.h"
#include "driver/nic_own.h"
#include "fabric/port/address.h"
#include "fabric/port/message.h"
#include "fabric/port/server.h"
#include "host/host.h"
#include "host/name.h"
#include "host/service.h"
#include "input.h"
#include "must.h"
#include "sys/closer.h"
#include "sys/log.h"

enum hearer { A_HOST, A_FABRIC, A_PROGRAM, HEARERS };
enum fd { NO_FD, MEMORY, UNSEALED, PIPE, SOCKET, TWO, FDS };
enum { CONNS = 4, BODY = 600, STEPS = 64, BY_TABLE = 8, IN_MEMORY = 16 };

static const char topology[] =
	"Switch 2 \"s\"\n[1] \"a\"[1]\n[2] \"b\"[1]\n\nCa 1 \"a\"\n\nCa 1 \"b\"\n";

/* --- descriptors ----------------------------------------------------------- */

static int memory_with(const void *bytes, size_t len, bool sealed)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	MUST(fd >= 0 && pwrite(fd, bytes, len, 0) == (ssize_t)len);
	if (sealed)
		MUST(!fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE));
	return fd;
}

static unsigned open_fds(enum fd what, const void *bytes, size_t len, int fd[2])
{
	int pair[2];

	switch (what) {
	case MEMORY:
	case UNSEALED:
		fd[0] = memory_with(bytes, len, what == MEMORY);
		return 1;
	case PIPE:
		MUST(!pipe2(pair, O_CLOEXEC));
		close(pair[0]);
		fd[0] = pair[1];
		return 1;
	case SOCKET:
		MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
		close(pair[1]);
		fd[0] = pair[0];
		return 1;
	case TWO:
		fd[0] = memory_with(bytes, len, true);
		fd[1] = open("/dev/zero", O_RDWR | O_CLOEXEC);
		return 2;
	case NO_FD:
	case FDS:
		break;
	}
	return 0;
}

/* --- who speaks -------------------------------------------------------------- */

/* Takes the next message from the input, and sends it. */
static void speak(struct input *in, const int conn[CONNS], const struct msg_table *t)
{
	const unsigned how = take(in, 1);
	struct msg_head head = msg_head(t, take(in, 1) % (t->types + 1));
	uint8_t body[BODY] = { 0 };
	const size_t len = take(in, 2) % sizeof(body);
	struct iovec iov[2] = { { &head, sizeof(head) }, { body, len } };
	struct msghdr m = { .msg_iov = how & BY_TABLE ? iov : iov + 1,
			    .msg_iovlen = how & BY_TABLE ? 2 : 1 };
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int[2]))];
	} u;
	int fd[2];
	unsigned n;

	for (size_t i = 0; i < len; i++)
		body[i] = take_byte(in);
	head.in_memory = !!(how & IN_MEMORY);
	n = open_fds((enum fd)((how >> 5) % FDS), body, len, fd);
	if (n)
		msg_put_fds(&m, &u.head, fd, n);
	(void)!sendmsg(conn[how % CONNS], &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (unsigned i = 0; i < n; i++)
		close(fd[i]);
}

/* --- a process of a host ----------------------------------------------------- */

static void on_datagram(void *arg, const struct dgram *d)
{
	(void)arg;
	MUST(d->iovcnt == 1 && d->iov->iov_len == d->len && d->len > 0);
	for (uint32_t i = 0; i < d->len; i++) /* it can be read */
		MUST(((volatile uint8_t *)d->iov->iov_base)[i] <= 255);
}

static void on_gone(void *arg, uint16_t slot)
{
	(void)arg;
	MUST(slot >= SLOT_FIRST && slot <= SLOT_LAST);
}

static void on_said(void *arg, struct host_said *s)
{
	const struct msg_row *row = &host_table.row[s->type];
	struct nic *nic = arg;
	uint8_t bytes[BODY];

	MUST(s->type > HOST_SERVICE && s->type < HOST_TYPES);
	MUST(s->len >= row->least && s->len <= row->most);
	MUST(row->fds == 2 || s->fd[1] < 0);
	MUST(row->fds >= 1 || s->fd[0] < 0);
	if (s->len <= sizeof(bytes))
		MUST(msg_read(s->msg, 0, bytes, s->len) == 0);
	if (s->type == HOST_ASK)
		asked(nic, s, 0);
}

static const struct host_ops ops = { on_datagram, on_gone, on_said };

static void run_host(struct host *h)
{
	for (int i = 0; i < 8; i++)
		(void)host_run(h);
}

/* The first two connections greet for a slot that their process has. */
static void say_to_host(struct input *in)
{
	struct msg_hello hello;
	struct service *service;
	static struct nic nic;
	struct host *h, *mine;
	int conn[CONNS];
	char name[64];

	MUST(host_open(&h, &ops, &nic) == 0 && host_open(&mine, &ops, NULL) == 0);
	nic.host = h;
	dumper_init(&nic.dumper, &nic.core, NULL);
	snprintf(name, sizeof(name), "urnic/fuzz/%d", (int)getpid());
	MUST(service_bind(h, name, &service) == 0);
	for (int i = 0; i < CONNS; i++) {
		conn[i] = name_connect(host_slot(h));
		MUST(conn[i] >= 0);
		msg_put_hello(&hello, host_slot(mine), &(struct msg_proof){ { 0 } });
		if (i < 2)
			MUST(msg_send(conn[i], &host_table, HOST_HELLO,
				      &(struct iovec){ &hello, sizeof(hello) }, 1, NULL,
				      0, false) == 0);
	}
	run_host(h);
	for (int i = 0; i < STEPS && in->at < in->end; i++) {
		speak(in, conn, &host_table);
		run_host(h);
	}
	for (int i = 0; i < CONNS; i++)
		close(conn[i]);
	run_host(h);
	dumper_fini(&nic.dumper);
	service_close(service);
	host_close(mine);
	host_close(h);
}

/* --- a fabric ------------------------------------------------------------------ */

static char *answer(void *ctx, struct fabric *f, uint64_t now, const char *ask,
		    size_t ask_len, size_t *len)
{
	char *text = malloc(ask_len + 1);

	(void)ctx, (void)f, (void)now;
	MUST(text);
	memcpy(text, ask, ask_len);
	*len = ask_len;
	return text;
}

/* One round of the fabric's loop: it stops where it comes to `stop`. */
static void run_fabric(struct plug_server *s)
{
	int stop = eventfd(1, EFD_CLOEXEC);

	MUST(stop >= 0 && plug_serve(s, stop) == 0);
	close(stop);
}

static int dial(const char *name)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un a;
	socklen_t len;
	uid_t owner;

	MUST(!plug_address(name, geteuid(), &a, &len, &owner));
	MUST(!connect(fd, (struct sockaddr *)&a, len));
	return fd;
}

/* The first connection is a file, the second a control connection, the third attached. */
static void say_to_fabric(struct input *in)
{
	static const enum plug_op op[CONNS] = { PLUG_OPEN, PLUG_CONTROL, PLUG_ATTACH };
	struct plug_server *s;
	struct topo topo;
	char err[TOPO_ERR], name[PLUG_NAME];
	int conn[CONNS];

	snprintf(name, sizeof(name), "fuzz-%d", (int)getpid());
	MUST(topo_parse(&topo, "t", topology, sizeof(topology) - 1, err) == 0);
	MUST(plug_server_new(&s, name, &topo) == 0);
	plug_server_control(s, answer, NULL);
	for (int i = 0; i < CONNS; i++) {
		struct plug_request req = {
			.op = op[i], .port = 1, .slot = 5, .hca = "a"
		};

		conn[i] = dial(name);
		run_fabric(s);
		if (op[i])
			MUST(plug_say(conn[i], PLUG_REQUEST, &req, sizeof(req), -1,
				      false) == 0);
		run_fabric(s);
	}
	for (int i = 0; i < STEPS && in->at < in->end; i++) {
		speak(in, conn, &plug_table);
		run_fabric(s);
	}
	for (int i = 0; i < CONNS; i++)
		close(conn[i]);
	run_fabric(s);
	plug_server_free(s);
	topo_free(&topo);
}

/* --- a program, of its fabric ---------------------------------------------------- */

static void say_to_program(struct input *in)
{
	int fabric[CONNS], program[CONNS];

	for (int i = 0; i < CONNS; i++) {
		int pair[2];

		MUST(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
		fabric[i] = pair[0];
		program[i] = pair[1];
	}
	for (int i = 0; i < STEPS && in->at < in->end; i++) {
		uint8_t buf[BODY / 2];
		struct plug_port port;
		size_t need = 0;

		speak(in, fabric, &plug_table);
		for (int k = 0; k < CONNS / 2; k++) {
			long n = plug_recv(program[k], buf, sizeof(buf), &need);

			MUST(n <= (long)sizeof(buf));
			MUST(n != -ENOSPC || need > sizeof(buf));
			n = plug_news(program[k + CONNS / 2], &port);
			MUST(n == 0 || n == 1 || n == -EWOULDBLOCK || n == -EIO);
		}
	}
	for (int i = 0; i < CONNS; i++) {
		close(fabric[i]);
		close(program[i]);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	const unsigned before = descriptors();

	log_level = LOG_ERROR;
	switch ((enum hearer)(take(&in, 1) % HEARERS)) {
	case A_HOST:
		say_to_host(&in);
		break;
	case A_FABRIC:
		say_to_fabric(&in);
		break;
	case A_PROGRAM:
		say_to_program(&in);
		break;
	case HEARERS:
		break;
	}
	MUST(are_closed(before));
	return 0;
}
