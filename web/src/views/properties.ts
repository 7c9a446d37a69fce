/** What every view is given. */

import type { Session } from '../api'

export interface ViewProperties {
  session: Session
  /** Whose rows are shown; undefined for the key's own. */
  org: string | undefined
  mayEdit: boolean
  name: string
}
