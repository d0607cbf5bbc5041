package web

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Authority signs certificates of servers and clients.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate and its key, both PEM.
type Pair struct{ Cert, Key []byte }

// validity is how long certificates hold that do not say otherwise.
const validity = 24 * time.Hour

// NewAuthority makes an authority with a key of its own.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of authority %s: %w", name, err)
	}
	template, err := newTemplate(name, validity)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("certificate of authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{cert: cert, key: key}, err
}

// PEM is the authority's own certificate.
func (a *Authority) PEM() []byte { return certificatePEM(a.cert.Raw) }

// Pool holds the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Server makes a certificate for a server by that name and on 127.0.0.1.
func (a *Authority) Server(name string) (Pair, error) {
	return a.sign(name, validity, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		c.DNSNames, c.IPAddresses = []string{name}, []net.IP{net.IPv4(127, 0, 0, 1)}
	})
}

// Client makes a certificate for the client by that name, which holds for so
// long; a negative time makes one that has ended.
func (a *Authority) Client(name string, holds time.Duration) (Pair, error) {
	return a.sign(name, holds, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
}

func (a *Authority) sign(name string, holds time.Duration, purpose func(*x509.Certificate)) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("key of %s: %w", name, err)
	}
	template, err := newTemplate(name, holds)
	if err != nil {
		return Pair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	purpose(template)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("certificate of %s: %w", name, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("key of %s: %w", name, err)
	}
	return Pair{
		Cert: certificatePEM(der),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

// TLS gives the pair in the form that crypto/tls uses.
func (p Pair) TLS() (tls.Certificate, error) { return tls.X509KeyPair(p.Cert, p.Key) }

// Serial is the certificate's number as nginx logs it.
func (p Pair) Serial() string {
	c, err := p.TLS()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%032X", c.Leaf.SerialNumber)
}

// newTemplate is what all certificates have in common. They hold since two days
// ago, so that the end can lie in the past.
func newTemplate(name string, holds time.Duration) (*x509.Certificate, error) {
	number := make([]byte, 16)
	if _, err := rand.Read(number); err != nil {
		return nil, fmt.Errorf("serial number of %s: %w", name, err)
	}
	number[0] = number[0]&0x7f | 0x40 // positive, and as long as any other
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(number),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-2 * validity),
		NotAfter:     now.Add(holds),
	}, nil
}

func certificatePEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
