/* SPDX-License-Identifier: BSD-2-Clause */
/* How two processes agree on a pipe, or do not: each message comes late, twice, out of
 * place, or from any process. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/host.h"
#include "shm/fix.h"
#include "sys/log_testing.h"
#include "verbs/exports.h"

/* The values of enum say. */
enum { ASK = 1, OFFER, ANSWER, CONFIRM, KICK };

struct said {
	uint8_t version, what, yes, zero;
	uint32_t bytes;
	struct nonce nonce;
};

struct two {
	struct sim *s;
	struct sim_node *low, *high; /* low offers, high asks */
};

static struct two open_two(const struct sim_conf *conf)
{
	struct sim_conf c = { .pipe_only = true };
	struct two t;

	if (conf)
		c = *conf;
	c.same_host = true;
	t.s = sim_open(&c);
	t.low = &t.s->node[t.s->node[0].core.slot > t.s->node[1].core.slot];
	t.high = &t.s->node[t.low == t.s->node];
	return t;
}

static struct peer *seen_by(const struct sim_node *n, const struct sim_node *other)
{
	return peers_of(&n->core)->by_slot[other->core.slot];
}

static struct peer *handshake(struct sim_node *n, const struct sim_node *other)
{
	struct peer *p;

	turn_take(&n->core.turn);
	p = peers_peer(peers_of(&n->core), other->core.slot);
	turn_give(&n->core.turn);
	return p;
}

/* Connects the two hosts, so that descriptors are accepted. */
static void acquaint(struct two *t)
{
	turn_take(&t->low->core.turn);
	assert_int_equal(host_connect(peers_of(&t->low->core)->host, t->high->core.slot),
			 0);
	turn_give(&t->low->core.turn);
	sim_run(t->s, 1000);
}

/* Node `to` receives this message from node `from`. */
static void say(struct sim_node *to, const struct sim_node *from, const struct said *m,
		size_t len, int fd0, int fd1)
{
	struct host_said s = {
		.slot = from->core.slot,
		.uid = geteuid(),
		.pid = getpid(),
		.buf = m,
		.len = len,
		.fd = { fd0, fd1 },
	};

	turn_take(&to->core.turn);
	peers_said(peers_of(&to->core), &s);
	turn_give(&to->core.turn);
}

static void hear(struct sim_node *to, const struct sim_node *from, uint8_t what,
		 uint8_t version, uint8_t yes)
{
	const struct said m = {
		.version = version,
		.what = what,
		.yes = yes,
		.bytes = sizeof(struct pipe_shared),
	};

	say(to, from, &m, sizeof(m), -1, -1);
}

static void must_be(const struct two *t, int low, int high)
{
	const struct peer *l = seen_by(t->low, t->high), *h = seen_by(t->high, t->low);

	assert_int_equal(l ? (int)l->state : -1, low);
	assert_int_equal(h ? (int)h->state : -1, high);
}

/* --- agreeing ------------------------------------------------------------ */

static void whoever_begins_both_agree(void **state)
{
	(void)state;
	for (int who = 1; who < 4; who++) {
		struct two t = open_two(NULL);

		if (who & 1)
			assert_non_null(handshake(t.low, t.high));
		if (who & 2)
			assert_non_null(handshake(t.high, t.low));
		assert_true(sim_run(t.s, SEC));
		must_be(&t, PEER_UP, PEER_UP);
		assert_int_equal(seen_by(t.low, t.high)->fd, -1);
		sim_close(t.s);
	}
}

static void who_is_off_is_off_for_both(void **state)
{
	(void)state;
	for (int i = 0; i < 12; i++) {
		struct sim_conf c = { .off = { i % 3 != 1, i % 3 != 0 } };
		struct two t = open_two(&c);
		struct sim_node *n = i / 6 ? t.low : t.high;
		struct sim_node *other = i / 6 ? t.high : t.low;

		for (int again = 0; again < 2; again++) {
			handshake(n, other);
			if (i / 3 % 2)
				handshake(other, n);
			assert_true(sim_run(t.s, SEC));
			assert_null(handshake(n, other));
		}
		sim_close(t.s);
	}
}

