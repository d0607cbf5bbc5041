// Package pack holds the tests of the deb and the rpm where systemd is PID 1: in
// containers of nspawn.sh, on Debian 12. What the packages contain is checked by
// packaging/check.sh; here it is what they do, and the unit with them.
package pack
