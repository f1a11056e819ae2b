# Sourced by run: real mail servers and checkers for test/peers.

readonly PEER_PACKAGES=(postfix opendkim spamassassin python3-dkim python3-nacl)
# What Exim's program needs; Exim itself cannot be installed beside Postfix.
readonly EXIM_LIBRARIES=(libidn12 libgnutls-dane0 libnsl2)

install_peers() {
  export DEBIAN_FRONTEND=noninteractive
  timeout 600 apt-get install -y -qq --no-install-recommends "${PEER_PACKAGES[@]}" "${EXIM_LIBRARIES[@]}" > "$work/peers.log" 2>&1 ||
    { tail -n 40 "$work/peers.log"; return 1; }
  mkdir "$work/exim"
  (cd "$work/exim" && timeout 120 apt-get download -qq exim4-daemon-light && dpkg -x exim4-daemon-light_*.deb .) >> "$work/peers.log" 2>&1 ||
    { tail -n 40 "$work/peers.log"; return 1; }
  id Debian-exim > /dev/null 2>&1 || useradd --system --no-create-home Debian-exim
  chmod 755 "$work"
  export JETPOST_TEST_EXIM="$work/exim/usr/sbin/exim4"
}