/* QPs wait until the handshake is over, and then use the pipe or the wire. */
static void qps_wait_and_are_sent_away(void **state)
{
	(void)state;
	for (int off = 0; off < 2; off++) {
		const struct sim_conf c = { .same_host = true,
					    .off = { off == 0, off == 1 } };
		const struct ibv_qp_cap cap = { .max_send_wr = 4 };
		struct sim *s = sim_open(&c);
		struct sim_node *n = &s->node[!off];
		struct cq *cq = sim_cq(s, !off, 10);
		struct qp *qp = sim_qp(s, !off, IBV_QPT_RC, cq, cq, NULL, &cap);

		lock_take(&qp->lock);
		assert_int_equal(qp_change_transport(qp, &shm_transport), 0);
		shm_connect(qp, handshake(n, &s->node[off]));
		lock_give(&qp->lock);
		assert_int_equal(n->refused, 0);
		assert_true(sim_run(s, SEC));
		assert_int_equal(n->refused, 1);
		sim_destroy(s, qp);
		assert_int_equal(cq_destroy(cq), 0);
		sim_close(s);
	}
}

static void nobody_lives_there(void **state)
{
	struct two t = open_two(NULL);
	uint16_t nobody = t.low->core.slot == 1 ? 1022 : 1;
	struct peers *l = peers_of(&t.high->core);
	char text[1024], want[200];

	(void)state;
	while (nobody == t.low->core.slot || nobody == t.high->core.slot)
		nobody++;
	snprintf(want, sizeof(want),
		 "info: slot %u: messages go through UDP: no process of this host has "
		 "that slot (any more)\n",
		 nobody);
	LOGGED(text, "info", assert_null(peers_peer(l, nobody)));
	assert_non_null(strstr(text, want));
	assert_null(l->by_slot[nobody]);
	assert_null(peers_peer(l, 0));
	assert_null(peers_peer(l, SLOT_LAST + 1));
	sim_close(t.s);
}

/* The process ended during the handshake. */
static void a_connection_that_ends_is_a_refusal(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct two t = open_two(NULL);
		struct sim_node *n = i ? t.low : t.high;
		struct sim_node *other = i ? t.high : t.low;

		other->stopped = true;
		handshake(n, other);
		assert_int_equal(seen_by(n, other)->state, PEER_OPENING);
		sim_leave(t.s, other->side);
		assert_true(sim_run(t.s, SEC));
		assert_null(seen_by(n, other));
		sim_close(t.s);
	}
}

/* A process that is stopped during the handshake is as silent as one on a wire. */
static void who_never_answers_is_silent(void **state)
{
	const uint64_t timeout = 4096ull << 10;
	const struct sim_conf c = {
		.same_host = true,
		.pipe_only = true,
		.timeout = 10,
		.retry_cnt = 3,
	};

	(void)state;
	for (int in_time = 0; in_time < 2; in_time++) {
		struct fix *f = fix_open(IBV_QPT_RC, &c);
		uint64_t since = f->s->now;

		pair_stop(f, 1);
		assert_int_equal(pair_peer(f, 0)->state, PEER_OPENING);
		fix_recv(f, 8, 5000, 100);
		fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
		pair_run(f, 3 * timeout);
		fix_no_wc(f, 0);
		if (in_time)
			pair_go(f, 1);
		fix_wc(f, 0, 1, in_time ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR);
		if (in_time)
			fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		else
			assert_in_range(f->s->now - since, 4 * timeout,
					4 * timeout + 1000);
		fix_close(f);
	}
}

