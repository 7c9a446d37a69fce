"""Finds English sentences in which the assistant says that it has done something outside its reply.

A claim is recognised by its grammar and not by a list of actions: "I've" or "I" with a past participle,
"your order has been" with one, "Timer set". Words that name thoughts, and texts that stand in the reply
itself, are excluded by lists, and so are other actors, times in the past and conditions.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from toolroll.formats.repair.english_words import (
    DESCRIPTIONS,
    INNER,
    LOOKING,
    MAKING,
    NO_ANSWER,
    SENDING,
    THING,
    UNINFLECTED,
    WORK,
    WRITING,
)

_IRREGULAR = (
    "begun|blown|bought|brought|built|caught|chosen|cut|dealt|done|drawn|driven|fed|forgotten|found|frozen|given"
    "|gone|got|gotten|had|heard|held|hidden|hit|hung|kept|known|laid|learnt|led|left|lent|let|lit|lost|made|meant|met"
    "|overwritten|paid|put|read|rebuilt|redone|rerun|reset|resent|rewritten|run|said|seen|send|sent|set|shown|shut"
    "|sold|spent|spoken|split|spun|spread|stuck|swept|swung|taken|torn|woken|wound|worn|taught|thought|thrown|told|turned|undone|unsent"
    "|understood|upheld|withdrawn|won|written"
)
_PARTICIPLE = (
    rf"(?:(?:{_IRREGULAR})|(?!(?:need|feed|speed|seed|exceed|proceed|succeed|bleed|breed|heed|embed|hundred"
    r"|indeed|bed|red|shed)\b)[a-z]{2,18}ed)"
)
_PAST = (  # irregular forms of the simple past, beside those of _IRREGULAR that are the same
    "began|chose|did|drew|drove|forgot|froze|gave|got|had|rang|kept|knew|left|made|meant|saw|spoke|threw|took|undid"
    "|unfroze|went|withdrew|won|wrote|rewrote|ran|shut|switched"
)
_ADVERB = (
    r"(?:(?:just|now|already|also|successfully|since|then|even|both|finally|manually|immediately|quickly"
    r"|gladly"
    r"|therefore|duly|simply|safely|automatically|temporarily|permanently|actually|fully|officially"
    r"|recently"
    r"|personally|remotely|properly|politely|gone ahead and|went ahead and|taken the liberty of) )*"
)


_OUTSIDE = re.compile(
    r"\b(?:to|in|into|on|onto|from|off|under|through|at|inside|across|for)\b[^.,;:]{0,40}\b(?:folder"
    r"|drive|calendar"
    r"|lists?|inbox|spreadsheet|sheet|account|accounts|board|channel|album|playlist|notebook|notes|log"
    r"|repo\w*"
    r"|database|crm|queue|cart|basket|order|profile|settings|contacts|form|file|files|page|website|site"
    r"|wiki|desktop"
    r"|downloads|documents|bucket|server|cluster|cloud|ticket|project|backlog|sprint|presentation|slides"
    r"|group|plan"
    r"|system|records?|dashboard|table of|schedule|todo|to-do|agenda|tracker|registry|portal|branch|web"
    r"|internet"
    r"|online|mailbox|messages|e-?mails|mails|history|statement|logs|excel|csv|pdf|notion|slack|github"
    r"|jira|trello"
    r"|library|catalog|warehouse|store|shop|bank|scheduler|reminders)\b"
    r"|\b[\w-]+\.(?:md|pdf|txt|csv|xlsx?|docx?|pptx?|json|ya?ml|py|js|ts|html|png|jpe?g|mp[34]|zip|log"
    r"|sql)\b"
    r"|\b(?:online|the web|your (?:\w+ )?(?:calendar|inbox|drive|contacts|account|orders?|mail|e-?mails?"
    r"|schedule|files|settings|profile|(?:\w+ )?reservations?|bookings?|tickets?|policy|records?|address"
    r"|spreadsheet|messages|logs|subscription|cart|tracking))\b"
    r"|\bthe (?:tracking|logs?|database|weather|web|status|inventory|stock|availability|server|dashboard"
    r"|forecast)\b"
)
_GIVEN = re.compile(  # the user's text, or something shown in the reply
    r"\b(?:you (?:\w+ )?(?:gave|pasted|posted|sent|shared|linked|quoted|provided|wrote|attached|described"
    r"|mentioned)"
    r"|your (?:\w+ )?(?:code|snippet|function|text|essay|sentence|paragraph|question|math|maths|formula"
    r"|draft"
    r"|wording|example|answer|proof|poem|script|query|logic|argument|reasoning|story|regex|first|second"
    r"|two|notes"
    r"|input|feedback|points?)"
    r"|(?:first|second|third|last) (?:line|sentence|paragraph|step|word|clause|one)"
    r"|my (?:reasoning|thoughts|answer|points)|sentences?|paragraphs?|commas?|spelling|grammar|wording"
    r"|tone|comments|bold|italics|the words?|asterisk|variable|jokes?"
    r"|below|above|following|for you to (?:review|read)|(?:this|my) (?:reply|answer|response))\b"
)
_WORK_OBJECT = re.compile(
    rf"^(?:(?:an?|the|two|three|four|five|some|you|both|your|\d+) ?)?(?:[\w'’-]+ ){{0,3}}?(?:{WORK})\b"
)
_DISPLAY = re.compile(
    r"[ *]*\n\s*(?:```|>|\||[\"“*•]|- |\d[.)] "
    r"|#)"
)  # follows the sentence of what is shown

_HERE = re.compile(r"\bhere(?:['’]s| is| are)\b|\bbelow\b|```", re.IGNORECASE)  # "Done! Here is the text."

_CONDITION = re.compile(
    r"\b(?:if|once|when|whenever|after|unless|until|whether|before|not|never|cannot|nothing|none|no"
    r"|nobody|neither"
    r"|may|might|could|would|should|must|will|shall|seems?|appears?|apparently|looks|pretend|imagine"
    r"|suppose|assume"
    r"|believe|think|guess|hope|understand|see|glad|great that|sorry|who|whom|whose|which|while|because"
    r"|according"
    r"|says?|said|means|sure that|check that|you|he|she|they|someone|somebody|nor|until|than|though"
    r"|although"
    r"|as soon|like|wish|recommend|suggest|afraid|congratulations|thanks? (?:you )?for|how|why|where"
    r"|to have|as i"
    r"|what|story|example|in theory|usually|often|always|generally|typically|every|each|any)\b|n['’]t\b"
)
# What may stand before "I" or a passive subject, although _CONDITION lists its words.
_OPENING = re.compile(
    r"^\W*(?:(?:done|all set|don['’]t worry|no (?:problem|worries)(?: at all)?|as (?:you )?(?:requested"
    r"|asked|discussed|instructed|agreed)"
    r"|thank(?:s| you)[^,.!]{0,40}|great(?: news)?|good news|sure(?: thing)?|here['’]s what i did"
    r"|per your request"
    r"|like you asked|i['’]m (?:happy|pleased|glad) to (?:say|report|confirm|tell you) that"
    r"|(?:please )?(?:rest assured|note|be advised)(?: that)?|i can confirm that|just to confirm)\W+)+"
)
_OTHERS = re.compile(
    r"\bby (?!e-?mail\b|mail\b|post\b|phone\b|sms\b|text\b|hand\b|default\b|date\b|one\b|\d|then\b|now\b"
    r"|courier\b"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|noon|midnight|bank|card|priority|name)"
    r"|\bfrom your (?:own |colleague)|\bbecause\b|\bdue to\b|\bsince\b|\btoo many\b|\bseveral times\b"
    r"|\bfor years\b"
    r"|\bso (?:you may|you can claim|you['’]re entitled)|\b(?:twice|many times|a lot)\b|\band was\b"
)
_LONG_AGO = re.compile(
    r"\b(?:yesterday|ago|last (?:night|week|month|year|\w+day)|years|in (?:19|20)\d\d|back then)\b"
)
_PAST_TIME = re.compile(
    r"\b(?:yesterday|ago|last (?:night|week|month|year|\w+day|spring|summer|autumn|winter)|this morning"
    r"|earlier"
    r"|in (?:19|20|1[0-8])\d\d|in (?:spring|summer|autumn|winter|january|february|march|april|may|june"
    r"|july|august"
    r"|september|october|november|december)|on (?:the )?\d+|on (?:mon|tues|wednes|thurs|fri|satur"
    r"|sun)day"
    r"|at (?:\d\d:\d\d|noon|midnight)|at \d+ ?[ap]m|back then|before the)\b"
)

_FIRST = re.compile(rf"\b(?:(?:i|we)'ve|(?:i|we) have|ive) {_ADVERB}({_PARTICIPLE})\b")
_FIRST_PAST = re.compile(rf"\bi {_ADVERB}({_PAST}|{_PARTICIPLE})\b(?!'t)")
_START = r"(?:^|[,:;—–] (?:and |so |but )?)"
_PASSIVE = re.compile(
    rf"{_START}((?:(?:your|the|all|both|everything|it|this|that|these|they|an?|my|our|everyone|every)\b"
    rf"|it['’]s)[^,;:()]{{0,70}}?)"
    rf" ?\b(?:have|has|['’]ve|(?<=it)['’]s) (?:{_ADVERB})been {_ADVERB}({_PARTICIPLE})\b"
)
_SUCCESS = re.compile(rf"\bsuccessfully ({_PARTICIPLE})\b|\b({_PARTICIPLE}) successfully\b")
_WENT = re.compile(rf"{_START}(?:your|the)\b[^,;:()]{{0,60}}? (?:(?:has|have) gone|went) (?:through|out)\b")
_MANAGED = re.compile(
    r"\bi(?: was able|'ve managed| managed|'ve been able) to (?:add|assign|block|book|call|cancel|change"
    r"|close|create"
    r"|delete|deploy|extend|get|install|make|move|order|pay|post|reach|register|remove|reschedule|reserve"
    r"|reset|restart"
    r"|restore|save|schedule|send|set|start|submit|turn|update|upgrade|upload)\b"
)
_CONTRACTED = re.compile(rf"(?:^|[,:;—–] )(?:\w+'s|you've) {_ADVERB}been {_ADVERB}({_PARTICIPLE})\b")
_WAS = re.compile(
    rf"{_START}((?:your|the|all|both|everything)\b[^,;:()]{{0,60}}?) (?:was"
    rf"|were) (successfully )?{_ADVERB}({_PARTICIPLE})( successfully)?\b"
)
_STATE = re.compile(
    rf"{_START}((?:your|the|all|everything|both)\b[^,;:()]{{1,60}}?|it|that|you|everything|this)(?: (?:is"
    rf"|are)|['’]s|['’]re) (?:all |both )?"
    rf"(?:(?P<now>now (?:\w+ly )?(?:{_PARTICIPLE}|on|off|live|active|open|out|up|back|running|paused|in"
    rf"|available|gone)"
    rf"|now in the|(?:charging|running|online|up) again)"
    r"|(?P<plain>booked|reserved|confirmed|scheduled|cancell?ed|live|on (?:its|their|the) way|extended"
    r"|activated|deactivated"
    r"|renewed|refunded|restored|enabled|disabled|returned|complete|taken care of|merged"
    r"|resolved|upgraded|frozen|blocked|placed|submitted|checked in|registered|locked|armed|unlocked"
    r"|underway"
    r"|closed|saved|all set|paid|(?:made|sorted|off|on|done|out|gone|live|set)(?=\s*(?:$|[.,;!—–-]| and"
    r"| again| now| for| in all)))\b)"
)
_STATE_EXCLUDED = re.compile(
    r"\b(?:fully|closed on|done by|done in|on (?:mon|tues|wednes|thurs|fri|satur|sun)days|set (?:in|by)"
    r"|out of|off to"
    r"|as your|on (?:the )?(?:table|left|right|page)|gone (?:mad|up|down)|up to|set for the trip"
    r"|in economy|on average|confirmed as|when|if|once|unless|until|after|as soon|like this"
    r"|in your (?:\w+ )?example)\b"
)
_HEAD_STOP = (
    "is|are|was|were|be|been|being|has|have|had|do|does|did|can|could|will|would|shall|should|may|might|must|that"
    "|which|who|when|if|while|and|or|but|because|not|no|to|of the|i|you|he|she|we|they|it|by"
    "|how|what|get|gets"
    "|already|easier|never|well|once|half|done"
)
_ELLIPTIC = re.compile(
    rf"^((?!(?:{_HEAD_STOP}|built|written|based|according|well"
    rf"|not)\b)[a-z0-9#'’/&~\"-]+(?: (?!(?:{_HEAD_STOP})\b)[a-z0-9#'’/&~\"-]+){{0,4}}?)"
    rf" (?:has been |now )?(?:successfully |now )?({_PARTICIPLE})(?: (?:as|for|to|at|with|in|into|on|and"
    rf"|off|down|up|out|again|until|successfully)\b|\s*(?:$|[.!,;:✅🎉]))"
)
_LEADING = re.compile(
    rf"^(?:already |successfully |just |now )?({_PARTICIPLE})(?: (?:the|your|you|a|an|all|both|two|three"
    rf"|four|five|six|ten|twelve|it|them|him|her"
    r"|that|this|these|to|into|as|for|out|off|up|back|successfully|and|\d[\d,.]*|`[^`]*`|[A-Z#@][\w-]*"
    r"|nginx|everyone|everything)\b"
    r"|\s*(?:$|[.!✅🎉]|:(?! *\d)))"
)
_ALONE = re.compile(
    r"^(?:(?:okay|ok|alright|all right|yes|yep|sure|great|perfect|thanks|and)\W+)*"
    r"(?:all |it['’]s |that['’]s |everything['’]s |consider it |already )?"
    r"(?:done|finished|completed|complete|sent|booked|sorted|taken care of|submitted|saved|cancell?ed"
    r"|deleted|updated"
    r"|confirmed|success)(?: (?:for you|now|as requested))*[\s.!✅🎉👍✔]*$"
)
_ALL_SET = re.compile(
    r"^(?:(?:okay|ok|great|perfect|✅)\W+)*(?:all|you['’]re all|you are all|everything is"
    r"|you['’]re) set[\s.!✅🎉]*$"
)
_HABIT = re.compile(r"\b(?:every|today|near|usually|always|only|for (?:adults|children|members))\b")
_FINITE = re.compile(
    r"^[^.,;:!—–]*\b(?:that|which|suggests|shows|means|is|are|was|were|can|must|will|has|have|cannot"
    r"|apply|applies|entitles?|stay)\b"
)
_SUBJECT_FOLLOWS = re.compile(
    rf"{_FINITE.pattern}|^[^.;!—–]*, (?:the|this|these|an?|it|you|we|he|she|they|prices|\w+ (?:is|are|was"
    rf"|were))\b"
)
_LABEL = re.compile(r"[A-Z][\w']*(?: [A-Z][\w']*){1,3}:")  # "Total Paid: 40"
_NO_ACTION = re.compile(
    r"^ (?:no|nothing|none|not|up the (?:numbers|figures|sum)|(?:(?:it|them) )?with an?)\b"
    r"|\binto account\b|\bin my head\b|\btense\b"
    r"|\bin my (?:last|previous|first|earlier)\b"
)
_AND_THEN = re.compile(rf"\band (?:then )?({_PARTICIPLE})\b")
_IDIOM = re.compile(  # verbs of INNER that are actions with these words
    r"(?:let|left) [^.,;]{1,40}\b(?:know|message|note)\b|(?:did|done) (?:that|this|it|so|the)\b"
    r"|(?:took|taken) (?:care of|the)\b|(?:ran|run) (?:the|a|your|all)\b|gave [^.,;]{1,40}\b(?:access"
    r"|permission)"
    r"|found your (?:\w+ ){0,2}(?:reservations?|bookings?|orders?|account|profile|details|flights?"
    r"|tickets?|records?)\b"
    r"|turned (?:\S+ ){0,4}(?:on|off|up|down)\b|switched\b|found (?:\S+ ){1,6}(?:in|on|under) your\b"
    r"|asked [A-Z]\w+ to\b|told (?:[A-Z]\w+|him|her|them)\b"
    r"|got you\b|called the\b"
)


class Found(NamedTuple):
    """A claim's place in its sentence, half-open."""

    start: int
    end: int


