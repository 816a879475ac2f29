/* SPDX-License-Identifier: BSD-2-Clause */
/* upset_spec.c - the language of faults of verbs; see upset.h. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "driver/upset.h"
#include "net/fault_spec.h"
#include "sys/near.h"
#include "sys/upset.h"

struct word {
	const char *name;
	int value;
};

#define ERRNO(e)                                                                         \
	{                                                                                \
#e, e                                                                    \
	}
#define STATUS(s)                                                                        \
	{                                                                                \
#s, IBV_WC_##s                                                           \
	}
#define EVENT(e)                                                                         \
	{                                                                                \
#e, IBV_EVENT_##e                                                        \
	}

static const struct word calls[] = {
	{ "alloc_pd", UPSET_ALLOC_PD },	    { "reg_mr", UPSET_REG_MR },
	{ "create_cq", UPSET_CREATE_CQ },   { "create_qp", UPSET_CREATE_QP },
	{ "create_srq", UPSET_CREATE_SRQ }, { "post_send", UPSET_POST_SEND },
	{ "post_recv", UPSET_POST_RECV },   { NULL, 0 },
};
static const struct word errnos[] = {
	ERRNO(ENOMEM), ERRNO(EINVAL), ERRNO(EAGAIN), ERRNO(EBUSY),
	ERRNO(EPERM),  ERRNO(EIO),    ERRNO(ENOSPC), ERRNO(EMFILE),
	ERRNO(EFAULT), ERRNO(EACCES), ERRNO(ENODEV), { NULL, 0 },
};
static const struct word statuses[] = {
	STATUS(LOC_LEN_ERR),
	STATUS(LOC_QP_OP_ERR),
	STATUS(LOC_PROT_ERR),
	STATUS(WR_FLUSH_ERR),
	STATUS(MW_BIND_ERR),
	STATUS(BAD_RESP_ERR),
	STATUS(LOC_ACCESS_ERR),
	STATUS(REM_INV_REQ_ERR),
	STATUS(REM_ACCESS_ERR),
	STATUS(REM_OP_ERR),
	STATUS(RETRY_EXC_ERR),
	STATUS(RNR_RETRY_EXC_ERR),
	STATUS(REM_ABORT_ERR),
	STATUS(FATAL_ERR),
	STATUS(RESP_TIMEOUT_ERR),
	STATUS(GENERAL_ERR),
	{ NULL, 0 },
};
static const struct word events[] = {
	EVENT(PORT_ERR),	  EVENT(PORT_ACTIVE),	EVENT(LID_CHANGE),
	EVENT(PKEY_CHANGE),	  EVENT(SM_CHANGE),	EVENT(GID_CHANGE),
	EVENT(CLIENT_REREGISTER), EVENT(DEVICE_FATAL),	EVENT(QP_FATAL),
	EVENT(QP_REQ_ERR),	  EVENT(QP_ACCESS_ERR), EVENT(COMM_EST),
	EVENT(PATH_MIG),	  { NULL, 0 },
};
static const struct word ports[] = { { "down", 0 }, { "up", 1 }, { NULL, 0 } };

static const struct word
	*in_table; /* of near_find()'s callback; parsing has one thread */

static const char *nth_name(unsigned i)
{
	return in_table[i].name;
}

/* --- words ------------------------------------------------------------------------- */

enum { WORD = 40 };

struct text {
	const char *at;
	char *err;
	size_t errlen;
};

__attribute__((format(printf, 2, 3))) static bool complain(const struct text *t,
							   const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->err, t->errlen, fmt, ap);
	va_end(ap);
	return false;
}

/* Takes what stands before the next colon. */
static bool take_word(struct text *t, char word[WORD])
{
	size_t n = strcspn(t->at, ":");

	if (!n || n >= WORD)
		return false;
	snprintf(word, WORD, "%.*s", (int)n, t->at);
	t->at += n + (t->at[n] == ':');
	return true;
}

static bool find_word(const struct text *t, const struct word *table, const char *what,
		      const char *word, int *value)
{
	char near[NEAR_HINT];

	for (const struct word *w = table; w->name; w++) {
		if (strcasecmp(w->name, word) == 0) {
			*value = w->value;
			return true;
		}
	}
	in_table = table;
	near_hint(near, word, nth_name);
	return complain(t, "no %s is called %s%s", what, word, near);
}

/* N or N+, from 1. */
static bool take_count(struct text *t, struct upset_rule *r)
{
	char word[WORD] = "", *end = word;

	if (take_word(t, word) && *word >= '0' && *word <= '9')
		r->n = strtoull(word, &end, 10);
	r->onwards = *end == '+';
	return r->n && !end[r->onwards]
		       ? true
		       : complain(t, "a count from 1 is wanted, such as 3, or 3+ for the "
				     "third and all that follow");
}

static bool take_qp(struct text *t, struct upset_rule *r)
{
	char word[WORD], *end;
	unsigned long n;

	if (!*t->at)
		return true;
	if (!take_word(t, word))
		return complain(t, "a QP's number is wanted");
	n = strtoul(word, &end, 0);
	r->qpn = (uint32_t)n;
	return *word >= '0' && *word <= '9' && !*end && n && n <= 0xffffff
		       ? true
		       : complain(t, "'%s' is no QP's number", word);
}

static bool take_fail(struct text *t, struct upset_rule *r)
{
	char word[WORD];
	int call = 0;

	if (!take_word(t, word))
		return complain(t, "CALL:N or CALL:N:ERRNO is wanted");
	if (!find_word(t, calls, "call that can fail", word, &call) || !take_count(t, r))
		return false;
	r->call = (unsigned)call;
	r->code = ENOMEM;
	return !*t->at ||
	       (take_word(t, word) && find_word(t, errnos, "errno", word, &r->code));
}

