/** A person's action: one at a time, with its problem or a text about its result. */

import { useState } from 'preact/hooks'
import { Problem } from './api'

export interface Acting {
  isBusy: boolean
  problem: Problem | undefined
  done: string
  /** Runs it, and returns whether it worked. `said` is shown then. */
  run: (action: () => Promise<unknown>, said?: string) => Promise<boolean>
}

export function useActing(): Acting {
  const [state, setState] = useState<{ isBusy: boolean; problem?: Problem; done: string }>({ isBusy: false, done: '' })
  const run = async (action: () => Promise<unknown>, said = '') => {
    setState({ isBusy: true, done: '' })
    try {
      await action()
      setState({ isBusy: false, done: said })
      return true
    } catch (error) {
      const problem = error instanceof Problem ? error : new Problem(-1, String(error))
      setState({ isBusy: false, problem, done: '' })
      if (problem.status === 401) window.dispatchEvent(new Event('signed-out'))
      return false
    }
  }
  return { isBusy: state.isBusy, problem: state.problem, done: state.done, run }
}
