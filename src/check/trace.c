/* SPDX-License-Identifier: BSD-2-Clause */
/* trace.c - see trace.h.  Traces are never freed: there are at most TRACES. */
#include "check/trace.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unwind.h>

#include "check/symbol.h"

enum {
	TRACES = 8192,
	SHORT_TRACES = 256, /* of them: kept for traces of one frame */
	PLACES = 4 * TRACES,
	PROBES = 32,
	RAW = TRACE_DEPTH + 16,
};

struct trace {
	check_trace next; /* in its chain */
	unsigned n;
	bool inner, verb; /* verb: the first frame is the verb that was called */
	void *frame[TRACE_DEPTH];
};

static struct trace traces[TRACES]; /* untouched pages cost nothing */
static struct lock traces_lock;
static uint32_t count GUARDED_BY(traces_lock) = 1;
static check_trace chain[1024] GUARDED_BY(traces_lock); /* by hash of the frames */

/* By hash of return and frame address; written once, trace last.  A function has the same
 * frame each time that it is at the same return address, so its own return address is
 * where it was (up[0]), and so on: what is there now says who has called.
 *
 * Of one thread, and on the stack that it began with (not a fiber's, nor a handler's
 * own): all between this frame and the end of that is there as long as the thread. */
static struct place {
	const void *_Atomic ret;
	const void *frame, *thread; /* thread: its thread_mark */
	unsigned n;		    /* of up */
	/* The return addresses of frames 1, 2, ...: where they are, and what they are */
	struct {
		const void *const *at;
		const void *is;
	} up[TRACE_DEPTH];
	_Atomic check_trace trace;
} places[PLACES];

static __thread char thread_mark __attribute__((tls_model("initial-exec")));

/* libgcc's, as glibc's backtrace() uses them; NULL: a trace has one frame. */
static struct {
	_Unwind_Reason_Code (*walk)(_Unwind_Trace_Fn fn, void *arg);
	_Unwind_Ptr (*ip)(struct _Unwind_Context *c);
	_Unwind_Word (*cfa)(struct _Unwind_Context *c);
} unwinder;

/* The frames of a thread, from the function that walks on. */
struct walk {
	int n;
	void *frame[RAW];	    /* return addresses */
	const void *const *at[RAW]; /* where they are; NULL: not known */
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *c, void *arg)
{
	struct walk *w = arg;
	void *ip = (void *)unwinder.ip(c); /* NOLINT(performance-no-int-to-ptr) */
	/* On x86 a call leaves it below the frame that goes on afterwards. */
	void *const *at = (void *const *)unwinder.cfa(c) - 1; /* NOLINT */

	if (!ip || w->n == RAW)
		return _URC_END_OF_STACK;
	w->frame[w->n] = ip;
	w->at[w->n] = w->n && *at == ip ? (const void *const *)at : NULL;
	w->n++;
	return _URC_NO_REASON;
}

static void walk_stack(struct walk *w)
{
	w->n = 0;
	if (unwinder.walk)
		unwinder.walk(add_frame, w);
	if (!w->n)
		w->frame[w->n++] = __builtin_return_address(0);
}

/* Is the address in a library of ours that the program calls?  *cm: in librdmacm. */
static bool is_ours(const void *address, bool *cm)
{
	struct symbol s;

	*cm = false;
	if (!symbol_object(address, &s))
		return false;
	*cm = strncmp(s.object, "librdmacm.so", 12) == 0;
	return strncmp(s.object, "liburnic", 8) == 0 ||
	       strncmp(s.object, "libibverbs.so", 13) == 0;
}

static bool is_verb(const void *address)
{
	struct symbol s;

	return symbol_object(address, &s) && strncmp(s.object, "libibverbs.so", 13) == 0;
}

static bool calls_for_itself(const struct trace *t)
{
	bool cm;

	for (unsigned i = 0; i < t->n; i++)
		if (!is_ours(t->frame[i], &cm))
			return cm;
	return false;
}

/* Returns the trace with these frames, old or new; where there is no more room, with the
 * first frame alone; 0 where there is no room for that, either. */
