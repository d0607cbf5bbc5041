package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/egress-proxies/egress-hostagent/hostagent/control"
	"github.com/egress-proxies/egress-hostagent/hostagent/order"
	"github.com/egress-proxies/egress-hostagent/hostagent/spec"
)

// orderForm is how an order is given on the command line.
type orderForm struct {
	verb        order.Verb
	args        string // as the usage line shows them
	short, long string
	// lost says what an order loses or changes for good, or nothing. That is
	// asked about before the order is given.
	lost func(order.Order) string
}

// takesAll tells whether --all may stand in for the name.
func (f orderForm) takesAll() bool { return strings.Contains(f.args, "--all") }

const orderLong = `

Root, the agent's own user and the admins in [control] of the configuration may
order. Exit codes: 0 obeyed, 1 refused or failed, 2 wrong use, 3 the agent does
not run.`

var orderForms = []orderForm{{
	verb: order.Recreate, args: "NAME", short: "Make a proxy's guest anew from its image; its data is lost",
	long: `Recreate shuts the proxy's VM down and makes it anew: a fresh overlay on the
image, a fresh seed and a new instance-id, so that cloud-init runs as at first.
Everything that was written in the guest is lost. The name, the domain's UUID
and the MAC addresses stay; the IP address stays if it is static or if the DHCP
server goes by the MAC address.

It takes its turn in the roll-out like an edit of the spec: while as many
proxies as max_unavailable allows are down, it waits.

Use it for a guest that is broken inside. A changed spec needs no recreate: the
agent does what is needed by itself. A guest that only hangs is rebooted, with
its data, by virsh reset egress-NAME.`,
	lost: func(o order.Order) string {
		return fmt.Sprintf("The VM of %s goes down and is made anew from its image: everything in the guest is lost.", o.Name)
	},
}, {
	verb: order.Delete, args: "NAME", short: "Remove a proxy that no source lists, with its disk",
	long: `Delete removes the proxy's VM for good, with its seed, its disk and all data on
that. The name is free afterwards.

It is for a proxy that no source lists any more: one that status shows as
Orphaned, because its source was taken out of the configuration; one whose
removal is held as part of a mass deletion; one whose removal still waits.

A proxy that a source lists is refused, since it would be made again at once:
remove its spec file, and the agent deletes the VM by itself. To keep the VM and
have the agent forget it, use abandon.`,
	lost: func(o order.Order) string {
		return fmt.Sprintf("The VM of %s is removed for good, with its disk and everything on it.", o.Name)
	},
}, {
	verb: order.Adopt, args: "NAME | --all", short: "Claim VMs again whose ownership was lost or is of another host id",
	long: `Adopt NAME writes the ownership metadata into the domain again, as the record
beside its disk has it. It is for a proxy that status shows as MetadataLost:
somebody defined the domain again from XML without that element, and since then
the agent leaves it alone. Nothing restarts, the guest's data stays.

Adopt --all is for a host that shows HostIDChanged: /etc/machine-id is new, or
the host was cloned or restored, and everything is held. The agent takes on the
host id that its VMs and its image tree carry, so that they keep their names,
UUIDs and MAC addresses and their data. On a clone, first make sure that the
original runs none of them any more: two VMs with one MAC address disturb each
other. If it is the configuration's host id that changed by mistake, put the old
one back instead.`,
	lost: func(o order.Order) string {
		if !o.All {
			return ""
		}
		return "The agent takes on the host id that the VMs and the image tree here carry, for good, and then starts, changes and removes them as the specs say. No other host may still run them."
	},
}, {
	verb: order.Abandon, args: "NAME", short: "Leave a VM as it is, for good",
	long: `Abandon takes the agent's hands off the proxy's VM for good. The VM is left
exactly as it is, running or not, with its disk and its data; only the agent's
ownership metadata is taken out of its definition. The agent never touches it
again, and adopt does not bring it back.

The name is free for a new VM once the old one is removed or renamed (with
virsh); as long as a spec has the name and the old VM is in the way, it shows
Conflict.

Use it to keep a VM for an examination, or to hand it over to something else.
To keep the agent away for a while only, use pause.`,
	lost: func(o order.Order) string {
		return fmt.Sprintf("The agent leaves the VM of %s as it is and never touches it again; this can not be undone.", o.Name)
	},
}, {
	verb: order.Pause, args: "NAME | --all", short: "Keep the agent's hands off a proxy, or off all of them",
	long: `Pause keeps the agent's hands off the proxy until resume, over restarts of the
agent and of the host: it is not started, stopped, changed or removed. The VM
itself runs on with its data and is not suspended; when it goes down, it stays
down. Edits of the spec wait, and so does the removal of its file. Status and
reports go on.

With --all that holds for every proxy of this host, new ones too.

Use it while you work on a VM, on libvirt or on the disks by hand.`,
}, {
	verb: order.Resume, args: "NAME | --all", short: "End a pause, or try now what waits",
	long: `Resume ends a pause; what changed in the meantime is done to the VM then.

It also makes the agent try now what it would try later: the start of a guest in
a crash loop, a step that failed and waits for its next try, and a roll-out that
stopped because this proxy did not become Ready after its change. Use it once
you have put right what was wrong. With nothing to end it does no harm.

With --all it ends pause --all, which resume NAME does not, and has all tried
that waits; a proxy that was paused by its name stays so until it is resumed by
its name.

Resume by itself costs no data; a change that waited may (see recreate).`,
}, {
	verb: order.Release, args: "DIGEST", short: "Let a held mass change or mass deletion go on",
	long: `Release lets go on what the agent holds because it looks like a mistake: the
removal of more than half of the proxies within ten minutes, a source that
turned empty, or a change of images, machine types or defaults that would
restart or recreate more than half of them. Deleted VMs and recreated guests
lose their data.

Status shows each held set with what would be done to which proxy, and its
DIGEST, 12 hex digits. Exactly that set is released. When it has changed since
you looked, the order is refused: look again.

If it was a mistake, undo it instead (put the files back): the hold then ends by
itself, and no VM is touched.`,
}}

