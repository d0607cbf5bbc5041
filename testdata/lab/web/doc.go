// Package web is a web server for the agent's tests: a real nginx with a
// configuration an operator can use, the certificates that it and its clients
// show, and a proxy before it that does to answers and connections what bad
// networks, caches and portals do.
//
// It owns no agent: the tests in it, behind the build tag web, start one by
// package kit.
package web
