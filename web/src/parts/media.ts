import { useEffect, useState } from 'preact/hooks'

/** Whether a media query holds, followed while it changes. */
export function useMedia(query: string): boolean {
  const [holds, setHolds] = useState(() => matchMedia(query).matches)
  useEffect(() => {
    const media = matchMedia(query)
    const follow = () => setHolds(media.matches)
    media.addEventListener('change', follow)
    return () => media.removeEventListener('change', follow)
  }, [query])
  return holds
}

/** Whether the window is as narrow as a phone, by the style sheet's limit. */
export const useIsPhone = () => useMedia('(max-width: 44rem)')
