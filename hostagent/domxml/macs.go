package domxml

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// MACs lists the MACs of a domain's network interfaces, in lower case.
func MACs(domainXML string) ([]string, error) {
	var doc struct {
		Interfaces []struct {
			MAC struct {
				Address string `xml:"address,attr"`
			} `xml:"mac"`
		} `xml:"devices>interface"`
	}
	if err := xml.Unmarshal([]byte(domainXML), &doc); err != nil {
		return nil, fmt.Errorf("read MACs of domain: %w", err)
	}
	var out []string
	for _, i := range doc.Interfaces {
		if i.MAC.Address != "" {
			out = append(out, strings.ToLower(i.MAC.Address))
		}
	}
	return out, nil
}
