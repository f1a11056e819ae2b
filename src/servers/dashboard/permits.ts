import type { Principal } from '#streams/directory.ts'
import { isOperator, mayDo } from '#streams/key/decide.ts'
import type { Scope } from '#streams/key/facts.ts'

type Method = 'GET' | 'POST'

interface Permit {
  method: Method
  pattern: RegExp
  params: number
  scope: Scope | null
}

/** Whether this scope, or none, lets the visitor in; what is the operator's takes more than the scope. */
export function admits (scope: Scope | null, visitor: Principal): boolean {
  if (scope === null) return true
  return scope === 'operator' ? isOperator(visitor) : mayDo(visitor, scope)
}

/** What each page and form takes, as it is registered: who may not open one sees no way to it. */
export class Permits {
  private readonly permits: Permit[] = []

  /** `path` is below /dashboard. */
  add (method: Method, path: string, scope: Scope | null): void {
    const pattern = new RegExp(`^/dashboard${path === '/' ? '/?' : path.replaceAll(/:\w+/g, '[^/]+')}$`)
    this.permits.push({ method, pattern, params: path.split(':').length, scope })
    // As the router has it: a word before a parameter.
    this.permits.sort((a, b) => a.params - b.params)
  }

  /** What is no page, such as signing out, is for everybody. */
  allow (visitor: Principal, method: Method, url: string): boolean {
    const [path] = url.split('?')
    const permit = this.permits.find(one => one.method === method && one.pattern.test(path!))
    return permit === undefined || admits(permit.scope, visitor)
  }
}