static check_trace keep_held(void *const *frame, unsigned n) REQUIRES(traces_lock)
{
	uintptr_t hash = 0;
	check_trace *head, at;
	struct trace *t;

	for (unsigned i = 0; i < n; i++)
		hash = (hash ^ (uintptr_t)frame[i]) * 0x9e3779b97f4a7c15u;
	head = &chain[hash >> 54];
	for (at = *head; at; at = traces[at].next)
		if (traces[at].n == n &&
		    !memcmp(traces[at].frame, frame, n * sizeof(*frame)))
			return at;
	if (n > 1 && count >= TRACES - SHORT_TRACES)
		return keep_held(frame, 1);
	if (count >= TRACES)
		return 0;
	at = count++;
	t = &traces[at];
	t->n = n;
	memcpy(t->frame, frame, n * sizeof(*frame));
	t->inner = calls_for_itself(t);
	t->verb = is_verb(frame[0]);
	t->next = *head;
	*head = at;
	return at;
}

static check_trace keep_frames(void *const *frame, int n)
{
	check_trace t;

	if (n <= 0)
		return 0;
	lock_take(&traces_lock);
	t = keep_held(frame, n > TRACE_DEPTH ? TRACE_DEPTH : (unsigned)n);
	lock_give(&traces_lock);
	return t;
}

void trace_start(void)
{
	void *lib = dlopen("libgcc_s.so.1", RTLD_NOW);
	struct walk w;

	if (lib) {
		*(void **)&unwinder.ip = dlsym(lib, "_Unwind_GetIP");
		*(void **)&unwinder.cfa = dlsym(lib, "_Unwind_GetCFA");
		*(void **)&unwinder.walk = dlsym(lib, "_Unwind_Backtrace");
	}
	if (!unwinder.ip || !unwinder.cfa)
		unwinder.walk = NULL;
	walk_stack(&w);
}

/* *first: of the frames that the trace has; -1: ret is not among them. */
static check_trace unwind_from(const void *ret, struct walk *w, int *first)
{
	void *alone = (void *)(uintptr_t)ret;

	walk_stack(w);
	for (*first = 0; *first < w->n; ++*first)
		if (w->frame[*first] == ret)
			return keep_frames(w->frame + *first, w->n - *first);
	*first = -1;
	return keep_frames(&alone, 1);
}

/* Are those who have called the same now? */
static inline bool is_called_so(const struct place *p)
{
	for (unsigned i = 0; i < p->n; i++)
		if (*p->up[i].at != p->up[i].is)
			return false;
	return true;
}

static inline bool is_place(const struct place *p, const void *ret, const void *frame)
{
	return p->ret == ret && p->frame == frame && p->thread == &thread_mark &&
	       is_called_so(p);
}

static bool is_libc(const void *address)
{
	struct symbol s;

	return symbol_object(address, &s) && (strncmp(s.object, "libc.so", 7) == 0 ||
					      strncmp(s.object, "ld-musl-", 8) == 0);
}

/* Is the frame on the stack that this thread began with? */
static bool is_on_own_stack(const void *frame)
{
	static __thread struct {
		uintptr_t lo, hi;
	} own __attribute__((tls_model("initial-exec")));
	pthread_attr_t a;
	void *lo;
	size_t size;

	if (!own.hi && !pthread_getattr_np(pthread_self(), &a)) {
		if (!pthread_attr_getstack(&a, &lo, &size)) {
			own.lo = (uintptr_t)lo;
			own.hi = own.lo + size;
		}
		pthread_attr_destroy(&a);
	}
	return (uintptr_t)frame >= own.lo && (uintptr_t)frame < own.hi;
}

/* Unwinds for a place that is this thread's to fill. What is libc's is above main(), or a
 * function that it calls back. */
