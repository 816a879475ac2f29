/* SPDX-License-Identifier: BSD-2-Clause */
/* link.c - decides when a link is up, and how fast it is. */
#include <stdio.h>

#include "fabric/fabric.h"
#include "fabric/model.h"

/* Best first. */
static const struct {
	uint8_t code;
	uint8_t lanes;
} widths[] = {
	{ 8, 12 }, { 4, 8 }, { 2, 4 }, { 16, 2 }, { 1, 1 },
};

static uint8_t best_width(uint8_t common)
{
	for (unsigned i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		if (common & widths[i].code)
			return widths[i].code;
	}
	return 0;
}

static uint8_t highest(unsigned bits)
{
	while (bits & (bits - 1))
		bits &= bits - 1;
	return (uint8_t)bits;
}

static bool trains(const struct fab_port *p)
{
	return p->plugged &&
	       (p->pi.phys_state == PHYS_POLLING || p->pi.phys_state == PHYS_LINK_UP);
}

static void note_change(struct fab_port *p)
{
	p->node->f->changes++;
	if (!is_switch(p->node))
		return;
	p->node->si.state_change = 1;
	trap_link(p->node);
}

static void come_up(struct fab_port *p, uint8_t width, uint8_t speed, uint8_t ext)
{
	p->pi.phys_state = PHYS_LINK_UP;
	p->pi.state = PORT_INIT;
	p->pi.width_active = width;
	p->pi.speed_active = speed;
	p->pi.ext_active = ext;
}

void link_retrain(struct fab_port *p)
{
	struct fab_port *q = p->peer;
	uint8_t width, speed, ext;

	if (!q || !trains(p) || !trains(q) || p->pi.phys_state == PHYS_LINK_UP)
		return;
	width = best_width(p->pi.width_enabled & q->pi.width_enabled);
	speed = highest(p->pi.speed_enabled & q->pi.speed_enabled);
	ext = highest(p->pi.ext_enabled & q->pi.ext_enabled & 15);
	if (!width || !(speed || ext))
		return;
	come_up(p, width, speed, ext);
	come_up(q, width, speed, ext);
	note_change(p);
	note_change(q);
}

static void go_down(struct fab_port *p)
{
	if (p->pi.phys_state == PHYS_LINK_UP) {
		p->pi.phys_state = p->pi.down_default;
		if (p->count.link_downed < UINT8_MAX)
			p->count.link_downed++;
	}
	p->pi.state = PORT_DOWN;
	p->pi.width_active = p->pi.speed_active = p->pi.ext_active = 0;
	data_link_down(p);
	note_change(p);
}

void link_down(struct fab_port *p)
{
	if (p->pi.state == PORT_DOWN)
		return;
	go_down(p);
	if (p->peer && p->peer->pi.state != PORT_DOWN)
		go_down(p->peer);
}

static unsigned lanes(const struct port_info *info)
{
	for (unsigned i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		if (info->width_active == widths[i].code)
			return widths[i].lanes;
	}
	return 0;
}

/* Slowest first. */
static const struct speed {
	const char *name;
	uint8_t speed, ext; /* LinkSpeedActive, LinkSpeedExtActive */
	/* units of 0.1 Gb/s per lane, less the coding of extended speeds */
	uint16_t tenths;
} speeds[] = {
	{ "SDR", 1, 0, 25 },   { "DDR", 2, 0, 50 },  { "QDR", 4, 0, 100 },
	{ "FDR", 0, 1, 140 },  { "EDR", 0, 2, 250 }, { "HDR", 0, 4, 500 },
	{ "NDR", 0, 8, 1000 },
};

static const struct speed *speed_of(const struct port_info *info)
{
	const struct speed *s = NULL;

	for (unsigned i = 0; i < sizeof(speeds) / sizeof(speeds[0]); i++) {
		if (info->speed_active & speeds[i].speed ||
		    info->ext_active & speeds[i].ext)
			s = &speeds[i];
	}
	return s;
}

uint32_t fabric_rate(const struct port_info *info)
{
	const struct speed *s = speed_of(info);

	return s ? lanes(info) * s->tenths : 0;
}

void fabric_speed(const struct port_info *info, char to[FABRIC_SPEED])
{
	const struct speed *s = speed_of(info);

	to[0] = '\0';
	if (s && lanes(info))
		snprintf(to, FABRIC_SPEED, "%ux%s", lanes(info) & 15, s->name);
}
