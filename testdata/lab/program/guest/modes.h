/* What the program can be. The numbers are those of the Go package. */
#ifndef MODES_H
#define MODES_H

#define MODE_IDLE 1
#define MODE_FILL 2
#define MODE_AGENT 3
#define MODE_OFF 4
#define MODE_BUTTON 5

void agent(void) __attribute__((noreturn));
void fill(void) __attribute__((noreturn));

#endif
