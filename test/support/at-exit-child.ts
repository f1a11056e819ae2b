// Starts a program that would go on for five minutes, tells its pid, and waits. As a browser's driver does, it listens
// to SIGTERM and does not end by it.
import { spawn } from 'node:child_process'
import { atExit } from './at-exit.ts'

const program = spawn('sleep', ['300'], { stdio: 'ignore' })
atExit(() => program.kill('SIGKILL'))
process.on('SIGTERM', () => {})
process.send?.(program.pid)
process.on('message', () => {})
