# Sourced by run: what makes API clients of the OpenAPI document, and clients of Resend, for test/clients.

export JETPOST_TEST_GENERATORS="$work/generators"

install_generators() {
  cp -r test/clients/generators "$JETPOST_TEST_GENERATORS"
  cd "$JETPOST_TEST_GENERATORS"
  timeout 300 npm ci --no-audit --no-fund
  python3 -m venv venv
  timeout 300 venv/bin/pip install --quiet --disable-pip-version-check -r requirements.txt
  timeout 300 go build -C resend-go -o use .
}