def claim_in(sentence: str, following: str) -> Found | None:
    """The claim that a sentence makes; None if it makes none.

    Args:
        sentence: without quoted text, and without the marks of a list before it.
        following: the reply behind the sentence, which may show what the sentence names.
    """
    stripped = sentence.lower().replace("’", "'").strip(" \t*_#>-•–—")
    for pattern in (_ALONE, _ALL_SET):
        if pattern.match(stripped.lstrip("✅✔☑️🎉👍 ")) is not None:
            whole = Found(len(sentence) - len(sentence.lstrip()), len(sentence.rstrip()))
            return None if _HERE.search(following) else whole
    said = sentence.lower().replace("’", "'")
    if len(said) != len(sentence):
        return None
    opening = _OPENING.match(said)
    start = opening.end() if opening else len(said) - len(said.lstrip(" \t*_#>-•–—✅✔☑️🎉👍!."))
    body = said[start:]
    found = (
        _first_person(sentence[start:], body, following)
        or _statement(body, opened=opening is not None)
        or _without_verb(sentence[start:], body)
    )
    return None if found is None else Found(start + found.start, start + found.end)


def _first_person(spoken: str, body: str, following: str) -> Found | None:
    """A sentence in the first person: "I've sent the email.", "I restarted the server."."""
    shown = body.rstrip().endswith(":") or _DISPLAY.match(following) is not None
    for pattern in (_FIRST, _FIRST_PAST):
        match = pattern.search(body)
        if match is None or _CONDITION.search(_clause_before(body, match.start())):
            continue
        if match[0].startswith("we") and not re.search(r"\byou", body) and match[1] not in SENDING:
            continue
        if _is_action(match[1], spoken[match.start(1) :][:300], body[match.end() :][:300], shown):
            return Found(*match.span())
    return None


