/** Whether selection works, how much it is used, how good and how fast it is. */

import { useEffect, useMemo, useState } from 'preact/hooks'
import { ask, type Broken, type Health, type Metrics, readHealth, registryPath, type Timeline, type ToolPage } from '../api'
import { type Loaded, useLoaded } from '../loading'
import { Chart } from '../parts/chart'
import { Empty, Failure } from '../parts/elements'
import { Scroller } from '../parts/scroller'
import { daysAgo, firstWhole } from '../periods'
import { linkTo } from '../route'
import { format, t } from '../texts'
import type { ViewProperties } from './properties'

const DAY_MS = 86_400_000
const AGAIN_MS = 15_000

export function Overview({ org }: ViewProperties) {
  const [days, setDays] = useState('7')
  const start = daysAgo(days)
  const since = start.toISOString()
  const per = days === '1' ? 'hour' : 'day'
  const health = useLoaded(readHealth, [])
  const metrics = useLoaded((signal) => ask<Metrics>('GET', registryPath('/analytics/metrics', { org, since }), { signal }), [org, days])
  const before = useLoaded((signal) => ask<Metrics>('GET', registryPath('/analytics/metrics', { org, since: daysBefore(since, days), until: since }), { signal }), [org, days])
  const timeline = useLoaded(
    (signal) => ask<Timeline>('GET', registryPath('/analytics/timeline', { org, since: firstWhole(start, per).toISOString(), per }), { signal }), [org, days],
  )
  useEffect(() => {
    const timer = window.setInterval(() => { if (!document.hidden) health.reload() }, AGAIN_MS)
    return () => window.clearInterval(timer)
  }, [])
  const problem = metrics.problem ?? timeline.problem
  const texts = t.overview
  return (
    <>
      <div class="title">
        <h1>{texts.title}</h1>
        <div class="choices" role="group" aria-label={texts.period}>
          {Object.entries(texts.periods).map(([value, text]) => (
            <button key={value} type="button" aria-pressed={value === days} onClick={() => setDays(value)}>{text}</button>
          ))}
        </div>
      </div>
      <Verdict health={health} failures={timeline.value?.value.degraded ?? []} />
      {problem && <Failure problem={problem} onRetry={() => { metrics.reload(); timeline.reload() }} />}
      {!metrics.value && !problem && <p role="status">{t.loading}</p>}
      <ToDo org={org} since={since} days={days} />
      {metrics.value && <Figures metrics={metrics.value.value} before={before.value?.value} days={days} />}
      {metrics.value?.value.total === 0 && <div class="card"><Empty title={texts.noEvents}><p>{texts.noEventsHint}</p></Empty></div>}
      {metrics.value && metrics.value.value.total > 0 && (
        <>
          {timeline.value && timeline.value.value.points.length > 0 && <OverTime timeline={timeline.value.value} />}
          <Breakdown metrics={metrics.value.value} failures={timeline.value?.value.degraded ?? []} />
        </>
      )}
    </>
  )
}

function Verdict({ health, failures }: { health: Loaded<Health>; failures: Timeline['degraded'] }) {
  const texts = t.overview
  const { value, problem } = health
  if (problem) return <div class="verdict bad" role="status"><div><strong>{texts.noAnswer}</strong>{t.problems.lost}</div></div>
  if (!value) return <div class="verdict" role="status">{t.loading}</div>
  const since = (part: string) => failures.find((each) => each.part === part)?.first
  const parts = value.degraded.map((part) => texts.since(part, format.time(since(part)), since(part) !== undefined)).join(', ')
  const [tone, title] = !value.ready ? ['bad', texts.notReady] : parts ? ['warning', texts.degraded] : ['good', texts.ready]
  return (
    <div class={`verdict ${tone}`} role="status">
      <div><strong>{title}</strong>{parts ? texts.failing(parts) : texts.allWell}</div>
    </div>
  )
}

/** Tasks for a person: changes to approve, failing tools, tools to review. */
function ToDo({ org, since, days }: { org: string | undefined; since: string; days: string }) {
  const texts = t.overview
  const count = (parameters: Record<string, string | boolean>) => useLoaded(
    async (signal) => (await ask<ToolPage>('GET', registryPath('/tools', { org, limit: 1, ...parameters }), { signal })).value.total ?? 0, [org])
  const waiting = [count({ review: 'pending' }), count({ review: 'changed' })]
  const flagged = count({ flagged: true })
  const broken = useLoaded((signal) => ask<{ broken: Broken[] }>('GET', registryPath('/analytics/broken', { org, since }), { signal }), [org, days])
  const numberOf = (lists: typeof waiting) => lists.reduce((sum, list) => sum + (list.value ?? 0), 0)
  const out = broken.value?.value.broken.filter((each) => each.back === null) ?? []
  const items: [number, (count: number) => string, string][] = [
    [out.length, texts.stopped, linkTo('analytics')], [numberOf(waiting), texts.waiting, linkTo('approval')], [numberOf([flagged]), texts.flagged, linkTo('catalog')],
  ]
  const open = items.filter(([number]) => number > 0)
  if (open.length === 0) return null
  return (
    <nav class="to-do" aria-label={texts.toDo}>
      {open.map(([number, text, link]) => <a key={link} href={link}>{text(number)}<span aria-hidden="true"> →</span></a>)}
    </nav>
  )
}

const daysBefore = (instant: string, days: string) => new Date(Date.parse(instant) - Number(days) * DAY_MS).toISOString()

