// Package seed turns a guest's cloud-init documents into a NoCloud seed: a
// small ISO 9660 image labelled "cidata" that holds user-data, meta-data and,
// when there is something to say, vendor-data and network-config.
//
// It owns the rules of that image: user-data goes in byte for byte and is never
// parsed; meta-data is JSON that every YAML reader understands the same way;
// the guest agent's installer joins the user's own vendor data without changing
// what cloud-init makes of it; equal inputs give equal images, so an image can
// be checked by its digest and rebuilt at any time.
//
// It leaves to others which instance-id, host name and variables a guest gets,
// where images live and when one is rebuilt or removed, and the domain the
// image is attached to. It imports nothing else of this module, logs nothing,
// and keeps the contents of a seed out of its errors: they are secrets.
//
// Sources of the rules: cloud-init's NoCloud data source and its
// user_data.py, RFC 2045 and 2046 for the multipart shape, ECMA-119 (ISO 9660)
// for the image.
package seed
