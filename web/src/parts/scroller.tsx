/** Boxes that scroll. An edge fades if there is more content beyond it. */

import type { ComponentChildren, RefObject } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'

const SLACK_PX = 1 // sizes are rounded

/** Keeps in `data-more` the edges of a box beyond which it can scroll; the style sheet fades them. */
export function useFade(box: RefObject<HTMLElement | null>) {
  useLayoutEffect(() => {
    const element = box.current!
    const mark = () => {
      const { scrollLeft, scrollTop, scrollWidth, scrollHeight, clientWidth, clientHeight } = element
      const edges = {
        left: scrollLeft > SLACK_PX,
        right: scrollLeft + clientWidth < scrollWidth - SLACK_PX,
        below: scrollTop + clientHeight < scrollHeight - SLACK_PX,
      }
      element.dataset.more = Object.entries(edges).filter(([, isMore]) => isMore).map(([edge]) => edge).join(' ')
    }
    const sizes = new ResizeObserver(mark)
    for (const each of [element, ...element.children]) sizes.observe(each)
    element.addEventListener('scroll', mark, { passive: true })
    mark()
    return () => { sizes.disconnect(); element.removeEventListener('scroll', mark) }
  }, [])
}

/** A part that scrolls by itself. It can get the focus, so that the keyboard can scroll it. */
export function Scroller({ label, class: name = '', children }: { label: string; class?: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null)
  useFade(box)
  return <div class={`scroll ${name}`} ref={box} tabIndex={0} role="region" aria-label={label}>{children}</div>
}
