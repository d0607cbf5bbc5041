package seed

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
)

// childVar names the part a re-executed test binary plays instead of testing.
const childVar = "EGRESS_SEED_TEST_CHILD"

func TestMain(m *testing.M) {
	parts := map[string]func() error{
		"digest":    childDigest,
		"crash":     childCrash,
		"overwrite": childOverwrite,
		"full":      childFull,
	}
	part, ok := parts[os.Getenv(childVar)]
	if !ok {
		os.Exit(m.Run())
	}
	if err := part(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child returns the test binary set to play a part.
func child(t *testing.T, part string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), append(env, childVar+"="+part)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// childDigest prints the digest of the sample input's image.
func childDigest() error {
	img, err := Build(sample())
	fmt.Print(img.SHA256)
	return err
}

// childCrash dies between AddFile and Cleanup, with a secret on disk.
func childCrash() error {
	if err := UseStaging(os.Getenv("STAGING")); err != nil {
		return err
	}
	if _, err := stage([]file{{UserDataFile, []byte(stagedSecret)}}); err != nil {
		return err
	}
	os.Exit(crashCode)
	return nil
}

// childOverwrite writes two images in turn under one name until it is killed.
func childOverwrite() error {
	for i := 0; ; i++ {
		if err := WriteFile(os.Getenv("TARGET"), 0o640, overwriteImage(i)); err != nil {
			return err
		}
	}
}

// childFull runs out of space, in the shape of a limit on file sizes, while it
// writes, and succeeds if WriteFile says so.
func childFull() error {
	signal.Ignore(syscall.SIGXFSZ)
	limit := syscall.Rlimit{Cur: 4096, Max: 4096}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	err := WriteFile(os.Getenv("TARGET"), 0o640, overwriteImage(1))
	if !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("WriteFile over the limit: %v, want EFBIG", err)
	}
	return nil
}

// sample is an input with all four files and everything set.
func sample() Input {
	return Input{
		InstanceID:    "egress-scraper-eu-1.01JABCDEF",
		Hostname:      "scraper-eu-1",
		Vars:          map[string]string{"upstream": "isp-a", "b": "2", "a": "1", "c": "gr\u00f6\u00dfe"},
		UserData:      []byte("#cloud-config\npackages: [squid]\n"),
		VendorData:    []byte("#cloud-config\ntimezone: UTC\n"),
		NetworkConfig: []byte("version: 2\nethernets: {}\n"),
		GuestAgent:    true,
	}
}

func mustBuild(t testing.TB, in Input) Image {
	t.Helper()
	img, err := Build(in)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func mustInspect(t testing.TB, img Image) Contents {
	t.Helper()
	c, err := Inspect(bytes.NewReader(img.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// needTool returns a program's path. Without the program the test is skipped,
// or fails where REQUIRE_ALL=1 says that everything has to be installed.
func needTool(t testing.TB, name, debianPackage string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && filepath.Base(name) == name {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err == nil {
		return path
	}
	why := fmt.Sprintf("%s is not installed (Debian package %s)", name, debianPackage)
	if os.Getenv("REQUIRE_ALL") == "1" {
		t.Fatal(why)
	}
	t.Skip(why)
	return ""
}
