/** The properties of every view. */

import type { Session } from '../api'

export interface ViewProperties {
  session: Session
  /** The owner of the shown rows; undefined for the key's own organisation. */
  org: string | undefined
  mayEdit: boolean
  name: string
}