/* A is stopped before it has answered B's offer: nothing of its QP has left. */
static void who_was_stopped_has_not_been_silent(void **state)
{
	const struct sim_conf c = { .pipe_only = true, .timeout = 10 };
	const struct ibv_qp_cap cap = { .max_send_wr = 1, .max_recv_wr = 1 };
	bool done[2] = { false, false };

	(void)state;
	while (!done[0] || !done[1]) { /* who offers is drawn */
		struct two t = open_two(&c);
		struct sim *s = t.s;
		struct qp *qp[2];
		struct cq *cq[2];
		struct ibv_wc wc;

		for (int i = 0; i < 2; i++) {
			cq[i] = sim_cq(s, i, 4);
			qp[i] = sim_qp(s, i, IBV_QPT_RC, cq[i], cq[i], NULL, &cap);
		}
		s->node[1].stopped = true;
		sim_bring(s, qp[0], qp[1], &c);
		qp[0]->attr.retry_cnt = shm_qp(qp[0])->src.s.retry_left = 0;
		sim_send(qp[0], &(struct ibv_send_wr){ .opcode = IBV_WR_SEND,
						       .send_flags = IBV_SEND_SIGNALED });
		sim_run(s, 1000);
		s->node[0].stopped = true;
		s->node[1].stopped = false;
		sim_bring(s, qp[1], qp[0], &c);
		sim_recv(qp[1], 8, NULL, 0);
		sim_run(s, SEC);
		assert_int_equal(seen_by(&s->node[0], &s->node[1])->state, PEER_OPENING);
		s->node[0].stopped = false;
		for (int i = 0; i < 2; i++) {
			assert_true(sim_wait(s, cq[i], SEC, &wc));
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
		}
		for (int i = 0; i < 2; i++) {
			sim_destroy(s, qp[i]);
			assert_int_equal(cq_destroy(cq[i]), 0);
		}
		done[t.low == s->node] = true;
		sim_close(s);
	}
}

/* A line of the log about an error names the process at the other end. */
static void the_other_process_is_named(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	char want[PEER_TEXT], text[PEER_TEXT];
	struct qp *qp = f->p.qp[0];

	(void)state;
	snprintf(want, sizeof(want), "QP 0x%06x at 10.0.0.2, process %d, PSN 0",
		 f->p.qp[1]->qpn, (int)getpid());
	qp->transport->peer(qp, text, sizeof(text));
	assert_string_equal(text, want);
	fix_close(f);
}

/* --- messages out of place ----------------------------------------------- */

static void what_nobody_waits_for_changes_nothing(void **state)
{
	struct two t = open_two(NULL);
	uint8_t what = 0;

	(void)state;
	do {
		if (what != ASK && what != OFFER) {
			hear(t.low, t.high, what, PIPE_VERSION, 1);
			hear(t.high, t.low, what, PIPE_VERSION, 1);
		}
	} while (++what);
	hear(t.low, t.high, OFFER, PIPE_VERSION, 1); /* low must offer, not high */
	hear(t.high, t.low, ASK, PIPE_VERSION, 1);
	assert_true(sim_run(t.s, SEC));
	must_be(&t, -1, -1);
	for (size_t len = 0; len < sizeof(struct said); len++)
		say(t.low, t.high, &(struct said){ .version = PIPE_VERSION, .what = ASK },
		    len, -1, -1);
	say(t.low, t.low, &(struct said){ .version = PIPE_VERSION, .what = ASK },
	    sizeof(struct said), -1, -1);
	must_be(&t, -1, -1);
	sim_close(t.s);
}

static void answer_and_confirm_before_their_time(void **state)
{
	struct two t = open_two(NULL);

	(void)state;
	t.low->stopped = true;
	handshake(t.high, t.low);
	hear(t.high, t.low, CONFIRM, PIPE_VERSION, 1); /* nothing was offered */
	hear(t.high, t.low, ANSWER, PIPE_VERSION, 1);
	hear(t.high, t.low, KICK, PIPE_VERSION, 1);
	assert_int_equal(seen_by(t.high, t.low)->state, PEER_OPENING);
	t.low->stopped = false;
	assert_true(sim_run(t.s, SEC));
	must_be(&t, PEER_UP, PEER_UP);
	sim_close(t.s);
}