static bool take_wc(struct text *t, struct upset_rule *r)
{
	char word[WORD];

	if (!take_count(t, r))
		return false;
	if (!take_word(t, word))
		return complain(t, "N:STATUS is wanted");
	return find_word(t, statuses, "status",
			 strncasecmp(word, "IBV_WC_", 7) ? word : word + 7, &r->code) &&
	       take_qp(t, r);
}

static bool is_of_qp(int event)
{
	return event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR ||
	       event == IBV_EVENT_QP_ACCESS_ERR || event == IBV_EVENT_COMM_EST ||
	       event == IBV_EVENT_PATH_MIG;
}

static bool take_async(struct text *t, struct upset_rule *r)
{
	char word[WORD];

	if (!take_word(t, word))
		return complain(t, "an event is wanted");
	if (!find_word(t, events, "event",
		       strncasecmp(word, "IBV_EVENT_", 10) ? word : word + 10,
		       &r->code) ||
	    !take_qp(t, r))
		return false;
	if (is_of_qp(r->code) != (r->qpn != 0))
		return complain(t, "%s is %s", word,
				r->qpn ? "no QP's event" : "a QP's event: of which?");
	return true;
}

static bool take_port(struct text *t, struct upset_rule *r)
{
	char word[WORD];

	return take_word(t, word) ? find_word(t, ports, "state of a port", word, &r->code)
				  : complain(t, "down or up is wanted");
}

static const struct row {
	struct upset_key key;
	bool (*take)(struct text *t, struct upset_rule *r);
	enum upset_kind kind;
} rows[] = {
	{ { "fail", "CALL:N[+][:ERRNO]",
	    "the N-th call of alloc_pd, reg_mr, create_cq, create_qp, create_srq, "
	    "post_send or post_recv fails, with ENOMEM unless given; with + all from then "
	    "on" },
	  take_fail,
	  UPSET_FAIL },
	{ { "wc", "N[+]:STATUS[:QP]",
	    "the N-th completion without an error that ibv_poll_cq gives has that status, "
	    "such as retry_exc_err, and its QP fails" },
	  take_wc,
	  UPSET_WC },
	{ { "async", "EVENT[:QP]",
	    "the event comes now: port_err, gid_change, device_fatal, qp_fatal ..." },
	  take_async,
	  UPSET_ASYNC },
	{ { "port", "down|up", "what ports say of themselves, and the event" },
	  take_port,
	  UPSET_PORT },
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

const struct upset_key *upset_key(unsigned i)
{
	return i < ROWS ? &rows[i].key : NULL;
}

static const char *key_name(unsigned i)
{
	return upset_key(i) ? upset_key(i)->name : NULL;
}

/* Is the item's key one that neither table has, but nearly this one? */
static const char *nearly(const char *item, size_t n)
{
	size_t len = strcspn(item, "=");
	char key[WORD];

	if (len >= n || len >= sizeof(key))
		return NULL;
	snprintf(key, sizeof(key), "%.*s", (int)len, item);
	for (unsigned i = 0; fault_key(i); i++)
		if (strcmp(fault_key(i)->name, key) == 0)
			return NULL;
	return near_find(key, key_name);
}

/* --- the whole -----------------------------------------------------------------------
 */

static const struct row *row_of(const char *item, size_t n)
{
	for (unsigned i = 0; i < ROWS; i++) {
		size_t len = strlen(rows[i].key.name);

		if (n > len && item[len] == '=' &&
		    strncmp(item, rows[i].key.name, len) == 0)
			return &rows[i];
	}
	return NULL;
}

static int parse_item(struct upset_spec *out, const struct row *row, const char *item,
		      size_t n, char *err, size_t errlen)
{
	char value[128], why[160] = "";
	struct text t = { value, why, sizeof(why) };
	struct upset_rule *r = &out->rule[out->n];

	if (out->n == UPSET_RULES) {
		snprintf(err, errlen, "more than %d faults of verbs", UPSET_RULES);
		return -EINVAL;
	}
	*r = (struct upset_rule){ .kind = row->kind };
	n -= strlen(row->key.name) + 1;
	snprintf(value, sizeof(value), "%.*s", (int)(n < 120 ? n : 120),
		 item + strlen(row->key.name) + 1);
	if (!row->take(&t, r) || *t.at) {
		snprintf(err, errlen, "'%s=%s': %s", row->key.name, value,
			 *why ? why : "there is too much in it");
		return -EINVAL;
	}
	out->n++;
	return 0;
}

int upset_parse(struct upset_spec *out, char *wire, const char *spec, char *err,
		size_t errlen)
{
	char *to = wire, apart = ',';
	int rc = 0;

	out->n = 0;
	while (!rc && *spec) {
		size_t n = strcspn(spec, ",;");
		const struct row *row = row_of(spec, n);
		const char *meant = row ? NULL : nearly(spec, n);

		if (row) {
			rc = parse_item(out, row, spec, n, err, errlen);
		} else if (meant) {
			snprintf(err, errlen, "no fault is called %.*s; did you mean %s?",
				 (int)strcspn(spec, "="), spec, meant);
			rc = -EINVAL;
		} else {
			if (to > wire)
				*to++ = apart;
			apart = ',';
			memcpy(to, spec, n);
			to += n;
		}
		spec += n;
		if (!*spec)
			break;
		/* A group that begins with an item left out is a group all the same. */
		if (*spec == ';')
			apart = ';';
		spec++;
		if (!*spec && !row)
			*to++ = spec[-1];
	}
	*to = '\0';
	return rc;
}
