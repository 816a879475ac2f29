/* SPDX-License-Identifier: BSD-2-Clause */
/* Connects, sends a word each way and disconnects, many times: nothing may be left
 * behind. */
#include <grp.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../lab/count.h"
#include "cm.h"

static long rss_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long all, rss;

	MUST(f && fscanf(f, "%ld %ld", &all, &rss) == 2);
	fclose(f);
	return rss * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Sanitizers keep freed memory for a while.  gcc and clang say differently that one is
 * in use. */
#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif
enum { RSS_TOLD = !SANITIZED };

/* The next request may come before the event that the earlier connection has ended:
 * events of two connections have no order. */
static struct rdma_cm_event *disconnected(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev = cm_event(ch), *request = NULL;

	while (ev->event != RDMA_CM_EVENT_DISCONNECTED) {
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST && !request)
			request = ev;
		else
			MUST(ev->event == RDMA_CM_EVENT_TIMEWAIT_EXIT &&
			     rdma_ack_cm_event(ev) == 0);
		ev = cm_event(ch);
	}
	MUST(rdma_ack_cm_event(ev) == 0);
	return request;
}

/* A daemon that no longer needs root: BECOME is the number of the user that it
 * becomes. */
static void drop_privileges(void)
{
	const char *to = getenv("BECOME");
	unsigned id = to ? (unsigned)atoi(to) : 0;

	if (id)
		MUST(setgroups(0, NULL) == 0 && setresgid(id, id, id) == 0 &&
		     setresuid(id, id, id) == 0);
}

void cycles_accept(struct rdma_cm_id *listener, unsigned n)
{
	struct rdma_event_channel *ch = listener->channel;
	struct rdma_cm_event *next = NULL;

	while (n--) {
		struct rdma_cm_event *ev =
			next ? next : cm_expect(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		struct end e;

		end_make(&e, ev->id);
		rdma_ack_cm_event(ev);
		end_recv(&e);
		MUST(rdma_accept(e.id, NULL) == 0);
		cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
		end_wait(&e, IBV_WC_RECV);
		memcpy(e.buf, e.buf + MSG, MSG);
		/* The ACK of the last SEND may be lost with the peer, so its completion
		 * is not awaited. */
		end_send(&e);
		next = disconnected(ch);
		MUST(rdma_disconnect(e.id) == 0);
		end_break(&e);
	}
	usleep(500000); /* the last DREP may be lost */
	MUST(rdma_destroy_id(listener) == 0);
	rdma_destroy_event_channel(ch);
}

int cycles_serve(const char *ip, unsigned port, unsigned n)
{
	struct rdma_cm_id *listener = cm_listener(cm_channel(), ip, port, 16);

	drop_privileges();
	puts("listening");
	fflush(stdout);
	cycles_accept(listener, n);
	return 0;
}

static void ask(struct rdma_event_channel *ch, const char *ip, unsigned port, unsigned i)
{
	struct end e;

	cm_resolved(&e, ch, ip, port);
	end_recv(&e);
	MUST(rdma_connect(e.id, NULL) == 0);
	cm_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	memset(e.buf, 0, sizeof(e.buf));
	snprintf(e.buf, MSG, "word %u", i);
	end_send(&e);
	end_wait(&e, IBV_WC_SEND);
	end_wait(&e, IBV_WC_RECV);
	MUST(memcmp(e.buf, e.buf + MSG, MSG) == 0);
	MUST(rdma_disconnect(e.id) == 0);
	cm_ack(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	end_break(&e);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* What rests (identifiers, QP numbers) is bounded: it is there after a tenth. */
int cycles_ask(const char *ip, unsigned port, unsigned n)
{
	struct rdma_event_channel *ch = cm_channel();
	double *took = calloc(n + 1, sizeof(*took)), began = now_us(), at = began;
	unsigned fds = 0;
	long rss = 0;

	MUST(took);
	for (unsigned i = 0; i < n; i++) {
		if (n >= 10000 && i % (n / 10) == 0)
			fprintf(stderr, "%u: %ld KiB\n", i, rss_kib());
		if (i == n / 2) {
			fds = count_entries("/proc/self/fd");
			rss = rss_kib();
		}
		ask(ch, ip, port, i);
		if (i == 0)
			drop_privileges();
		took[i] = now_us() - at;
		at += took[i];
	}
	/* What a busy machine disturbs least is the fastest tenth. */
	qsort(took, n, sizeof(*took), by_size);
	printf("%u cycles, %.0f a second, %ld KiB more in the second half; a tenth within "
	       "%.0f us, half within %.0f\n",
	       n, n * 1e6 / (at - began), rss_kib() - rss, took[n / 10], took[n / 2]);
	free(took);
	/* A connection to each other process of the host may have come. */
	MUST(count_entries("/proc/self/fd") <= fds + 8);
	MUST(!RSS_TOLD || rss_kib() - rss < 4096);
	rdma_destroy_event_channel(ch);
	return 0;
}
