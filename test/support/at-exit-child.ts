// Starts a program that would go on for five minutes, tells its pid, and waits.
import { spawn } from 'node:child_process'
import { atExit } from './at-exit.ts'

const program = spawn('sleep', ['300'], { stdio: 'ignore' })
atExit(() => program.kill('SIGKILL'))
process.send?.(program.pid)
process.on('message', () => {})
