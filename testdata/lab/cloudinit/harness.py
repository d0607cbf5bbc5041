"""Lets cloud-init itself read what the package seed makes.

One JSON request on standard input, one JSON answer on standard output. Bytes are
base64. cloud-init is on PYTHONPATH (fetch.sh prints where); any release from 20.4
on will do. WORK is an empty directory for what cloud-init wants to write.

  {"work": WORK, "documents": [DOC...]}   -> {"documents": [{"parts": [[type, name, payload]...]} or {"error": CLASS}...]}
  {"work": WORK, "yaml": [DOC...]}        -> {"yaml": ["mapping" | "other" | "error"...]}
  {"work": WORK, "seeds": [{"files": {NAME: BYTES}, "template": DOC}...]}
      -> {"seeds": [{"metadata": {...}, "userdata": BYTES, "vendor": [[type, name, payload]...],
          "template": TEXT, "names": [[mac, name]...], "rendered": {RENDERER: {FILE: TEXT}}}...]}
"""

import base64
import importlib
import json
import os
import sys

import yaml
from cloudinit import helpers, net, sources, user_data, util
from cloudinit.handlers import jinja_template
from cloudinit.net import network_state
from cloudinit.sources import DataSourceNoCloud

RENDERERS = {
    "eni": {"eni_path": "etc/network/interfaces", "netrules_path": "etc/udev/rules.d/70-persistent-net.rules"},
    "netplan": {"netplan_path": "etc/netplan/50-cloud-init.yaml", "features": [], "postcmds": False},
    "networkd": {},
    "sysconfig": {
        "flavor": "rhel",
        "sysconf_dir": "etc/sysconfig",
        "iface_templates": "%(base)s/network-scripts/ifcfg-%(name)s",
        "route_templates": {
            "ipv4": "%(base)s/network-scripts/route-%(name)s",
            "ipv6": "%(base)s/network-scripts/route6-%(name)s",
        },
        "control": "etc/sysconfig/network",
        "netrules_path": "etc/udev/rules.d/70-persistent-net.rules",
    },
    "network_manager": {},
}


def parts_of(message):
    out = []
    for part in message.walk():
        if user_data.is_skippable(part):
            continue
        payload = util.fully_decoded_payload(part)
        if isinstance(payload, str):
            payload = payload.encode("utf-8", "surrogateescape")
        out.append([part.get_content_type(), part.get_filename(), encode(payload)])
    return out


def encode(data):
    return base64.b64encode(data).decode()


def document(paths, data):
    """What stages.Init does with a data source's vendor data."""
    source = sources.DataSource({}, None, paths)
    source.vendordata_raw = data
    try:
        return {"parts": parts_of(source.get_vendordata())}
    except Exception as e:  # what is raised is the answer
        return {"error": type(e).__name__}


def loads_as(data):
    try:
        loaded = yaml.safe_load(data.decode("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, TypeError):
        return "error"
    return "mapping" if isinstance(loaded, dict) else "other"


def no_cloud(paths, files):
    """The data source, having read the files as it reads those of a disk."""
    place = os.path.join(paths.seed_dir, "nocloud")
    os.makedirs(place)
    for name, data in files.items():
        with open(os.path.join(place, name), "wb") as f:
            f.write(base64.b64decode(data))
    # No look at the machine that runs the test: not its disks, not its firmware.
    system = {"datasource": {"NoCloud": {"fs_label": None}}}
    source = DataSourceNoCloud.DataSourceNoCloud(system, None, paths)
    for module in (DataSourceNoCloud, util, getattr(DataSourceNoCloud, "dmi", util)):
        for name in ("read_dmi_data", "get_cmdline"):
            if hasattr(module, name):
                setattr(module, name, lambda *_: "")
    if not source._get_data():
        raise SystemExit("NoCloud found no seed")
    return source


def rendered(config, work):
    """Files by renderer; a renderer that this release lacks is left out."""
    util.chownbyname = lambda *_, **__: None  # the user systemd-network need not be here
    out = {}
    for name, settings in RENDERERS.items():
        try:
            module = importlib.import_module("cloudinit.net." + name)
        except ImportError:
            continue
        if callable(getattr(module, "features", None)):
            module.features = lambda: []
        target = os.path.join(work, "rendered", name)
        os.makedirs(target)
        state = network_state.parse_net_config_data(config)
        module.Renderer(dict(settings)).render_network_state(state, target=target)
        out[name] = tree(target)
    return out


def tree(top):
    files = {}
    for where, _, names in os.walk(top):
        for name in names:
            path = os.path.join(where, name)
            with open(path) as f:
                files[os.path.relpath(path, top)] = f.read()
    return files


def seed(work, request):
    paths = paths_in(work)
    source = no_cloud(paths, request["files"])
    answer = {
        "metadata": source.metadata,
        "userdata": encode(source.userdata_raw or b""),
        "vendor": parts_of(source.get_vendordata()),
        "names": [],
        "rendered": {},
    }
    if "template" in request:
        text = base64.b64decode(request["template"]).decode()
        data = {"ds": {"meta_data": source.metadata}, "v1": {}}
        answer["template"] = jinja_template.render_jinja_payload(text, "user-data", data)
    config = source.network_config
    if config:
        answer["names"] = [[d[0], d[1]] for d in net.extract_physdevs(config)]
        answer["rendered"] = rendered(config, work)
    return answer


def paths_in(work):
    return helpers.Paths({"cloud_dir": os.path.join(work, "cloud"), "run_dir": os.path.join(work, "run")})


def main():
    request = json.load(sys.stdin)
    work = request["work"]
    paths = paths_in(work)
    if "documents" in request:
        answer = {"documents": [document(paths, base64.b64decode(d)) for d in request["documents"]]}
    elif "yaml" in request:
        answer = {"yaml": [loads_as(base64.b64decode(d)) for d in request["yaml"]]}
    else:
        answer = {"seeds": [seed(os.path.join(work, str(i)), r) for i, r in enumerate(request["seeds"])]}
    json.dump(answer, sys.stdout)


main()
