/* As much of virtio 1.x over PCI as the modes need: modern interface, split
   virtqueues, polled. Section numbers are those of the virtio 1.2 specification. */
#ifndef VIRTIO_H
#define VIRTIO_H

#include <stdint.h>

/* Device types (section 5). */
#define VIRTIO_BLOCK 2
#define VIRTIO_CONSOLE 3

/* QUEUE_SIZE is the number of descriptors in each queue; a power of two. */
#define QUEUE_SIZE 16

/* The split virtqueue (section 2.7). */
struct descriptor {
	uint64_t address;
	uint32_t length;
	uint16_t flags, next;
};
#define DESCRIPTOR_NEXT 1  /* the chain goes on at next */
#define DESCRIPTOR_WRITE 2 /* the device writes it */

struct queue {
	struct descriptor table[QUEUE_SIZE] __attribute__((aligned(16)));
	struct {
		uint16_t flags, index, ring[QUEUE_SIZE];
	} available __attribute__((aligned(2)));
	struct {
		uint16_t flags, index;
		struct {
			uint32_t id, length;
		} ring[QUEUE_SIZE];
	} volatile used __attribute__((aligned(4)));
	uint16_t seen;		   /* used entries taken so far */
	volatile uint16_t *notify; /* written to tell the device of new entries */
	uint16_t number;
};

/* device is one that was found; its registers are memory. */
struct device {
	volatile struct common *common;
	volatile uint8_t *config, *notify;
	uint32_t notify_multiplier;
};

/* virtio_find finds the nth (from 0) device of a type, in PCI order. Returns 0 when there is none. */
int virtio_find(struct device *d, int type, int nth);

/* virtio_begin resets a device and agrees on features (bits 0-31; version 1 is always asked for).
   Returns 0 when it does not offer all of them. */
int virtio_begin(struct device *d, uint32_t features);

/* virtio_offers returns bits 0-31 of what a device offers. */
uint32_t virtio_offers(struct device *d);

/* virtio_queue sets up queue number n; between virtio_begin and virtio_ready. */
void virtio_queue(struct device *d, struct queue *q, uint16_t n);

/* virtio_ready ends the setup: the device is live. */
void virtio_ready(struct device *d);

/* queue_give hands the device the chain that starts at descriptor head. */
void queue_give(struct queue *q, uint16_t head);

/* queue_take returns the head of a chain that the device is done with, or -1. */
int queue_take(struct queue *q);

#endif