static void twice_is_once(void **state)
{
	struct two t = open_two(NULL);
	struct pipe_shared *pipe[2];
	int fd = memfd_create("twice", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(ftruncate(fd, sizeof(struct pipe_shared)), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS,
			       F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
			 0);
	handshake(t.high, t.low);
	assert_true(sim_run(t.s, SEC));
	pipe[0] = seen_by(t.low, t.high)->pipe;
	pipe[1] = seen_by(t.high, t.low)->pipe;
	for (int yes = 0; yes < 2; yes++) {
		const struct said m = {
			PIPE_VERSION, OFFER, (uint8_t)yes, 0, sizeof(struct pipe_shared),
			{ 0 }
		};

		hear(t.low, t.high, ASK, PIPE_VERSION, (uint8_t)yes);
		hear(t.low, t.high, ANSWER, PIPE_VERSION, (uint8_t)yes);
		hear(t.high, t.low, CONFIRM, PIPE_VERSION, (uint8_t)yes);
		say(t.high, t.low, &m, sizeof(m), fd, -1);
		assert_true(sim_run(t.s, SEC));
		must_be(&t, PEER_UP, PEER_UP);
	}
	assert_ptr_equal(seen_by(t.low, t.high)->pipe, pipe[0]);
	assert_ptr_equal(seen_by(t.high, t.low)->pipe, pipe[1]);
	close(fd);
	sim_close(t.s);
}

/* An offer that waits for its confirmation is not replaced by another. */
static void a_second_offer_is_not_taken(void **state)
{
	struct two t = open_two(NULL);
	struct pipe_shared *pipe;

	(void)state;
	acquaint(&t);
	handshake(t.low, t.high);
	t.low->stopped = true;
	sim_run(t.s, 1000);
	pipe = seen_by(t.high, t.low)->pipe;
	assert_non_null(pipe);
	hear(t.high, t.low, OFFER, PIPE_VERSION, 1);
	must_be(&t, PEER_OPENING, PEER_OPENING);
	assert_ptr_equal(seen_by(t.high, t.low)->pipe, pipe);
	t.low->stopped = false;
	assert_true(sim_run(t.s, SEC));
	must_be(&t, PEER_UP, PEER_UP);
	sim_close(t.s);
}

/* --- refusals ------------------------------------------------------------ */

static void another_version_is_refused(void **state)
{
	(void)state;
	for (int what = ASK; what <= CONFIRM; what++) {
		struct two t = open_two(NULL);
		bool to_low = what == ASK || what == ANSWER;
		struct sim_node *to = to_low ? t.low : t.high;
		struct sim_node *from = to_low ? t.high : t.low;

		if (what == CONFIRM)
			acquaint(&t);
		if (what == ANSWER || what == CONFIRM)
			handshake(t.low, t.high);
		if (what == ANSWER)
			t.high->stopped = true;
		if (what == CONFIRM) {
			t.low->stopped = true;
			sim_run(t.s, 1000);
		}
		hear(to, from, (uint8_t)what, PIPE_VERSION + 1, 1);
		assert_int_equal(seen_by(to, from)->state, PEER_REFUSED);
		assert_null(handshake(to, from));
		t.low->stopped = t.high->stopped = false;
		assert_true(sim_run(t.s, SEC));
		assert_int_equal(seen_by(to, from)->state, PEER_REFUSED);
		if (what == ANSWER) /* its real answer was yes */
			must_be(&t, PEER_REFUSED, PEER_REFUSED);
		sim_close(t.s);
	}
}

enum memory {
	NO_FD,
	A_PIPE,
	UNSEALED,
	GROWS,
	SHORT,
	LONG,
	READ_ONLY,
	A_FILE,
	OTHER_SIZE,
	MEMORIES
};

static int bad_memory(enum memory how)
{
	const int seals[MEMORIES] = {
		[UNSEALED] = 0,
		[GROWS] = F_SEAL_SHRINK,
		[READ_ONLY] = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL,
	};
	off_t size = (off_t)sizeof(struct pipe_shared);
	int fd, both[2];
	FILE *file;

	switch (how) {
	case NO_FD:
		return -1;
	case A_PIPE:
		assert_int_equal(pipe(both), 0);
		close(both[0]);
		return both[1];
	case A_FILE: /* it can be truncated */
		file = tmpfile();
		assert_non_null(file);
		fd = dup(fileno(file));
		fclose(file);
		assert_int_equal(ftruncate(fd, size), 0);
		return fd;
	case UNSEALED:
	case GROWS:
	case SHORT:
	case LONG:
	case READ_ONLY:
	case OTHER_SIZE:
	case MEMORIES:
		break;
	}
	fd = memfd_create("bad", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, size + (how == LONG) - (how == SHORT)), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS,
			       seals[how] ? seals[how]
			       : how == UNSEALED
				       ? 0
				       : F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL),
			 0);
	return fd;
}