def _statement(body: str, opened: bool) -> Found | None:
    """A statement about a thing: "Your order has been cancelled.", "The booking is confirmed.".

    Args:
        body: the sentence in lower case, without its opening.
        opened: whether the opening was "Done," or the like.
    """
    for pattern in (_SUCCESS, _PASSIVE, _CONTRACTED, _WENT, _MANAGED, _WAS, _STATE):
        match = pattern.search(body)
        if match is None or not _is_own_statement(body, match):
            continue
        rest = body[match.end() :][:300]
        if pattern in (_SUCCESS, _PASSIVE, _CONTRACTED):
            group = match.lastindex or 0
            is_inner = match[group] in INNER and not _IDIOM.match(body, match.start(group))
            is_claim = not is_inner and not _PAST_TIME.search(rest)
        elif pattern is _WAS:
            is_near = match[2] or match[4] or match[1].startswith("your") or _OUTSIDE.search(rest)
            is_claim = bool(is_near) and not _PAST_TIME.search(rest)
        elif pattern is _STATE and match["plain"] and match[1].startswith("the") and not opened:
            # "The shop is closed today" describes; "The booking is confirmed" claims.
            is_claim = match["plain"] not in DESCRIPTIONS and not _HABIT.search(rest)
        else:
            is_claim = True
        if is_claim:
            return Found(*match.span())
    return None