static check_trace fill_place(struct place *p, const void *ret, const void *frame)
{
	struct walk w;
	int first;
	const check_trace t = unwind_from(ret, &w, &first);

	p->frame = frame;
	p->thread = &thread_mark;
	if (!is_on_own_stack(frame))
		first = -1;
	for (int i = first + 1; first >= 0 && i < w.n && p->n < TRACE_DEPTH; i++) {
		if (!w.at[i] || is_libc(w.frame[i]))
			break;
		p->up[p->n].at = w.at[i];
		p->up[p->n++].is = w.frame[i];
	}
	atomic_store_explicit(&p->trace, t, memory_order_release);
	return t;
}

/* i: the first place that may be it */
__attribute__((noinline)) static check_trace trace_of_many(const void *ret,
							   const void *frame, size_t i)
{
	const void *none = NULL;
	struct walk w;
	int first;

	for (unsigned n = 0; n < PROBES; n++, i++, none = NULL) {
		struct place *p = &places[i % PLACES];
		const check_trace t =
			atomic_load_explicit(&p->trace, memory_order_acquire);

		if (t && is_place(p, ret, frame))
			return t;
		if (!t && atomic_compare_exchange_strong(&p->ret, &none, ret))
			return fill_place(p, ret, frame);
	}
	return unwind_from(ret, &w, &first);
}

check_trace trace_of(const void *ret, const void *frame)
{
	const uintptr_t mix = (uintptr_t)ret * 0x9e3779b97f4a7c15u ^
			      (uintptr_t)frame * 0xc2b2ae3d27d4eb4fu;
	const size_t i = (mix >> 40) % PLACES;
	const check_trace t =
		atomic_load_explicit(&places[i].trace, memory_order_acquire);

	return t && is_place(&places[i], ret, frame) ? t : trace_of_many(ret, frame, i);
}

check_trace trace_now(void)
{
	struct walk w;
	int first = 0;
	bool cm;

	walk_stack(&w);
	while (first < w.n && is_ours(w.frame[first], &cm))
		first++;
	/* An exported verb says what was called. */
	if (first && first < w.n && is_verb(w.frame[first - 1]))
		first--;
	return keep_frames(w.frame + first, w.n - first);
}

check_trace trace_at(const void *pc)
{
	struct walk w;
	int first = 0;

	walk_stack(&w);
	while (first < w.n && w.frame[first] != pc)
		first++;
	if (first == w.n) {
		w.n = 1;
		first = 0;
	}
	/* As an address to return to, which frames are. */
	w.frame[first] = (void *)((uintptr_t)pc + 1);
	while (first + 1 < w.n && is_libc(w.frame[first]))
		first++;
	return keep_frames(w.frame + first, w.n - first);
}

const void *trace_place(check_trace t)
{
	return t ? traces[t].frame[traces[t].verb && traces[t].n > 1] : NULL;
}

bool trace_is_inner(check_trace t)
{
	return t && traces[t].inner;
}

/* An address to return to is after the call, which may be another function's start. */
static bool find_frame(check_trace t, unsigned i, struct symbol *s)
{
	return symbol_find((const char *)traces[t].frame[i] - 1, s);
}

void trace_show(check_trace t, void (*line)(const char *text, void *arg), void *arg)
{
	struct symbol s;
	char text[2 * SYMBOL_NAME + 64];

	for (unsigned i = 0; t && i < traces[t].n; i++) {
		if (!find_frame(t, i, &s)) {
			snprintf(text, sizeof(text), "%p", traces[t].frame[i]);
		} else if (!s.function[0]) {
			snprintf(text, sizeof(text), "(%s+0x%" PRIx64 ")", s.object,
				 s.address);
		} else {
			if (strncmp(s.function, "__libc_start", 12) == 0)
				return;
			snprintf(text, sizeof(text), "%s (%s+0x%" PRIx64 ")", s.function,
				 s.object, s.address);
		}
		line(text, arg);
		if (strcmp(s.function, "main") == 0)
			return;
	}
}

bool trace_matches(check_trace t, bool (*fits)(const char *name, void *arg), void *arg)
{
	struct symbol s;

	for (unsigned i = 0; t && i < traces[t].n; i++)
		if (find_frame(t, i, &s) &&
		    (fits(s.function, arg) || fits(s.object, arg)))
			return true;
	return false;
}