static void memory_that_is_not_safe_is_refused(void **state)
{
	(void)state;
	for (int how = 0; how < MEMORIES; how++) {
		struct two t = open_two(NULL);
		int fd = bad_memory((enum memory)how);
		const struct said m = {
			PIPE_VERSION,
			OFFER,
			1,
			0,
			(uint32_t)sizeof(struct pipe_shared) + (how == OTHER_SIZE),
			{ 0 }
		};

		say(t.high, t.low, &m, sizeof(m), fd, -1);
		if (seen_by(t.high, t.low)->state != PEER_REFUSED)
			print_error("memory %d\n", how);
		assert_int_equal(seen_by(t.high, t.low)->state, PEER_REFUSED);
		assert_null(seen_by(t.high, t.low)->pipe);
		if (fd >= 0)
			assert_int_equal(close(fd), 0); /* it was not taken over */
		assert_true(sim_run(t.s, SEC));
		sim_close(t.s);
	}
}

/* A process that was told no does not believe that it has a pipe. */
static void an_answer_to_nothing_is_not_confirmed(void **state)
{
	const struct sim_conf c = { .off = { true, true } };
	struct two t = open_two(&c);

	(void)state;
	hear(t.low, t.high, ASK, PIPE_VERSION, 1);
	must_be(&t, PEER_REFUSED, -1);
	hear(t.low, t.high, ANSWER, PIPE_VERSION, 1);
	must_be(&t, PEER_REFUSED, -1);
	assert_true(sim_run(t.s, SEC));
	must_be(&t, PEER_REFUSED, PEER_REFUSED);
	sim_close(t.s);
}

/* --- memory that is copied directly -------------------------------------- */

static void an_export_table_that_is_not_one_is_not_used(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		const struct sim_conf c = { .pipe_only = false };
		struct two t = open_two(&c);
		uint64_t mine[2] = { 1, 2 }, theirs[2] = { 3, 4 };
		struct nonce good = { (uintptr_t)theirs, { 3, 4 } };
		struct said m = { PIPE_VERSION, OFFER, 1, 0, sizeof(struct pipe_shared),
				  good };
		int pipe_fd = memfd_create("pipe", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		int exports_fd = memfd_create("exports", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		FILE *file = tmpfile();

		assert_int_equal(ftruncate(pipe_fd, sizeof(struct pipe_shared)), 0);
		fcntl(pipe_fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
		assert_int_equal(ftruncate(exports_fd, sizeof(struct exports) - (i == 1)),
				 0);
		assert_int_equal(ftruncate(fileno(file), sizeof(struct exports)), 0);
		if (i != 2)
			fcntl(exports_fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK);
		if (i == 3)
			m.nonce.at = (uintptr_t)mine; /* it holds another value */
		if (i == 4)
			m.nonce.at = 8; /* nothing is there */
		say(t.high, t.low, &m, sizeof(m), pipe_fd,
		    i == 5 ? fileno(file) : exports_fd);
		if (seen_by(t.high, t.low)->reach.vm != (i == 0))
			print_error("export table %d\n", i);
		assert_int_equal(seen_by(t.high, t.low)->reach.vm, i == 0);
		fclose(file);
		close(pipe_fd);
		close(exports_fd);
		sim_close(t.s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whoever_begins_both_agree),
		cmocka_unit_test(who_is_off_is_off_for_both),
		cmocka_unit_test(qps_wait_and_are_sent_away),
		cmocka_unit_test(nobody_lives_there),
		cmocka_unit_test(a_connection_that_ends_is_a_refusal),
		cmocka_unit_test(who_never_answers_is_silent),
		cmocka_unit_test(who_was_stopped_has_not_been_silent),
		cmocka_unit_test(the_other_process_is_named),
		cmocka_unit_test(what_nobody_waits_for_changes_nothing),
		cmocka_unit_test(answer_and_confirm_before_their_time),
		cmocka_unit_test(twice_is_once),
		cmocka_unit_test(a_second_offer_is_not_taken),
		cmocka_unit_test(another_version_is_refused),
		cmocka_unit_test(memory_that_is_not_safe_is_refused),
		cmocka_unit_test(an_answer_to_nothing_is_not_confirmed),
		cmocka_unit_test(an_export_table_that_is_not_one_is_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
