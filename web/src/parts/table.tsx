/** A table that draws only the visible rows, so that ten thousand scroll like ten. */

import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from '@tanstack/virtual-core'
import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks'
import { useIsPhone } from './media'
import { useFade } from './scroller'

export interface Column<T> {
  key: string
  title: ComponentChildren
  /** A size of CSS grid, such as 2fr or 6rem. */
  width: string
  cell: (row: T) => ComponentChildren
  isNumber?: boolean
  /** Left out on a phone. */
  isExtra?: boolean
}

interface Properties<T> {
  label: string
  rows: T[]
  columns: Column<T>[]
  rowKey: (row: T) => string
  /** The number of all rows, including unread ones, if it is known. */
  total?: number | null
  /** Whether there are more rows than these. */
  hasMore?: boolean
  /** Called when the last rows come into sight. */
  onEnd?: () => void
}

const ROW_PX = 45
const ROWS_BEYOND = 8
const ROWS_AHEAD = 80 // of the end, where more are read: before one gets there

export function Table<T>({ label, rows, columns, rowKey, total = null, hasMore = false, onEnd }: Properties<T>) {
  const box = useRef<HTMLDivElement>(null)
  useFade(box)
  const isPhone = useIsPhone()
  const shown = isPhone ? columns.filter((column) => !column.isExtra) : columns
  const [, redraw] = useReducer((n: number) => n + 1, 0)
  const options = {
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_PX,
    getItemKey: (place: number) => rowKey(rows[place]!),
    overscan: ROWS_BEYOND,
    observeElementRect,
    observeElementOffset,
    scrollToFn: elementScroll,
    onChange: () => redraw(undefined),
  }
  const [virtualizer] = useState(() => new Virtualizer<HTMLDivElement, HTMLDivElement>(options))
  virtualizer.setOptions(options)
  useLayoutEffect(() => virtualizer._didMount(), [])
  useLayoutEffect(() => virtualizer._willUpdate())
  const items = virtualizer.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useLayoutEffect(() => {
    if (hasMore && rows.length > 0 && last >= rows.length - ROWS_AHEAD) onEnd?.()
  }, [hasMore, last, rows.length])

  const template = { gridTemplateColumns: shown.map((column) => `minmax(0, ${column.width})`).join(' ') }
  return (
    // A scrolling region must be reachable by keyboard, so it is in the order of tabs.
    <div class="table" ref={box} tabIndex={0} role="table" aria-label={label} aria-rowcount={hasMore ? (total ?? -2) + 1 : rows.length + 1}>
      <div role="rowgroup" class="table-head">
        <div role="row" class="table-row" aria-rowindex={1} style={template}>
          {shown.map((column) => (
            <div role="columnheader" key={column.key} class={column.isNumber ? 'number' : undefined}>{column.title}</div>
          ))}
        </div>
      </div>
      <div role="rowgroup" class="table-body" style={{ height: `${virtualizer.getTotalSize()}px` }}>
        {items.map((item) => {
          const row = rows[item.index]
          if (row === undefined) return null
          return (
            <div
              role="row" class="table-row" key={item.key} aria-rowindex={item.index + 2} data-index={item.index}
              ref={(element) => { if (element) virtualizer.measureElement(element) }}
              style={{ ...template, transform: `translateY(${item.start}px)` }}
            >
              {shown.map((column) => (
                <div role="cell" key={column.key} class={column.isNumber ? 'number' : undefined}>{column.cell(row)}</div>
              ))}
            </div>
          )
        })}
      </div>
    </div>
  )
}
