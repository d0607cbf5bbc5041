#!/usr/bin/env bash
# check.sh: hold the packages in a directory to what they promise; one line for each check.
#
# usage: check.sh DISTDIR
# It builds them once more, from a copy elsewhere. rpmlint unpacks rpms by their absolute names, so it and
# lintian run as nobody; nothing is written but below a temporary directory.
# shellcheck disable=SC2317 # check calls the functions by name
set -euo pipefail

dist=$(cd "${1:?usage: check.sh DISTDIR}" && pwd)
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 0755 "$work"
failed=0
export LC_ALL=C.UTF-8

# check NAME COMMAND...: what the command prints is shown when it fails.
check() {
	local name=$1 out
	shift
	# In a shell of its own, since a function that is tested by if goes on after an error.
	set +e
	out=$(set -e && "$@" 2>&1)
	local rc=$?
	set -e
	if [ "$rc" = 0 ]; then
		printf 'ok    %s\n' "$name"
		return
	fi
	failed=1
	printf 'FAIL  %s\n' "$name"
	printf '%s\n' "$out" | sed 's/^/      /'
}

# one PATTERN: the only file of that kind.
one() {
	local found
	mapfile -t found < <(compgen -G "$dist/$1")
	if [ "${#found[@]}" != 1 ]; then
		echo "want one $1 in $dist, found ${#found[@]}" >&2
		return 1
	fi
	printf '%s\n' "${found[0]}"
}

# as_nobody COMMAND...
as_nobody() {
	local way=()
	[ "$(id -u)" != 0 ] || way=(setpriv --reuid=nobody --regid=nogroup --clear-groups)
	(cd "$work/home" && "${way[@]}" env -i PATH="$PATH" LC_ALL="$LC_ALL" HOME="$work/home" TMPDIR="$work/home" "$@")
}

# same LEFT RIGHT: two lists, files, that are to be equal.
same() { diff --label "$1" --label "$2" -u "$1" "$2"; }

deb_files() { dpkg-deb --fsys-tarfile "$deb" | tar --list | sed -n 's|^\./\(.*[^/]\)$|/\1|p' | sort; }

# rpm_files: without directories, which only rpm records as its own.
rpm_files() { rpm -qp --nosignature --queryformat '[%{FILENAMES} %{FILEMODES:perms}\n]' "$rpm" | sed -n 's/ -[^ ]*$//p' | sort; }

needs_only_libc() {
	readelf --dynamic "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' >"$work/needed"
	echo libc.so.6 | same - "$work/needed"
}

