/** Access to tools: rules, the reason for one tool and caller, toolkits of pages, pins and settings. */

import { linkTo } from '../route'
import { t } from '../texts'
import { OrganisationPart } from './access_organisation'
import { PagesPart } from './access_pages'
import { RulesPart } from './access_rules'
import { WhyPart } from './access_why'
import type { ViewProperties } from './properties'

const PARTS = { rules: RulesPart, why: WhyPart, pages: PagesPart, organisation: OrganisationPart }
type PartName = keyof typeof PARTS

export function Access(properties: ViewProperties) {
  const chosen = (properties.name in PARTS ? properties.name : 'rules') as PartName
  const Part = PARTS[chosen]
  return (
    <>
      <div class="title">
        <div><h1>{t.access.title}</h1><p>{t.access.explanations[chosen]}</p></div>
        <nav class="choices" aria-label={t.access.parts}>
          {(Object.keys(PARTS) as PartName[]).map((part) => (
            <a key={part} href={linkTo('access', part)} aria-current={part === chosen ? 'page' : undefined}>{t.access.partNames[part]}</a>
          ))}
        </nav>
      </div>
      <Part {...properties} />
    </>
  )
}