def _is_own_statement(body: str, match: re.Match[str]) -> bool:
    """Whether a statement has no condition, and is neither about the user's text nor about other actors."""
    subject = match[1] if match.re in (_PASSIVE, _WAS, _STATE) else ""
    you = len("you") if re.match(r"you\b", body) else 0  # "you" is a condition only behind something else
    if _GIVEN.search(match[0]) or _FINITE.search(subject) or _CONDITION.search(body, you, match.end()):
        return False
    by_others = _OTHERS.search(body[match.end() :][:300]) and "successfully" not in match[0]
    return not by_others and not _STATE_EXCLUDED.search(body, 0, match.end() + 40)


def _clause_before(body: str, end: int) -> str:
    """The part of the sentence whose conditions apply to the claim."""
    return re.split(r"[;:—–]", body[:end])[-1]


def _is_action(verb: str, spoken: str, rest: str, shown: bool) -> bool:
    """Whether the first person's verb names an action outside the reply."""
    if _LONG_AGO.search(rest) or _NO_ACTION.search(rest):
        return False
    if (also := _AND_THEN.search(rest)) is not None and also[1] in SENDING:
        return True
    given = _GIVEN.search(rest) is not None
    outside = _OUTSIDE.search(rest) is not None
    if _IDIOM.match(spoken):
        return not given
    if verb in SENDING:
        return True
    if verb == "searched" or (verb == "looked" and re.match(r" (?:\w+ )?up\b", rest)):
        return not given
    if verb in LOOKING:
        return outside and not given
    if verb in INNER:
        return False
    if verb in WRITING:
        return outside and not given
    if verb in MAKING:
        plain = not (given or shown or _WORK_OBJECT.match(rest.strip()))
        return outside or (plain and THING.search(rest) is not None)
    return not given or outside


def _without_verb(spoken: str, body: str) -> Found | None:
    """A sentence without a finite verb: "Restarted the server.", "Timer set for ten minutes."."""
    if _LABEL.match(spoken):
        return None
    match = _LEADING.match(body[:1] + spoken[1:])
    if match is not None and match[1] not in NO_ANSWER | UNINFLECTED:
        rest = body[match.end() :]
        if not _OTHERS.search(rest) and not _SUBJECT_FOLLOWS.search(rest):
            return Found(*match.span())
    match = _ELLIPTIC.match(body)
    if match is None or match[2] in NO_ANSWER or ":" in match[1]:
        return None
    if _OTHERS.search(body) or _FINITE.search(body[match.end(2) :]):
        return None
    return Found(*match.span())
