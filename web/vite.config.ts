import { defineConfig } from 'vite'

// The package takes the files from here; git ignores the folder. `license` writes the licences of what is bundled.
export default defineConfig({
  base: './',
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  server: { proxy: { '/admin/session': 'http://127.0.0.1:8080', '/internal': 'http://127.0.0.1:8080', '/readyz': 'http://127.0.0.1:8080' } },
  build: {
    outDir: '../python/toolroll/server/static',
    emptyOutDir: true,
    license: { fileName: 'licenses.md' },
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // a data: URL of a script or style would need a wider Content-Security-Policy
  },
})
