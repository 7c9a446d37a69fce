/** Logged selections. Each can be replayed. */

import { useState } from 'preact/hooks'
import { useActing } from '../acting'
import { ask, type PastSelection, registryPath, type Replay } from '../api'
import { useLoaded } from '../loading'
import { Failure, Notice } from '../parts/elements'
import { Scroller } from '../parts/scroller'
import { format, t } from '../texts'
import { Result } from './selection_result'

interface Replayed {
  event: PastSelection
  replay: Replay
}

export function PastSelections({ org }: { org: string | undefined }) {
  const past = useLoaded((signal) => ask<{ events: PastSelection[] }>('GET', registryPath('/events', { org }), { signal }), [org])
  const [replayed, setReplayed] = useState<Replayed>()
  const acting = useActing()
  const texts = t.playground
  const events = past.value?.value.events
  const run = (event: PastSelection) => acting.run(async () => {
    setReplayed(undefined)
    const { value } = await ask<Replay>('POST', registryPath(`/events/${event.event_id}/replay`, { org: event.org || org }))
    setReplayed({ event, replay: value })
  })
  return (
    <section class="card">
      <div><h2>{texts.past}</h2><small>{texts.pastHint}</small></div>
      {past.problem && <Failure problem={past.problem} onRetry={past.reload} />}
      {!events && !past.problem && <p role="status">{t.loading}</p>}
      {events?.length === 0 && <p>{texts.noPast}</p>}
      {acting.problem && <Failure problem={acting.problem} />}
      {replayed && <Again {...replayed} />}
      {events && events.length > 0 && (
        <Scroller label={texts.past} class="past">
          <table class="cards">
            <thead>
              <tr>{[texts.time, texts.page, texts.tier, texts.profile, texts.selected, texts.outcome].map((title) => <th key={title} scope="col">{title}</th>)}<th scope="col"><span class="hidden">{texts.replay}</span></th></tr>
            </thead>
            <tbody>
              {events.map((event) => (
                <tr key={event.event_id}>
                  <th scope="row">{format.time(event.at)}</th><td data-label={texts.page}>{event.page}</td><td data-label={texts.tier}>{event.tier}</td><td data-label={texts.profile}>{event.profile}</td>
                  <td data-label={texts.selected}>{format.count(event.selected.length)}</td><td data-label={texts.outcome}>{t.overview.outcomeNames[event.outcome ?? 'unknown'] ?? event.outcome}</td>
                  <td class="number"><button type="button" class="quiet" disabled={acting.isBusy} aria-label={texts.replayOf(format.time(event.at))} onClick={() => void run(event)}>{texts.replay}</button></td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroller>
      )}
    </section>
  )
}

function Again({ event, replay }: Replayed) {
  const texts = t.playground
  const said = [...replay.missing, ...replay.differences]
  return (
    <div class="stack">
      <h3>{texts.replayed(format.time(event.at))}</h3>
      <Notice tone={replay.same ? 'good' : 'warning'}>
        <div>{replay.same ? texts.same : replay.decided === null ? texts.impossible : texts.different}{said.length > 0 && <ul>{said.map((each) => <li key={each}>{each}</li>)}</ul>}</div>
      </Notice>
      {replay.decided && <Result profile={replay.profile} names={replay.decided} tools={replay.tools} stages={replay.stages} />}
    </div>
  )
}
