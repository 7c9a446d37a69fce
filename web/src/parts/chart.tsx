/** A line over days or hours. A table below has the same figures, for people who cannot see the picture. */

import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { format as formats } from '../texts'
import { useMedia } from './media'

interface Properties {
  label: string
  /** Days such as 2026-03-01, or hours such as 2026-03-01T17:00Z; evenly spaced. */
  times: string[]
  values: (number | null)[]
  format: (value: number | null | undefined) => string
  /** Format of the scale, if it differs from the values' format. */
  scale?: (value: number | null | undefined) => string
  /** The range of the scale; from 0 up to the data without it. */
  range?: [number, number]
  /** Bars are of counts. */
  kind?: 'line' | 'bars'
}

const HEIGHT_PX = 200
const X_AXIS_PX = 28
const Y_AXIS_PX = 52
const DAY_S = 86_400
const HOUR_S = 3_600
const WHOLE = [1, 10, 100, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11].flatMap((power) => [power, 2 * power, 5 * power]) // steps of counts

export function Chart({ label, times: instants, values, format, scale = format, range, kind = 'line' }: Properties) {
  const box = useRef<HTMLDivElement>(null)
  const isDark = useMedia('(prefers-color-scheme: dark)')
  const theme = document.documentElement.dataset.theme
  useEffect(() => {
    const element = box.current!
    const styles = getComputedStyle(element)
    const [line, text, grid, bar] = ['accent', 'soft', 'line', 'bar'].map((name) => colour(element, name))
    const axis = { stroke: text!, font: `12px ${styles.fontFamily}`, grid: { stroke: grid!, width: 1 }, ticks: { show: false } }
    const times = instants.map((instant) => Date.parse(instant) / 1_000)
    const isHours = instants[0]?.includes('T') ?? false
    const step = isHours ? HOUR_S : DAY_S
    const first = times[0] ?? 0
    const last = times.at(-1) ?? 0
    const plot = new uPlot(
      {
        width: element.clientWidth, height: HEIGHT_PX, tzDate: (at) => uPlot.tzDate(new Date(at * 1_000), 'Etc/UTC'),
        padding: [10, 18, 0, 0], cursor: { drag: { x: false, y: false }, y: false }, legend: { show: false },
        hooks: { setCursor: [(plot) => tell(plot, box.current!, isHours, values, format)] },
        scales: {
          x: { time: true, range: [first - step / 2, last + step / 2] },
          y: { range: range ?? ((_, __, most) => [0, Math.max(1, most * 1.1)]) },
        },
        axes: [{ ...axis, grid: { show: false }, size: X_AXIS_PX, incrs: isHours ? [3 * HOUR_S, 6 * HOUR_S, 12 * HOUR_S, DAY_S] : [DAY_S, 2 * DAY_S, 7 * DAY_S, 14 * DAY_S], values: (_, marks) => marks.map((mark) => (isHours ? hourOf(mark) : dayOf(mark))) }, { ...axis, size: Y_AXIS_PX, ...(kind === 'bars' ? { incrs: WHOLE } : {}), values: (_, marks) => marks.map((mark) => scale(mark)) }],
        series: [
          {},
          {
            label, stroke: line!, width: 2, points: { show: times.length < 40 },
            ...(kind === 'bars' ? { fill: bar!, stroke: bar!, width: 0, paths: uPlot.paths.bars!({ size: [0.7, 40] }), points: { show: false } } : {}),
          },
        ],
      },
      [times, values], element,
    )
    const follow = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT_PX }))
    follow.observe(element)
    return () => { follow.disconnect(); plot.destroy() }
  }, [instants, values, isDark, theme])
  return <div class="chart" ref={box} role="img" aria-label={label} />
}

/** Shows the time and the value under the pointer in the corner of the chart. */
function tell(plot: uPlot, box: HTMLElement, isHours: boolean, values: (number | null)[], format: Properties['format']) {
  const at = plot.cursor.idx
  box.dataset.told = at == null ? '' : `${(isHours ? hourOf : dayOf)(plot.data[0]![at]!)}: ${format(values[at])}`
}

const dayOf = (seconds: number) => formats.day(new Date(seconds * 1_000).toISOString().slice(0, 10))

const hourOf = (seconds: number) => formats.hour(new Date(seconds * 1_000).toISOString())

/** A colour of the style sheet for a canvas. An element with that colour resolves `light-dark()`. */
function colour(element: HTMLElement, name: string): string {
  element.style.color = `var(--${name})`
  const found = getComputedStyle(element).color
  element.style.color = ''
  return found
}
