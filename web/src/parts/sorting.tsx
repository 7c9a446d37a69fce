/** Tables whose rows a person puts in order by a click on the title of a column. */

import { useState } from 'preact/hooks'

type Value = number | string | null

export interface Order<T> {
  rows: T[]
  by: string
  isAscending: boolean
  choose: (key: string) => void
}

/** The rows by the values of one column, at first the highest first; rows without a value come last. */
export function useOrder<T>(rows: T[], values: Record<string, (row: T) => Value>, first: string): Order<T> {
  const [{ by, isAscending }, setOrder] = useState({ by: first, isAscending: false })
  const valueOf = values[by]!
  const compare = (one: T, other: T) => {
    const [a, b] = [valueOf(one), valueOf(other)]
    if (a === null || b === null) return Number(a === null) - Number(b === null)
    const order = typeof a === 'string' ? a.localeCompare(String(b)) : a - Number(b)
    return isAscending ? order : -order
  }
  const choose = (key: string) => setOrder({ by: key, isAscending: key === by ? !isAscending : false })
  return { rows: [...rows].sort(compare), by, isAscending, choose }
}

/** The title of a column; `of` is its key in the order. */
export function SortTitle<T>({ order, of, title, isNumber = true }: { order: Order<T>; of: string; title: string; isNumber?: boolean }) {
  const isChosen = order.by === of
  return (
    <th scope="col" class={isNumber ? 'number' : undefined} aria-sort={isChosen ? (order.isAscending ? 'ascending' : 'descending') : 'none'}>
      <button type="button" class="sort" onClick={() => order.choose(of)}>{title}<span aria-hidden="true">{isChosen ? (order.isAscending ? ' ▲' : ' ▼') : ''}</span></button>
    </th>
  )
}
