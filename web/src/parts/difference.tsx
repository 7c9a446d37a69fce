/** A field before and after a change, side by side. */

import { t } from '../texts'

const asText = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value, null, 2))

/** Characters that show nothing, or change the order of others, by their numbers. */
const visible = (text: string) =>
  text.replace(/[\u00AD\u200B-\u200F\u202A-\u202E\u2060-\u2069\uFEFF]|[\u{E0000}-\u{E007F}]/gu, (hidden) =>
    `⟨U+${hidden.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}⟩`)

export function Difference({ field, before, after }: { field: string; before: unknown; after: unknown }) {
  return (
    <section class="stack">
      <h3>{t.catalog.fields[field] ?? field}</h3>
      <div class="difference">
        <div><h4>{t.catalog.before}</h4><pre class="before">{visible(asText(before ?? '') ?? '')}</pre></div>
        <div><h4>{t.catalog.after}</h4><pre class="after">{visible(asText(after ?? '') ?? '')}</pre></div>
      </div>
    </section>
  )
}
