/** Experiments: the results of each, and whether one variant wins. */

import type { Experiment } from '../api'
import { Badge } from '../parts/elements'
import { Scroller } from '../parts/scroller'
import { format, t } from '../texts'
import { Interval } from './analytics_success'

const TONES = { winner: 'good', equal: 'plain', undecided: 'plain', unsound: 'bad' } as const

export function Experiments({ experiments }: { experiments: Experiment[] }) {
  const texts = t.analytics
  return (
    <section class="card" aria-label={texts.experiments}>
      <div><h2>{texts.experiments}</h2><small>{texts.experimentsHint}</small></div>
      {experiments.length === 0 && <><p>{texts.noExperiments}</p><pre tabIndex={0}>{texts.experimentCommand}</pre></>}
      {experiments.map((experiment) => <One key={experiment.name} experiment={experiment} />)}
    </section>
  )
}

function One({ experiment }: { experiment: Experiment }) {
  const texts = t.analytics
  const { variants, contrasts } = experiment
  const reach = scaleOf(contrasts.flatMap(({ low, high }) => [low ?? 0, high ?? 0]))
  const missing = Object.entries(experiment.missing).filter(([, count]) => count > 0).map(([name, count]) => `${format.compact(count)} of ${name}`)
  return (
    <div class="stack">
      <div class="row spread center">
        <h3>{experiment.name} <small>{experiment.org} {experiment.active ? texts.runs(format.time(experiment.begun_at)) : texts.ended(format.time(experiment.begun_at), format.time(experiment.ended_at))}</small></h3>
        <Badge tone={TONES[experiment.state]}>{texts.states[experiment.state]!(experiment.winner ?? '')}</Badge>
      </div>
      <Scroller label={experiment.name}>
        <table>
          <thead>
            <tr>
              <th scope="col">{texts.variant}</th><th scope="col" class="number">{texts.share}</th><th scope="col" class="number">{texts.units[experiment.unit] ?? experiment.unit}</th>
              <th scope="col" class="number">{texts.events}</th><th scope="col" class="number">{texts.unknownOutcomes}</th><th scope="col" class="number">{texts.success}</th>
            </tr>
          </thead>
          <tbody>
            {variants.map((variant) => (
              <tr key={variant.name}>
                <th scope="row">{variant.name}</th><td class="number">{format.wholeShare(variant.share)}</td><td class="number">{format.count(variant.assigned)}</td>
                <td class="number">{format.count(variant.events)}</td><td class="number">{format.count(variant.unknown)}</td><td class="number">{format.share(variant.mean)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroller>
      {contrasts.map(({ variant, against, value, low, high }) => (
        <div key={`${variant}/${against}`} class="contrast">
          <span>{texts.against(variant, against)}</span>
          {low === null || high === null ? <small>{texts.noInterval}</small> : (
            <>
              <Interval low={low} value={value} high={high} from={-reach} to={reach} label={texts.interval(texts.points(low), texts.points(high))} />
              <span class="number">{texts.points(value)} <small>({texts.interval(texts.points(low), texts.points(high))})</small></span>
            </>
          )}
        </div>
      ))}
      {missing.length > 0 && <small>{texts.missing(missing.join(', '))}</small>}
    </div>
  )
}

const SCALES = [0.05, 0.1, 0.2, 0.5, 1]

/** The smallest scale, symmetric around 0, that contains all these values. */
const scaleOf = (values: number[]) => SCALES.find((scale) => values.every((value) => Math.abs(value) <= scale)) ?? 1