function Figures({ metrics, before, days }: { metrics: Metrics; before: Metrics | undefined; days: string }) {
  const texts = t.overview
  const { latency_us: latency, tokens } = metrics
  const old = before && before.total > 0 ? before : undefined
  const figures: [string, string, string, string?][] = [
    [texts.selections, format.compact(metrics.total), old ? '' : metrics.last ? texts.last(format.time(metrics.last)) : '', old && texts.grown(metrics.total / old.total - 1)],
    [texts.success, format.share(metrics.success), texts.successHint, old?.success != null && metrics.success !== null ? texts.points(metrics.success - old.success) : undefined],
    [texts.saved, format.compact(tokens.saved), texts.savedHint(format.wholeShare(tokens.saved_share))],
    [texts.latency, format.microseconds(latency.p95), texts.latencyHint(format.microseconds(latency.p50), format.microseconds(latency.p99)), old?.latency_us.p95 && latency.p95 ? texts.grown(latency.p95 / old.latency_us.p95 - 1) : undefined],
    [texts.perSelection, format.decimal(metrics.tools_per_event), texts.perSelectionHint],
  ]
  return (
    <dl class="figures">
      {figures.map(([label, value, hint, moved]) => (
        <div key={label} class="card figure"><dt>{label}</dt><dd><span class="value">{value}</span>{moved && <small title={texts.comparedWith(texts.periods[days]!)}>{moved}</small>}{hint && <small>{hint}</small>}</dd></div>
      ))}
    </dl>
  )
}

function OverTime({ timeline }: { timeline: Timeline }) {
  const texts = t.overview
  const { per } = timeline
  const points = useMemo(() => filled(timeline), [timeline])
  const times = useMemo(() => points.map((point) => point.at), [points])
  const charts = useMemo(() => [
    { title: texts.overTime, kind: 'bars' as const, values: points.map((point) => point.selections), shape: format.compact },
    { title: texts.successOverTime, kind: 'line' as const, values: points.map((point) => point.success), shape: format.share, scale: format.wholeShare, range: [0, 1] as [number, number] },
    { title: texts.savedOverTime, kind: 'bars' as const, values: points.map((point) => point.saved), shape: format.compact },
    { title: texts.latencyOverTime, kind: 'line' as const, values: points.map((point) => point.latency_us), shape: format.microseconds },
  ], [points])
  return (
    <div class="columns">
      {charts.map(({ title, kind, values, shape, scale, range }) => (
        <section key={title} class="card">
          <div><h2>{title}</h2><small>{texts.overTimeHint(per === 'day' ? texts.perDay : texts.perHour)}</small></div>
          <Chart label={title} kind={kind} times={times} values={values} format={shape} {...(range ? { range } : {})} {...(scale ? { scale } : {})} />
          <details>
            <summary>{texts.asTable}</summary>
            <Scroller label={title}>
              <table><tbody>{timeline.points.map((point, place) => <tr key={place}><th scope="row">{per === 'day' ? format.day(point.at) : format.time(point.at)}</th><td class="number">{shape(values[times.indexOf(point.at)])}</td></tr>)}</tbody></table>
            </Scroller>
          </details>
        </section>
      ))}
    </div>
  )
}

type Point = { at: string; selections: number; success: number | null; latency_us: number | null; saved: number }

/** The points, with zeros for times between them in which nothing was selected. */
function filled({ per, points }: Timeline): Point[] {
  const step = per === 'day' ? DAY_MS : DAY_MS / 24
  const known = new Map(points.map((point) => [Date.parse(point.at), point]))
  const [first = 0, last = -1] = [Math.min(...known.keys()), Math.max(...known.keys())]
  const found: Point[] = []
  for (let at = first; at <= last; at += step) {
    const text = new Date(at).toISOString()
    const name = per === 'day' ? text.slice(0, 10) : `${text.slice(0, 16)}Z`
    found.push(known.get(at) ?? { at: name, selections: 0, success: null, latency_us: null, saved: 0 })
  }
  return found
}

function Breakdown({ metrics, failures }: { metrics: Metrics; failures: Timeline['degraded'] }) {
  const texts = t.overview
  const outcomes = Object.entries(metrics.outcomes).filter(([, count]) => count > 0)
  return (
    <div class="columns">
      <Shares title={texts.outcomes} rows={outcomes.map(([name, count]) => [texts.outcomeNames[name] ?? name, count])} total={metrics.total} />
      <Shares
        title={texts.profiles} total={metrics.total}
        rows={metrics.methods.map((each) => [each.experiment ? texts.inExperiment(each.variant ?? each.profile, each.experiment) : each.profile, each.events])}
      />
      {failures.length > 0 && (
        <section class="card">
          <h2>{texts.degradedEvents}</h2>
          <table>
            <tbody>
              {failures.map((each) => (
                <tr key={each.part}>
                  <th scope="row">{each.part}</th>
                  <td><small>{texts.degradedSince(format.time(each.first), format.time(each.last))}</small></td>
                  <td class="number">{format.count(each.selections)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </div>
  )
}

function Shares({ title, rows, total }: { title: string; rows: [string, number][]; total: number }) {
  return (
    <section class="card">
      <h2>{title}</h2>
      <table>
        <tbody>
          {rows.map(([name, count]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td class="bar"><span class="share" aria-hidden="true"><span style={{ width: `${(100 * count) / total}%` }} /></span></td>
              <td class="number">{format.count(count)}</td>
              <td class="number">{format.share(count / total)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}
