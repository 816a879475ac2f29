/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault_event.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/ib_hdr.h"
#include "wire/ib_opcode.h"

enum { PSN_MASK = 0xffffff, PSN_HALF = 0x800000, LINE_MAX_ = 256, WORD = 24 };

static const struct {
	const char *name;
	uint8_t what;
} whats[] = {
	{ "drop", FAULT_DROP },	      { "ecn", FAULT_ECN }, { "corrupt", FAULT_CORRUPT },
	{ "reorder", FAULT_REORDER }, { "dup", FAULT_DUP },
};

enum { WHATS = sizeof(whats) / sizeof(*whats) };

/* --- as text ------------------------------------------------------------------------ */

/* A whole word that is a number up to most. */
static bool number_is(const char *word, uint32_t most, uint32_t *out)
{
	unsigned long long n;
	char *end;

	if (*word < '0' || *word > '9')
		return false;
	n = strtoull(word, &end, word[0] == '0' && word[1] == 'x' ? 16 : 10);
	if (*end || n > most)
		return false;
	*out = (uint32_t)n;
	return true;
}

static bool take_qp(const char *word, struct fault_event *e)
{
	if (strcmp(word, "*") == 0)
		return true;
	e->is_flow = strncmp(word, "flow", 4) == 0;
	return number_is(e->is_flow ? word + 4 : word, PSN_MASK, &e->qp) && e->qp;
}

static bool take_psn(const char *word, struct fault_event *e)
{
	e->relative = *word == '+';
	return number_is(word + e->relative, PSN_MASK, &e->psn);
}

static bool take_iteration(const char *word, struct fault_event *e)
{
	uint32_t n;

	if (strcmp(word, "*") == 0)
		return true;
	if (!number_is(word, UINT16_MAX, &n) || !n)
		return false;
	e->iteration = (uint16_t)n;
	return true;
}

static bool take_what(const char *word, struct fault_event *e)
{
	for (unsigned i = 0; i < WHATS; i++)
		if (strcmp(whats[i].name, word) == 0)
			e->what = whats[i].what;
	return e->what;
}

static bool take_response(const char *word, struct fault_event *e)
{
	e->response = strcmp(word, "response") == 0;
	return e->response;
}

static const struct {
	bool (*take)(const char *word, struct fault_event *e);
	const char *want;
} parts[] = {
	{ take_qp, "the QP is a number, flow and a number, or *" },
	{ take_psn, "the PSN is a number, or + and a number" },
	{ take_iteration, "the iteration is a number from 1, or *" },
	{ take_what, "there are drop, ecn, corrupt, reorder and dup" },
	{ take_response, "after that there is only the word response" },
};

enum { PARTS = sizeof(parts) / sizeof(*parts), NEEDED = 4 };

static bool is_apart(char c, char sep)
{
	return c == sep || (sep == ' ' && (c == '\t' || c == '\r' || c == '\n'));
}

/* Copies the next word of *text; "" at the end. */
static void next_word(const char **text, char sep, char word[WORD])
{
	const char *at = *text;
	size_t n = 0;

	while (sep == ' ' && *at && is_apart(*at, sep))
		at++;
	for (; *at && !is_apart(*at, sep); at++)
		if (n + 1 < WORD)
			word[n++] = *at;
	word[n] = '\0';
	*text = *at ? at + 1 : at;
}

const char *fault_event_parse(struct fault_event *out, const char *text, char sep)
{
	struct fault_event e = { 0 };
	char word[WORD];

	for (unsigned i = 0; i < PARTS; i++) {
		next_word(&text, sep, word);
		if (!*word && i >= NEEDED)
			break;
		if (!*word)
			return "there are QP, PSN, ITERATION and WHAT";
		if (!parts[i].take(word, &e))
			return parts[i].want;
	}
	next_word(&text, sep, word);
	if (*word)
		return "a word is one too many";
	*out = e;
	return NULL;
}

size_t fault_event_write(char *to, size_t size, const struct fault_event *e, char sep)
{
	char qp[WORD] = "*", iteration[WORD] = "*";
	const char *what = "";
	int n;

	if (e->qp)
		snprintf(qp, sizeof(qp), e->is_flow ? "flow%u" : "0x%06x", e->qp);
	if (e->iteration)
		snprintf(iteration, sizeof(iteration), "%u", e->iteration);
	for (unsigned i = 0; i < WHATS; i++)
		if (whats[i].what == e->what)
			what = whats[i].name;
	n = snprintf(to, size, "%s%c%s%u%c%s%c%s", qp, sep, e->relative ? "+" : "",
		     e->psn, sep, iteration, sep, what);
	if (e->response && n > 0 && (size_t)n < size)
		n += snprintf(to + n, size - (size_t)n, "%cresponse", sep);
	return n > 0 && (size_t)n < size ? (size_t)n : 0;
}

