/** Values that a view reads from the service: the last good value stays while a newer one cannot be read. */

import { useCallback, useEffect, useState } from 'preact/hooks'
import { Problem } from './api'

export interface Loaded<T> {
  value: T | undefined
  problem: Problem | undefined
  isLoading: boolean
  reload: () => void
}

export const RETRY_MS = 5_000

/** Whether the same request may succeed later. */
export const isPassing = (problem: Problem) => problem.status === 0 || problem.status === 503

/** Calls `read` now and whenever one of `of` changes; again after some seconds if the service does not answer. */
export function useLoaded<T>(read: (signal: AbortSignal) => Promise<T>, of: unknown[]): Loaded<T> {
  const [state, setState] = useState<{ value?: T; problem?: Problem; isLoading: boolean }>({ isLoading: true })
  const [round, setRound] = useState(0)
  useEffect(() => {
    const stop = new AbortController()
    let timer = 0
    setState((before) => ({ ...before, isLoading: true }))
    read(stop.signal).then(
      (value) => !stop.signal.aborted && setState({ value, isLoading: false }),
      (error: unknown) => {
        if (stop.signal.aborted) return
        const problem = error instanceof Problem ? error : new Problem(-1, String(error))
        setState((before) => ({ ...before, problem, isLoading: false }))
        if (problem.status === 401) window.dispatchEvent(new Event('signed-out'))
        if (isPassing(problem)) timer = window.setTimeout(() => setRound((n) => n + 1), RETRY_MS)
      },
    )
    return () => {
      stop.abort()
      window.clearTimeout(timer)
    }
  }, [...of, round])
  const reload = useCallback(() => {
    setState((before) => ({ ...before, isLoading: true })) // at once: the shown value may be out of date
    setRound((n) => n + 1)
  }, [])
  return { value: state.value, problem: state.problem, isLoading: state.isLoading, reload }
}