old_glibc() {
	local newest
	newest=$(objdump --dynamic-syms "$binary" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
	[ "$(printf 'GLIBC_2.34\n%s\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.34 ] || { echo "needs $newest"; return 1; }
}

# without_libvirt: the binary in a root that has nothing but what it is linked to.
without_libvirt() {
	local root=$work/bare lib
	[ "$(id -u)" = 0 ] || { echo "needs root for chroot"; return 1; }
	mkdir -p "$root/etc"
	for lib in $(ldd "$binary" | grep -o '/[^ ]*'); do install -D "$lib" "$root$lib"; done
	install "$binary" "$root/agent"
	cp "$examples"/* "$root/etc/"
	chroot "$root" /agent version
	chroot "$root" /agent -c /etc/config.toml validate /etc/squid.toml /etc/config.toml
}

conffiles() {
	dpkg-deb --info "$deb" conffiles >"$work/conffiles"
	echo /etc/egress-hostagent/config.toml | same - "$work/conffiles"
	rpm -qp --nosignature --queryformat '[%{FILENAMES} %{FILEFLAGS:fflags}\n]' "$rpm" | grep ' .*c' >"$work/config"
	echo /etc/egress-hostagent/config.toml cn | same - "$work/config"
}

# same_content: what only one of them has is listed here.
same_content() {
	deb_files >"$work/deb.files"
	rpm_files >"$work/rpm.files"
	{ diff "$work/deb.files" "$work/rpm.files" || true; } | grep '^[<>]' | sort >"$work/differ"
	sort <<-'END' | same - "$work/differ"
		< /usr/share/doc/egress-hostagent/changelog.Debian.gz
		< /usr/share/doc/egress-hostagent/copyright
		< /usr/share/zsh/vendor-completions/_egress-hostagent
		> /usr/lib/systemd/system-preset/90-egress-hostagent.preset
		> /usr/share/licenses/egress-hostagent/LICENSE
		> /usr/share/zsh/site-functions/_egress-hostagent
	END
}

# reproducible: from a copy in another place, with other times and another umask.
reproducible() {
	local copy=$work/elsewhere/copy version
	version=$("$binary" version | cut -d ' ' -f 2)
	SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$repo" log -1 --format=%ct)}
	GIT_DIR=$(git -C "$repo" rev-parse --absolute-git-dir)
	export SOURCE_DATE_EPOCH
	mkdir -p "$copy"
	(cd "$repo" && git ls-files -z --cached --others --exclude-standard | tar --create --null --files-from=- --ignore-failed-read) |
		(umask 077 && tar --extract --touch --no-same-permissions --directory "$copy")
	(umask 077 && cd "$copy" && export GIT_DIR && make packages VERSION="$version" >/dev/null)
	(cd "$dist" && sha256sum -- *.deb *.rpm) >"$work/sums"
	(cd "$copy/dist" && sha256sum -- *.deb *.rpm) | same "$work/sums" -
}

lint_deb() {
	as_nobody lintian --no-cfg --fail-on error,warning --tag-display-limit 0 \
		--suppress-tags-from-file "$work/lintian.suppress" "$work/packages/${deb##*/}"
}

# lint_rpm: rpmlint's exit code does not tell of warnings.
lint_rpm() {
	as_nobody rpmlint --rpmlintrc "$work/rpmlintrc" "$work/packages/${rpm##*/}" >"$work/rpmlint" 2>&1 || true
	cat "$work/rpmlint"
	grep -q 'packages: 1$' "$work/rpmlint"
	grep -q ' 0 errors, 0 warnings, ' "$work/rpmlint"
}

scripts() {
	local name
	for name in "$repo"/packaging/deb/p* "$repo"/packaging/rpm/p*; do
		[ "${name##*/}" != preset ] || continue
		shellcheck --shell=sh "$name"
	done
	dpkg-deb --control "$deb" "$work/control"
	for name in postinst prerm postrm; do sh -n "$work/control/$name"; done
}

# pages_render: without a warning, and with a line for whatis.
pages_render() {
	local page
	for page in egress-hostagent.8 egress-hostagent-config.5 egress-hostagent-spec.5; do
		[ -f "$root/usr/share/man/man${page##*.}/$page.gz" ] || { echo "$page is missing"; return 1; }
	done
	for page in "$root"/usr/share/man/man*/*.gz; do
		lexgrog "$page" >/dev/null || { echo "$page has no NAME"; return 1; }
		MANWIDTH=80 man --warnings --local-file "$page" 2>&1 >/dev/null | sed "s|^|${page##*/}: |"
	done >"$work/warnings"
	[ ! -s "$work/warnings" ] || { cat "$work/warnings"; return 1; }
}

