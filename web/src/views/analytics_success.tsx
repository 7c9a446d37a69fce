/** How well tools do: hit rate and calls over time, tools that broke, reliability. */

import { useState } from 'preact/hooks'
import type { Accuracy, Arm, Broken } from '../api'
import { Chart } from '../parts/chart'
import { Badge, Empty, ToolLink } from '../parts/elements'
import { Scroller } from '../parts/scroller'
import { format, t } from '../texts'

const FIRST = 12 // tools without a click

export function Days({ accuracy }: { accuracy: Accuracy }) {
  const texts = t.analytics
  if (accuracy.days.length === 0) return <div class="card"><Empty title={texts.noCalls} /></div>
  const days = accuracy.days.map((day) => day.day)
  return (
    <div class="columns">
      <section class="card">
        <div><h2>{texts.hitRate}</h2><small>{texts.hitRateHint}</small></div>
        <Chart label={texts.hitRate} times={days} values={accuracy.days.map((day) => day.rate)} range={[0, 1]} format={format.share} scale={format.wholeShare} />
        <DayTable label={texts.hitRate} rows={accuracy.days.map((day) => [day.day, format.share(day.rate)])} />
      </section>
      <section class="card">
        <div><h2>{texts.calls}</h2><small>{texts.callsHint(format.count(accuracy.calls))}</small></div>
        <Chart label={texts.calls} kind="bars" times={days} values={accuracy.days.map((day) => day.calls)} format={format.compact} />
        <DayTable label={texts.calls} rows={accuracy.days.map((day) => [day.day, format.count(day.calls)])} />
      </section>
    </div>
  )
}

function DayTable({ label, rows }: { label: string; rows: [string, string][] }) {
  return (
    <details>
      <summary>{t.overview.asTable}</summary>
      <Scroller label={label}>
        <table><tbody>{rows.map(([day, value]) => <tr key={day}><th scope="row">{format.day(day)}</th><td class="number">{value}</td></tr>)}</tbody></table>
      </Scroller>
    </details>
  )
}

export function BrokenCard({ broken }: { broken: Broken[] }) {
  const texts = t.analytics
  return (
    <section class="card" aria-label={texts.broken}>
      <div><h2>{texts.broken}</h2><small>{texts.brokenHint}</small></div>
      {broken.length === 0 ? <p>{texts.noBroken}</p> : (
        <table>
          <tbody>
            {broken.map((each) => (
              <tr key={`${each.org}/${each.tool}/${each.alarm}`}>
                <th scope="row">
                  <ToolLink name={each.tool} />{each.org && <small> {each.org}</small>}
                  <small class="line">{texts.failed(each.failures, each.reporters)} · {texts.workedBefore(format.share(each.worked))}</small>
                </th>
                <td class="number">{each.back ? <Badge tone="good">{texts.back(format.time(each.back))}</Badge> : <Badge tone="bad">{texts.since(format.time(each.alarm))}</Badge>}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

export function Arms({ arms }: { arms: Arm[] }) {
  const [isWhole, setIsWhole] = useState(false)
  const texts = t.analytics
  const sorted = [...arms].filter((arm) => arm.called > 0).sort((a, b) => a.high - b.high)
  return (
    <section class="card" aria-label={texts.arms}>
      <div><h2>{texts.arms}</h2><small>{texts.armsHint}</small></div>
      {sorted.length === 0 ? <p>{texts.noArms}</p> : (
        <table>
          <thead><tr><th scope="col">{t.playground.tool}</th><th scope="col" class="number">{texts.called}</th><th scope="col" class="bar"><span class="hidden">95 %</span></th><th scope="col" class="number">{texts.success}</th></tr></thead>
          <tbody>
            {(isWhole ? sorted : sorted.slice(0, FIRST)).map((arm) => (
              <tr key={`${arm.org}/${arm.tool}`}>
                <th scope="row"><ToolLink name={arm.tool} />{arm.org && <small> {arm.org}</small>}</th>
                <td class="number">{format.count(arm.called)}</td>
                <td class="bar"><Interval low={arm.low} value={arm.mean} high={arm.high} label={texts.interval(format.share(arm.low), format.share(arm.high))} /></td>
                <td class="number">{format.share(arm.mean)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {sorted.length > FIRST && <div><button type="button" class="quiet" aria-expanded={isWhole} onClick={() => setIsWhole(!isWhole)}>{isWhole ? texts.fewer : texts.more(sorted.length - FIRST)}</button></div>}
    </section>
  )
}

/** An interval and the value in it, on a scale from `from` to `to`. */
export function Interval({ low, value, high, label, from = 0, to = 1 }: { low: number; value: number; high: number; label: string; from?: number; to?: number }) {
  const at = (x: number) => `${(100 * (Math.min(to, Math.max(from, x)) - from)) / (to - from)}%`
  return (
    <span class="interval" role="img" aria-label={label} title={label}>
      {from < 0 && <span class="zero" style={{ left: at(0) }} />}
      <span class="range" style={{ left: at(low), width: `calc(${at(high)} - ${at(low)})` }} />
      <span class="value" style={{ left: at(value) }} />
    </span>
  )
}
