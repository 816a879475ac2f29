/* SPDX-License-Identifier: BSD-2-Clause */
/* A child of fork has none of its parent's ids, and may have its own. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm.h"

static int child(const char *ip, unsigned port, struct rdma_cm_id *parents)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *listener;
	struct end e;

	/* The parent's listener cannot be used here, and keeps its port. */
	MUST(rdma_listen(parents, 1) == -1);
	listener = cm_listener(ch, ip, port + 1, 16);
	cm_resolved(&e, ch, ip, port);
	MUST(rdma_connect(e.id, NULL) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	strcpy(e.buf, "from the child");
	end_send(&e);
	end_wait(&e, IBV_WC_SEND);
	MUST(rdma_disconnect(e.id) == 0);
	cm_ack(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	end_break(&e);
	MUST(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(ch);
	return 0;
}

/* A child that destroys its copy of an id takes nothing from its parent: neither
 * what the parent is about to read, nor an event that it has not acknowledged. */
static void copies(const char *ip, unsigned port)
{
	struct rdma_event_channel *ch = cm_channel();
	struct sockaddr_storage a = cm_address(ip, port);
	struct rdma_cm_event *ev = NULL;
	struct rdma_cm_id *id;
	pid_t pid;
	int status;

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) == 0);
	MUST(rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, 100) == 0);
	for (int i = 0; i < 2; i++) {
		pid = fork();
		MUST(pid >= 0);
		if (pid == 0) {
			alarm(10);
			_exit(rdma_destroy_id(id) != 0);
		}
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
		if (i == 0)
			ev = cm_expect(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	}
	rdma_ack_cm_event(ev);
	MUST(rdma_destroy_id(id) == 0);
	rdma_destroy_event_channel(ch);
}

int forks(const char *ip, unsigned port)
{
	struct rdma_event_channel *ch = cm_channel();
	struct rdma_cm_id *listener = cm_listener(ch, ip, port, 16);

	copies(ip, port);

	for (int i = 0; i < 3; i++) {
		pid_t pid = fork();
		struct rdma_cm_event *ev;
		struct end e;
		int status;

		MUST(pid >= 0);
		if (pid == 0)
			_exit(child(ip, port, listener));
		ev = cm_expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		end_make(&e, ev->id);
		rdma_ack_cm_event(ev);
		end_recv(&e);
		MUST(rdma_accept(e.id, NULL) == 0);
		cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
		end_wait(&e, IBV_WC_RECV);
		MUST(!strcmp(e.buf + MSG, "from the child"));
		cm_ack(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
		MUST(rdma_disconnect(e.id) == 0);
		end_break(&e);
		MUST(waitpid(pid, &status, 0) == pid && status == 0);
	}
	MUST(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(ch);
	return 0;
}
