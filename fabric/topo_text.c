/* SPDX-License-Identifier: BSD-2-Clause */
/* topo_text.c - reads the words of a topology file; see topo_own.h. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fabric/topo_own.h"

bool text_next_line(struct topo_read *r, const char **text, size_t *len)
{
	const char *nl;

	if (!*len)
		return false;
	nl = memchr(*text, '\n', *len);
	r->line++;
	r->start = r->at = *text;
	r->stop = nl ? nl : *text + *len;
	*len -= (size_t)(r->stop - *text) + !!nl;
	*text = r->stop + !!nl;
	return true;
}

static void blanks(struct topo_read *r)
{
	while (r->at < r->stop && (*r->at == ' ' || *r->at == '\t' || *r->at == '\r'))
		r->at++;
}

bool text_end(struct topo_read *r)
{
	blanks(r);
	return r->at == r->stop || *r->at == '#';
}

bool text_comment(struct topo_read *r)
{
	const char *hash = memchr(r->at, '#', (size_t)(r->stop - r->at));

	if (!hash)
		return false;
	r->at = hash + 1;
	blanks(r);
	return true;
}

bool text_char(struct topo_read *r, char c)
{
	blanks(r);
	if (r->at == r->stop || *r->at != c)
		return false;
	r->at++;
	return true;
}

bool text_starts(struct topo_read *r, const char *what)
{
	size_t n = strlen(what);

	blanks(r);
	return (size_t)(r->stop - r->at) >= n && memcmp(r->at, what, n) == 0;
}

bool text_word(struct topo_read *r, const char *word)
{
	const char *end;

	if (!text_starts(r, word))
		return false;
	end = r->at + strlen(word);
	if (end < r->stop && (isalnum((unsigned char)*end) || *end == '_'))
		return false;
	r->at = end;
	return true;
}

bool text_option(struct topo_read *r, char name)
{
	blanks(r);
	if (r->stop - r->at < 2 || r->at[0] != name || r->at[1] != '=')
		return false;
	r->at += 2;
	return true;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char)tolower((unsigned char)c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

int text_number(struct topo_read *r, int base, uint64_t max, uint64_t *out)
{
	const char *p, *first;
	uint64_t v = 0;

	blanks(r);
	p = r->at;
	if (base != 10 && r->stop - p > 2 && p[0] == '0' && (p[1] | 32) == 'x') {
		p += 2;
		base = 16;
	}
	if (!base)
		base = 10;
	for (first = p; p < r->stop && digit(*p) < base; p++) {
		if (v > (UINT64_MAX - 15) / (unsigned)base)
			return -EINVAL;
		v = v * (unsigned)base + (unsigned)digit(*p);
	}
	if (p == first || v > max)
		return -EINVAL;
	r->at = p;
	*out = v;
	return 0;
}

int text_quoted(struct topo_read *r, struct topo_text *out)
{
	const char *end;

	blanks(r);
	if (r->at == r->stop || *r->at != '"')
		return -EINVAL;
	end = memchr(r->at + 1, '"', (size_t)(r->stop - r->at - 1));
	if (!end)
		return -EINVAL;
	for (const char *p = r->at + 1; p < end; p++) {
		if (iscntrl((unsigned char)*p))
			return -EINVAL;
	}
	*out = (struct topo_text){ r->at + 1, (size_t)(end - r->at - 1) };
	r->at = end + 1;
	return 0;
}

static const char *find_text(struct topo_read *r, const char *what)
{
	return memmem(r->at, (size_t)(r->stop - r->at), what, strlen(what));
}

int text_until_words(struct topo_read *r, struct topo_text *out)
{
	static const char *const words[] = { "enhanced port ", "base port ", "lid ",
					     "lmc " };
	const char *end = r->stop;

	for (unsigned i = 0; i < 4; i++) {
		const char *w = find_text(r, words[i]);

		if (w && w < end && (w == r->at || w[-1] == ' '))
			end = w;
	}
	while (end > r->at && isspace((unsigned char)end[-1]))
		end--;
	*out = (struct topo_text){ r->at, (size_t)(end - r->at) };
	if (!out->len)
		return -EINVAL;
	r->at = end;
	return 0;
}

bool text_has(struct topo_read *r, const char *what)
{
	return find_text(r, what) != NULL;
}

uint64_t text_number_after(struct topo_read *r, const char *what, uint64_t max)
{
	const char *was = r->at, *w = find_text(r, what);
	uint64_t v = 0;

	if (!w)
		return 0;
	r->at = w + strlen(what);
	text_number(r, 0, max, &v);
	r->at = was;
	return v;
}

/* Rates in the codes of PortInfo, which does not know FDR10: QDR. */
/* clang-format off */
static const struct { const char *name; uint8_t speed, ext; } rates[] = {
	{ "SDR", 1, 0 }, { "DDR", 3, 0 }, { "QDR", 7, 0 }, { "FDR10", 7, 0 },
	{ "FDR", 7, 1 }, { "EDR", 7, 3 }, { "HDR", 7, 7 }, { "NDR", 7, 15 },
};
/* clang-format on */

