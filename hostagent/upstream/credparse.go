package upstream

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// pemCertificate is the type of a PEM block, and pemBegin its first line.
const (
	pemCertificate = "CERTIFICATE"
	pemBegin       = "-----BEGIN " + pemCertificate + "-----"
)

// parseCA reads a bundle of certificates, whole or not at all: x509 would pass
// over those that are cut off.
func parseCA(data []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	found := 0
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != pemCertificate {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d in it is not readable: %w", found+1, err)
		}
		pool.AddCert(cert)
		found++
	}
	switch begun := bytes.Count(data, []byte(pemBegin)); {
	case begun == 0:
		return nil, errors.New("holds no PEM certificate")
	case begun != found:
		return nil, fmt.Errorf("only %d of its %d certificates are whole", found, begun)
	}
	return pool, nil
}

// parsePair reads a certificate and the key that belongs to it.
func parsePair(cert, key []byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("not usable with its key: %w", err)
	}
	return &pair, nil
}

// parseToken reads a token: one line of visible ASCII, with or without its end.
// Whatever else could be in a header would be a mistake (RFC 6750, section 2.1).
func parseToken(data []byte) (secret, error) {
	line := bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	if len(line) == 0 {
		return secret{}, errors.New("is empty: write the token to it")
	}
	for i, c := range line {
		if c <= ' ' || c >= 0x7f {
			return secret{}, fmt.Errorf("byte %d is a blank, a line end or no ASCII: it takes the token alone, on one line, without the word Bearer", i+1)
		}
	}
	text := string(line)
	return secret{&text}, nil
}
