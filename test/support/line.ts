import { connect, createServer, type Server, type Socket } from 'node:net'
import type { Ending } from './servers.ts'

/** A wire to a server that a test can cut. */
export interface Line {
  port: number
  /** Breaks all connections and refuses new ones. */
  cut(): void
  /** What the server says is lost from now on. */
  deafen(): void
  mend(): void
}

export async function openLine (t: Ending, host: string, port: number): Promise<Line> {
  const sockets = new Set<Socket>()
  let whole = true
  let deaf = false
  const server: Server = createServer(near => {
    if (!whole) return void near.destroy()
    const far = connect(port, host)
    for (const [socket, other] of [[near, far], [far, near]] as const) {
      sockets.add(socket)
      socket.on('error', () => {}).on('close', () => {
        sockets.delete(socket)
        other.destroy()
      })
    }
    near.pipe(far).on('data', chunk => void (deaf || near.write(chunk)))
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    whole = false
    for (const socket of sockets) socket.destroy()
  }
  t.teardown(async () => {
    cut()
    await new Promise(resolve => server.close(resolve))
  })
  return {
    port: (server.address() as { port: number }).port,
    cut,
    deafen: () => {
      deaf = true
    },
    mend: () => {
      whole = true
      deaf = false
    }
  }
}
