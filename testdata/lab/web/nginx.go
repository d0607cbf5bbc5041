package web

import (
	"bytes"
	"crypto/tls"
	_ "embed" // for Site
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Site is nginx's configuration of the site, as an operator would use it.
//
//go:embed egress.conf
var Site string

// ServerName is the name that the site's certificate is for.
const ServerName = "manifests.example"

// mainConf is what a distribution's nginx.conf has around the site, but
// everything in one directory. The log tells what the tests look for.
const mainConf = `daemon off;
worker_processes 1;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events {}
http {
    include /etc/nginx/mime.types;
    log_format tests '$ssl_client_s_dn|$ssl_client_serial|$request_method|$request_uri|$status|$http_if_none_match';
    access_log %[1]s/access.log tests;
    client_body_temp_path %[1]s/tmp;
    proxy_temp_path %[1]s/tmp;
    fastcgi_temp_path %[1]s/tmp;
    uwsgi_temp_path %[1]s/tmp;
    scgi_temp_path %[1]s/tmp;
    include %[1]s/egress.conf;
}
`

// nobody is who nginx runs as when the tests run as root.
const nobody = 65534

// Nginx is an nginx of its own, on a port of 127.0.0.1 that stays the same over
// Stop and Start. It reads nothing of the machine's /etc/nginx but the list of
// file types.
type Nginx struct {
	Port int

	dir   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when cmd has ended
}

// NewNginx lays out an nginx in a new directory; Close removes it. hosts signs
// the clients that it lets in.
func NewNginx(server Pair, hosts *Authority) (*Nginx, error) {
	dir, err := os.MkdirTemp("", "egress-nginx-")
	if err != nil {
		return nil, err
	}
	n := &Nginx{dir: dir}
	for _, sub := range []string{"tmp", "srv/manifests"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	if n.Port, err = freePort(); err != nil {
		return nil, err
	}
	if err := n.Certify(server, hosts); err != nil {
		return nil, err
	}
	for name, text := range map[string]string{"nginx.conf": fmt.Sprintf(mainConf, dir), "egress.conf": n.site()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return n, n.giveAway()
}

// site is the site's configuration with this server's paths and port.
func (n *Nginx) site() string {
	return strings.NewReplacer(
		"listen 443 ssl", "listen 127.0.0.1:"+strconv.Itoa(n.Port)+" ssl",
		"/etc/egress/", n.dir+"/", "/srv/egress", n.dir+"/srv",
	).Replace(Site)
}

// giveAway gives the directory to who nginx runs as.
func (n *Nginx) giveAway() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return filepath.Walk(n.dir, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Chown(path, nobody, nobody)
	})
}

// Certify puts a server's certificate and the clients' authority in place, for
// the next Start or Reload.
func (n *Nginx) Certify(server Pair, hosts *Authority) error {
	for name, data := range map[string][]byte{"server.pem": server.Cert, "server.key": server.Key, "hosts-ca.pem": hosts.PEM()} {
		if err := os.WriteFile(filepath.Join(n.dir, name), data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Start runs nginx and waits until it takes connections.
func (n *Nginx) Start() error {
	cmd := exec.Command("/usr/sbin/nginx", "-p", n.dir, "-e", filepath.Join(n.dir, "error.log"), "-c", filepath.Join(n.dir, "nginx.conf"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} // when a test's time is up
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start nginx (package nginx-light): %w", err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	n.cmd, n.ended = cmd, ended
	return until("nginx takes connections", func() error {
		select {
		case <-ended:
			return fmt.Errorf("nginx has ended: %s%s", said.String(), n.Errors())
		default:
		}
		conn, err := net.Dial("tcp", n.addr())
		if err == nil {
			err = conn.Close()
		}
		return err
	})
}

// Stop ends nginx, with what it is about to answer.
func (n *Nginx) Stop() error {
	if n.cmd == nil {
		return nil
	}
	err := n.cmd.Process.Signal(syscall.SIGTERM)
	<-n.ended
	n.cmd = nil
	return err
}

// Reload makes nginx read its certificates again and waits until it shows the
// one that serial names.
func (n *Nginx) Reload(server Pair) error {
	if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	want, err := server.TLS()
	if err != nil {
		return err
	}
	return until("nginx shows its new certificate", func() error {
		// What is looked for is the certificate itself: nothing is sent.
		conn, err := tls.Dial("tcp", n.addr(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return err
		}
		defer conn.Close()
		if got := conn.ConnectionState().PeerCertificates[0]; !bytes.Equal(got.Raw, want.Certificate[0]) {
			return fmt.Errorf("it shows number %s", got.SerialNumber)
		}
		return nil
	})
}

// Close stops nginx and removes its directory.
func (n *Nginx) Close() error {
	err := n.Stop()
	if e := os.RemoveAll(n.dir); err == nil {
		err = e
	}
	return err
}

// URL is that of a path on the server.
func (n *Nginx) URL(path string) string { return "https://" + n.addr() + path }

// Root is the directory that the site is served from.
func (n *Nginx) Root() string { return filepath.Join(n.dir, "srv") }

func (n *Nginx) addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(n.Port)) }

// Publish puts a host's manifest in place, whole at once.
func (n *Nginx) Publish(host, text string) error {
	path := n.Manifest(host)
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// Manifest is the path of a host's manifest in the file system.
func (n *Nginx) Manifest(host string) string {
	return filepath.Join(n.Root(), "manifests", host+".json")
}

// Errors is nginx's error log.
func (n *Nginx) Errors() string {
	text, _ := os.ReadFile(filepath.Join(n.dir, "error.log"))
	return string(text)
}
