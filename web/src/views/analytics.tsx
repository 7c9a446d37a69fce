/** The success of tools, their use by page, and the results of experiments. */

import { useState } from 'preact/hooks'
import { type Accuracy, type Arm, ask, type Broken, type Drift, type Experiment, type Heatmap, type PluginCalls, registryPath, type Unused } from '../api'
import { useLoaded } from '../loading'
import { Failure } from '../parts/elements'
import { daysAgo, firstWhole } from '../periods'
import { t } from '../texts'
import { PluginCallsCard, ToolCallsCard } from './analytics_calls'
import { Experiments } from './analytics_experiments'
import { Arms, BrokenCard, Days } from './analytics_success'
import { DriftCard, Heat, UnusedCard } from './analytics_usage'
import type { ViewProperties } from './properties'

const MOST_ARMS = 100

export function Analytics({ org }: ViewProperties) {
  const [of, setOf] = useState('called')
  const [days, setDays] = useState('30')
  const start = daysAgo(days)
  const since = start.toISOString()
  const read = <T,>(path: string, parameters: Record<string, string | number>, key: unknown[]) =>
    useLoaded((signal) => ask<T>('GET', registryPath(path, { org, ...parameters }), { signal }), [org, ...key])
  const broken = useLoaded((signal) => ask<{ broken: Broken[] }>('GET', registryPath('/analytics/broken', { org, since }), { signal }), [org, days])
  const accuracy = read<Accuracy>('/analytics/accuracy', { since: firstWhole(start, 'day').toISOString() }, [days])
  const arms = read<{ arms: Arm[] }>('/analytics/arms', { limit: MOST_ARMS }, [])
  const plugins = read<{ plugins: PluginCalls[] }>('/plugins/calls', { since }, [days])
  const experiments = read<{ experiments: Experiment[] }>('/analytics/experiments', {}, [])
  const heatmap = read<Heatmap>('/analytics/heatmap', { of, since }, [of, days])
  const unused = read<Unused>('/analytics/unused', { since }, [days])
  const drift = read<Drift>('/analytics/drift', {}, [])
  const all = [broken, accuracy, arms, plugins, experiments, heatmap, unused, drift]
  const problem = all.find((each) => each.problem)?.problem
  const texts = t.analytics
  return (
    <>
      <div class="title">
        <h1>{texts.title}</h1>
        <div class="choices" role="group" aria-label={t.overview.period}>
          {Object.entries(t.overview.periods).map(([value, text]) => (
            <button key={value} type="button" aria-pressed={value === days} onClick={() => setDays(value)}>{text}</button>
          ))}
        </div>
      </div>
      {problem && <Failure problem={problem} onRetry={() => all.forEach((each) => each.problem && each.reload())} />}
      {!problem && all.some((each) => !each.value) && <p role="status">{t.loading}</p>}
      {broken.value && <BrokenCard {...broken.value.value} />}
      {accuracy.value && <Days accuracy={accuracy.value.value} />}
      {experiments.value && <Experiments experiments={experiments.value.value.experiments} />}
      <div class="columns">
        {arms.value && <Arms arms={arms.value.value.arms} />}
        {unused.value && <UnusedCard unused={unused.value.value} />}
      </div>
      {plugins.value && <PluginCallsCard plugins={plugins.value.value.plugins} />}
      <ToolCallsCard org={org} since={since} days={days} />
      {heatmap.value && <Heat heatmap={heatmap.value.value} of={of} onChoose={setOf} />}
      {drift.value?.value.stored && <DriftCard drift={drift.value.value} />}
    </>
  )
}
