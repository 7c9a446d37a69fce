/** A field before and after a change, side by side, with the words that differ marked. */

import { diffWordsWithSpace } from 'diff'
import { t } from '../texts'

const MOST_MARKED = 20_000 // characters; a comparison by words of longer texts takes too long

const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2))

/** Characters that are invisible or change the order of others, by their numbers. */
export const visible = (text: string) =>
  text.replace(/[\u00AD\u200B-\u200F\u202A-\u202E\u2060-\u2069\uFEFF]|[\u{E0000}-\u{E007F}]/gu, (hidden) =>
    `⟨U+${hidden.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`)

/** A new field has no former side. */
export function Difference({ field, before, after }: { field: string; before: unknown; after: unknown }) {
  const [old, now] = [visible(asText(before ?? '') ?? ''), visible(asText(after ?? '') ?? '')]
  const isMarked = Boolean(old && now) && old.length + now.length <= MOST_MARKED
  const parts = isMarked ? diffWordsWithSpace(old, now) : []
  const side = (whole: string, other: 'added' | 'removed') =>
    isMarked
      ? parts.filter((part) => !part[other]).map((part, place) => (part.added || part.removed ? <mark key={place}>{part.value}</mark> : part.value))
      : whole
  return (
    <section class="stack">
      <h3>{t.catalog.fields[field] ?? field}</h3>
      {old === '' ? <div class="difference whole"><pre class="after">{now}</pre></div> : (
        <div class="difference">
          <div><h4>{t.catalog.before}</h4><pre class="before">{side(old, 'added')}</pre></div>
          <div><h4>{t.catalog.after}</h4><pre class="after">{side(now, 'removed')}</pre></div>
        </div>
      )}
    </section>
  )
}
