import type { Test } from 'tap'
import type { PolicyFault } from '#src/workers/sender/mx.ts'
import { openDnsServer, type DnsServer } from './dns-server.ts'
import { openRig, type Rig, type RigOptions } from './sender-rig.ts'
import { startSink, type Sink, type SinkOptions } from './smtp-sink.ts'

/** A sender that goes straight to MX hosts, on a DNS of its own. `rig.sink` is its catcher. */
export interface DirectRig extends Rig {
  dns: DnsServer
  faults: PolicyFault[]
  /** An MX host of this name at 127.0.0.`n`, on the port they all have. */
  mxHost(name: string, n: number, options?: SinkOptions): Promise<Sink>
}

export async function openDirect (t: Test, options: RigOptions = {}): Promise<DirectRig> {
  const dns = await openDnsServer(t)
  const faults: PolicyFault[] = []
  const rig = await openRig(t, {
    ...options,
    dns: dns.address,
    smtpUrl: 'direct:',
    direct: { onPolicyFault: fault => faults.push(fault), ...options.direct },
    timings: { route: { holdMs: 60_000, negativeMs: 300, missingMs: 300 }, ...options.timings }
  })

  async function mxHost (name: string, n: number, sinkOptions: SinkOptions = {}): Promise<Sink> {
    const host = `127.0.0.${n}`
    dns.host(name, [host])
    const sink = await startSink({ ...sinkOptions, host, port: rig.sink.port })
    t.teardown(() => sink.stop())
    return sink
  }

  return { ...rig, dns, faults, mxHost }
}