# pages_have_flags: each page of a command has every flag of its --help.
pages_have_flags() {
	local page words flag
	for page in "$root"/usr/share/man/man8/*.gz; do
		words=$(zcat "$page" | sed -n '/^\.SH SYNOPSIS/,/^\.SH/s/^\\fB\(egress-hostagent[a-z -]*\).*/\1/p' | sed 's/ [-[].*//; s/ *$//')
		# shellcheck disable=SC2086 # a command and its subcommands are words
		"$binary" ${words#egress-hostagent} --help | grep -oE '^ +(-., +)?--[a-z-]+' | grep -oE -- '--[a-z-]+' |
			while read -r flag; do
				zcat "$page" | grep -qF -- "\\fB$flag\\fP" || { echo "$page: no $flag"; exit 1; }
			done
	done
}

completions_load() {
	bash -n "$root/usr/share/bash-completion/completions/egress-hostagent"
	grep -q '^#compdef egress-hostagent$' "$root/usr/share/zsh/vendor-completions/_egress-hostagent"
	grep -q 'complete -c egress-hostagent' "$root/usr/share/fish/vendor_completions.d/egress-hostagent.fish"
}

# unit_is_sound: with the programs that it names where they are here.
unit_is_sound() {
	local unit=$work/unit/egress-hostagent.service
	mkdir -p "$work/unit"
	sed "s|^ExecStart=/usr/sbin/|ExecStart=$root/usr/sbin/|" "$root/usr/lib/systemd/system/egress-hostagent.service" >"$unit"
	systemd-analyze --man=no verify "$unit" >"$work/verify" 2>&1 || { cat "$work/verify"; return 1; }
	[ ! -s "$work/verify" ] || { cat "$work/verify"; return 1; }
}

# unit_is_closed: exposure 1.8 at most.
unit_is_closed() {
	systemd-analyze security --offline=true --threshold=18 "$root/usr/lib/systemd/system/egress-hostagent.service"
}

examples_are_valid() {
	"$binary" -c "$examples/config.toml" validate "$examples/config.toml" "$examples/squid.toml" "$examples/edge.toml"
	"$binary" -c "$root/etc/egress-hostagent/config.toml" validate "$root/etc/egress-hostagent/config.toml"
}

# versions_are_ordered: each one is older than the next, for dpkg and for rpm.
versions_are_ordered() {
	local older='' newer given
	for given in "$(git -C "$repo" rev-parse --short HEAD)" v0.1.0-rc1 v0.1.0-rc1-3-gabcdef0 v0.1.0 v0.1.0-9-gabcdef0 v0.1.0-10-g0abcdef v0.1.1; do
		newer=$("$repo/packaging/version.sh" "$given")
		if [ -n "$older" ]; then
			dpkg --compare-versions "$older-1" lt "$newer-1" || { echo "dpkg: $older is not older than $newer"; return 1; }
			[ "$(rpm --eval "%{lua:print(rpm.vercmp('$older', '$newer'))}")" = -1 ] || { echo "rpm: $older is not older than $newer"; return 1; }
		fi
		older=$newer
	done
	[ "$("$repo/packaging/version.sh" 1.2.3)" = 1.2.3 ]
}

deb=$(one '*.deb')
rpm=$(one '*.rpm')
root=$work/root
binary=$root/usr/sbin/egress-hostagent
examples=$root/usr/share/doc/egress-hostagent/examples
mkdir -p "$work/packages" "$work/home"
[ "$(id -u)" != 0 ] || chown nobody:nogroup "$work/home"
cp "$deb" "$rpm" "$work/packages/"
cp "$repo/packaging/lintian.suppress" "$repo/packaging/rpmlintrc" "$work/"
dpkg-deb --extract "$deb" "$root"

check "the program needs libc alone" needs_only_libc
check "the program needs no glibc newer than 2.34" old_glibc
check "version and validate work without libvirt" without_libvirt
check "config.toml is the only configuration file" conffiles
check "deb and rpm hold the same files" same_content
check "lintian finds nothing" lint_deb
check "rpmlint finds nothing" lint_rpm
check "maintainer scripts are POSIX shell" scripts
check "man pages render without a warning" pages_render
check "man pages have every flag" pages_have_flags
check "completions load" completions_load
check "systemd takes the unit as it is" unit_is_sound
check "the unit's exposure is 1.8 at most" unit_is_closed
check "examples and the shipped configuration are valid" examples_are_valid
check "versions sort as they were made" versions_are_ordered
check "a build elsewhere gives the same bytes" reproducible
exit "$failed"
