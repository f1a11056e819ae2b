# Sourced by run: real mail servers, checkers and a proxy for test/peers.

readonly PEER_PACKAGES=(postfix opendkim spamassassin python3-dkim python3-nacl swaks)
# What Exim's program needs; Exim itself cannot be installed beside Postfix.
readonly EXIM_LIBRARIES=(libidn12 libgnutls-dane0 libnsl2)

install_peers() {
  export DEBIAN_FRONTEND=noninteractive
  timeout 600 apt-get install -y -qq "${APT_FAST[@]}" --no-install-recommends "${PEER_PACKAGES[@]}" "${EXIM_LIBRARIES[@]}" > "$work/peers.log" 2>&1 ||
    { tail -n 40 "$work/peers.log"; return 1; }
  mkdir "$work/unpacked"
  # Caddy is unpacked, too: installed, it starts.
  (cd "$work/unpacked" && timeout 120 apt-get download -qq exim4-daemon-light caddy && for deb in *.deb; do dpkg -x "$deb" .; done) >> "$work/peers.log" 2>&1 ||
    { tail -n 40 "$work/peers.log"; return 1; }
  id Debian-exim > /dev/null 2>&1 || useradd --system --no-create-home Debian-exim
  chmod 755 "$work"
  python3 -m venv "$work/peers"
  timeout 300 "$work/peers/bin/pip" install --quiet --disable-pip-version-check -r test/peers/requirements.txt >> "$work/peers.log" 2>&1 ||
    { tail -n 40 "$work/peers.log"; return 1; }
  export JETPOST_TEST_EXIM="$work/unpacked/usr/sbin/exim4" JETPOST_TEST_CADDY="$work/unpacked/usr/bin/caddy" JETPOST_TEST_PYTHON="$work/peers/bin/python"
}