static const struct {
	const char *name;
	uint8_t width;
} widths[] = {
	{ "1", 1 }, { "2", 16 }, { "4", 2 }, { "8", 4 }, { "12", 8 },
};

bool text_rate_word(struct topo_text word, struct topo_port *p)
{
	for (unsigned w = 0; w < 5; w++) {
		for (unsigned s = 0; s < 8; s++) {
			char text[12];
			int n = snprintf(text, sizeof(text), "%sx%s", widths[w].name,
					 rates[s].name);

			if (word.len != (size_t)n || memcmp(word.at, text, word.len) != 0)
				continue;
			p->width = widths[w].width;
			p->speed = rates[s].speed;
			p->ext = rates[s].ext;
			return true;
		}
	}
	return false;
}

void text_rate(struct topo_read *r, struct topo_port *p)
{
	const char *end = r->stop, *word;

	while (end > r->at && isspace((unsigned char)end[-1]))
		end--;
	for (word = end; word > r->at && !isspace((unsigned char)word[-1]);)
		word--;
	text_rate_word((struct topo_text){ word, (size_t)(end - word) }, p);
}

void text_copy(char *to, size_t size, struct topo_text from)
{
	size_t n = from.len < size - 1 ? from.len : size - 1;

	for (size_t i = 0; i < n; i++)
		to[i] = iscntrl((unsigned char)from.at[i]) ? '?' : from.at[i];
	to[n] = '\0';
}

/* Writes the word at which reading stopped, in a form fit for the message. */
static void stopped_at(struct topo_read *r, char *to, size_t size)
{
	size_t n = 0;

	if (r->at == r->stop) {
		snprintf(to, size, "the end of the line");
		return;
	}
	while (r->at + n < r->stop && n < 24 && !isspace((unsigned char)r->at[n]) &&
	       isprint((unsigned char)r->at[n]))
		n++;
	if (n)
		snprintf(to, size, "'%.*s'", (int)n, r->at);
	else
		snprintf(to, size, "byte 0x%02x", (unsigned char)*r->at);
}

int topo_fail(struct topo_read *r, const char *expected)
{
	char not [40];

	blanks(r);
	stopped_at(r, not, sizeof(not ));
	snprintf(r->err, TOPO_ERR, "%s:%u:%u: expected %s, not %s", r->name, r->line,
		 (unsigned)(r->at - r->start) + 1, expected, not );
	return -EINVAL;
}

int topo_fail_at_start(struct topo_read *r, const char *expected)
{
	r->at = r->start;
	return topo_fail(r, expected);
}

int topo_fail_line(struct topo_read *r, uint32_t file, uint32_t line, const char *fmt,
		   ...)
{
	va_list ap;
	int n = snprintf(r->err, TOPO_ERR, "%s:%u:1: ", r->file_name[file], line);

	if (n < 0 || n >= TOPO_ERR)
		return -EINVAL;
	va_start(ap, fmt);
	vsnprintf(r->err + n, TOPO_ERR - (size_t)n, fmt, ap);
	va_end(ap);
	return -EINVAL;
}