static char first_of(const char *line)
{
	while (is_apart(*line, ' '))
		line++;
	return *line;
}

/* A line that is empty, or begins with #, is none. */
static bool is_empty(const char *line)
{
	return !first_of(line) || first_of(line) == '#';
}

/* Has the line been read to its end?  Of a comment the rest is passed over. */
static bool is_whole(FILE *in, const char *line)
{
	if (strchr(line, '\n') || feof(in))
		return true;
	if (first_of(line) != '#')
		return false;
	for (int c; (c = getc(in)) != EOF && c != '\n';)
		;
	return true;
}

static int read_lines(FILE *in, const char *path, struct fault_event *v, unsigned *n,
		      unsigned max, char *err, size_t errlen)
{
	char line[LINE_MAX_];

	for (unsigned at = 1; fgets(line, sizeof(line), in); at++) {
		const char *why = NULL;

		if (!is_whole(in, line))
			why = "it is too long, or no text";
		else if (is_empty(line))
			continue;
		else if (*n == max)
			why = "too many events";
		else
			why = fault_event_parse(&v[*n], line, ' ');
		if (why) {
			snprintf(err, errlen, "%s, line %u: %s", path, at, why);
			return -EINVAL;
		}
		(*n)++;
	}
	if (!ferror(in))
		return 0;
	snprintf(err, errlen, "%s: %s", path, strerror(errno));
	return -errno;
}

int fault_events_read(const char *path, struct fault_event *v, unsigned *n, unsigned max,
		      char *err, size_t errlen)
{
	FILE *in = fopen(path, "re");
	int rc;

	if (!in) {
		rc = -errno;
		snprintf(err, errlen, "%s: %s", path, strerror(-rc));
		return rc;
	}
	rc = read_lines(in, path, v, n, max, err, errlen);
	fclose(in);
	return rc;
}

/* --- flows ---------------------------------------------------------------------------
 */

const struct fault_flow *fault_flow_step(struct fault_flows *f, const struct bth *bth,
					 struct fault_step *step)
{
	const struct ib_op *op = ib_op(bth->opcode);
	const uint32_t qp = get_be24(bth->dest_qp), psn = get_be24(bth->psn);
	const bool response = op && !ib_is_request(op);
	const uint32_t qp1 = 1;
	struct fault_flow *at = NULL;
	uint32_t ahead;

	*step = (struct fault_step){ 0 };
	for (unsigned i = 0; i < f->n && !at; i++)
		if (f->flow[i].qp == qp && f->flow[i].response == response)
			at = &f->flow[i];
	if (!at && f->n == FAULT_FLOWS_MAX)
		return NULL;
	if (!at) {
		at = &f->flow[f->n++];
		f->numbered[response] += qp != qp1;
		*at = (struct fault_flow){ .qp = qp,
					   .first = psn,
					   .last = psn,
					   .number =
						   qp == qp1 ? 0 : f->numbered[response],
					   .iteration = 1,
					   .response = response };
		step->began = true;
	} else {
		step->was = *at;
		ahead = (psn - at->last) & PSN_MASK;
		if (ahead == 0 || ahead >= PSN_HALF)
			at->iteration++;
		at->last = psn;
	}
	step->flow = at;
	return at;
}

void fault_flow_back(struct fault_flows *f, const struct fault_step *step)
{
	if (step->began) {
		f->numbered[step->flow->response] -= step->flow->number != 0;
		f->n--;
	} else if (step->flow) {
		*step->flow = step->was;
	}
}

bool fault_event_hits(const struct fault_event *e, const struct fault_flow *flow)
{
	const uint32_t qp = e->is_flow ? flow->number : flow->qp;
	const uint32_t psn = e->relative ? flow->first + e->psn : e->psn;

	return (!e->qp || e->qp == qp) && e->response == flow->response &&
	       ((flow->last ^ psn) & PSN_MASK) == 0 &&
	       (!e->iteration || e->iteration == flow->iteration);
}
