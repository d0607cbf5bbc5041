/* The mode agent: opens every port of the virtio console, as a guest agent does
   when it opens its device, and then never reads or writes. Section numbers are
   those of the virtio 1.2 specification. */
#include "machine.h"
#include "modes.h"
#include "virtio.h"

#define MULTIPORT (1 << 1) /* section 5.3.3 */

/* The queues of the control messages (section 5.3.2). Those of the ports stay off: QEMU then keeps
   what the host sends in its socket. */
#define CONTROL_RECEIVE 2
#define CONTROL_SEND 3

/* A control message (section 5.3.6.2). Room for the name that a device may add is kept. */
struct control {
	uint32_t port;
	uint16_t event, value;
	char name[120];
};
#define MESSAGE_SIZE 8
#define DEVICE_READY 0
#define PORT_ADD 1
#define PORT_READY 3
#define PORT_OPEN 6
#define NO_PORT 0xffffffff

static struct queue receive, send;
static struct control incoming[QUEUE_SIZE], outgoing;

static void tell(uint32_t port, uint16_t event)
{
	outgoing = (struct control){.port = port, .event = event, .value = 1};
	send.table[0] = (struct descriptor){.address = (uint32_t)&outgoing, .length = MESSAGE_SIZE};
	queue_give(&send, 0);
	while (queue_take(&send) < 0)
		__asm__ volatile("pause");
}

/* listen gives the device a buffer for each message it might send: one without a buffer is lost. */
static void listen(void)
{
	for (int i = 0; i < QUEUE_SIZE; i++) {
		receive.table[i] = (struct descriptor){
			.address = (uint32_t)&incoming[i],
			.length = sizeof incoming[i],
			.flags = DESCRIPTOR_WRITE,
		};
		queue_give(&receive, i);
	}
}

/* answer takes one message, if there is one. A port that the device adds is opened. Returns whether one was. */
static int answer(void)
{
	int i = queue_take(&receive);
	if (i < 0)
		return 0;
	struct control message = incoming[i];
	queue_give(&receive, i);
	if (message.event != PORT_ADD)
		return 0;
	tell(message.port, PORT_READY);
	tell(message.port, PORT_OPEN);
	return 1;
}

void agent(void)
{
	struct device d;

	if (!virtio_find(&d, VIRTIO_CONSOLE, 0))
		fail("no virtio console");
	if (!virtio_begin(&d, MULTIPORT))
		fail("the virtio console has no ports");
	virtio_queue(&d, &receive, CONTROL_RECEIVE);
	virtio_queue(&d, &send, CONTROL_SEND);
	virtio_ready(&d);
	listen();
	tell(NO_PORT, DEVICE_READY);

	while (!answer())
		__asm__ volatile("pause");
	print("program: agent open\n");
	/* More ports come within this second, if there are any. */
	start_ticks();
	for (int i = 0; i < TICKS; i++) {
		tick();
		while (answer())
			;
	}
	halt();
}
