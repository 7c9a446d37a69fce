/** Periods of views. */

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

/** This number of days before now. */
export const daysAgo = (days: string) => new Date(Date.now() - Number(days) * DAY_MS)

/** The first whole day (in UTC) or hour since an instant: a part of one would look like a drop in a chart. */
export function firstWhole(since: Date, per: 'day' | 'hour'): Date {
  const step = per === 'day' ? DAY_MS : HOUR_MS
  return new Date(Math.ceil(since.getTime() / step) * step)
}
