"""Words that tell English claims from thoughts, texts in the reply, and descriptions."""

from __future__ import annotations

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Verbs that name a thought, a way to speak, or a failure: the first person does them without any tool.
INNER = _words(
    """
    agreed answered apologised apologized appreciated argued assessed assumed attempted avoided based
    became become been begun believed broken brought called came chosen claimed clarified concluded
    considered covered decided deduced defined deliberated demonstrated derived described discussed
    elaborated emphasised emphasized enjoyed estimated evaluated expected explained explored failed felt
    finished focused followed forgot forgotten found gave given gone got gotten grew grown guessed had
    heard helped hoped identified ignored illustrated imagined included indicated inferred intended
    interpreted introduced kept knew known learned learnt left liked limited listed lost loved meant
    mentioned met misread missed mistook misunderstood named needed noted noticed omitted outlined
    overlooked paraphrased picked planned pointed preferred presented proposed proved proven provided
    ran read realised realized reasoned recalled received recommended referred relied remembered
    repeated rephrased said saw seemed seen showed shown simplified skipped solved spotted stated
    stressed structured stuck suggested supposed taught thought trained treated tried turned understood
    used waited walked wanted was watched weighed went wondered worked worried wrote
    """
)
# Verbs whose work may stand in the reply: a text, a calculation, a change to the user's text.
WRITING = _words(
    """
    adapted adjusted analysed analyzed annotated bolded brainstormed calculated capitalised capitalized
    chosen collected commented compared compiled composed computed condensed converted corrected counted
    designed drafted edited estimated expanded fixed formatted gathered generated grouped highlighted
    invented kept listed marked modified numbered optimised optimized organised organized outlined
    picked polished prepared proofread ranked refactored reformatted rephrased restructured reviewed
    revised reworded rewritten rewrote shortened simplified sketched sorted split summarised summarized
    tightened translated underlined verified worked written wrote
    """
)
# Verbs that may be either: claims if they name a thing or a place outside the reply.
MAKING = _words(
    """
    added attached built changed cleaned combined completed created cut deleted dropped included
    inserted made merged moved put removed renamed replaced set updated
    """
)
# Verbs whose work is never in the reply.
SENDING = _words(
    """
    booked canceled cancelled deployed emailed forwarded informed issued mailed messaged notified
    ordered paid posted published refunded rescheduled reserved restarted scheduled sent shipped
    submitted texted transferred
    """
)
# Verbs that are claims if they name a place outside the reply, such as a calendar.
LOOKING = _words(
    """
    checked examined gone had inspected looked pulled queried read reviewed searched went
    """
)
# Participles that look like the imperative, at the start of a sentence.
UNINFLECTED = _words(
    """
    cut hit lead let put read reset run send set shut split spread
    """
)
# States that describe a thing as often as they claim: "the shop is closed".
DESCRIPTIONS = _words(
    """
    blocked closed done gone live locked made off on out paid placed saved set sorted
    """
)
# Participles that say something of a thing and not of an action, where no verb stands beside them.
NO_ANSWER = (INNER - {"turned"}) | _words(
    """
    advanced advised allowed based called combined compared concerned delighted detailed estimated
    excited expected given included interested involved known limited listed located named needed
    offered permitted pleased prepared rated recommended related required suggested supposed unlimited
    unsaved used wanted
    """
)
THING = re.compile(  # things that programs keep, as objects of a verb of MAKING
    r"\b(?:events?|meetings?|reminders?|appointments?|tasks?|tickets?|orders?|address(?:es)?|accounts?"
    r"|backups?|photos?|files?|folders?|documents?|branch(?:es)?|buckets?|users?|contacts?|playlists?|songs?"
    r"|alarms?|timers?|limits?|passwords?|pins?|cards?|deadlines?|due date|dates?|reservations?|bookings?"
    r"|seats?|subscriptions?|memberships?|invoices?|payments?|transfers?|refunds?|prices?|projects?|groups?"
    r"|channels?|posts?|issues?|jobs?|index(?:es)?|rules?|permissions?|roles?|servers?|services?|databases?"
    r"|records?|rows?|columns?|leads?|customers?|opportunit(?:y|ies)|campaigns?|items?|entr(?:y|ies)"
    r"|invitations?|invites?|calls?|messages?|e-?mails?|newsletters?|thermostat|lights?|heating|volume"
    r"|temperature|profile|picture|settings?|status|priority|labels?|tags?|versions? \d|keys?|tokens?"
    r"|certificates?|domains?|dns|cache|vms?|instances?|clusters?|deployments?|containers?|shifts?|routes?"
    r"|deliver(?:y|ies)|parcels?|flights?|rooms?|cars?|tables? for|requests?|cases?|claims?|polls?"
    r"|workspaces?|sprints?|stor(?:y|ies) to|devices?|zones?|gb|mb)\b"
)
WORK = (  # texts that a reply may hold
    "drafts?|versions?|functions?|code|scripts?|snippets?|examples?|tables?|lists?|texts?|poems?|songs?"
    "|stor(?:y|ies)|translations?|(?:\\w+ )?plans?|summar(?:y|ies)|outlines?|overviews?|explanations?"
    "|itinerar(?:y|ies)|quiz(?:zes)?"
    "|names|headlines?|captions?|paragraphs?|sentences?|ideas|haiku|essays?|letters?|announcements?|menus?|schedules?"
    "|recipes?|checklists?|templates?|slogans?|titles?|suggestions?|alternatives?|options|questions|answers?"
)
