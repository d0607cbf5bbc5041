/* The mode fill: writes the disk full at a pace that a test can watch. Section
   numbers are those of the virtio 1.2 specification. */
#include "machine.h"
#include "modes.h"
#include "virtio.h"

#define READ_ONLY (1 << 5) /* section 5.2.3 */

/* The request (section 5.2.6): header, data, status; sectors are of 512 bytes whatever the disk's are. */
struct header {
	uint32_t type, reserved;
	uint64_t sector;
};
#define TYPE_WRITE 1
#define STATUS_OK 0

/* One chunk a tick makes 5 MiB a second. */
#define CHUNK_SECTORS 512
#define MIB_SECTORS 2048
#define FIRST_SECTOR (8 * MIB_SECTORS) /* clear of the program itself */
#define SAY_EVERY (8 * MIB_SECTORS)

static struct queue requests;
static struct header header;
static uint32_t data[CHUNK_SECTORS * 128];
static volatile uint8_t status;

/* write_once writes data and returns whether that worked. A machine that is paused meanwhile, because its
   host has no space, sees nothing but a long wait. */
static int write_once(uint32_t sector)
{
	header = (struct header){.type = TYPE_WRITE, .sector = sector};
	status = 0xff;
	requests.table[0] = (struct descriptor){(uint32_t)&header, sizeof header, DESCRIPTOR_NEXT, 1};
	requests.table[1] = (struct descriptor){(uint32_t)data, sizeof data, DESCRIPTOR_NEXT, 2};
	requests.table[2] = (struct descriptor){(uint32_t)&status, 1, DESCRIPTOR_WRITE, 0};
	queue_give(&requests, 0);
	do
		tick();
	while (queue_take(&requests) < 0);
	return status == STATUS_OK;
}

/* write_chunk writes one chunk, of words that are never zero and that no other chunk holds, until it succeeds. */
static void write_chunk(uint32_t sector)
{
	for (uint32_t i = 0; i < CHUNK_SECTORS * 128; i++)
		data[i] = (sector * 128 + i) * 2654435761u | 1;
	while (!write_once(sector)) {
		print("program: write failed, trying again\n");
		for (int i = 0; i < TICKS; i++)
			tick();
	}
}

/* own_disk readies the first disk that can be written and returns its size in sectors; a seed cannot. */
static uint32_t own_disk(void)
{
	struct device d;

	for (int i = 0; virtio_find(&d, VIRTIO_BLOCK, i); i++) {
		if (virtio_offers(&d) & READ_ONLY)
			continue;
		if (!virtio_begin(&d, 0))
			fail("the disk does not speak virtio 1");
		virtio_queue(&d, &requests, 0);
		virtio_ready(&d);
		/* The capacity has 64 bits; 2 TiB are enough here. */
		return *(volatile uint32_t *)(d.config + 4) ? 0xffffffff : *(volatile uint32_t *)d.config;
	}
	fail("no disk to fill");
}

void fill(void)
{
	uint32_t end = own_disk();

	start_ticks();
	for (uint32_t sector = FIRST_SECTOR; end >= CHUNK_SECTORS && sector <= end - CHUNK_SECTORS; sector += CHUNK_SECTORS) {
		if (sector % SAY_EVERY == 0) {
			print("program: filled to MiB ");
			print_number(sector / MIB_SECTORS);
			print("\n");
		}
		write_chunk(sector);
	}
	print("program: full\n");
	halt();
}
