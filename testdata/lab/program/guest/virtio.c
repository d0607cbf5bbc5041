/* See virtio.h. */
#include "machine.h"
#include "virtio.h"

#define VENDOR 0x1af4

/* Offsets in PCI configuration space (PCI Local Bus 3.0, chapter 6). */
#define PCI_ID 0x00
#define PCI_COMMAND 0x04
#define PCI_HEADER 0x0c
#define PCI_BAR 0x10
#define PCI_CAPABILITIES 0x34

#define COMMAND_MEMORY 0x0002
#define COMMAND_MASTER 0x0004
#define COMMAND_NO_INTERRUPT 0x0400

/* Vendor capabilities that say where a device's registers are (section 4.1.4). */
#define CAPABILITY_VENDOR 0x09
#define CAPABILITY_COMMON 1
#define CAPABILITY_NOTIFY 2
#define CAPABILITY_DEVICE 4

/* The common configuration (section 4.1.4.3). */
struct common {
	uint32_t device_feature_select, device_feature;
	uint32_t driver_feature_select, driver_feature;
	uint16_t config_msix_vector, num_queues;
	uint8_t device_status, config_generation;
	uint16_t queue_select, queue_size, queue_msix_vector, queue_enable, queue_notify_off;
	uint32_t queue_desc[2], queue_driver[2], queue_device[2];
};

/* Device status (section 2.1). */
#define STATUS_ACKNOWLEDGE 1
#define STATUS_DRIVER 2
#define STATUS_DRIVER_OK 4
#define STATUS_FEATURES_OK 8

#define VERSION_1 1 /* bit 32: the first of the second word */
#define NO_INTERRUPT 1

/* read_config reads by configuration mechanism 1 (PCI 3.0, section 3.2.2.3.2); at is bus, device,
   function and offset as that has them. */
static uint32_t read_config(uint32_t at)
{
	out32(0xcf8, 0x80000000 | (at & ~3u));
	return in32(0xcfc) >> (at & 3) * 8;
}

static void write_config(uint32_t at, uint32_t v)
{
	out32(0xcf8, 0x80000000 | at);
	out32(0xcfc, v);
}

/* region returns where a register block is that a capability names by base address and offset. */
static volatile uint8_t *region(uint32_t function, uint32_t capability)
{
	uint32_t bar = function + PCI_BAR + 4 * (read_config(capability + 4) & 0xff);
	uint32_t low = read_config(bar);

	if (low & 1)
		fail("virtio registers in I/O space");
	if ((low & 6) == 4 && read_config(bar + 4) != 0)
		fail("virtio registers above 4 GiB");
	return (volatile uint8_t *)((low & ~15u) + read_config(capability + 8));
}

/* open notes where the registers of a function are and lets it read and write memory. */
static void open(struct device *d, uint32_t function)
{
	uint32_t next = read_config(function + PCI_CAPABILITIES) & 0xfc;

	for (; next; next = read_config(function + next + 1) & 0xfc) {
		uint32_t capability = function + next;
		if ((read_config(capability) & 0xff) != CAPABILITY_VENDOR)
			continue;
		switch (read_config(capability + 3) & 0xff) {
		case CAPABILITY_COMMON:
			d->common = (volatile struct common *)region(function, capability);
			break;
		case CAPABILITY_NOTIFY:
			d->notify = region(function, capability);
			d->notify_multiplier = read_config(capability + 16);
			break;
		case CAPABILITY_DEVICE:
			d->config = region(function, capability);
			break;
		}
	}
	if (!d->common || !d->notify || !d->config)
		fail("a virtio device without the modern interface");
	write_config(function + PCI_COMMAND, COMMAND_MEMORY | COMMAND_MASTER | COMMAND_NO_INTERRUPT);
}

/* is_type tells whether a function's id is that of a virtio device: modern, or transitional, whose ids
   of the three types first made are in their own order (sections 4.1.2.1, 4.1.2.3). */
static int is_type(uint32_t id, int type)
{
	uint32_t transitional = type == VIRTIO_BLOCK ? 0x1001 : 0x1003;

	return (id & 0xffff) == VENDOR && (id >> 16 == 0x1040u + type || id >> 16 == transitional);
}

int virtio_find(struct device *d, int type, int nth)
{
	*d = (struct device){0};
	for (uint32_t slot = 0; slot < 256 * 32; slot++) {
		uint32_t first = slot << 11;
		if ((uint16_t)read_config(first + PCI_ID) == 0xffff)
			continue;
		int functions = read_config(first + PCI_HEADER) & 0x800000 ? 8 : 1;
		for (int i = 0; i < functions; i++) {
			uint32_t function = first | i << 8;
			if (is_type(read_config(function + PCI_ID), type) && nth-- == 0) {
				open(d, function);
				return 1;
			}
		}
	}
	return 0;
}

uint32_t virtio_offers(struct device *d)
{
	d->common->device_feature_select = 0;
	return d->common->device_feature;
}

/* The order of the steps is that of section 3.1.1. */
int virtio_begin(struct device *d, uint32_t features)
{
	volatile struct common *c = d->common;

	c->device_status = 0;
	while (c->device_status != 0)
		;
	c->device_status = STATUS_ACKNOWLEDGE;
	c->device_status = STATUS_ACKNOWLEDGE | STATUS_DRIVER;
	c->driver_feature_select = 0;
	c->driver_feature = features;
	c->driver_feature_select = 1;
	c->driver_feature = VERSION_1;
	c->device_status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK;
	return (virtio_offers(d) & features) == features && c->device_status & STATUS_FEATURES_OK;
}

void virtio_queue(struct device *d, struct queue *q, uint16_t n)
{
	volatile struct common *c = d->common;

	c->queue_select = n;
	if (c->queue_size < QUEUE_SIZE)
		fail("a virtqueue that is too short");
	c->queue_size = QUEUE_SIZE;
	c->queue_desc[0] = (uint32_t)q->table, c->queue_desc[1] = 0;
	c->queue_driver[0] = (uint32_t)&q->available, c->queue_driver[1] = 0;
	c->queue_device[0] = (uint32_t)&q->used, c->queue_device[1] = 0;
	q->available.flags = NO_INTERRUPT;
	q->notify = (volatile uint16_t *)(d->notify + c->queue_notify_off * d->notify_multiplier);
	q->number = n;
	c->queue_enable = 1;
}

void virtio_ready(struct device *d)
{
	d->common->device_status = STATUS_ACKNOWLEDGE | STATUS_DRIVER | STATUS_FEATURES_OK | STATUS_DRIVER_OK;
}

/* The entry must be in memory before the index that shows it (section 2.7.13). */
void queue_give(struct queue *q, uint16_t head)
{
	q->available.ring[q->available.index % QUEUE_SIZE] = head;
	barrier();
	q->available.index++;
	barrier();
	*q->notify = q->number;
}

int queue_take(struct queue *q)
{
	if (q->used.index == q->seen)
		return -1;
	barrier();
	return q->used.ring[q->seen++ % QUEUE_SIZE].id;
}
