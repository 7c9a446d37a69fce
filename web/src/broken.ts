/** The tools that broke: asked again while the service still reads outcomes. */

import { useEffect } from 'preact/hooks'
import { type Answer, ask, type Broken, registryPath } from './api'
import { type Loaded, useLoaded } from './loading'

export interface BrokenTools {
  broken: Broken[]
  complete: boolean
}

const AGAIN_MS = 2_000

export function useBroken(org: string | undefined, since: string, days: string): Loaded<Answer<BrokenTools>> {
  const found = useLoaded((signal) => ask<BrokenTools>('GET', registryPath('/analytics/broken', { org, since }), { signal }), [org, days])
  useEffect(() => {
    if (found.value?.value.complete !== false) return
    const timer = window.setTimeout(found.reload, AGAIN_MS)
    return () => window.clearTimeout(timer)
  }, [found.value])
  return found
}