// orderCommands are the commands that tell the agent to do something.
func orderCommands(o *options) []*cobra.Command {
	var all []*cobra.Command
	for _, f := range orderForms {
		all = append(all, orderCommand(o, f))
	}
	return all
}

func orderCommand(o *options, f orderForm) *cobra.Command {
	var all, yes bool
	c := &cobra.Command{
		Use:   string(f.verb) + " " + f.args,
		Short: f.short,
		Long:  f.long + orderLong,
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ord, err := parseOrder(f.verb, args, all)
			if err != nil {
				return err
			}
			if f.lost != nil && !yes {
				if err := confirm(cmd, f.lost(ord)); err != nil {
					return err
				}
			}
			return askAgent(o, cmd.ErrOrStderr(), func(socket string) error { return giveOrder(cmd, socket, ord) })
		},
	}
	if f.verb != order.Release {
		c.ValidArgsFunction = proxyNames(o)
	}
	if f.takesAll() {
		c.Args = cobra.MaximumNArgs(1)
		c.Flags().BoolVar(&all, "all", false, "for every proxy of this host")
	}
	if f.lost != nil {
		c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	}
	return c
}

// parseOrder makes an order of a command line.
func parseOrder(verb order.Verb, args []string, all bool) (order.Order, error) {
	o := order.Order{Verb: verb, All: all}
	switch {
	case len(args) == 0:
	case verb == order.Release:
		o.Digest = args[0]
	default:
		if err := spec.CheckName(spec.KindProxy, args[0]); err != nil {
			return o, &codedError{exitUsage, err}
		}
		o.Name = args[0]
	}
	if err := o.Check(); err != nil {
		return o, usage("%v", err)
	}
	return o, nil
}

// giveOrder has the agent obey and prints what it says.
func giveOrder(cmd *cobra.Command, socket string, o order.Order) error {
	text, err := control.Dial(socket).Order(cmd.Context(), o)
	switch {
	case err == nil:
		wrap(cmd.OutOrStdout(), "", text)
		return nil
	case errors.Is(err, control.ErrNotRunning):
		return &codedError{exitNotRunning, err}
	case cmd.Context().Err() != nil:
		return &codedError{exitError, fmt.Errorf("%s: interrupted; the agent may have got the order: see status", o)}
	}
	return &codedError{exitError, harmless(err)}
}

// harmless makes an error that came from elsewhere safe for a terminal.
func harmless(err error) error {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		lines = append(lines, printable(strings.TrimSuffix(line, "\n")))
	}
	return errors.New(strings.Join(lines, "\n"))
}

// confirm asks on the terminal whether what is lost may be lost. Nothing is
// asked when that is nothing.
func confirm(cmd *cobra.Command, lost string) error {
	if lost == "" {
		return nil
	}
	in, out := cmd.InOrStdin(), cmd.ErrOrStderr()
	if !isTerminal(in) || !isTerminal(out) {
		return &codedError{exitUsage, fmt.Errorf("%s There is no terminal to confirm this on: give --yes if it is what you want", lost)}
	}
	wrap(out, "", lost)
	fmt.Fprint(out, "Go on? [y/N] ")
	switch answer, err := readLine(cmd.Context(), in); {
	case err != nil:
		fmt.Fprintln(out)
		return &codedError{exitError, errors.New("interrupted: nothing was ordered")}
	case strings.EqualFold(answer, "y"), strings.EqualFold(answer, "yes"):
		return nil
	}
	return &codedError{exitError, errors.New("not confirmed: nothing was ordered")}
}

// readLine gives a line of at most 1000 bytes without the space around it.
// When ctx ends first, the line is still read, and lost.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	read := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(in, 1000)).ReadString('\n') // what an end of file cut short counts as it is
		read <- strings.TrimSpace(line)
	}()
	select {
	case line := <-read:
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// isTerminal tells whether a stream is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	var not error
	if err := raw.Control(func(fd uintptr) { _, not = unix.IoctlGetTermios(int(fd), unix.TCGETS) }); err != nil {
		return false
	}
	return not == nil
}
