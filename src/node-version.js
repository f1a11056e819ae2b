// Plain JavaScript on purpose: it must run on the very Node versions it turns away.
const NODE_MAJOR_MIN = 24

if (Number(process.versions.node.split('.')[0]) < NODE_MAJOR_MIN) {
  console.error(
    `Jetpost needs Node ${NODE_MAJOR_MIN} or newer and this is ${process.versions.node}: on Linux \`npm ci\` brings ` +
      'it along (use `npm start` or `npx jetpost`), elsewhere install it from nodejs.org.'
  )
  process.exit(1)
}
