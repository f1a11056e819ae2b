/** The key under which a remote host is counted: its address, or its IPv6 network of 48 bits, since one customer gets
 *  as much for the asking. */
export function networkOf (remote: string): string {
  // A socket that takes both families writes IPv4 so.
  const mapped = /^::ffff:(\d+(?:\.\d+){3})$/i.exec(remote)?.[1]
  if (mapped !== undefined) return mapped
  if (!remote.includes(':')) return remote
  const [head = '', tail = ''] = remote.split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':'))
  const missing = remote.includes('::') ? Math.max(0, 8 - groups(head).length - groups(tail).length) : 0
  const all = [...groups(head), ...Array<string>(missing).fill('0'), ...groups(tail)]
  return all.slice(0, 3).map(group => group.replace(/^0+(?=.)/, '')).join(':').toLowerCase()
}
