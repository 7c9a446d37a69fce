/** The view in the address, behind "#": the service need not know of it, and a view can be sent as a link. */

import { useEffect, useState } from 'preact/hooks'

export interface Route {
  view: string
  name: string
}

const read = (): Route => {
  const [view = '', ...rest] = location.hash.replace(/^#\/?/, '').split('/')
  return { view: view || 'overview', name: decodeURIComponent(rest.join('/')) }
}

export const linkTo = (view: string, name = '') => `#/${view}${name ? `/${encodeURIComponent(name)}` : ''}`

export function useRoute(): Route {
  const [route, setRoute] = useState(read)
  useEffect(() => {
    const follow = () => setRoute(read())
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  return route
}
