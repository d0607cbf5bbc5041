package seed

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

var errTooLarge = errors.New("unpacked content is too large")

// gunzipLayer removes one layer of gzip, as cloud-init does before it looks at
// a document. What is not gzip, or is broken, comes back as it is, because
// cloud-init goes on with it too. More than limit unpacked bytes are refused.
func gunzipLayer(doc []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(doc, []byte{0x1f, 0x8b}) {
		return doc, nil
	}
	plain, err := gunzip(doc, limit)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, &InputError{VendorDataFile, fmt.Sprintf(
			"unpacks to more than %d bytes; make it smaller or leave the guest agent out", limit)}
	case err != nil:
		return doc, nil
	}
	return plain, nil
}

// gunzip unpacks all members of a gzip file. Zero bytes between and after them
// are skipped, which RFC 1952 does not ask for but Python's gzip module does.
func gunzip(doc []byte, limit int) ([]byte, error) {
	var out bytes.Buffer
	in := bytes.NewReader(doc)
	member := new(gzip.Reader)
	for in.Len() > 0 {
		if err := member.Reset(in); err != nil {
			return nil, err
		}
		member.Multistream(false) // stops the reader exactly behind the member
		n, err := io.Copy(&out, io.LimitReader(member, int64(limit-out.Len())+1))
		if err != nil {
			return nil, err
		}
		if n > 0 && out.Len() > limit {
			return nil, errTooLarge
		}
		skipZeros(in)
	}
	return out.Bytes(), nil
}

// skipZeros moves the reader to its next byte that is not zero.
func skipZeros(in *bytes.Reader) {
	for {
		c, err := in.ReadByte()
		if err != nil {
			return
		}
		if c != 0 {
			_ = in.UnreadByte() // can not fail right behind a ReadByte
			return
		}
	}
}
